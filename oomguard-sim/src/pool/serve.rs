//! Where a request is served from, and what happens when it cannot be.

use super::granules::under;
use super::streams::{ALL, Mark, Rank};
use super::{GRANULE, OutOfMemory, Pool, StreamId, UNIT};

impl Pool {
    /// Serves `bytes` on `stream`; `available` is the physical memory that the device could still give to this pool, in
    /// bytes. Returns the block's offset.
    ///
    /// # Errors
    /// [`OutOfMemory`] when neither the pool's free space nor `available` can serve the request. RESERVED can be higher
    /// than it was, or lower: memory taken for the request before there was no more stays, as far as the release threshold
    /// allows, and wholly free granules beyond it go back (seen on an H200: traces fill-card, failed-growth, failed-move).
    pub fn alloc(&mut self, bytes: u64, stream: StreamId, available: u64) -> Result<u64, OutOfMemory> {
        let size = bytes.max(1).checked_next_multiple_of(UNIT).ok_or(OutOfMemory)?;
        let rank = self.streams.rank(stream);
        let offset = match self.find_mapped(size, stream, rank) {
            Some(offset) => offset,
            None => match self.grow(size, available) {
                Ok(offset) => offset,
                Err(error) => self.depend(size, stream, rank).ok_or(error)?,
            },
        };
        self.live.insert(offset, bytes);
        self.granules.count(offset, offset + bytes, true);
        self.used = self.used.saturating_add(bytes);
        self.used_high = self.used_high.max(self.used);
        self.extent = self.extent.max(offset + bytes);
        Ok(offset)
    }

    /// Takes `size` bytes where memory is: from the stream's own frees, from what is open, from others' frees that are done.
    fn find_mapped(&mut self, size: u64, stream: StreamId, rank: Rank) -> Option<u64> {
        if let Some(offset) = self.pending.get(&rank).and_then(|own| own.best(size)) {
            self.take_pending(rank, offset, size);
            return Some(offset);
        }
        if let Some(offset) = self.open.best_mapped(size) {
            self.take_open(offset, size);
            return Some(offset);
        }
        // Not the best fit over all of them, but the first stream with any: seen on an H200, traces streams3-*.
        let mut others = self.pending.iter().filter(|(other, _)| **other != rank);
        let (other, offset) = others.find_map(|(&other, tree)| {
            let offset = tree.best_freed_by(size, self.reusable(stream, other))?;
            Some((other, offset))
        })?;
        self.take_pending(other, offset, size);
        Some(offset)
    }

    /// Up to when what was freed on the stream of rank `other` may serve `stream`, with nobody made to wait.
    fn reusable(&self, stream: StreamId, other: Rank) -> Mark {
        let done = if self.reuse.opportunistic { self.streams.done_of(other) } else { Mark(0) };
        let ordered = if self.reuse.follow_events { self.streams.ordered_after(stream, other) } else { Mark(0) };
        done.max(ordered)
    }

    fn take_pending(&mut self, rank: Rank, offset: u64, size: u64) {
        let Some(tree) = self.pending.get_mut(&rank) else { return };
        tree.take(offset, size, |_, _| true);
        if tree.is_empty() {
            self.pending.remove(&rank);
        }
    }

    fn take_open(&mut self, offset: u64, size: u64) {
        self.granules.taken(offset, offset + size);
        self.open.take(offset, size, |start, end| self.granules.all_mapped(start, end));
    }

    /// Takes `size` bytes of the best fit over all that is open, mapped or not, and puts memory under them.
    fn grow(&mut self, size: u64, available: u64) -> Result<u64, OutOfMemory> {
        // Without opportunistic reuse nobody asks whether frees are done: seen on an H200, traces reuse2-off-*.
        if self.reuse.opportunistic {
            let ranks: Vec<_> = self.pending.keys().copied().collect();
            for rank in ranks {
                self.open_freed_by(rank, self.streams.done_of(rank), u64::MAX);
            }
        }
        let offset = self.open.best(size).ok_or(OutOfMemory)?;
        let granules = under(offset, offset + size);
        let most = self.most().min(self.reserved().saturating_add(available));
        for granule in granules.clone() {
            if self.granules.is_mapped(granule) {
                continue;
            }
            if let Some(spare) = self.granules.next_spare(&granules) {
                self.unmap(spare);
            } else if self.reserved() + GRANULE > most {
                self.release(self.settings.release_threshold);
                return Err(OutOfMemory);
            }
            self.map(granule);
        }
        self.take_open(offset, size);
        Ok(offset)
    }

    /// The most bytes that the pool may reserve.
    fn most(&self) -> u64 {
        match self.settings.max_size {
            0 => u64::MAX,
            bytes => bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX),
        }
    }

    fn map(&mut self, granule: u64) {
        self.granules.map(granule);
        self.reserved_high = self.reserved_high.max(self.reserved());
        let (start, end) = (granule * GRANULE, (granule + 1) * GRANULE);
        if let Some(range) = self.open.holding(start) {
            self.granules.freed(start, end, range);
        }
        self.open.judge(start, |start, end| self.granules.all_mapped(start, end));
    }

    /// Takes `size` bytes that another stream's work may still use, and makes `stream` wait for it
    /// (seen on an H200: traces held-capped-*).
    fn depend(&mut self, size: u64, stream: StreamId, rank: Rank) -> Option<u64> {
        if !self.reuse.internal_dependencies {
            return None;
        }
        let mut others = self.pending.iter().filter(|(other, _)| **other != rank);
        let (other, offset) = others.find_map(|(&other, tree)| Some((other, tree.best_freed_by(size, ALL)?)))?;
        let freed = self.pending.get(&other)?.freed(offset)?;
        self.streams.wait_for_rank(stream, other, freed);
        self.take_pending(other, offset, size);
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Settings;

    const A: StreamId = StreamId(1);
    const B: StreamId = StreamId(2);
    const MIB: u64 = 1 << 20;
    const PLENTY: u64 = 1 << 40;

    fn pool(max_size: u64, release_threshold: u64) -> Pool {
        Pool::new(Settings { max_size, release_threshold })
    }

    #[test]
    fn a_request_reuses_what_its_own_stream_freed() {
        let mut pool = pool(0, 0);
        let block = pool.alloc(MIB, A, PLENTY).unwrap();
        pool.free(block, A).unwrap();
        assert_eq!(pool.alloc(MIB, A, PLENTY), Ok(block));
    }

    #[test]
    fn another_streams_free_serves_once_it_is_done() {
        let mut pool = pool(0, 0);
        let block = pool.alloc(GRANULE, A, PLENTY).unwrap();
        pool.set_busy(A, true);
        pool.free(block, A).unwrap();
        let other = pool.alloc(GRANULE, B, PLENTY).unwrap();
        assert_ne!(other, block);
        pool.set_busy(A, false);
        assert_eq!(pool.alloc(GRANULE, B, PLENTY), Ok(block));
    }

    #[test]
    fn a_stream_that_waits_for_an_event_may_have_what_was_freed_before_it() {
        let mut pool = pool(0, 0);
        let block = pool.alloc(GRANULE, A, PLENTY).unwrap();
        pool.set_busy(A, true);
        pool.free(block, A).unwrap();
        let event = pool.mark();
        pool.wait(B, A, event);
        assert_eq!(pool.alloc(GRANULE, B, PLENTY), Ok(block));
    }

    #[test]
    fn without_opportunistic_reuse_other_streams_frees_wait_for_a_synchronisation() {
        let mut pool = pool(0, u64::MAX);
        pool.set_reuse(crate::pool::Reuse { opportunistic: false, ..Default::default() });
        let block = pool.alloc(GRANULE, A, PLENTY).unwrap();
        pool.free(block, A).unwrap();
        assert_ne!(pool.alloc(GRANULE, B, PLENTY), Ok(block));
        pool.synchronize(A);
        assert_eq!(pool.alloc(GRANULE, B, PLENTY), Ok(block));
    }

    #[test]
    fn a_full_pool_makes_the_stream_wait_for_another() {
        let mut pool = pool(GRANULE, 0);
        let block = pool.alloc(GRANULE, A, PLENTY).unwrap();
        pool.set_busy(A, true);
        pool.free(block, A).unwrap();
        assert_eq!(pool.alloc(GRANULE, B, PLENTY), Ok(block));
        pool.set_reuse(crate::pool::Reuse { internal_dependencies: false, ..Default::default() });
        pool.free(block, B).unwrap();
        assert_eq!(pool.alloc(GRANULE, A, PLENTY), Err(OutOfMemory));
    }

    #[test]
    fn a_free_granule_moves_to_where_it_is_missed() {
        let mut pool = pool(3 * GRANULE, u64::MAX);
        let blocks: Vec<_> = (0..3).map(|_| pool.alloc(GRANULE, A, PLENTY).unwrap()).collect();
        pool.free(blocks[0], A).unwrap();
        pool.free(blocks[2], A).unwrap();
        assert_eq!(pool.alloc(2 * GRANULE, A, PLENTY), Ok(2 * GRANULE));
        assert_eq!((pool.reserved(), pool.take_unmapped()), (3 * GRANULE, vec![0]));
    }

    #[test]
    fn a_failed_request_keeps_what_it_mapped_up_to_the_threshold() {
        for (threshold, kept) in [(0, 22), (u64::MAX, 32), (25 * GRANULE, 25)] {
            let mut pool = pool(32 * GRANULE, threshold);
            pool.alloc(700 * MIB, A, PLENTY).unwrap();
            assert_eq!(pool.alloc(512 * MIB, A, PLENTY), Err(OutOfMemory));
            assert_eq!((pool.reserved(), pool.reserved_high()), (kept * GRANULE, 32 * GRANULE));
        }
    }

    #[test]
    fn no_more_is_mapped_than_the_device_can_give() {
        let mut pool = pool(0, u64::MAX);
        assert_eq!(pool.alloc(3 * GRANULE, A, 2 * GRANULE + 1), Err(OutOfMemory));
        assert_eq!(pool.reserved(), 2 * GRANULE);
        assert_eq!(pool.alloc(2 * GRANULE, A, 0), Ok(0));
    }

    #[test]
    fn absurd_sizes_run_out_of_memory() {
        let mut pool = pool(0, 0);
        for bytes in [u64::MAX, u64::MAX - 511, 1 << 63, 1 << 60] {
            assert_eq!(pool.alloc(bytes, A, GRANULE), Err(OutOfMemory));
        }
        assert_eq!(pool.alloc(0, A, GRANULE), Ok(0));
        assert_eq!(pool.alloc(1, A, GRANULE), Ok(UNIT));
    }
}
