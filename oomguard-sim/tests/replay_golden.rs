//! The model of the pool is held against every recording of a real one, through the library and through the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use oomguard_sim::trace::{read, replay};

/// Traces in which a block lies elsewhere than on the card: two free blocks of one size, and the card takes the other.
const MISPLACED: [&str; 1] = ["events-5"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/h200")
}

fn recordings() -> Vec<PathBuf> {
    let folders = [golden(), golden().join("2026-12-01")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder of recordings"));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    assert!(files.len() >= 26, "recordings are missing: {files:?}");
    files
}

fn replay_trace(files: &[PathBuf]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay-trace")).args(files).output().expect("replay-trace runs")
}

/// A recording in the temporary folder, gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("oomguard-{}-{name}.jsonl", std::process::id()));
        std::fs::write(&path, text).expect("written");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn every_recording_holds_the_bar() {
    for file in recordings() {
        for trace in read(&file).expect("a recording") {
            let outcome = replay(&trace, None);
            assert!(outcome.passes(trace.is_strict()), "{} of {}: {outcome:?}", trace.header.name, file.display());
        }
    }
}

#[test]
fn every_figure_and_every_offset_is_the_cards() {
    let mut inexact = Vec::new();
    for file in recordings() {
        for trace in read(&file).expect("a recording") {
            let outcome = replay(&trace, None);
            if !outcome.is_exact() {
                inexact.push((trace.header.name, outcome.first_difference));
            }
        }
    }
    let names: Vec<_> = inexact.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, MISPLACED, "{inexact:#?}");
}

#[test]
fn the_command_passes_on_every_recording() {
    let output = replay_trace(&recordings());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("fill-card") && !text.contains("FAIL"), "{text}");
}

#[test]
fn the_command_fails_below_the_bar() {
    let ladder = std::fs::read_to_string(golden().join("ladder.jsonl")).expect("a recording");
    let wrong = Scratch::new("ladder-wrong", &ladder.replacen("\"reserved\":33554432", "\"reserved\":67108864", 1));
    // Without its name the trace would not have to be exact.
    let named = ladder.replacen("{\"op\":\"pool\"", "{\"op\":\"pool\",\"name\":\"ladder\"", 1);
    let named = Scratch::new("named", &named.replacen("\"reserved\":33554432", "\"reserved\":67108864", 1));
    assert_eq!(replay_trace(std::slice::from_ref(&wrong.0)).status.code(), Some(0));
    let output = replay_trace(std::slice::from_ref(&named.0));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("FAIL"));
}

#[test]
fn the_command_says_what_it_cannot_read() {
    let broken = Scratch::new("broken", "{\"op\":\"alloc\"}\n");
    for (file, expected) in
        [(broken.0.clone(), ":1: expected a `pool` line"), (PathBuf::from("no/such"), "cannot be read")]
    {
        let output = replay_trace(&[golden().join("ladder.jsonl"), file]);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.starts_with("replay-trace: ") && error.contains(expected), "{error}");
    }
}
