//! The figures of all threads: those that run, and those that ended.

use super::path::Node;
use super::slot::Slot;
use super::totals::Totals;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which calls a figure is of: the call path's node index and the device.
pub(crate) type Key = (usize, Option<u8>);

/// The slots of one thread, which alone adds to them and writes them.
#[derive(Debug, Default)]
pub(crate) struct ThreadSlots {
    // Boxed one by one: the thread keeps pointers to them while the list grows.
    #[expect(clippy::vec_box, reason = "slots must not move when the list grows")]
    slots: Mutex<Vec<Box<Slot>>>,
}

impl ThreadSlots {
    /// Adds a slot. The pointer is good for as long as `self` is.
    pub(crate) fn add(&self, node: &'static Node, device: Option<u8>) -> *const Slot {
        let slot = Box::new(Slot::new(node, device));
        let pointer = std::ptr::from_ref(&*slot);
        lock(&self.slots).push(slot);
        pointer
    }

    fn add_up(&self, totals: &mut HashMap<Key, Totals>) {
        for slot in &*lock(&self.slots) {
            totals.entry((slot.node.index, slot.device)).or_insert_with(Totals::empty).merge(&slot.read());
        }
    }
}

#[derive(Debug, Default)]
struct Registry {
    running: Vec<Arc<ThreadSlots>>,
    ended: HashMap<Key, Totals>,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here can be left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's own slots, known to reports from now on.
pub(crate) fn join() -> Arc<ThreadSlots> {
    let slots = Arc::new(ThreadSlots::default());
    lock(&REGISTRY).get_or_insert_default().running.push(Arc::clone(&slots));
    slots
}

/// The thread ends: its figures are kept, its memory is not.
pub(crate) fn leave(slots: &Arc<ThreadSlots>) {
    let mut registry = lock(&REGISTRY);
    let registry = registry.get_or_insert_default();
    if let Some(position) = registry.running.iter().position(|running| Arc::ptr_eq(running, slots)) {
        slots.add_up(&mut registry.ended);
        registry.running.swap_remove(position);
    }
}

/// The figures of every call so far, by call path and device.
pub(crate) fn totals() -> HashMap<Key, Totals> {
    let registry = lock(&REGISTRY);
    let Some(registry) = registry.as_ref() else { return HashMap::new() };
    let mut totals = registry.ended.clone();
    for thread in &registry.running {
        thread.add_up(&mut totals);
    }
    totals
}
