//! Bytes that go to the card and come back.

use std::mem::MaybeUninit;

use cudarc::driver::{CudaContext, result, sys};
use sys::cudaError_enum::{CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS};

use crate::{promise, small};

promise!(bytes_survive_a_round_trip_through_the_card on small(), {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let sent: Vec<u64> = (0..100_000).map(|n| n * n).collect();
    let there = stream.clone_htod(&sent).unwrap();
    let copied = there.try_clone().unwrap();
    assert_eq!(stream.clone_dtoh(&copied).unwrap(), sent);
    let mut part = stream.alloc_zeros::<u64>(10).unwrap();
    stream.memcpy_dtod(&there.slice(5..15), &mut part).unwrap();
    assert_eq!(stream.clone_dtoh(&part).unwrap(), sent[5..15]);
    stream.memset_zeros(&mut part).unwrap();
    assert_eq!(stream.clone_dtoh(&part).unwrap(), [0; 10]);
});

promise!(nothing_is_copied_past_the_end_of_a_block on small(), {
    let _context = CudaContext::new(0).unwrap();
    let bytes = vec![1u8; 8192];
    // SAFETY: the host side is as long as it says; what lies beyond the card's side is what is tried.
    unsafe {
        for block in [result::malloc_sync(4096), result::malloc_async(std::ptr::null_mut(), 4096)] {
            let block = block.unwrap();
            result::memcpy_htod_sync(block, &bytes[..4096]).unwrap();
            assert_eq!(result::memcpy_htod_sync(block, &bytes).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
            assert_eq!(result::memset_d8_sync(block + 1, 0, 4096).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
            result::free_sync(block).unwrap();
            assert_eq!(result::memcpy_htod_sync(block, &bytes[..1]).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
        }
        let host = bytes.as_ptr() as u64;
        assert_eq!(result::memcpy_htod_sync(host, &bytes[..1]).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
    }
});

promise!(a_copy_needs_a_context on small(), {
    let context = CudaContext::new(0).unwrap();
    let created = context.new_stream().unwrap();
    let block = created.alloc_zeros::<u8>(16).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (address, _guard) = cudarc::driver::DevicePtr::device_ptr(&block, &created);
            // SAFETY: the block is live and 16 bytes long.
            unsafe {
                assert_eq!(result::memset_d8_sync(address, 1, 16), Ok(()), "cudarc has bound the thread by now");
                sys::cuCtxSetCurrent(std::ptr::null_mut());
                assert_eq!(result::memset_d8_sync(address, 1, 16).unwrap_err().0, CUDA_ERROR_INVALID_CONTEXT);
                assert_eq!(sys::cuMemsetD8Async(address, 1, 16, created.cu_stream()), CUDA_SUCCESS);
            }
        });
    });
});

promise!(pitched_copies_move_rows on small(), {
    let _context = CudaContext::new(0).unwrap();
    let sent: Vec<u8> = (0..20).collect();
    let mut got = vec![0u8; 20];
    // SAFETY: the addresses and sizes given are those of live memory.
    unsafe {
        let (mut there, mut pitch) = (0, 0);
        assert_eq!(sys::cuMemAllocPitch_v2(&raw mut there, &raw mut pitch, 5, 4, 4), CUDA_SUCCESS);
        assert_eq!(pitch, 512);
        // The C structs have enums in them for which 0 is no value, so they are filled in where they lie.
        let mut copy = MaybeUninit::<sys::CUDA_MEMCPY2D>::zeroed();
        let going = copy.as_mut_ptr();
        (*going).srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        (*going).srcHost = sent.as_ptr().cast();
        (*going).dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        (*going).dstDevice = there;
        (*going).dstPitch = pitch;
        (*going).WidthInBytes = 5;
        (*going).Height = 4;
        assert_eq!(sys::cuMemcpy2D_v2(going), CUDA_SUCCESS);
        let mut copy = MaybeUninit::<sys::CUDA_MEMCPY2D>::zeroed();
        let coming = copy.as_mut_ptr();
        (*coming).srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        (*coming).srcDevice = there;
        (*coming).srcPitch = pitch;
        (*coming).dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        (*coming).dstHost = got.as_mut_ptr().cast();
        (*coming).WidthInBytes = 5;
        (*coming).Height = 4;
        assert_eq!(sys::cuMemcpy2D_v2(coming), CUDA_SUCCESS);
        (*coming).Height = 5;
        assert_eq!(sys::cuMemcpy2D_v2(coming), CUDA_ERROR_INVALID_VALUE);
    }
    assert_eq!(got, sent);
});
