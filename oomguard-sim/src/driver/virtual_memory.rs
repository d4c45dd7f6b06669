//! Addresses and physical memory apart: `cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use super::abi::{
    CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocation,
};
use super::device::located;
use super::pool::number_of;
use super::{Out, exports, on_card, read};
use crate::card::{Access, Error, Result, STEP};

fn device_of(properties: *const CUmemAllocationProp) -> Result<c_int> {
    let asked = read(properties)?;
    if asked.kind != CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(Error::InvalidValue);
    }
    if asked.requested_handle_types != 0 {
        return Err(Error::NotSupported);
    }
    located(asked.location)
}

exports! {
    fn cuMemGetAllocationGranularity(out: *mut usize, properties: *const CUmemAllocationProp, option: c_uint) {
        let out = Out::needed(out)?;
        let device = device_of(properties)?;
        if option > 1 {
            return Err(Error::InvalidValue);
        }
        let bytes = on_card(|card| card.ordinal(device).map(|_| STEP))?;
        out.set(usize::try_from(bytes).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuMemCreate(
        out: *mut CUmemGenericAllocationHandle,
        bytes: usize,
        properties: *const CUmemAllocationProp,
        flags: c_ulonglong,
    ) {
        let out = Out::needed(out)?;
        let device = device_of(properties)?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        out.set(on_card(|card| card.create_physical(device, bytes as u64))?);
        Ok(())
    }

    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        on_card(|card| card.release_physical(handle))
    }

    fn cuMemRetainAllocationHandle(out: *mut CUmemGenericAllocationHandle, address: *mut c_void) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.retain_physical(address as u64))?);
        Ok(())
    }

    fn cuMemGetAllocationPropertiesFromHandle(out: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle) {
        let out = Out::needed(out)?;
        let device = on_card(|card| card.physical_device(handle))?;
        out.set(CUmemAllocationProp {
            kind: CU_MEM_ALLOCATION_TYPE_PINNED,
            requested_handle_types: 0,
            location: CUmemLocation {
                kind: CU_MEM_LOCATION_TYPE_DEVICE,
                id: c_int::try_from(device).map_err(|_| Error::Unknown)?,
            },
            win32_handle_meta_data: std::ptr::null_mut(),
            alloc_flags: [0; 8],
        });
        Ok(())
    }

    fn cuMemAddressReserve(
        out: *mut CUdeviceptr,
        bytes: usize,
        alignment: usize,
        wanted: CUdeviceptr,
        flags: c_ulonglong,
    ) {
        let out = Out::needed(out)?;
        // The wanted address is a wish, and wishes may be passed over.
        let _ = wanted;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        out.set(on_card(|card| card.reserve_addresses(bytes as u64, alignment as u64))?);
        Ok(())
    }

    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) {
        on_card(|card| card.free_addresses(address, bytes as u64))
    }

    fn cuMemMap(
        address: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    ) {
        if offset != 0 || flags != 0 {
            return Err(Error::InvalidValue);
        }
        on_card(|card| card.map(address, bytes as u64, handle))
    }

    fn cuMemUnmap(address: CUdeviceptr, bytes: usize) {
        on_card(|card| card.unmap(address, bytes as u64))
    }

    fn cuMemSetAccess(
        address: CUdeviceptr,
        bytes: usize,
        descriptions: *const CUmemAccessDesc,
        count: usize,
    ) {
        for index in 0..count {
            let description = read(descriptions.wrapping_add(index))?;
            let device = located(description.location)?;
            let access = match description.flags {
                0 => Access::None,
                1 => Access::Read,
                3 => Access::ReadWrite,
                _ => return Err(Error::InvalidValue),
            };
            on_card(|card| {
                card.ordinal(device)?;
                card.set_access(address, bytes as u64, access)
            })?;
        }
        Ok(())
    }

    fn cuMemGetAccess(out: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr) {
        let out = Out::needed(out)?;
        located(read(location)?)?;
        let block = on_card(|card| card.block_at(address).ok_or(Error::InvalidValue))?;
        out.set(c_ulonglong::from(number_of(block.access).unsigned_abs()));
        Ok(())
    }
}
