//! What a thread keeps of the tracked calls that it is in, and its way to their slots.

use super::Site;
use crate::probe;
use crate::probe::overlap::Side;
use crate::probe::sampled::{Device, MOST_DEVICES};
use crate::stats::path::{self, Node};
use crate::stats::registry::{self, ThreadSlots};
use crate::stats::slot::Slot;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What an open call keeps for the calls around it, on one device.
#[derive(Debug)]
pub(crate) struct DeviceState {
    /// Tracked calls open on this thread.
    pub(crate) depth: Cell<u32>,
    /// Net bytes of the calls that the innermost open one has made.
    pub(crate) children: Cell<i64>,
    /// The highest watermark seen during the innermost open call, before the watermark's last reset.
    pub(crate) high: Cell<i64>,
    /// Which of the device's words tells that this thread is inside.
    pub(crate) side: Cell<Side>,
}

impl DeviceState {
    const fn new() -> Self {
        Self { depth: Cell::new(0), children: Cell::new(0), high: Cell::new(0), side: Cell::new(Side::Unknown) }
    }
}

/// Where a call counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    slot: *const Slot,
    pub(crate) recursive: bool,
}

impl Place {
    /// The slot, for as long as the thread it belongs to is alive.
    pub(crate) fn slot<'a>(&self, _: &'a ThreadState) -> &'a Slot {
        // SAFETY: the pointer comes from the `ThreadSlots` that the thread's state keeps, which never drops a slot while it
        // lives; a `Place` does not leave the thread that made it, since it is not `Send`.
        unsafe { &*self.slot }
    }
}

/// A thread's state.
pub(crate) struct ThreadState {
    /// The call path that the thread is in.
    pub(crate) node: Cell<Option<&'static Node>>,
    pub(crate) devices: [DeviceState; MOST_DEVICES],
    table: RefCell<Table>,
}

thread_local! {
    static THREAD: ThreadState = const { ThreadState::new() };
}

/// Runs `act` on the thread's state; `None` when the thread is ending and has none any more.
#[inline]
pub(crate) fn with<R>(act: impl FnOnce(&ThreadState) -> R) -> Option<R> {
    THREAD.try_with(act).ok()
}

impl ThreadState {
    const fn new() -> Self {
        Self {
            node: Cell::new(None),
            devices: [const { DeviceState::new() }; MOST_DEVICES],
            table: RefCell::new(Table { slots: None, steps: Vec::new(), used: 0 }),
        }
    }

    /// Where a call of `site` from `parent` counts. Allocates the first time that this thread takes this step, never after.
    #[inline]
    pub(crate) fn place(
        &self,
        parent: Option<&'static Node>,
        site: &'static Site,
        device: Option<Device>,
    ) -> Option<Place> {
        // Borrowed already: an allocator or a lock of the slow path below has called a tracked function.
        let mut table = self.table.try_borrow_mut().ok()?;
        let step = Step { parent: parent.map_or(std::ptr::null(), std::ptr::from_ref), site, device };
        match table.find(&step) {
            Some(place) => Some(place),
            None => Some(table.add(parent, step)),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            registry::leave(&slots);
        }
    }
}

/// From a path, into a scope, on a device.
#[derive(Debug, Clone, Copy)]
struct Step {
    parent: *const Node,
    site: &'static Site,
    device: Option<Device>,
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.parent == other.parent && std::ptr::eq(self.site, other.site) && self.device == other.device
    }
}

impl Step {
    fn hash(&self) -> usize {
        // Fibonacci hashing: the high bits of the product depend on every bit of the addresses.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let device = self.device.map_or(MOST_DEVICES, Device::index);
        let mixed = (self.parent.addr() as u64).rotate_left(32) ^ (std::ptr::from_ref(self.site).addr() as u64);
        let product = (mixed ^ (device as u64) << 56).wrapping_mul(GOLDEN);
        usize::try_from(product >> 32).unwrap_or(0)
    }
}

/// The thread's slots, and the steps that lead to them: open addressing, never more than half full.
struct Table {
    slots: Option<Arc<ThreadSlots>>,
    steps: Vec<Option<(Step, Place)>>,
    used: usize,
}

impl Table {
    #[inline]
    fn find(&self, step: &Step) -> Option<Place> {
        let mask = self.steps.len().checked_sub(1)?;
        let mut at = step.hash() & mask;
        while let Some((known, place)) = &self.steps[at] {
            if known == step {
                return Some(*place);
            }
            at = (at + 1) & mask;
        }
        None
    }

    #[cold]
    fn add(&mut self, parent: Option<&'static Node>, step: Step) -> Place {
        if let (Some(device), Some(sampler)) = (step.device, probe::sampler()) {
            sampler.look_again(device);
        }
        let path::Step { node, recursive } = path::step(parent, step.site);
        let own = node.parent.map_or(std::ptr::null(), std::ptr::from_ref);
        let canonical = Step { parent: own, ..step };
        // A recursive call, or one past the limit of nodes, counts in the slot of another step.
        let shared = if canonical == step { None } else { self.find(&canonical) };
        let slot = shared.map_or_else(
            || self.slots.get_or_insert_with(registry::join).add(node, step.device.map(|device| device.0)),
            |place| place.slot,
        );
        let place = Place { slot, recursive };
        self.insert(step, place);
        place
    }

    fn insert(&mut self, step: Step, place: Place) {
        if self.steps.len() < (self.used + 1) * 2 {
            let larger = (self.steps.len() * 2).max(64);
            let old = std::mem::replace(&mut self.steps, vec![None; larger]);
            for (step, place) in old.into_iter().flatten() {
                self.put(step, place);
            }
        }
        self.put(step, place);
        self.used += 1;
    }

    fn put(&mut self, step: Step, place: Place) {
        let mask = self.steps.len() - 1;
        let mut at = step.hash() & mask;
        while self.steps[at].is_some() {
            at = (at + 1) & mask;
        }
        self.steps[at] = Some((step, place));
    }
}
