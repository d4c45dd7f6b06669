//! Streams: what was queued on each, and how much of that is done.

use super::Card;
use super::error::{Error, Result};
use crate::pool::StreamId;

/// The handle of the legacy default stream, beside 0.
const LEGACY: u64 = 1;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// The handle of each thread's own default stream.
pub(crate) const PER_THREAD: u64 = 2;

/// Who calls: the context current on the thread (0: none), and the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) context: u64,
    pub(crate) thread: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) context: u64,
    pub(super) flags: u32,
    pub(super) priority: i32,
    /// Items of work queued so far.
    pub(super) queued: u64,
    /// How many of them are done.
    pub(super) done: u64,
    /// The number of the last item that was a free.
    pub(super) last_free: u64,
    /// Plain blocks whose free was queued here: they live until the stream's work is known to be done.
    pub(super) freed_blocks: Vec<u64>,
}

impl Stream {
    pub(super) fn of(context: u64, flags: u32, priority: i32) -> Self {
        Self { context, flags, priority, queued: 0, done: 0, last_free: 0, freed_blocks: Vec::new() }
    }
}

impl Card {
    /// The stream behind a handle as this caller sees it. The default streams belong to the current context; a created
    /// stream knows its own, whatever is current.
    pub(super) fn stream(&mut self, caller: Caller, handle: u64) -> Result<u64> {
        match handle {
            0 | LEGACY => Ok(self.context(caller.context)?.default_stream),
            PER_THREAD => {
                if let Some(&stream) = self.context(caller.context)?.thread_streams.get(&caller.thread) {
                    return Ok(stream);
                }
                let stream = self.new_handle();
                self.streams.insert(stream, Stream::of(caller.context, 0, 0));
                self.context_mut(caller.context)?.thread_streams.insert(caller.thread, stream);
                Ok(stream)
            }
            _ if self.streams.contains_key(&handle) => Ok(handle),
            _ => Err(Error::InvalidHandle),
        }
    }

    /// Queues an item of work; returns the stream and the item's number.
    pub(crate) fn enqueue(&mut self, caller: Caller, handle: u64) -> Result<(u64, u64)> {
        let id = self.stream(caller, handle)?;
        let held_back = self.config.hold_streams;
        let stream = self.streams.get_mut(&id).ok_or(Error::InvalidHandle)?;
        stream.queued += 1;
        if !held_back {
            stream.done = stream.queued;
        }
        Ok((id, stream.queued))
    }

    pub(crate) fn create_stream(&mut self, caller: Caller, flags: u32, priority: i32) -> Result<u64> {
        self.context(caller.context)?;
        if flags > 1 {
            return Err(Error::InvalidValue);
        }
        let handle = self.new_handle();
        // Measured: priorities run from 0 down to -5, and others are brought into that range.
        self.streams.insert(handle, Stream::of(caller.context, flags, priority.clamp(-5, 0)));
        Ok(handle)
    }

    pub(crate) fn destroy_stream(&mut self, handle: u64) -> Result<()> {
        let stream = self.streams.get(&handle).ok_or(Error::InvalidHandle)?;
        let context = self.context(stream.context)?;
        if context.default_stream == handle || context.thread_streams.values().any(|&own| own == handle) {
            return Err(Error::InvalidHandle);
        }
        // Measured: what was freed there goes back at once.
        self.finish_stream(handle);
        self.streams.remove(&handle);
        Ok(())
    }

    /// Whether all that was queued is done.
    pub(crate) fn stream_is_done(&mut self, caller: Caller, handle: u64) -> Result<bool> {
        let id = self.stream(caller, handle)?;
        Ok(self.streams[&id].done == self.streams[&id].queued)
    }

    /// The host waits for a stream. To wait for the legacy default stream is to wait for every stream of the context but
    /// those that were made not to block; to wait for another is to wait for it alone (both measured).
    pub(crate) fn synchronize_stream(&mut self, caller: Caller, handle: u64) -> Result<()> {
        let id = self.stream(caller, handle)?;
        let context = self.streams[&id].context;
        if self.context(context)?.default_stream == id {
            self.finish_streams_of(context, |stream| stream.flags & NON_BLOCKING == 0);
        } else {
            self.finish_stream(id);
        }
        Ok(())
    }

    /// The device comes to the end of a stream's work while the host does not wait for it.
    pub(crate) fn release_stream(&mut self, caller: Caller, handle: u64) -> Result<()> {
        let id = self.stream(caller, handle)?;
        let stream = self.streams.get_mut(&id).ok_or(Error::InvalidHandle)?;
        stream.done = stream.queued;
        Ok(())
    }

    /// The host waits for every stream of a context.
    pub(crate) fn synchronize_context(&mut self, context: u64) -> Result<()> {
        let device = self.context(context)?.device;
        let alone = self.contexts.values().filter(|other| other.alive && other.device == device).count() == 1;
        self.finish_streams_of(context, |_| true);
        if alone {
            // Frees queued on streams that are gone by now are done as well.
            self.synchronize_pools(device, None);
        }
        Ok(())
    }

    pub(super) fn finish_streams_of(&mut self, context: u64, which: impl Fn(&Stream) -> bool) {
        let own = self.streams.iter().filter(|(_, stream)| stream.context == context && which(stream));
        let streams: Vec<u64> = own.map(|(&id, _)| id).collect();
        for id in streams {
            self.finish_stream(id);
        }
    }

    pub(super) fn finish_stream(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.done = stream.queued;
        let context = stream.context;
        for block in std::mem::take(&mut stream.freed_blocks) {
            // It is there, since a free of it by other means takes it off the list.
            let _ = self.free_linear(block);
        }
        if let Some(context) = self.contexts.get(&context) {
            self.synchronize_pools(context.device, Some(StreamId(id)));
        }
    }

    pub(crate) fn stream_context(&mut self, caller: Caller, handle: u64) -> Result<u64> {
        let id = self.stream(caller, handle)?;
        Ok(self.streams[&id].context)
    }

    pub(crate) fn stream_flags(&mut self, caller: Caller, handle: u64) -> Result<u32> {
        let id = self.stream(caller, handle)?;
        Ok(self.streams[&id].flags)
    }

    pub(crate) fn stream_priority(&mut self, caller: Caller, handle: u64) -> Result<i32> {
        let id = self.stream(caller, handle)?;
        Ok(self.streams[&id].priority)
    }

    /// A number for the stream that no other stream has.
    pub(crate) fn stream_number(&mut self, caller: Caller, handle: u64) -> Result<u64> {
        self.stream(caller, handle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;
    use crate::config::CardConfig;

    #[test]
    fn a_default_stream_needs_a_context_and_a_created_one_does_not() {
        let (mut card, caller) = card_with_context(small());
        let created = card.create_stream(caller, 1, -9).unwrap();
        let nobody = Caller { context: 0, thread: 2 };
        for handle in [0, LEGACY, PER_THREAD] {
            assert_eq!(card.synchronize_stream(nobody, handle), Err(Error::InvalidContext));
        }
        assert_eq!(card.synchronize_stream(nobody, created), Ok(()));
        assert_eq!(card.stream_priority(nobody, created), Ok(-5));
        card.destroy_stream(created).unwrap();
        assert_eq!(card.synchronize_stream(nobody, created), Err(Error::InvalidHandle));
    }

    #[test]
    fn each_thread_has_a_default_stream_of_its_own() {
        let (mut card, caller) = card_with_context(small());
        let other = Caller { thread: 2, ..caller };
        assert_ne!(card.stream(caller, PER_THREAD), card.stream(other, PER_THREAD));
        assert_eq!(card.stream(caller, 0), card.stream(other, LEGACY));
        let own = card.stream(caller, PER_THREAD).unwrap();
        assert_eq!(card.destroy_stream(own), Err(Error::InvalidHandle));
    }

    #[test]
    fn waiting_for_the_default_stream_is_waiting_for_those_that_block() {
        let (mut card, caller) = card_with_context(CardConfig { hold_streams: true, ..small() });
        let blocking = card.create_stream(caller, 0, 0).unwrap();
        let apart = card.create_stream(caller, NON_BLOCKING, 0).unwrap();
        let all = [0, PER_THREAD, blocking, apart];
        let mut done_after = |waited: u64| {
            for stream in all {
                card.enqueue(caller, stream).unwrap();
            }
            card.synchronize_stream(caller, waited).unwrap();
            all.map(|stream| card.stream_is_done(caller, stream).unwrap())
        };
        assert_eq!(done_after(apart), [false, false, false, true]);
        assert_eq!(done_after(blocking), [false, false, true, false]);
        assert_eq!(done_after(PER_THREAD), [false, true, false, false]);
        assert_eq!(done_after(0), [true, true, true, false]);
    }

    #[test]
    fn held_back_work_waits_for_the_host() {
        let (mut card, caller) = card_with_context(CardConfig { hold_streams: true, ..small() });
        assert_eq!(card.stream_is_done(caller, 0), Ok(true));
        card.enqueue(caller, 0).unwrap();
        assert_eq!(card.stream_is_done(caller, 0), Ok(false));
        card.synchronize_context(caller.context).unwrap();
        assert_eq!(card.stream_is_done(caller, 0), Ok(true));
        card.enqueue(caller, 0).unwrap();
        card.release_stream(caller, 0).unwrap();
        assert_eq!(card.stream_is_done(caller, 0), Ok(true));
    }
}
