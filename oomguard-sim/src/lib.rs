//! A simulated CUDA driver: cudarc programs run on it unchanged, on a machine with no GPU.
//!
//! The package is two things. As a dynamic library it *is* `libcuda.so.1`: it exports the driver's C symbols over a model of
//! a card whose memory is real (bytes written are there to be read), lazily taken (a card of 140 GiB fits a laptop until it
//! is written to), and counted as an H200 counts it. Kernels are accepted, counted, and compute nothing. As a Rust library
//! it starts programs on that card ([`launch`]) and lets the pool's model be used by itself ([`pool`]).
//!
//! ```no_run
//! use oomguard_sim::{config::CardConfig, launch};
//!
//! let card = CardConfig { devices: 2, ..CardConfig::with_capacity(24 << 30) };
//! let mut program = std::process::Command::new("target/debug/examples/train");
//! launch::command_on_card(&mut program, &card)?;
//! let status = program.status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What can be asked of the card is in [`config`]. It never takes a real driver's place unless it is asked to.
//!
//! # What it is true to
//! Everything that decides where memory goes was measured on an H200 and is kept to: what a call counts, in which steps, what
//! a wait gives back and what it does not, which call needs a context, what each mistake is answered with. Where a real
//! driver crashes the program (a stream used after its end) the card answers with an error. Graphs, arrays, textures, graphics
//! and memory shared between processes are refused as not supported. Work is done as it is queued; with
//! `OOMGUARD_SIM_HOLD_STREAMS` it merely counts as undone until the host waits for it.
//!
//! Two functions that are in no CUDA are exported for tests: `uint64_t oomguardSimLaunchCount(void)`, kernels launched so
//! far, and `CUresult oomguardSimReleaseStream(CUstream)`, which ends a held-back stream's work with nobody waiting for it.
//! `cuGetProcAddress` finds them.
//!
//! # Linking
//! The C symbols are part of the Rust library as well, where nothing refers to them and the linker leaves them out. A program
//! that links `libcuda` at build time (cudarc's `dynamic-linking`) and this crate too would have them found here first: such
//! a program should be started on the card from outside, with `oomguard-sim run`, and not depend on this crate.

mod card;
pub mod config;
mod driver;
pub mod launch;
pub mod pool;
pub mod trace;
