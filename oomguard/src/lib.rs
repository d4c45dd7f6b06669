//! Tells why a GPU ran out of memory: which function allocated, what stayed, and how high it went.
//!
//! A program dies of `CUDA_ERROR_OUT_OF_MEMORY`, or climbs toward it. Was the request *too big*, is the memory *fragmented*,
//! or does something *leak*? Put [`track_gpu_mem`] on the functions you suspect, run, and read per function what was allocated
//! and reserved before and after. Then keep a fixed leak out with [`assert_no_growth!`].
//!
//! # Set-up
//!
//! ```toml
//! [dependencies]
//! oomguard = "0.1"
//! ```
//!
//! ```no_run
//! use oomguard::track_gpu_mem;
//!
//! # type Batch = (); type Loss = f32; type Result<T> = std::result::Result<T, std::io::Error>;
//! #[track_gpu_mem]
//! fn forward(batch: &Batch) -> Result<Loss> {
//!     // … cudarc, candle, whatever allocates from the device's memory pools …
//! #   Ok(0.0)
//! }
//!
//! fn main() -> Result<()> {
//!     let _oomguard = oomguard::init(); // the report comes when it is dropped
//!     for batch in [(), ()] {
//!         forward(&batch)?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Nothing else changes: not the program's types, not its results, not its errors. On a machine with no device the same
//! program runs, and the report says that it has no figures and why. [`init`] lists the environment variables.
//!
//! # What the figures mean
//!
//! *Allocated* is what was handed out and not yet freed; *reserved* is what the pools hold from the driver. Of a call:
//!
//! | figure | meaning |
//! | --- | --- |
//! | net | allocated at exit less at entry |
//! | self | net less the net of the tracked calls that it made: what the function's own code did |
//! | peak | the most allocated above entry during the call |
//! | transient | peak less what stayed: what the call needed for a while |
//! | reserved | reserved at exit less at entry; with frees pending it says nothing about a leak |
//! | level at entry | allocated bytes when the first and the last call began |
//!
//! A function that returns what it makes nets it at every call, and leaks nothing: its *level at entry* does not rise.
//! An argument that a function owns is freed within its call, and so is what its last expression needed.
//! A recursive call's bytes are in the outermost call's net; its own part is in *self*.
//! A call that ended by a panic, by `?` or by a dropped future has its figures like any other, and is counted as such.
//! An `async fn` is one call from its first poll to its end; what other tasks do between its polls is not counted to it.
//!
//! # What it cannot see
//!
//! This version has one way of seeing, *sampled*: the counters of the device's memory pools, read at the edges of each call.
//! - Those counters are the whole process's. They are exact while one tracked call runs at a time; calls that overlapped a
//!   tracked call of another thread are counted, kept apart, and marked `~`. What an *untracked* thread does falls into
//!   whatever call is open.
//! - Memory of `cuMemAlloc` (cuBLAS's workspaces, burn's pools, libtorch) is in no pool, so in no figure.
//! - A thread with no current CUDA context is on no device: its calls are counted, and their figures unknown.
//! - A pool that the program allocates from by name is seen if it is the device's current pool, or after `watch_pool`.
//!
//! # What it costs
//!
//! A call reads four counters, and two more for its peak, and looks at the clock twice; the repository's `docs/h200` has what
//! that took on a card. Nothing is allocated, locked or formatted on the way. With `OOMGUARD=off` a call costs a load and a
//! branch. Without the default
//! feature `enabled` the attribute leaves the function as it is and this crate pulls in no CUDA crate.
//!
//! Peaks are measured by resetting the pool's own watermark, which a program that reads that watermark itself will notice:
//! `OOMGUARD_PEAK=off` leaves it alone.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod assertion;
mod bytes;
mod config;
mod exit;
mod live;
#[cfg(feature = "enabled")]
mod probe;
pub mod report;
#[cfg(feature = "enabled")]
mod scope;
#[cfg(feature = "enabled")]
mod stats;
#[cfg(feature = "enabled")]
mod watch;

#[cfg(feature = "enabled")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use config::ENVIRONMENT_VERSION;
pub use exit::{Guard, init, report};
pub use report::{ReadReportError, Report, SCHEMA_VERSION};
#[cfg(feature = "enabled")]
pub use watch::{WatchPoolError, WatchedPool, watch_pool};

/// Tracks what each call of a function does to GPU memory.
///
/// It stands on functions and methods with a body, sync or async, generic or not, also in traits. It changes no signature,
/// no result and no error; see the [crate's page](crate) for what the figures mean.
///
/// | argument | meaning |
/// | --- | --- |
/// | `name = "load"` | the scope's name; without it the function's path |
/// | `growth = "64 MiB"` | a budget: a call that nets more is counted, and told to `tracing` at WARN |
/// | `peak = "1 GiB"` | the same for a call's peak |
/// | `crate = gpu_guard` | where this crate is, if `Cargo.toml` renames it |
///
/// Sizes are strings with a binary unit (`KiB`, `MiB`, `GiB`, `TiB`) or integers of bytes.
///
/// Errors are counted where the return type is written as some `…Result`. They are not seen in functions that return
/// `impl Trait` inside one, nor under `#[track_caller]`, where looking would change what the function does.
///
/// ```
/// use oomguard::track_gpu_mem;
///
/// #[track_gpu_mem(name = "tokenise", growth = "1 MiB")]
/// fn tokens(text: &str) -> Result<Vec<&str>, std::io::Error> {
///     Ok(text.split(' ').collect())
/// }
///
/// assert_eq!(tokens("to be").unwrap(), ["to", "be"]);
/// assert!(oomguard::report().scope("tokenise").is_some() || cfg!(not(feature = "enabled")));
/// ```
pub use oomguard_macros::track_gpu_mem;

/// Runs a closure again and again, and panics with the evidence where GPU memory grew.
///
/// Arguments come before the closure, each optional: `warmup = 3` runs that are not judged, `iterations = 20` runs that are
/// (2 or more), `tolerance = "0 B"` by which the floor may rise. See [`assertion::NoGrowth`] for the judgement, and for what
/// happens with no device.
///
/// ```
/// # fn step() {}
/// oomguard::assert_no_growth!(|| step());
/// oomguard::assert_no_growth!(warmup = 5, iterations = 50, tolerance = "1 MiB", || step());
/// ```
///
/// # Panics
/// The floor rose by more than the tolerance, or the closure panicked.
pub use oomguard_macros::assert_no_growth;
