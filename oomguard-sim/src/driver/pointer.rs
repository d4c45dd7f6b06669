//! What the driver knows of an address.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CUdeviceptr};
use super::{Out, exports, in_context, on_card};
use crate::card::{Block, Error, HostKind, Owner, Result};

/// An attribute's value, in the type that the header gives it.
enum Value {
    Wide(u64),
    Number(u32),
    Flag(bool),
}

impl Value {
    fn put(&self, at: *mut c_void) -> Result<()> {
        match *self {
            Self::Wide(value) => Out::needed(at.cast::<u64>())?.set(value),
            Self::Number(value) => Out::needed(at.cast::<u32>())?.set(value),
            Self::Flag(value) => Out::needed(at.cast::<u8>())?.set(u8::from(value)),
        }
        Ok(())
    }
}

/// The value, as an H200 gave it for memory of each kind.
fn value(block: &Block, attribute: c_uint, address: CUdeviceptr) -> Result<Value> {
    let on_host = block.owner == Owner::Host;
    let on_both = on_host || block.owner == Owner::Managed;
    Ok(match attribute {
        // The context; the peer-to-peer tokens and the handle types that can be exported, of which there are none.
        1 => Value::Wide(block.context),
        5 if !on_host => Value::Wide(0),
        14 => Value::Wide(0),
        2 => Value::Number(if on_host { CU_MEMORYTYPE_HOST } else { CU_MEMORYTYPE_DEVICE }),
        // Where the device, and the host, see it: at one address.
        4 if !on_both => return Err(Error::InvalidValue),
        3 | 4 => Value::Wide(address),
        6 => Value::Flag(!on_host),
        // A number of the block's own, its start, and its size.
        7 | 11 => Value::Wide(block.start),
        12 => Value::Wide(block.bytes),
        8 => Value::Flag(block.owner == Owner::Managed),
        9 => Value::Number(c_uint::try_from(block.device).map_err(|_| Error::Unknown)?),
        // What can be exported or reached from outside is plain memory; everything is mapped, for reading and writing.
        10 | 15 => Value::Flag(block.owner == Owner::Linear),
        13 => Value::Flag(true),
        16 => Value::Number(3),
        17 => Value::Wide(match block.owner {
            Owner::Pool(pool) => pool,
            _ => 0,
        }),
        _ => return Err(Error::InvalidValue),
    })
}

exports! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr) {
        if data.is_null() {
            return Err(Error::InvalidValue);
        }
        let block = on_card(|card| card.block_at(address).ok_or(Error::InvalidValue))?;
        value(&block, attribute, address)?.put(data)
    }

    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut c_uint,
        data: *mut *mut c_void,
        address: CUdeviceptr,
    ) {
        let block = on_card(|card| Ok(card.block_at(address)))?;
        for index in 0..count as usize {
            let attribute = super::read(attributes.wrapping_add(index))?;
            let at = super::read(data.wrapping_add(index))?;
            // What cannot be told is nothing, and no error: so one call can ask about any address.
            let told = block.as_ref().and_then(|block| value(block, attribute, address).ok());
            match told {
                Some(told) => told.put(at)?,
                None if matches!(attribute, 6 | 8 | 10 | 13 | 15) => Value::Flag(false).put(at)?,
                None if attribute == 9 => Value::Number(u32::MAX - 1).put(at)?,
                None if matches!(attribute, 2 | 16) => Value::Number(0).put(at)?,
                None => Value::Wide(0).put(at)?,
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr) {
        super::read(value.cast::<c_int>())?;
        on_card(|card| card.block_at(address).ok_or(Error::InvalidValue))?;
        // 6 is the one that can be set.
        if attribute == 6 { Ok(()) } else { Err(Error::InvalidValue) }
    }

    fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr) {
        let block = in_context(|card, _| {
            let known = card.host_kind(address) != Some(HostKind::Registered);
            card.block_at(address).filter(|_| known).ok_or(Error::NotFound)
        })?;
        if let Some(out) = Out::wanted(base) {
            out.set(block.start);
        }
        if let Some(out) = Out::wanted(bytes) {
            out.set(usize::try_from(block.bytes).map_err(|_| Error::Unknown)?);
        }
        Ok(())
    }
}
