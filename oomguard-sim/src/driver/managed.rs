//! Managed memory: both sides share the pages, so advice and prefetches have nothing to do but be checked.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{CUdevice, CUdeviceptr, CUmemLocation, CUstream};
use super::{Out, as_caller, exports, on_card};
use crate::card::{Access, Error, Result};

fn check(address: CUdeviceptr, bytes: usize) -> Result<()> {
    on_card(|card| card.check_range(address, bytes as u64, Access::None))
}

fn prefetch(address: CUdeviceptr, bytes: usize, stream: CUstream) -> Result<()> {
    as_caller(|card, caller| {
        card.check_range(address, bytes as u64, Access::None)?;
        card.enqueue(caller, stream).map(|_| ())
    })
}

exports! {
    fn cuMemAllocManaged(out: *mut CUdeviceptr, bytes: usize, flags: c_uint) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.allocate_managed(caller, bytes as u64, flags))?);
        Ok(())
    }

    fn cuMemAdvise(address: CUdeviceptr, bytes: usize, advice: c_uint, device: CUdevice) {
        let _ = (advice, device);
        check(address, bytes)
    }

    fn cuMemAdvise_v2(address: CUdeviceptr, bytes: usize, advice: c_uint, location: CUmemLocation) {
        let _ = (advice, location);
        check(address, bytes)
    }

    fn cuMemPrefetchAsync / cuMemPrefetchAsync_ptsz by stream (
        address: CUdeviceptr,
        bytes: usize,
        device: CUdevice,
        stream: CUstream,
    ) {
        let _ = device;
        prefetch(address, bytes, stream)
    }

    fn cuMemPrefetchAsync_v2 / cuMemPrefetchAsync_v2_ptsz by stream (
        address: CUdeviceptr,
        bytes: usize,
        location: CUmemLocation,
        flags: c_uint,
        stream: CUstream,
    ) {
        let _ = (location, flags);
        prefetch(address, bytes, stream)
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        length: usize,
        attribute: c_int,
        address: CUdeviceptr,
        bytes: usize,
    ) {
        check(address, bytes)?;
        // 1: read mostly; 2 and 4: preferred and last location, of which -2 is "none".
        let value = match attribute {
            1 => 0,
            2 | 4 => -2,
            _ => return Err(Error::NotSupported),
        };
        if length != size_of::<c_int>() {
            return Err(Error::InvalidValue);
        }
        Out::needed(data.cast::<c_int>())?.set(value);
        Ok(())
    }

    fn cuStreamAttachMemAsync / cuStreamAttachMemAsync_ptsz by stream (
        stream: CUstream,
        address: CUdeviceptr,
        bytes: usize,
        flags: c_uint,
    ) {
        let _ = (bytes, flags);
        prefetch(address, 1, stream)
    }
}
