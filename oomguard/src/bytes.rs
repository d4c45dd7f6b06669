//! Sizes for people: binary units, a sign where a figure is a change.

use std::fmt;

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A number of bytes, shown in the largest binary unit that it fills, with at most two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A change in bytes, shown with its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change(pub(crate) i64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        if bytes < 1024 {
            return write!(f, "{bytes} B");
        }
        // Rounded to hundredths here, so that 1023.999 KiB becomes 1 MiB and not "1024 KiB".
        let (mut unit, mut hundredths) = ("B", u128::from(bytes) * 100);
        for (index, name) in UNITS.iter().enumerate() {
            let shift = 10 * (index + 1);
            let scaled = (u128::from(bytes) * 100 + (1 << (shift - 1))) >> shift;
            if scaled < 100 {
                break;
            }
            (unit, hundredths) = (*name, scaled);
        }
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        match rest {
            0 => write!(f, "{whole} {unit}"),
            rest if rest % 10 == 0 => write!(f, "{whole}.{} {unit}", rest / 10),
            rest => write!(f, "{whole}.{rest:02} {unit}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "",
            1.. => "+",
            _ => "-",
        })?;
        Bytes(self.0.unsigned_abs()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Change};

    #[test]
    fn sizes_read_as_people_write_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (64 << 20, "64 MiB"),
            ((1 << 20) - 1, "1 MiB"),
            ((1 << 30) + (1 << 30) / 4, "1.25 GiB"),
            (150_121_545_728, "139.81 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_change_shows_its_sign_and_no_change_has_none() {
        assert_eq!(Change(3 << 20).to_string(), "+3 MiB");
        assert_eq!(Change(-(3 << 20)).to_string(), "-3 MiB");
        assert_eq!(Change(0).to_string(), "0 B");
        assert_eq!(Change(i64::MIN).to_string(), "-8 EiB");
    }
}
