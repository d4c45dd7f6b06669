//! The report at exit, however the program ends.
//!
//! | how it ends | who reports |
//! | --- | --- |
//! | `main` returns, also early by `?`; a panic unwinds | the guard's drop |
//! | `std::process::exit` on any thread | a handler of the C library's `atexit` |
//! | a panic in a program built with `panic = "abort"` | a panic hook |
//! | `abort`, `_exit`, a signal | nobody |
//!
//! Whoever comes first reports, and nobody after. The handler asks the driver nothing: CUDA may be down by then.

use crate::config::Config;
use crate::report::{self, Report};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes the report when it is dropped. Made by [`init`].
#[derive(Debug)]
#[must_use = "the report is written when the guard is dropped: bind it to a name, `let _oomguard = oomguard::init();`"]
pub struct Guard {
    config: Config,
}

static REPORTED: AtomicBool = AtomicBool::new(false);

/// Starts tracking, and writes the report when the guard is dropped at the end of `main`.
///
/// Reads the environment: `OOMGUARD` (`auto`, `off`, `sampled`, `traced`), `OOMGUARD_REPORT` (a file for the report; JSON
/// if its name ends in `.json`, else a table; without it the table goes to standard error), `OOMGUARD_TABLE` (`scopes`, or
/// `paths` for rows indented by who called whom), `OOMGUARD_PEAK` (`on`, or `off` to leave the pools' watermarks to the
/// program). A value that cannot be read is named on standard error, and the default taken.
///
/// The report also comes when `main` returns early by `?`, when it panics, and on `std::process::exit`, which drops no guard:
/// there a handler writes what is known without asking the driver. A signal or `abort` leaves none.
///
/// Cost: loads the driver's library, which initialises nothing and makes no context.
///
/// ```
/// let _oomguard = oomguard::init();
/// // … the program, to the end of `main` …
/// ```
pub fn init() -> Guard {
    static HANDLERS: Once = Once::new();
    let config = Config::from_env();
    #[cfg(feature = "enabled")]
    {
        crate::scope::start();
        HANDLERS.call_once(handlers::install);
    }
    #[cfg(not(feature = "enabled"))]
    HANDLERS.call_once(|| {});
    Guard { config }
}

/// The figures of all calls so far. At any moment, from any thread; stops nobody.
///
/// Cost: reads every call path's figures and asks the driver for present levels; microseconds to milliseconds.
///
/// ```
/// let report = oomguard::report();
/// println!("{report}");
/// ```
pub fn report() -> Report {
    #[cfg(feature = "enabled")]
    {
        crate::scope::start();
        report::collect(report::Driver::Running)
    }
    #[cfg(not(feature = "enabled"))]
    report::disabled()
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !REPORTED.swap(true, Ordering::AcqRel) {
            report::deliver(&report(), &self.config);
        }
    }
}

#[cfg(feature = "enabled")]
mod handlers {
    use super::{AtomicBool, Config, Ordering, REPORTED, report};

    /// Reports from what is on the host, unless somebody has reported.
    fn last_resort() {
        if !REPORTED.swap(true, Ordering::AcqRel) {
            report::deliver(&report::collect(report::Driver::Gone), &Config::from_env());
        }
    }

    #[cfg(unix)]
    pub(super) fn install() {
        extern "C" fn at_exit() {
            // Unwinding into the C library would abort the exit that the program asked for.
            drop(std::panic::catch_unwind(last_resort));
        }
        // SAFETY: the handler is a function of the program itself, which is not unloaded, and it does not unwind.
        unsafe { libc::atexit(at_exit) };
        install_for_aborts();
    }

    #[cfg(not(unix))]
    pub(super) fn install() {
        install_for_aborts();
    }

    /// A panic in an abort build ends the process with no drop and no handler: only its hook runs.
    fn install_for_aborts() {
        static IN_HOOK: AtomicBool = AtomicBool::new(false);
        if !cfg!(panic = "abort") {
            return;
        }
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            earlier(info);
            if !IN_HOOK.swap(true, Ordering::AcqRel) {
                last_resort();
            }
        }));
    }
}
