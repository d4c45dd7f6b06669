//! The report comes however a program ends.

use oomguard_tests::{CardConfig, build, run_on_card, text};
use std::process::{Command, Output};

fn end(how: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ends"));
    run_on_card(command.arg(how), &CardConfig::default(), &[])
}

/// One report, with the work's row; returns it.
fn the_one_report(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(error.matches("oomguard 0.").count(), 1, "{error}");
    let row = error.lines().find(|line| line.starts_with("work "));
    assert!(row.is_some_and(|row| row.contains("+2 MiB")), "{error}");
    error.into_owned()
}

#[test]
fn when_main_returns() {
    let output = end("return");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "returned\n", "the program's own output is its own");
    the_one_report(&output);
}

#[test]
fn when_main_returns_early_by_a_question_mark() {
    let output = end("question mark");
    assert_eq!(output.status.code(), Some(1));
    assert!(the_one_report(&output).contains("Error: \"as asked\""));
}

#[test]
fn when_main_panics() {
    let output = end("panic");
    assert_eq!(output.status.code(), Some(101));
    assert!(the_one_report(&output).contains("as asked"));
}

#[test]
fn when_the_program_calls_exit() {
    let output = end("exit");
    assert_eq!(output.status.code(), Some(7), "the program's own code");
    // The driver may be down by then and is not asked: present levels are unknown, and what the calls saw is not.
    assert!(the_one_report(&output).contains("allocated ? (peak 2 MiB)"), "{}", text(&output));
}

#[test]
fn when_a_tracked_call_calls_exit() {
    let output = end("exit inside");
    assert_eq!(output.status.code(), Some(7));
    let report = the_one_report(&output);
    let row = report.lines().find(|line| line.contains("leave_from_inside")).expect("its row");
    assert!(row.contains("1 (1 open)"), "{row}");
}

#[test]
fn when_another_thread_calls_exit() {
    let output = end("exit on a thread");
    assert_eq!(output.status.code(), Some(7));
    the_one_report(&output);
}

#[test]
fn when_a_program_that_aborts_on_panic_panics() {
    // A profile of its own: panics abort, and only the panic hook runs.
    let program = build(&["--profile", "aborting", "--package", "oomguard-tests", "--bin", "ends"]);
    let output = run_on_card(Command::new(program).arg("panic"), &CardConfig::default(), &[]);
    assert_eq!(output.status.code(), None, "it aborts");
    assert!(the_one_report(&output).contains("as asked"));
}
