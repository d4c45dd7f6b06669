//! Aggregates of calls, bounded in memory: counts, sums, extremes and the series of levels, per call path and device.
//!
//! Each thread writes figures of its own ([`slot`]) and shares no lock with another; a report reads them from outside
//! and adds them up ([`registry`]). Call paths are known to all threads by one node ([`path`]).

pub(crate) mod path;
pub(crate) mod registry;
pub(crate) mod series;
pub(crate) mod slot;
pub(crate) mod totals;
