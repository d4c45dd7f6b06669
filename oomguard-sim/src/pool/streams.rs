//! What streams have done of their work, and what they are ordered after: who may have memory that was freed on whom.

use std::collections::BTreeMap;

use super::StreamId;

/// A moment in the pool's life: everything queued on a stream until then comes before it. See [`Pool::mark`].
///
/// [`Pool::mark`]: super::Pool::mark
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub(super) u64);

/// After all that was ever queued.
pub(super) const ALL: Mark = Mark(u64::MAX);

/// A stream's place in the order in which the pool looks at streams.
pub(super) type Rank = usize;

/// Work queued on a stream from `at` on waits for another stream's work up to `until`.
#[derive(Debug, Clone, Copy)]
struct Wait {
    at: Mark,
    on: StreamId,
    until: Mark,
}

/// The streams that use a pool.
#[derive(Debug, Default)]
pub(super) struct Streams {
    clock: u64,
    ranks: BTreeMap<StreamId, Rank>,
    ranked: Vec<StreamId>,
    /// Streams with work that is not finished, and up to when theirs is.
    busy: BTreeMap<StreamId, Mark>,
    /// Waits for something that had not happened yet.
    waits: BTreeMap<StreamId, Vec<Wait>>,
    /// Up to when each stream's work is done, of streams where it is not all done: what the two above come to.
    done: BTreeMap<StreamId, Mark>,
    /// Up to when the first stream's queue is ordered after the second's.
    after: BTreeMap<(StreamId, StreamId), Mark>,
}

impl Streams {
    /// A new moment, later than all before.
    pub(super) fn now(&mut self) -> Mark {
        self.clock += 1;
        Mark(self.clock)
    }

    /// The stream's rank. Streams are looked at in the order in which they first used the pool; whichever is first, the
    /// null stream follows it (seen on an H200: traces streams3-*, the last two of them with the null stream).
    pub(super) fn rank(&mut self, stream: StreamId) -> Rank {
        if let Some(&rank) = self.ranks.get(&stream) {
            return rank;
        }
        let rank = self.enlist(stream);
        if rank == 0 && stream != StreamId::NULL {
            self.enlist(StreamId::NULL);
        }
        rank
    }

    fn enlist(&mut self, stream: StreamId) -> Rank {
        self.ranks.insert(stream, self.ranked.len());
        self.ranked.push(stream);
        self.ranked.len() - 1
    }

    pub(super) fn rank_if_known(&self, stream: StreamId) -> Option<Rank> {
        self.ranks.get(&stream).copied()
    }

    /// Up to when the work of the stream of that rank is done.
    pub(super) fn done_of(&self, rank: Rank) -> Mark {
        self.ranked.get(rank).map_or(ALL, |&stream| self.done(stream))
    }

    fn done(&self, stream: StreamId) -> Mark {
        self.done.get(&stream).copied().unwrap_or(ALL)
    }

    /// Finds out what is done: a stream's work as far as it is not busy and what it waited for has happened.
    fn judge(&mut self) {
        self.done.clone_from(&self.busy);
        // Streams can hold each other up in turn, so what one has done is only known once it changes no other.
        let mut changed = !self.waits.is_empty();
        while changed {
            changed = false;
            for (&stream, waits) in &self.waits {
                let held = waits.iter().filter(|wait| self.done(wait.on) < wait.until).map(|wait| wait.at).min();
                if let Some(held) = held.filter(|&held| held < self.done(stream)) {
                    self.done.insert(stream, held);
                    changed = true;
                }
            }
        }
        let done = &self.done;
        self.waits.retain(|_, waits| {
            waits.retain(|wait| done.get(&wait.on).is_some_and(|&mark| mark < wait.until));
            !waits.is_empty()
        });
    }

    /// Up to when the queue of `stream` is ordered after that of the stream of rank `other`, by its waits for events.
    pub(super) fn ordered_after(&self, stream: StreamId, other: Rank) -> Mark {
        let order = self.ranked.get(other).and_then(|&other| self.after.get(&(stream, other)));
        order.copied().unwrap_or(Mark(0))
    }

    pub(super) fn set_busy(&mut self, stream: StreamId, busy: bool) {
        if busy {
            let now = self.now();
            self.busy.entry(stream).or_insert(now);
        } else {
            self.busy.remove(&stream);
        }
        self.judge();
    }

    /// What is queued on `stream` from now on waits for what was queued on `on` until then.
    pub(super) fn wait(&mut self, stream: StreamId, on: StreamId, until: Mark) {
        let order = self.after.entry((stream, on)).or_insert(until);
        *order = until.max(*order);
        let at = self.now();
        if self.done(on) < until {
            self.waits.entry(stream).or_default().push(Wait { at, on, until });
            self.judge();
        }
    }

    /// As [`Streams::wait`], for the stream of rank `on`.
    pub(super) fn wait_for_rank(&mut self, stream: StreamId, on: Rank, until: Mark) {
        if let Some(&on) = self.ranked.get(on) {
            self.wait(stream, on, until);
        }
    }

    /// The host has waited for the work of `stream` up to `until`: it is done, and so is all that it waited for.
    pub(super) fn finish(&mut self, stream: StreamId, until: Mark) {
        let mut over = vec![(stream, until)];
        while let Some((stream, until)) = over.pop() {
            if until == ALL {
                self.busy.remove(&stream);
            } else if let Some(done) = self.busy.get_mut(&stream) {
                *done = until.max(*done);
            }
            if let Some(waits) = self.waits.get_mut(&stream) {
                over.extend(waits.extract_if(.., |wait| wait.at <= until).map(|wait| (wait.on, wait.until)));
            }
        }
        self.judge();
    }

    /// The host has waited for all work.
    pub(super) fn finish_all(&mut self) {
        self.busy.clear();
        self.waits.clear();
        self.done.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId(1);
    const B: StreamId = StreamId(2);

    #[test]
    fn the_null_stream_comes_second_unless_it_is_first() {
        let mut streams = Streams::default();
        assert_eq!([streams.rank(A), streams.rank(B), streams.rank(StreamId::NULL)], [0, 2, 1]);
        let mut streams = Streams::default();
        assert_eq!([streams.rank(StreamId::NULL), streams.rank(B)], [0, 1]);
    }

    #[test]
    fn a_busy_stream_has_done_what_was_queued_before() {
        let mut streams = Streams::default();
        let before = streams.now();
        streams.set_busy(A, true);
        let after = streams.now();
        assert!(before <= streams.done(A) && streams.done(A) < after);
        streams.set_busy(A, false);
        assert!(streams.done(A) >= after);
    }

    #[test]
    fn a_stream_that_waits_for_a_busy_one_is_not_done_either() {
        let mut streams = Streams::default();
        streams.set_busy(A, true);
        let event = streams.now();
        streams.wait(B, A, event);
        let queued = streams.now();
        assert!(streams.done(B) < queued);
        streams.set_busy(A, false);
        assert!(streams.done(B) >= queued);
    }

    #[test]
    fn streams_may_wait_for_each_other_in_turn() {
        let mut streams = Streams::default();
        streams.set_busy(A, true);
        for _ in 0..100 {
            let until = streams.now();
            streams.wait(B, A, until);
            let until = streams.now();
            streams.wait(A, B, until);
        }
        assert!(streams.done(B) < ALL);
        streams.set_busy(A, false);
        assert_eq!((streams.done(A), streams.done(B)), (ALL, ALL));
        assert!(streams.waits.is_empty());
    }

    #[test]
    fn waiting_for_a_stream_is_waiting_for_what_it_waits_for() {
        let mut streams = Streams::default();
        streams.set_busy(A, true);
        let event = streams.now();
        streams.wait(B, A, event);
        streams.finish(B, ALL);
        assert_eq!(streams.done(B), ALL);
        assert!(streams.done(A) >= event && streams.done(A) < ALL);
    }
}
