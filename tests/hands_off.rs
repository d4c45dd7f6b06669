//! What belongs to the program stays the program's: its contexts, its memory, its watermarks, its pools.

use cudarc::driver::sys;
use oomguard::track_gpu_mem;
use oomguard_tests::{CardConfig, MIB, figures, on_card, stream, tensor};
use std::ptr;

const MEGABYTE: i64 = 1 << 20;

fn default_pool() -> sys::CUmemoryPool {
    let mut pool = ptr::null_mut();
    // SAFETY: the pointer is to a live handle.
    unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0) }.result().expect("the default pool");
    pool
}

fn attribute(pool: sys::CUmemoryPool, attribute: sys::CUmemPool_attribute) -> u64 {
    let mut value = 0_u64;
    // SAFETY: the pool is alive, and the attributes asked for here are 64-bit integers.
    unsafe { sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()) }.result().expect("the attribute");
    value
}

/// A pool of the program's own on the first device.
fn own_pool() -> sys::CUmemoryPool {
    // SAFETY: all-zero properties are the default ones, and an all-zero location is device 0 but for its kind.
    let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut pool = ptr::null_mut();
    // SAFETY: both pointers are to live values.
    unsafe { sys::cuMemPoolCreate(&raw mut pool, &raw mut properties) }.result().expect("a pool");
    pool
}

fn allocate_from(pool: sys::CUmemoryPool, bytes: usize) -> sys::CUdeviceptr {
    let mut pointer = 0;
    // SAFETY: the pool is alive, and the null stream always is.
    unsafe { sys::cuMemAllocFromPoolAsync(&raw mut pointer, bytes, pool, ptr::null_mut()) }.result().expect("memory");
    pointer
}

#[test]
fn no_context_is_made_and_none_is_kept_alive() {
    #[track_gpu_mem]
    fn work() {}
    fn active() -> i32 {
        let (mut flags, mut active) = (0, -1);
        // SAFETY: both pointers are to live integers.
        unsafe { sys::cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active) }.result().expect("the state");
        active
    }
    on_card!(|| {
        let _guard = oomguard::init();
        cudarc::driver::result::init().expect("the driver");
        work();
        drop(oomguard::report());
        assert_eq!(active(), 0, "tracking and reporting make no context");
        {
            let stream = stream();
            drop(tensor(&stream, 1));
            work();
            assert_eq!(active(), 1);
        }
        assert_eq!(active(), 0, "the program dropped its last handle");
        drop(oomguard::report());
        assert_eq!(active(), 0);
    });
}

#[test]
fn with_peaks_off_the_watermark_is_the_programs_own() {
    #[track_gpu_mem]
    fn small() {
        drop(tensor(&stream(), 2));
    }
    on_card!(CardConfig::default(), &[("OOMGUARD_PEAK", "off")], || {
        drop(tensor(&stream(), 40));
        small();
        let high = attribute(default_pool(), sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH);
        assert_eq!(high, 40 << 20);
        let figures = figures("small");
        assert_eq!((figures.exact.calls, figures.exact.peak, figures.exact.transient), (1, None, None));
    });
}

#[test]
fn a_named_pool_is_counted_while_it_is_watched() {
    #[track_gpu_mem]
    fn from_pool(pool: usize) -> sys::CUdeviceptr {
        allocate_from(pool as sys::CUmemoryPool, 2 * MIB)
    }
    on_card!(|| {
        let _stream = stream();
        let pool = own_pool();
        from_pool(pool as usize);
        assert_eq!(figures("from_pool").exact.net.expect("a net").total, 0, "nobody has named it");
        // SAFETY: the pool is never destroyed.
        let watched = unsafe { oomguard::watch_pool(0, pool.cast()) }.expect("watched");
        from_pool(pool as usize);
        let counted = figures("from_pool");
        assert_eq!(counted.exact.net.expect("a net").total, 2 * MEGABYTE);
        assert_eq!(counted.exact.peak.expect("of the first call").max, 0, "two pools' watermarks are no peak");
        let report = oomguard::report();
        assert_eq!(report.devices[0].allocated, Some(4 << 20));
        assert!(report.notes.iter().any(|note| note.contains("peaks are unknown")), "{report}");
        drop(watched);
        from_pool(pool as usize);
        assert_eq!(figures("from_pool").exact.net.expect("a net").total, 2 * MEGABYTE);
    });
}

#[test]
fn a_program_that_fails_on_its_own_gets_its_own_error() {
    #[track_gpu_mem]
    fn too_much() -> Result<cudarc::driver::CudaSlice<u8>, cudarc::driver::DriverError> {
        stream().alloc_zeros(4096 * MIB)
    }
    on_card!(CardConfig::with_capacity(2 << 30), || {
        let _context = stream();
        let error = too_much().expect_err("4 GiB of 2");
        assert_eq!(error.0, sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(figures("too_much").errors, Some(1));
        // No error is parked with the context by us.
        stream().context().check_err().expect("no error of ours");
    });
}
