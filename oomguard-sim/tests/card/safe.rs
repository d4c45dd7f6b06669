//! cudarc's safe API runs unchanged.

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, result};
use oomguard_sim::config::CardConfig;

use crate::{promise, small};

const PTX: &str = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry scale(.param .u64 a) { ret; }";

promise!(cudarc_runs_unchanged on small(), {
    let context = CudaContext::new(0).unwrap();
    assert!(context.name().unwrap().contains("H200"));
    assert_eq!(context.compute_capability().unwrap(), (9, 0));
    assert_eq!(context.total_mem().unwrap(), 1 << 30);
    let (free, total) = result::mem_get_info().unwrap();
    assert_eq!((free, total), ((1 << 30) - (64 << 20), 1 << 30));

    let stream = context.default_stream();
    let zeros = stream.alloc_zeros::<f32>(1000).unwrap();
    assert_eq!(stream.clone_dtoh(&zeros).unwrap(), vec![0.0; 1000]);
    let sent: Vec<u32> = (0..1000).collect();
    let there = stream.clone_htod(&sent).unwrap();
    let again = there.try_clone().unwrap();
    drop(there);
    assert_eq!(stream.clone_dtoh(&again).unwrap(), sent);

    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(PTX)).unwrap();
    let kernel = module.load_function("scale").unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&again);
    // SAFETY: the kernel takes one address, and none is computed with here.
    unsafe { launch.launch(LaunchConfig::for_num_elems(1000)) }.unwrap();

    let other = context.new_stream().unwrap();
    let event = other.record_event(None).unwrap();
    stream.wait(&event).unwrap();
    event.synchronize().unwrap();
    assert!(event.is_complete());
    drop((zeros, again));
    context.synchronize().unwrap();
    context.check_err().unwrap();
});

promise!(two_devices_are_two_cards on CardConfig { devices: 2, ..small() }, {
    assert_eq!(CudaContext::device_count().unwrap(), 2);
    let (first, second) = (CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap());
    let there = first.default_stream().clone_htod(&[1u8, 2, 3]).unwrap();
    let copy = second.default_stream().clone_dtod(&there).unwrap();
    assert_eq!(second.default_stream().clone_dtoh(&copy).unwrap(), [1, 2, 3]);
    assert!(CudaContext::new(2).is_err());
});

promise!(pinned_and_managed_memory_work_too on small(), {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: it is written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u8>(64) }.unwrap();
    pinned.as_mut_slice().unwrap().fill(7);
    let stream = context.default_stream();
    let there = stream.clone_htod(&pinned).unwrap();
    assert_eq!(stream.clone_dtoh(&there).unwrap(), vec![7; 64]);
    // SAFETY: as above.
    let mut managed = unsafe { context.alloc_unified::<u8>(64, true) }.unwrap();
    managed.as_mut_slice().unwrap().fill(9);
    assert_eq!(stream.clone_dtoh(&managed).unwrap(), vec![9; 64]);
});

promise!(errors_have_names_and_words on small(), {
    let context = CudaContext::new(0).unwrap();
    let error = context.default_stream().alloc_zeros::<u8>(2 << 30).unwrap_err();
    assert_eq!(error.to_string(), "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")");
    let error = context.default_stream().begin_capture(
        cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    );
    assert!(error.is_err(), "no graphs here, and no panic");
});
