//! Starting programs on the simulated card.
//!
//! A program finds the card the way it finds a real driver: by asking the dynamic loader for `libcuda.so`. So the library is
//! laid into a folder under that name, and the program is started with the folder first in `LD_LIBRARY_PATH`. The loader
//! reads that variable once, as the process starts, which is why a program that is already running has to be started again.
//!
//! ```no_run
//! use oomguard_sim::{config::CardConfig, launch};
//!
//! // An example's `main`: on a machine with a GPU this does nothing.
//! launch::ensure_card(&CardConfig::with_capacity(2 << 30))?;
//! # Ok::<(), launch::LaunchError>(())
//! ```

mod library;
mod real;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use library::{find_library, install};
pub use real::real_driver_present;

use crate::config::{BadValue, CardConfig, VARIABLES};

/// Set for programs started on the simulated card; holds the folder that the card lies in.
pub const ACTIVE: &str = "OOMGUARD_SIM_ACTIVE";

/// `1` asks for the simulated card where there is a real one; `0` forbids it.
pub const CHOICE: &str = "OOMGUARD_SIM";

const SEARCH_PATH: &str = "LD_LIBRARY_PATH";

/// Which card a program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// A real device's.
    Real,
    /// The simulated one.
    Simulated,
}

/// Why a program cannot be started on the simulated card.
#[derive(Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// The card's library is nowhere.
    LibraryNotFound {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The card's library cannot be laid out.
    Install {
        /// Where it should have gone.
        folder: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A variable that describes the card cannot be read.
    Config(BadValue),
    /// The program cannot be started.
    Start {
        /// The program.
        program: OsString,
        /// What went wrong.
        source: std::io::Error,
    },
    /// There is no device, and `OOMGUARD_SIM=0` forbids the simulated one.
    Forbidden,
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LibraryNotFound { looked } => {
                writeln!(f, "the simulated card's library, {}, was not found. Looked for:", library::FILE)?;
                for path in looked {
                    writeln!(f, "  {}", path.display())?;
                }
                write!(f, "Build it with `cargo build -p oomguard-sim`, or name the file in {}.", library::VARIABLE)
            }
            Self::Install { folder, source } => {
                write!(f, "the simulated card cannot be laid into {}: {source}", folder.display())
            }
            Self::Config(error) => error.fmt(f),
            Self::Start { program, source } => write!(f, "{} cannot be started: {source}", program.display()),
            Self::Forbidden => write!(f, "there is no CUDA device here, and {CHOICE}=0 forbids the simulated one"),
        }
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Install { source, .. } | Self::Start { source, .. } => Some(source),
            Self::Config(error) => Some(error),
            Self::LibraryNotFound { .. } | Self::Forbidden => None,
        }
    }
}

impl From<BadValue> for LaunchError {
    fn from(error: BadValue) -> Self {
        Self::Config(error)
    }
}

/// Sets a command up to run on `card`, and on nothing that this process's own environment says about it.
///
/// # Errors
/// Where the card's library is not found or cannot be laid out.
pub fn command_on_card(command: &mut Command, card: &CardConfig) -> Result<(), LaunchError> {
    let folder = install(&find_library()?)?;
    command.env(SEARCH_PATH, search_path(&folder));
    command.env(ACTIVE, &folder);
    command.envs(card.variables());
    Ok(())
}

/// The search path of the dynamic loader with `folder` in front.
pub fn search_path(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os(SEARCH_PATH).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

/// Sees to it that this process has a card: the real one, if there is one, or else `card`, on which the process then starts
/// again from the beginning, with the same arguments. Call it first in `main`, before any thread and any use of CUDA.
///
/// What `OOMGUARD_SIM_*` variables say about the card goes before what `card` says. `OOMGUARD_SIM=1` asks for the simulated
/// card even beside a real one.
///
/// # Errors
/// Where there is no real card and the simulated one cannot be started.
pub fn ensure_card(card: &CardConfig) -> Result<Driver, LaunchError> {
    if std::env::var_os(ACTIVE).is_some() {
        return Ok(Driver::Simulated);
    }
    let choice = std::env::var_os(CHOICE);
    let asked = choice.as_deref() == Some(OsStr::new("1"));
    if !asked && real_driver_present() {
        return Ok(Driver::Real);
    }
    if choice.as_deref() == Some(OsStr::new("0")) {
        return Err(LaunchError::Forbidden);
    }
    let set = |name: &str| std::env::var(name).ok().map(|value| (name.to_owned(), value));
    let card = card.clone().overridden(VARIABLES.iter().filter_map(|variable| set(variable.name)))?;
    let program = std::env::current_exe()
        .map_err(|source| LaunchError::Start { program: OsString::from("this program"), source })?;
    let mut command = Command::new(&program);
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    command_on_card(&mut command, &card)?;
    let why = if asked { "as OOMGUARD_SIM=1 asks" } else { "no CUDA device here" };
    eprintln!("{why}: starting again on the simulated card ({card})");
    // Returns only where it fails.
    let source = command.exec();
    Err(LaunchError::Start { program: program.into_os_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let error = LaunchError::LibraryNotFound { looked: vec![PathBuf::from("/a/deps/liboomguard_sim.so")] };
        let text = error.to_string();
        assert!(text.contains("/a/deps/liboomguard_sim.so"), "{text}");
        assert!(text.contains("cargo build -p oomguard-sim") && text.contains("OOMGUARD_SIM_LIBRARY"), "{text}");
    }

    #[test]
    fn the_folder_comes_first() {
        let path = search_path(Path::new("/card"));
        assert!(path == "/card" || path.as_encoded_bytes().starts_with(b"/card:"));
    }
}
