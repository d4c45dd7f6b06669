//! Whether tracking runs: one byte that each entry looks at first.

use crate::config::Config;
use crate::probe;
use crate::report::{Mode, notes};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Instant;

const NOT_STARTED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NOT_STARTED);
static STARTING: Once = Once::new();
static STARTED_AT: OnceLock<Instant> = OnceLock::new();

/// Whether calls are tracked. The first call of a program starts tracking, if `init` has not.
#[inline]
pub(crate) fn is_on() -> bool {
    match STATE.load(Ordering::Acquire) {
        OFF => false,
        ON => true,
        _ => start_and_ask(),
    }
}

#[cold]
fn start_and_ask() -> bool {
    start();
    STATE.load(Ordering::Acquire) == ON
}

/// Reads the environment, loads the driver, chooses the mode. Once a process; later calls do nothing.
pub(crate) fn start() {
    // A panic in here must not reach the program: tracking is then off.
    STARTING.call_once(|| {
        let on = std::panic::catch_unwind(|| {
            STARTED_AT.get_or_init(Instant::now);
            let config = Config::from_env();
            notes::complain(&config.complaints);
            let choice = probe::choose(&config);
            super::events::mode_chosen(config.mode, choice);
            choice.mode == Mode::Sampled
        });
        STATE.store(if on.unwrap_or(false) { ON } else { OFF }, Ordering::Release);
    });
}

/// Nanoseconds since tracking started.
#[inline]
pub(crate) fn elapsed() -> u64 {
    STARTED_AT.get().map_or(0, |start| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
