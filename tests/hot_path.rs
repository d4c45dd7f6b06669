//! Entering and leaving a scope allocates nothing once its call path is known.

use cudarc::driver::result;
use oomguard::track_gpu_mem;
use oomguard_tests::{on_card, stream};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[track_gpu_mem]
fn outer(depth: u32) -> Result<u32, ()> {
    inner()?;
    if depth > 0 { outer(depth - 1) } else { Ok(0) }
}

#[track_gpu_mem(growth = 1)]
fn inner() -> Result<(), ()> {
    Ok(())
}

#[test]
fn a_known_call_path_allocates_nothing() {
    on_card!(|| {
        let _stream = stream();
        outer(3).expect("it works");
        let before = ALLOCATIONS.get();
        for _ in 0..10_000 {
            outer(3).expect("it works");
        }
        assert_eq!(ALLOCATIONS.get() - before, 0);
    });
}

#[test]
fn a_broken_budget_without_a_subscriber_allocates_nothing() {
    #[track_gpu_mem(growth = 1)]
    fn over_budget() -> u64 {
        // SAFETY: nothing reads or writes the memory, and the process ends with it.
        unsafe { result::malloc_async(std::ptr::null_mut(), 1 << 10) }.expect("memory")
    }
    on_card!(|| {
        let _stream = stream();
        over_budget();
        let before = ALLOCATIONS.get();
        over_budget();
        // The simulated driver's own book-keeping is of another allocator: it is a library of its own.
        assert_eq!(ALLOCATIONS.get() - before, 0);
        assert_eq!(oomguard_tests::figures("over_budget").over_growth, 2);
    });
}
