//! Graphs, of which there are none: nothing is ever captured, and their memory is nothing.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{CUdevice, CUstream};
use super::{Out, as_caller, exports, on_card};
use crate::card::{Error, Result};

fn not_capturing(stream: CUstream, out: *mut c_uint) -> Result<()> {
    let out = Out::needed(out)?;
    as_caller(|card, caller| card.stream_flags(caller, stream))?;
    out.set(0);
    Ok(())
}

exports! {
    fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz by stream (stream: CUstream, out: *mut c_uint) {
        not_capturing(stream, out)
    }

    fn cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz by stream (
        stream: CUstream,
        out: *mut c_uint,
        id: *mut u64,
    ) {
        let _ = id;
        not_capturing(stream, out)
    }

    fn cuStreamGetCaptureInfo_v2 / cuStreamGetCaptureInfo_v2_ptsz by stream (
        stream: CUstream,
        out: *mut c_uint,
        id: *mut u64,
        graph: *mut c_void,
        dependencies: *mut c_void,
        count: *mut usize,
    ) {
        let _ = (id, graph, dependencies, count);
        not_capturing(stream, out)
    }

    fn cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz(
        stream: CUstream,
        out: *mut c_uint,
        id: *mut u64,
        graph: *mut c_void,
        dependencies: *mut c_void,
        edges: *mut c_void,
        count: *mut usize,
    ) {
        let _ = (id, graph, dependencies, edges, count);
        not_capturing(stream, out)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        // What was set before is the default, 0.
        Out::needed(mode)?.set(0);
        Ok(())
    }

    fn cuDeviceGetGraphMemAttribute(device: CUdevice, attribute: c_int, value: *mut u64) {
        let out = Out::needed(value)?;
        on_card(|card| card.ordinal(device))?;
        if !(0..=3).contains(&attribute) {
            return Err(Error::InvalidValue);
        }
        out.set(0);
        Ok(())
    }

    fn cuDeviceSetGraphMemAttribute(device: CUdevice, attribute: c_int, value: *mut u64) {
        on_card(|card| card.ordinal(device))?;
        // The watermarks alone, 1 and 3, can be set, and to zero alone.
        let resets = super::read(value)? == 0 && matches!(attribute, 1 | 3);
        if resets { Ok(()) } else { Err(Error::InvalidValue) }
    }

    fn cuDeviceGraphMemTrim(device: CUdevice) {
        on_card(|card| card.ordinal(device)).map(|_| ())
    }
}
