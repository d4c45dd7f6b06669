//! Sizes as people write them in an argument: `"64 MiB"`, `"1.5 GiB"`, or an integer of bytes.

use syn::parse::{Parse, ParseStream};
use syn::{Lit, LitInt};

/// What a size may look like, for messages.
const EXPECTED: &str = "a size: a string such as \"64 MiB\" or \"1.5 GiB\", or an integer of bytes";

/// A size in bytes, checked when the macro runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl Parse for Size {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let literal: Lit =
            input.parse().map_err(|error| syn::Error::new(error.span(), format!("expected {EXPECTED}")))?;
        match &literal {
            Lit::Str(text) => parse_size(&text.value()),
            Lit::Int(number) => bytes_of(number),
            _ => None,
        }
        .map(Size)
        .ok_or_else(|| syn::Error::new(literal.span(), format!("expected {EXPECTED}")))
    }
}

fn bytes_of(number: &LitInt) -> Option<u64> {
    matches!(number.suffix(), "" | "u64" | "usize").then(|| number.base10_parse().ok()).flatten()
}

/// Reads `"64 MiB"`. Units are binary (`KiB`, `MiB`, `GiB`, `TiB`) or `B`; a bare number is bytes. `None`: not a size.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_starts = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_starts);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let whole: u64 = whole.parse().ok()?;
    let whole_bytes = whole.checked_mul(1 << shift)?;
    if fraction.is_empty() {
        return (!number.ends_with('.')).then_some(whole_bytes);
    }
    // Exact: the fraction over a power of ten, and the result must be a whole number of bytes.
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 9)?;
    let scaled = u128::from(fraction.parse::<u64>().ok()?) << shift;
    let divisor = 10_u128.pow(digits);
    (scaled % divisor == 0).then_some(())?;
    whole_bytes.checked_add(u64::try_from(scaled / divisor).ok()?)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn a_size_reads_as_it_is_written() {
        for (text, bytes) in [
            ("64 MiB", 64 << 20),
            ("64MiB", 64 << 20),
            (" 1.5 GiB ", 3 << 29),
            ("0.25KiB", 256),
            ("1_000", 1_000),
            ("7 B", 7),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_and_never_guessed() {
        for text in
            ["", "MiB", "64 MB", "64 mib", "-1", "1.", "1.0000000001 KiB", "0.3 B", "1e3", "99999999 TiB", "1 MiB 2"]
        {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
