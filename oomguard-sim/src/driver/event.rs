//! Events.

use std::ffi::c_uint;

use super::abi::{CUevent, CUstream};
use super::{Out, as_caller, exports, on_card};
use crate::card::Error;

exports! {
    fn cuEventCreate(out: *mut CUevent, flags: c_uint) {
        let out = Out::needed(out)?;
        out.set(as_caller(|card, caller| card.create_event(caller, flags))?);
        Ok(())
    }

    fn cuEventDestroy, cuEventDestroy_v2(event: CUevent) {
        on_card(|card| card.destroy_event(event))
    }

    fn cuEventRecord / cuEventRecord_ptsz by stream (event: CUevent, stream: CUstream) {
        as_caller(|card, caller| card.record_event(caller, event, stream))
    }

    fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz by stream (
        event: CUevent,
        stream: CUstream,
        flags: c_uint,
    ) {
        if flags > 1 {
            return Err(Error::InvalidValue);
        }
        as_caller(|card, caller| card.record_event(caller, event, stream))
    }

    fn cuEventQuery(event: CUevent) {
        let done = on_card(|card| card.event_is_done(event))?;
        if done { Ok(()) } else { Err(Error::NotReady) }
    }

    fn cuEventSynchronize(event: CUevent) {
        on_card(|card| card.synchronize_event(event))
    }

    fn cuEventElapsedTime, cuEventElapsedTime_v2(out: *mut f32, start: CUevent, end: CUevent) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.elapsed(start, end))?);
        Ok(())
    }
}
