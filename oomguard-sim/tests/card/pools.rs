//! Pools, and what they and everybody else take of the card.

use std::ptr::null_mut;

use cudarc::driver::{CudaContext, result, sys};
use oomguard_sim::config::CardConfig;
use sys::CUmemPool_attribute::{
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as RESERVED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT as USED,
    CU_MEMPOOL_ATTR_USED_MEM_HIGH as USED_HIGH,
};
use sys::cudaError_enum::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED};

use crate::{counter, default_pool, promise, small};

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a proc filesystem");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a figure") << 10
}

promise!(a_140_gib_card_fits_until_bytes_are_written on CardConfig::default(), {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let before = resident();
    // SAFETY: what is read is written first.
    let mut block = unsafe { stream.alloc::<u8>(130 << 30) }.unwrap();
    let mut end = block.slice_mut((130 << 30) - 4096..);
    stream.memcpy_htod(&[5u8; 4096], &mut end).unwrap();
    assert_eq!(stream.clone_dtoh(&end).unwrap(), vec![5; 4096]);
    assert!(resident() - before < 64 << 20, "the rest of it takes nothing");
    assert_eq!(counter(default_pool(), USED), 130 << 30);
    drop(block);
    context.synchronize().unwrap();
    assert!(stream.alloc_zeros::<u8>(1 << 20).is_ok());
});

promise!(used_falls_when_the_free_is_called on CardConfig { hold_streams: true, ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let block = context.default_stream().alloc_zeros::<u8>(1).unwrap();
    assert_eq!(counter(default_pool(), USED), 1);
    drop(block);
    assert_eq!(counter(default_pool(), USED), 0);
    assert_eq!(counter(default_pool(), USED_HIGH), 1);
});

promise!(the_other_process_takes_its_share on CardConfig { other_process: 512 << 20, ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let (free, total) = result::mem_get_info().unwrap();
    assert_eq!(total - free, (64 << 20) + (512 << 20));
    assert!(context.default_stream().alloc_zeros::<u8>(600 << 20).is_err());
});

promise!(an_old_driver_has_no_pools on CardConfig { no_pools: true, ..small() }, {
    let context = CudaContext::new(0).unwrap();
    assert!(!context.has_async_alloc());
    let block = context.default_stream().alloc_zeros::<u8>(3 << 20).unwrap();
    let (free, total) = result::mem_get_info().unwrap();
    assert_eq!(total - free, (64 << 20) + (4 << 20), "plain memory comes in steps of 2 MiB");
    drop(block);
    context.check_err().unwrap();
    assert_eq!(result::mem_get_info().unwrap().0, (1 << 30) - (64 << 20));
    // SAFETY: device 0 is there.
    let pool = unsafe { result::device::get_default_mem_pool(0) };
    assert_eq!(pool.unwrap_err().0, CUDA_ERROR_NOT_SUPPORTED);
});

promise!(attributes_are_set_where_they_can_be on small(), {
    let _context = CudaContext::new(0).unwrap();
    let set = |attribute, mut value: u64| {
        // SAFETY: the pool lives, and the values of these attributes are 64 bits wide.
        unsafe { result::mem_pool::set_attribute(default_pool(), attribute, (&raw mut value).cast()) }
    };
    set(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX).unwrap();
    assert_eq!(counter(default_pool(), sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), u64::MAX);
    set(USED_HIGH, 0).unwrap();
    for (attribute, value) in [(USED_HIGH, 1), (USED, 0), (RESERVED, 0)] {
        assert_eq!(set(attribute, value).unwrap_err().0, CUDA_ERROR_INVALID_VALUE);
    }
});

promise!(a_pool_of_ones_own_counts_for_itself on small(), {
    let _context = CudaContext::new(0).unwrap();
    // SAFETY: all zeros is a value of this plain C struct.
    let mut asked: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
    asked.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    asked.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    asked.maxSize = 64 << 20;
    // SAFETY: the properties are whole; the pool and its block are used while they live.
    unsafe {
        let pool = result::mem_pool::create(&raw const asked).unwrap();
        let block = result::mem_pool::alloc_async(pool, 1000, std::ptr::null_mut()).unwrap();
        assert_eq!(counter(pool, USED), 1000);
        assert_eq!(counter(default_pool(), USED), 0);
        result::device::set_mem_pool(0, pool).unwrap();
        let other = result::malloc_async(std::ptr::null_mut(), 24).unwrap();
        assert_eq!(counter(pool, USED), 1024);
        result::mem_pool::destroy(pool).unwrap();
        assert_eq!(result::device::get_mem_pool(0).unwrap(), default_pool());
        result::free_async(block, std::ptr::null_mut()).unwrap();
        result::free_async(other, std::ptr::null_mut()).unwrap();
    }
});

promise!(a_cache_gives_way_to_whoever_needs_the_memory on small(), {
    let _context = CudaContext::new(0).unwrap();
    let mut threshold = u64::MAX;
    // SAFETY: the pool lives, the value is 64 bits wide, and blocks are used while they live.
    unsafe {
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(default_pool(), attribute, (&raw mut threshold).cast()).unwrap();
        let block = result::malloc_async(std::ptr::null_mut(), 800 << 20).unwrap();
        result::free_async(block, std::ptr::null_mut()).unwrap();
        result::ctx::synchronize().unwrap();
        assert_eq!(counter(default_pool(), RESERVED), 800 << 20);
        let plain = result::malloc_sync(600 << 20).unwrap();
        assert_eq!(counter(default_pool(), RESERVED), 0, "all of it, as the card does");
        result::free_sync(plain).unwrap();
    }
});

promise!(reserved_falls_at_the_waits_that_reach_the_free on small(), {
    let context = CudaContext::new(0).unwrap();
    let (blocking, apart) = (new_stream(0), new_stream(1));
    // The null stream, the thread's own, one that blocks with the null stream and one that does not.
    let streams = [std::ptr::null_mut(), 2 as sys::CUstream, blocking, apart];
    let free_on = |stream| {
        context.synchronize().unwrap();
        // SAFETY: the streams live, and the block is freed where it was made.
        unsafe { result::free_async(result::malloc_async(stream, 32 << 20).unwrap(), stream) }.unwrap();
        assert_eq!(counter(default_pool(), RESERVED), 32 << 20, "pending");
    };
    // Rows: where it was freed. Columns: what was waited for. As measured on an H200.
    let reached = [
        [true, false, false, false],
        [true, true, false, false],
        [true, false, true, false],
        [false, false, false, true],
    ];
    for (&stream, row) in streams.iter().zip(reached) {
        for (&waited, reaches) in streams.iter().zip(row) {
            free_on(stream);
            // SAFETY: the stream lives.
            unsafe { result::stream::synchronize(waited) }.unwrap();
            assert_eq!(counter(default_pool(), RESERVED) == 0, reaches, "freed on {stream:?}, waited for {waited:?}");
        }
        // SAFETY: streams and events live; the last block is freed by the call that follows.
        unsafe {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
            free_on(stream);
            result::event::record(event, stream).unwrap();
            result::event::query(event).unwrap();
            assert_eq!(counter(default_pool(), RESERVED), 32 << 20, "to ask is not to wait");
            result::event::synchronize(event).unwrap();
            assert_eq!(counter(default_pool(), RESERVED), 0);
            let block = result::malloc_async(stream, 32 << 20).unwrap();
            result::event::record(event, stream).unwrap();
            result::free_async(block, stream).unwrap();
            result::event::synchronize(event).unwrap();
            assert_eq!(counter(default_pool(), RESERVED), 32 << 20, "freed after the event");
            context.synchronize().unwrap();
            let block = result::malloc_async(stream, 32 << 20).unwrap();
            result::free_sync(block).unwrap();
            assert_eq!(counter(default_pool(), RESERVED), 0, "cuMemFree frees at once");
        }
    }
    free_on(blocking);
    // SAFETY: the stream is not used again.
    unsafe { result::stream::destroy(blocking) }.unwrap();
    assert_eq!(counter(default_pool(), RESERVED), 0);
});

promise!(what_is_still_pending_stays_reserved on small(), {
    let context = CudaContext::new(0).unwrap();
    let null = std::ptr::null_mut();
    let reserved = || counter(default_pool(), RESERVED) >> 20;
    // SAFETY: every block is freed once, on a living stream.
    unsafe {
        let make = |stream| result::malloc_async(stream, 32 << 20).unwrap();
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
        let (first, second) = (make(null), make(null));
        result::free_async(first, null).unwrap();
        result::event::record(event, null).unwrap();
        result::free_async(second, null).unwrap();
        result::event::synchronize(event).unwrap();
        assert_eq!(reserved(), 64, "an event between two frees lets go of neither");
        context.synchronize().unwrap();

        let (first, second) = (make(null), make(null));
        result::free_async(first, null).unwrap();
        result::free_sync(second).unwrap();
        assert_eq!(reserved(), 32, "cuMemFree lets go of its own block alone");
        let plain = result::malloc_sync(950 << 20);
        assert!(plain.is_err(), "nor does a shortage let go of what is pending");
        assert_eq!(reserved(), 32);

        let mut other = null_mut();
        sys::cuCtxCreate_v4(&raw mut other, null_mut(), 0, 0);
        result::ctx::synchronize().unwrap();
        assert_eq!(reserved(), 32, "another context's wait does not reach it");
        context.bind_to_thread().unwrap();
        context.synchronize().unwrap();
        assert_eq!(reserved(), 0);
        sys::cuCtxSetCurrent(other);
        let stream = new_stream(1);
        result::free_async(make(stream), stream).unwrap();
        assert_eq!(reserved(), 32);
        sys::cuCtxDestroy_v2(other);
        assert_eq!(reserved(), 0, "the end of a context ends its streams");
    }
});

fn new_stream(flags: u32) -> sys::CUstream {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the stream has a place to go to.
    assert_eq!(unsafe { sys::cuStreamCreate(&raw mut stream, flags) }, sys::cudaError_enum::CUDA_SUCCESS);
    stream
}
