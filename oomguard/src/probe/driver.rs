//! The driver's functions that sampled mode asks, looked up by us.
//!
//! cudarc panics at a missing library or symbol, and an old driver lacks the pools' functions: here each is asked for first,
//! and what is missing is a reason in the report. Codes come back as plain integers, for a newer driver may answer one that no
//! enumeration of ours has.

use cudarc::driver::sys;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// What a driver function answers: 0, or an error code.
pub(crate) type Code = u32;

macro_rules! driver_functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// Addresses of driver functions; valid for the life of the process, since the library is never closed.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Driver {
            $($(#[$doc])* pub(crate) $field: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Driver {
            fn look_up(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the symbol is the driver's function of this name, whose C signature is the one given.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> Code>($symbol) };
                        *found.map_err(|_| format!("the driver has no {}: it is too old for memory pools", $symbol))?
                    },)*
                })
            }
        }
    };
}

driver_functions! {
    /// The device of the thread's current context.
    ctx_get_device = "cuCtxGetDevice": fn(*mut c_int);
    device_attribute = "cuDeviceGetAttribute": fn(*mut c_int, sys::CUdevice_attribute, c_int);
    device_name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    device_total = "cuDeviceTotalMem_v2": fn(*mut usize, c_int);
    default_pool = "cuDeviceGetDefaultMemPool": fn(*mut sys::CUmemoryPool, c_int);
    current_pool = "cuDeviceGetMemPool": fn(*mut sys::CUmemoryPool, c_int);
    pool_get = "cuMemPoolGetAttribute": fn(sys::CUmemoryPool, sys::CUmemPool_attribute, *mut c_void);
    pool_set = "cuMemPoolSetAttribute": fn(sys::CUmemoryPool, sys::CUmemPool_attribute, *mut c_void);
    memory_info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
    graph_memory = "cuDeviceGetGraphMemAttribute": fn(c_int, c_uint, *mut c_void);
}

impl Driver {
    /// Finds the driver that the program uses, or would use. Initialises nothing and makes no context.
    ///
    /// # Errors
    /// A sentence that names the library or the symbol that is missing.
    pub(crate) fn load() -> Result<Self, String> {
        let library = open()?;
        let driver = Self::look_up(&library);
        // Functions of a closed library must not be called: it stays open for the life of the process.
        std::mem::forget(library);
        driver
    }
}

#[cfg(unix)]
fn open() -> Result<Library, String> {
    use libloading::os::unix;
    /// The names by which programs load the driver, cudarc's order.
    const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
    let flags = unix::RTLD_LAZY | unix::RTLD_LOCAL;
    for name in NAMES {
        // SAFETY: with RTLD_NOLOAD no library is loaded, so no code of one runs.
        if let Ok(loaded) = unsafe { unix::Library::open(Some(name), flags | libc::RTLD_NOLOAD) } {
            return Ok(loaded.into());
        }
    }
    let mut reason = None;
    for name in NAMES {
        // SAFETY: the driver's initialisers may run in any thread at any time; every CUDA program relies on that.
        match unsafe { unix::Library::open(Some(name), flags) } {
            Ok(library) => return Ok(library.into()),
            // The last name is the one that every driver has: its error is the one to show.
            Err(error) => {
                reason = Some(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string));
            }
        }
    }
    Err(format!("the CUDA driver could not be loaded ({})", reason.unwrap_or_default()))
}

#[cfg(windows)]
fn open() -> Result<Library, String> {
    // SAFETY: as above: every CUDA program loads this library.
    unsafe { Library::new("nvcuda.dll") }.map_err(|error| format!("the CUDA driver could not be loaded ({error})"))
}

#[cfg(not(any(unix, windows)))]
fn open() -> Result<Library, String> {
    Err("there is no CUDA driver for this system".to_owned())
}

/// An error code as people know it.
pub(crate) fn describe(code: Code) -> String {
    let name = match code {
        1 => "CUDA_ERROR_INVALID_VALUE",
        2 => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        201 => "CUDA_ERROR_INVALID_CONTEXT",
        214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
        400 => "CUDA_ERROR_INVALID_HANDLE",
        700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
        709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        719 => "CUDA_ERROR_LAUNCH_FAILED",
        801 => "CUDA_ERROR_NOT_SUPPORTED",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => return format!("CUDA error {code}"),
    };
    format!("{name} ({code})")
}
