//! The report: one record of a program's calls, and its renderings.
//!
//! Every figure is a number of bytes unless its name says otherwise. What is not known is `None` in the record, `null` in
//! JSON and `?` in the table, and a note says why.

#[cfg(feature = "enabled")]
mod collect;
pub(crate) mod notes;
mod table;
mod write;

#[cfg(feature = "enabled")]
pub(crate) use collect::{Driver, collect};
pub(crate) use write::deliver;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the record's form. Raised when a reader of the old one would misread the new one.
pub const SCHEMA_VERSION: u32 = 1;

/// A way of seeing memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// The best way that works here. Only ever asked for, never the way that was taken.
    Auto,
    /// Nothing is tracked.
    Off,
    /// The pools' counters at the entry and exit of each call.
    Sampled,
    /// Every allocation and free, seen on its thread. Not in this version: sampled is taken instead.
    Traced,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Sampled => "sampled",
            Self::Traced => "traced",
        })
    }
}

/// What a program's tracked functions did to GPU memory, up to one moment.
///
/// Printed with `{}` it is a table, a row a scope. See [`Report::by_path`] for rows indented by who called whom, and
/// [`Report::to_json`] for the record itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the version that wrote it.
    pub schema_version: u32,
    /// The version of oomguard that wrote it.
    pub oomguard_version: String,
    /// The program's file name, where the system tells it.
    pub program: Option<String>,
    /// The process's number.
    pub pid: u32,
    /// When the report was made, in milliseconds since 1970.
    pub unix_milliseconds: u64,
    /// Nanoseconds since tracking started.
    pub elapsed_nanoseconds: u64,
    /// The mode that was taken.
    pub mode: Mode,
    /// The mode that was asked for.
    pub requested: Mode,
    /// Why that mode.
    pub reason: String,
    /// The devices on which tracked calls ran.
    pub devices: Vec<DeviceReport>,
    /// Every tracked function, called or not, widest trouble first: by what its own code kept, then by its peak.
    pub scopes: Vec<ScopeReport>,
    /// Every call path, parents before children.
    pub paths: Vec<PathReport>,
    /// What a reader must know to read the figures rightly.
    pub notes: Vec<String>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceReport {
    /// The device's ordinal.
    pub ordinal: u32,
    /// Its name, by the driver.
    pub name: Option<String>,
    /// Its memory in bytes.
    pub capacity: Option<u64>,
    /// Free bytes of it, for every process; known where the reporting thread has a context on it.
    pub free: Option<u64>,
    /// Bytes of its pools that are handed out and not yet freed.
    pub allocated: Option<u64>,
    /// Bytes that its pools hold from the driver.
    pub reserved: Option<u64>,
    /// The most allocated that was seen: by the pool's watermark where it could be read, else at calls' edges.
    pub peak_allocated: Option<u64>,
    /// The most reserved that was seen at calls' edges.
    pub peak_reserved: Option<u64>,
    /// Bytes of CUDA graphs' memory, which is in no pool and in no other figure here.
    pub graph_reserved: Option<u64>,
}

/// One tracked function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScopeReport {
    /// The name given to the attribute, or the path.
    pub name: String,
    /// Crate, modules, type and name of the function.
    pub path: String,
    /// The source file.
    pub file: String,
    /// The line of the attribute.
    pub line: u32,
    /// Its figures, one entry a device; calls that had no context stand apart. Empty: it was never called.
    pub on: Vec<Figures>,
}

/// One call path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathReport {
    /// Its position in [`Report::paths`] is its number; this is its parent's. None: no tracked function called it.
    pub parent: Option<u32>,
    /// The name of its scope.
    pub name: String,
    /// The path of its scope's function, by which [`Report::scopes`] has it.
    pub path: String,
    /// Its figures, one entry a device.
    pub on: Vec<Figures>,
}

/// The calls of a scope, or of a call path, on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figures {
    /// The device's ordinal. None: no context was current, or the device's pools cannot be read.
    pub device: Option<u32>,
    /// Calls begun.
    pub calls: u64,
    /// Calls that had not ended.
    pub open: u64,
    /// Calls that returned an error. None: what this function returns is not looked at.
    pub errors: Option<u64>,
    /// Calls that ended by a panic.
    pub panics: u64,
    /// Futures that were dropped before their end.
    pub cancelled: u64,
    /// Calls enclosed by another call of the same scope: their bytes are in that call's figures.
    pub recursive: u64,
    /// Calls whose figures are unknown.
    pub unknown: u64,
    /// Calls that grew by more than the scope's `growth` budget.
    pub over_growth: u64,
    /// Calls whose peak was above the scope's `peak` budget.
    pub over_peak: u64,
    /// Calls during which no tracked call of another thread was open on the device: exact figures.
    pub exact: Measured,
    /// Calls during which one was: these figures hold what the other threads did meanwhile.
    pub overlapped: Measured,
    /// Nanoseconds a call.
    pub nanoseconds: Option<Spread>,
    /// The level of memory over the calls.
    pub levels: Levels,
}

/// Bytes of some calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// The calls behind the figures: ended, and not recursive.
    pub calls: u64,
    /// Allocated at exit less at entry.
    pub net: Option<Spread>,
    /// The sum of net less that of the tracked calls made meanwhile: what the function's own code did.
    pub self_net: Option<i64>,
    /// Reserved at exit less at entry. With frees pending it says nothing about a leak.
    pub reserved_net: Option<Spread>,
    /// The most allocated above entry.
    pub peak: Option<Spread>,
    /// Peak less what stayed: max(net, 0).
    pub transient: Option<Spread>,
}

/// A figure over calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spread {
    /// The sum. Saturated at the ends of `i64`.
    pub total: i64,
    /// The least.
    pub min: i64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: i64,
}

/// Levels of memory at the entries of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Levels {
    /// At the first call.
    pub first: Option<Level>,
    /// At the last call.
    pub last: Option<Level>,
    /// The floor over the calls: windows of calls in the order of time, the least level of each. At most 32; when there
    /// would be more, pairs are merged.
    pub windows: Vec<LevelWindow>,
}

/// A level at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Level {
    /// Nanoseconds since tracking started.
    pub nanoseconds: u64,
    /// Allocated bytes of the device's pools.
    pub allocated: u64,
    /// Reserved bytes of the device's pools.
    pub reserved: u64,
}

/// Some calls in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelWindow {
    /// When the first of them began, in nanoseconds since tracking started.
    pub nanoseconds: u64,
    /// How many they are.
    pub calls: u64,
    /// The least allocated bytes at the entry of one.
    pub allocated: u64,
    /// The least reserved bytes at the entry of one.
    pub reserved: u64,
}

/// Why a build without the `enabled` feature has no figures.
#[cfg(not(feature = "enabled"))]
pub(crate) const DISABLED: &str = "oomguard was built without its `enabled` feature";

/// The report of a build without the `enabled` feature.
#[cfg(not(feature = "enabled"))]
pub(crate) fn disabled() -> Report {
    Report {
        schema_version: SCHEMA_VERSION,
        oomguard_version: env!("CARGO_PKG_VERSION").to_owned(),
        program: None,
        pid: std::process::id(),
        unix_milliseconds: 0,
        elapsed_nanoseconds: 0,
        mode: Mode::Off,
        requested: Mode::Off,
        reason: DISABLED.to_owned(),
        devices: Vec::new(),
        scopes: Vec::new(),
        paths: Vec::new(),
        notes: Vec::new(),
    }
}

impl Report {
    /// The scope of this name or path, or the only one whose path ends in `::name`.
    ///
    /// ```
    /// let report = oomguard::report();
    /// assert!(report.scope("no_such_function").is_none());
    /// ```
    pub fn scope(&self, name: &str) -> Option<&ScopeReport> {
        let named = self.scopes.iter().find(|scope| scope.name == name || scope.path == name);
        named.or_else(|| {
            let ends_so = |scope: &&ScopeReport| {
                scope.path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"))
            };
            let mut found = self.scopes.iter().filter(ends_so);
            found.next().filter(|_| found.next().is_none())
        })
    }

    /// The record as JSON, with [`SCHEMA_VERSION`] in its first field.
    ///
    /// ```
    /// let json = oomguard::report().to_json();
    /// let again = oomguard::Report::from_json(&json)?;
    /// assert_eq!(again.schema_version, oomguard::SCHEMA_VERSION);
    /// # Ok::<(), oomguard::ReadReportError>(())
    /// ```
    pub fn to_json(&self) -> String {
        // Numbers, strings and lists: nothing here can fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a report that [`Report::to_json`] wrote.
    ///
    /// # Errors
    /// The text is not JSON, is not a report, or is one of a version that this one does not know.
    pub fn from_json(text: &str) -> Result<Self, ReadReportError> {
        /// Read first, so that a newer record is named as such and not as a broken one.
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let Version { schema_version } = serde_json::from_str(text)?;
        if schema_version != SCHEMA_VERSION {
            return Err(ReadReportError::Version { found: schema_version });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The table with its rows indented by call path.
    pub fn by_path(&self) -> impl fmt::Display + '_ {
        table::Table { report: self, by_path: true, colour: false }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::Table { report: self, by_path: false, colour: false }.fmt(f)
    }
}

impl ScopeReport {
    /// Calls begun, on every device.
    pub fn calls(&self) -> u64 {
        self.on.iter().map(|figures| figures.calls).sum()
    }

    /// The scope's figures on one device.
    pub fn on_device(&self, ordinal: u32) -> Option<&Figures> {
        self.on.iter().find(|figures| figures.device == Some(ordinal))
    }
}

/// A report could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadReportError {
    /// Not JSON, or not a report.
    #[error("not an oomguard report: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Written by a version whose records this one does not know.
    #[error("the report has schema version {found}, and this version of oomguard reads {SCHEMA_VERSION}")]
    Version {
        /// The record's version.
        found: u32,
    },
}
