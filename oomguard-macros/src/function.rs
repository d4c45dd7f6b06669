//! The function under the attribute: parsed as little as possible, and refused where it cannot be tracked.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, FnArg, Ident, ReturnType, Signature, Token, Type, Visibility, braced};

/// A function or method with a body, wherever it stands: free, in an `impl`, in a trait.
///
/// The body stays unparsed, so that it keeps its tokens, its spans and its errors.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) sig: Signature,
    pub(crate) brace: syn::token::Brace,
    pub(crate) inner_attrs: Vec<Attribute>,
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        let defaultness = if input.peek(Token![default]) && !input.peek2(Token![!]) { input.parse()? } else { None };
        refuse_other_items(input)?;
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            return Err(syn::Error::new(
                sig.ident.span(),
                "a function without a body has nothing to track: put `#[track_gpu_mem]` on its implementations",
            ));
        }
        let content;
        let brace = braced!(content in input);
        let inner_attrs = content.call(Attribute::parse_inner)?;
        Ok(Self { attrs, vis, defaultness, sig, brace, inner_attrs, body: content.parse()? })
    }
}

/// Names the item that the attribute cannot stand on, where it is one that people try.
fn refuse_other_items(input: ParseStream<'_>) -> syn::Result<()> {
    let item = if input.peek(Token![struct]) || input.peek(Token![enum]) || input.peek(Token![union]) {
        "a type"
    } else if input.peek(Token![impl]) || (input.peek(Token![unsafe]) && input.peek2(Token![impl])) {
        "an `impl` block"
    } else if input.peek(Token![mod]) {
        "a module"
    } else if input.peek(Token![trait]) {
        "a trait"
    } else if input.peek(Token![static]) || input.peek(Token![let]) {
        "a value"
    } else if input.peek(Token![move]) || input.peek(Token![|]) {
        "a closure"
    } else {
        return Ok(());
    };
    Err(input
        .error(format!("`#[track_gpu_mem]` stands on functions and methods, not on {item}: put it on each function")))
}

impl Function {
    /// Refuses what no expansion can serve.
    pub(crate) fn check(&self) -> syn::Result<()> {
        if let Some(constness) = &self.sig.constness {
            return Err(syn::Error::new(
                constness.span,
                "a `const fn` may run in the compiler, where there is no GPU: track the function that calls it",
            ));
        }
        if let Some(variadic) = &self.sig.variadic {
            return Err(syn::Error::new(
                variadic.dots.spans[0],
                "a variadic function cannot be tracked: track the function that calls it",
            ));
        }
        Ok(())
    }

    /// Whether the return type is written as some `Result`, so that errors can be counted.
    pub(crate) fn returns_result(&self) -> bool {
        match &self.sig.output {
            ReturnType::Type(_, ty) => match plain(ty) {
                Type::Path(path) => {
                    path.path.segments.last().is_some_and(|segment| segment.ident.to_string().ends_with("Result"))
                }
                _ => false,
            },
            ReturnType::Default => false,
        }
    }

    /// The return type where a `let` or a closure may repeat it: not where it holds `impl Trait`, nor `!`.
    pub(crate) fn writable_output(&self) -> Option<TokenStream> {
        match &self.sig.output {
            ReturnType::Default => Some(quote::quote!(())),
            ReturnType::Type(_, ty) if holds_impl_trait(ty) || matches!(plain(ty), Type::Never(_)) => None,
            ReturnType::Type(_, ty) => Some(ty.to_token_stream()),
        }
    }

    /// Whether the function never returns.
    pub(crate) fn diverges(&self) -> bool {
        matches!(&self.sig.output, ReturnType::Type(_, ty) if matches!(plain(ty), Type::Never(_)))
    }

    /// Whether `self` is an owned value, which is dropped with the function's parameters.
    pub(crate) fn owns_self(&self) -> bool {
        self.sig.inputs.iter().any(|input| {
            matches!(input, FnArg::Receiver(receiver) if receiver.reference.is_none() && !is_reference(&receiver.ty))
        })
    }

    /// Whether the function reads its caller's location, which a closure around the body would change.
    pub(crate) fn tracks_caller(&self) -> bool {
        self.attrs.iter().any(|attr| attr.path().is_ident("track_caller"))
    }
}

/// The type without the invisible groups and parentheses that macros put around one.
fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        other => other,
    }
}

/// Whether a value of this type is dropped with no effect because it is a reference.
pub(crate) fn is_reference(ty: &Type) -> bool {
    matches!(plain(ty), Type::Reference(_))
}

fn holds_impl_trait(ty: &Type) -> bool {
    struct Finder(bool);
    impl<'ast> syn::visit::Visit<'ast> for Finder {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
        // A type may also come from a macro, whose expansion is not known here.
        fn visit_type_macro(&mut self, _: &'ast syn::TypeMacro) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    syn::visit::Visit::visit_type(&mut finder, ty);
    finder.0
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        for attr in &self.attrs {
            attr.to_tokens(tokens);
        }
        self.vis.to_tokens(tokens);
        self.defaultness.to_tokens(tokens);
        self.sig.to_tokens(tokens);
        self.brace.surround(tokens, |body| {
            for attr in &self.inner_attrs {
                attr.to_tokens(body);
            }
            self.body.to_tokens(body);
        });
    }
}

/// A name that no user's code can mean: hygiene hides it, and the prefix tells a reader of expanded code whose it is.
pub(crate) fn hidden(name: &str) -> Ident {
    Ident::new(&format!("__oomguard_{name}"), Span::mixed_site())
}
