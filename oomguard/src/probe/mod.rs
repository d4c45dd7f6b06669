//! Where figures come from, and the choice among the ways.

pub(crate) mod driver;
pub(crate) mod overlap;
pub(crate) mod sampled;

use crate::config::Config;
use crate::report::Mode;
use driver::Driver;
use sampled::Sampler;
use std::sync::OnceLock;

/// The way that was chosen, and why.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) mode: Mode,
    pub(crate) reason: String,
    pub(crate) sampler: Option<Sampler>,
}

static CHOICE: OnceLock<Choice> = OnceLock::new();

/// Chooses, once a process. Loads the driver unless tracking is off.
pub(crate) fn choose(config: &Config) -> &'static Choice {
    CHOICE.get_or_init(|| {
        if config.mode == Mode::Off {
            return Choice { mode: Mode::Off, reason: "OOMGUARD=off".to_owned(), sampler: None };
        }
        match Driver::load() {
            Err(reason) => Choice { mode: Mode::Off, reason, sampler: None },
            Ok(driver) => Choice {
                mode: Mode::Sampled,
                reason: match config.mode {
                    Mode::Sampled => "asked for",
                    _ => "traced mode is not in this version",
                }
                .to_owned(),
                sampler: Some(Sampler::new(driver, config.peaks)),
            },
        }
    })
}

/// The choice, if it was made.
pub(crate) fn chosen() -> Option<&'static Choice> {
    CHOICE.get()
}

/// The sampler, if pool counters are read.
#[inline]
pub(crate) fn sampler() -> Option<&'static Sampler> {
    CHOICE.get().and_then(|choice| choice.sampler.as_ref())
}
