//! Primary contexts, created contexts, and which of them is current.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{CUcontext, CUdevice, CUevent};
use super::{Out, as_caller, exports, in_context, on_card, thread};
use crate::card::{Error, Result};

/// What `cuCtxGetApiVersion` answers for every context, as measured.
const API_VERSION: c_uint = 3020;

fn create(out: *mut CUcontext, flags: c_uint, device: CUdevice) -> Result<()> {
    let out = Out::needed(out)?;
    let context = on_card(|card| card.create_context(device, flags))?;
    thread::push(context, device);
    out.set(context);
    Ok(())
}

/// The context asked about: 0 is the current one.
fn asked(context: CUcontext) -> CUcontext {
    if context == 0 { thread::current() } else { context }
}

exports! {
    fn cuDevicePrimaryCtxRetain(out: *mut CUcontext, device: CUdevice) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.retain_primary(device))?);
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        on_card(|card| card.release_primary(device))
    }

    fn cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2(device: CUdevice) {
        on_card(|card| card.reset_primary(device))
    }

    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        let (out_flags, out_active) = (Out::needed(flags)?, Out::needed(active)?);
        let (flags, active) = on_card(|card| card.primary_state(device))?;
        out_flags.set(flags);
        out_active.set(c_int::from(active));
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) {
        on_card(|card| card.set_primary_flags(device, flags))
    }

    fn cuCtxCreate_v2(out: *mut CUcontext, flags: c_uint, device: CUdevice) {
        create(out, flags, device)
    }

    fn cuCtxCreate_v3(out: *mut CUcontext, affinity: *mut c_void, count: c_int, flags: c_uint, device: CUdevice) {
        let _ = (affinity, count);
        create(out, flags, device)
    }

    fn cuCtxCreate_v4(out: *mut CUcontext, parameters: *mut c_void, flags: c_uint, device: CUdevice) {
        let _ = parameters;
        create(out, flags, device)
    }

    fn cuCtxDestroy, cuCtxDestroy_v2(context: CUcontext) {
        on_card(|card| card.destroy_context(context))?;
        if thread::current() == context {
            thread::pop()?;
        }
        Ok(())
    }

    fn cuCtxGetCurrent(out: *mut CUcontext) {
        let out = Out::needed(out)?;
        let current = thread::current();
        if current == 0 {
            on_card(|_| Ok(()))?;
        }
        out.set(current);
        Ok(())
    }

    fn cuCtxSetCurrent(context: CUcontext) {
        if context == 0 {
            on_card(|_| Ok(()))?;
            // Setting none pops what is current.
            let _ = thread::pop();
            return Ok(());
        }
        let device = on_card(|card| card.device_of(context))?;
        thread::set_current(context, device);
        Ok(())
    }

    fn cuCtxPushCurrent, cuCtxPushCurrent_v2(context: CUcontext) {
        let device = on_card(|card| card.device_of(context))?;
        thread::push(context, device);
        Ok(())
    }

    fn cuCtxPopCurrent, cuCtxPopCurrent_v2(out: *mut CUcontext) {
        on_card(|_| Ok(()))?;
        let context = thread::pop()?;
        if let Some(out) = Out::wanted(out) {
            out.set(context);
        }
        Ok(())
    }

    fn cuCtxAttach(out: *mut CUcontext, flags: c_uint) {
        let out = Out::needed(out)?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        out.set(in_context(|_, context| Ok(context))?);
        Ok(())
    }

    fn cuCtxDetach(context: CUcontext) {
        on_card(|card| card.device_of(context)).map(|_| ())
    }

    fn cuCtxGetDevice(out: *mut CUdevice) {
        let out = Out::needed(out)?;
        let device = match thread::current_device() {
            Err(error) => return on_card(|_| Err(error)),
            Ok(device) => device,
        };
        out.set(device);
        Ok(())
    }

    fn cuCtxGetDevice_v2(out: *mut CUdevice, context: CUcontext) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.device_of(asked(context)))?);
        Ok(())
    }

    fn cuCtxGetFlags(out: *mut c_uint) {
        let out = Out::needed(out)?;
        out.set(in_context(|card, context| card.context_flags(context))?);
        Ok(())
    }

    fn cuCtxSetFlags(flags: c_uint) {
        in_context(|card, context| card.set_context_flags(context, flags))
    }

    fn cuCtxGetId(context: CUcontext, out: *mut u64) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.context_id(asked(context)))?);
        Ok(())
    }

    fn cuCtxGetApiVersion(context: CUcontext, out: *mut c_uint) {
        let out = Out::needed(out)?;
        let known = on_card(|card| Ok(card.knows_context(asked(context))))?;
        if !known {
            return Err(Error::InvalidContext);
        }
        out.set(API_VERSION);
        Ok(())
    }

    fn cuCtxSynchronize() {
        in_context(crate::card::Card::synchronize_context)
    }

    fn cuCtxSynchronize_v2(context: CUcontext) {
        on_card(|card| card.synchronize_context(asked(context)))
    }

    fn cuCtxGetLimit(out: *mut usize, limit: c_uint) {
        let out = Out::needed(out)?;
        let value = in_context(|card, context| card.limit(context, limit))?;
        out.set(usize::try_from(value).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuCtxSetLimit(limit: c_uint, value: usize) {
        in_context(|card, context| card.set_limit(context, limit, value as u64))
    }

    fn cuCtxGetCacheConfig(out: *mut c_uint) {
        let out = Out::needed(out)?;
        out.set(in_context(|card, context| card.cache_config(context))?);
        Ok(())
    }

    fn cuCtxSetCacheConfig(config: c_uint) {
        in_context(|card, context| card.set_cache_config(context, config))
    }

    fn cuCtxGetSharedMemConfig(out: *mut c_uint) {
        let out = Out::needed(out)?;
        in_context(|_, _| Ok(()))?;
        out.set(1);
        Ok(())
    }

    fn cuCtxSetSharedMemConfig(config: c_uint) {
        let _ = config;
        in_context(|_, _| Ok(()))
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        in_context(|_, _| Ok(()))?;
        if let Some(out) = Out::wanted(least) {
            out.set(0);
        }
        if let Some(out) = Out::wanted(greatest) {
            out.set(-5);
        }
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        in_context(|_, _| Ok(()))
    }

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) {
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        in_context(|card, context| card.enable_peer(context, peer))
    }

    fn cuCtxDisablePeerAccess(peer: CUcontext) {
        in_context(|card, context| card.disable_peer(context, peer))
    }

    fn cuCtxRecordEvent(context: CUcontext, event: CUevent) {
        as_caller(|card, caller| {
            let caller = crate::card::Caller { context: asked(context), ..caller };
            card.record_event(caller, event, 0)
        })
    }

    fn cuCtxWaitEvent(context: CUcontext, event: CUevent) {
        as_caller(|card, caller| {
            let caller = crate::card::Caller { context: asked(context), ..caller };
            card.wait_event(caller, 0, event)
        })
    }
}
