//! No growth, asserted: a step is run again and again, and the level of memory after each run is judged.

use crate::bytes::{Bytes, Change};
use crate::config::Config;
use crate::report::{self, Report};
use std::fmt::Write as _;

/// Runs left out of the judgement: the first ones fill caches and load modules.
const DEFAULT_WARMUP: u32 = 3;
/// Runs judged. Ten in each half give a floor to compare where a step frees late.
const DEFAULT_ITERATIONS: u32 = 20;
/// Fewest runs judged: each half needs a level.
const FEWEST_ITERATIONS: u32 = 2;

/// What [`assert_no_growth!`](crate::assert_no_growth) runs: the same with a builder.
///
/// The judgement is of the floor, not of last less first: the least allocated after a run in the second half of the runs,
/// less the least in the first half. A cache that is filled and emptied in turn has a flat floor.
///
/// ```no_run
/// # fn step() {}
/// oomguard::assertion::NoGrowth::new().warmup(5).iterations(50).tolerance(1 << 20).check(|| step());
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing runs until `check`"]
pub struct NoGrowth {
    warmup: u32,
    iterations: u32,
    tolerance: u64,
}

impl Default for NoGrowth {
    fn default() -> Self {
        Self { warmup: DEFAULT_WARMUP, iterations: DEFAULT_ITERATIONS, tolerance: 0 }
    }
}

/// The floor's rise over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Floors {
    first_half: u64,
    second_half: u64,
}

impl Floors {
    /// Of levels in the order of the runs; `None` where there are too few.
    fn of(levels: &[u64]) -> Option<Self> {
        let (first, second) = levels.split_at(levels.len() / 2);
        Some(Self { first_half: first.iter().copied().min()?, second_half: second.iter().copied().min()? })
    }

    fn growth(self) -> i64 {
        self.second_half.cast_signed().wrapping_sub(self.first_half.cast_signed())
    }
}

impl NoGrowth {
    /// 3 runs of warm-up, 20 judged, no tolerance.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs before the judgement begins.
    pub fn warmup(mut self, runs: u32) -> Self {
        self.warmup = runs;
        self
    }

    /// Runs judged; at least 2.
    pub fn iterations(mut self, runs: u32) -> Self {
        self.iterations = runs.max(FEWEST_ITERATIONS);
        self
    }

    /// Bytes by which the floor may rise.
    pub fn tolerance(mut self, bytes: u64) -> Self {
        self.tolerance = bytes;
        self
    }

    /// Runs `step`, and panics where the floor rose. What a run returns is dropped before the level is read.
    ///
    /// With nothing to measure by (no device, no pools, tracking off) the step runs all the same and the check is skipped
    /// with a line on standard error; `OOMGUARD_REQUIRE_DEVICE=1` makes that a failure.
    ///
    /// The level is the process's, on the device of this thread's context: what other threads allocate meanwhile is judged
    /// too. One check runs at a time; others wait.
    ///
    /// # Panics
    /// The floor rose by more than the tolerance, or `step` panicked.
    #[track_caller]
    pub fn check<R>(&self, mut step: impl FnMut() -> R) {
        let _turn = turn::take();
        for _ in 0..self.warmup {
            drop(step());
        }
        let before = crate::report();
        let mut levels = Vec::with_capacity(self.iterations as usize);
        let mut last = crate::live::allocated();
        for _ in 0..self.iterations {
            drop(step());
            last = crate::live::allocated();
            levels.extend(last.as_ref().ok().copied());
        }
        if levels.len() < self.iterations as usize {
            let why = last.err().unwrap_or_else(|| "the pools could not be read at every run".to_owned());
            let message = format!("assert_no_growth has nothing to measure by: {why}");
            assert!(!Config::from_env().require_device, "{message} (OOMGUARD_REQUIRE_DEVICE=1)");
            report::notes::say(&format!("{message}; the step ran, and nothing was checked"));
            return;
        }
        let Some(floors) = Floors::of(&levels) else { return };
        let tolerated = i64::try_from(self.tolerance).unwrap_or(i64::MAX);
        assert!(floors.growth() <= tolerated, "{}", self.evidence(&levels, floors, &before, &crate::report()));
    }

    fn evidence(&self, levels: &[u64], floors: Floors, before: &Report, after: &Report) -> String {
        let mut text = format!(
            "GPU memory grew: the floor rose by {} over {} runs, and {} is tolerated\n",
            Bytes(floors.growth().unsigned_abs()),
            levels.len(),
            Bytes(self.tolerance),
        );
        let half = levels.len() / 2;
        _ = writeln!(
            text,
            "the least after a run: {} in runs 1 to {half}, {} in runs {} to {}",
            Bytes(floors.first_half),
            Bytes(floors.second_half),
            half + 1,
            levels.len()
        );
        text.push_str("allocated after each run:\n");
        let mut previous = None;
        for (index, level) in levels.iter().enumerate() {
            let change = previous.map_or(0, |previous: u64| level.cast_signed().wrapping_sub(previous.cast_signed()));
            let change = if change == 0 { String::new() } else { format!("  {}", Change(change)) };
            _ = writeln!(text, "{:>6}  {:>12}{change}", index + 1, Bytes(*level).to_string());
            previous = Some(*level);
        }
        let grown = grown(before, after);
        if grown.is_empty() {
            text.push_str(
                "no tracked scope kept memory of its own: put #[track_gpu_mem] on the functions that the step calls\n",
            );
        } else {
            text.push_str("scopes that kept memory meanwhile:\n");
            for (name, calls, bytes) in grown {
                _ = writeln!(text, "  {name}: {} over {calls} calls", Change(bytes));
            }
        }
        text
    }
}

/// Scopes whose own code kept memory between two reports: name, calls and bytes, most first.
fn grown(before: &Report, after: &Report) -> Vec<(String, u64, i64)> {
    let own = |report: &Report, path: &str| {
        let scope = report.scopes.iter().find(|scope| scope.path == path);
        let figures = || scope.into_iter().flat_map(|scope| &scope.on);
        let bytes = figures()
            .flat_map(|figures| [figures.exact.self_net, figures.overlapped.self_net])
            .flatten()
            .fold(0, i64::saturating_add);
        (figures().map(|figures| figures.calls).sum::<u64>(), bytes)
    };
    let mut grown: Vec<_> = after
        .scopes
        .iter()
        .map(|scope| {
            let ((calls, bytes), (calls_before, bytes_before)) = (own(after, &scope.path), own(before, &scope.path));
            (scope.name.clone(), calls - calls_before, bytes.saturating_sub(bytes_before))
        })
        .filter(|(_, _, bytes)| *bytes > 0)
        .collect();
    grown.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
    grown
}

/// Checks take turns: the level is the process's, and two at once would each see the other's memory.
mod turn {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    static TURN: Mutex<()> = Mutex::new(());

    pub(super) fn take() -> MutexGuard<'static, ()> {
        // A check that failed has panicked in its turn; the next one is not the worse for it.
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Floors;

    fn growth(levels: &[u64]) -> i64 {
        Floors::of(levels).expect("two halves").growth()
    }

    #[test]
    fn a_sawtooth_has_a_flat_floor() {
        assert_eq!(growth(&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]), 0);
    }

    #[test]
    fn a_leak_raises_the_floor_whether_steady_or_rare() {
        assert_eq!(growth(&[10, 11, 12, 13]), 2);
        assert_eq!(growth(&[10, 10, 10, 20, 20, 20]), 10);
    }

    #[test]
    fn one_level_a_half_is_enough_and_fewer_are_not() {
        assert_eq!(growth(&[5, 6]), 1);
        assert_eq!(Floors::of(&[5]), None);
    }
}
