//! Whether tracked calls of two threads were open at once on one device. Then the pool's counters hold what both did.
//!
//! Two words a device, each of which holds how many threads are inside a tracked call and how often one came in. The first
//! thread to track on the device owns one and writes it plainly, since nobody else does; all others share the other and add to
//! it. So a program that tracks on one thread pays for no locked instruction, and nobody ever waits for anybody.
//!
//! Each side looks at the other's word when it comes in and again when it goes out, and compares the arrivals. The owner's
//! plain store may be seen late, but not later than the owner's first reading of a counter: the driver takes a lock for that.
//! So a call that ended before it saw the store had ended before the owner's began.

use super::sampled::{Device, MOST_DEVICES};
use std::sync::atomic::{AtomicU64, Ordering};

/// Low bits of a word: threads inside. The rest: arrivals.
const INSIDE: u64 = 0xffff;
const ARRIVAL: u64 = INSIDE + 1;

/// Aligned so that two words share no cache line, nor the pair of lines that processors fetch together.
#[repr(align(128))]
struct Word(AtomicU64);

impl Word {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

struct Words {
    /// Whether some thread owns `owners`.
    owned: AtomicU64,
    owners: Word,
    others: Word,
}

static WORDS: [Words; MOST_DEVICES] =
    [const { Words { owned: AtomicU64::new(0), owners: Word::new(), others: Word::new() } }; MOST_DEVICES];

/// Which word of a device a thread writes. Kept by the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Not decided: the thread has tracked nothing on the device.
    Unknown,
    Owner,
    Other,
}

impl Side {
    /// Decides, once a thread and device.
    #[cold]
    fn choose(device: Device) -> Self {
        let owned = &WORDS[device.index()].owned;
        if owned.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            Self::Owner
        } else {
            Self::Other
        }
    }
}

/// A stretch of one thread inside a tracked call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presence {
    side: Side,
    outermost: bool,
    not_alone: bool,
    /// The two words at its beginning, this thread's own arrival in them.
    own: u64,
    theirs: u64,
}

/// The thread comes in. `outermost`: it is in no other tracked call on this device. `side`: the thread's, chosen here if it
/// is unknown.
#[inline]
pub(crate) fn arrive(device: Device, side: Side, outermost: bool) -> Presence {
    let words = &WORDS[device.index()];
    let side = if side == Side::Unknown { Side::choose(device) } else { side };
    match side {
        Side::Owner => {
            let mut own = words.owners.0.load(Ordering::Relaxed);
            if outermost {
                own += ARRIVAL + 1;
                words.owners.0.store(own, Ordering::Release);
            }
            let theirs = words.others.load();
            Presence { side, outermost, not_alone: theirs & INSIDE > 0, own, theirs }
        }
        _ => {
            let own = if outermost {
                words.others.0.fetch_add(ARRIVAL + 1, Ordering::AcqRel) + ARRIVAL + 1
            } else {
                words.others.load()
            };
            let theirs = words.owners.load();
            // One inside is this thread.
            Presence { side, outermost, not_alone: own & INSIDE > 1 || theirs & INSIDE > 0, own, theirs }
        }
    }
}

impl Presence {
    /// The thread's side, for it to keep.
    pub(crate) fn side(self) -> Side {
        self.side
    }
}

/// The thread goes out; whether another thread was inside meanwhile.
#[inline]
pub(crate) fn depart(device: Device, presence: Presence) -> bool {
    let words = &WORDS[device.index()];
    let (own, theirs) = match presence.side {
        Side::Owner => {
            let own = words.owners.0.load(Ordering::Relaxed);
            if presence.outermost {
                words.owners.0.store(own - 1, Ordering::Release);
            }
            (own, words.others.load())
        }
        _ => {
            let others = &words.others.0;
            let own = if presence.outermost { others.fetch_sub(1, Ordering::AcqRel) } else { words.others.load() };
            (own, words.owners.load())
        }
    };
    presence.not_alone || own / ARRIVAL != presence.own / ARRIVAL || theirs / ARRIVAL != presence.theirs / ARRIVAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_turn_do_not_overlap_and_calls_at_once_do() {
        let device = Device(63);
        let first = arrive(device, Side::Unknown, true);
        let inner = arrive(device, first.side(), false);
        assert!(!depart(device, inner));
        assert!(!depart(device, first));
        let owner = first.side();
        assert_eq!(owner, Side::Owner);

        let first = arrive(device, owner, true);
        let second = arrive(device, Side::Unknown, true);
        assert_eq!(second.side(), Side::Other);
        let inner = arrive(device, owner, false);
        assert!(depart(device, second), "it came in while the first was inside");
        assert!(depart(device, inner));
        assert!(depart(device, first), "the second came and went while it was inside");

        let first = arrive(device, owner, true);
        assert!(!depart(device, first), "nobody is left");
        let second = arrive(device, Side::Other, true);
        assert!(!depart(device, second), "nobody is left");
    }

    #[test]
    fn two_others_overlap_and_an_owner_that_came_and_went_is_noticed() {
        let device = Device(62);
        let owner = arrive(device, Side::Unknown, true);
        assert!(!depart(device, owner));
        let second = arrive(device, Side::Other, true);
        let third = arrive(device, Side::Other, true);
        assert!(depart(device, third));
        assert!(depart(device, second));

        let second = arrive(device, Side::Other, true);
        let owner = arrive(device, Side::Owner, true);
        assert!(depart(device, owner));
        assert!(depart(device, second));
    }
}
