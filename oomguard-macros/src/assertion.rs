//! `assert_no_growth!(warmup = 5, iterations = 50, tolerance = "1 MiB", || step())`: parsed, checked and expanded.

use crate::args::unknown;
use crate::size::Size;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitInt, Token};

const ARGUMENTS: &[(&str, &str)] =
    &[("warmup", "warmup = 5"), ("iterations", "iterations = 50"), ("tolerance", "tolerance = \"1 MiB\"")];

/// Fewer iterations than this leave nothing to compare: each half needs a level of its own.
const FEWEST_ITERATIONS: u32 = 2;

/// The macro's input.
pub(crate) struct NoGrowth {
    warmup: Option<u32>,
    iterations: Option<u32>,
    tolerance: Option<Size>,
    step: Expr,
}

impl Parse for NoGrowth {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut warmup, mut iterations, mut tolerance) = (None, None, None);
        while input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            let key = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            let again = match key.to_string().as_str() {
                "warmup" => warmup.replace(count(input, 0)?).is_some(),
                "iterations" => iterations.replace(count(input, FEWEST_ITERATIONS)?).is_some(),
                "tolerance" => tolerance.replace(input.parse()?).is_some(),
                _ => return Err(unknown(&key, ARGUMENTS)),
            };
            if again {
                return Err(syn::Error::new(key.span(), format!("`{key}` is given twice: keep one")));
            }
            input
                .parse::<Token![,]>()
                .map_err(|error| syn::Error::new(error.span(), "expected `, || step()` to follow"))?;
        }
        if input.is_empty() {
            return Err(input.error("expected what to run: a closure such as `|| step()`"));
        }
        let step = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error("expected nothing after the closure: arguments come before it"));
        }
        Ok(Self { warmup, iterations, tolerance, step })
    }
}

fn count(input: ParseStream<'_>, least: u32) -> syn::Result<u32> {
    let expected = || format!("expected an integer of {least} or more");
    let literal: LitInt = input.parse().map_err(|error| syn::Error::new(error.span(), expected()))?;
    literal
        .base10_parse()
        .ok()
        .filter(|count| *count >= least)
        .ok_or_else(|| syn::Error::new(literal.span(), expected()))
}

impl NoGrowth {
    /// A call of the runtime's assertion.
    pub(crate) fn expand(&self) -> TokenStream {
        let step = &self.step;
        let warmup = self.warmup.map(|count| quote!(.warmup(#count)));
        let iterations = self.iterations.map(|count| quote!(.iterations(#count)));
        let tolerance = self.tolerance.map(|Size(bytes)| quote!(.tolerance(#bytes)));
        quote! { ::oomguard::assertion::NoGrowth::new() #warmup #iterations #tolerance .check(#step) }
    }
}
