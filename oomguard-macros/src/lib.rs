//! The macros of [oomguard](https://docs.rs/oomguard): use them through that crate, which documents them.
//!
//! An attribute is parsed (`args`), the function it stands on is checked (`function`), and the pair is expanded
//! (`expand`). Nothing here knows a figure: the expansion calls the runtime's `__private` door.

mod args;
mod assertion;
mod expand;
mod function;
mod size;

use proc_macro::TokenStream;
use quote::ToTokens;

/// Tracks what each call of a function does to GPU memory. Documented where it is re-exported, in `oomguard`.
#[proc_macro_attribute]
pub fn track_gpu_mem(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let original = item.clone();
    let expanded = syn::parse::<args::TrackArgs>(arguments).and_then(|args| {
        let function = syn::parse::<function::Function>(item)?;
        function.check()?;
        Ok(if cfg!(feature = "enabled") { expand::tracked(&args, function) } else { function.into_token_stream() })
    });
    expanded.map_or_else(
        // The item is kept beside the error: one mistake in the attribute must not drown in errors about a missing function.
        |error| {
            let mut tokens = TokenStream::from(error.to_compile_error());
            tokens.extend(original);
            tokens
        },
        Into::into,
    )
}

/// Runs a closure again and again and fails where memory grew. Documented where it is re-exported, in `oomguard`.
#[proc_macro]
pub fn assert_no_growth(input: TokenStream) -> TokenStream {
    syn::parse::<assertion::NoGrowth>(input)
        .map_or_else(|error| error.to_compile_error(), |assertion| assertion.expand())
        .into()
}
