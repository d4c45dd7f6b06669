//! Free ranges of addresses, found by best fit: the tree that the pool keeps once for itself and once for each stream.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Mark;

/// A free range, from its start (the key it is kept under) to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    end: u64,
    /// When it was put into the tree, as what it is now.
    inserted: u64,
    /// When its bytes were freed; what is left of a range that was cut keeps this.
    freed: Mark,
    /// Whether every granule under it is mapped.
    mapped: bool,
}

/// Disjoint free ranges that never touch: neighbours are joined as they are added.
///
/// Among ranges of one size the one that was put in first is found first, and whatever changes a range (joining, cutting)
/// puts it in anew. Both were seen on an H200, where the offsets of the `random`, `varlen` and `small` traces follow no
/// other order.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    by_start: BTreeMap<u64, Range>,
    /// Size, insertion and start: apart for ranges with a granule missing and for those fully mapped.
    by_size: [BTreeSet<(u64, u64, u64)>; 2],
    by_freed: BTreeSet<(Mark, u64)>,
    clock: u64,
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Adds a range freed at `freed`, joined with its neighbours; returns what it became. `mapped` judges the joined range.
    pub(super) fn add(
        &mut self,
        (mut start, mut end): (u64, u64),
        freed: Mark,
        mapped: impl FnOnce(u64, u64) -> bool,
    ) -> (u64, u64) {
        if start >= end {
            return (start, end);
        }
        if let Some((&before, range)) = self.by_start.range(..start).next_back()
            && range.end == start
        {
            self.remove(before);
            start = before;
        }
        if let Some(&Range { end: after, .. }) = self.by_start.get(&end) {
            self.remove(end);
            end = after;
        }
        self.clock += 1;
        let mapped = mapped(start, end);
        self.insert(start, Range { end, inserted: self.clock, freed, mapped });
        (start, end)
    }

    /// The start of the smallest range of at least `bytes`; of those, the one put in first.
    pub(super) fn best(&self, bytes: u64) -> Option<u64> {
        let fits = self.by_size.iter().filter_map(|sizes| sizes.range((bytes, 0, 0)..).next());
        fits.min().map(|&(.., start)| start)
    }

    /// As [`Ranges::best`], among those fully mapped.
    pub(super) fn best_mapped(&self, bytes: u64) -> Option<u64> {
        self.by_size[1].range((bytes, 0, 0)..).next().map(|&(.., start)| start)
    }

    /// Takes the first `bytes` of the range at `start`. `mapped` judges what is left.
    pub(super) fn take(&mut self, start: u64, bytes: u64, mapped: impl FnOnce(u64, u64) -> bool) {
        let Some(range) = self.remove(start) else { return };
        let rest = start + bytes;
        if rest < range.end {
            self.clock += 1;
            self.insert(rest, Range { inserted: self.clock, mapped: mapped(rest, range.end), ..range });
        }
    }

    /// Judges the range that holds `offset` anew.
    pub(super) fn judge(&mut self, offset: u64, mapped: impl FnOnce(u64, u64) -> bool) {
        let Some((&start, &range)) = self.by_start.range(..=offset).next_back() else { return };
        let now = mapped(start, range.end);
        if now != range.mapped {
            self.remove(start);
            self.insert(start, Range { mapped: now, ..range });
        }
    }

    /// The range that holds `offset`: its start and its end.
    pub(super) fn holding(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, range) = self.by_start.range(..=offset).next_back()?;
        (offset < range.end).then_some((start, range.end))
    }

    /// As [`Ranges::best`], among those freed by `done`.
    pub(super) fn best_freed_by(&self, bytes: u64, done: Mark) -> Option<u64> {
        if self.by_freed.first().is_none_or(|&(first, _)| first > done) {
            return None;
        }
        let mut fits = self.by_size.iter().flat_map(|sizes| sizes.range((bytes, 0, 0)..)).map(|&(.., start)| start);
        fits.find(|start| self.by_start.get(start).is_some_and(|range| range.freed <= done))
    }

    /// When the range at `start` was freed.
    pub(super) fn freed(&self, start: u64) -> Option<Mark> {
        self.by_start.get(&start).map(|range| range.freed)
    }

    /// Takes out the ranges freed by `done`: the newest free first.
    pub(super) fn take_freed_by(&mut self, done: Mark) -> Vec<(u64, u64)> {
        let freed = self.by_freed.range(..=(done, u64::MAX)).map(|&(freed, start)| (Reverse(freed), start));
        let mut starts: Vec<_> = freed.collect();
        starts.sort_unstable();
        starts.into_iter().filter_map(|(_, start)| Some((start, self.remove(start)?.end))).collect()
    }

    fn insert(&mut self, start: u64, range: Range) {
        self.by_size[usize::from(range.mapped)].insert((range.end - start, range.inserted, start));
        self.by_freed.insert((range.freed, start));
        self.by_start.insert(start, range);
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        let range = self.by_start.remove(&start)?;
        self.by_size[usize::from(range.mapped)].remove(&(range.end - start, range.inserted, start));
        self.by_freed.remove(&(range.freed, start));
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ranges: &[(u64, u64)]) -> Ranges {
        let mut tree = Ranges::default();
        for (freed, &range) in (1..).zip(ranges) {
            tree.add(range, Mark(freed), |_, _| true);
        }
        tree
    }

    #[test]
    fn the_smallest_range_that_fits_is_found() {
        let tree = with(&[(0, 10), (20, 25), (30, 37)]);
        assert_eq!(tree.best(5), Some(20));
        assert_eq!(tree.best(6), Some(30));
        assert_eq!(tree.best(8), Some(0));
        assert_eq!(tree.best(11), None);
    }

    #[test]
    fn of_equals_the_one_put_in_first_is_found() {
        let tree = with(&[(40, 44), (0, 4), (20, 24)]);
        assert_eq!(tree.best(4), Some(40));
    }

    #[test]
    fn what_is_left_of_a_range_counts_as_put_in_last() {
        let mut tree = with(&[(0, 6), (20, 24)]);
        tree.take(0, 2, |_, _| true);
        assert_eq!(tree.holding(2), Some((2, 6)));
        assert_eq!(tree.best(4), Some(20));
    }

    #[test]
    fn neighbours_are_joined_on_both_sides() {
        let mut tree = with(&[(0, 4), (8, 12)]);
        assert_eq!(tree.add((4, 8), Mark(9), |_, _| true), (0, 12));
        assert_eq!(tree.best(12), Some(0));
        assert_eq!(tree.holding(12), None);
    }

    #[test]
    fn what_is_left_of_a_range_keeps_the_time_of_its_free() {
        let mut tree = with(&[(0, 4), (10, 14), (20, 24)]);
        tree.take(0, 2, |_, _| true);
        assert_eq!(tree.take_freed_by(Mark(3)), [(20, 24), (10, 14), (2, 4)]);
        assert!(tree.is_empty());
    }

    #[test]
    fn what_was_freed_later_stays() {
        let mut tree = with(&[(0, 4), (10, 14), (20, 24)]);
        assert_eq!(tree.best_freed_by(4, Mark(2)), Some(0));
        assert_eq!(tree.take_freed_by(Mark(2)), [(10, 14), (0, 4)]);
        assert_eq!(tree.best_freed_by(4, Mark(2)), None);
        assert_eq!(tree.best(4), Some(20));
    }

    #[test]
    fn a_range_with_a_granule_missing_is_not_found_as_mapped() {
        let mut tree = Ranges::default();
        tree.add((0, 8), Mark(1), |_, _| false);
        tree.add((20, 30), Mark(2), |_, _| true);
        assert_eq!(tree.best(4), Some(0));
        assert_eq!(tree.best_mapped(4), Some(20));
        tree.judge(3, |_, _| true);
        assert_eq!(tree.best_mapped(4), Some(0));
    }
}
