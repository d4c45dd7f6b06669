//! Events: marks in a stream's work, with the time they were passed.

use std::time::Instant;

use super::error::{Error, Result};
use super::{Caller, Card};

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

#[derive(Debug)]
pub(super) struct Event {
    pub(super) context: u64,
    flags: u32,
    mark: Option<Mark>,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    stream: u64,
    item: u64,
    at: Instant,
}

impl Card {
    /// The event behind a handle. Measured: one that was destroyed is answered as if its context had been.
    fn event(&self, handle: u64) -> Result<&Event> {
        let missing = if self.gave_out(handle) { Error::ContextIsDestroyed } else { Error::InvalidHandle };
        self.events.get(&handle).ok_or(missing)
    }

    pub(crate) fn create_event(&mut self, caller: Caller, flags: u32) -> Result<u64> {
        self.context(caller.context)?;
        if flags > 7 {
            return Err(Error::InvalidValue);
        }
        let handle = self.new_handle();
        self.events.insert(handle, Event { context: caller.context, flags, mark: None });
        Ok(handle)
    }

    pub(crate) fn destroy_event(&mut self, handle: u64) -> Result<()> {
        self.event(handle)?;
        self.events.remove(&handle);
        Ok(())
    }

    pub(crate) fn record_event(&mut self, caller: Caller, handle: u64, stream: u64) -> Result<()> {
        let (stream, item) = self.enqueue(caller, stream)?;
        let context = self.streams[&stream].context;
        let event = self.events.get_mut(&handle).ok_or(Error::InvalidHandle)?;
        if event.context != context {
            return Err(Error::InvalidHandle);
        }
        event.mark = Some(Mark { stream, item, at: Instant::now() });
        Ok(())
    }

    /// Whether the work before the mark is done; an event never recorded counts as done.
    pub(crate) fn event_is_done(&self, handle: u64) -> Result<bool> {
        let event = self.event(handle)?;
        Ok(event.mark.is_none_or(|mark| self.streams.get(&mark.stream).is_none_or(|stream| stream.done >= mark.item)))
    }

    /// The host waits for an event: what was queued before it is done, and what was queued after it need not be.
    pub(crate) fn synchronize_event(&mut self, handle: u64) -> Result<()> {
        let event = self.event(handle)?;
        let Some(mark) = event.mark else { return Ok(()) };
        let Some(stream) = self.streams.get_mut(&mark.stream) else { return Ok(()) };
        stream.done = stream.done.max(mark.item);
        // Measured: a free queued after the mark stays pending, however idle the card.
        if stream.last_free <= mark.item {
            let done = stream.done;
            self.finish_stream(mark.stream);
            if let Some(stream) = self.streams.get_mut(&mark.stream) {
                stream.done = done;
            }
        }
        Ok(())
    }

    /// A stream waits for an event, on the device.
    pub(crate) fn wait_event(&mut self, caller: Caller, stream: u64, handle: u64) -> Result<()> {
        self.enqueue(caller, stream)?;
        self.event(handle).map(|_| ())
    }

    /// Milliseconds from one event to the other.
    pub(crate) fn elapsed(&self, start: u64, end: u64) -> Result<f32> {
        let mark = |handle: u64| {
            let event = self.event(handle)?;
            if event.flags & NO_TIMING != 0 {
                return Err(Error::InvalidHandle);
            }
            event.mark.ok_or(Error::InvalidHandle)
        };
        let (from, to) = (mark(start)?, mark(end)?);
        if !self.event_is_done(start)? || !self.event_is_done(end)? {
            return Err(Error::NotReady);
        }
        let forward = to.at.saturating_duration_since(from.at).as_secs_f32();
        let backward = from.at.saturating_duration_since(to.at).as_secs_f32();
        Ok((forward - backward) * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;
    use crate::config::CardConfig;

    #[test]
    fn events_tell_time_once_both_were_recorded() {
        let (mut card, caller) = card_with_context(small());
        let start = card.create_event(caller, 0).unwrap();
        let end = card.create_event(caller, 0).unwrap();
        let mute = card.create_event(caller, NO_TIMING).unwrap();
        assert_eq!(card.elapsed(start, end), Err(Error::InvalidHandle));
        for event in [start, end, mute] {
            card.record_event(caller, event, 0).unwrap();
        }
        assert!(card.elapsed(start, end).unwrap() >= 0.0);
        assert!(card.elapsed(end, start).unwrap() <= 0.0);
        assert_eq!(card.elapsed(start, mute), Err(Error::InvalidHandle));
        card.destroy_event(start).unwrap();
        assert_eq!(card.event_is_done(start), Err(Error::ContextIsDestroyed));
        assert_eq!(card.event_is_done(0x1234), Err(Error::InvalidHandle));
    }

    #[test]
    fn waiting_for_an_event_finishes_what_came_before_it_only() {
        let (mut card, caller) = card_with_context(CardConfig { hold_streams: true, ..small() });
        let event = card.create_event(caller, 0).unwrap();
        assert_eq!(card.event_is_done(event), Ok(true));
        card.record_event(caller, event, 0).unwrap();
        card.enqueue(caller, 0).unwrap();
        assert_eq!(card.event_is_done(event), Ok(false));
        card.synchronize_event(event).unwrap();
        assert_eq!(card.event_is_done(event), Ok(true));
        assert_eq!(card.stream_is_done(caller, 0), Ok(false));
    }

    #[test]
    fn a_plain_block_freed_in_a_stream_lives_until_that_is_done() {
        let (mut card, caller) = card_with_context(small());
        let before = card.available(0);
        let event = card.create_event(caller, 0).unwrap();
        let block = card.allocate(caller, 2 << 20).unwrap();
        card.record_event(caller, event, 0).unwrap();
        card.free_async(caller, block, 0).unwrap();
        card.synchronize_event(event).unwrap();
        assert!(card.block_at(block).is_some(), "the event came before the free");
        card.record_event(caller, event, 0).unwrap();
        card.synchronize_event(event).unwrap();
        assert!(card.block_at(block).is_none());
        assert_eq!(card.available(0), before);
        assert_eq!(card.free(caller, block), Err(Error::InvalidValue));
    }
}
