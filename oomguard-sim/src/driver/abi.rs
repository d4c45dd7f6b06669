//! The driver's C types, on x86-64 Linux, as far as the card uses them. The numbers are the header's.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A status code; 0 is success.
pub(super) type CUresult = u32;
pub(super) type CUdevice = c_int;
pub(super) type CUdeviceptr = u64;

// Handles are opaque pointers in the header. They are numbers here, of the same size and passed in the same register.
pub(super) type CUcontext = u64;
pub(super) type CUstream = u64;
pub(super) type CUevent = u64;
pub(super) type CUmodule = u64;
pub(super) type CUfunction = u64;
pub(super) type CUkernel = u64;
pub(super) type CUlibrary = u64;
pub(super) type CUmemoryPool = u64;
pub(super) type CUmemGenericAllocationHandle = u64;

pub(super) type CUhostFn = Option<unsafe extern "C" fn(*mut c_void)>;
pub(super) type CUstreamCallback = Option<unsafe extern "C" fn(CUstream, CUresult, *mut c_void)>;
pub(super) type CUoccupancyB2DSize = Option<unsafe extern "C" fn(c_int) -> usize>;

pub(super) const CUDA_SUCCESS: CUresult = 0;

pub(super) const CU_MEM_LOCATION_TYPE_DEVICE: c_int = 1;
pub(super) const CU_MEM_ALLOCATION_TYPE_PINNED: c_int = 1;

pub(super) const CU_MEMORYTYPE_HOST: c_uint = 1;
pub(super) const CU_MEMORYTYPE_DEVICE: c_uint = 2;
pub(super) const CU_MEMORYTYPE_UNIFIED: c_uint = 4;

pub(super) const CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM: u64 = 2;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUuuid {
    pub(super) bytes: [u8; 16],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUmemLocation {
    pub(super) kind: c_int,
    pub(super) id: c_int,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUmemAccessDesc {
    pub(super) location: CUmemLocation,
    pub(super) flags: c_int,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUmemPoolProps {
    pub(super) alloc_type: c_int,
    pub(super) handle_types: c_int,
    pub(super) location: CUmemLocation,
    pub(super) security_attributes: *mut c_void,
    pub(super) max_size: usize,
    pub(super) usage: u16,
    pub(super) reserved: [u8; 54],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUmemAllocationProp {
    pub(super) kind: c_int,
    pub(super) requested_handle_types: c_int,
    pub(super) location: CUmemLocation,
    pub(super) win32_handle_meta_data: *mut c_void,
    pub(super) alloc_flags: [u8; 8],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUDA_MEMCPY2D {
    pub(super) src_x: usize,
    pub(super) src_y: usize,
    pub(super) src_memory_type: c_uint,
    pub(super) src_host: u64,
    pub(super) src_device: CUdeviceptr,
    pub(super) src_array: u64,
    pub(super) src_pitch: usize,
    pub(super) dst_x: usize,
    pub(super) dst_y: usize,
    pub(super) dst_memory_type: c_uint,
    pub(super) dst_host: u64,
    pub(super) dst_device: CUdeviceptr,
    pub(super) dst_array: u64,
    pub(super) dst_pitch: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUDA_MEMCPY3D {
    pub(super) src_x: usize,
    pub(super) src_y: usize,
    pub(super) src_z: usize,
    pub(super) src_lod: usize,
    pub(super) src_memory_type: c_uint,
    pub(super) src_host: u64,
    pub(super) src_device: CUdeviceptr,
    pub(super) src_array: u64,
    pub(super) reserved0: u64,
    pub(super) src_pitch: usize,
    pub(super) src_height: usize,
    pub(super) dst_x: usize,
    pub(super) dst_y: usize,
    pub(super) dst_z: usize,
    pub(super) dst_lod: usize,
    pub(super) dst_memory_type: c_uint,
    pub(super) dst_host: u64,
    pub(super) dst_device: CUdeviceptr,
    pub(super) dst_array: u64,
    pub(super) reserved1: u64,
    pub(super) dst_pitch: usize,
    pub(super) dst_height: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CUlaunchConfig {
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared: c_uint,
    pub(super) stream: CUstream,
    pub(super) attributes: *mut c_void,
    pub(super) attribute_count: c_uint,
}

/// The start of a fat binary, which tells its size.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct FatHeader {
    pub(super) magic: u32,
    pub(super) version: u16,
    pub(super) header_bytes: u16,
    pub(super) bytes: u64,
}

/// What the compiler puts around a fat binary in a program.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct FatWrapper {
    pub(super) magic: u32,
    pub(super) version: u32,
    pub(super) image: *const c_void,
}

pub(super) type Name = *const c_char;

#[cfg(test)]
mod tests {
    use cudarc::driver::sys;
    use sys::{CUmemPool_attribute as pool, cudaError_enum as theirs};

    use super::*;
    use crate::card::{Error, PoolAttribute};

    macro_rules! same_layout {
        ($($own:ty = $theirs:ty { $($field:ident = $their_field:ident),* $(,)? })*) => {
            $(
                assert_eq!(size_of::<$own>(), size_of::<$theirs>(), stringify!($own));
                assert_eq!(align_of::<$own>(), align_of::<$theirs>(), stringify!($own));
                $(
                    assert_eq!(
                        std::mem::offset_of!($own, $field),
                        std::mem::offset_of!($theirs, $their_field),
                        concat!(stringify!($own), ".", stringify!($field))
                    );
                )*
            )*
        };
    }

    #[test]
    fn structs_lie_as_the_header_lays_them() {
        same_layout! {
            CUuuid = sys::CUuuid { bytes = bytes }
            CUmemLocation = sys::CUmemLocation { kind = type_ }
            CUmemAccessDesc = sys::CUmemAccessDesc { location = location, flags = flags }
            CUmemPoolProps = sys::CUmemPoolProps {
                alloc_type = allocType, handle_types = handleTypes, location = location, max_size = maxSize, usage = usage,
            }
            CUmemAllocationProp = sys::CUmemAllocationProp {
                kind = type_, requested_handle_types = requestedHandleTypes, location = location, alloc_flags = allocFlags,
            }
            CUDA_MEMCPY2D = sys::CUDA_MEMCPY2D {
                src_x = srcXInBytes, src_memory_type = srcMemoryType, src_host = srcHost, src_device = srcDevice,
                src_pitch = srcPitch, dst_x = dstXInBytes, dst_memory_type = dstMemoryType, dst_host = dstHost,
                dst_device = dstDevice, dst_pitch = dstPitch, width = WidthInBytes, height = Height,
            }
            CUDA_MEMCPY3D = sys::CUDA_MEMCPY3D {
                src_z = srcZ, src_lod = srcLOD, src_memory_type = srcMemoryType, src_device = srcDevice,
                src_pitch = srcPitch, src_height = srcHeight, dst_x = dstXInBytes, dst_memory_type = dstMemoryType,
                dst_device = dstDevice, dst_pitch = dstPitch, dst_height = dstHeight, width = WidthInBytes, depth = Depth,
            }
            CUlaunchConfig = sys::CUlaunchConfig {
                grid = gridDimX, block = blockDimX, shared = sharedMemBytes, stream = hStream, attributes = attrs,
                attribute_count = numAttrs,
            }
        }
        assert_eq!(size_of::<CUcontext>(), size_of::<sys::CUcontext>());
        assert_eq!(size_of::<CUdeviceptr>(), size_of::<sys::CUdeviceptr>());
        assert_eq!(size_of::<CUdevice>(), size_of::<sys::CUdevice>());
        assert_eq!(size_of::<CUhostFn>(), size_of::<sys::CUhostFn>());
    }

    #[test]
    fn numbers_are_the_header_s() {
        let pairs = [
            (Error::InvalidValue, theirs::CUDA_ERROR_INVALID_VALUE),
            (Error::OutOfMemory, theirs::CUDA_ERROR_OUT_OF_MEMORY),
            (Error::NotInitialized, theirs::CUDA_ERROR_NOT_INITIALIZED),
            (Error::NoDevice, theirs::CUDA_ERROR_NO_DEVICE),
            (Error::InvalidDevice, theirs::CUDA_ERROR_INVALID_DEVICE),
            (Error::InvalidImage, theirs::CUDA_ERROR_INVALID_IMAGE),
            (Error::InvalidContext, theirs::CUDA_ERROR_INVALID_CONTEXT),
            (Error::EccUncorrectable, theirs::CUDA_ERROR_ECC_UNCORRECTABLE),
            (Error::UnsupportedLimit, theirs::CUDA_ERROR_UNSUPPORTED_LIMIT),
            (Error::FileNotFound, theirs::CUDA_ERROR_FILE_NOT_FOUND),
            (Error::InvalidHandle, theirs::CUDA_ERROR_INVALID_HANDLE),
            (Error::NotFound, theirs::CUDA_ERROR_NOT_FOUND),
            (Error::NotReady, theirs::CUDA_ERROR_NOT_READY),
            (Error::PeerAccessAlreadyEnabled, theirs::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
            (Error::PeerAccessNotEnabled, theirs::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED),
            (Error::ContextIsDestroyed, theirs::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            (Error::HostMemoryAlreadyRegistered, theirs::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
            (Error::HostMemoryNotRegistered, theirs::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
            (Error::NotSupported, theirs::CUDA_ERROR_NOT_SUPPORTED),
            (Error::Unknown, theirs::CUDA_ERROR_UNKNOWN),
        ];
        for (own, theirs) in pairs {
            assert_eq!(own as u32, theirs as u32, "{own:?}");
        }
        assert_eq!(CU_MEMORYTYPE_HOST, sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32);
        assert_eq!(CU_MEMORYTYPE_DEVICE, sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32);
        assert_eq!(CU_MEMORYTYPE_UNIFIED, sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED as u32);
        for (number, own) in [
            (pool::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, PoolAttribute::Reuse(0)),
            (pool::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, PoolAttribute::Reuse(1)),
            (pool::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, PoolAttribute::Reuse(2)),
            (pool::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, PoolAttribute::ReleaseThreshold),
            (pool::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, PoolAttribute::Reserved),
            (pool::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, PoolAttribute::ReservedHigh),
            (pool::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, PoolAttribute::Used),
            (pool::CU_MEMPOOL_ATTR_USED_MEM_HIGH, PoolAttribute::UsedHigh),
        ] {
            assert_eq!(PoolAttribute::from_number(number as u32), Some(own));
        }
        let supported = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED as i32;
        assert_eq!(supported, 115);
    }
}
