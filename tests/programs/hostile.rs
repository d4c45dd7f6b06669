//! A program whose card goes away under its tracked calls, in the way its argument names.

use cudarc::driver::{CudaContext, result};
use oomguard::track_gpu_mem;

/// Allocates until the driver refuses; how often it did not.
#[track_gpu_mem]
fn allocate_until_refused() -> usize {
    // SAFETY: nothing reads or writes the memory, and the process ends with it.
    (0..8).take_while(|_| unsafe { result::malloc_async(std::ptr::null_mut(), 1 << 20) }.is_ok()).count()
}

#[track_gpu_mem]
fn destroy_the_context() -> &'static str {
    let device = result::device::get(0).expect("a device");
    // SAFETY: no handle of the context is used afterwards.
    unsafe { result::primary_ctx::release(device) }.expect("released");
    "destroyed"
}

fn main() {
    let _oomguard = oomguard::init();
    let context = CudaContext::new(0).expect("a device");
    match std::env::args().nth(1).as_deref() {
        Some("lost device") => println!("{} then {}", allocate_until_refused(), allocate_until_refused()),
        Some("destroyed context") => println!("{} {}", destroy_the_context(), destroyed_again(&context)),
        other => panic!("no such end: {other:?}"),
    }
    // Its drop would release what is gone already.
    std::mem::forget(context);
}

/// A tracked call that begins with the context gone.
#[track_gpu_mem]
fn destroyed_again(context: &CudaContext) -> usize {
    context.ordinal()
}
