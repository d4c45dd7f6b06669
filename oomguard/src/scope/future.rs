//! A tracked future: entered and left at each poll, one call from its first poll to its end.

use super::call::{judged, level};
use super::section::Section;
use super::thread::{self, ThreadState};
use super::{Site, clock, events, gate};
use crate::probe::sampled::{Device, Sampler};
use crate::stats::path::Node;
use crate::stats::slot::{Ending, Measured};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The future of a tracked `async fn`. Its call counts from the first poll; dropped before its end it is cancelled.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Tracked<F, J> {
        // None once it has ended: what the future holds is freed within the call.
        #[pin]
        inner: Option<F>,
        call: TaskCall,
        failed: J,
    }

    impl<F, J> PinnedDrop for Tracked<F, J> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.call.is_open() {
                let poll = this.call.enter();
                this.inner.set(None);
                this.call.leave(poll, Some(Ending::Cancelled));
            }
        }
    }
}

impl<F: Future, J: Fn(&F::Output) -> bool> Tracked<F, J> {
    /// Tracks `inner` as a call of `site`; `failed` tells whether its output is an error.
    pub fn new(site: &'static Site, inner: F, failed: J) -> Self {
        Self { inner: Some(inner), call: TaskCall { site, state: State::Waiting }, failed }
    }
}

impl<F: Future, J: Fn(&F::Output) -> bool> Future for Tracked<F, J> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let poll = this.call.enter();
        // A panic leaves through here: the guard ends the call as one that panicked.
        let mut guard = PollGuard { call: this.call, poll, ending: None, finished: false };
        let output = match this.inner.as_mut().as_pin_mut() {
            Some(inner) => inner.poll(context),
            // Polled after its end, which a future may answer with a panic; this one never ends again.
            None => Poll::Pending,
        };
        if let Poll::Ready(output) = &output {
            guard.ending = Some(if (this.failed)(output) { Ending::Failed } else { Ending::Returned });
            this.inner.set(None);
        }
        guard.finished = true;
        drop(guard);
        output
    }
}

struct PollGuard<'a> {
    call: &'a mut TaskCall,
    poll: Option<OpenPoll>,
    ending: Option<Ending>,
    finished: bool,
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        let ending = if self.finished { self.ending } else { Some(Ending::Panicked) };
        self.call.leave(self.poll.take(), ending);
    }
}

/// A call that moves with its future.
#[derive(Debug)]
struct TaskCall {
    site: &'static Site,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not polled yet.
    Waiting,
    Open(Progress),
    /// Ended, or not tracked.
    Done,
}

/// What the polls so far add up to.
#[derive(Debug)]
struct Progress {
    /// The path that the first poll was made from.
    parent: Option<&'static Node>,
    device: Option<Device>,
    began: u64,
    /// None once a poll's figures were unknown.
    sum: Option<Measured>,
    recursive: bool,
}

/// One poll that is under way.
#[derive(Debug)]
struct OpenPoll {
    sampler: &'static Sampler,
    outer: Option<&'static Node>,
    section: Option<Section>,
}

impl TaskCall {
    fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    fn enter(&mut self) -> Option<OpenPoll> {
        if matches!(self.state, State::Done) {
            return None;
        }
        let sampler = gate::sampler()?;
        thread::with(|thread| self.enter_on(thread, sampler)).flatten()
    }

    fn enter_on(&mut self, thread: &ThreadState, sampler: &'static Sampler) -> Option<OpenPoll> {
        let outer = thread.node.get();
        let device = sampler.current_device();
        let (parent, slot_device) = match &self.state {
            State::Open(progress) => (progress.parent, progress.device),
            _ => (outer, device),
        };
        let place = thread.place(parent, self.site, slot_device)?;
        let slot = place.slot(thread);
        thread.node.set(Some(slot.node));
        let section = device.and_then(|device| Section::open(thread, sampler, device));
        if let State::Waiting = self.state {
            let began = clock::ticks();
            slot.enter(section.as_ref().filter(|_| !place.recursive).map(|section| level(section, began)).as_ref());
            let nothing = Measured { net: 0, self_net: 0, reserved_net: 0, peak: Some(0), overlapped: false };
            let sum = section.as_ref().map(|_| nothing);
            self.state = State::Open(Progress { parent, device, began, sum, recursive: place.recursive });
        }
        Some(OpenPoll { sampler, outer, section })
    }

    fn leave(&mut self, poll: Option<OpenPoll>, ending: Option<Ending>) {
        let left = thread::with(|thread| self.leave_on(thread, poll, ending));
        if left.is_none() || ending.is_some() {
            self.state = State::Done;
        }
    }

    fn leave_on(&mut self, thread: &ThreadState, poll: Option<OpenPoll>, ending: Option<Ending>) {
        let State::Open(progress) = &mut self.state else { return };
        if let Some(poll) = poll {
            thread.node.set(poll.outer);
            let device = poll.section.as_ref().map(|section| section.device);
            let measured = poll.section.as_ref().and_then(|section| section.close(thread, poll.sampler));
            // A poll on another device, or on a thread with no context, leaves the call's figures unknown.
            progress.sum = progress
                .sum
                .zip(measured)
                .filter(|_| device == progress.device)
                .map(|(sum, measured)| after(&sum, &measured));
        } else {
            progress.sum = None;
        }
        let Some(ending) = ending else { return };
        let ticks = clock::ticks().saturating_sub(progress.began);
        let call = judged(self.site, ending, progress.sum, ticks, progress.recursive);
        // The slot of this thread: the call may have begun on another.
        if let Some(place) = thread.place(progress.parent, self.site, progress.device) {
            place.slot(thread).leave(&call);
        }
        events::call_ended(self.site, progress.device, &call);
    }
}

/// The sum of the polls so far and one more. Between them the call does nothing, whatever others do.
fn after(sum: &Measured, poll: &Measured) -> Measured {
    Measured {
        net: sum.net + poll.net,
        self_net: sum.self_net + poll.self_net,
        reserved_net: sum.reserved_net + poll.reserved_net,
        // A poll's peak stands on what the call held when it began.
        peak: sum.peak.zip(poll.peak).map(|(so_far, peak)| so_far.max(sum.net + peak)),
        overlapped: sum.overlapped || poll.overlapped,
    }
}
