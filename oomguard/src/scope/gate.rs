//! Whether tracking runs: one word that each entry looks at first, and finds the sampler by.

use super::clock;
use crate::config::Config;
use crate::probe;
use crate::probe::sampled::Sampler;
use crate::report::notes;
use std::cell::Cell;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the sampler is; null before the start; [`OFF`] where nothing is tracked.
static STATE: AtomicPtr<Sampler> = AtomicPtr::new(ptr::null_mut());
static STARTING: Once = Once::new();

/// No sampler lies at this address.
const OFF: usize = 1;

fn off() -> *mut Sampler {
    ptr::without_provenance_mut(OFF)
}

/// Whether nothing is tracked. The one thing that a scope costs then.
#[inline]
pub(crate) fn is_off() -> bool {
    STATE.load(Ordering::Relaxed).addr() == OFF
}

/// The sampler, where calls are tracked. The first call of a program starts tracking, if `init` has not.
#[inline]
pub(crate) fn sampler() -> Option<&'static Sampler> {
    let mut state = STATE.load(Ordering::Acquire);
    if state.is_null() {
        state = state_after_start();
    }
    // SAFETY: neither null nor `OFF`, so it is the reference to a static that `start` stored.
    (!state.is_null() && state != off()).then(|| unsafe { &*state })
}

#[cold]
fn state_after_start() -> *mut Sampler {
    start();
    STATE.load(Ordering::Acquire)
}

/// Reads the environment, loads the driver, chooses the mode. Once a process; later calls do nothing.
pub(crate) fn start() {
    thread_local! {
        static STARTING_HERE: Cell<bool> = const { Cell::new(false) };
    }
    // An allocator of the program's may be tracked itself, and is asked for memory in here: it must find no start to wait for.
    if STARTING.is_completed() || STARTING_HERE.try_with(|here| here.replace(true)).unwrap_or(true) {
        return;
    }
    let mut chosen = None;
    STARTING.call_once(|| {
        // A panic in here must not reach the program: tracking is then off.
        chosen = std::panic::catch_unwind(|| {
            clock::start();
            let config = Config::from_env();
            notes::complain(&config.complaints);
            (config.mode, probe::choose(&config))
        })
        .ok();
        let sampler = chosen.and_then(|(_, choice)| choice.sampler.as_ref());
        STATE.store(sampler.map_or_else(off, |sampler| ptr::from_ref(sampler).cast_mut()), Ordering::Release);
    });
    _ = STARTING_HERE.try_with(|here| here.set(false));
    // Told when all is in place: a subscriber may call tracked functions.
    if let Some((requested, choice)) = chosen {
        super::events::mode_chosen(requested, choice);
    }
}
