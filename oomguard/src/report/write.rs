//! Where a report goes at exit: a file, or standard error.

use super::{Mode, Report, notes, table};
use crate::config::Config;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::{env, fs, io};

/// Writes the report where the environment asks for it. What cannot be written to its file goes to standard error.
pub(crate) fn deliver(report: &Report, config: &Config) {
    let Some(path) = &config.report else {
        match report.mode {
            // Somebody who switched tracking off wants no word of it.
            Mode::Off if config.mode == Mode::Off => {}
            Mode::Off => notes::say(&format!("no figures: {}", report.reason)),
            _ => to_standard_error(report, config),
        }
        return;
    };
    if let Err(error) = to_file(report, config, path) {
        notes::say(&format!("the report could not be written to {}: {error}; it follows here", path.display()));
        to_standard_error(report, config);
    }
}

/// Replaces the file in one step, so that a reader never meets half a report.
fn to_file(report: &Report, config: &Config, path: &Path) -> io::Result<()> {
    let text = if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        report.to_json()
    } else {
        table::Table { report, by_path: config.by_path, colour: false }.to_string()
    };
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, and a file was expected"));
    }
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    };
    let mut beside = name.to_os_string();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written
}

fn to_standard_error(report: &Report, config: &Config) {
    let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = table::Table { report, by_path: config.by_path, colour }.to_string();
    drop(io::stderr().write_all(text.as_bytes()));
}
