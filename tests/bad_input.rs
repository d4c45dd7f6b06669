//! What is wrong around a program is named in one message, and the program's own result is what it was.

use oomguard_tests::{CardConfig, run, run_on_card, text};
use std::process::{Command, Output};

const ANSWERS: &str = "Ok(11) Err(\"no question\")\n";

/// Runs the program that needs no device, without one.
fn plain(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plain"));
    // No folder has a driver, so that a card of this machine's is not found either.
    command.env("LD_LIBRARY_PATH", "/nonexistent").envs(variables.iter().copied());
    run(&mut command)
}

fn on_card(program: &str, argument: &str, variables: &[(&str, &str)]) -> Output {
    run_on_card(Command::new(program).arg(argument), &CardConfig::default(), variables)
}

/// The program did what it does without us.
fn unharmed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), ANSWERS);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn real_driver_here() -> bool {
    oomguard_sim::launch::real_driver_present()
}

#[test]
fn without_a_driver_there_is_one_note_and_no_more() {
    if real_driver_here() {
        return;
    }
    let said = unharmed(&plain(&[]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("oomguard: no figures: the CUDA driver could not be loaded (libcuda.so.1"), "{said}");
}

#[test]
fn switched_off_it_says_nothing() {
    assert_eq!(unharmed(&plain(&[("OOMGUARD", "off")])), "");
}

#[test]
fn without_a_gpu_under_the_driver_the_calls_are_counted_and_unknown() {
    let program = env!("CARGO_BIN_EXE_plain");
    let output = on_card(program, "", &[]);
    let said = unharmed(&output);
    assert!(said.contains("2 calls began on a thread with no usable CUDA context"), "{said}");
}

#[test]
fn a_driver_with_no_device_leaves_the_programs_own_error_and_unknown_figures() {
    let card = CardConfig { devices: 0, ..CardConfig::default() };
    let output = run_on_card(Command::new(env!("CARGO_BIN_EXE_ends")).arg("return"), &card, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Error: \"DriverError(CUDA_ERROR_NO_DEVICE"), "the program's own error: {said}");
    assert!(said.contains("never called"), "{said}");
}

#[test]
fn traced_mode_is_asked_for_in_vain_and_the_report_says_so() {
    let said = text(&on_card(env!("CARGO_BIN_EXE_ends"), "return", &[("OOMGUARD", "traced")]));
    assert!(said.contains("mode: sampled (traced mode is not in this version)"), "{said}");
}

#[test]
fn an_unknown_value_names_itself_what_was_expected_and_what_happens_now() {
    let said = unharmed(&plain(&[("OOMGUARD", "tracd")]));
    let line = "oomguard: OOMGUARD=\"tracd\" is none of auto, off, sampled, traced; using auto";
    assert_eq!(said.lines().filter(|said| *said == line).count(), 1, "{said}");
}

#[test]
fn a_report_that_cannot_be_written_says_so_and_is_shown() {
    let output = on_card(env!("CARGO_BIN_EXE_plain"), "", &[("OOMGUARD_REPORT", "/nonexistent/report.json")]);
    let said = unharmed(&output);
    assert!(said.contains("could not be written to /nonexistent/report.json: No such file or directory"), "{said}");
    assert!(said.contains("answer "), "the table follows: {said}");

    let folder = std::env::temp_dir();
    let folder = folder.to_str().expect("a folder's name");
    let output = on_card(env!("CARGO_BIN_EXE_plain"), "", &[("OOMGUARD_REPORT", folder)]);
    assert!(unharmed(&output).contains("it is a folder, and a file was expected"));
}

#[test]
fn a_report_goes_where_it_is_asked_for() {
    let folder = std::env::temp_dir().join(format!("oomguard-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["report.json", "report.txt"] {
        let path = folder.join(name);
        let said =
            unharmed(&on_card(env!("CARGO_BIN_EXE_plain"), "", &[("OOMGUARD_REPORT", path.to_str().expect("a name"))]));
        assert_eq!(said, "", "nothing on standard error");
        let written = std::fs::read_to_string(&path).expect("the report");
        assert!(written.contains("answer"), "{written}");
        assert_eq!(oomguard::Report::from_json(&written).is_ok(), name == "report.json");
    }
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 2, "no half file is left");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_old_driver_without_pools_is_a_reason_and_no_panic() {
    let output = on_card(env!("CARGO_BIN_EXE_ends"), "return", &[("OOMGUARD_SIM_NO_POOLS", "1")]);
    let all = text(&output);
    assert!(all.contains("returned"), "cudarc falls back to cuMemAlloc: {all}");
    assert!(all.contains("device 0: its calls are counted and their figures unknown"), "{all}");
    assert!(all.contains("has no memory pools"), "{all}");
}

#[test]
fn a_context_destroyed_inside_a_call_is_no_crash() {
    let output = on_card(env!("CARGO_BIN_EXE_hostile"), "destroyed context", &[]);
    let all = text(&output);
    assert!(output.status.success(), "{all}");
    assert!(all.contains("destroyed 0"), "{all}");
    // As on an H200: the pool is the device's and outlives the context, so that both calls have figures.
    for scope in ["destroy_the_context", "destroyed_again"] {
        let row = all.lines().find(|line| line.contains(scope)).expect("its row");
        assert!(row.contains("0 B") && !row.contains('?'), "{row}");
    }
}

#[test]
fn a_lost_device_leaves_figures_unknown_and_says_so_once() {
    let output = on_card(env!("CARGO_BIN_EXE_hostile"), "lost device", &[("OOMGUARD_SIM_LOSE_DEVICE_AFTER", "3")]);
    let all = text(&output);
    assert!(output.status.success(), "{all}");
    assert!(all.contains("3 then 0") || all.contains("2 then 0"), "the program sees its own errors: {all}");
    assert_eq!(
        all.matches("reading its pools failed").count() + all.matches("no usable CUDA context").count(),
        1,
        "{all}"
    );
}
