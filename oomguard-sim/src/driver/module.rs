//! Modules and libraries: images are looked at for names and sizes, and never run.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::abi::{CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, FatHeader, FatWrapper, Name};
use super::{Out, as_caller, exports, name, on_card, read};
use crate::card::{Caller, Card, Error, Result};

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const FAT_MAGIC: [u8; 4] = 0xba55_ed50u32.to_le_bytes();
const WRAPPER_MAGIC: [u8; 4] = 0x4662_43b1u32.to_le_bytes();

/// Where an ELF header of 64 bits says how much there is: the section table is the last thing in a cubin.
const ELF_SECTIONS_AT: usize = 40;
const ELF_SECTION_BYTES: usize = 58;
const ELF_SECTION_COUNT: usize = 60;

fn load(card: &mut Card, caller: Caller, image: *const c_void) -> Result<CUmodule> {
    match read(image.cast::<[u8; 4]>())? {
        ELF_MAGIC => {
            let table = read(image.wrapping_byte_add(ELF_SECTIONS_AT).cast::<u64>())?;
            let bytes = read(image.wrapping_byte_add(ELF_SECTION_BYTES).cast::<u16>())?;
            let count = read(image.wrapping_byte_add(ELF_SECTION_COUNT).cast::<u16>())?;
            let end = table.checked_add(u64::from(bytes) * u64::from(count)).ok_or(Error::InvalidImage)?;
            card.load_opaque(caller, end)
        }
        FAT_MAGIC => {
            let header = read(image.cast::<FatHeader>())?;
            card.load_opaque(caller, header.bytes.saturating_add(u64::from(header.header_bytes)))
        }
        WRAPPER_MAGIC => {
            let wrapper = read(image.cast::<FatWrapper>())?;
            let header = read(wrapper.image.cast::<FatHeader>())?;
            card.load_opaque(caller, header.bytes.saturating_add(u64::from(header.header_bytes)))
        }
        _ => {
            // SAFETY: an image that is no machine code is PTX, which the caller promises to end with a zero.
            let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) };
            card.load_ptx(caller, &text.to_string_lossy())
        }
    }
}

fn load_file(path: Name) -> Result<CUmodule> {
    let path = name(path)?.to_string_lossy();
    let mut image = std::fs::read(&*path).map_err(|_| Error::FileNotFound)?;
    // An end for PTX, and room for the headers that are read of machine code.
    image.extend([0; 64]);
    as_caller(|card, caller| load(card, caller, image.as_ptr().cast()))
}

fn load_data(out: *mut CUmodule, image: *const c_void) -> Result<()> {
    let out = Out::needed(out)?;
    if image.is_null() {
        return Err(Error::InvalidValue);
    }
    out.set(as_caller(|card, caller| load(card, caller, image))?);
    Ok(())
}

fn put_variable(out: *mut CUdeviceptr, out_bytes: *mut usize, module: CUmodule, wanted: Name) -> Result<()> {
    let wanted = name(wanted)?.to_string_lossy();
    let (address, bytes) = on_card(|card| card.variable(module, &wanted))?;
    if let Some(out) = Out::wanted(out) {
        out.set(address);
    }
    if let Some(out) = Out::wanted(out_bytes) {
        out.set(usize::try_from(bytes).map_err(|_| Error::Unknown)?);
    }
    Ok(())
}

fn put_count(out: *mut c_uint, module: CUmodule) -> Result<()> {
    let out = Out::needed(out)?;
    let count = on_card(|card| card.function_count(module))?;
    out.set(c_uint::try_from(count).map_err(|_| Error::Unknown)?);
    Ok(())
}

exports! {
    fn cuModuleLoad(out: *mut CUmodule, path: Name) {
        let out = Out::needed(out)?;
        out.set(load_file(path)?);
        Ok(())
    }

    fn cuModuleLoadData, cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void) {
        load_data(out, image)
    }

    fn cuModuleLoadDataEx(
        out: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        options: *mut c_uint,
        values: *mut *mut c_void,
    ) {
        let _ = (count, options, values);
        load_data(out, image)
    }

    fn cuModuleUnload(module: CUmodule) {
        on_card(|card| card.unload(module))
    }

    fn cuModuleGetFunction(out: *mut CUfunction, module: CUmodule, wanted: Name) {
        let out = Out::needed(out)?;
        let wanted = name(wanted)?;
        out.set(on_card(|card| card.function(module, wanted))?);
        Ok(())
    }

    fn cuModuleGetFunctionCount(out: *mut c_uint, module: CUmodule) {
        put_count(out, module)
    }

    fn cuModuleGetGlobal_v2(out: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, wanted: Name) {
        put_variable(out, bytes, module, wanted)
    }

    fn cuModuleGetLoadingMode(out: *mut c_uint) {
        // 2 is lazy, the driver's own default.
        Out::needed(out)?.set(2);
        Ok(())
    }

    fn cuFuncGetModule(out: *mut CUmodule, function: CUfunction) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.function_module(function))?);
        Ok(())
    }

    fn cuFuncGetName, cuKernelGetName(out: *mut *const c_char, function: CUfunction) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.function_name(function))?);
        Ok(())
    }

    fn cuFuncIsLoaded(out: *mut c_uint, function: CUfunction) {
        let out = Out::needed(out)?;
        on_card(|card| card.function_module(function))?;
        out.set(1);
        Ok(())
    }

    fn cuFuncLoad(function: CUfunction) {
        on_card(|card| card.function_module(function)).map(|_| ())
    }

    fn cuFuncGetAttribute(out: *mut c_int, attribute: c_uint, function: CUfunction) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.function_attribute(function, attribute))?);
        Ok(())
    }

    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int) {
        on_card(|card| card.set_function_attribute(function, attribute, value))
    }

    fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) {
        on_card(|card| card.function_module(function))?;
        if config > 3 { Err(Error::InvalidValue) } else { Ok(()) }
    }

    fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) {
        on_card(|card| card.function_module(function))?;
        if config > 2 { Err(Error::InvalidValue) } else { Ok(()) }
    }

    fn cuLibraryLoadData(
        out: *mut CUlibrary,
        image: *const c_void,
        jit_options: *mut c_uint,
        jit_values: *mut *mut c_void,
        jit_count: c_uint,
        options: *mut c_uint,
        values: *mut *mut c_void,
        count: c_uint,
    ) {
        let _ = (jit_options, jit_values, jit_count, options, values, count);
        let out = Out::needed(out)?;
        if image.is_null() {
            return Err(Error::InvalidValue);
        }
        out.set(as_caller(|card, caller| {
            let module = load(card, caller, image)?;
            Ok(card.make_library(module))
        })?);
        Ok(())
    }

    fn cuLibraryLoadFromFile(
        out: *mut CUlibrary,
        path: Name,
        jit_options: *mut c_uint,
        jit_values: *mut *mut c_void,
        jit_count: c_uint,
        options: *mut c_uint,
        values: *mut *mut c_void,
        count: c_uint,
    ) {
        let _ = (jit_options, jit_values, jit_count, options, values, count);
        let out = Out::needed(out)?;
        let module = load_file(path)?;
        out.set(on_card(|card| Ok(card.make_library(module)))?);
        Ok(())
    }

    fn cuLibraryUnload(library: CUlibrary) {
        on_card(|card| {
            let module = card.library_module(library)?;
            card.unload(module)
        })
    }

    fn cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.library_module(library))?);
        Ok(())
    }

    fn cuLibraryGetKernel(out: *mut CUkernel, library: CUlibrary, wanted: Name) {
        let out = Out::needed(out)?;
        let wanted = name(wanted)?;
        out.set(on_card(|card| {
            let module = card.library_module(library)?;
            card.function(module, wanted)
        })?);
        Ok(())
    }

    fn cuLibraryGetKernelCount(out: *mut c_uint, library: CUlibrary) {
        let module = on_card(|card| card.library_module(library))?;
        put_count(out, module)
    }

    fn cuLibraryGetGlobal(out: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, wanted: Name) {
        let module = on_card(|card| card.library_module(library))?;
        put_variable(out, bytes, module, wanted)
    }

    fn cuKernelGetFunction(out: *mut CUfunction, kernel: CUkernel) {
        let out = Out::needed(out)?;
        on_card(|card| card.function_module(kernel))?;
        // A kernel is its function here: there is nothing to load for each context.
        out.set(kernel);
        Ok(())
    }

    fn cuKernelGetLibrary(out: *mut CUlibrary, kernel: CUkernel) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.library_of(kernel))?);
        Ok(())
    }

    fn cuKernelGetAttribute(out: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice) {
        let out = Out::needed(out)?;
        out.set(on_card(|card| card.ordinal(device).and(card.function_attribute(kernel, attribute)))?);
        Ok(())
    }

    fn cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: CUkernel, device: CUdevice) {
        on_card(|card| card.ordinal(device).and(card.set_function_attribute(kernel, attribute, value)))
    }

    fn cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, device: CUdevice) {
        let _ = config;
        on_card(|card| card.ordinal(device).and(card.function_module(kernel)).map(|_| ()))
    }
}
