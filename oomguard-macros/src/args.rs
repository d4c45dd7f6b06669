//! The arguments of `#[track_gpu_mem(…)]`: which there are, what each takes, and what to say when one is wrong.

use crate::size::Size;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitStr, Path, Token};

/// Every argument and an example of it, as error messages list them.
const ARGUMENTS: &[(&str, &str)] = &[
    ("name", "name = \"load\""),
    ("growth", "growth = \"64 MiB\""),
    ("peak", "peak = \"1 GiB\""),
    ("crate", "crate = renamed::oomguard"),
];

/// What stands between the parentheses of the attribute.
#[derive(Default)]
pub(crate) struct TrackArgs {
    /// The scope's name; without one it is the function's path.
    pub(crate) name: Option<LitStr>,
    /// The most bytes that a call may net before it is reported.
    pub(crate) growth: Option<Size>,
    /// The most bytes above its entry that a call may reach before it is reported.
    pub(crate) peak: Option<Size>,
    /// Where the runtime is, when the user's crate renamed it.
    pub(crate) krate: Option<Path>,
}

impl Parse for TrackArgs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut args = Self::default();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let name = key.to_string();
            if !ARGUMENTS.iter().any(|(argument, _)| *argument == name) {
                return Err(unknown(&key, ARGUMENTS));
            }
            if !input.peek(Token![=]) {
                return Err(syn::Error::new(
                    key.span(),
                    format!("`{name}` takes a value: write `{}`", example_of(&name)),
                ));
            }
            input.parse::<Token![=]>()?;
            let again = match name.as_str() {
                "name" => args.name.replace(parse_name(input)?).is_some(),
                "growth" => args.growth.replace(input.parse()?).is_some(),
                "peak" => args.peak.replace(input.parse()?).is_some(),
                _ => args.krate.replace(input.call(Path::parse_mod_style)?).is_some(),
            };
            if again {
                return Err(syn::Error::new(key.span(), format!("`{name}` is given twice: keep one")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(args)
    }
}

fn example_of(name: &str) -> &'static str {
    ARGUMENTS.iter().find(|(argument, _)| *argument == name).map_or("", |(_, example)| example)
}

fn parse_name(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let name: LitStr = input.parse().map_err(|error| {
        syn::Error::new(error.span(), "expected the scope's name as a string: write `name = \"load\"`")
    })?;
    if name.value().trim().is_empty() {
        return Err(syn::Error::new(name.span(), "an empty name: leave `name` out and the scope is named by its path"));
    }
    Ok(name)
}

/// The error for a key that no argument has: it names the nearest one, or all of them.
pub(crate) fn unknown(key: &Ident, arguments: &[(&str, &str)]) -> syn::Error {
    let written = key.to_string();
    // Two slips (a swapped pair counts as one) still mean the same word; beyond that a guess misleads.
    let nearest = arguments
        .iter()
        .map(|(argument, example)| (strsim::damerau_levenshtein(&written, argument), example))
        .filter(|(distance, _)| *distance <= 2)
        .min_by_key(|(distance, _)| *distance);
    let message = match nearest {
        Some((_, example)) => format!("unknown argument `{written}`: did you mean `{example}`?"),
        None => {
            let all: Vec<_> = arguments.iter().map(|(_, example)| format!("`{example}`")).collect();
            format!("unknown argument `{written}`: expected {}", all.join(", "))
        }
    };
    syn::Error::new(key.span(), message)
}
