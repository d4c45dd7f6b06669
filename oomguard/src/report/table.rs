//! The report as a table for people.

use super::{DeviceReport, Figures, Measured, Mode, Report, Spread};
use crate::bytes::{Bytes, Change};
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};
use std::fmt::{self, Write as _};
use std::time::Duration;

const UNKNOWN: &str = "?";
const BOLD: &str = "\x1b[1m";
const YELLOW: &str = "\x1b[33m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// A rendering of a report.
pub(crate) struct Table<'a> {
    pub(crate) report: &'a Report,
    /// A row a call path, indented, in place of a row a scope.
    pub(crate) by_path: bool,
    /// With colours, for a terminal.
    pub(crate) colour: bool,
}

/// What a row is of.
struct Row<'a> {
    /// Callers above it, in a table of call paths.
    depth: usize,
    name: &'a str,
    figures: Option<&'a Figures>,
}

impl Row<'_> {
    fn name(&self, shared: Option<&str>) -> String {
        let within = shared.and_then(|shared| self.name.strip_prefix(shared)?.strip_prefix("::")).unwrap_or(self.name);
        format!("{}{within}", "  ".repeat(self.depth))
    }
}

const COLUMNS: [&str; 10] =
    ["calls", "failed", "net", "self", "net a call", "peak", "transient", "reserved", "level at entry", "time a call"];

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let program = report.program.as_deref().unwrap_or("program");
        let elapsed = Duration::from_nanos(report.elapsed_nanoseconds);
        writeln!(
            f,
            "oomguard {}: {program}, process {}, {} after start",
            report.oomguard_version,
            report.pid,
            time(elapsed.as_nanos() as f64)
        )?;
        match report.mode {
            Mode::Off => writeln!(f, "mode: off, no figures: {}", report.reason)?,
            mode => writeln!(f, "mode: {mode} ({})", report.reason)?,
        }
        for device in &report.devices {
            writeln!(f, "{}", device_line(device))?;
        }
        let rows = if self.by_path { self.rows_by_path() } else { self.rows_by_scope() };
        if !rows.is_empty() {
            writeln!(f)?;
            self.write_rows(f, &rows)?;
        }
        for note in &report.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn rows_by_scope(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for scope in &self.report.scopes {
            if scope.on.is_empty() {
                rows.push(Row { depth: 0, name: &scope.name, figures: None });
            }
            for figures in &scope.on {
                rows.push(Row { depth: 0, name: &scope.name, figures: Some(figures) });
            }
        }
        rows
    }

    fn rows_by_path(&self) -> Vec<Row<'_>> {
        let paths = &self.report.paths;
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); paths.len()];
        let mut pending = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            match path.parent.and_then(|parent| children.get_mut(parent as usize)) {
                Some(siblings) => siblings.push(index),
                None => pending.push((index, 0)),
            }
        }
        pending.reverse();
        let mut rows = Vec::new();
        while let Some((index, depth)) = pending.pop() {
            let Some(path) = paths.get(index) else { continue };
            rows.extend(path.on.iter().map(|figures| Row { depth, name: &path.name, figures: Some(figures) }));
            // A record from a file may hold a loop: no path is deeper than there are paths.
            if depth < paths.len() {
                pending.extend(children[index].iter().rev().map(|child| (*child, depth + 1)));
            }
        }
        rows
    }

    /// The crate that every scope is of, so that its name need not stand in every row.
    fn shared_crate(&self) -> Option<&str> {
        let mut crates = self.report.scopes.iter().map(|scope| scope.path.split_once("::").map(|(name, _)| name));
        let first = crates.next()??;
        // The path of a trait's method begins with its type in angle brackets.
        (!first.starts_with('<') && crates.all(|other| other == Some(first))).then_some(first)
    }

    fn write_rows(&self, f: &mut fmt::Formatter<'_>, rows: &[Row<'_>]) -> fmt::Result {
        let several_devices =
            rows.iter().filter_map(|row| row.figures?.device).any(|device| device > 0) || self.report.devices.len() > 1;
        let shared = self.shared_crate();
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let mut header = vec![shared.map_or_else(|| "scope".to_owned(), |name| format!("scope in {name}"))];
        header.extend(several_devices.then(|| "device".to_owned()));
        header.extend(COLUMNS.map(str::to_owned));
        let width = header.len();
        grid.set_header(header);
        for row in rows {
            grid.add_row(cells(row, shared, several_devices, width));
        }
        for (index, column) in grid.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { CellAlignment::Right });
        }
        for (index, line) in grid.lines().enumerate() {
            let style = match index.checked_sub(1).and_then(|row| rows.get(row)) {
                _ if !self.colour => "",
                None => BOLD,
                Some(Row { figures: None, .. }) => DIM,
                Some(Row { figures: Some(figures), .. }) if kept(figures) => YELLOW,
                Some(_) => "",
            };
            let end = if style.is_empty() { "" } else { PLAIN };
            writeln!(f, "{style}{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Whether the scope's own code kept memory.
fn kept(figures: &Figures) -> bool {
    [&figures.exact, &figures.overlapped].iter().any(|measured| measured.self_net.is_some_and(|net| net > 0))
}

fn device_line(device: &DeviceReport) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string());
    let mut line = format!(
        "device {}: {}, {}; allocated {} (peak {}), reserved {} (peak {})",
        device.ordinal,
        device.name.as_deref().unwrap_or(UNKNOWN),
        size(device.capacity),
        size(device.allocated),
        size(device.peak_allocated),
        size(device.reserved),
        size(device.peak_reserved),
    );
    if let Some(free) = device.free {
        _ = write!(line, ", free {}", Bytes(free));
    }
    if let Some(graphs) = device.graph_reserved.filter(|bytes| *bytes > 0) {
        _ = write!(line, ", CUDA graphs {}", Bytes(graphs));
    }
    line
}

fn cells(row: &Row<'_>, shared: Option<&str>, several_devices: bool, width: usize) -> Vec<String> {
    // A name comes from the program, or from a file: what would break the row or steer the terminal is shown as a mark.
    let mut cells = vec![row.name(shared).replace(char::is_control, "\u{fffd}")];
    let Some(figures) = row.figures else {
        cells.extend(several_devices.then(String::new));
        cells.push("never called".to_owned());
        cells.resize(width, String::new());
        return cells;
    };
    if several_devices {
        cells.push(figures.device.map_or_else(|| UNKNOWN.to_owned(), |device| device.to_string()));
    }
    let apart = [
        (figures.open > 0).then(|| format!("{} open", figures.open)),
        // How many the exact figures beside it leave out.
        (figures.overlapped.calls > 0).then(|| format!("{} ~", figures.overlapped.calls)),
    ];
    let apart: Vec<_> = apart.into_iter().flatten().collect();
    let calls = match apart.as_slice() {
        [] => figures.calls.to_string(),
        apart => format!("{} ({})", figures.calls, apart.join(", ")),
    };
    let failed = figures.errors.unwrap_or(0) + figures.panics + figures.cancelled;
    // Where errors are not seen, none seen is not none.
    let failed = match figures.errors {
        None if failed == 0 => "-".to_owned(),
        _ => failed.to_string(),
    };
    // Exact figures where there are any; the others are marked.
    let (measured, mark) = if figures.exact.calls > 0 { (&figures.exact, "") } else { (&figures.overlapped, "~") };
    let marked = |text: Option<String>| text.map_or_else(|| UNKNOWN.to_owned(), |text| format!("{mark}{text}"));
    cells.extend([
        calls,
        failed,
        marked(measured.net.map(|net| Change(net.total).to_string())),
        marked(measured.self_net.map(|net| Change(net).to_string())),
        marked(measured.net.as_ref().map(each)),
        marked(most(measured, |measured| measured.peak)),
        marked(most(measured, |measured| measured.transient)),
        marked(measured.reserved_net.map(|net| Change(net.total).to_string())),
        level(figures),
        figures.nanoseconds.map_or_else(|| UNKNOWN.to_owned(), |spread| time(spread.mean)),
    ]);
    cells
}

fn most(measured: &Measured, figure: fn(&Measured) -> Option<Spread>) -> Option<String> {
    figure(measured).map(|spread| Bytes(spread.max.max(0).cast_unsigned()).to_string())
}

/// A change a call: the one value that all had, or the least and the most.
fn each(net: &Spread) -> String {
    if net.min == net.max { Change(net.min).to_string() } else { format!("{} to {}", Change(net.min), Change(net.max)) }
}

fn level(figures: &Figures) -> String {
    match (&figures.levels.first, &figures.levels.last) {
        (Some(first), Some(last)) if first.allocated != last.allocated => {
            format!("{} to {}", Bytes(first.allocated), Bytes(last.allocated))
        }
        (Some(level), _) => Bytes(level.allocated).to_string(),
        _ => UNKNOWN.to_owned(),
    }
}

/// Nanoseconds for people.
fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        below if below < 1e3 => return format!("{below:.0} ns"),
        below if below < 1e6 => (below / 1e3, "µs"),
        below if below < 1e9 => (below / 1e6, "ms"),
        above => (above / 1e9, "s"),
    };
    format!("{value:.1} {unit}")
}
