//! The model of the driver's stream-ordered memory pool. Plain Rust: no FFI, no clock, no threads.
//!
//! Its rules were found from recordings of an H200 (driver 580.159), and each names the traces it was seen in: those of
//! `tests/golden/h200`, which `replay-trace` holds the model against. In short:
//!
//! - Free addresses are in one open tree, whose last range has no end, and in one tree for each stream that blocks were
//!   freed on. In all of them a request takes the low end of the smallest range that fits.
//! - A request looks at its own stream's tree; at ranges of the open tree with memory under all of them; at other streams'
//!   frees that are done. Only then are the frees that are done opened, and memory is put under the best fit of all, mapped
//!   or not: granules that are wholly free elsewhere first, then new ones.
//! - When the memory runs out, the request keeps what it mapped as far as the release threshold allows, and takes a block
//!   that is still in use by another stream's work, if one fits.
//! - A synchronisation opens the frees that it has waited for and gives back wholly free granules.
//!
//! Offsets are relative to the pool's own virtual range, which starts at 0. Physical memory is counted in granules of
//! [`GRANULE`] bytes.

mod granules;
mod ranges;
mod serve;
mod settle;
mod streams;

use std::collections::BTreeMap;

pub use granules::Granule;
use granules::Granules;
use ranges::Ranges;
pub use streams::Mark;
use streams::{Rank, Streams};

/// Bytes of one physical granule: RESERVED moves in steps of this (measured on an H200).
pub const GRANULE: u64 = 32 << 20;

/// Sizes are rounded up to a multiple of this many bytes (seen on an H200: the offsets of traces small and random).
pub const UNIT: u64 = 512;

/// Where the pool's range ends: every block lies below.
const END: u64 = 1 << 60;

/// A stream, as far as the pool cares: frees stay pending on the stream they were queued on until it is synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The null stream, which has a place of its own in the order in which streams are looked at.
    pub const NULL: Self = Self(0);
}

/// What a pool is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes the pool may reserve, rounded up to a whole granule; 0: as much as the device has
    /// (`CUmemPoolProps::maxSize`).
    pub max_size: u64,
    /// Bytes the pool keeps reserved across a synchronisation (`CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`).
    pub release_threshold: u64,
}

/// When memory freed on one stream may serve another that has not been synchronised with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// After an event that the other stream waits for (`CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`).
    pub follow_events: bool,
    /// Once the free has happened (`CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`).
    pub opportunistic: bool,
    /// By making the other stream wait for it, when there is no other memory
    /// (`CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`).
    pub internal_dependencies: bool,
}

impl Default for Reuse {
    /// All of them, as the driver has it.
    fn default() -> Self {
        Self { follow_events: true, opportunistic: true, internal_dependencies: true }
    }
}

/// The pool could not serve a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// The address given to [`Pool::free`] is not the start of a live block of this pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotABlock;

/// One memory pool.
#[derive(Debug)]
pub struct Pool {
    settings: Settings,
    reuse: Reuse,
    /// Live blocks: bytes asked for, by offset.
    live: BTreeMap<u64, u64>,
    /// Free for everyone.
    open: Ranges,
    /// Freed on a stream and not opened since, by the stream's rank; no tree here is empty.
    pending: BTreeMap<Rank, Ranges>,
    streams: Streams,
    granules: Granules,
    /// The threshold was set since the last synchronisation that gave memory back.
    threshold_is_new: bool,
    used: u64,
    used_high: u64,
    reserved_high: u64,
    extent: u64,
}

impl Pool {
    /// An empty pool.
    pub fn new(settings: Settings) -> Self {
        let mut streams = Streams::default();
        let mut open = Ranges::default();
        open.add((0, END), streams.now(), |_, _| false);
        Self {
            settings,
            reuse: Reuse::default(),
            live: BTreeMap::new(),
            open,
            pending: BTreeMap::new(),
            streams,
            granules: Granules::default(),
            threshold_is_new: false,
            used: 0,
            used_high: 0,
            reserved_high: 0,
            extent: 0,
        }
    }

    /// Says whether `stream` has work queued that is not finished. What is freed on it from here on is not done until it
    /// is idle again or synchronised: till then other streams cannot have it (seen on an H200: traces held*).
    pub fn set_busy(&mut self, stream: StreamId, busy: bool) {
        self.streams.set_busy(stream, busy);
    }

    /// This moment: what `cuEventRecord` keeps of the stream it is called for.
    pub fn mark(&mut self) -> Mark {
        self.streams.now()
    }

    /// `cuStreamWaitEvent`: what is queued on `stream` from here on waits for what was queued on `on` until `until`, and
    /// may have what was freed there until then (seen on an H200: traces events-*).
    pub fn wait(&mut self, stream: StreamId, on: StreamId, until: Mark) {
        self.streams.wait(stream, on, until);
    }

    /// Bytes handed out and not yet freed (`CU_MEMPOOL_ATTR_USED_MEM_CURRENT`), as they were asked for.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes held from the device (`CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`), a multiple of [`GRANULE`].
    pub fn reserved(&self) -> u64 {
        self.granules.reserved()
    }

    /// The most of [`Pool::used`] since it was last reset.
    pub fn used_high(&self) -> u64 {
        self.used_high
    }

    /// The most of [`Pool::reserved`] since it was last reset.
    pub fn reserved_high(&self) -> u64 {
        self.reserved_high
    }

    /// Sets the USED watermark back to the present value.
    pub fn reset_used_high(&mut self) {
        self.used_high = self.used;
    }

    /// Sets the RESERVED watermark back to the present value.
    pub fn reset_reserved_high(&mut self) {
        self.reserved_high = self.reserved();
    }

    /// What the pool was made with, as later calls have set it.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Sets the release threshold, in bytes; takes effect at the next synchronisation, even one that waits for no free
    /// (seen on an H200: traces thresholds-*).
    pub fn set_release_threshold(&mut self, bytes: u64) {
        self.settings.release_threshold = bytes;
        self.threshold_is_new = true;
    }

    /// When memory freed on one stream may serve another.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Sets when memory freed on one stream may serve another.
    pub fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// The live block that holds `offset`: its start and its size.
    pub fn block_holding(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &bytes) = self.live.range(..=offset).next_back()?;
        (offset < start + bytes).then_some((start, bytes))
    }

    /// Live blocks, by offset: start and size.
    pub fn live_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.live.iter().map(|(&start, &bytes)| (start, bytes))
    }

    /// The granules with physical memory under them, by offset.
    pub fn granules(&self) -> impl Iterator<Item = Granule> + '_ {
        self.granules.iter()
    }

    /// Offsets of the granules unmapped since this was last asked, but for those mapped again: what was in them is gone.
    pub fn take_unmapped(&mut self) -> Vec<u64> {
        self.granules.take_unmapped()
    }

    /// Where the furthest block that the pool ever placed ends, in bytes.
    ///
    /// Addresses without memory under them serve again like any others, so this grows only when a request fits into no
    /// hole at all, be it mapped or not. In no recording of an H200 did it pass one and a half times the highest RESERVED.
    /// No rule bounds it by that, though: sizes that grow step by step while small blocks stay can take it further.
    pub fn extent(&self) -> u64 {
        self.extent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(1);

    #[test]
    fn watermarks_are_reset_to_the_present_value() {
        let mut pool = Pool::new(Settings { max_size: 0, release_threshold: 0 });
        let block = pool.alloc(100 << 20, STREAM, u64::MAX).unwrap();
        pool.free(block, STREAM).unwrap();
        pool.synchronize(STREAM);
        assert_eq!((pool.used_high(), pool.reserved_high()), (100 << 20, 4 * GRANULE));
        pool.reset_used_high();
        pool.reset_reserved_high();
        assert_eq!((pool.used_high(), pool.reserved_high()), (0, 0));
    }

    #[test]
    fn a_block_is_found_by_any_of_its_bytes() {
        let mut pool = Pool::new(Settings { max_size: 0, release_threshold: 0 });
        let first = pool.alloc(10, STREAM, u64::MAX).unwrap();
        let second = pool.alloc(10, STREAM, u64::MAX).unwrap();
        assert_eq!(second, first + UNIT);
        assert_eq!(pool.block_holding(second + 9), Some((second, 10)));
        assert_eq!(pool.block_holding(second + 10), None);
        assert_eq!(pool.live_blocks().collect::<Vec<_>>(), [(first, 10), (second, 10)]);
    }

    #[test]
    fn granules_show_the_live_bytes_that_pin_them() {
        let mut pool = Pool::new(Settings { max_size: 0, release_threshold: 0 });
        let first = pool.alloc(GRANULE + 7, STREAM, u64::MAX).unwrap();
        let expected = [Granule { offset: 0, live: GRANULE }, Granule { offset: GRANULE, live: 7 }];
        assert_eq!(pool.granules().collect::<Vec<_>>(), expected);
        pool.free(first, STREAM).unwrap();
        assert!(pool.granules().all(|granule| granule.live == 0));
        pool.synchronize(STREAM);
        assert_eq!(pool.take_unmapped(), [0, GRANULE]);
    }
}
