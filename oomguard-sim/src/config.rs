//! Which card to simulate: everything that `OOMGUARD_SIM_*` says, in one place.
//!
//! | variable | form | meaning | default |
//! | --- | --- | --- | --- |
//! | `OOMGUARD_SIM_DEVICES` | a count | devices in the machine | 1 |
//! | `OOMGUARD_SIM_CAPACITY` | a size | memory of each device | 150109880320, an H200's |
//! | `OOMGUARD_SIM_CONTEXT_OVERHEAD` | a size | what each context takes of its device | 552402944, measured on an H200 |
//! | `OOMGUARD_SIM_OTHER_PROCESS` | a size | what another process holds of each device | 0 |
//! | `OOMGUARD_SIM_FAIL_NTH` | counts, by commas | these allocation calls (the first is 1) run out of memory | none |
//! | `OOMGUARD_SIM_FAIL_ABOVE` | a size | a request above it runs out of memory | none |
//! | `OOMGUARD_SIM_HOLD_STREAMS` | 0 or 1 | queued work stays unfinished until the host waits for it | 0 |
//! | `OOMGUARD_SIM_NO_POOLS` | 0 or 1 | an old driver, with no memory pools | 0 |
//! | `OOMGUARD_SIM_LOSE_DEVICE_AFTER` | a count | after so many allocation calls every call fails, as after an ECC error | never |
//! | `OOMGUARD_SIM_DRIVER_VERSION` | `13.0` or `13000` | what `cuDriverGetVersion` answers | 13.0 |
//!
//! A size is a whole number of bytes, or a number with a unit: `24GiB`, `64 MiB`, `1.5GiB`, `512KB`. A value that cannot be
//! read is refused when the driver is initialised: a test must never run on a card that nobody asked for.

use std::fmt;

/// One variable of the environment, for messages and help.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What a value looks like.
    pub form: &'static str,
}

const SIZE: &str = "a size such as 24GiB, 64 MiB or 1073741824";
const COUNT: &str = "a whole number";
const SWITCH: &str = "0 or 1";

/// Every variable that describes the card.
pub const VARIABLES: &[Variable] = &[
    Variable { name: "OOMGUARD_SIM_DEVICES", form: "a whole number from 0 to 64" },
    Variable { name: "OOMGUARD_SIM_CAPACITY", form: SIZE },
    Variable { name: "OOMGUARD_SIM_CONTEXT_OVERHEAD", form: SIZE },
    Variable { name: "OOMGUARD_SIM_OTHER_PROCESS", form: SIZE },
    Variable { name: "OOMGUARD_SIM_FAIL_NTH", form: "whole numbers from 1, by commas, such as 3 or 3,7" },
    Variable { name: "OOMGUARD_SIM_FAIL_ABOVE", form: SIZE },
    Variable { name: "OOMGUARD_SIM_HOLD_STREAMS", form: SWITCH },
    Variable { name: "OOMGUARD_SIM_NO_POOLS", form: SWITCH },
    Variable { name: "OOMGUARD_SIM_LOSE_DEVICE_AFTER", form: COUNT },
    Variable { name: "OOMGUARD_SIM_DRIVER_VERSION", form: "a CUDA version such as 13.0 or 13000" },
];

/// Variables under the same prefix that say how the card is found and started, not what it is.
const OTHERS: &[&str] = &["OOMGUARD_SIM_LIBRARY", "OOMGUARD_SIM_ACTIVE"];

const PREFIX: &str = "OOMGUARD_SIM_";
const MOST_DEVICES: u32 = 64;

/// The card to simulate. [`CardConfig::default`] is one H200 with nobody else on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardConfig {
    /// Devices in the machine.
    pub devices: u32,
    /// Bytes of memory of each device.
    pub capacity: u64,
    /// Bytes that each context takes of its device.
    pub context_overhead: u64,
    /// Bytes that another process holds of each device.
    pub other_process: u64,
    /// Allocation calls, counted from 1, that run out of memory.
    pub fail_nth: Vec<u64>,
    /// A request for more bytes than this runs out of memory.
    pub fail_above: Option<u64>,
    /// Queued work stays unfinished until the host waits for it.
    pub hold_streams: bool,
    /// An old driver, with no memory pools.
    pub no_pools: bool,
    /// After so many allocation calls the device is lost.
    pub lose_device_after: Option<u64>,
    /// What `cuDriverGetVersion` answers: 1000 × major + 10 × minor.
    pub driver_version: u32,
}

impl Default for CardConfig {
    fn default() -> Self {
        Self {
            devices: 1,
            capacity: 150_109_880_320,
            context_overhead: 552_402_944,
            other_process: 0,
            fail_nth: Vec::new(),
            fail_above: None,
            hold_streams: false,
            no_pools: false,
            lose_device_after: None,
            driver_version: 13_000,
        }
    }
}

impl CardConfig {
    /// A card of `capacity` bytes, otherwise the default.
    pub fn with_capacity(capacity: u64) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// The card that this process's environment describes.
    ///
    /// # Errors
    /// [`BadValue`] names the first variable that cannot be read.
    pub fn from_env() -> Result<Self, BadValue> {
        Self::default().overridden(std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(PREFIX).then(|| (name, value.to_string_lossy().into_owned()))
        }))
    }

    /// This card with what `variables` say about it; other names are passed over.
    ///
    /// # Errors
    /// [`BadValue`] names the first variable that cannot be read.
    pub fn overridden(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, BadValue> {
        for (name, value) in variables {
            let Some(variable) = VARIABLES.iter().find(|known| known.name == name) else { continue };
            self.set(variable.name, value.trim()).ok_or(BadValue {
                name: variable.name,
                value,
                form: variable.form,
            })?;
        }
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match &name[PREFIX.len()..] {
            "DEVICES" => self.devices = value.parse().ok().filter(|&count| count <= MOST_DEVICES)?,
            "CAPACITY" => self.capacity = parse_size(value)?,
            "CONTEXT_OVERHEAD" => self.context_overhead = parse_size(value)?,
            "OTHER_PROCESS" => self.other_process = parse_size(value)?,
            "FAIL_NTH" => self.fail_nth = parse_counts(value)?,
            "FAIL_ABOVE" => self.fail_above = optional(value, parse_size)?,
            "HOLD_STREAMS" => self.hold_streams = parse_switch(value)?,
            "NO_POOLS" => self.no_pools = parse_switch(value)?,
            "LOSE_DEVICE_AFTER" => self.lose_device_after = optional(value, |value| value.parse().ok())?,
            "DRIVER_VERSION" => self.driver_version = parse_version(value)?,
            _ => return None,
        }
        Some(())
    }

    /// The card as variables of the environment: every one of them, so that nothing is inherited by accident.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let optional = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let counts: Vec<String> = self.fail_nth.iter().map(u64::to_string).collect();
        let value = |name: &str| match &name[PREFIX.len()..] {
            "DEVICES" => self.devices.to_string(),
            "CAPACITY" => self.capacity.to_string(),
            "CONTEXT_OVERHEAD" => self.context_overhead.to_string(),
            "OTHER_PROCESS" => self.other_process.to_string(),
            "FAIL_NTH" => counts.join(","),
            "FAIL_ABOVE" => optional(self.fail_above),
            "HOLD_STREAMS" => u8::from(self.hold_streams).to_string(),
            "NO_POOLS" => u8::from(self.no_pools).to_string(),
            "LOSE_DEVICE_AFTER" => optional(self.lose_device_after),
            _ => self.driver_version.to_string(),
        };
        VARIABLES.iter().map(|variable| (variable.name, value(variable.name))).collect()
    }
}

impl fmt::Display for CardConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.devices {
            1 => write!(f, "{}", format_size(self.capacity)),
            count => write!(f, "{count} devices of {}", format_size(self.capacity)),
        }
    }
}

/// A variable whose value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// The variable.
    pub name: &'static str,
    /// What it holds.
    pub value: String,
    /// What it should look like.
    pub form: &'static str,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}: expected {}", self.name, self.value, self.form)
    }
}

impl std::error::Error for BadValue {}

/// For each name under our prefix that is no variable of ours: the name, and the nearest one that is.
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<(String, &'static str)> {
    let known = || VARIABLES.iter().map(|variable| variable.name).chain(OTHERS.iter().copied());
    names
        .into_iter()
        .filter(|name| name.starts_with(PREFIX) && known().all(|known| known != name))
        .filter_map(|name| {
            let nearest = known().min_by_key(|known| distance(known, &name))?;
            Some((name, nearest))
        })
        .collect()
}

/// Edits that turn one name into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let swapped = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = swapped.min(corner + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

/// Reads a size: whole bytes, or a number with a unit.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = number.replace('_', "");
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if fraction.len() > 9 || whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    // In integers throughout: a size is an exact figure.
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(digits(fraction)?) * u128::from(unit) / scale;
    let bytes = u128::from(digits(whole)?) * u128::from(unit) + part;
    u64::try_from(bytes).ok()
}

/// Writes a size the way a person would say it.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|&&(_, unit)| bytes >= unit) {
        Some(&(name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some(&(name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Reads a value where none is a value too: written as nothing. `None` is one that cannot be read.
#[allow(clippy::option_option)]
fn optional<T>(value: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if value.is_empty() { Some(None) } else { parse(value).map(Some) }
}

fn parse_counts(text: &str) -> Option<Vec<u64>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.parse().ok().filter(|&count| count > 0)).collect()
}

fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "" | "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn parse_version(text: &str) -> Option<u32> {
    let version = match text.split_once('.') {
        Some((major, minor)) => {
            let minor: u32 = minor.parse().ok().filter(|&minor| minor < 100)?;
            major.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(minor * 10)?
        }
        None => text.parse().ok()?,
    };
    (1_000..100_000).contains(&version).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<CardConfig, BadValue> {
        CardConfig::default().overridden([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("24GiB"), Some(24 << 30));
        assert_eq!(parse_size(" 64 MiB "), Some(64 << 20));
        assert_eq!(parse_size("1.5GiB"), Some(3 << 29));
        assert_eq!(parse_size("2gb"), Some(2_000_000_000));
        assert_eq!(parse_size("1073741824"), Some(1 << 30));
        assert_eq!(parse_size("512k"), Some(512 << 10));
        for bad in ["", "GiB", "-1", "1.2.3GiB", "24 potatoes", "99999999999TiB", "."] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_bad_value_names_the_variable_the_value_and_the_form() {
        let error = read("OOMGUARD_SIM_CAPACITY", "lots").unwrap_err().to_string();
        assert_eq!(error, "OOMGUARD_SIM_CAPACITY is \"lots\": expected a size such as 24GiB, 64 MiB or 1073741824");
        assert!(read("OOMGUARD_SIM_DEVICES", "65").is_err());
        assert!(read("OOMGUARD_SIM_FAIL_NTH", "0").is_err());
        assert!(read("OOMGUARD_SIM_HOLD_STREAMS", "maybe").is_err());
        assert!(read("OOMGUARD_SIM_DRIVER_VERSION", "thirteen").is_err());
    }

    #[test]
    fn what_is_written_out_is_read_back() {
        let card = CardConfig {
            devices: 2,
            capacity: 2 << 30,
            fail_nth: vec![3, 7],
            fail_above: Some(1 << 20),
            hold_streams: true,
            lose_device_after: Some(5),
            driver_version: 12_040,
            ..CardConfig::default()
        };
        let variables = card.variables().into_iter().map(|(name, value)| (name.to_owned(), value));
        assert_eq!(CardConfig::default().overridden(variables), Ok(card));
        let default = CardConfig::default();
        let variables = default.variables().into_iter().map(|(name, value)| (name.to_owned(), value));
        assert_eq!(CardConfig { devices: 9, ..default.clone() }.overridden(variables), Ok(default));
    }

    #[test]
    fn versions_are_read_in_both_spellings() {
        assert_eq!(read("OOMGUARD_SIM_DRIVER_VERSION", "12.4").unwrap().driver_version, 12_040);
        assert_eq!(read("OOMGUARD_SIM_DRIVER_VERSION", "13000").unwrap().driver_version, 13_000);
    }

    #[test]
    fn a_misspelt_variable_is_told_its_nearest_name() {
        let names = ["OOMGUARD_SIM_CAPACTIY", "OOMGUARD_SIM_LIBRARY", "OOMGUARD", "PATH"].map(String::from);
        assert_eq!(unknown_variables(names), [("OOMGUARD_SIM_CAPACTIY".to_owned(), "OOMGUARD_SIM_CAPACITY")]);
    }

    #[test]
    fn sizes_are_written_as_people_say_them() {
        assert_eq!(format_size(24 << 30), "24 GiB");
        assert_eq!(format_size(150_109_880_320), "139.8 GiB");
        assert_eq!(format_size(12), "12 B");
    }
}
