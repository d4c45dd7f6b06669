//! `cuGetProcAddress`: the address of a driver function by its name, as the CUDA runtime asks for them all.

use std::ffi::{CString, c_int, c_void};

use super::abi::{CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, Name};
use super::{Out, exports, name};
use crate::card::{Error, Result};

const FOUND: u32 = 0;
const NO_SUCH_SYMBOL: u32 = 1;

/// Names whose newer variants differ in what they take, and from which version on each is meant; the others are simply
/// the newest there is.
const SINCE: &[(&str, &[(c_int, &str)])] = &[
    ("cuCtxCreate", &[(12_050, "_v4"), (11_040, "_v3"), (3_020, "_v2")]),
    ("cuMemPrefetchAsync", &[(13_000, "_v2"), (8_000, "")]),
    ("cuMemAdvise", &[(13_000, "_v2"), (8_000, "")]),
    ("cuStreamGetCaptureInfo", &[(12_030, "_v3"), (11_030, "_v2"), (10_010, "")]),
    ("cuGetProcAddress", &[(12_000, "_v2"), (11_030, "")]),
    ("cuLaunchHostFunc", &[(13_010, "_v2"), (10_000, "")]),
    ("cuCtxGetDevice", &[(13_000, "_v2"), (2_000, "")]),
    ("cuCtxSynchronize", &[(13_000, "_v2"), (2_000, "")]),
];

/// The names to try, best first.
fn candidates(symbol: &str, version: c_int, per_thread: bool) -> Vec<String> {
    let known = SINCE.iter().find(|&&(name, _)| name == symbol);
    let versions: Vec<&str> = match known {
        Some((_, variants)) => variants.iter().filter(|&&(since, _)| since <= version).map(|&(_, end)| end).collect(),
        None => vec!["_v4", "_v3", "_v2", ""],
    };
    let ends: &[&str] = if per_thread { &["_ptsz", "_ptds", ""] } else { &[""] };
    versions.iter().flat_map(|version| ends.iter().map(move |end| format!("{symbol}{version}{end}"))).collect()
}

/// The address of one of this library's own symbols. The loader's table is the one that cannot be out of date.
fn own_symbol(symbol: &str) -> Option<*mut c_void> {
    let symbol = CString::new(symbol).ok()?;
    let here = own_symbol as fn(&str) -> Option<*mut c_void> as *const c_void;
    let mut place = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about, and the answer has room.
    if unsafe { libc::dladdr(here, place.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr filled it in, and all zeros would be a valid value as well.
    let file = unsafe { place.assume_init() }.dli_fname;
    // SAFETY: the name is a C string that lives as long as the library; the library is loaded, so that nothing new runs.
    let library = unsafe { libc::dlopen(file, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the handle was just opened, and the name is a C string.
    let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    // SAFETY: the handle was just opened; the library stays loaded, since this code is in it.
    unsafe { libc::dlclose(library) };
    (!found.is_null()).then_some(found)
}

fn look_up(symbol: Name, version: c_int, flags: u64) -> Result<Option<*mut c_void>> {
    let symbol = name(symbol)?.to_string_lossy();
    let per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM != 0;
    Ok(candidates(&symbol, version, per_thread).iter().find_map(|name| own_symbol(name)))
}

exports! {
    fn cuGetProcAddress(symbol: Name, out: *mut *mut c_void, version: c_int, flags: u64) {
        let out = Out::needed(out)?;
        let found = look_up(symbol, version, flags)?;
        out.set(found.unwrap_or(std::ptr::null_mut()));
        found.map(|_| ()).ok_or(Error::NotFound)
    }

    fn cuGetProcAddress_v2(
        symbol: Name,
        out: *mut *mut c_void,
        version: c_int,
        flags: u64,
        status: *mut u32,
    ) {
        let out = Out::needed(out)?;
        let found = look_up(symbol, version, flags)?;
        out.set(found.unwrap_or(std::ptr::null_mut()));
        if let Some(status) = Out::wanted(status) {
            status.set(if found.is_some() { FOUND } else { NO_SUCH_SYMBOL });
        }
        found.map(|_| ()).ok_or(Error::NotFound)
    }

    fn cuGetExportTable(out: *mut *const c_void, id: *const [u8; 16]) {
        // Tables that no header describes.
        let _ = id;
        Out::needed(out)?.set(std::ptr::null());
        Err(Error::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_asked_for_picks_the_variant() {
        assert_eq!(candidates("cuCtxCreate", 12_000, false), ["cuCtxCreate_v3", "cuCtxCreate_v2"]);
        assert_eq!(candidates("cuMemAlloc", 13_000, false)[2], "cuMemAlloc_v2");
        assert_eq!(
            candidates("cuMemPrefetchAsync", 12_000, true),
            ["cuMemPrefetchAsync_ptsz", "cuMemPrefetchAsync_ptds", "cuMemPrefetchAsync"]
        );
    }
}
