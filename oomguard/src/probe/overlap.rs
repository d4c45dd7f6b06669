//! Whether tracked calls of two threads were open at once on one device. Then the pool's counters hold what both did.
//!
//! One word a device: how many threads are inside a tracked call, and how often one came in. It is written when a thread's
//! outermost call on the device begins and ends, and only read by the calls inside; nobody waits for anybody.

use super::sampled::{Device, MOST_DEVICES};
use std::sync::atomic::{AtomicU64, Ordering};

/// Low bits of a word: threads inside. The rest: arrivals.
const INSIDE: u64 = 0xffff;
const ARRIVAL: u64 = INSIDE + 1;

/// Aligned so that two devices' threads do not share a cache line.
#[repr(align(128))]
struct Word(AtomicU64);

static WORDS: [Word; MOST_DEVICES] = [const { Word(AtomicU64::new(0)) }; MOST_DEVICES];

/// A stretch of one thread inside a tracked call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presence {
    arrivals: u64,
    not_alone: bool,
    outermost: bool,
}

/// The thread comes in. `outermost`: it is in no other tracked call on this device.
#[inline]
pub(crate) fn arrive(device: Device, outermost: bool) -> Presence {
    let word = &WORDS[device.index()].0;
    if outermost {
        let before = word.fetch_add(ARRIVAL + 1, Ordering::AcqRel);
        Presence { arrivals: before / ARRIVAL + 1, not_alone: before & INSIDE > 0, outermost }
    } else {
        let now = word.load(Ordering::Acquire);
        Presence { arrivals: now / ARRIVAL, not_alone: now & INSIDE > 1, outermost }
    }
}

/// The thread goes out; whether another thread was inside meanwhile.
#[inline]
pub(crate) fn depart(device: Device, presence: Presence) -> bool {
    let word = &WORDS[device.index()].0;
    let before = if presence.outermost { word.fetch_sub(1, Ordering::AcqRel) } else { word.load(Ordering::Acquire) };
    presence.not_alone || before / ARRIVAL != presence.arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_turn_do_not_overlap_and_calls_at_once_do() {
        let device = Device(63);
        let first = arrive(device, true);
        let inner = arrive(device, false);
        assert!(!depart(device, inner));
        assert!(!depart(device, first));

        let first = arrive(device, true);
        let second = arrive(device, true);
        let inner = arrive(device, false);
        assert!(depart(device, second), "it came in while the first was inside");
        assert!(depart(device, inner));
        assert!(depart(device, first), "the second came and went while it was inside");
        let third = arrive(device, true);
        assert!(!depart(device, third), "nobody is left");
    }
}
