//! What a scope costs, in instructions: counted under callgrind, the same on every machine and whatever else runs.

use oomguard_sim::launch;
use oomguard_tests::{CardConfig, build, run_on_card, text};
use std::path::Path;
use std::process::Command;

/// Instructions of one turn of a loop: two lengths are run, and their difference has neither start-up nor end in it.
fn instructions_a_turn(program: &Path, what: &[&str], variables: &[(&str, &str)]) -> f64 {
    const FEW: u64 = 1_000;
    const MANY: u64 = 3_000;
    let total = |times: u64| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        command.args(what).arg(times.to_string());
        let output = run_on_card(&mut command, &CardConfig::default(), variables);
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let collected = said.lines().find_map(|line| line.split_once("Collected :")).map(|(_, count)| count.trim());
        collected.and_then(|count| count.parse::<f64>().ok()).unwrap_or_else(|| panic!("no count in {said}"))
    };
    (total(MANY) - total(FEW)) / (MANY - FEW) as f64
}

#[test]
fn a_scope_costs_little_beside_its_counter_reads() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed, and instructions are counted by it");
        return;
    }
    // As users build what they measure.
    let program = build(&["--release", "--package", "oomguard-tests", "--bin", "scope_loop"]);
    // And over a card that is built so: this test's own is not.
    let driver = program.with_file_name("deps").join("liboomguard_sim.so");
    let driver =
        launch::install(&driver).expect("the simulated driver").into_os_string().into_string().expect("a name");
    let instructions_a_turn = |what: &[&str], variables: &[(&str, &str)]| {
        let variables = [&[("LD_LIBRARY_PATH", driver.as_str())], variables].concat();
        instructions_a_turn(&program, what, &variables)
    };
    let nothing = instructions_a_turn(&["nothing"], &[]);
    let off = instructions_a_turn(&["scope"], &[("OOMGUARD", "off")]) - nothing;
    let reads = |count: &str| instructions_a_turn(&["reads", count], &[]) - nothing;
    let sampled =
        |peaks: &str| instructions_a_turn(&["scope"], &[("OOMGUARD", "sampled"), ("OOMGUARD_PEAK", peaks)]) - nothing;
    let (four, six) = (reads("4"), reads("6"));
    let (without_peaks, with_peaks) = (sampled("off"), sampled("on"));
    println!("a scope that is off: {off:.0} instructions");
    println!(
        "4 reads: {four:.0}; a sampled scope without peaks: {without_peaks:.0}, {:.2} times",
        without_peaks / four
    );
    println!("6 reads: {six:.0}; a sampled scope with peaks: {with_peaks:.0}, {:.2} times", with_peaks / six);
    assert!(off <= 20.0, "{off} instructions for a scope that is off");
    // What is ours, beside the driver's: bounded whatever the driver under it costs.
    assert!(without_peaks - four <= 750.0, "{without_peaks} against {four}");
    assert!(with_peaks - six <= 850.0, "{with_peaks} against {six}");
}
