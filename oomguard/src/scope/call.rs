//! One call of a function, from its first line to its guard's drop.

use super::section::Section;
use super::thread::{self, Place, ThreadState};
use super::{Site, clock, events, gate};
use crate::probe::sampled::Sampler;
use crate::stats::path::Node;
use crate::stats::series::Level;
use crate::stats::slot::{Call, Ending, Measured};
use std::marker::PhantomData;

/// A call of a tracked function, from [`ScopeCall::enter`] to its drop.
#[derive(Debug)]
#[must_use = "dropping it at once ends the call before it began"]
pub struct ScopeCall {
    site: &'static Site,
    open: Option<OpenCall>,
    /// A call ends on the thread where it began.
    not_send: PhantomData<*const ()>,
}

#[derive(Debug)]
struct OpenCall {
    sampler: &'static Sampler,
    site: &'static Site,
    place: Place,
    parent: Option<&'static Node>,
    section: Option<Section>,
    began: u64,
    failed: bool,
    already_panicking: bool,
}

impl Site {
    /// A call that has not begun. Two steps, because a call that was entered must not move: its copy would cost more than a
    /// scope that is off.
    #[inline]
    pub fn call(&'static self) -> ScopeCall {
        ScopeCall { site: self, open: None, not_send: PhantomData }
    }
}

impl ScopeCall {
    /// Begins the call, once.
    #[inline]
    pub fn enter(&mut self) {
        if !gate::is_off() {
            self.begin();
        }
    }

    /// Whether what the function returns says that it failed.
    #[inline]
    pub fn outcome(&mut self, failed: bool) {
        if let Some(open) = &mut self.open {
            open.failed = failed;
        }
    }

    /// Out of line, so that the tracked function stays small.
    #[inline(never)]
    fn begin(&mut self) {
        if self.open.is_none()
            && let Some(sampler) = gate::sampler()
        {
            thread::with(|thread| OpenCall::begin(&mut self.open, self.site, thread, sampler));
        }
    }

    #[inline(never)]
    fn end(&mut self) {
        // By reference: taking it out would copy it, and the drop is the last to look.
        if let Some(open) = &self.open {
            thread::with(|thread| open.end(thread));
        }
    }
}

impl Drop for ScopeCall {
    #[inline]
    fn drop(&mut self) {
        if self.open.is_some() {
            self.end();
        }
    }
}

impl OpenCall {
    /// Written in place: the call is large, and a copy of it would cost as much as the rest.
    #[inline]
    fn begin(open: &mut Option<Self>, site: &'static Site, thread: &ThreadState, sampler: &'static Sampler) {
        let parent = thread.node.get();
        let device = sampler.current_device();
        let Some(place) = thread.place(parent, site, device) else { return };
        let slot = place.slot(thread);
        thread.node.set(Some(slot.node));
        let section = device.and_then(|device| Section::open(thread, sampler, device));
        let already_panicking = std::thread::panicking();
        let open =
            open.insert(Self { sampler, site, place, parent, section, began: 0, failed: false, already_panicking });
        open.began = clock::ticks();
        let section = open.section.as_ref().filter(|_| !place.recursive);
        slot.enter(section.map(|section| level(section, open.began)).as_ref());
    }

    #[inline]
    fn end(&self, thread: &ThreadState) {
        let ticks = clock::ticks().saturating_sub(self.began);
        let device = self.section.as_ref().map(|section| section.device);
        let measured = self.section.as_ref().and_then(|section| section.close(thread, self.sampler));
        let ending = if std::thread::panicking() && !self.already_panicking {
            Ending::Panicked
        } else if self.failed {
            Ending::Failed
        } else {
            Ending::Returned
        };
        let call = judged(self.site, ending, measured, ticks, self.place.recursive);
        self.place.slot(thread).leave(&call);
        thread.node.set(self.parent);
        events::call_ended(self.site, device, &call);
    }
}

pub(super) fn level(section: &Section, at: u64) -> Level {
    Level { at, allocated: section.start.allocated, reserved: section.start.reserved }
}

/// A call with its budgets judged.
pub(super) fn judged(site: &Site, ending: Ending, measured: Option<Measured>, ticks: u64, recursive: bool) -> Call {
    let over = |budget: Option<u64>, bytes: Option<i64>| {
        budget.zip(bytes.and_then(|bytes| u64::try_from(bytes).ok())).is_some_and(|(budget, bytes)| bytes > budget)
    };
    // What other threads did meanwhile breaks no budget of this scope.
    let own = measured.filter(|measured| !measured.overlapped);
    Call {
        ending,
        measured,
        ticks,
        over_growth: over(site.meta.growth, own.map(|own| own.net)),
        over_peak: over(site.meta.peak, own.and_then(|own| own.peak)),
        recursive,
    }
}
