//! Host memory that the driver knows: allocated by it, or registered with it.

use super::error::{Error, Result};
use super::space::{Access, Space};
use super::{Block, Caller, Card, Owner};

/// How host memory came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    Allocated,
    Registered,
}

#[derive(Debug)]
pub(super) struct HostBlock {
    bytes: u64,
    flags: u32,
    context: u64,
    device: usize,
    /// The pages, where they are ours.
    space: Option<Space>,
}

impl HostBlock {
    pub(super) fn kind(&self) -> HostKind {
        if self.space.is_some() { HostKind::Allocated } else { HostKind::Registered }
    }
}

impl Card {
    pub(crate) fn allocate_host(&mut self, caller: Caller, bytes: u64, flags: u32) -> Result<u64> {
        let device = self.context(caller.context)?.device;
        if bytes == 0 {
            return Err(Error::InvalidValue);
        }
        let space = Space::new(bytes, Access::ReadWrite).ok_or(Error::OutOfMemory)?;
        let base = space.base();
        self.host.insert(base, HostBlock { bytes, flags, context: caller.context, device, space: Some(space) });
        Ok(base)
    }

    pub(crate) fn free_host(&mut self, address: u64) -> Result<()> {
        match self.host.get(&address).map(HostBlock::kind) {
            Some(HostKind::Allocated) => {
                self.host.remove(&address);
                Ok(())
            }
            _ => Err(Error::InvalidValue),
        }
    }

    pub(crate) fn register_host(&mut self, caller: Caller, address: u64, bytes: u64, flags: u32) -> Result<()> {
        let device = self.context(caller.context)?.device;
        if address == 0 || bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(Error::InvalidValue);
        }
        let overlaps =
            self.host_block_at(address).is_some() || self.host.range(address..address + bytes).next().is_some();
        if overlaps {
            return Err(Error::HostMemoryAlreadyRegistered);
        }
        self.host.insert(address, HostBlock { bytes, flags, context: caller.context, device, space: None });
        Ok(())
    }

    pub(crate) fn unregister_host(&mut self, address: u64) -> Result<()> {
        match self.host.get(&address).map(HostBlock::kind) {
            Some(HostKind::Registered) => {
                self.host.remove(&address);
                Ok(())
            }
            _ => Err(Error::HostMemoryNotRegistered),
        }
    }

    pub(crate) fn host_flags(&self, address: u64) -> Result<u32> {
        let block = self.host_block_at(address).ok_or(Error::InvalidValue)?;
        self.host.get(&block.start).map(|block| block.flags).ok_or(Error::InvalidValue)
    }

    pub(super) fn host_block_at(&self, address: u64) -> Option<Block> {
        let (&start, block) = self.host.range(..=address).next_back()?;
        (address - start < block.bytes).then_some(Block {
            start,
            bytes: block.bytes,
            owner: Owner::Host,
            context: block.context,
            device: block.device,
            access: Access::ReadWrite,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    #[test]
    fn host_memory_is_known_from_first_to_last() {
        let (mut card, caller) = card_with_context(small());
        let pinned = card.allocate_host(caller, 100, 3).unwrap();
        assert_eq!(card.host_flags(pinned + 99), Ok(3));
        assert_eq!(card.host_flags(pinned + 100), Err(Error::InvalidValue));
        assert_eq!(card.unregister_host(pinned), Err(Error::HostMemoryNotRegistered));
        assert_eq!(card.free_host(pinned), Ok(()));
        assert_eq!(card.free_host(pinned), Err(Error::InvalidValue));

        card.register_host(caller, 0x10_000, 0x1000, 0).unwrap();
        assert_eq!(card.register_host(caller, 0xf000, 0x2000, 0), Err(Error::HostMemoryAlreadyRegistered));
        assert_eq!(card.free_host(0x10_000), Err(Error::InvalidValue));
        assert_eq!(card.unregister_host(0x10_000), Ok(()));
    }
}
