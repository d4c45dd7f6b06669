//! Memory pools on the card: the model in [`crate::pool`], with addresses, a device and the driver's attributes around it.

use std::collections::BTreeSet;

use super::error::{Error, Result};
use super::space::{Access, Space};
use super::{Caller, Card};
use crate::pool::{GRANULE, Pool, Settings, StreamId};

/// Addresses reserved for a pool, as a multiple of what it can hold: a pool's blocks move on through its range.
const ROOM: u64 = 8;

/// Where frees go that are in no stream's order.
const NO_STREAM: StreamId = StreamId(0);

/// A pool's attributes, by the driver's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolAttribute {
    /// `REUSE_FOLLOW_EVENT_DEPENDENCIES`, `REUSE_ALLOW_OPPORTUNISTIC`, `REUSE_ALLOW_INTERNAL_DEPENDENCIES`, from 0.
    Reuse(usize),
    ReleaseThreshold,
    Reserved,
    ReservedHigh,
    Used,
    UsedHigh,
}

impl PoolAttribute {
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1..=3 => Self::Reuse(number as usize - 1),
            4 => Self::ReleaseThreshold,
            5 => Self::Reserved,
            6 => Self::ReservedHigh,
            7 => Self::Used,
            8 => Self::UsedHigh,
            _ => return None,
        })
    }

    /// The reuse flags are C ints; all else is 64 bits wide.
    pub(crate) fn is_wide(self) -> bool {
        !matches!(self, Self::Reuse(_))
    }
}

/// What a program may ask of a new pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolProperties {
    pub(crate) device: i32,
    pub(crate) max_size: u64,
}

#[derive(Debug)]
pub(super) struct MemoryPool {
    pub(super) device: usize,
    pool: Pool,
    space: Space,
    reuse: [u32; 3],
    /// Granules that once held a block and may still keep pages of this machine.
    touched: BTreeSet<u64>,
    /// Destroyed by the program; gone for good with its last block.
    closing: bool,
}

impl MemoryPool {
    fn new(device: usize, settings: Settings, capacity: u64) -> Option<Self> {
        let most = if settings.max_size == 0 { capacity } else { settings.max_size };
        let wanted = most.saturating_mul(ROOM).max(1 << 30).next_multiple_of(GRANULE);
        let space = Space::up_to(wanted, GRANULE, Access::ReadWrite)?;
        let pool = Pool::new(settings);
        Some(Self { device, pool, space, reuse: [1; 3], touched: BTreeSet::new(), closing: false })
    }

    pub(super) fn reserved(&self) -> u64 {
        self.pool.reserved()
    }

    fn allocate(&mut self, bytes: u64, stream: StreamId, available: u64) -> Result<u64> {
        let offset = self.pool.alloc(bytes, stream, available).map_err(|_| Error::OutOfMemory)?;
        if offset.checked_add(bytes).is_none_or(|end| end > self.space.bytes()) {
            // The addresses ran out before the memory did.
            self.pool.free(offset, stream).map_err(|_| Error::Unknown)?;
            return Err(Error::OutOfMemory);
        }
        self.touched.extend(granules(offset, bytes));
        self.give_pages_back();
        Ok(self.space.base() + offset)
    }

    fn free(&mut self, address: u64, stream: StreamId) -> Result<u64> {
        self.pool.free(address - self.space.base(), stream).map_err(|_| Error::InvalidValue)
    }

    pub(super) fn block_holding(&self, address: u64) -> Option<(u64, u64)> {
        let base = self.space.base();
        let (offset, bytes) = self.pool.block_holding(address.checked_sub(base)?)?;
        Some((base + offset, bytes))
    }

    fn is_empty(&self) -> bool {
        self.pool.live_blocks().next().is_none()
    }

    /// Keeps this machine's pages in step with the card's granules: no more of them in use than are reserved.
    fn give_pages_back(&mut self) {
        if self.touched.len() as u64 <= self.pool.reserved() / GRANULE {
            return;
        }
        let live: BTreeSet<u64> = self.pool.live_blocks().flat_map(|(offset, bytes)| granules(offset, bytes)).collect();
        for &granule in self.touched.difference(&live) {
            self.space.give_back(granule * GRANULE, GRANULE);
        }
        self.touched = live;
    }
}

fn granules(offset: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    offset / GRANULE..=(offset + bytes.max(1) - 1) / GRANULE
}

impl Card {
    pub(super) fn make_default_pool(&mut self, device: usize) -> u64 {
        let settings = Settings { max_size: 0, release_threshold: 0 };
        let handle = self.new_handle();
        if let Some(pool) = MemoryPool::new(device, settings, self.config.capacity) {
            self.pools.insert(handle, pool);
        }
        handle
    }

    fn pool(&self, handle: u64) -> Result<&MemoryPool> {
        self.pools.get(&handle).filter(|pool| !pool.closing).ok_or(Error::InvalidValue)
    }

    fn pool_mut(&mut self, handle: u64) -> Result<&mut MemoryPool> {
        self.pools.get_mut(&handle).filter(|pool| !pool.closing).ok_or(Error::InvalidValue)
    }

    pub(super) fn pool_holding(&self, address: u64) -> Option<(u64, &MemoryPool)> {
        self.pools.iter().find(|(_, pool)| pool.space.holds(address)).map(|(&handle, pool)| (handle, pool))
    }

    pub(crate) fn default_pool(&self, device: i32) -> Result<u64> {
        Ok(self.devices[self.ordinal(device)?].default_pool)
    }

    pub(crate) fn current_pool(&self, device: i32) -> Result<u64> {
        Ok(self.devices[self.ordinal(device)?].current_pool)
    }

    pub(crate) fn set_current_pool(&mut self, device: i32, pool: u64) -> Result<()> {
        let ordinal = self.ordinal(device)?;
        if self.pool(pool)?.device != ordinal {
            return Err(Error::InvalidValue);
        }
        self.devices[ordinal].current_pool = pool;
        Ok(())
    }

    pub(crate) fn create_pool(&mut self, properties: PoolProperties) -> Result<u64> {
        let device = self.ordinal(properties.device).map_err(|_| Error::InvalidValue)?;
        // Measured: a pool of at most 1 byte still serves a whole granule.
        let max_size = properties.max_size.checked_next_multiple_of(GRANULE).ok_or(Error::InvalidValue)?;
        let settings = Settings { max_size, release_threshold: 0 };
        let pool = MemoryPool::new(device, settings, self.config.capacity).ok_or(Error::OutOfMemory)?;
        let handle = self.new_handle();
        self.pools.insert(handle, pool);
        Ok(handle)
    }

    pub(crate) fn destroy_pool(&mut self, handle: u64) -> Result<()> {
        if self.devices.iter().any(|device| device.default_pool == handle) {
            return Err(Error::InvalidValue);
        }
        self.pool_mut(handle)?.closing = true;
        for device in &mut self.devices {
            if device.current_pool == handle {
                device.current_pool = device.default_pool;
            }
        }
        self.drop_if_spent(handle);
        Ok(())
    }

    fn drop_if_spent(&mut self, handle: u64) {
        if self.pools.get(&handle).is_some_and(|pool| pool.closing && pool.is_empty()) {
            self.pools.remove(&handle);
        }
    }

    pub(crate) fn pool_attribute(&self, handle: u64, attribute: PoolAttribute) -> Result<u64> {
        let MemoryPool { pool, reuse, .. } = self.pool(handle)?;
        Ok(match attribute {
            PoolAttribute::Reuse(which) => u64::from(reuse[which]),
            PoolAttribute::ReleaseThreshold => pool.settings().release_threshold,
            PoolAttribute::Reserved => pool.reserved(),
            PoolAttribute::ReservedHigh => pool.reserved_high(),
            PoolAttribute::Used => pool.used(),
            PoolAttribute::UsedHigh => pool.used_high(),
        })
    }

    pub(crate) fn set_pool_attribute(&mut self, handle: u64, attribute: PoolAttribute, value: u64) -> Result<()> {
        let MemoryPool { pool, reuse, .. } = self.pool_mut(handle)?;
        match attribute {
            PoolAttribute::Reuse(which) => reuse[which] = u32::from(value != 0),
            PoolAttribute::ReleaseThreshold => pool.set_release_threshold(value),
            PoolAttribute::ReservedHigh if value == 0 => pool.reset_reserved_high(),
            PoolAttribute::UsedHigh if value == 0 => pool.reset_used_high(),
            _ => return Err(Error::InvalidValue),
        }
        Ok(())
    }

    pub(crate) fn trim_pool(&mut self, handle: u64, keep: u64) -> Result<()> {
        let pool = self.pool_mut(handle)?;
        pool.pool.trim_to(keep);
        pool.give_pages_back();
        Ok(())
    }

    pub(crate) fn pool_device(&self, handle: u64) -> Result<usize> {
        Ok(self.pool(handle)?.device)
    }

    /// `cuMemAllocAsync`, from the current pool of the stream's device or from `pool`.
    pub(crate) fn allocate_async(&mut self, caller: Caller, pool: Option<u64>, bytes: u64, stream: u64) -> Result<u64> {
        let (stream, _) = self.enqueue(caller, stream)?;
        let device = self.context(self.streams[&stream].context)?.device;
        let handle = pool.unwrap_or(self.devices[device].current_pool);
        let device = self.pool(handle)?.device;
        self.admit(bytes)?;
        if bytes == 0 {
            // Measured: no block, and no error.
            return Ok(0);
        }
        let available = self.available(device);
        let served = self.pool_mut(handle)?.allocate(bytes, StreamId(stream), available);
        if served.is_ok() {
            return served;
        }
        let before = self.available(device);
        self.trim_pools_but(device, Some(handle));
        let available = self.available(device);
        if available == before {
            return served;
        }
        self.pool_mut(handle)?.allocate(bytes, StreamId(stream), available)
    }

    /// Every pool of a device gives back what it does not use.
    pub(super) fn trim_pools(&mut self, device: usize) {
        self.trim_pools_but(device, None);
    }

    fn trim_pools_but(&mut self, device: usize, spared: Option<u64>) {
        for (&handle, pool) in &mut self.pools {
            if pool.device == device && spared != Some(handle) {
                pool.pool.trim_to(0);
                pool.give_pages_back();
            }
        }
    }

    /// Queues the free of a pool's block on a stream; `None` where the address is in no pool.
    pub(super) fn free_in_pool(&mut self, address: u64, stream: u64, item: u64) -> Option<Result<()>> {
        let (&handle, pool) = self.pools.iter_mut().find(|(_, pool)| pool.space.holds(address))?;
        let freed = pool.free(address, StreamId(stream));
        if freed.is_ok()
            && let Some(stream) = self.streams.get_mut(&stream)
        {
            stream.last_free = item;
        }
        self.drop_if_spent(handle);
        Some(freed.map(|_| ()))
    }

    /// Frees a pool's block at once, as `cuMemFree` does; `None` where the address is in no pool.
    pub(super) fn free_in_pool_now(&mut self, address: u64) -> Option<Result<()>> {
        let freed = self.free_in_pool(address, NO_STREAM.0, 0)?;
        if freed.is_ok()
            && let Some((_, pool)) = self.pools.iter_mut().find(|(_, pool)| pool.space.holds(address))
        {
            pool.pool.synchronize(NO_STREAM);
            pool.give_pages_back();
        }
        Some(freed)
    }

    /// The host has waited for a stream, or for all of them.
    pub(super) fn synchronize_pools(&mut self, device: usize, stream: Option<StreamId>) {
        for pool in self.pools.values_mut().filter(|pool| pool.device == device) {
            match stream {
                Some(stream) => pool.pool.synchronize(stream),
                None => pool.pool.synchronize_all(),
            }
            pool.give_pages_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    #[test]
    fn used_is_what_was_asked_for_and_falls_when_the_free_is_called() {
        let (mut card, caller) = card_with_context(small());
        let pool = card.default_pool(0).unwrap();
        let block = card.allocate_async(caller, None, 1, 0).unwrap();
        assert_eq!(card.pool_attribute(pool, PoolAttribute::Used), Ok(1));
        card.free_async(caller, block, 0).unwrap();
        assert_eq!(card.pool_attribute(pool, PoolAttribute::Used), Ok(0));
        assert_eq!(card.pool_attribute(pool, PoolAttribute::UsedHigh), Ok(1));
        assert_eq!(card.free_async(caller, block, 0), Err(Error::InvalidValue));
        assert_eq!(card.allocate_async(caller, None, 0, 0), Ok(0));
    }

    #[test]
    fn a_free_without_a_context_is_refused_and_frees_nothing() {
        let (mut card, caller) = card_with_context(small());
        let pool = card.default_pool(0).unwrap();
        let block = card.allocate_async(caller, None, 64, 0).unwrap();
        let created = card.create_stream(caller, 0, 0).unwrap();
        let nobody = Caller { context: 0, thread: 9 };
        for stream in [0, 1, 2] {
            assert_eq!(card.free_async(nobody, block, stream), Err(Error::InvalidContext));
        }
        assert_eq!(card.pool_attribute(pool, PoolAttribute::Used), Ok(64));
        assert_eq!(card.free_async(nobody, block, created), Ok(()));
        assert_eq!(card.pool_attribute(pool, PoolAttribute::Used), Ok(0));
    }

    #[test]
    fn watermarks_are_reset_with_zero_and_with_nothing_else() {
        let (mut card, caller) = card_with_context(small());
        let pool = card.default_pool(0).unwrap();
        let block = card.allocate_async(caller, None, 4096, 0).unwrap();
        card.free_async(caller, block, 0).unwrap();
        for attribute in [PoolAttribute::UsedHigh, PoolAttribute::ReservedHigh] {
            assert_eq!(card.set_pool_attribute(pool, attribute, 1), Err(Error::InvalidValue));
            assert_eq!(card.set_pool_attribute(pool, attribute, 0), Ok(()));
        }
        assert_eq!(card.pool_attribute(pool, PoolAttribute::UsedHigh), Ok(0));
        assert_eq!(card.set_pool_attribute(pool, PoolAttribute::Used, 0), Err(Error::InvalidValue));
    }

    #[test]
    fn a_pool_destroyed_with_live_blocks_goes_with_the_last_of_them() {
        let (mut card, caller) = card_with_context(small());
        let pool = card.create_pool(PoolProperties { device: 0, max_size: 1 }).unwrap();
        card.set_current_pool(0, pool).unwrap();
        let block = card.allocate_async(caller, None, 1 << 20, 0).unwrap();
        card.destroy_pool(pool).unwrap();
        assert_eq!(card.current_pool(0), card.default_pool(0));
        assert_eq!(card.pool_attribute(pool, PoolAttribute::Used), Err(Error::InvalidValue));
        assert_eq!(card.free_async(caller, block, 0), Ok(()));
        assert!(card.pool_holding(block).is_none());
        let default = card.default_pool(0).unwrap();
        assert_eq!(card.destroy_pool(default), Err(Error::InvalidValue));
    }
}
