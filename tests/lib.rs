//! What the tests share: a test's body in a process of its own, on a simulated card.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use oomguard_sim::launch::command_on_card;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

/// Bytes of a mebibyte.
pub const MIB: usize = 1 << 20;

/// Set in the process that runs a test's body.
const INSIDE: &str = "OOMGUARD_TEST_INSIDE";

/// Runs a test's body in a process of its own on a simulated card: `on_card!(|| { … })`, or with a card or variables first.
///
/// Tracking is a matter of the whole process, so that two tests in one process would count each other's calls.
#[macro_export]
macro_rules! on_card {
    ($body:expr) => {
        $crate::on_card!($crate::CardConfig::default(), &[], $body)
    };
    ($card:expr, $body:expr) => {
        $crate::on_card!($card, &[], $body)
    };
    ($card:expr, $variables:expr, $body:expr) => {{
        fn here() {}
        $crate::run_inside(std::any::type_name_of_val(&here), &$card, $variables, $body);
    }};
}

#[doc(hidden)]
pub use oomguard_sim::config::CardConfig;

/// The work of [`on_card!`]: `here` is the path of an item inside the test.
///
/// # Panics
/// The body failed in its process.
pub fn run_inside(here: &str, card: &CardConfig, variables: &[(&str, &str)], body: impl FnOnce()) {
    let path = here.strip_suffix("::here").unwrap_or(here);
    let test = path.split_once("::").map_or(path, |(_, test)| test);
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == test) {
        body();
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("the test's own program"));
    command.args([test, "--exact", "--nocapture"]).env(INSIDE, test);
    let output = run_on_card(&mut command, card, variables);
    assert!(output.status.success(), "in its own process:\n{}", text(&output));
    assert!(text(&output).contains("1 passed"), "the test ran in its own process:\n{}", text(&output));
}

/// Runs a program on a simulated card, with more variables in its environment.
///
/// # Panics
/// The card's library is not there, or the program cannot be started.
pub fn run_on_card(command: &mut Command, card: &CardConfig, variables: &[(&str, &str)]) -> Output {
    command_on_card(command, card).expect("the simulated card's library");
    // What makes these programs' output theirs: no report of ours but the one asked for.
    for name in ["OOMGUARD", "OOMGUARD_REPORT", "OOMGUARD_TABLE", "OOMGUARD_PEAK", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    run(command.envs(variables.iter().copied()))
}

/// Builds a program of the workspace with more arguments for cargo, a profile's say; where it lies.
///
/// # Panics
/// It does not build.
pub fn build(target: &[&str]) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics"]).args(target);
    let built = run(&mut cargo);
    assert!(built.status.success(), "{}", text(&built));
    let messages = String::from_utf8_lossy(&built.stdout);
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    programs.next_back().unwrap_or_else(|| panic!("no program in {target:?}"))
}

/// Runs a program to its end.
///
/// # Panics
/// It cannot be started.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}

/// Both outputs of a program, one after the other.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The default stream of the first device.
///
/// # Panics
/// There is no device.
pub fn stream() -> Arc<CudaStream> {
    CudaContext::new(0).expect("the simulated card").default_stream()
}

/// A tensor of some mebibytes.
///
/// # Panics
/// It cannot be allocated.
pub fn tensor(stream: &Arc<CudaStream>, mebibytes: usize) -> CudaSlice<u8> {
    stream.alloc_zeros(mebibytes * MIB).expect("memory for a tensor")
}

/// The figures of a scope on the first device.
///
/// # Panics
/// The scope is unknown or was never called there.
pub fn figures(scope: &str) -> oomguard::report::Figures {
    let report = oomguard::report();
    let found = report.scope(scope).and_then(|scope| scope.on_device(0)).cloned();
    found.unwrap_or_else(|| panic!("no figures of {scope} in\n{report}"))
}
