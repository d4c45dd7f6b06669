//! Freeing, and how freed memory becomes free for everyone and goes back to the device.

use super::granules::under;
use super::streams::{ALL, Mark, Rank};
use super::{NotABlock, Pool, StreamId, UNIT};

impl Pool {
    /// Queues the free of the block at `offset` on `stream`; returns its size. USED falls at once.
    ///
    /// # Errors
    /// [`NotABlock`] when no live block starts there.
    pub fn free(&mut self, offset: u64, stream: StreamId) -> Result<u64, NotABlock> {
        let bytes = self.remove_live(offset)?;
        let (rank, now) = (self.streams.rank(stream), self.streams.now());
        self.pending.entry(rank).or_default().add(extent(offset, bytes), now, |_, _| true);
        self.used = self.used.saturating_sub(bytes);
        Ok(bytes)
    }

    /// `cuMemFree` of a pool's block: its memory is free for everyone at once, and goes back above the release threshold;
    /// frees that are pending stay so. Returns the block's size.
    ///
    /// USED never falls for it: the driver counts the block as handed out for good (seen on an H200: traces free-sync-*).
    ///
    /// # Errors
    /// [`NotABlock`] when no live block starts there.
    pub fn free_at_once(&mut self, offset: u64) -> Result<u64, NotABlock> {
        let bytes = self.remove_live(offset)?;
        self.open(extent(offset, bytes), self.settings.release_threshold);
        Ok(bytes)
    }

    fn remove_live(&mut self, offset: u64) -> Result<u64, NotABlock> {
        let bytes = self.live.remove(&offset).ok_or(NotABlock)?;
        self.granules.count(offset, offset + bytes, false);
        Ok(bytes)
    }

    /// The host has waited for `stream`: its pending frees are done, and memory above the release threshold goes back.
    ///
    /// Where there is no pending free nothing goes back, even if there is wholly free memory above the threshold (seen on
    /// an H200: traces two-streams-thr0 and sync-all-*).
    pub fn synchronize(&mut self, stream: StreamId) {
        self.synchronize_to(stream, ALL);
    }

    /// The host has waited for what was queued on `stream` until `until` (`cuEventSynchronize`): as
    /// [`Pool::synchronize`], for frees until then (seen on an H200: traces events-*). A query that finds a stream or an
    /// event finished does nothing of the kind (traces queries-*).
    pub fn synchronize_to(&mut self, stream: StreamId, until: Mark) {
        self.streams.finish(stream, until);
        let keep = self.settings.release_threshold;
        let opened = self.streams.rank_if_known(stream).is_some_and(|rank| self.open_freed_by(rank, until, keep));
        self.settle(opened);
    }

    /// The host has waited for every stream of the device.
    pub fn synchronize_all(&mut self) {
        self.streams.finish_all();
        let ranks: Vec<_> = self.pending.keys().copied().collect();
        let mut opened = false;
        for rank in ranks {
            opened |= self.open_freed_by(rank, ALL, self.settings.release_threshold);
        }
        self.settle(opened);
    }

    fn settle(&mut self, opened: bool) {
        if opened || self.threshold_is_new {
            self.threshold_is_new = false;
            self.release(self.settings.release_threshold);
        }
    }

    /// `cuMemPoolTrimTo`: gives back wholly free granules until no more than `keep` bytes are reserved. What was freed and
    /// not synchronised since cannot go.
    pub fn trim_to(&mut self, keep: u64) {
        self.release(keep);
    }

    /// Opens what was freed on the stream of that rank by `done`, newest first; whether there was anything. While more than
    /// `keep` bytes are reserved, each block gives its wholly free granules back in turn (seen on an H200: traces
    /// which-released-*).
    pub(super) fn open_freed_by(&mut self, rank: Rank, done: Mark, keep: u64) -> bool {
        let Some(tree) = self.pending.get_mut(&rank) else { return false };
        let ranges = tree.take_freed_by(done);
        if tree.is_empty() {
            self.pending.remove(&rank);
        }
        for &range in &ranges {
            self.open(range, keep);
        }
        !ranges.is_empty()
    }

    /// Makes a range free for everyone, and gives its wholly free granules back while more than `keep` bytes are reserved.
    fn open(&mut self, range: (u64, u64), keep: u64) {
        let now = self.streams.now();
        let whole = self.open.add(range, now, |start, end| self.granules.all_mapped(start, end));
        self.granules.freed(range.0, range.1, whole);
        for granule in under(range.0, range.1).rev() {
            if self.reserved() <= keep {
                break;
            }
            if self.granules.is_spare(granule) {
                self.unmap(granule);
            }
        }
    }

    /// Gives wholly free granules back, the highest first, until no more than `keep` bytes are reserved.
    pub(super) fn release(&mut self, keep: u64) {
        while self.reserved() > keep
            && let Some(granule) = self.granules.last_spare()
        {
            self.unmap(granule);
        }
    }

    pub(super) fn unmap(&mut self, granule: u64) {
        self.granules.unmap(granule);
        self.open.judge(granule * super::GRANULE, |_, _| false);
    }
}

/// The addresses that a block of `bytes` takes.
fn extent(offset: u64, bytes: u64) -> (u64, u64) {
    (offset, offset + bytes.max(1).next_multiple_of(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{GRANULE, Settings};

    const A: StreamId = StreamId(1);
    const B: StreamId = StreamId(2);
    const PLENTY: u64 = 1 << 40;

    fn with_granules(count: u64, release_threshold: u64) -> (Pool, Vec<u64>) {
        let mut pool = Pool::new(Settings { max_size: 0, release_threshold });
        let blocks = (0..count).map(|_| pool.alloc(GRANULE, A, PLENTY).unwrap()).collect();
        (pool, blocks)
    }

    fn mapped(pool: &Pool) -> Vec<u64> {
        pool.granules().map(|granule| granule.offset / GRANULE).collect()
    }

    #[test]
    fn used_falls_at_the_free_and_reserved_at_the_synchronisation() {
        let (mut pool, blocks) = with_granules(2, 0);
        assert_eq!(pool.free(blocks[1], A), Ok(GRANULE));
        assert_eq!((pool.used(), pool.reserved()), (GRANULE, 2 * GRANULE));
        pool.synchronize(B);
        assert_eq!(pool.reserved(), 2 * GRANULE);
        pool.synchronize(A);
        assert_eq!(pool.reserved(), GRANULE);
    }

    #[test]
    fn what_is_no_block_is_not_freed() {
        let (mut pool, blocks) = with_granules(1, 0);
        assert_eq!(pool.free(1, A), Err(NotABlock));
        assert_eq!(pool.free_at_once(GRANULE), Err(NotABlock));
        pool.free(blocks[0], A).unwrap();
        assert_eq!(pool.free(blocks[0], A), Err(NotABlock));
    }

    #[test]
    fn a_synchronisation_gives_back_the_newest_free_first() {
        let (mut pool, blocks) = with_granules(7, 5 * GRANULE);
        for index in [5, 1, 3] {
            pool.free(blocks[index], A).unwrap();
        }
        pool.synchronize(A);
        assert_eq!(mapped(&pool), [0, 2, 4, 5, 6]);
    }

    #[test]
    fn a_trim_gives_back_the_highest_first() {
        let (mut pool, blocks) = with_granules(7, u64::MAX);
        for index in [5, 1, 3] {
            pool.free(blocks[index], A).unwrap();
        }
        pool.trim_to(0);
        assert_eq!(pool.reserved(), 7 * GRANULE);
        pool.synchronize(A);
        pool.trim_to(5 * GRANULE + 1);
        assert_eq!(mapped(&pool), [0, 1, 2, 4, 6]);
        pool.trim_to(0);
        assert_eq!(mapped(&pool), [0, 2, 4, 6]);
    }

    #[test]
    fn a_new_threshold_counts_at_the_next_synchronisation_of_any_stream() {
        let (mut pool, blocks) = with_granules(2, u64::MAX);
        pool.free(blocks[0], A).unwrap();
        pool.synchronize(A);
        pool.set_release_threshold(0);
        assert_eq!(pool.reserved(), 2 * GRANULE);
        pool.synchronize(B);
        assert_eq!(pool.reserved(), GRANULE);
    }

    #[test]
    fn waiting_for_an_event_gives_back_what_was_freed_before_it() {
        let (mut pool, blocks) = with_granules(4, 0);
        pool.free(blocks[0], A).unwrap();
        let event = pool.mark();
        pool.free(blocks[2], A).unwrap();
        pool.synchronize_to(A, event);
        assert_eq!(mapped(&pool), [1, 2, 3]);
        pool.synchronize_all();
        assert_eq!(mapped(&pool), [1, 3]);
    }

    #[test]
    fn a_block_freed_at_once_goes_back_and_stays_counted() {
        let (mut pool, blocks) = with_granules(3, 0);
        pool.free(blocks[2], A).unwrap();
        pool.free_at_once(blocks[0]).unwrap();
        assert_eq!(mapped(&pool), [1, 2]);
        assert_eq!(pool.used(), 2 * GRANULE);
    }
}
