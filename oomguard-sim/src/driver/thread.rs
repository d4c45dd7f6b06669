//! Which context is current on the calling thread. No lock and no allocation on the way to the answer.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::card::{Caller, Error, Result};

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Cells of plain numbers have no destructor: they answer even while the thread's other locals are being destroyed.
    static CURRENT: Cell<(u64, i32)> = const { Cell::new((0, 0)) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// The contexts under the current one.
    static BELOW: RefCell<Vec<(u64, i32)>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread, and the context current there.
pub(super) fn caller() -> Caller {
    let thread = THREAD.try_with(|thread| {
        if thread.get() == 0 {
            thread.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        thread.get()
    });
    Caller { context: current(), thread: thread.unwrap_or(0) }
}

/// The current context; 0 is none.
pub(super) fn current() -> u64 {
    CURRENT.try_with(Cell::get).unwrap_or_default().0
}

/// The current context's device.
pub(super) fn current_device() -> Result<i32> {
    match CURRENT.try_with(Cell::get).unwrap_or_default() {
        (0, _) => Err(Error::InvalidContext),
        (_, device) => Ok(device),
    }
}

/// Makes a context of a device current, in place of the one that is.
pub(super) fn set_current(context: u64, device: i32) {
    // Without thread-locals there is nothing left to remember it for.
    let _ = CURRENT.try_with(|current| current.set((context, device)));
}

/// Makes a context current and keeps the one before it.
pub(super) fn push(context: u64, device: i32) {
    let _ = CURRENT.try_with(|current| {
        let before = current.replace((context, device));
        let _ = BELOW.try_with(|below| below.borrow_mut().push(before));
    });
}

/// Takes the current context off; the one before it is current again.
pub(super) fn pop() -> Result<u64> {
    let context = current();
    if context == 0 {
        return Err(Error::InvalidContext);
    }
    let before = BELOW.try_with(|below| below.borrow_mut().pop()).ok().flatten().unwrap_or_default();
    set_current(before.0, before.1);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_stack_up_on_each_thread_by_itself() {
        std::thread::spawn(|| {
            assert_eq!(pop(), Err(Error::InvalidContext));
            set_current(10, 0);
            push(20, 1);
            assert_eq!((current(), current_device()), (20, Ok(1)));
            assert_eq!(std::thread::spawn(current).join().unwrap(), 0);
            assert_eq!(pop(), Ok(20));
            assert_eq!(pop(), Ok(10));
            assert_eq!(current_device(), Err(Error::InvalidContext));
        })
        .join()
        .unwrap();
    }
}
