//! One call of a function, from its first line to its guard's drop.

use super::section::Section;
use super::thread::{self, Place, ThreadState};
use super::{Site, elapsed, events, is_on};
use crate::probe;
use crate::stats::path::Node;
use crate::stats::series::Level;
use crate::stats::slot::{Call, Ending, Measured};
use std::marker::PhantomData;

/// An open call. Dropping it is the call's end.
#[derive(Debug)]
#[must_use = "dropping it at once ends the call before it began"]
pub struct ScopeCall {
    open: Option<OpenCall>,
    /// A call ends on the thread where it began.
    not_send: PhantomData<*const ()>,
}

#[derive(Debug)]
struct OpenCall {
    site: &'static Site,
    place: Place,
    parent: Option<&'static Node>,
    section: Option<Section>,
    began: u64,
    failed: bool,
    already_panicking: bool,
}

impl Site {
    /// Begins a call.
    #[inline]
    pub fn enter(&'static self) -> ScopeCall {
        let open = if is_on() { thread::with(|thread| OpenCall::begin(self, thread)).flatten() } else { None };
        ScopeCall { open, not_send: PhantomData }
    }
}

impl ScopeCall {
    /// Whether what the function returns says that it failed.
    #[inline]
    pub fn outcome(&mut self, failed: bool) {
        if let Some(open) = &mut self.open {
            open.failed = failed;
        }
    }
}

impl Drop for ScopeCall {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            thread::with(|thread| open.end(thread));
        }
    }
}

impl OpenCall {
    fn begin(site: &'static Site, thread: &ThreadState) -> Option<Self> {
        let sampler = probe::sampler()?;
        let parent = thread.node.get();
        let device = sampler.current_device();
        let place = thread.place(parent, site, device)?;
        let slot = place.slot(thread);
        thread.node.set(Some(slot.node));
        let section = device.and_then(|device| Section::open(thread, sampler, device));
        let began = elapsed();
        slot.enter(section.as_ref().filter(|_| !place.recursive).map(|section| level(section, began)).as_ref());
        let already_panicking = std::thread::panicking();
        Some(Self { site, place, parent, section, began, failed: false, already_panicking })
    }

    fn end(self, thread: &ThreadState) {
        let nanoseconds = elapsed().saturating_sub(self.began);
        let device = self.section.as_ref().map(|section| section.device);
        let measured = self.section.and_then(|section| section.close(thread, probe::sampler()?));
        let ending = if std::thread::panicking() && !self.already_panicking {
            Ending::Panicked
        } else if self.failed {
            Ending::Failed
        } else {
            Ending::Returned
        };
        let call = judged(self.site, ending, measured, nanoseconds, self.place.recursive);
        self.place.slot(thread).leave(&call);
        thread.node.set(self.parent);
        events::call_ended(self.site, device, &call);
    }
}

pub(super) fn level(section: &Section, at: u64) -> Level {
    Level { at, allocated: section.start.allocated, reserved: section.start.reserved }
}

/// A call with its budgets judged.
pub(super) fn judged(
    site: &Site,
    ending: Ending,
    measured: Option<Measured>,
    nanoseconds: u64,
    recursive: bool,
) -> Call {
    let over = |budget: Option<u64>, bytes: Option<i64>| {
        budget.zip(bytes.and_then(|bytes| u64::try_from(bytes).ok())).is_some_and(|(budget, bytes)| bytes > budget)
    };
    // What other threads did meanwhile breaks no budget of this scope.
    let own = measured.filter(|measured| !measured.overlapped);
    Call {
        ending,
        measured,
        nanoseconds,
        over_growth: over(site.meta.growth, own.map(|own| own.net)),
        over_peak: over(site.meta.peak, own.and_then(|own| own.peak)),
        recursive,
    }
}
