//! Streams, and host functions queued on them.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUhostFn, CUstream, CUstreamCallback};
use super::{Out, as_caller, exports};
use crate::card::{Access, Error, Result};

/// The handle of each thread's own default stream.
const PER_THREAD: CUstream = 2;

/// What 0 means to a program whose default stream is the thread's own.
pub(super) fn own_default(stream: CUstream) -> CUstream {
    if stream == 0 { PER_THREAD } else { stream }
}

fn create(out: *mut CUstream, flags: c_uint, priority: c_int) -> Result<()> {
    let out = Out::needed(out)?;
    out.set(as_caller(|card, caller| card.create_stream(caller, flags, priority))?);
    Ok(())
}

fn host_function(stream: CUstream, function: CUhostFn, data: *mut c_void) -> Result<()> {
    let function = function.ok_or(Error::InvalidValue)?;
    as_caller(|card, caller| card.enqueue(caller, stream))?;
    // With the lock let go: the function may block, though it must not call the driver.
    // SAFETY: the caller of the C function promises a function that can be called with this argument.
    unsafe { function(data) };
    Ok(())
}

fn write_value(stream: CUstream, address: CUdeviceptr, value: &[u8]) -> Result<()> {
    as_caller(|card, caller| {
        card.enqueue(caller, stream)?;
        card.fill(address, value, 1, 1, 0)
    })
}

fn wait_value(stream: CUstream, address: CUdeviceptr, bytes: u64) -> Result<()> {
    as_caller(|card, caller| {
        card.check_range(address, bytes, Access::Read)?;
        card.enqueue(caller, stream).map(|_| ())
    })
}

exports! {
    fn cuStreamCreate(out: *mut CUstream, flags: c_uint) {
        create(out, flags, 0)
    }

    fn cuStreamCreateWithPriority(out: *mut CUstream, flags: c_uint, priority: c_int) {
        create(out, flags, priority)
    }

    fn cuStreamDestroy, cuStreamDestroy_v2(stream: CUstream) {
        as_caller(|card, _| card.destroy_stream(stream))
    }

    fn cuStreamQuery / cuStreamQuery_ptsz by stream (stream: CUstream) {
        let done = as_caller(|card, caller| card.stream_is_done(caller, stream))?;
        if done { Ok(()) } else { Err(Error::NotReady) }
    }

    fn cuStreamSynchronize / cuStreamSynchronize_ptsz by stream (stream: CUstream) {
        as_caller(|card, caller| card.synchronize_stream(caller, stream))
    }

    fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz by stream (stream: CUstream, event: CUevent, flags: c_uint) {
        let _ = flags;
        as_caller(|card, caller| card.wait_event(caller, stream, event))
    }

    fn cuStreamGetCtx / cuStreamGetCtx_ptsz by stream (stream: CUstream, out: *mut CUcontext) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.stream_context(caller, stream))?);
        Ok(())
    }

    fn cuStreamGetDevice / cuStreamGetDevice_ptsz by stream (stream: CUstream, out: *mut CUdevice) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| {
            let context = card.stream_context(caller, stream)?;
            card.device_of(context)
        })?);
        Ok(())
    }

    fn cuStreamGetFlags / cuStreamGetFlags_ptsz by stream (stream: CUstream, out: *mut c_uint) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.stream_flags(caller, stream))?);
        Ok(())
    }

    fn cuStreamGetPriority / cuStreamGetPriority_ptsz by stream (stream: CUstream, out: *mut c_int) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.stream_priority(caller, stream))?);
        Ok(())
    }

    fn cuStreamGetId / cuStreamGetId_ptsz by stream (stream: CUstream, out: *mut u64) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.stream_number(caller, stream))?);
        Ok(())
    }

    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz by stream (stream: CUstream, function: CUhostFn, data: *mut c_void) {
        host_function(stream, function, data)
    }

    fn cuLaunchHostFunc_v2 / cuLaunchHostFunc_v2_ptsz by stream (
        stream: CUstream,
        function: CUhostFn,
        data: *mut c_void,
        mode: c_uint,
    ) {
        let _ = mode;
        host_function(stream, function, data)
    }

    fn cuStreamAddCallback / cuStreamAddCallback_ptsz by stream (
        stream: CUstream,
        function: CUstreamCallback,
        data: *mut c_void,
        flags: c_uint,
    ) {
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        let function = function.ok_or(Error::InvalidValue)?;
        as_caller(|card, caller| card.enqueue(caller, stream))?;
        // SAFETY: as for a host function.
        unsafe { function(stream, super::abi::CUDA_SUCCESS, data) };
        Ok(())
    }

    fn cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz by stream (
        stream: CUstream,
        address: CUdeviceptr,
        value: u32,
        flags: c_uint,
    ) {
        let _ = flags;
        write_value(stream, address, &value.to_ne_bytes())
    }

    fn cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz by stream (
        stream: CUstream,
        address: CUdeviceptr,
        value: u64,
        flags: c_uint,
    ) {
        let _ = flags;
        write_value(stream, address, &value.to_ne_bytes())
    }

    fn cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz by stream (
        stream: CUstream,
        address: CUdeviceptr,
        value: u32,
        flags: c_uint,
    ) {
        let _ = (value, flags);
        wait_value(stream, address, 4)
    }

    fn cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz by stream (
        stream: CUstream,
        address: CUdeviceptr,
        value: u64,
        flags: c_uint,
    ) {
        let _ = (value, flags);
        wait_value(stream, address, 8)
    }

    fn cuStreamCopyAttributes / cuStreamCopyAttributes_ptsz by to (to: CUstream, from: CUstream) {
        as_caller(|card, caller| card.stream_flags(caller, to).and(card.stream_flags(caller, from)).map(|_| ()))
    }
}
