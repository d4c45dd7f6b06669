//! What the environment asks for. Read once; a value that cannot be read is named, with what was expected and what
//! happens instead, and nothing else changes.

use crate::report::Mode;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Version of the environment variables' meaning. Raised when one changes incompatibly.
pub const ENVIRONMENT_VERSION: u32 = 1;

/// The settings of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// `OOMGUARD`: the mode that was asked for.
    pub(crate) mode: Mode,
    /// `OOMGUARD_REPORT`: where the report at exit goes; none: standard error.
    pub(crate) report: Option<PathBuf>,
    /// `OOMGUARD_PEAK`: whether the pools' watermarks may be reset to measure peaks.
    pub(crate) peaks: bool,
    /// `OOMGUARD_TABLE`: whether the table is indented by call path.
    pub(crate) by_path: bool,
    /// `OOMGUARD_REQUIRE_DEVICE`: an assertion with no device fails where it would be skipped.
    pub(crate) require_device: bool,
    /// What could not be read, a line each.
    pub(crate) complaints: Vec<String>,
}

impl Config {
    /// The settings in this process's environment.
    pub(crate) fn from_env() -> Self {
        Self::read(|name| env::var_os(name))
    }

    fn read(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut complaints = Vec::new();
        let mode = choice(
            &get,
            &mut complaints,
            "OOMGUARD",
            &[("auto", Mode::Auto), ("off", Mode::Off), ("sampled", Mode::Sampled), ("traced", Mode::Traced)],
        );
        let switch: &[(&str, bool)] = &[("on", true), ("off", false)];
        let peaks = choice(&get, &mut complaints, "OOMGUARD_PEAK", switch);
        let by_path = choice(&get, &mut complaints, "OOMGUARD_TABLE", &[("scopes", false), ("paths", true)]);
        let require_device = choice(&get, &mut complaints, "OOMGUARD_REQUIRE_DEVICE", &[("0", false), ("1", true)]);
        let report = get("OOMGUARD_REPORT").filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { mode, report, peaks, by_path, require_device, complaints }
    }
}

/// The value of a variable that takes one of a few words; the first of them where it is unset, empty or unreadable.
fn choice<T: Copy>(
    get: impl Fn(&str) -> Option<OsString>,
    complaints: &mut Vec<String>,
    name: &str,
    words: &[(&str, T)],
) -> T {
    let (default_word, default) = words[0];
    let Some(value) = get(name).filter(|value| !value.is_empty()) else { return default };
    let found = value.to_str().and_then(|value| words.iter().find(|(word, _)| value.eq_ignore_ascii_case(word)));
    if let Some((_, meaning)) = found {
        return *meaning;
    }
    let expected: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    // Escaped, for it may hold anything.
    let shown = value.to_string_lossy();
    complaints.push(format!("{name}={shown:?} is none of {}; using {default_word}", expected.join(", ")));
    default
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Config {
        Config::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn an_empty_environment_asks_for_auto_with_peaks_on_standard_error() {
        let config = read(&[]);
        assert_eq!((config.mode, config.peaks, config.by_path, config.report), (Mode::Auto, true, false, None));
        assert!(config.complaints.is_empty());
    }

    #[test]
    fn values_are_read_whatever_their_case() {
        let config = read(&[("OOMGUARD", "Sampled"), ("OOMGUARD_PEAK", "OFF"), ("OOMGUARD_TABLE", "paths")]);
        assert_eq!((config.mode, config.peaks, config.by_path), (Mode::Sampled, false, true));
    }

    #[test]
    fn an_unknown_value_names_itself_what_was_expected_and_what_happens_now() {
        let config = read(&[("OOMGUARD", "tracd")]);
        assert_eq!(config.mode, Mode::Auto);
        assert_eq!(config.complaints, [r#"OOMGUARD="tracd" is none of auto, off, sampled, traced; using auto"#]);
    }
}
