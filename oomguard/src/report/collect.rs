//! From the threads' figures and the driver's to a report.

use super::{
    DeviceReport, Figures, Level, LevelWindow, Levels, Measured, Mode, PathReport, Report, SCHEMA_VERSION, ScopeReport,
    Spread, notes,
};
use crate::config::Config;
use crate::probe::sampled::{DeviceRecord, Reading, devices_met};
use crate::probe::{self, driver};
use crate::scope::{self, Pace};
use crate::stats::registry::{self, Key};
use crate::stats::totals::{Sums, Totals};
use crate::stats::{path, series, totals};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether the driver may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The program runs: present levels are read.
    Running,
    /// The process is ending and the driver may be down: only what is on the host already.
    Gone,
}

/// Makes the report of this moment.
pub(crate) fn collect(asking: Driver) -> Report {
    let by_key = registry::totals();
    let (nodes, tree_full) = path::nodes();
    let pace = scope::Pace::now();
    let paths = paths(&nodes, &by_key, pace);
    let scopes = scopes(&nodes, &by_key, pace);
    let records = devices_met();
    let devices: Vec<_> = records.iter().map(|record| device(record, asking)).collect();
    let choice = probe::chosen();
    let mut notes = notes::complaints();
    notes.extend(device_notes(&records));
    notes.extend(call_notes(&scopes));
    let torn: u64 = by_key.values().map(|totals| totals.torn).sum();
    if torn > 0 {
        notes.push(format!("{torn} call paths were so busy that their figures here may be some calls apart"));
    }
    if tree_full {
        notes.push(format!(
            "there are more than {} call paths: the calls on later ones count at their scope, whoever called it",
            path::MOST_NODES
        ));
    }
    Report {
        schema_version: SCHEMA_VERSION,
        oomguard_version: env!("CARGO_PKG_VERSION").to_owned(),
        program: program(),
        pid: std::process::id(),
        unix_milliseconds: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
        elapsed_nanoseconds: scope::elapsed_nanoseconds(),
        mode: choice.map_or(Mode::Off, |choice| choice.mode),
        requested: Config::from_env().mode,
        reason: choice.map_or_else(|| "nothing was tracked yet".to_owned(), |choice| choice.reason.clone()),
        devices,
        scopes,
        paths,
        notes,
    }
}

fn program() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn paths(nodes: &[&'static path::Node], by_key: &HashMap<Key, Totals>, pace: Pace) -> Vec<PathReport> {
    let mut by_node: Vec<Vec<(Option<u8>, &Totals)>> = vec![Vec::new(); nodes.len()];
    for ((node, device), totals) in by_key {
        // A path that was made since the nodes were listed waits for the next report.
        if let Some(on) = by_node.get_mut(*node) {
            on.push((*device, totals));
        }
    }
    let report = |(node, on): (&&path::Node, Vec<(Option<u8>, &Totals)>)| PathReport {
        parent: node.parent.and_then(|parent| u32::try_from(parent.index).ok()),
        name: node.site.name(),
        path: node.site.path(),
        on: in_order(on, node.site, pace),
    };
    nodes.iter().zip(by_node).map(report).collect()
}

fn scopes(nodes: &[&'static path::Node], by_key: &HashMap<Key, Totals>, pace: Pace) -> Vec<ScopeReport> {
    let mut by_site: HashMap<*const scope::Site, Vec<(Option<u8>, Totals)>> = HashMap::new();
    for ((node, device), totals) in by_key {
        let Some(node) = nodes.get(*node) else { continue };
        let on = by_site.entry(std::ptr::from_ref(node.site)).or_default();
        match on.iter_mut().find(|(known, _)| known == device) {
            Some((_, sum)) => sum.merge(totals),
            None => on.push((*device, totals.clone())),
        }
    }
    let mut scopes: Vec<_> = scope::registered()
        .map(|site| {
            let on = by_site.get(&std::ptr::from_ref(site)).into_iter().flatten();
            ScopeReport {
                name: site.name(),
                path: site.path(),
                file: site.meta.file.to_owned(),
                line: site.meta.line,
                on: in_order(on.map(|(device, totals)| (*device, totals)), site, pace),
            }
        })
        .collect();
    scopes.sort_by(|one, other| trouble(other).cmp(&trouble(one)).then_with(|| one.path.cmp(&other.path)));
    scopes
}

/// Figures of calls of `site`, one entry a device, those without one first.
fn in_order<'a>(
    on: impl IntoIterator<Item = (Option<u8>, &'a Totals)>,
    site: &scope::Site,
    pace: Pace,
) -> Vec<Figures> {
    let mut on: Vec<_> =
        on.into_iter().map(|(device, totals)| figures(device, totals, site.meta.sees_outcome, pace)).collect();
    on.sort_by_key(|figures| figures.device);
    on
}

/// How wide a scope's trouble is: what its own code kept, then its peak, then how often it was called.
fn trouble(scope: &ScopeReport) -> (i64, i64, u64) {
    let measured = || scope.on.iter().flat_map(|figures| [&figures.exact, &figures.overlapped]);
    let kept = measured().filter_map(|measured| measured.self_net).fold(0, i64::saturating_add);
    let peak = measured().filter_map(|measured| measured.peak.map(|peak| peak.max)).max();
    (kept.max(0), peak.unwrap_or(0), scope.calls())
}

fn figures(device: Option<u8>, totals: &Totals, sees_outcome: bool, pace: Pace) -> Figures {
    let counts = &totals.counts;
    let timed = counts.left.saturating_sub(counts.recursive);
    Figures {
        device: device.map(u32::from),
        calls: counts.entered,
        open: counts.entered.saturating_sub(counts.left),
        errors: sees_outcome.then_some(counts.errors),
        panics: counts.panics,
        cancelled: counts.cancelled,
        recursive: counts.recursive,
        unknown: counts.unknown,
        over_growth: counts.over_growth,
        over_peak: counts.over_peak,
        exact: measured(&totals.exact),
        overlapped: measured(&totals.overlapped),
        nanoseconds: spread(&in_nanoseconds(&totals.time, pace), timed),
        levels: levels(&totals.levels, pace),
    }
}

fn measured(sums: &Sums) -> Measured {
    Measured {
        calls: sums.calls,
        net: spread(&sums.net, sums.calls),
        self_net: (sums.calls > 0 || sums.self_net != 0).then_some(sums.self_net),
        reserved_net: spread(&sums.reserved_net, sums.calls),
        peak: spread(&sums.peak, sums.peaks),
        transient: spread(&sums.transient, sums.peaks),
    }
}

fn spread(spread: &totals::Spread, count: u64) -> Option<Spread> {
    (count > 0).then(|| Spread {
        total: spread.sum,
        min: spread.min,
        mean: spread.sum as f64 / count as f64,
        max: spread.max,
    })
}

fn in_nanoseconds(ticks: &totals::Spread, pace: Pace) -> totals::Spread {
    let nanoseconds = |ticks: i64| pace.nanoseconds(ticks.max(0).cast_unsigned()).cast_signed();
    totals::Spread { sum: nanoseconds(ticks.sum), min: nanoseconds(ticks.min), max: nanoseconds(ticks.max) }
}

fn levels(series: &series::Series, pace: Pace) -> Levels {
    let level = |level: series::Level| Level {
        nanoseconds: pace.nanoseconds(level.at),
        allocated: level.allocated.cast_unsigned(),
        reserved: level.reserved.cast_unsigned(),
    };
    Levels {
        first: series.first.map(level),
        last: series.last.map(level),
        windows: series
            .windows
            .iter()
            .map(|window| LevelWindow {
                nanoseconds: pace.nanoseconds(window.start),
                calls: window.calls,
                allocated: window.allocated.cast_unsigned(),
                reserved: window.reserved.cast_unsigned(),
            })
            .collect(),
    }
}

fn device(record: &DeviceRecord, asking: Driver) -> DeviceReport {
    let readable = record.facts.unusable.is_none();
    let sampler = probe::sampler().filter(|_| asking == Driver::Running && readable);
    if let Some(sampler) = sampler {
        // Raises the device's peak to the watermark as well.
        sampler.watermark(record.device);
    }
    let now = sampler.and_then(|sampler| sampler.read(record.device));
    // The readings above may have raised the peaks.
    let latest = devices_met().into_iter().find(|latest| latest.device == record.device);
    let peak = latest.as_ref().unwrap_or(record).peak;
    DeviceReport {
        ordinal: u32::from(record.device.0),
        name: record.facts.name.clone(),
        capacity: record.facts.capacity,
        free: sampler.and_then(|sampler| sampler.free_memory(record.device)),
        allocated: now.map(|now| now.allocated.cast_unsigned()),
        reserved: now.map(|now| now.reserved.cast_unsigned()),
        peak_allocated: readable.then(|| peak.allocated.cast_unsigned()),
        peak_reserved: readable.then(|| peak.reserved.cast_unsigned()),
        graph_reserved: sampler
            .and_then(|sampler| sampler.graph_memory(record.device))
            .map(|graph| graph.reserved.cast_unsigned()),
    }
}

fn device_notes(records: &[DeviceRecord]) -> Vec<String> {
    let mut notes = Vec::new();
    for record in records {
        let ordinal = record.device.0;
        if let Some(reason) = &record.facts.unusable {
            notes.push(format!("device {ordinal}: its calls are counted and their figures unknown: {reason}"));
        }
        if let Some(code) = record.failure {
            notes.push(format!(
                "device {ordinal}: reading its pools failed, last with {}: the figures of those calls are unknown",
                driver::describe(code)
            ));
        }
        // The counters were read, and stood at zero all the time: not a measurement of memory, but of another allocator's use.
        if record.facts.unusable.is_none() && record.failure.is_none() && record.peak == Reading::default() {
            notes.push(format!(
                "device {ordinal}: no pool memory was in use at any call; if the program allocates by cuMemAlloc or by an \
                 allocator of its own, sampled mode does not see it"
            ));
        }
        if record.several_pools {
            notes.push(format!(
                "device {ordinal}: several pools are read; their watermarks are of different moments, so peaks are unknown"
            ));
        }
    }
    notes
}

fn call_notes(scopes: &[ScopeReport]) -> Vec<String> {
    let figures = || scopes.iter().flat_map(|scope| &scope.on);
    let mut notes = Vec::new();
    let overlapped: u64 = figures().map(|figures| figures.overlapped.calls).sum();
    if overlapped > 0 {
        notes.push(format!(
            "{overlapped} calls (~) overlapped a tracked call of another thread: figures with ~ hold what the other threads did \
             meanwhile; figures without leave those calls out"
        ));
    }
    let without: u64 = figures().filter(|figures| figures.device.is_none()).map(|figures| figures.calls).sum();
    if without > 0 {
        notes.push(format!(
            "{without} calls began on a thread with no usable CUDA context: they are counted, and their figures unknown"
        ));
    }
    let open: u64 = figures().map(|figures| figures.open).sum();
    if open > 0 {
        notes.push(format!("{open} calls had not ended: their bytes are in no scope's figures yet"));
    }
    notes
}
