//! What is kept of the calls of one call path on one device, as plain figures that can be added up.

use super::series::Series;

/// Sum, least and most of a figure. The number of calls behind it is kept beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Saturating: a sum that reaches the ends of `i64` is no longer one.
    pub(crate) sum: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
}

impl Spread {
    pub(crate) const EMPTY: Self = Self { sum: 0, min: i64::MAX, max: i64::MIN };

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Figures of calls, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Calls behind `net` and `reserved_net`: those that no call of the same scope enclosed.
    pub(crate) calls: u64,
    /// Calls of them whose peak is known, behind `peak` and `transient`.
    pub(crate) peaks: u64,
    pub(crate) net: Spread,
    pub(crate) reserved_net: Spread,
    pub(crate) peak: Spread,
    pub(crate) transient: Spread,
    /// Net less the net of tracked calls made meanwhile, over every call, recursive ones too.
    pub(crate) self_net: i64,
}

impl Sums {
    pub(crate) const EMPTY: Self = Self {
        calls: 0,
        peaks: 0,
        net: Spread::EMPTY,
        reserved_net: Spread::EMPTY,
        peak: Spread::EMPTY,
        transient: Spread::EMPTY,
        self_net: 0,
    };

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.peaks += other.peaks;
        self.net.merge(&other.net);
        self.reserved_net.merge(&other.reserved_net);
        self.peak.merge(&other.peak);
        self.transient.merge(&other.transient);
        self.self_net = self.self_net.saturating_add(other.self_net);
    }
}

/// How many calls there were, and how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Calls begun.
    pub(crate) entered: u64,
    /// Calls ended. A future may begin on one thread and end on another: only sums over threads compare.
    pub(crate) left: u64,
    pub(crate) errors: u64,
    pub(crate) panics: u64,
    pub(crate) cancelled: u64,
    /// Calls that a call of the same scope enclosed.
    pub(crate) recursive: u64,
    /// Calls whose figures are unknown: no context was current, or a reading failed.
    pub(crate) unknown: u64,
    pub(crate) over_growth: u64,
    pub(crate) over_peak: u64,
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.entered += other.entered;
        self.left += other.left;
        self.errors += other.errors;
        self.panics += other.panics;
        self.cancelled += other.cancelled;
        self.recursive += other.recursive;
        self.unknown += other.unknown;
        self.over_growth += other.over_growth;
        self.over_peak += other.over_peak;
    }
}

/// Everything kept of one call path on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) counts: Counts,
    /// Calls during which no other thread was in a tracked call: these figures are exact.
    pub(crate) exact: Sums,
    /// Calls that overlapped one: these figures hold what the other threads did meanwhile.
    pub(crate) overlapped: Sums,
    /// Ticks of the scopes' clock a call, over every call that is not recursive.
    pub(crate) time: Spread,
    pub(crate) levels: Series,
    /// Threads whose figures were being written at every attempt to copy them: parts of theirs are of different calls.
    pub(crate) torn: u64,
}

impl Totals {
    pub(crate) fn empty() -> Self {
        Self {
            counts: Counts::default(),
            exact: Sums::EMPTY,
            overlapped: Sums::EMPTY,
            time: Spread::EMPTY,
            levels: Series::default(),
            torn: 0,
        }
    }

    /// Adds the calls of another thread, or of another path of the same scope.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.exact.merge(&other.exact);
        self.overlapped.merge(&other.overlapped);
        self.time.merge(&other.time);
        self.levels.merge(&other.levels);
        self.torn += other.torn;
    }
}
