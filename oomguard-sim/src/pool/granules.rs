//! Which granules of the pool's range have physical memory under them, and what keeps each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::GRANULE;

/// A mapped granule, as [`Pool::granules`](super::Pool::granules) shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granule {
    /// Bytes from the start of the pool's range.
    pub offset: u64,
    /// Bytes of live blocks in it, as they were asked for: with one, the granule is pinned.
    pub live: u64,
}

/// The granules that the bytes from `start` up to `end` lie in, by number.
pub(super) fn under(start: u64, end: u64) -> RangeInclusive<u64> {
    start / GRANULE..=end.max(start + 1).div_ceil(GRANULE) - 1
}

/// The mapped granules of a pool.
#[derive(Debug, Default)]
pub(super) struct Granules {
    /// Live bytes of each mapped granule.
    mapped: BTreeMap<u64, u64>,
    /// Granules that are not mapped, below `top`.
    missing: BTreeSet<u64>,
    /// Every granule from here on was never mapped.
    top: u64,
    /// Mapped granules that lie wholly in one free range of the pool's tree.
    spare: BTreeSet<u64>,
    /// Granules unmapped since they were last asked for, and not mapped again.
    unmapped: BTreeSet<u64>,
}

impl Granules {
    /// Bytes of all mapped granules.
    pub(super) fn reserved(&self) -> u64 {
        self.mapped.len() as u64 * GRANULE
    }

    pub(super) fn is_mapped(&self, granule: u64) -> bool {
        self.mapped.contains_key(&granule)
    }

    /// Whether physical memory lies under all the bytes from `start` up to `end`.
    pub(super) fn all_mapped(&self, start: u64, end: u64) -> bool {
        let granules = under(start, end);
        *granules.end() < self.top && self.missing.range(granules).next().is_none()
    }

    /// Whether the granule is mapped and wholly free.
    pub(super) fn is_spare(&self, granule: u64) -> bool {
        self.spare.contains(&granule)
    }

    pub(super) fn map(&mut self, granule: u64) {
        self.missing.extend(self.top..granule);
        self.top = self.top.max(granule + 1);
        self.missing.remove(&granule);
        self.unmapped.remove(&granule);
        self.mapped.entry(granule).or_insert(0);
    }

    pub(super) fn unmap(&mut self, granule: u64) {
        if self.mapped.remove(&granule).is_some() {
            self.spare.remove(&granule);
            self.missing.insert(granule);
            self.unmapped.insert(granule);
        }
    }

    /// The bytes from `start` up to `end` became free, as part of the free range `whole`.
    pub(super) fn freed(&mut self, start: u64, end: u64, whole: (u64, u64)) {
        for granule in under(start, end) {
            if whole.0 <= granule * GRANULE && (granule + 1) * GRANULE <= whole.1 && self.is_mapped(granule) {
                self.spare.insert(granule);
            }
        }
    }

    /// The bytes from `start` up to `end` are free no more.
    pub(super) fn taken(&mut self, start: u64, end: u64) {
        for granule in under(start, end) {
            self.spare.remove(&granule);
        }
    }

    /// The spare granule that goes first, to a place outside `kept` or back to the device.
    pub(super) fn next_spare(&self, kept: &RangeInclusive<u64>) -> Option<u64> {
        // Highest address first: seen on an H200, traces alternate-32m and which-trimmed.
        let above = self.spare.range(kept.end() + 1..).next_back();
        above.or_else(|| self.spare.range(..kept.start()).next_back()).copied()
    }

    /// The spare granule with the highest address.
    pub(super) fn last_spare(&self) -> Option<u64> {
        self.spare.last().copied()
    }

    /// Counts the live bytes of a block from `start` up to `end`: in, or out again.
    pub(super) fn count(&mut self, start: u64, end: u64, alive: bool) {
        for granule in under(start, end) {
            let bytes = end.min((granule + 1) * GRANULE) - start.max(granule * GRANULE);
            if let Some(live) = self.mapped.get_mut(&granule) {
                *live = if alive { *live + bytes } else { live.saturating_sub(bytes) };
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Granule> + '_ {
        self.mapped.iter().map(|(&granule, &live)| Granule { offset: granule * GRANULE, live })
    }

    pub(super) fn take_unmapped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unmapped).into_iter().map(|granule| granule * GRANULE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(granules: RangeInclusive<u64>) -> Granules {
        let mut map = Granules::default();
        granules.for_each(|granule| map.map(granule));
        map
    }

    #[test]
    fn a_byte_past_a_granule_lies_in_the_next() {
        assert_eq!(under(0, GRANULE), 0..=0);
        assert_eq!(under(0, GRANULE + 1), 0..=1);
        assert_eq!(under(GRANULE - 1, GRANULE + 1), 0..=1);
        assert_eq!(under(GRANULE, GRANULE), 1..=1);
    }

    #[test]
    fn what_was_never_mapped_is_missing() {
        let mut map = mapped(0..=1);
        map.map(4);
        assert!(map.all_mapped(0, 2 * GRANULE));
        assert!(!map.all_mapped(0, 2 * GRANULE + 1));
        assert!(!map.all_mapped(4 * GRANULE, 6 * GRANULE));
        assert_eq!(map.reserved(), 3 * GRANULE);
    }

    #[test]
    fn only_granules_wholly_in_a_free_range_are_spare() {
        let mut map = mapped(0..=3);
        map.freed(1, 3 * GRANULE, (1, 3 * GRANULE));
        assert_eq!(map.last_spare(), Some(2));
        assert_eq!(map.next_spare(&(2..=2)), Some(1));
        map.taken(GRANULE, GRANULE + 1);
        assert_eq!(map.next_spare(&(2..=2)), None);
    }

    #[test]
    fn a_granule_knows_its_live_bytes() {
        let mut map = mapped(0..=1);
        map.count(GRANULE - 10, GRANULE + 5, true);
        assert_eq!(map.iter().map(|granule| granule.live).collect::<Vec<_>>(), [10, 5]);
        map.count(GRANULE - 10, GRANULE + 5, false);
        assert!(map.iter().all(|granule| granule.live == 0));
    }

    #[test]
    fn granules_unmapped_are_told_once_and_not_if_mapped_again() {
        let mut map = mapped(0..=3);
        map.unmap(1);
        map.unmap(3);
        map.map(1);
        assert_eq!(map.take_unmapped(), [3 * GRANULE]);
        assert!(map.take_unmapped().is_empty());
    }
}
