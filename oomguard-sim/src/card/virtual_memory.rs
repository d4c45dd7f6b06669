//! `cuMemCreate` and its kin: addresses and physical memory apart, and mappings that join them.

use std::collections::BTreeMap;

use super::error::{Error, Result};
use super::space::{Access, Backing, Space};
use super::{Block, Card, Owner, STEP};

#[derive(Debug)]
pub(super) struct Physical {
    bytes: u64,
    device: usize,
    backing: Backing,
    /// Handles that the program holds.
    references: u32,
    mappings: u32,
}

#[derive(Debug)]
struct Mapping {
    bytes: u64,
    physical: u64,
    access: Access,
}

#[derive(Debug)]
pub(super) struct Reservation {
    space: Space,
    mappings: BTreeMap<u64, Mapping>,
}

fn is_whole(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(STEP)
}

impl Card {
    pub(crate) fn create_physical(&mut self, device: i32, bytes: u64) -> Result<u64> {
        let ordinal = self.ordinal(device)?;
        if !is_whole(bytes) {
            return Err(Error::InvalidValue);
        }
        self.admit(bytes)?;
        if bytes > self.made_available(ordinal, bytes) {
            return Err(Error::OutOfMemory);
        }
        let backing = Backing::new(bytes).ok_or(Error::OutOfMemory)?;
        let handle = self.new_handle();
        self.physical.insert(handle, Physical { bytes, device: ordinal, backing, references: 1, mappings: 0 });
        self.devices[ordinal].physical += bytes;
        Ok(handle)
    }

    pub(crate) fn release_physical(&mut self, handle: u64) -> Result<()> {
        let physical = self.physical.get_mut(&handle).filter(|held| held.references > 0).ok_or(Error::InvalidValue)?;
        physical.references -= 1;
        self.drop_physical_if_spent(handle);
        Ok(())
    }

    fn drop_physical_if_spent(&mut self, handle: u64) {
        let Some(physical) = self.physical.get(&handle) else { return };
        if physical.references == 0 && physical.mappings == 0 {
            self.devices[physical.device].physical -= physical.bytes;
            self.physical.remove(&handle);
        }
    }

    /// The device of a physical allocation.
    pub(crate) fn physical_device(&self, handle: u64) -> Result<usize> {
        self.physical.get(&handle).map(|physical| physical.device).ok_or(Error::InvalidValue)
    }

    /// Another handle of the physical memory mapped at an address.
    pub(crate) fn retain_physical(&mut self, address: u64) -> Result<u64> {
        let (_, mapping) = self.mapping_holding(address).ok_or(Error::InvalidValue)?;
        let handle = mapping.physical;
        let physical = self.physical.get_mut(&handle).ok_or(Error::InvalidValue)?;
        physical.references += 1;
        Ok(handle)
    }

    pub(crate) fn reserve_addresses(&mut self, bytes: u64, alignment: u64) -> Result<u64> {
        if !is_whole(bytes) || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(Error::InvalidValue);
        }
        if alignment > STEP {
            return Err(Error::NotSupported);
        }
        let space = Space::new(bytes, Access::None).ok_or(Error::OutOfMemory)?;
        let base = space.base();
        self.reservations.insert(base, Reservation { space, mappings: BTreeMap::new() });
        Ok(base)
    }

    pub(crate) fn free_addresses(&mut self, address: u64, bytes: u64) -> Result<()> {
        let reservation = self.reservations.get(&address).ok_or(Error::InvalidValue)?;
        if reservation.space.bytes() != bytes || !reservation.mappings.is_empty() {
            return Err(Error::InvalidValue);
        }
        self.reservations.remove(&address);
        Ok(())
    }

    fn reservation_holding(&mut self, address: u64, bytes: u64) -> Result<&mut Reservation> {
        let end = address.checked_add(bytes).ok_or(Error::InvalidValue)?;
        let (_, reservation) = self.reservations.range_mut(..=address).next_back().ok_or(Error::InvalidValue)?;
        let inside = reservation.space.holds(address) && end <= reservation.space.base() + reservation.space.bytes();
        if inside { Ok(reservation) } else { Err(Error::InvalidValue) }
    }

    pub(crate) fn map(&mut self, address: u64, bytes: u64, physical: u64) -> Result<()> {
        let held = self.physical.get(&physical).filter(|held| held.references > 0).ok_or(Error::InvalidValue)?;
        if !is_whole(bytes) || !address.is_multiple_of(STEP) || bytes > held.bytes {
            return Err(Error::InvalidValue);
        }
        let reservation = self.reservation_holding(address, bytes)?;
        let taken = reservation.mappings.range(..address + bytes).next_back();
        if taken.is_some_and(|(&start, mapping)| start + mapping.bytes > address) {
            return Err(Error::InvalidValue);
        }
        reservation.mappings.insert(address, Mapping { bytes, physical, access: Access::None });
        if let Some(held) = self.physical.get_mut(&physical) {
            held.mappings += 1;
        }
        Ok(())
    }

    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) -> Result<()> {
        if !is_whole(bytes) {
            return Err(Error::InvalidValue);
        }
        let reservation = self.reservation_holding(address, bytes)?;
        let end = address + bytes;
        let touched: Vec<(u64, u64)> = reservation
            .mappings
            .range(..end)
            .filter(|&(&start, mapping)| start + mapping.bytes > address)
            .map(|(&start, mapping)| (start, mapping.bytes))
            .collect();
        // Whole mappings only; measured: a range with no mapping in it is no error.
        if touched.iter().any(|&(start, bytes)| start < address || start + bytes > end) {
            return Err(Error::InvalidValue);
        }
        let mut freed = Vec::new();
        for (start, bytes) in touched {
            if !reservation.space.clear(start, bytes) {
                return Err(Error::Unknown);
            }
            freed.extend(reservation.mappings.remove(&start).map(|mapping| mapping.physical));
        }
        for handle in freed {
            if let Some(physical) = self.physical.get_mut(&handle) {
                physical.mappings -= 1;
            }
            self.drop_physical_if_spent(handle);
        }
        Ok(())
    }

    pub(crate) fn set_access(&mut self, address: u64, bytes: u64, access: Access) -> Result<()> {
        if !is_whole(bytes) {
            return Err(Error::InvalidValue);
        }
        self.check_range(address, bytes, Access::None)?;
        let end = address + bytes;
        let mut at = address;
        while at < end {
            let (_, reservation) = self.reservations.range_mut(..=at).next_back().ok_or(Error::InvalidValue)?;
            let (&start, mapping) = reservation.mappings.range_mut(..=at).next_back().ok_or(Error::InvalidValue)?;
            if mapping.access == Access::None {
                let physical = self.physical.get(&mapping.physical).ok_or(Error::InvalidValue)?;
                if !reservation.space.lay(start, mapping.bytes, &physical.backing, access) {
                    return Err(Error::OutOfMemory);
                }
            } else if !reservation.space.protect(start, mapping.bytes, access) {
                return Err(Error::Unknown);
            }
            mapping.access = access;
            at = start + mapping.bytes;
        }
        Ok(())
    }

    fn mapping_holding(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (_, reservation) = self.reservations.range(..=address).next_back()?;
        let (&start, mapping) = reservation.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((start, mapping))
    }

    pub(super) fn mapping_at(&self, address: u64) -> Option<Block> {
        let (start, mapping) = self.mapping_holding(address)?;
        let device = self.physical.get(&mapping.physical)?.device;
        let access = mapping.access;
        Some(Block { start, bytes: mapping.bytes, owner: Owner::Mapping, context: 0, device, access })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    #[test]
    fn physical_memory_is_taken_until_its_last_handle_and_mapping_are_gone() {
        let (mut card, _) = card_with_context(small());
        let before = card.available(0);
        assert_eq!(card.create_physical(0, 1000), Err(Error::InvalidValue));
        let physical = card.create_physical(0, 2 * STEP).unwrap();
        assert_eq!(card.reserve_addresses(1000, 0), Err(Error::InvalidValue));
        let at = card.reserve_addresses(4 * STEP, 0).unwrap();
        card.map(at, 2 * STEP, physical).unwrap();
        assert_eq!(card.map(at, 2 * STEP, physical), Err(Error::InvalidValue));
        assert_eq!(card.map(at + 3 * STEP, 2 * STEP, physical), Err(Error::InvalidValue));
        assert_eq!(card.check_range(at, 16, Access::ReadWrite), Err(Error::InvalidValue), "no access yet");
        card.set_access(at, 2 * STEP, Access::ReadWrite).unwrap();
        assert_eq!(card.check_range(at, 2 * STEP, Access::ReadWrite), Ok(()));
        assert_eq!(card.set_access(at + 2 * STEP, STEP, Access::Read), Err(Error::InvalidValue));
        assert_eq!(card.retain_physical(at + 5), Ok(physical));
        card.release_physical(physical).unwrap();
        card.release_physical(physical).unwrap();
        assert_eq!(card.release_physical(physical), Err(Error::InvalidValue));
        assert_eq!(card.available(0), before - 2 * STEP, "still mapped");
        assert_eq!(card.free_addresses(at, 4 * STEP), Err(Error::InvalidValue));
        assert_eq!(card.unmap(at, STEP), Err(Error::InvalidValue));
        card.unmap(at, 2 * STEP).unwrap();
        assert_eq!(card.unmap(at, 2 * STEP), Ok(()));
        assert_eq!(card.available(0), before);
        assert_eq!(card.free_addresses(at, STEP), Err(Error::InvalidValue));
        assert_eq!(card.free_addresses(at, 4 * STEP), Ok(()));
    }
}
