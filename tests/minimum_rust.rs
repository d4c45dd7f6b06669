//! The minimum supported Rust version is one that the dependencies support too.
//!
//! Our own use of the standard library is held to it by clippy's `incompatible_msrv`.

use oomguard_tests::run;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::process::Command;

/// Crates that users build; the tests, the examples and what only they need may be newer.
const SHIPPED: [&str; 3] = ["oomguard", "oomguard-macros", "oomguard-sim"];

fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[test]
fn no_crate_that_users_build_asks_for_a_newer_rust_than_we_state() {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output =
        run(cargo.args(["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo's metadata");
    let packages: HashMap<_, _> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| (package["id"].as_str().expect("an id"), package))
        .collect();
    let named =
        |name: &str| packages.iter().find(|(_, package)| package["name"] == name).map(|(id, _)| *id).expect("a member");
    let stated = version(packages[named("oomguard")]["rust_version"].as_str().expect("a stated version"));
    let nodes: HashMap<_, _> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| (node["id"].as_str().expect("an id"), node))
        .collect();
    let mut pending: Vec<_> = SHIPPED.iter().map(|name| named(name)).collect();
    let mut seen = HashSet::new();
    while let Some(id) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        if let Some(needed) = packages[id]["rust_version"].as_str() {
            assert!(version(needed) <= stated, "{id} needs Rust {needed}, and we state {stated:?}");
        }
        for dependency in nodes[id]["deps"].as_array().expect("dependencies") {
            let kinds = dependency["dep_kinds"].as_array().expect("kinds");
            if kinds.iter().any(|kind| kind["kind"] != "dev") {
                pending.push(dependency["pkg"].as_str().expect("a package"));
            }
        }
    }
    assert!(seen.len() > 20, "the walk found the dependencies");
}
