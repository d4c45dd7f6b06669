//! The simulated card against the real one: the same program, the same figures.
//!
//! `docs/h200/2026-12-01/detective.json` is the report that the example wrote on an H200. Its scopes' figures must be the
//! simulated card's, every byte of them; only times and what depends on the machine's size may differ.

use oomguard::Report;
use oomguard::report::{Figures, Measured, Spread};
use oomguard_tests::{build, run, text};
use std::path::Path;
use std::process::Command;

/// A spread's bytes, without the mean, which follows from them.
fn bytes(spread: Option<Spread>) -> Option<(i64, i64, i64)> {
    spread.map(|spread| (spread.total, spread.min, spread.max))
}

type Bytes = Option<(i64, i64, i64)>;

fn measured(measured: &Measured) -> (u64, Option<i64>, [Bytes; 4]) {
    let spreads = [measured.net, measured.reserved_net, measured.peak, measured.transient];
    (measured.calls, measured.self_net, spreads.map(bytes))
}

/// All of a scope's figures that hold on any card: counts, bytes, and the levels without their times.
fn comparable(figures: &Figures) -> impl PartialEq + std::fmt::Debug {
    let windows: Vec<_> =
        figures.levels.windows.iter().map(|window| (window.calls, window.allocated, window.reserved)).collect();
    let ends =
        [figures.levels.first, figures.levels.last].map(|level| level.map(|level| (level.allocated, level.reserved)));
    let counts = (figures.calls, figures.open, figures.errors, figures.panics, figures.unknown);
    (counts, measured(&figures.exact), measured(&figures.overlapped), ends, windows)
}

#[test]
fn detectives_figures_are_those_of_the_h200() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/h200/2026-12-01/detective.json");
    let real = Report::from_json(&std::fs::read_to_string(kept).expect("the kept report")).expect("a report");
    let written = std::env::temp_dir().join(format!("oomguard-detective-{}.json", std::process::id()));
    let mut command = Command::new(build(&["--package", "oomguard-examples", "--example", "detective"]));
    let output = run(command.env("OOMGUARD_SIM", "1").env("OOMGUARD_REPORT", &written).env_remove("OOMGUARD"));
    assert!(output.status.success(), "{}", text(&output));
    let simulated = Report::from_json(&std::fs::read_to_string(&written).expect("a report")).expect("a report");
    std::fs::remove_file(&written).expect("removed");

    assert_eq!(simulated.scopes.len(), real.scopes.len());
    for scope in &real.scopes {
        let ours = simulated.scope(&scope.path).unwrap_or_else(|| panic!("no scope {}", scope.path));
        let (real, ours) = (scope.on_device(0).expect("figures"), ours.on_device(0).expect("figures"));
        assert!(
            comparable(real) == comparable(ours),
            "{}:\non the H200      {:?}\non the simulated {:?}",
            scope.path,
            comparable(real),
            comparable(ours)
        );
    }
    let peaks = |report: &Report| (report.devices[0].peak_allocated, report.devices[0].peak_reserved);
    assert_eq!(peaks(&simulated), peaks(&real));
}
