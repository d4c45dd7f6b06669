//! The table on a terminal has colours, unless `NO_COLOR` asks for none; anywhere else it is plain text.

use oomguard_sim::launch::command_on_card;
use oomguard_tests::{CardConfig, run_on_card, text};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

const ESCAPE: char = '\u{1b}';

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ends"));
    command.arg("return");
    command
}

/// What a program writes to a terminal on its standard error.
fn on_a_terminal(variables: &[(&str, &str)]) -> String {
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both pointers are to live integers, and the others may be null.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "a terminal");
    // SAFETY: the call above opened both, and nobody else owns them.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut command = program();
    command_on_card(&mut command, &CardConfig::default()).expect("the simulated card");
    for name in ["OOMGUARD", "OOMGUARD_REPORT", "OOMGUARD_TABLE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(theirs);
    let mut child = command.spawn().expect("the program");
    // The command holds the terminal's other end, without whose closing there is no end to read to.
    drop(command);
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    let mut terminal = File::from(ours);
    // A terminal whose other end is closed answers an error.
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        said.extend_from_slice(&buffer[..read]);
    }
    assert!(child.wait().expect("its end").success());
    String::from_utf8(said).expect("text")
}

#[test]
fn on_a_terminal_it_has_colours() {
    let said = on_a_terminal(&[]);
    assert!(said.contains("work") && said.contains(ESCAPE), "{said}");
}

#[test]
fn no_color_asks_for_none() {
    let said = on_a_terminal(&[("NO_COLOR", "1")]);
    assert!(said.contains("work") && !said.contains(ESCAPE), "{said}");
    assert!(on_a_terminal(&[("NO_COLOR", "")]).contains(ESCAPE), "empty is as good as absent (no-color.org)");
}

#[test]
fn elsewhere_it_is_plain_text() {
    let said = text(&run_on_card(&mut program(), &CardConfig::default(), &[]));
    assert!(said.contains("work") && !said.contains(ESCAPE), "{said}");
}
