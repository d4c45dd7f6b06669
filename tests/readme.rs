//! The README shows what was kept, and nothing typed in by hand.

use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The outputs in a document: a comment that names the file, then a block with its text.
fn shown(document: &str) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for part in document.split("<!-- the text of ").skip(1) {
        let (file, rest) = part.split_once(" -->").expect("the comment's end");
        let block = rest.trim_start().strip_prefix("```text\n").and_then(|block| block.split_once("```"));
        let (text, _) = block.unwrap_or_else(|| panic!("a block of text after {file}"));
        shown.push((file.to_owned(), text.to_owned()));
    }
    shown
}

#[test]
fn every_output_shown_is_the_kept_one() {
    let mut count = 0;
    for document in ["README.md", "docs/h200/README.md"] {
        for (file, text) in shown(&read(document)) {
            assert!(text == read(&file), "{document} shows another text than {file} has: put the file's in its place");
            count += 1;
        }
    }
    assert!(count >= 2, "the README shows a real output, and so does the card's page");
}

#[test]
fn the_two_commands_are_there_for_ci_to_read() {
    let readme = read("README.md");
    for command in ["cargo run --release --example detective ", "cargo test --workspace "] {
        assert_eq!(readme.lines().filter(|line| line.starts_with(command)).count(), 1, "{command}");
    }
}

#[test]
fn every_environment_variable_is_explained() {
    let (readme, card) = (read("README.md"), read("oomguard-sim/src/config.rs"));
    for variable in ["OOMGUARD", "OOMGUARD_REPORT", "OOMGUARD_TABLE", "OOMGUARD_PEAK", "OOMGUARD_REQUIRE_DEVICE"] {
        assert!(readme.contains(&format!("`{variable}`")), "{variable}");
    }
    for variable in oomguard_sim::config::VARIABLES {
        assert!(card.contains(&format!("//! | `{}` |", variable.name)), "{}", variable.name);
    }
}
