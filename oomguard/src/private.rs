//! All that the macros' expansions may name. No part of the public interface: it may change in any version.

pub use crate::scope::{Registered, ScopeCall, Site, SiteMeta, Tracked};
pub use core::any::type_name_of_val;
pub use core::{file, line};
pub use inventory;

/// Runs a body. The bound makes it an `FnOnce`, so that it may return what it borrows from what it owns.
#[inline]
pub fn call_once<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// A value that may be a `Result`, to be asked whether it is an error.
///
/// Method look-up takes the first trait that fits: with `Result` the one for a reference to it, with anything else the one
/// that stands a reference further away.
#[derive(Debug)]
pub struct Outcome<'a, T>(pub &'a T);

/// The answer of a `Result`.
pub trait ResultOutcome {
    /// Whether it is an error.
    fn failed(&self) -> bool;
}

impl<T, E> ResultOutcome for Outcome<'_, Result<T, E>> {
    #[inline]
    fn failed(&self) -> bool {
        self.0.is_err()
    }
}

/// The answer of everything else.
pub trait OtherOutcome {
    /// Never an error.
    fn failed(&self) -> bool;
}

impl<T> OtherOutcome for &Outcome<'_, T> {
    #[inline]
    fn failed(&self) -> bool {
        false
    }
}

/// Whether a returned value is an error.
#[doc(hidden)]
#[macro_export]
macro_rules! __oomguard_failed {
    ($output:expr) => {{
        use $crate::__private::{OtherOutcome as _, ResultOutcome as _};
        (&$crate::__private::Outcome($output)).failed()
    }};
}

pub use __oomguard_failed as failed;
