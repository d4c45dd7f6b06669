//! From a checked function to its tracked form.
//!
//! A synchronous body runs under a guard that is declared before anything of the user's, so that it is dropped last: after
//! the body's locals, after the temporaries of its last expression, and after the parameters, which are bound anew inside.
//! A body whose result tells success from failure, or that owns `self`, runs in a closure that is called on the spot: a
//! `return` or `?` then ends the closure and the result can be looked at. A future is wrapped, and entered at each poll.

use crate::args::TrackArgs;
use crate::function::{Function, hidden, is_reference};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{FnArg, Pat, Signature};

/// The tracked form of `function`.
pub(crate) fn tracked(args: &TrackArgs, mut function: Function) -> TokenStream {
    let krate = args.krate.as_ref().map_or_else(|| quote!(::oomguard), ToTokens::to_token_stream);
    let private = quote_spanned!(Span::mixed_site()=> #krate::__private);
    let rebound = rebind_parameters(&mut function.sig);
    let sees_outcome = function.returns_result() && (function.sig.asyncness.is_some() || in_closure(&function));
    let site = site(args, &private, sees_outcome);
    let body = if function.sig.asyncness.is_some() {
        future_body(&function, &private, &rebound, sees_outcome)
    } else if in_closure(&function) {
        closure_body(&function, &private, &rebound, sees_outcome)
    } else {
        guarded_body(&function, &rebound)
    };
    function.body = quote! { #site #body };
    function.into_token_stream()
}

/// Whether the body must run in a closure: to see its outcome, or to drop an owned `self` before the guard.
fn in_closure(function: &Function) -> bool {
    let wants = function.returns_result() || function.owns_self();
    // Without its type written a closure's result is inferred differently from a function's, and under `track_caller` a
    // closure hides the caller. There the guard alone serves: failures are then not told from successes.
    wants && function.writable_output().is_some() && !function.tracks_caller()
}

/// The static that stands for the function, and its registration.
fn site(args: &TrackArgs, private: &TokenStream, sees_outcome: bool) -> TokenStream {
    let [site, here] = [hidden("SITE").to_string().to_uppercase(), "__oomguard_here".to_owned()]
        .map(|name| syn::Ident::new(&name, Span::mixed_site()));
    let name = option(args.name.as_ref());
    let growth = option(args.growth.map(|size| size.0));
    let peak = option(args.peak.map(|size| size.0));
    quote_spanned! {Span::mixed_site()=>
        #[doc(hidden)]
        fn #here() {}
        #[doc(hidden)]
        static #site: #private::Site = #private::Site::new(#private::SiteMeta {
            name: #name,
            path: || #private::type_name_of_val(&#here),
            file: #private::file!(),
            line: #private::line!(),
            growth: #growth,
            peak: #peak,
            sees_outcome: #sees_outcome,
        });
        #private::inventory::submit! { #private::Registered(&#site) }
    }
}

fn option<T: ToTokens>(value: Option<T>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// Moves each owned parameter into a local of the body, and returns the statements that do it.
///
/// Parameters are dropped after every local, so after the guard; a tensor that a call consumes must count as freed in it.
fn rebind_parameters(sig: &mut Signature) -> TokenStream {
    let mut statements = TokenStream::new();
    for (index, input) in sig.inputs.iter_mut().enumerate() {
        let FnArg::Typed(parameter) = input else { continue };
        let stays = is_reference(&parameter.ty) || matches!(&*parameter.pat, Pat::Wild(_));
        if stays || !parameter.attrs.is_empty() {
            continue;
        }
        let pattern = parameter.pat.clone();
        let source = match &mut *parameter.pat {
            Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => {
                ident.mutability = None;
                ident.ident.clone()
            }
            other => {
                let argument = hidden(&format!("argument_{index}"));
                *other = syn::parse_quote!(#argument);
                argument
            }
        };
        statements.extend(quote_spanned! {Span::mixed_site()=>
            #[allow(
                clippy::redundant_locals,
                clippy::used_underscore_binding,
                clippy::no_effect_underscore_binding
            )]
            let #pattern = #source;
        });
    }
    statements
}

fn site_ident() -> syn::Ident {
    syn::Ident::new("__OOMGUARD_SITE", Span::mixed_site())
}

fn guarded_body(function: &Function, rebound: &TokenStream) -> TokenStream {
    let (site, call, output) = (site_ident(), hidden("call"), hidden("output"));
    let block = block(function);
    if function.diverges() {
        return quote_spanned! {Span::mixed_site()=> let mut #call = #site.call(); #call.enter(); #rebound #block };
    }
    let ty = function.writable_output().map(|ty| quote!(: #ty));
    // Bound to a local first: the temporaries of a last expression outlive the locals beside it, the guard among them.
    quote_spanned! {Span::mixed_site()=>
        let mut #call = #site.call();
        #call.enter();
        #rebound
        #[allow(clippy::let_unit_value, clippy::let_and_return)]
        let #output #ty = #block;
        #[allow(unreachable_code, clippy::needless_return)]
        return #output;
    }
}

fn closure_body(function: &Function, private: &TokenStream, rebound: &TokenStream, sees_outcome: bool) -> TokenStream {
    let (site, call, output) = (site_ident(), hidden("call"), hidden("output"));
    let block = block(function);
    let ty = function.writable_output();
    let whole_self = whole_self(function);
    let outcome = sees_outcome.then(|| quote! { #call.outcome(#private::failed!(&#output)); });
    quote_spanned! {Span::mixed_site()=>
        let mut #call = #site.call();
        #call.enter();
        #[allow(clippy::let_unit_value)]
        let #output: #ty = #private::call_once(move || -> #ty { #whole_self #rebound #block });
        #outcome
        #[allow(unreachable_code, clippy::needless_return)]
        return #output;
    }
}

fn future_body(function: &Function, private: &TokenStream, rebound: &TokenStream, sees_outcome: bool) -> TokenStream {
    let site = site_ident();
    let block = block(function);
    let whole_self = whole_self(function);
    let output = hidden("output");
    // Never runs: it tells the compiler what the block returns, as the signature did.
    let hint = function.writable_output().map(|ty| {
        let never = hidden("never");
        quote_spanned! {Span::mixed_site()=>
            #[allow(unreachable_code, clippy::diverging_sub_expression, clippy::let_unit_value)]
            if false {
                let #never: #ty = loop {};
                return #never;
            }
        }
    });
    let failed = if sees_outcome { quote!(|#output| #private::failed!(#output)) } else { quote!(|_| false) };
    quote_spanned! {Span::mixed_site()=>
        #private::Tracked::new(&#site, async move { #hint #whole_self #rebound #block }, #failed).await
    }
}

/// Makes a closure or an async block capture an owned `self` whole, and so drop it at its own end.
fn whole_self(function: &Function) -> Option<TokenStream> {
    function.owns_self().then(|| {
        let receiver = function.sig.receiver().map(|receiver| receiver.self_token);
        quote!(let _ = &#receiver;)
    })
}

/// The user's body, in braces that carry its span.
fn block(function: &Function) -> TokenStream {
    let mut tokens = TokenStream::new();
    function.brace.surround(&mut tokens, |inner| function.body.to_tokens(inner));
    tokens
}
