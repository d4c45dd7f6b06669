//! The figures of one call path on one device and one thread: written by that thread alone, read by any.
//!
//! A sequence number guards them: odd while the thread writes. A reader copies, and copies again if the number moved. The
//! writer never waits, takes no lock and allocates nothing.

use super::path::Node;
use super::series::{Level, Series, WINDOWS, Window};
use super::totals::{Counts, Spread, Sums, Totals};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering, fence};

/// A copy is tried this often before a torn one is accepted: a writer is inside for tens of nanoseconds at a time.
const READ_ATTEMPTS: u32 = 10_000;

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
        self.calls.add(1);
        self.net.add(measured.net);
        self.reserved_net.add(measured.reserved_net);
        if let Some(peak) = measured.peak {
            self.peaks.add(1);
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
            self.fill.add(1);
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
    pub(crate) nanoseconds: u64,
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
            slot.counts.entered.add(1);
            if let Some(level) = level {
                slot.levels.push(level);
            }
        });
    }

    /// A call ended. To be called by the slot's own thread only.
    pub(crate) fn leave(&self, call: &Call) {
        self.write(|slot| {
            let counts = &slot.counts;
            counts.left.add(1);
            match call.ending {
                Ending::Returned => {}
                Ending::Failed => counts.errors.add(1),
                Ending::Panicked => counts.panics.add(1),
                Ending::Cancelled => counts.cancelled.add(1),
            }
            counts.over_growth.add(call.over_growth.into());
            counts.over_peak.add(call.over_peak.into());
            counts.recursive.add(call.recursive.into());
            if !call.recursive {
                slot.time.add(i64::try_from(call.nanoseconds).unwrap_or(i64::MAX));
            }
            match &call.measured {
                None => counts.unknown.add(1),
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

    /// A copy of the figures, from any thread.
    pub(crate) fn read(&self) -> Totals {
        let mut attempts = 0;
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let totals = Totals {
                counts: self.counts.read(),
                exact: self.exact.read(),
                overlapped: self.overlapped.read(),
                time: self.time.read(),
                levels: self.levels.read(),
            };
            fence(Ordering::Acquire);
            let whole = before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before;
            attempts += 1;
            if whole || attempts == READ_ATTEMPTS {
                return totals;
            }
            std::hint::spin_loop();
        }
    }
}
