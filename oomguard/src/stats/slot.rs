//! The figures of one call path on one device and one thread: written by that thread alone, read by any.
//!
//! A sequence number guards them: odd while the thread writes. A reader copies, and copies again if the number moved. The
//! writer never waits, takes no lock and allocates nothing.

use super::path::Node;
use super::series::{Level, Series, WINDOWS, Window};
use super::totals::{Counts, Spread, Sums, Totals};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering, fence};

/// A copy is tried this often before a torn one is accepted, and said to be torn. A writer is inside for tens of nanoseconds,
/// and between two of its writes there are at least the driver's counter reads, some hundred.
const READ_ATTEMPTS: u32 = 10_000;
/// Attempts in a row before the reader gives its processor away.
const SPINS: u32 = 64;

/// A figure with one writer.
#[derive(Debug)]
struct Figure(AtomicI64);

impl Figure {
    const fn new(value: i64) -> Self {
        Self(AtomicI64::new(value))
    }
    fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
    fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
    fn add(&self, value: i64) {
        self.set(self.get().saturating_add(value));
    }
    /// One more. Nobody lives to see 2^63 of anything.
    fn increment(&self) {
        self.set(self.get().wrapping_add(1));
    }
    fn count(&self) -> u64 {
        self.get().cast_unsigned()
    }
}

#[derive(Debug)]
struct SpreadSlot {
    sum: Figure,
    min: Figure,
    max: Figure,
}

impl SpreadSlot {
    const fn new() -> Self {
        let Spread { sum, min, max } = Spread::EMPTY;
        Self { sum: Figure::new(sum), min: Figure::new(min), max: Figure::new(max) }
    }
    fn add(&self, value: i64) {
        self.sum.add(value);
        if value < self.min.get() {
            self.min.set(value);
        }
        if value > self.max.get() {
            self.max.set(value);
        }
    }
    fn read(&self) -> Spread {
        Spread { sum: self.sum.get(), min: self.min.get(), max: self.max.get() }
    }
}

#[derive(Debug)]
struct SumsSlot {
    calls: Figure,
    peaks: Figure,
    net: SpreadSlot,
    reserved_net: SpreadSlot,
    peak: SpreadSlot,
    transient: SpreadSlot,
    self_net: Figure,
}

impl SumsSlot {
    const fn new() -> Self {
        Self {
            calls: Figure::new(0),
            peaks: Figure::new(0),
            net: SpreadSlot::new(),
            reserved_net: SpreadSlot::new(),
            peak: SpreadSlot::new(),
            transient: SpreadSlot::new(),
            self_net: Figure::new(0),
        }
    }
    fn add(&self, measured: &Measured, recursive: bool) {
        self.self_net.add(measured.self_net);
        if recursive {
            return;
        }
        self.calls.increment();
        self.net.add(measured.net);
        self.reserved_net.add(measured.reserved_net);
        if let Some(peak) = measured.peak {
            self.peaks.increment();
            self.peak.add(peak);
            self.transient.add(peak - measured.net.max(0));
        }
    }
    fn read(&self) -> Sums {
        Sums {
            calls: self.calls.count(),
            peaks: self.peaks.count(),
            net: self.net.read(),
            reserved_net: self.reserved_net.read(),
            peak: self.peak.read(),
            transient: self.transient.read(),
            self_net: self.self_net.get(),
        }
    }
}

#[derive(Debug)]
struct LevelSlot {
    at: Figure,
    allocated: Figure,
    reserved: Figure,
}

impl LevelSlot {
    const fn new() -> Self {
        Self { at: Figure::new(0), allocated: Figure::new(0), reserved: Figure::new(0) }
    }
    fn set(&self, level: &Level) {
        self.at.set(level.at.cast_signed());
        self.allocated.set(level.allocated);
        self.reserved.set(level.reserved);
    }
    fn read(&self) -> Level {
        Level { at: self.at.count(), allocated: self.allocated.get(), reserved: self.reserved.get() }
    }
}

#[derive(Debug)]
struct SeriesSlot {
    first: LevelSlot,
    last: LevelSlot,
    /// Windows in use.
    len: Figure,
    /// Calls that a window covers when it is full.
    stride: Figure,
    /// Calls in the last window.
    fill: Figure,
    windows: [LevelSlot; WINDOWS],
}

impl SeriesSlot {
    const fn new() -> Self {
        Self {
            first: LevelSlot::new(),
            last: LevelSlot::new(),
            len: Figure::new(0),
            stride: Figure::new(1),
            fill: Figure::new(0),
            windows: [const { LevelSlot::new() }; WINDOWS],
        }
    }

    fn push(&self, level: &Level) {
        let mut len = self.len_in_use();
        if len == 0 {
            self.first.set(level);
        }
        self.last.set(level);
        if let Some(newest) = len.checked_sub(1).and_then(|last| self.windows.get(last))
            && self.fill.get() < self.stride.get()
        {
            newest.allocated.set(newest.allocated.get().min(level.allocated));
            newest.reserved.set(newest.reserved.get().min(level.reserved));
            self.fill.increment();
            return;
        }
        if len == WINDOWS {
            self.halve();
            len = WINDOWS / 2;
        }
        if let Some(next) = self.windows.get(len) {
            next.set(level);
        }
        self.len.set((len as u64 + 1).cast_signed());
        self.fill.set(1);
    }

    fn halve(&self) {
        for (into, pair) in self.windows.iter().zip(self.windows.chunks_exact(2)) {
            let (earlier, later) = (pair[0].read(), pair[1].read());
            into.set(&Level {
                at: earlier.at,
                allocated: earlier.allocated.min(later.allocated),
                reserved: earlier.reserved.min(later.reserved),
            });
        }
        self.stride.set(self.stride.get().saturating_mul(2));
    }

    /// In bounds whatever a torn read gave.
    fn len_in_use(&self) -> usize {
        usize::try_from(self.len.get()).unwrap_or(0).min(WINDOWS)
    }

    fn read(&self) -> Series {
        let len = self.len_in_use();
        if len == 0 {
            return Series::default();
        }
        let windows = self.windows[..len].iter().enumerate().map(|(index, window)| {
            let level = window.read();
            let calls = if index + 1 == len { self.fill.count() } else { self.stride.count() };
            Window { start: level.at, calls, allocated: level.allocated, reserved: level.reserved }
        });
        Series { first: Some(self.first.read()), last: Some(self.last.read()), windows: windows.collect() }
    }
}

/// What two readings say of a stretch of a program, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) net: i64,
    pub(crate) self_net: i64,
    pub(crate) reserved_net: i64,
    pub(crate) peak: Option<i64>,
    /// Another thread was in a tracked call on the same device meanwhile.
    pub(crate) overlapped: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Returned,
    Failed,
    Panicked,
    Cancelled,
}

/// A call that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) ending: Ending,
    /// None: unknown.
    pub(crate) measured: Option<Measured>,
    pub(crate) ticks: u64,
    pub(crate) over_growth: bool,
    pub(crate) over_peak: bool,
    pub(crate) recursive: bool,
}

#[derive(Debug)]
struct CountsSlot {
    entered: Figure,
    left: Figure,
    errors: Figure,
    panics: Figure,
    cancelled: Figure,
    recursive: Figure,
    unknown: Figure,
    over_growth: Figure,
    over_peak: Figure,
}

impl CountsSlot {
    const fn new() -> Self {
        Self {
            entered: Figure::new(0),
            left: Figure::new(0),
            errors: Figure::new(0),
            panics: Figure::new(0),
            cancelled: Figure::new(0),
            recursive: Figure::new(0),
            unknown: Figure::new(0),
            over_growth: Figure::new(0),
            over_peak: Figure::new(0),
        }
    }
    fn read(&self) -> Counts {
        Counts {
            entered: self.entered.count(),
            left: self.left.count(),
            errors: self.errors.count(),
            panics: self.panics.count(),
            cancelled: self.cancelled.count(),
            recursive: self.recursive.count(),
            unknown: self.unknown.count(),
            over_growth: self.over_growth.count(),
            over_peak: self.over_peak.count(),
        }
    }
}

/// Figures of one call path, on one device, on one thread.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) node: &'static Node,
    /// The device's ordinal; none for calls that had no context.
    pub(crate) device: Option<u8>,
    sequence: AtomicU32,
    counts: CountsSlot,
    exact: SumsSlot,
    overlapped: SumsSlot,
    time: SpreadSlot,
    levels: SeriesSlot,
}

impl Slot {
    pub(crate) const fn new(node: &'static Node, device: Option<u8>) -> Self {
        Self {
            node,
            device,
            sequence: AtomicU32::new(0),
            counts: CountsSlot::new(),
            exact: SumsSlot::new(),
            overlapped: SumsSlot::new(),
            time: SpreadSlot::new(),
            levels: SeriesSlot::new(),
        }
    }

    /// A call began. To be called by the slot's own thread only.
    pub(crate) fn enter(&self, level: Option<&Level>) {
        self.write(|slot| {
            slot.counts.entered.increment();
            if let Some(level) = level {
                slot.levels.push(level);
            }
        });
    }

    /// A call ended. To be called by the slot's own thread only.
    pub(crate) fn leave(&self, call: &Call) {
        self.write(|slot| {
            let counts = &slot.counts;
            counts.left.increment();
            match call.ending {
                Ending::Returned => {}
                Ending::Failed => counts.errors.increment(),
                Ending::Panicked => counts.panics.increment(),
                Ending::Cancelled => counts.cancelled.increment(),
            }
            if call.over_growth {
                counts.over_growth.increment();
            }
            if call.over_peak {
                counts.over_peak.increment();
            }
            if call.recursive {
                counts.recursive.increment();
            } else {
                slot.time.add(i64::try_from(call.ticks).unwrap_or(i64::MAX));
            }
            match &call.measured {
                None => counts.unknown.increment(),
                Some(measured) if measured.overlapped => slot.overlapped.add(measured, call.recursive),
                Some(measured) => slot.exact.add(measured, call.recursive),
            }
        });
    }

    fn write(&self, change: impl FnOnce(&Self)) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        // No figure is written before the odd number can be seen, and none after the even one.
        fence(Ordering::Release);
        change(self);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// A copy of the figures, from any thread. The levels may be a moment younger than the rest.
    pub(crate) fn read(&self) -> Totals {
        let (mut totals, whole) = self.copy(|slot| Totals {
            counts: slot.counts.read(),
            exact: slot.exact.read(),
            overlapped: slot.overlapped.read(),
            time: slot.time.read(),
            ..Totals::empty()
        });
        let (levels, levels_whole) = self.copy(|slot| slot.levels.read());
        totals.levels = levels;
        totals.torn = u64::from(!(whole && levels_whole));
        totals
    }

    /// Copies until no write came between, and tells whether that was so in the end.
    fn copy<T>(&self, figures: impl Fn(&Self) -> T) -> (T, bool) {
        let mut attempts = 0;
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let copy = figures(self);
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before {
                return (copy, true);
            }
            attempts += 1;
            if attempts == READ_ATTEMPTS {
                return (copy, false);
            }
            if attempts.is_multiple_of(SPINS) {
                // The writer may have lost its processor in the middle.
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Site, SiteMeta};
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    static SITE: Site = Site::new(SiteMeta {
        name: Some("a scope"),
        path: || "a::scope::here",
        file: "",
        line: 0,
        growth: None,
        peak: None,
        sees_outcome: true,
    });
    static NODE: Node = Node { site: &SITE, parent: None, index: 0 };

    fn call(measured: Option<Measured>, recursive: bool) -> Call {
        Call { ending: Ending::Returned, measured, ticks: 5, over_growth: false, over_peak: false, recursive }
    }

    fn measured() -> impl Strategy<Value = Option<Measured>> {
        let bytes = -(1_i64 << 38)..(1 << 38);
        let figures = (bytes.clone(), bytes.clone(), bytes, proptest::option::of(0..(1_i64 << 38)), any::<bool>());
        proptest::option::of(figures.prop_map(|(net, self_net, reserved_net, above, overlapped)| Measured {
            net,
            self_net,
            reserved_net,
            peak: above.map(|above| net.max(0) + above),
            overlapped,
        }))
    }

    /// Sum, least and most, the plain way.
    fn spread(values: &[i64]) -> Spread {
        values.iter().fold(Spread::EMPTY, |sum, value| Spread {
            sum: sum.sum + value,
            min: sum.min.min(*value),
            max: sum.max.max(*value),
        })
    }

    proptest! {
        #[test]
        fn a_slot_keeps_what_adding_up_every_call_gives(calls in prop::collection::vec((measured(), any::<bool>()), 0..200)) {
            let slot = Slot::new(&NODE, Some(0));
            for (measured, recursive) in &calls {
                slot.enter(None);
                slot.leave(&call(*measured, *recursive));
            }
            let totals = slot.read();
            prop_assert_eq!(totals.counts.entered, calls.len() as u64);
            prop_assert_eq!(totals.counts.left, calls.len() as u64);
            prop_assert_eq!(totals.counts.unknown, calls.iter().filter(|(measured, _)| measured.is_none()).count() as u64);
            for (sums, overlapped) in [(totals.exact, false), (totals.overlapped, true)] {
                let all: Vec<_> = calls
                    .iter()
                    .filter_map(|(measured, recursive)| Some((measured.filter(|one| one.overlapped == overlapped)?, *recursive)))
                    .collect();
                let outer: Vec<_> = all.iter().filter(|(_, recursive)| !recursive).map(|(measured, _)| *measured).collect();
                prop_assert_eq!(sums.self_net, all.iter().map(|(measured, _)| measured.self_net).sum::<i64>());
                prop_assert_eq!(sums.calls, outer.len() as u64);
                prop_assert_eq!(sums.net, spread(&outer.iter().map(|one| one.net).collect::<Vec<_>>()));
                let peaks: Vec<_> = outer.iter().filter_map(|one| one.peak.map(|peak| (peak, peak - one.net.max(0)))).collect();
                prop_assert_eq!(sums.peaks, peaks.len() as u64);
                prop_assert_eq!(sums.peak, spread(&peaks.iter().map(|(peak, _)| *peak).collect::<Vec<_>>()));
                prop_assert_eq!(sums.transient, spread(&peaks.iter().map(|(_, transient)| *transient).collect::<Vec<_>>()));
            }
        }

        #[test]
        fn a_series_is_bounded_and_loses_no_call_no_floor_and_not_the_newest(levels in prop::collection::vec(0_i64..1 << 40, 1..3_000)) {
            let slot = Slot::new(&NODE, Some(0));
            for (at, allocated) in levels.iter().enumerate() {
                slot.enter(Some(&Level { at: at as u64, allocated: *allocated, reserved: *allocated + 1 }));
            }
            let series = slot.read().levels;
            prop_assert!(series.windows.len() <= WINDOWS);
            prop_assert!(levels.len() < WINDOWS || series.windows.len() >= WINDOWS / 2);
            prop_assert_eq!(series.last.map(|level| level.allocated), levels.last().copied());
            let mut rest = levels.as_slice();
            let mut at = 0;
            for window in &series.windows {
                let (calls, later) = rest.split_at(usize::try_from(window.calls).expect("a count"));
                prop_assert_eq!(window.start, at);
                prop_assert_eq!(Some(window.allocated), calls.iter().copied().min());
                prop_assert_eq!(window.reserved, window.allocated + 1);
                at += window.calls;
                rest = later;
            }
            prop_assert!(rest.is_empty(), "every call is in a window");
        }
    }

    #[test]
    fn a_reader_never_sees_half_a_call() {
        let slot = Slot::new(&NODE, Some(0));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for net in 1..20_000 {
                    slot.enter(None);
                    let figures =
                        Measured { net, self_net: net, reserved_net: net, peak: Some(net), overlapped: false };
                    slot.leave(&call(Some(figures), false));
                    // The driver's reads, between two calls.
                    (0..500).for_each(|_| std::hint::spin_loop());
                }
                done.store(true, Ordering::Release);
            });
            let mut whole = 0;
            while !done.load(Ordering::Acquire) {
                let Totals { counts, exact, torn, .. } = slot.read();
                if torn > 0 {
                    continue;
                }
                whole += 1;
                // The n-th call nets n: whole copies alone hold together.
                let calls = exact.calls.cast_signed();
                assert_eq!(counts.left, exact.calls);
                assert_eq!(exact.net.sum, calls * (calls + 1) / 2);
                assert_eq!((exact.self_net, exact.peak.sum, exact.peaks), (exact.net.sum, exact.net.sum, exact.calls));
            }
            assert!(whole > 0, "a copy is whole sooner or later");
        });
    }
}
