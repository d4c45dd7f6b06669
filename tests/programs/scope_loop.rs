//! The same loop bare, with the pool's counters read, and tracked; for counting instructions.
//!
//! `scope_loop WHAT TIMES`, where WHAT is `nothing`, `reads N` or `scope`.

use cudarc::driver::{CudaContext, sys};
use oomguard::track_gpu_mem;
use std::hint::black_box;

#[inline(never)]
#[track_gpu_mem]
fn tracked(value: u64) -> u64 {
    black_box(value)
}

#[inline(never)]
fn bare(value: u64) -> u64 {
    black_box(value)
}

fn read(pool: sys::CUmemoryPool) -> u64 {
    let mut value = 0_u64;
    let used = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    // SAFETY: the default pool lives as long as its device, and the attribute is a 64-bit integer.
    unsafe { sys::cuMemPoolGetAttribute(pool, used, (&raw mut value).cast()) }.result().expect("the counter");
    value
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let times: u64 = arguments.last().and_then(|times| times.parse().ok()).expect("how often");
    let _context = CudaContext::new(0).expect("a card");
    let mut pool = std::ptr::null_mut();
    // SAFETY: the pointer is to a live handle.
    unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0) }.result().expect("the default pool");
    let mut sum = 0;
    match arguments[0].as_str() {
        "nothing" => (0..times).for_each(|value| sum += bare(value)),
        "scope" => (0..times).for_each(|value| sum += tracked(value)),
        "reads" => {
            let reads: u64 = arguments[1].parse().expect("how many reads");
            (0..times).for_each(|value| sum += bare(value) + (0..reads).map(|_| read(pool)).sum::<u64>());
        }
        other => panic!("no such loop: {other}"),
    }
    black_box(sum);
}
