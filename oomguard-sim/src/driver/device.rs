//! Initialisation, and what there is to know of each device.

use std::ffi::{c_char, c_int, c_uint};

use super::abi::{CU_MEM_LOCATION_TYPE_DEVICE, CUdevice, CUmemLocation, CUuuid};
use super::{Out, card, exports, initialise, name, on_card};
use crate::card::{Error, Result};

const DEVICE_NAME: &str = "Simulated NVIDIA H200";

/// Writes a C string into a caller's buffer, cut to its length.
fn put_text(text: &str, at: *mut c_char, length: c_int) -> Result<()> {
    let room = usize::try_from(length).ok().filter(|&room| room > 0 && !at.is_null()).ok_or(Error::InvalidValue)?;
    let kept = text.len().min(room - 1);
    // SAFETY: the caller promises `length` bytes there, and kept + 1 is no more than that.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), at, kept);
        at.add(kept).write(0);
    }
    Ok(())
}

fn whole(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::Unknown)
}

exports! {
    fn cuInit(flags: c_uint) {
        if flags == 0 { initialise() } else { Err(Error::InvalidValue) }
    }

    fn cuDriverGetVersion(out: *mut c_int) {
        let out = Out::needed(out)?;
        // Asked before cuInit, too: then it is the environment that answers.
        let version = match card().as_ref() {
            Some(card) => card.config().driver_version,
            None => crate::config::CardConfig::from_env().unwrap_or_default().driver_version,
        };
        out.set(c_int::try_from(version).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuDeviceGetCount(out: *mut c_int) {
        let count = on_card(|card| Ok(card.device_count()))?;
        Out::needed(out)?.set(c_int::try_from(count).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuDeviceGet(out: *mut CUdevice, ordinal: c_int) {
        let out = Out::needed(out)?;
        on_card(|card| card.ordinal(ordinal))?;
        out.set(ordinal);
        Ok(())
    }

    fn cuDeviceGetName(out: *mut c_char, length: c_int, device: CUdevice) {
        on_card(|card| card.ordinal(device))?;
        put_text(DEVICE_NAME, out, length)
    }

    fn cuDeviceGetAttribute(out: *mut c_int, attribute: c_int, device: CUdevice) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.attribute(device, attribute))?);
        Ok(())
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) {
        let (out_major, out_minor) = (Out::needed(major)?, Out::needed(minor)?);
        let (major, minor) = on_card(|card| Ok((card.attribute(device, 75)?, card.attribute(device, 76)?)))?;
        out_major.set(major);
        out_minor.set(minor);
        Ok(())
    }

    fn cuDeviceTotalMem_v2(out: *mut usize, device: CUdevice) {
        let out = Out::needed(out)?;
        let bytes = on_card(|card| card.ordinal(device).map(|_| card.config().capacity))?;
        out.set(whole(bytes)?);
        Ok(())
    }

    fn cuDeviceGetUuid, cuDeviceGetUuid_v2(out: *mut CUuuid, device: CUdevice) {
        let out = Out::needed(out)?;
        out.set(CUuuid { bytes: on_card(|card| card.uuid(device))? });
        Ok(())
    }

    fn cuDeviceGetLuid(luid: *mut c_char, mask: *mut c_uint, device: CUdevice) {
        // A thing of Windows alone.
        let _ = (luid, mask);
        on_card(|card| card.ordinal(device))?;
        Err(Error::NotSupported)
    }

    fn cuDeviceGetPCIBusId(out: *mut c_char, length: c_int, device: CUdevice) {
        let id = on_card(|card| card.pci_bus_id(device))?;
        put_text(&id, out, length)
    }

    fn cuDeviceGetByPCIBusId(out: *mut CUdevice, id: *const c_char) {
        let out = Out::needed(out)?;
        let wanted = name(id)?.to_string_lossy();
        let found = on_card(|card| {
            let devices = 0..c_int::try_from(card.device_count()).map_err(|_| Error::Unknown)?;
            let mut matching = devices.filter(|&device| card.pci_bus_id(device).is_ok_and(|id| *id == *wanted));
            matching.next().ok_or(Error::InvalidValue)
        })?;
        out.set(found);
        Ok(())
    }

    fn cuDeviceCanAccessPeer(out: *mut c_int, device: CUdevice, peer: CUdevice) {
        let out = Out::needed(out)?;
        on_card(|card| card.ordinal(device).and(card.ordinal(peer)))?;
        out.set(c_int::from(device != peer));
        Ok(())
    }

    fn cuDeviceGetP2PAttribute(out: *mut c_int, attribute: c_int, device: CUdevice, peer: CUdevice) {
        let out = Out::needed(out)?;
        on_card(|card| card.ordinal(device).and(card.ordinal(peer)))?;
        if device == peer {
            return Err(Error::InvalidDevice);
        }
        // 1: a rank, and 0 is the best; 2 and 3: access and native atomics; 4: array access, of which there is none.
        match attribute {
            2 | 3 => out.set(1),
            1 | 4 => out.set(0),
            _ => return Err(Error::InvalidValue),
        }
        Ok(())
    }

    fn cuDeviceGetExecAffinitySupport(out: *mut c_int, kind: c_int, device: CUdevice) {
        let out = Out::needed(out)?;
        on_card(|card| card.ordinal(device))?;
        let _ = kind;
        out.set(0);
        Ok(())
    }

    fn cuDeviceGetProperties(out: *mut [c_int; 14], device: CUdevice) {
        let out = Out::needed(out)?;
        // The header's CUdevprop holds the first fourteen attributes in their order.
        let mut values = [0; 14];
        on_card(|card| {
            for (value, attribute) in values.iter_mut().zip(1..) {
                *value = card.attribute(device, attribute)?;
            }
            Ok(())
        })?;
        out.set(values);
        Ok(())
    }

    fn cuFlushGPUDirectRDMAWrites(target: c_int, scope: c_int) {
        let _ = (target, scope);
        on_card(|_| Ok(()))
    }

    fn cuDeviceGetNvSciSyncAttributes(attributes: *mut std::ffi::c_void, device: CUdevice, flags: c_int) {
        let _ = (attributes, flags);
        on_card(|card| card.ordinal(device))?;
        Err(Error::NotSupported)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(out: *mut usize, format: c_int, channels: c_uint, device: CUdevice) {
        let _ = (format, channels);
        let out = Out::needed(out)?;
        out.set(whole(u64::from(on_card(|card| card.attribute(device, 69))?.unsigned_abs()))?);
        Ok(())
    }

    fn cuProfilerStart, cuProfilerStop() {
        on_card(|_| Ok(()))
    }
}

/// The device of a location, where it is one.
pub(super) fn located(location: CUmemLocation) -> Result<CUdevice> {
    if location.kind == CU_MEM_LOCATION_TYPE_DEVICE { Ok(location.id) } else { Err(Error::InvalidValue) }
}
