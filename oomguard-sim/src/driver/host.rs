//! Host memory that the driver allocates or is told of.

use std::ffi::{c_uint, c_void};

use super::abi::CUdeviceptr;
use super::{Out, as_caller, exports, on_card};
use crate::card::{Error, Result};

fn allocate(out: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result<()> {
    let out = Out::needed(out)?;
    let address = as_caller(|card, caller| card.allocate_host(caller, bytes as u64, flags))?;
    out.set(address as *mut c_void);
    Ok(())
}

exports! {
    fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) {
        allocate(out, bytes, flags)
    }

    fn cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) {
        allocate(out, bytes, 0)
    }

    fn cuMemFreeHost(address: *mut c_void) {
        on_card(|card| card.free_host(address as u64))
    }

    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint) {
        as_caller(|card, caller| card.register_host(caller, address as u64, bytes as u64, flags))
    }

    fn cuMemHostUnregister(address: *mut c_void) {
        on_card(|card| card.unregister_host(address as u64))
    }

    fn cuMemHostGetDevicePointer_v2(out: *mut CUdeviceptr, address: *mut c_void, flags: c_uint) {
        let out = Out::needed(out)?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        on_card(|card| card.host_flags(address as u64))?;
        // One address space for both sides.
        out.set(address as CUdeviceptr);
        Ok(())
    }

    fn cuMemHostGetFlags(out: *mut c_uint, address: *mut c_void) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.host_flags(address as u64))?);
        Ok(())
    }
}
