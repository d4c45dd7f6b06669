//! Failures on demand, and configurations that make no sense.

use cudarc::driver::{CudaContext, result, sys};
use oomguard_sim::config::CardConfig;
use sys::cudaError_enum::{CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_OUT_OF_MEMORY};

use crate::{promise, small};

promise!(the_nth_allocation_fails_on_demand on CardConfig { fail_nth: vec![2, 4], ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let outcomes: Vec<bool> = (0..5).map(|_| stream.alloc_zeros::<u8>(16).is_ok()).collect();
    assert_eq!(outcomes, [true, false, true, false, true]);
});

promise!(large_requests_fail_on_demand on CardConfig { fail_above: Some(1 << 20), ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    assert!(stream.alloc_zeros::<u8>(1 << 20).is_ok());
    let error = stream.alloc_zeros::<u8>((1 << 20) + 1).unwrap_err();
    assert_eq!(error.0, CUDA_ERROR_OUT_OF_MEMORY);
});

promise!(a_lost_device_answers_every_call_alike on CardConfig { lose_device_after: Some(1), ..small() }, {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let block = stream.alloc_zeros::<u8>(16).unwrap();
    assert_eq!(stream.alloc_zeros::<u8>(16).unwrap_err().0, CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_eq!(result::mem_get_info().unwrap_err().0, CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_eq!(stream.synchronize().unwrap_err().0, CUDA_ERROR_ECC_UNCORRECTABLE);
    drop(block);
});

promise!(a_machine_without_devices_says_so on CardConfig { devices: 0, ..small() }, {
    assert_eq!(CudaContext::new(0).unwrap_err().0, sys::cudaError_enum::CUDA_ERROR_NO_DEVICE);
});

promise!(a_full_card_is_out_of_memory_and_recovers on small(), {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let all = stream.alloc_zeros::<u8>(960 << 20).unwrap();
    assert_eq!(stream.alloc_zeros::<u8>(64 << 20).unwrap_err().0, CUDA_ERROR_OUT_OF_MEMORY);
    drop(all);
    context.synchronize().unwrap();
    assert!(stream.alloc_zeros::<u8>(64 << 20).is_ok());
});
