//! Recordings of what a driver's pool did, and the model of the pool held against them.
//!
//! A recording is a file of JSON lines. It holds one trace or several, one after another: each starts at a line whose `op`
//! is `pool`, and every line after it is one operation, in the order made, with the pool's counters just after it.
//! [`parse`] reads them, [`replay`] makes the same calls to a [`Pool`] and counts where it answers as the card did.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::pool::{GRANULE, Mark, Pool, Settings, StreamId};

/// Memory of a card on which nothing is refused, in bytes: more than any has.
const ENOUGH: u64 = 16 << 40;

/// The first line of a trace: the pool it is about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Header {
    /// What the trace is called; where the recording does not say, the file's name without its ending.
    #[serde(default)]
    pub name: String,
    /// Most bytes the pool may reserve; 0: as much as the card has.
    pub max_size: u64,
    /// Bytes the pool keeps across a synchronisation.
    pub release_threshold: u64,
    /// How many streams the trace numbers, from 0.
    pub streams: u64,
    /// Whether stream 0 is the null stream.
    #[serde(default)]
    pub null: bool,
    /// Bytes that the card had free as the pool was made, where the recording says.
    #[serde(default)]
    pub free: Option<u64>,
}

/// The pool's counters just after an operation, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Counters {
    /// Handed out and not yet freed.
    pub used: u64,
    /// Held from the card.
    pub reserved: u64,
    /// The most that `used` has been.
    pub used_high: u64,
    /// The most that `reserved` has been.
    pub reserved_high: u64,
}

/// One operation. Streams and blocks go by the numbers that the recording gave them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Op {
    /// `cuMemAllocFromPoolAsync`.
    Alloc {
        /// The block's number.
        id: u64,
        /// Bytes asked for.
        bytes: u64,
        /// The stream it was asked on.
        stream: u64,
        /// Whether it was served.
        ok: bool,
        /// The block's address less that of the trace's first block, where it was served.
        #[serde(default)]
        offset: Option<i64>,
    },
    /// `cuMemFreeAsync`.
    Free {
        /// The block's number.
        id: u64,
        /// The stream it was freed on.
        stream: u64,
    },
    /// `cuMemFree` of a pool's block.
    FreeSync {
        /// The block's number.
        id: u64,
    },
    /// `cuStreamSynchronize`.
    Sync {
        /// The stream waited for.
        stream: u64,
    },
    /// `cuCtxSynchronize`.
    SyncAll,
    /// `cuStreamQuery`.
    Query {
        /// The stream asked about.
        stream: u64,
        /// What it answered: 0 when all its work was done.
        result: u32,
    },
    /// `cuMemPoolTrimTo`.
    Trim {
        /// Bytes to keep.
        keep: u64,
    },
    /// The release threshold is set.
    Threshold {
        /// The new threshold, in bytes.
        bytes: u64,
    },
    /// Work is queued on the stream that is not done until it is let go.
    Hold {
        /// The stream.
        stream: u64,
    },
    /// That work is done, and no call into the driver was made.
    LetGo {
        /// The stream.
        stream: u64,
    },
    /// `cuEventRecord`.
    EventRecord {
        /// The event.
        event: u64,
        /// The stream it is recorded on.
        stream: u64,
    },
    /// `cuEventSynchronize`.
    EventSync {
        /// The event.
        event: u64,
    },
    /// `cuEventQuery`.
    EventQuery {
        /// The event.
        event: u64,
        /// What it answered: 0 when the event had happened.
        result: u32,
    },
    /// `cuStreamWaitEvent`.
    EventWait {
        /// The event.
        event: u64,
        /// The stream that waits.
        stream: u64,
    },
    /// One of the pool's reuse attributes is set.
    Attribute {
        /// Which.
        name: Attribute,
        /// Its new value.
        value: u64,
    },
}

/// The attributes of a pool that say what memory it may reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// Memory freed before an event that the stream waits for.
    ReuseFollowEventDependencies,
    /// Memory whose free has happened.
    ReuseAllowOpportunistic,
    /// Memory whose free the stream can be made to wait for.
    ReuseAllowInternalDependencies,
}

/// An operation and what the card's counters were after it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// The line's number in its file, from 1.
    #[serde(skip)]
    pub number: usize,
    /// What was done.
    #[serde(flatten)]
    pub op: Op,
    /// What was counted then.
    #[serde(flatten)]
    pub card: Counters,
}

/// One pool's recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The pool.
    pub header: Header,
    /// What was done to it.
    pub lines: Vec<Line>,
}

/// A recording could not be read.
#[derive(Debug)]
pub enum TraceError {
    /// The file could not be opened or read.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what a recording has there.
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        number: usize,
        /// What was expected.
        expected: &'static str,
        /// What was wrong with what was there.
        found: String,
    },
    /// The file has no line in it.
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(out, "{}: cannot be read: {source}", path.display()),
            Self::Line { path, number, expected, found } => {
                write!(out, "{}:{number}: expected {expected}: {found}", path.display())
            }
            Self::Empty { path } => write!(out, "{}: expected a `pool` line: the file has no lines", path.display()),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Line { .. } | Self::Empty { .. } => None,
        }
    }
}

/// Reads the traces of a file.
///
/// # Errors
/// As [`parse`], and when the file cannot be read.
pub fn read(path: &Path) -> Result<Vec<Trace>, TraceError> {
    let text = std::fs::read_to_string(path).map_err(|source| TraceError::File { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Reads the traces of a file's `text`; `path` is for their names and for errors.
///
/// # Errors
/// [`TraceError`] names the line that is not an operation, what was expected there and what was found.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Trace>, TraceError> {
    #[derive(Deserialize)]
    struct Kind {
        op: String,
    }
    let mut traces: Vec<Trace> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |expected, found: String| TraceError::Line { path: path.to_owned(), number, expected, found };
        let kind: Kind = serde_json::from_str(line).map_err(|e| wrong("an operation with its `op`", e.to_string()))?;
        if kind.op == "pool" {
            let mut header: Header = serde_json::from_str(line)
                .map_err(|e| wrong("`max_size`, `release_threshold` and `streams` of a pool", e.to_string()))?;
            if header.name.is_empty() {
                header.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            }
            traces.push(Trace { header, lines: Vec::new() });
            continue;
        }
        let Some(trace) = traces.last_mut() else {
            return Err(wrong("a `pool` line before any other", format!("found `{}`", kind.op)));
        };
        let line: Line = serde_json::from_str(line)
            .map_err(|e| wrong("an operation and the pool's counters after it", e.to_string()))?;
        trace.lines.push(Line { number, ..line });
    }
    if traces.is_empty() { Err(TraceError::Empty { path: path.to_owned() }) } else { Ok(traces) }
}

/// The first operation at which the model and the card part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line's number in its file, from 1.
    pub line: usize,
    /// Which figure it is.
    pub figure: &'static str,
    /// What the card had.
    pub card: u64,
    /// What the model had.
    pub model: u64,
}

/// How the model did on one trace: lines, and on how many it was exact.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Operations.
    pub lines: usize,
    /// Requests.
    pub requests: usize,
    /// Requests served, or refused, as on the card.
    pub ok: usize,
    /// Lines with USED exact.
    pub used: usize,
    /// Lines with RESERVED exact.
    pub reserved: usize,
    /// Lines with both watermarks exact.
    pub watermarks: usize,
    /// Requests whose offset was exact, those refused on both sides among them.
    pub offsets: usize,
    /// The greatest error of RESERVED, in granules.
    pub largest_error: f64,
    /// The mean error of RESERVED over all lines, in granules.
    pub mean_error: f64,
    /// The first figure that differed; offsets count.
    pub first_difference: Option<Difference>,
}

impl Outcome {
    /// Whether every figure of every line is the card's, offsets and watermarks too.
    pub fn is_exact(&self) -> bool {
        self.first_difference.is_none()
    }

    /// Whether the model is as faithful as it claims to be: requests and USED exact at every line; RESERVED exact too where
    /// `strict`, else less than a granule off on average and never more than three.
    pub fn passes(&self, strict: bool) -> bool {
        let reserved =
            if strict { self.reserved == self.lines } else { self.mean_error < 1.0 && self.largest_error <= 3.0 };
        self.ok == self.requests && self.used == self.lines && reserved
    }
}

impl Trace {
    /// Whether RESERVED has to be exact at every line for this trace to pass.
    pub fn is_strict(&self) -> bool {
        ["ladder", "leak", "alternate"].iter().any(|kind| self.header.name.starts_with(kind))
    }

    /// The physical memory that the card could give this pool, in bytes, as far as the trace tells.
    ///
    /// Where the recording says what was free as the pool was made, it is that, in whole granules. Else, where a pool without
    /// a limit was refused a request, it had taken all there was: the highest watermark of the trace. Else it was enough.
    pub fn capacity(&self) -> u64 {
        if let Some(free) = self.header.free {
            return free - free % GRANULE;
        }
        let refused = self.lines.iter().any(|line| matches!(line.op, Op::Alloc { ok: false, .. }));
        if refused && self.header.max_size == 0 {
            self.lines.iter().map(|line| line.card.reserved_high).max().unwrap_or(0)
        } else {
            ENOUGH
        }
    }
}

/// Makes the trace's calls to a pool on a card that can give it `capacity` bytes, or as many as [`Trace::capacity`] finds.
pub fn replay(trace: &Trace, capacity: Option<u64>) -> Outcome {
    let capacity = capacity.unwrap_or_else(|| trace.capacity());
    let settings = Settings { max_size: trace.header.max_size, release_threshold: trace.header.release_threshold };
    let mut player = Player {
        pool: Pool::new(settings),
        null: trace.header.null,
        blocks: BTreeMap::new(),
        events: BTreeMap::new(),
        first: None,
        capacity,
    };
    let mut outcome = Outcome::default();
    let mut error_sum = 0.0;
    for line in &trace.lines {
        let mut note = |figure, card: u64, model: u64| {
            if card != model && outcome.first_difference.is_none() {
                outcome.first_difference = Some(Difference { line: line.number, figure, card, model });
            }
            card == model
        };
        let answer = player.play(&line.op);
        if let Op::Alloc { ok, offset, .. } = line.op {
            let (was_ok, at) = (answer.is_some(), answer.unwrap_or_default());
            let same = note("ok", ok.into(), was_ok.into());
            let placed = same && note("offset", offset.unwrap_or_default().cast_unsigned(), at.cast_unsigned());
            outcome.requests += 1;
            outcome.ok += usize::from(same);
            outcome.offsets += usize::from(placed);
        }
        let (card, pool) = (&line.card, &player.pool);
        let used = note("used", card.used, pool.used());
        let reserved = note("reserved", card.reserved, pool.reserved());
        let highs = note("used_high", card.used_high, pool.used_high())
            & note("reserved_high", card.reserved_high, pool.reserved_high());
        let error = card.reserved.abs_diff(pool.reserved()) as f64 / GRANULE as f64;
        error_sum += error;
        outcome.largest_error = outcome.largest_error.max(error);
        outcome.lines += 1;
        outcome.used += usize::from(used);
        outcome.reserved += usize::from(reserved);
        outcome.watermarks += usize::from(highs);
    }
    outcome.mean_error = if outcome.lines == 0 { 0.0 } else { error_sum / outcome.lines as f64 };
    outcome
}

/// A pool to which a trace's calls are made.
struct Player {
    pool: Pool,
    /// Whether stream 0 is the null stream.
    null: bool,
    blocks: BTreeMap<u64, u64>,
    /// Where each event was last recorded.
    events: BTreeMap<u64, (StreamId, Mark)>,
    /// The offset of the first block, from which the recording counts.
    first: Option<u64>,
    capacity: u64,
}

impl Player {
    fn stream(&self, number: u64) -> StreamId {
        if self.null && number == 0 { StreamId::NULL } else { StreamId(number.saturating_add(1)) }
    }

    /// Makes one call; for a request, where its block begins.
    fn play(&mut self, op: &Op) -> Option<i64> {
        match *op {
            Op::Alloc { id, bytes, stream, .. } => {
                let available = self.capacity.saturating_sub(self.pool.reserved());
                let offset = self.pool.alloc(bytes, self.stream(stream), available).ok()?;
                self.blocks.insert(id, offset);
                let first = *self.first.get_or_insert(offset);
                return Some(offset.cast_signed() - first.cast_signed());
            }
            // A block that the model could not place is not there to be freed: the figures say so from then on.
            Op::Free { id, stream } => {
                let freed = self.blocks.remove(&id).map(|offset| self.pool.free(offset, self.stream(stream)));
                debug_assert!(!matches!(freed, Some(Err(_))));
            }
            Op::FreeSync { id } => {
                let freed = self.blocks.remove(&id).map(|offset| self.pool.free_at_once(offset));
                debug_assert!(!matches!(freed, Some(Err(_))));
            }
            Op::Sync { stream } => self.pool.synchronize(self.stream(stream)),
            Op::SyncAll => self.pool.synchronize_all(),
            Op::Trim { keep } => self.pool.trim_to(keep),
            Op::Threshold { bytes } => self.pool.set_release_threshold(bytes),
            Op::Hold { stream } => self.pool.set_busy(self.stream(stream), true),
            Op::LetGo { stream } => self.pool.set_busy(self.stream(stream), false),
            Op::EventRecord { event, stream } => {
                let mark = self.pool.mark();
                self.events.insert(event, (self.stream(stream), mark));
            }
            Op::EventSync { event } => {
                if let Some(&(stream, mark)) = self.events.get(&event) {
                    self.pool.synchronize_to(stream, mark);
                }
            }
            Op::EventWait { event, stream } => {
                if let Some(&(on, mark)) = self.events.get(&event) {
                    self.pool.wait(self.stream(stream), on, mark);
                }
            }
            Op::Attribute { name, value } => {
                let mut reuse = self.pool.reuse();
                match name {
                    Attribute::ReuseFollowEventDependencies => reuse.follow_events = value != 0,
                    Attribute::ReuseAllowOpportunistic => reuse.opportunistic = value != 0,
                    Attribute::ReuseAllowInternalDependencies => reuse.internal_dependencies = value != 0,
                }
                self.pool.set_reuse(reuse);
            }
            Op::Query { .. } | Op::EventQuery { .. } => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = r#"{"op":"pool","max_size":0,"release_threshold":0,"streams":1}"#;
    const ALLOC: &str = r#"{"op":"alloc","id":0,"bytes":1,"stream":0,"ok":true,"offset":0,"used":1,"reserved":33554432,"used_high":1,"reserved_high":33554432}"#;

    fn parse_lines(lines: &[&str]) -> Result<Vec<Trace>, String> {
        parse(Path::new("some/leak-2m.jsonl"), &lines.join("\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_holds_several_traces_and_names_those_that_have_no_name() {
        let named = POOL.replace("\"streams\"", "\"name\":\"other\",\"streams\"");
        let traces = parse_lines(&[POOL, ALLOC, "", &named, ALLOC, ALLOC]).unwrap();
        let shape: Vec<_> = traces.iter().map(|trace| (trace.header.name.as_str(), trace.lines.len())).collect();
        assert_eq!(shape, [("leak-2m", 1), ("other", 2)]);
        assert_eq!(traces[1].lines[0].number, 5);
        assert!(traces[0].is_strict() && !traces[1].is_strict());
    }

    #[test]
    fn errors_name_the_file_the_line_and_what_was_expected() {
        let error = parse_lines(&[POOL, ALLOC, "{"]).unwrap_err();
        assert!(error.starts_with("some/leak-2m.jsonl:3: expected an operation with its `op`: "), "{error}");
        let error = parse_lines(&[ALLOC]).unwrap_err();
        assert_eq!(error, "some/leak-2m.jsonl:1: expected a `pool` line before any other: found `alloc`");
        let error = parse_lines(&[r#"{"op":"pool","streams":1}"#]).unwrap_err();
        assert!(error.contains("expected `max_size`, `release_threshold` and `streams` of a pool"), "{error}");
        let error = parse_lines(&[]).unwrap_err();
        assert_eq!(error, "some/leak-2m.jsonl: expected a `pool` line: the file has no lines");
    }

    #[test]
    fn an_unknown_operation_is_named() {
        let error = parse_lines(&[POOL, &ALLOC.replace("alloc", "resize")]).unwrap_err();
        assert!(error.contains("`resize`"), "{error}");
        assert!(error.contains(":2:"), "{error}");
    }

    #[test]
    fn missing_counters_are_named() {
        let error = parse_lines(&[POOL, &ALLOC.replace("\"used\":1,", "")]).unwrap_err();
        assert!(error.contains("`used`"), "{error}");
    }

    #[test]
    fn a_replay_says_where_it_first_parts_from_the_card() {
        let wrong = ALLOC.replace("\"reserved\":33554432", "\"reserved\":100663296");
        let traces = parse_lines(&[POOL, ALLOC, &wrong.replace("\"id\":0", "\"id\":1")]).unwrap();
        let outcome = replay(&traces[0], None);
        assert_eq!((outcome.lines, outcome.ok, outcome.used, outcome.reserved), (2, 2, 1, 1));
        assert!((outcome.largest_error - 2.0).abs() < 1e-9 && (outcome.mean_error - 1.0).abs() < 1e-9);
        let expected = Difference { line: 3, figure: "offset", card: 0, model: 512 };
        assert_eq!(outcome.first_difference, Some(expected));
        assert!(!outcome.passes(false));
    }

    #[test]
    fn the_capacity_is_known_where_a_pool_without_limit_was_refused() {
        let refused = ALLOC.replace("\"ok\":true,\"offset\":0", "\"ok\":false,\"error\":2");
        let traces = parse_lines(&[POOL, ALLOC, POOL, ALLOC, &refused]).unwrap();
        assert_eq!(traces[0].capacity(), ENOUGH);
        assert_eq!(traces[1].capacity(), GRANULE);
        let told = POOL.replace("\"streams\"", "\"free\":100000000,\"streams\"");
        assert_eq!(parse_lines(&[&told, ALLOC]).unwrap()[0].capacity(), 2 * GRANULE);
        let outcome = replay(&traces[1], Some(GRANULE - 1));
        assert_eq!(outcome.ok, 1);
    }
}
