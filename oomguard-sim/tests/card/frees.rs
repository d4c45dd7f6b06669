//! Frees that a driver refuses: the silent leak, and mistakes.

use cudarc::driver::{CudaContext, result, sys};
use sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as USED;
use sys::cudaError_enum::{CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE};

use crate::{counter, default_pool, promise, small};

promise!(a_free_without_a_context_is_refused_with_201 on small(), {
    let context = CudaContext::new(0).unwrap();
    for stream in [context.default_stream(), context.per_thread_stream()] {
        let before = counter(default_pool(), USED);
        let block = stream.alloc_zeros::<u8>(64 << 20).unwrap();
        std::thread::spawn(move || drop(block)).join().unwrap();
        assert_eq!(counter(default_pool(), USED) - before, 64 << 20, "nothing was freed");
        assert_eq!(context.check_err().unwrap_err().0, CUDA_ERROR_INVALID_CONTEXT);
        assert_eq!(CUDA_ERROR_INVALID_CONTEXT as u32, 201);
    }
});

promise!(a_bound_thread_frees on small(), {
    let context = CudaContext::new(0).unwrap();
    let block = context.default_stream().alloc_zeros::<u8>(64 << 20).unwrap();
    std::thread::spawn(move || {
        block.context().bind_to_thread().unwrap();
        drop(block);
    })
    .join()
    .unwrap();
    assert_eq!(counter(default_pool(), USED), 0);
    context.check_err().unwrap();
});

promise!(once_there_is_another_stream_the_drop_frees on small(), {
    let context = CudaContext::new(0).unwrap();
    let other = context.new_stream().unwrap();
    let blocks = [context.default_stream(), other].map(|stream| stream.alloc_zeros::<u8>(1 << 20).unwrap());
    std::thread::spawn(move || drop(blocks)).join().unwrap();
    assert_eq!(counter(default_pool(), USED), 0);
});

promise!(a_double_free_is_an_error_and_not_a_crash on small(), {
    let context = CudaContext::new(0).unwrap();
    let stream = std::ptr::null_mut();
    // SAFETY: the card answers wrong frees with an error; that is what is tried here.
    unsafe {
        let block = result::malloc_async(stream, 1000).unwrap();
        assert_eq!(result::free_async(block + 8, stream).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
        result::free_async(block, stream).unwrap();
        assert_eq!(result::free_async(block, stream).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
        context.synchronize().unwrap();
        assert_eq!(result::free_async(block, stream).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
        let block = result::malloc_sync(1000).unwrap();
        result::free_sync(block).unwrap();
        assert_eq!(result::free_sync(block).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
        assert_eq!(result::free_sync(0x1234_0000).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
        result::free_sync(0).unwrap();
        result::free_async(0, stream).unwrap();
    }
});

promise!(a_released_context_is_destroyed_and_its_pool_is_not on small(), {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: the block is freed below, in the context's second life.
    let block = unsafe { result::malloc_async(std::ptr::null_mut(), 4096) }.unwrap();
    drop(context);
    assert_eq!(result::mem_get_info().unwrap_err().0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(counter(default_pool(), USED), 4096);
    let _again = CudaContext::new(0).unwrap();
    // SAFETY: the block is live.
    unsafe { result::free_async(block, std::ptr::null_mut()) }.unwrap();
    assert_eq!(counter(default_pool(), USED), 0);
});

promise!(cu_mem_free_needs_no_context on small(), {
    let _context = CudaContext::new(0).unwrap();
    // SAFETY: both blocks are live, and freed on the other thread alone.
    unsafe {
        let blocks = [result::malloc_sync(4096).unwrap(), result::malloc_async(std::ptr::null_mut(), 4096).unwrap()];
        std::thread::spawn(move || blocks.map(|block| result::free_sync(block).unwrap())).join().unwrap();
    }
    assert_eq!(counter(default_pool(), USED), 0);
});

promise!(frees_while_a_thread_ends_are_answered on small(), {
    thread_local! {
        static LAST: std::cell::RefCell<Option<cudarc::driver::CudaSlice<u8>>> = const { std::cell::RefCell::new(None) };
    }
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    std::thread::spawn(move || {
        // The thread-local is there before the thread knows of any context, so that it goes after it.
        LAST.with(|last| assert!(last.borrow().is_none()));
        let block = stream.alloc_zeros::<u8>(64).unwrap();
        LAST.with(|last| *last.borrow_mut() = Some(block));
    })
    .join()
    .unwrap();
    assert_eq!(counter(default_pool(), USED), 0);
});
