//! The level of memory over a scope's calls, in bounded memory: windows of calls, the minimum of each.
//!
//! A leak shows in the floor of the level, so a window keeps its least level. When the windows are full, pairs of them are
//! merged and each covers twice as many calls; the newest call is always in the last window.

/// Most windows of a series. Eight tell a trend (six of them full); four times that leave a picture to look at.
pub(crate) const WINDOWS: usize = 32;

/// The levels at the entry of some calls in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// When the first of the calls began, in ticks of the scopes' clock.
    pub(crate) start: u64,
    pub(crate) calls: u64,
    /// The least allocated and the least reserved bytes at the entry of one of them.
    pub(crate) allocated: i64,
    pub(crate) reserved: i64,
}

impl Window {
    fn merge(&self, later: &Self) -> Self {
        Self {
            start: self.start.min(later.start),
            calls: self.calls + later.calls,
            allocated: self.allocated.min(later.allocated),
            reserved: self.reserved.min(later.reserved),
        }
    }
}

/// A level at one call's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) at: u64,
    pub(crate) allocated: i64,
    pub(crate) reserved: i64,
}

/// Levels over calls: first, last, and the windows between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Series {
    pub(crate) first: Option<Level>,
    pub(crate) last: Option<Level>,
    pub(crate) windows: Vec<Window>,
}

impl Series {
    /// Adds the calls of another thread, in the order of time.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.first = [self.first, other.first].into_iter().flatten().min_by_key(|level| level.at);
        self.last = [self.last, other.last].into_iter().flatten().max_by_key(|level| level.at);
        self.windows.extend_from_slice(&other.windows);
        self.windows.sort_by_key(|window| window.start);
        while self.windows.len() > WINDOWS {
            self.windows = self
                .windows
                .chunks(2)
                .map(|pair| pair[1..].iter().fold(pair[0], |merged, window| merged.merge(window)))
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: u64, allocated: i64) -> Window {
        Window { start, calls: 1, allocated, reserved: allocated }
    }

    #[test]
    fn two_threads_levels_join_in_the_order_of_time() {
        let mut one = Series { windows: vec![window(1, 10), window(5, 50)], ..Series::default() };
        one.merge(&Series { windows: vec![window(3, 30)], ..Series::default() });
        assert_eq!(one.windows, [window(1, 10), window(3, 30), window(5, 50)]);
    }

    #[test]
    fn a_series_too_long_is_halved_and_keeps_every_call_and_the_floor() {
        let mut sum = Series::default();
        for thread in 0..5 {
            let windows =
                (0..WINDOWS as u64).map(|index| window(index * 5 + thread, (index * 100).cast_signed())).collect();
            sum.merge(&Series { windows, ..Series::default() });
            assert!(sum.windows.len() <= WINDOWS);
        }
        assert_eq!(sum.windows.iter().map(|window| window.calls).sum::<u64>(), 5 * WINDOWS as u64);
        assert_eq!(sum.windows.iter().map(|window| window.allocated).min(), Some(0));
        assert!(sum.windows.is_sorted_by_key(|window| window.start));
    }
}
