//! What must be said once: on standard error when it is found, and again in every report.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says, and keeps for the reports, what could not be read in the environment.
#[cfg_attr(
    not(feature = "enabled"),
    expect(dead_code, reason = "a disabled build reads the environment for its note only")
)]
pub(crate) fn complain(complaints: &[String]) {
    for complaint in complaints {
        say(complaint);
    }
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(complaints);
}

/// What was said so far.
#[cfg_attr(
    not(feature = "enabled"),
    expect(dead_code, reason = "reports of a disabled build have a note of their own")
)]
pub(crate) fn complaints() -> Vec<String> {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// One line on standard error. A closed standard error is no reason to fail.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "oomguard: {line}"));
}
