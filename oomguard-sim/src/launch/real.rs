//! Is there a real device?

use std::ffi::{CStr, c_int, c_uint};

/// Whether a real driver can be loaded, initialises, and has a device. The simulated card does not count.
pub fn real_driver_present() -> bool {
    // A driver stays loaded once it is: programs that ask are about to use it.
    [c"libcuda.so.1", c"libcuda.so"].into_iter().filter_map(Library::open).any(|driver| driver.has_a_device())
}

struct Library(*mut libc::c_void);

impl Library {
    fn open(name: &CStr) -> Option<Self> {
        // SAFETY: loading a library runs its initialisers; a library of this name is the driver, which programs load so.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    fn symbol(&self, name: &CStr) -> Option<*mut libc::c_void> {
        // SAFETY: the handle is open, and stays so.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    fn has_a_device(&self) -> bool {
        if self.symbol(c"oomguardSimLaunchCount").is_some() {
            return false;
        }
        let (Some(init), Some(count)) = (self.symbol(c"cuInit"), self.symbol(c"cuDeviceGetCount")) else {
            return false;
        };
        // SAFETY: the driver's own declarations of these two functions.
        let (init, count) = unsafe {
            (
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(c_uint) -> c_uint>(init),
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*mut c_int) -> c_uint>(count),
            )
        };
        let mut devices = 0;
        // SAFETY: cuInit takes no flags; the count has a place to go to.
        unsafe { init(0) == 0 && count(&raw mut devices) == 0 && devices > 0 }
    }
}
