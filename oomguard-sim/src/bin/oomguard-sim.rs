//! `oomguard-sim`: runs a program on the simulated card.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use oomguard_sim::config::{CardConfig, parse_size};
use oomguard_sim::launch::{self, ACTIVE, LaunchError};

/// Runs CUDA programs on a simulated card, on machines with no GPU.
#[derive(Parser)]
#[command(name = "oomguard-sim", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs a program on the card; the exit code is the program's.
    Run {
        #[command(flatten)]
        card: Card,
        /// Runs on the simulated card even though this machine has a real one.
        #[arg(long, visible_alias = "force")]
        shadow_real_driver: bool,
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
        program: Vec<OsString>,
    },
    /// Prints what a shell has to export for the programs started from it to run on the card.
    Env {
        #[command(flatten)]
        card: Card,
    },
}

/// The card; what is not said here is as the `OOMGUARD_SIM_*` variables say, or else an H200.
#[derive(Args)]
struct Card {
    /// Memory of each device, such as 24GiB.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    capacity: Option<u64>,
    /// Devices in the machine.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=64), value_name = "COUNT")]
    devices: Option<u32>,
    /// What each context takes of its device.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    context_overhead: Option<u64>,
    /// What another process holds of each device.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    other_process: Option<u64>,
    /// Allocation calls that run out of memory, counted from 1.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    fail_nth: Vec<u64>,
    /// A request above this size runs out of memory.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    fail_above: Option<u64>,
    /// Holds queued work back until the host waits for it.
    #[arg(long)]
    hold_streams: bool,
    /// An old driver, with no memory pools.
    #[arg(long)]
    no_pools: bool,
    /// Loses the device after so many allocation calls.
    #[arg(long, value_name = "N")]
    lose_device_after: Option<u64>,
    /// What the driver says its CUDA version is, such as 12.4.
    #[arg(long, value_name = "VERSION")]
    driver_version: Option<String>,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "expected a size such as 24GiB, 64 MiB or 1073741824".to_owned())
}

impl Card {
    fn config(self) -> Result<CardConfig, LaunchError> {
        let base = CardConfig::from_env()?;
        let version = self.driver_version.map(|version| ("OOMGUARD_SIM_DRIVER_VERSION".to_owned(), version));
        let base = base.overridden(version)?;
        Ok(CardConfig {
            devices: self.devices.unwrap_or(base.devices),
            capacity: self.capacity.unwrap_or(base.capacity),
            context_overhead: self.context_overhead.unwrap_or(base.context_overhead),
            other_process: self.other_process.unwrap_or(base.other_process),
            fail_nth: if self.fail_nth.is_empty() { base.fail_nth } else { self.fail_nth },
            fail_above: self.fail_above.or(base.fail_above),
            hold_streams: self.hold_streams || base.hold_streams,
            no_pools: self.no_pools || base.no_pools,
            lose_device_after: self.lose_device_after.or(base.lose_device_after),
            driver_version: base.driver_version,
        })
    }
}

/// What `env` and `nohup` answer when they fail themselves, when the program cannot be run, and when there is none.
const OWN_FAILURE: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NO_PROGRAM: u8 = 127;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Task::Run { card, shadow_real_driver, program } => run(card, shadow_real_driver, &program),
        Task::Env { card } => print_exports(card),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("oomguard-sim: {error}");
            ExitCode::from(match error {
                LaunchError::Start { source, .. } if source.kind() == ErrorKind::NotFound => NO_PROGRAM,
                LaunchError::Start { .. } => CANNOT_RUN,
                _ => OWN_FAILURE,
            })
        }
    }
}

fn run(card: Card, shadow_real_driver: bool, program: &[OsString]) -> Result<ExitCode, LaunchError> {
    let asked = shadow_real_driver || std::env::var_os(launch::CHOICE).is_some_and(|choice| choice == "1");
    if !asked && launch::real_driver_present() {
        eprintln!("oomguard-sim: this machine has a real CUDA device; --shadow-real-driver hides it from the program");
        return Ok(ExitCode::from(OWN_FAILURE));
    }
    let config = card.config()?;
    let Some((name, arguments)) = program.split_first() else { return Ok(ExitCode::from(OWN_FAILURE)) };
    let mut command = Command::new(name);
    command.args(arguments);
    launch::command_on_card(&mut command, &config)?;
    // Returns only where it fails.
    let source = command.exec();
    Err(LaunchError::Start { program: name.clone(), source })
}

fn print_exports(card: Card) -> Result<ExitCode, LaunchError> {
    let config = card.config()?;
    let folder = launch::install(&launch::find_library()?)?;
    let export = |name: &str, value: &str| println!("export {name}='{}'", value.replace('\'', r"'\''"));
    export("LD_LIBRARY_PATH", &launch::search_path(&folder).to_string_lossy());
    export(ACTIVE, &folder.to_string_lossy());
    for (name, value) in config.variables() {
        export(name, &value);
    }
    Ok(ExitCode::SUCCESS)
}
