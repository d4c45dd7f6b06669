//! Memsets.

use std::ffi::{c_uchar, c_uint, c_ushort};

use super::abi::{CUdeviceptr, CUstream};
use super::{as_caller, exports, in_context};
use crate::card::Result;

fn now(at: CUdeviceptr, pattern: &[u8], count: usize, height: usize, pitch: usize) -> Result<()> {
    in_context(|card, _| card.fill(at, pattern, count as u64, height as u64, pitch as u64))
}

fn queued(
    at: CUdeviceptr,
    pattern: &[u8],
    (count, height, pitch): (usize, usize, usize),
    stream: CUstream,
) -> Result<()> {
    as_caller(|card, caller| {
        card.enqueue(caller, stream)?;
        card.fill(at, pattern, count as u64, height as u64, pitch as u64)
    })
}

exports! {
    fn cuMemsetD8_v2, cuMemsetD8_v2_ptds(at: CUdeviceptr, value: c_uchar, count: usize) {
        now(at, &value.to_ne_bytes(), count, 1, 0)
    }

    fn cuMemsetD16_v2, cuMemsetD16_v2_ptds(at: CUdeviceptr, value: c_ushort, count: usize) {
        now(at, &value.to_ne_bytes(), count, 1, 0)
    }

    fn cuMemsetD32_v2, cuMemsetD32_v2_ptds(at: CUdeviceptr, value: c_uint, count: usize) {
        now(at, &value.to_ne_bytes(), count, 1, 0)
    }

    fn cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds(
        at: CUdeviceptr,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
    ) {
        now(at, &value.to_ne_bytes(), width, height, pitch)
    }

    fn cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds(
        at: CUdeviceptr,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
    ) {
        now(at, &value.to_ne_bytes(), width, height, pitch)
    }

    fn cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds(
        at: CUdeviceptr,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
    ) {
        now(at, &value.to_ne_bytes(), width, height, pitch)
    }

    fn cuMemsetD8Async / cuMemsetD8Async_ptsz by stream (
        at: CUdeviceptr,
        value: c_uchar,
        count: usize,
        stream: CUstream,
    ) {
        queued(at, &value.to_ne_bytes(), (count, 1, 0), stream)
    }

    fn cuMemsetD16Async / cuMemsetD16Async_ptsz by stream (
        at: CUdeviceptr,
        value: c_ushort,
        count: usize,
        stream: CUstream,
    ) {
        queued(at, &value.to_ne_bytes(), (count, 1, 0), stream)
    }

    fn cuMemsetD32Async / cuMemsetD32Async_ptsz by stream (
        at: CUdeviceptr,
        value: c_uint,
        count: usize,
        stream: CUstream,
    ) {
        queued(at, &value.to_ne_bytes(), (count, 1, 0), stream)
    }

    fn cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz by stream (
        at: CUdeviceptr,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        queued(at, &value.to_ne_bytes(), (width, height, pitch), stream)
    }

    fn cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz by stream (
        at: CUdeviceptr,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        queued(at, &value.to_ne_bytes(), (width, height, pitch), stream)
    }

    fn cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz by stream (
        at: CUdeviceptr,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        queued(at, &value.to_ne_bytes(), (width, height, pitch), stream)
    }
}
