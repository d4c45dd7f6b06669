//! The driver's own calls, in the right order and in the wrong one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use cudarc::driver::{CudaContext, sys};
use sys::cudaError_enum::{
    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_READY, CUDA_SUCCESS,
};

use oomguard_sim::config::CardConfig;
use sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
use sys::CUpointer_attribute::{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};

use crate::{promise, small};

promise!(nothing_works_before_the_driver_is_initialised on small(), {
    let (mut number, mut context, mut text) = (0, null_mut(), null::<c_char>());
    // SAFETY: every argument is null or good for its result.
    unsafe {
        assert_eq!(sys::cuDeviceGetCount(&raw mut number), CUDA_ERROR_NOT_INITIALIZED);
        assert_eq!(sys::cuCtxGetCurrent(&raw mut context), CUDA_ERROR_NOT_INITIALIZED);
        assert_eq!(sys::cuDriverGetVersion(&raw mut number), CUDA_SUCCESS);
        assert_eq!(number, 13_000);
        assert_eq!(sys::cuGetErrorName(CUDA_ERROR_INVALID_CONTEXT, &raw mut text), CUDA_SUCCESS);
        assert_eq!(CStr::from_ptr(text), c"CUDA_ERROR_INVALID_CONTEXT");
        assert_eq!(sys::cuInit(1), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuInit(0), CUDA_SUCCESS);
        assert_eq!(sys::cuDeviceGet(&raw mut number, 7), CUDA_ERROR_INVALID_DEVICE);
        assert_eq!(sys::cuDeviceGet(null_mut(), 0), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuCtxGetCurrent(&raw mut context), CUDA_SUCCESS);
        assert!(context.is_null());
        assert_eq!(sys::cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(sys::cuMemAlloc_v2(null_mut(), 1), CUDA_ERROR_INVALID_VALUE);
    }
});

promise!(contexts_are_pushed_popped_and_destroyed on small(), {
    let primary = CudaContext::new(0).unwrap();
    let mut second = null_mut();
    let mut current = null_mut();
    // SAFETY: handles are used after their end to see that they are known for what they are.
    unsafe {
        assert_eq!(sys::cuCtxCreate_v4(&raw mut second, null_mut(), 0, 0), CUDA_SUCCESS);
        sys::cuCtxGetCurrent(&raw mut current);
        assert_eq!(current, second);
        let (go, wait) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let handle = second as usize;
        let other = std::thread::spawn(move || {
            sys::cuCtxSetCurrent(handle as sys::CUcontext);
            go.0.send(()).unwrap();
            wait.1.recv().unwrap();
            sys::cuCtxSynchronize()
        });
        go.1.recv().unwrap();
        assert_eq!(sys::cuCtxDestroy_v2(second), CUDA_SUCCESS);
        sys::cuCtxGetCurrent(&raw mut current);
        assert_eq!(current, primary.cu_ctx());
        wait.0.send(()).unwrap();
        assert_eq!(other.join().unwrap(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_eq!(sys::cuCtxSetCurrent(0x1234 as sys::CUcontext), CUDA_ERROR_INVALID_CONTEXT);
    }
});

promise!(functions_are_found_by_name on small(), {
    let mut found: *mut c_void = null_mut();
    let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    // SAFETY: the names are C strings, and the results have places to go to.
    unsafe {
        let mut ask = |name: &CStr, flags| {
            sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut found, 13_000, flags, &raw mut status)
        };
        assert_eq!(ask(c"cuMemAllocAsync", 0), CUDA_SUCCESS);
        assert_eq!(ask(c"cuMemAllocAsync", 2), CUDA_SUCCESS);
        assert_ne!(ask(c"cuNoSuchThing", 0), CUDA_SUCCESS);
        assert_eq!(status as u32, 1);
        assert!(found.is_null());
        assert_eq!(
            sys::cuGetProcAddress_v2(c"cuDriverGetVersion".as_ptr(), &raw mut found, 13_000, 0, &raw mut status),
            CUDA_SUCCESS
        );
        let version: unsafe extern "C" fn(*mut c_int) -> u32 = std::mem::transmute(found);
        let mut number = 0;
        assert_eq!(version(&raw mut number), 0);
        assert_eq!(number, 13_000);
    }
});

promise!(addresses_are_known_for_what_they_are on small(), {
    let context = CudaContext::new(0).unwrap();
    let block = context.default_stream().alloc_zeros::<u8>(1000).unwrap();
    let (address, _guard) = cudarc::driver::DevicePtr::device_ptr(&block, block.stream());
    let (mut base, mut bytes, mut kind, mut pool) = (0, 0, 0u32, 0u64);
    // SAFETY: every result has a place of its type.
    unsafe {
        assert_eq!(sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut bytes, address + 10), CUDA_SUCCESS);
        assert_eq!((base, bytes), (address, 1000));
        let ask = sys::cuPointerGetAttribute;
        assert_eq!(ask((&raw mut kind).cast(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), CUDA_SUCCESS);
        assert_eq!(kind, 2);
        assert_eq!(ask((&raw mut pool).cast(), CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address), CUDA_SUCCESS);
        assert_eq!(pool, crate::default_pool() as u64);
        let stranger = (&raw const kind) as u64;
        assert_eq!(
            ask((&raw mut pool).cast(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, stranger),
            CUDA_ERROR_INVALID_VALUE
        );
    }
});

promise!(addresses_and_memory_can_be_joined_by_hand on small(), {
    let _context = CudaContext::new(0).unwrap();
    // SAFETY: all zeros is a value of these plain C structs; results have places; the mapping is used while it is there.
    unsafe {
        let mut asked: sys::CUmemAllocationProp = std::mem::zeroed();
        asked.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        asked.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let (mut handle, mut address) = (0, 0);
        let step = 2 << 20;
        assert_eq!(sys::cuMemCreate(&raw mut handle, step, &raw const asked, 0), CUDA_SUCCESS);
        assert_eq!(sys::cuMemAddressReserve(&raw mut address, 2 * step, 0, 0, 0), CUDA_SUCCESS);
        for place in [address, address + step as u64] {
            assert_eq!(sys::cuMemMap(place, step, 0, handle, 0), CUDA_SUCCESS);
        }
        assert_eq!(sys::cuMemsetD8_v2(address, 1, 16), CUDA_ERROR_INVALID_VALUE, "no access yet");
        let mut access: sys::CUmemAccessDesc = std::mem::zeroed();
        access.location = asked.location;
        access.flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        assert_eq!(sys::cuMemSetAccess(address, 2 * step, &raw const access, 1), CUDA_SUCCESS);
        assert_eq!(sys::cuMemsetD8_v2(address, 7, 16), CUDA_SUCCESS);
        let mut got = [0u8; 16];
        let there = address + step as u64;
        assert_eq!(sys::cuMemcpyDtoH_v2(got.as_mut_ptr().cast(), there, 16), CUDA_SUCCESS);
        assert_eq!(got, [7; 16], "one memory at two addresses");
        assert_eq!(sys::cuMemRelease(handle), CUDA_SUCCESS);
        assert_eq!(sys::cuMemUnmap(address, 2 * step), CUDA_SUCCESS);
        assert_eq!(sys::cuMemAddressFree(address, 2 * step), CUDA_SUCCESS);
    }
});

promise!(tests_can_count_launches_and_let_streams_go on CardConfig { hold_streams: true, ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let hook = |name: &CStr| {
        let mut found: *mut c_void = null_mut();
        // SAFETY: the name is a C string, and the result has a place to go to.
        let status = unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut found, 13_000, 0, null_mut()) };
        assert_eq!(status, CUDA_SUCCESS);
        found
    };
    drop(stream.alloc_zeros::<u8>(64).unwrap());
    let before = crate::counter(crate::default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    // SAFETY: the declarations are the library's own, and the stream lives.
    unsafe {
        let launches: extern "C" fn() -> u64 = std::mem::transmute(hook(c"oomguardSimLaunchCount"));
        assert_eq!(launches(), 0);
        let release: extern "C" fn(sys::CUstream) -> sys::CUresult =
            std::mem::transmute(hook(c"oomguardSimReleaseStream"));
        assert_eq!(sys::cuStreamQuery(stream.cu_stream()), CUDA_ERROR_NOT_READY);
        assert_eq!(release(stream.cu_stream()), CUDA_SUCCESS);
        assert_eq!(sys::cuStreamQuery(stream.cu_stream()), CUDA_SUCCESS);
    }
    assert_eq!(crate::counter(crate::default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), before);
});
