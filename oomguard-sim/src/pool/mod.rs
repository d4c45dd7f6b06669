//! The model of the driver's stream-ordered memory pool. Plain Rust: no FFI, no clock, no threads.
//!
//! Offsets are relative to the pool's own virtual range, which starts at 0 and only grows. Physical memory is counted in
//! granules of [`GRANULE`] bytes.

use std::collections::BTreeMap;

/// Bytes of one physical granule: RESERVED moves in steps of this (measured on an H200).
pub const GRANULE: u64 = 32 << 20;

/// A stream, as far as the pool cares: frees stay pending on the stream they were queued on until it is synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What a pool is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes the pool may reserve; 0: as much as the device has (`CUmemPoolProps::maxSize`).
    pub max_size: u64,
    /// Bytes the pool keeps reserved across a synchronisation (`CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`).
    pub release_threshold: u64,
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
    live: BTreeMap<u64, u64>,
    end: u64,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

impl Pool {
    /// An empty pool.
    pub fn new(settings: Settings) -> Self {
        Self { settings, live: BTreeMap::new(), end: 0, used: 0, used_high: 0, reserved: 0, reserved_high: 0 }
    }

    /// Serves `bytes` on `stream`; `available` is the physical memory that the device could still give to this pool.
    /// Returns the block's offset.
    ///
    /// # Errors
    /// [`OutOfMemory`] when neither the pool's free space nor `available` can serve the request.
    pub fn alloc(&mut self, bytes: u64, _stream: StreamId, _available: u64) -> Result<u64, OutOfMemory> {
        let offset = self.end;
        self.end += bytes;
        self.live.insert(offset, bytes);
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        Ok(offset)
    }

    /// Queues the free of the block at `offset` on `stream`; returns its size. USED falls at once.
    ///
    /// # Errors
    /// [`NotABlock`] when no live block starts there.
    pub fn free(&mut self, offset: u64, _stream: StreamId) -> Result<u64, NotABlock> {
        let bytes = self.live.remove(&offset).ok_or(NotABlock)?;
        self.used -= bytes;
        Ok(bytes)
    }

    /// The host has waited for `stream`: its pending frees are done, and memory above the release threshold goes back.
    pub fn synchronize(&mut self, _stream: StreamId) {}

    /// The host has waited for every stream of the device.
    pub fn synchronize_all(&mut self) {}

    /// `cuMemPoolTrimTo`: gives back what can be given back while keeping at least `keep` bytes reserved.
    pub fn trim_to(&mut self, _keep: u64) {}

    /// Bytes handed out and not yet freed (`CU_MEMPOOL_ATTR_USED_MEM_CURRENT`).
    pub fn used(&self) -> u64 {
        self.used
    }
    /// Bytes held from the device (`CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`).
    pub fn reserved(&self) -> u64 {
        self.reserved
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
        self.reserved_high = self.reserved;
    }
    /// What the pool was made with, as later calls have set it.
    pub fn settings(&self) -> Settings {
        self.settings
    }
    /// Sets the release threshold; takes effect at the next synchronisation.
    pub fn set_release_threshold(&mut self, bytes: u64) {
        self.settings.release_threshold = bytes;
    }
    /// The live block that holds `offset`: its start and its size.
    pub fn block_holding(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &bytes) = self.live.range(..=offset).next_back()?;
        (offset < start + bytes).then_some((start, bytes))
    }
    /// Live blocks, by offset: start and size.
    pub fn live_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.live.iter().map(|(&o, &b)| (o, b))
    }
}
