//! Streams whose work is held back until the host waits for it.

use std::ffi::c_void;

use cudarc::driver::{CudaContext, result, sys};
use oomguard_sim::config::CardConfig;
use sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as USED;
use sys::cudaError_enum::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS};

use crate::{counter, default_pool, promise, small};

fn query(stream: &cudarc::driver::CudaStream) -> sys::CUresult {
    // SAFETY: the stream is borrowed, so it lives.
    unsafe { sys::cuStreamQuery(stream.cu_stream()) }
}

promise!(held_back_streams_keep_their_frees_pending on CardConfig { hold_streams: true, ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let block = stream.alloc_zeros::<u8>(1 << 20).unwrap();
    drop(block);
    assert_eq!(counter(default_pool(), USED), 0);
    assert_eq!(query(&stream), CUDA_ERROR_NOT_READY);
    let event = stream.record_event(None).unwrap();
    assert!(!event.is_complete());
    event.synchronize().unwrap();
    assert!(event.is_complete());
    assert_eq!(query(&stream), CUDA_SUCCESS);
    drop(stream.alloc_zeros::<u8>(1).unwrap());
    assert_eq!(query(&stream), CUDA_ERROR_NOT_READY);
    context.synchronize().unwrap();
    assert_eq!(query(&stream), CUDA_SUCCESS);
});

promise!(streams_are_idle_where_nobody_holds_them on small(), {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    drop(stream.alloc_zeros::<u8>(1 << 20).unwrap());
    assert_eq!(query(&stream), CUDA_SUCCESS);
});

unsafe extern "C" fn note(order: *mut c_void) {
    // SAFETY: the test passes its own vector, and waits for the stream before it looks at it.
    let order = unsafe { &mut *order.cast::<Vec<usize>>() };
    order.push(order.len());
}

promise!(host_functions_run_in_order on small(), {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let mut order: Vec<usize> = Vec::new();
    for _ in 0..3 {
        // SAFETY: the vector outlives the stream's work, which is waited for below.
        unsafe { result::stream::launch_host_function(stream.cu_stream(), note, (&raw mut order).cast()) }.unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(order, [0, 1, 2]);
});
