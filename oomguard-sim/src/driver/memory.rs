//! Device memory: `cuMemAlloc` and its kin, and what there is of it.

use std::ffi::c_uint;

use super::abi::CUdeviceptr;
use super::{Out, as_caller, exports, in_context};
use crate::card::Error;

exports! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (out_free, out_total) = (Out::needed(free)?, Out::needed(total)?);
        let (free, total) = in_context(|card, context| card.memory_info(context))?;
        out_free.set(usize::try_from(free).map_err(|_| Error::Unknown)?);
        out_total.set(usize::try_from(total).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.allocate(caller, bytes as u64))?);
        Ok(())
    }

    fn cuMemAllocPitch_v2(
        out: *mut CUdeviceptr,
        pitch: *mut usize,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        let (out, out_pitch) = (Out::needed(out)?, Out::needed(pitch)?);
        let (address, pitch) =
            as_caller(|card, caller| card.allocate_pitched(caller, width as u64, height as u64, element))?;
        out.set(address);
        out_pitch.set(usize::try_from(pitch).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuMemFree_v2(address: CUdeviceptr) {
        as_caller(|card, caller| card.free(caller, address))
    }
}
