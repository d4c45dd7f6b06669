//! The examples do what the README shows, run as a user runs them.

use oomguard_tests::{build, run, text};
use std::process::Command;

/// Runs an example with no card and no help: it finds the simulated card by itself.
fn example(name: &str) -> String {
    let program = build(&["--package", "oomguard-examples", "--example", name]);
    let mut command = Command::new(program);
    for name in ["OOMGUARD", "OOMGUARD_REPORT", "OOMGUARD_TABLE", "OOMGUARD_PEAK", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    let output = run(command.env("OOMGUARD_SIM", "1"));
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

/// The row of a scope in a table.
fn row<'a>(said: &'a str, scope: &str) -> &'a str {
    said.lines().find(|line| line.contains(scope)).unwrap_or_else(|| panic!("no row of {scope} in {said}"))
}

#[test]
fn detectives_three_patients_die_each_of_its_own() {
    let said = example("detective");
    assert_eq!(said.matches("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")").count(), 3, "{said}");
    assert!(row(&said, "cache::Server::request").contains("99 MiB"), "{said}");
    assert!(row(&said, "lengths::Encoder::remember").contains("+56 MiB"), "{said}");
    assert!(row(&said, "model::load").contains("+1.41 GiB"), "{said}");
    for died in ["cache::Server::answer", "lengths::Encoder::search", "model::forward"] {
        let columns: Vec<_> = row(&said, died).split_whitespace().collect();
        assert_eq!(columns[2], "1", "one failed call of {died}: {said}");
    }
}

#[test]
fn leak_shows_its_leak_and_fails_its_assertion() {
    let said = example("leak");
    assert!(said.contains("the assertion failed, as it should"), "{said}");
    assert!(said.contains("leak::Trainer::step: +12 MiB over 6 calls"), "{said}");
    assert!(row(&said, "0 B to 214 MiB").starts_with("Trainer::step"), "{said}");
}

#[test]
fn async_server_counts_every_request() {
    let said = example("async_server");
    for scope in ["handle ", "upload "] {
        let columns: Vec<_> = row(&said, scope).split_whitespace().collect();
        assert_eq!(columns[1], "40", "{said}");
    }
    assert!(!said.contains("figures unknown"), "every worker has a context: {said}");
}

#[test]
fn two_devices_are_kept_apart() {
    let said = example("two_devices");
    assert!(said.contains("\ndevice 0: ") && said.contains("\ndevice 1: "), "{said}");
    let second: Vec<_> = row(&said, "decode, second device").split_whitespace().collect();
    assert_eq!(second[3], "1", "on the second device: {said}");
}
