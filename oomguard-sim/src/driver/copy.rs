//! Copies. They are done when the call returns, in the order of the calls, which every stream's order allows.

use std::ffi::c_void;

use super::abi::{
    CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_UNIFIED, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUcontext,
    CUdeviceptr, CUstream,
};
use super::{as_caller, exports, in_context, on_card, read};
use crate::card::{Error, Place, Result, Rows};

fn now(to: Place, from: Place, bytes: usize) -> Result<()> {
    // SAFETY: the caller of the C function promises that a host address is good for the bytes of the copy.
    in_context(|card, _| unsafe { card.copy(to, from, bytes as u64) })
}

fn queued(to: Place, from: Place, bytes: usize, stream: CUstream) -> Result<()> {
    as_caller(|card, caller| {
        card.enqueue(caller, stream)?;
        // SAFETY: as in `now`; until the copy is known to be done the caller leaves the bytes alone.
        unsafe { card.copy(to, from, bytes as u64) }
    })
}

/// An end of a pitched copy, moved to its first byte.
fn corner(kind: u32, host: u64, device: u64, offset: Option<usize>) -> Result<Place> {
    let offset = offset.ok_or(Error::InvalidValue)? as u64;
    let at = |base: u64| base.checked_add(offset).ok_or(Error::InvalidValue);
    match kind {
        CU_MEMORYTYPE_HOST => Ok(Place::Host(at(host)?)),
        CU_MEMORYTYPE_DEVICE => Ok(Place::Device(at(device)?)),
        CU_MEMORYTYPE_UNIFIED => Ok(Place::Either(at(device)?)),
        _ => Err(Error::NotSupported),
    }
}

fn offset(x: usize, y: usize, pitch: usize) -> Option<usize> {
    y.checked_mul(pitch)?.checked_add(x)
}

fn flat(copy: *const CUDA_MEMCPY2D) -> Result<(Place, Place, Rows)> {
    let copy = read(copy)?;
    let pitch = |pitch: usize| if pitch == 0 { copy.width } else { pitch };
    let (from_pitch, to_pitch) = (pitch(copy.src_pitch), pitch(copy.dst_pitch));
    let from_offset = offset(copy.src_x, copy.src_y, from_pitch);
    let to_offset = offset(copy.dst_x, copy.dst_y, to_pitch);
    let from = corner(copy.src_memory_type, copy.src_host, copy.src_device, from_offset)?;
    let to = corner(copy.dst_memory_type, copy.dst_host, copy.dst_device, to_offset)?;
    let rows = Rows {
        width: copy.width as u64,
        height: copy.height as u64,
        depth: 1,
        pitches: (from_pitch as u64, to_pitch as u64),
        planes: (0, 0),
    };
    Ok((to, from, rows))
}

fn deep(copy: *const CUDA_MEMCPY3D) -> Result<(Place, Place, Rows)> {
    let copy = read(copy)?;
    let or = |given: usize, otherwise: usize| if given == 0 { otherwise } else { given };
    let (from_pitch, to_pitch) = (or(copy.src_pitch, copy.width), or(copy.dst_pitch, copy.width));
    let plane = |pitch: usize, height: usize| pitch.checked_mul(or(height, copy.height)).ok_or(Error::InvalidValue);
    let (from_plane, to_plane) = (plane(from_pitch, copy.src_height)?, plane(to_pitch, copy.dst_height)?);
    let start = |x: usize, y: usize, z: usize, pitch: usize, plane: usize| {
        z.checked_mul(plane)?.checked_add(offset(x, y, pitch)?)
    };
    let from_offset = start(copy.src_x, copy.src_y, copy.src_z, from_pitch, from_plane);
    let to_offset = start(copy.dst_x, copy.dst_y, copy.dst_z, to_pitch, to_plane);
    let from = corner(copy.src_memory_type, copy.src_host, copy.src_device, from_offset)?;
    let to = corner(copy.dst_memory_type, copy.dst_host, copy.dst_device, to_offset)?;
    let rows = Rows {
        width: copy.width as u64,
        height: copy.height as u64,
        depth: copy.depth as u64,
        pitches: (from_pitch as u64, to_pitch as u64),
        planes: (from_plane as u64, to_plane as u64),
    };
    Ok((to, from, rows))
}

fn rows_now((to, from, rows): (Place, Place, Rows)) -> Result<()> {
    // SAFETY: as in `now`, for every row.
    in_context(|card, _| unsafe { card.copy_rows(to, from, rows) })
}

fn rows_queued((to, from, rows): (Place, Place, Rows), stream: CUstream) -> Result<()> {
    as_caller(|card, caller| {
        card.enqueue(caller, stream)?;
        // SAFETY: as in `queued`, for every row.
        unsafe { card.copy_rows(to, from, rows) }
    })
}

fn known(contexts: [CUcontext; 2]) -> Result<()> {
    on_card(|card| contexts.iter().try_for_each(|&context| card.context_id(context).map(|_| ())))
}

exports! {
    fn cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        now(Place::Device(to), Place::Host(from as u64), bytes)
    }

    fn cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        now(Place::Host(to as u64), Place::Device(from), bytes)
    }

    fn cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Place::Device(to), Place::Device(from), bytes)
    }

    fn cuMemcpy, cuMemcpy_ptds(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Place::Either(to), Place::Either(from), bytes)
    }

    fn cuMemcpyPeer, cuMemcpyPeer_ptds(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
    ) {
        known([to_context, from_context])?;
        now(Place::Device(to), Place::Device(from), bytes)
    }

    fn cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz by stream (
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) {
        queued(Place::Device(to), Place::Host(from as u64), bytes, stream)
    }

    fn cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz by stream (
        to: *mut c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) {
        queued(Place::Host(to as u64), Place::Device(from), bytes, stream)
    }

    fn cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz by stream (
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) {
        queued(Place::Device(to), Place::Device(from), bytes, stream)
    }

    fn cuMemcpyAsync / cuMemcpyAsync_ptsz by stream (
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) {
        queued(Place::Either(to), Place::Either(from), bytes, stream)
    }

    fn cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz by stream (
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) {
        known([to_context, from_context])?;
        queued(Place::Device(to), Place::Device(from), bytes, stream)
    }

    fn cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds(
        copy: *const CUDA_MEMCPY2D,
    ) {
        rows_now(flat(copy)?)
    }

    fn cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz by stream (copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        rows_queued(flat(copy)?, stream)
    }

    fn cuMemcpy3D_v2, cuMemcpy3D_v2_ptds(copy: *const CUDA_MEMCPY3D) {
        rows_now(deep(copy)?)
    }

    fn cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz by stream (copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        rows_queued(deep(copy)?, stream)
    }
}
