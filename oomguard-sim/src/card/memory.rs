//! Plain device memory and managed memory, freeing of every kind, and finding the block behind an address.

use super::error::{Error, Result};
use super::space::{Access, STEP, Space, round_up};
use super::{Caller, Card, HostKind};

/// Rows of pitched memory start at multiples of this.
const PITCH: u64 = 512;

/// A managed block: its pages move to the card when the card touches them, so it takes nothing of the card by itself.
#[derive(Debug)]
pub(super) struct Managed {
    space: Space,
    bytes: u64,
}

/// Who a live block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// `cuMemAlloc`.
    Linear,
    /// A memory pool, by its handle.
    Pool(u64),
    /// `cuMemAllocManaged`.
    Managed,
    /// Pinned or registered host memory.
    Host,
    /// A mapping of `cuMemMap`.
    Mapping,
    /// A variable of a loaded module.
    Image,
}

impl Owner {
    /// Whether `cuMemFree` is what frees it, and no pool has it.
    fn is_plain(self) -> bool {
        matches!(self, Self::Linear | Self::Managed)
    }
}

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
    /// The context it was made in; 0 for what belongs to the device.
    pub(crate) context: u64,
    pub(crate) device: usize,
    pub(crate) access: Access,
}

impl Card {
    /// `cuMemAlloc`.
    pub(crate) fn allocate(&mut self, caller: Caller, bytes: u64) -> Result<u64> {
        let device = self.context(caller.context)?.device;
        if bytes == 0 {
            return Err(Error::InvalidValue);
        }
        self.admit(bytes)?;
        let available = self.made_available(device, bytes.saturating_add(STEP));
        self.context_mut(caller.context)?.blocks.allocate(bytes, available)
    }

    /// `cuMemAllocPitch`: the address, and the bytes from one row to the next.
    pub(crate) fn allocate_pitched(
        &mut self,
        caller: Caller,
        width: u64,
        height: u64,
        element: u32,
    ) -> Result<(u64, u64)> {
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(Error::InvalidValue);
        }
        let pitch = round_up(width, PITCH).ok_or(Error::OutOfMemory)?;
        let bytes = pitch.checked_mul(height).ok_or(Error::OutOfMemory)?;
        Ok((self.allocate(caller, bytes)?, pitch))
    }

    /// `cuMemAllocManaged`.
    pub(crate) fn allocate_managed(&mut self, caller: Caller, bytes: u64, flags: u32) -> Result<u64> {
        self.context(caller.context)?;
        if bytes == 0 || !matches!(flags, 1 | 2) {
            return Err(Error::InvalidValue);
        }
        self.admit(bytes)?;
        // Managed memory may exceed the card. The bound is ours: something has to stop a request for everything.
        if bytes > self.config.capacity.saturating_mul(4) {
            return Err(Error::OutOfMemory);
        }
        let space = Space::new(bytes, Access::ReadWrite).ok_or(Error::OutOfMemory)?;
        let base = space.base();
        self.context_mut(caller.context)?.managed.insert(base, Managed { space, bytes });
        Ok(base)
    }

    /// `cuMemFree`: any block but a host one or a mapping.
    pub(crate) fn free(&mut self, caller: Caller, address: u64) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        // Measured on an H200: unlike the stream-ordered free this one needs no context; and a pool's block goes at once.
        if caller.context != 0 {
            self.context(caller.context)?;
        }
        match self.free_in_pool_now(address) {
            Some(freed) => freed,
            None => {
                self.free_linear(address)?;
                // A free still queued for it must not find whatever comes to lie there next.
                for stream in self.streams.values_mut() {
                    stream.freed_blocks.retain(|&block| block != address);
                }
                Ok(())
            }
        }
    }

    /// `cuMemFreeAsync`.
    pub(crate) fn free_async(&mut self, caller: Caller, address: u64, stream: u64) -> Result<()> {
        let (stream, item) = self.enqueue(caller, stream)?;
        self.context(self.streams[&stream].context)?;
        if address == 0 {
            return Ok(());
        }
        if let Some(freed) = self.free_in_pool(address, stream, item) {
            return freed;
        }
        let queued = self.streams.values().any(|stream| stream.freed_blocks.contains(&address));
        if queued || self.block_at(address).is_none_or(|block| block.start != address || !block.owner.is_plain()) {
            return Err(Error::InvalidValue);
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.freed_blocks.push(address);
            stream.last_free = item;
        }
        Ok(())
    }

    pub(super) fn free_linear(&mut self, address: u64) -> Result<()> {
        let mut contexts = self.contexts.values_mut();
        let freed = contexts
            .any(|context| context.blocks.free(address).is_some() || context.managed.remove(&address).is_some());
        if freed { Ok(()) } else { Err(Error::InvalidValue) }
    }

    /// The live block that holds an address.
    pub(crate) fn block_at(&self, address: u64) -> Option<Block> {
        if let Some((handle, pool)) = self.pool_holding(address) {
            let (start, bytes) = pool.block_holding(address)?;
            let owner = Owner::Pool(handle);
            return Some(Block { start, bytes, owner, context: 0, device: pool.device, access: Access::ReadWrite });
        }
        for (&handle, context) in &self.contexts {
            let found = |(start, bytes), owner| Block {
                start,
                bytes,
                owner,
                context: handle,
                device: context.device,
                access: Access::ReadWrite,
            };
            if let Some(block) = context.blocks.block_holding(address) {
                return Some(found(block, Owner::Linear));
            }
            if let Some(block) = context.images.block_holding(address) {
                return Some(found(block, Owner::Image));
            }
            if let Some((&start, managed)) = context.managed.range(..=address).next_back()
                && address - start < managed.bytes
                && managed.space.holds(address)
            {
                return Some(found((start, managed.bytes), Owner::Managed));
            }
        }
        self.mapping_at(address).or_else(|| self.host_block_at(address))
    }

    /// Checks that `bytes` from `address` on are live and allow `access`; a range may run on through mappings.
    pub(crate) fn check_range(&self, address: u64, bytes: u64, access: Access) -> Result<()> {
        let end = address.checked_add(bytes).ok_or(Error::InvalidValue)?;
        let mut at = address;
        while at < end {
            let block = self.block_at(at).ok_or(Error::InvalidValue)?;
            let allowed = match access {
                Access::None => true,
                Access::Read => block.access != Access::None,
                Access::ReadWrite => block.access == Access::ReadWrite,
            };
            let past = block.start + block.bytes;
            if !allowed || past < end && block.owner != Owner::Mapping {
                return Err(Error::InvalidValue);
            }
            at = past;
        }
        Ok(())
    }

    /// What sort of host memory an address is in, where it is in any that the driver knows.
    pub(crate) fn host_kind(&self, address: u64) -> Option<HostKind> {
        self.host.get(&self.host_block_at(address)?.start).map(super::host::HostBlock::kind)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    #[test]
    fn frees_that_make_no_sense_are_errors() {
        let (mut card, caller) = card_with_context(small());
        let block = card.allocate(caller, 1000).unwrap();
        assert_eq!(card.free(caller, block + 512), Err(Error::InvalidValue));
        assert_eq!(card.free(caller, 0x1234_0000), Err(Error::InvalidValue));
        assert_eq!(card.free(caller, 0), Ok(()));
        assert_eq!(card.free(Caller { context: 0, thread: 1 }, block), Ok(()));
        assert_eq!(card.free(caller, block), Err(Error::InvalidValue));
    }

    #[test]
    fn requests_that_make_no_sense_are_errors() {
        let (mut card, caller) = card_with_context(small());
        assert_eq!(card.allocate(caller, 0), Err(Error::InvalidValue));
        assert_eq!(card.allocate(caller, u64::MAX), Err(Error::OutOfMemory));
        assert_eq!(card.allocate_managed(caller, 1 << 50, 1), Err(Error::OutOfMemory));
        assert_eq!(card.allocate_pitched(caller, 1000, 10, 5), Err(Error::InvalidValue));
        assert_eq!(card.allocate_pitched(caller, 100, 10, 4).map(|(_, pitch)| pitch), Ok(512));
    }

    #[test]
    fn a_range_ends_with_its_block() {
        let (mut card, caller) = card_with_context(small());
        for block in [
            card.allocate(caller, 4096).unwrap(),
            card.allocate_async(caller, None, 4096, 0).unwrap(),
            card.allocate_managed(caller, 4096, 1).unwrap(),
        ] {
            assert_eq!(card.check_range(block, 4096, Access::ReadWrite), Ok(()));
            assert_eq!(card.check_range(block, 4097, Access::Read), Err(Error::InvalidValue));
            assert_eq!(card.check_range(block, u64::MAX, Access::Read), Err(Error::InvalidValue));
            assert_eq!(card.block_at(block + 4095).map(|found| found.start), Some(block));
            card.free(caller, block).unwrap();
            assert_eq!(card.block_at(block), None);
        }
    }
}
