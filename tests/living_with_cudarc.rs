//! oomguard beside other people's cudarc: features unite, programs link, and a build without tracking is without it.

use oomguard_sim::launch;
use oomguard_tests::{CardConfig, run, run_on_card, text};
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Builds of fixtures go beside the workspace's own, where the crates that they share are built once.
fn target() -> PathBuf {
    let itself = std::env::current_exe().expect("the test's own program");
    let target = itself.ancestors().find(|folder| folder.ends_with("target")).map(Path::to_path_buf);
    target.unwrap_or_else(std::env::temp_dir).join("fixtures")
}

fn cargo(fixture_name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(fixture(fixture_name)).env("CARGO_TARGET_DIR", target());
    command
}

#[test]
fn candles_features_and_ours_build_as_one() {
    let built = run(&mut cargo("candle-features", &["build", "--lib"]));
    assert!(built.status.success(), "{}", text(&built));
    let tree =
        run(&mut cargo("candle-features", &["tree", "--invert", "cudarc", "--depth", "0", "--format", "{p} {f}"]));
    let tree = text(&tree);
    assert_eq!(tree.lines().filter(|line| line.starts_with("cudarc ")).count(), 1, "one copy serves both: {tree}");
    let ours = ["fallback-dynamic-loading", "fallback-latest", "dynamic-linking"];
    assert!(ours.iter().all(|feature| tree.contains(feature)), "{tree}");
}

#[test]
fn we_name_no_cuda_version_and_no_way_of_loading_that_others_cannot_overrule() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../oomguard/Cargo.toml");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["tree", "--edges", "normal,features", "--invert", "cudarc", "--manifest-path"]).arg(manifest);
    let tree = text(&run(&mut command));
    for feature in ["\"cuda-1", "\"dynamic-loading\"", "\"dynamic-linking\"", "\"cupti\"", "cudarc feature \"default\""]
    {
        assert!(!tree.contains(feature), "{feature} in {tree}");
    }
    assert!(tree.contains("cudarc feature \"cuda-version-from-build-system\""), "{tree}");
}

#[test]
fn a_program_that_links_the_driver_runs_on_the_simulated_card_and_is_tracked() {
    let library = launch::find_library().and_then(|library| launch::install(&library)).expect("the simulated driver");
    let mut build = cargo("linked", &["build"]);
    build.env("RUSTFLAGS", format!("-L native={}", library.display()));
    let built = run(&mut build);
    assert!(built.status.success(), "{}", text(&built));
    let mut command = Command::new(target().join("debug/linked"));
    let output = run_on_card(&mut command, &CardConfig::default(), &[]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let row = said.lines().find(|line| line.starts_with("zeros ")).unwrap_or_default();
    assert!(row.contains("+4 MiB"), "{said}");
}

#[test]
fn without_the_feature_a_program_is_the_same_and_holds_no_cuda_crate() {
    let output = run(&mut cargo("disabled", &["run", "--quiet"]));
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    // The future is as small as an untracked one: the attribute left the function alone.
    assert!(said.starts_with("Ok(11) Err(\"no question\") 1\n0 scopes, mode off\n"), "{said}");
    assert_eq!(said.matches("oomguard: ").count(), 1, "one note: {said}");
    let tree = text(&run(&mut cargo("disabled", &["tree", "--edges", "normal"])));
    for crate_name in ["cudarc", "inventory", "libloading", "tracing"] {
        assert!(!tree.contains(crate_name), "{crate_name} in {tree}");
    }
}
