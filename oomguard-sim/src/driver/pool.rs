//! Stream-ordered allocation and its pools.

use std::ffi::{c_int, c_void};

use super::abi::{
    CU_MEM_ALLOCATION_TYPE_PINNED, CUdevice, CUdeviceptr, CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool,
    CUstream,
};
use super::device::located;
use super::{Out, exports, on_card, read, thread};
use crate::card::{Access, Caller, Card, Error, PoolAttribute, PoolProperties, Result};

/// Runs `work` where the driver has pools at all.
fn with_pools<T>(work: impl FnOnce(&mut Card) -> Result<T>) -> Result<T> {
    on_card(|card| if card.config().no_pools { Err(Error::NotSupported) } else { work(card) })
}

fn calling<T>(work: impl FnOnce(&mut Card, Caller) -> Result<T>) -> Result<T> {
    with_pools(|card| work(card, thread::caller()))
}

/// The device of a location, for pinned memory there: the one kind of pool there is.
fn pinned(location: *const CUmemLocation, kind: c_int) -> Result<CUdevice> {
    let device = located(read(location)?)?;
    if kind == CU_MEM_ALLOCATION_TYPE_PINNED { Ok(device) } else { Err(Error::NotSupported) }
}

exports! {
    fn cuMemAllocAsync / cuMemAllocAsync_ptsz by stream (out: *mut CUdeviceptr, bytes: usize, stream: CUstream) {
        let out = Out::needed(out)?;
        out.set(calling(|card, caller| card.allocate_async(caller, None, bytes as u64, stream))?);
        Ok(())
    }

    fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz by stream (
        out: *mut CUdeviceptr,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    ) {
        let out = Out::needed(out)?;
        out.set(calling(|card, caller| card.allocate_async(caller, Some(pool), bytes as u64, stream))?);
        Ok(())
    }

    fn cuMemFreeAsync / cuMemFreeAsync_ptsz by stream (address: CUdeviceptr, stream: CUstream) {
        calling(|card, caller| card.free_async(caller, address, stream))
    }

    fn cuDeviceGetDefaultMemPool(out: *mut CUmemoryPool, device: CUdevice) {
        let out = Out::needed(out)?;
        out.set(with_pools(|card| card.default_pool(device))?);
        Ok(())
    }

    fn cuDeviceGetMemPool(out: *mut CUmemoryPool, device: CUdevice) {
        let out = Out::needed(out)?;
        out.set(with_pools(|card| card.current_pool(device))?);
        Ok(())
    }

    fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
        with_pools(|card| card.set_current_pool(device, pool))
    }

    fn cuMemGetDefaultMemPool(out: *mut CUmemoryPool, location: *const CUmemLocation, kind: c_int) {
        let out = Out::needed(out)?;
        let device = pinned(location, kind)?;
        out.set(with_pools(|card| card.default_pool(device))?);
        Ok(())
    }

    fn cuMemGetMemPool(out: *mut CUmemoryPool, location: *const CUmemLocation, kind: c_int) {
        let out = Out::needed(out)?;
        let device = pinned(location, kind)?;
        out.set(with_pools(|card| card.current_pool(device))?);
        Ok(())
    }

    fn cuMemSetMemPool(location: *const CUmemLocation, kind: c_int, pool: CUmemoryPool) {
        let device = pinned(location, kind)?;
        with_pools(|card| card.set_current_pool(device, pool))
    }

    fn cuMemPoolCreate(out: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        let out = Out::needed(out)?;
        let asked = read(properties)?;
        if asked.alloc_type != CU_MEM_ALLOCATION_TYPE_PINNED {
            return Err(Error::InvalidValue);
        }
        if asked.handle_types != 0 {
            return Err(Error::NotSupported);
        }
        let properties = PoolProperties { device: located(asked.location)?, max_size: asked.max_size as u64 };
        out.set(with_pools(|card| card.create_pool(properties))?);
        Ok(())
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        with_pools(|card| card.destroy_pool(pool))
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
        with_pools(|card| card.trim_pool(pool, keep as u64))
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: u32, value: *mut c_void) {
        let attribute = PoolAttribute::from_number(attribute).ok_or(Error::InvalidValue)?;
        if value.is_null() {
            return Err(Error::InvalidValue);
        }
        let found = with_pools(|card| card.pool_attribute(pool, attribute))?;
        if attribute.is_wide() {
            Out::needed(value.cast::<u64>())?.set(found);
        } else {
            Out::needed(value.cast::<c_int>())?.set(c_int::from(found != 0));
        }
        Ok(())
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: u32, value: *mut c_void) {
        let attribute = PoolAttribute::from_number(attribute).ok_or(Error::InvalidValue)?;
        let value = if attribute.is_wide() {
            read(value.cast::<u64>())?
        } else {
            u64::from(read(value.cast::<c_int>())? != 0)
        };
        with_pools(|card| card.set_pool_attribute(pool, attribute, value))
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, descriptions: *const CUmemAccessDesc, count: usize) {
        let own = with_pools(|card| card.pool_device(pool))?;
        for index in 0..count {
            let description = read(descriptions.wrapping_add(index))?;
            let device = with_pools(|card| card.ordinal(located(description.location)?))?;
            // The device that has the memory cannot be shut out of it.
            if device == own && description.flags != 3 {
                return Err(Error::InvalidDevice);
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(out: *mut c_int, pool: CUmemoryPool, location: *const CUmemLocation) {
        let out = Out::needed(out)?;
        let device = located(read(location)?)?;
        with_pools(|card| card.pool_device(pool).and(card.ordinal(device)))?;
        // Every device may use every other's memory here.
        out.set(number_of(Access::ReadWrite));
        Ok(())
    }
}

/// `CUmemAccess_flags`.
pub(super) fn number_of(access: Access) -> c_int {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::ReadWrite => 3,
    }
}
