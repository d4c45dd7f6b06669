//! Time on the hot path: the processor's own counter where it runs evenly, since the system's clock costs as much as a
//! counter of the driver's. Ticks become nanoseconds when somebody asks, by the two clocks' progress since the start.

use std::sync::OnceLock;
use std::time::Instant;

/// The two clocks at the start.
#[derive(Debug, Clone, Copy)]
struct Start {
    instant: Instant,
    ticks: u64,
    /// Whether the processor's counter is used.
    counter: bool,
}

static START: OnceLock<Start> = OnceLock::new();

/// Fewer nanoseconds since the start than this tell too little of the counter's pace.
const LEAST_BASELINE: u64 = 1_000_000;

/// Starts the clock; later calls do nothing.
pub(crate) fn start() {
    START.get_or_init(|| {
        let counter = counter::runs_evenly();
        Start { instant: Instant::now(), ticks: if counter { counter::read() } else { 0 }, counter }
    });
}

/// Ticks since the start; 0 before it.
#[inline]
pub(crate) fn ticks() -> u64 {
    match START.get() {
        Some(Start { ticks, counter: true, .. }) => counter::read().saturating_sub(*ticks),
        Some(Start { instant, .. }) => u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX),
        None => 0,
    }
}

/// Nanoseconds since the start, by the system's clock.
pub(crate) fn elapsed_nanoseconds() -> u64 {
    START.get().map_or(0, |start| u64::try_from(start.instant.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// How long a tick is, as known now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    nanoseconds_a_tick: f64,
}

impl Pace {
    /// Compares the clocks. Waits a millisecond where the process is younger than that.
    pub(crate) fn now() -> Self {
        let Some(start) = START.get().filter(|start| start.counter) else { return Self { nanoseconds_a_tick: 1.0 } };
        loop {
            let (nanoseconds, ticks) = (elapsed_nanoseconds(), counter::read().saturating_sub(start.ticks));
            if nanoseconds >= LEAST_BASELINE && ticks > 0 {
                return Self { nanoseconds_a_tick: nanoseconds as f64 / ticks as f64 };
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// Nanoseconds of so many ticks.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes an integer by saturating"
    )]
    pub(crate) fn nanoseconds(self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanoseconds_a_tick) as u64
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether the processor says that its counter keeps its pace in every power state ("invariant TSC": Intel SDM vol. 3B,
    /// 17.17.1; the same bit on AMD).
    pub(super) fn runs_evenly() -> bool {
        const EXTENDED: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        __cpuid(EXTENDED).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and user programs may run it on every system with CUDA.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn runs_evenly() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_nanoseconds_that_the_system_counts() {
        start();
        let (before, ticks_before) = (elapsed_nanoseconds(), ticks());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (system, ours) = (elapsed_nanoseconds() - before, Pace::now().nanoseconds(ticks() - ticks_before));
        // The second pair was not read at one moment: a busy machine may be away for long between them, not for ever.
        assert!(ours >= system / 2 && ours <= system * 2 + 100_000_000, "{ours} against {system}");
    }
}
