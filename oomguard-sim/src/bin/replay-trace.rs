//! `replay-trace`: holds the model of the pool against recordings of a real driver's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use oomguard_sim::config::parse_size;
use oomguard_sim::trace::{Outcome, Trace, read, replay};

/// Replays recordings of a CUDA driver's memory pool on the model of it, and says how faithful the model is.
///
/// A trace passes when every request is answered as on the card and USED is exact at every line; RESERVED has to be exact
/// too in traces called ladder, leak or alternate, and in the others less than a granule off on average and never more
/// than three. Exit code 1: a trace did not pass. 2: a recording could not be read.
#[derive(Parser)]
#[command(name = "replay-trace", version)]
struct Cli {
    /// Recordings: JSON lines, each trace starting at a line whose op is `pool`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Memory that the card could give the pool, such as 140GiB. Otherwise what the recording says was free; or, where it
    /// does not and a pool without a limit was refused a request, the highest RESERVED of the trace, as such a pool has
    /// taken all there is.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    capacity: Option<u64>,
    /// Also says where each trace first parts from the card.
    #[arg(short, long)]
    differences: bool,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size: write 24GiB, 512MiB or bytes".to_owned())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut traces = Vec::new();
    for file in &cli.files {
        match read(file) {
            Ok(found) => traces.extend(found),
            Err(error) => {
                eprintln!("replay-trace: {error}");
                return ExitCode::from(2);
            }
        }
    }
    let width = traces.iter().map(|trace| trace.header.name.len()).max().unwrap_or(0).max("trace".len());
    println!(
        "{:width$} {:>6} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7}",
        "trace", "lines", "ok", "used", "reserved", "highs", "offset", "max err", "mean"
    );
    let mut failed = 0;
    for trace in &traces {
        let outcome = replay(trace, cli.capacity);
        let passed = outcome.passes(trace.is_strict());
        failed += usize::from(!passed);
        println!("{:width$} {} {}", trace.header.name, row(&outcome), if passed { "PASS" } else { "FAIL" });
        if cli.differences {
            print_difference(trace, &outcome);
        }
    }
    println!("{} of {} traces pass; errors of RESERVED are in granules of 32 MiB", traces.len() - failed, traces.len());
    ExitCode::from(u8::from(failed > 0))
}

fn row(outcome: &Outcome) -> String {
    let Outcome { lines, requests, largest_error, mean_error, .. } = *outcome;
    format!(
        "{lines:>6} {:>7} {:>7} {:>8} {:>7} {:>7} {largest_error:>7.0} {mean_error:>7.3}",
        share(outcome.ok, requests),
        share(outcome.used, lines),
        share(outcome.reserved, lines),
        share(outcome.watermarks, lines),
        share(outcome.offsets, requests),
    )
}

/// A share that reads 100% only where it is the whole.
fn share(part: usize, whole: usize) -> String {
    if part == whole {
        return "100%".to_owned();
    }
    format!("{:.2}%", (part as f64 / whole as f64 * 1e4).floor() / 1e2)
}

fn print_difference(trace: &Trace, outcome: &Outcome) {
    if let Some(difference) = &outcome.first_difference {
        let line = trace.lines.iter().find(|line| line.number == difference.line);
        println!(
            "    line {}: {} is {} on the card, {} here: {:?}",
            difference.line,
            difference.figure,
            difference.card,
            difference.model,
            line.map(|line| &line.op)
        );
    }
}
