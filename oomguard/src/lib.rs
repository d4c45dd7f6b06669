//! Tells why a GPU ran out of memory.
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
pub use oomguard_macros::{assert_no_growth, track_gpu_mem};
pub use report::{ReadReportError, Report, SCHEMA_VERSION};
#[cfg(feature = "enabled")]
pub use watch::{WatchPoolError, WatchedPool, watch_pool};
