//! The driver's C symbols, each a thin layer over the card: arguments checked, the card locked, errors numbered.
//!
//! Nothing here unwinds into C, and nothing here touches memory that a caller did not vouch for: a wrong pointer or a stale
//! handle is an error code.
#![allow(non_snake_case)]

mod abi;
mod context;
mod copy;
mod device;
mod entry;
mod errors;
mod event;
mod fill;
mod graph;
mod hooks;
mod host;
mod launch;
mod managed;
mod memory;
mod module;
mod pointer;
mod pool;
mod stream;
mod thread;
mod unsupported;
mod virtual_memory;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::card::{Caller, Card, Error, Result};
use crate::config::{CardConfig, unknown_variables};

/// The one machine of this process, once `cuInit` has made it.
static CARD: Mutex<Option<Card>> = Mutex::new(None);

fn card() -> MutexGuard<'static, Option<Card>> {
    // A panic under the lock is answered with an error; the card's figures are whole after each of its own steps.
    CARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the card that the environment describes, the first time; says on stderr what is wrong with a value.
fn initialise() -> Result<()> {
    let mut card = card();
    if card.is_some() {
        return Ok(());
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, nearest) in unknown_variables(names) {
        eprintln!("oomguard-sim: {name} is not known; did you mean {nearest}?");
    }
    let config = CardConfig::from_env().map_err(|error| {
        eprintln!("oomguard-sim: {error}");
        Error::InvalidValue
    })?;
    if config.devices == 0 {
        return Err(Error::NoDevice);
    }
    *card = Some(Card::new(config));
    Ok(())
}

/// Runs `work` on the card, under its lock.
fn on_card<T>(work: impl FnOnce(&mut Card) -> Result<T>) -> Result<T> {
    let mut card = card();
    let card = card.as_mut().ok_or(Error::NotInitialized)?;
    if card.is_lost() {
        return Err(Error::EccUncorrectable);
    }
    work(card)
}

/// Runs `work` on the card with the calling thread's context.
fn as_caller<T>(work: impl FnOnce(&mut Card, Caller) -> Result<T>) -> Result<T> {
    on_card(|card| work(card, thread::caller()))
}

/// Runs `work` on the card with the current context, which there must be.
fn in_context<T>(work: impl FnOnce(&mut Card, u64) -> Result<T>) -> Result<T> {
    as_caller(|card, caller| if caller.context == 0 { Err(Error::InvalidContext) } else { work(card, caller.context) })
}

/// The status code of a call, whatever becomes of it.
fn answer(call: impl FnOnce() -> Result<()>) -> abi::CUresult {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => abi::CUDA_SUCCESS,
        Ok(Err(error)) => error as abi::CUresult,
        Err(_) => Error::Unknown as abi::CUresult,
    }
}

/// Where a call puts a result: an argument that is not null.
struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The argument, which must be there.
    fn needed(at: *mut T) -> Result<Self> {
        Self::wanted(at).ok_or(Error::InvalidValue)
    }

    /// The argument, if the caller wants the result.
    fn wanted(at: *mut T) -> Option<Self> {
        (!at.is_null()).then_some(Self(at))
    }

    fn set(&self, value: T) {
        // SAFETY: the caller of the C function promises that an argument for a result is null or good for one.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// Reads an argument passed by address, which must be there.
fn read<T: Copy>(at: *const T) -> Result<T> {
    if at.is_null() {
        return Err(Error::InvalidValue);
    }
    // SAFETY: the caller of the C function promises that such an argument is null or good for reading.
    Ok(unsafe { at.read_unaligned() })
}

/// A name passed as a C string, which must be there.
fn name<'a>(at: abi::Name) -> Result<&'a std::ffi::CStr> {
    if at.is_null() {
        return Err(Error::InvalidValue);
    }
    // SAFETY: the caller of the C function promises a C string that outlives the call.
    Ok(unsafe { std::ffi::CStr::from_ptr(at) })
}

/// Declares exported C functions. A body answers `Result<()>`. Several names share one body; names after a `/` are the
/// variants for programs whose default stream is the thread's own, for which the argument after `by` is read so.
macro_rules! exports {
    ($(
        $(#[$attribute:meta])*
        fn $($name:ident),+ $(/ $($own:ident),+ by $stream:ident)? ( $($arguments:tt)* ) $body:block
    )*) => {
        $( exports!(@all [$($name)+] [$([$($own)+] by $stream)?] ($($arguments)*) $body); )*
    };
    (@all [$($name:ident)+] [] $arguments:tt $body:block) => {
        $( exports!(@one $name $arguments $body); )+
    };
    (@all [$($name:ident)+] [[$($own:ident)+] by $stream:ident] $arguments:tt $body:block) => {
        $( exports!(@one $name $arguments $body); )+
        $( exports!(@own $own $stream $arguments $body); )+
    };
    (@one $name:ident ( $($argument:ident : $kind:ty),* $(,)? ) $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name( $($argument: $kind),* ) -> $crate::driver::abi::CUresult {
            $crate::driver::answer(|| -> $crate::card::Result<()> { $body })
        }
    };
    (@own $name:ident $stream:ident ( $($argument:ident : $kind:ty),* $(,)? ) $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name( $($argument: $kind),* ) -> $crate::driver::abi::CUresult {
            let $stream = $crate::driver::stream::own_default($stream);
            $crate::driver::answer(|| -> $crate::card::Result<()> { $body })
        }
    };
}
use exports;
