//! Scopes: the sites that macros register, and entering and leaving them, on a thread or in a future.

mod call;
mod clock;
mod events;
mod future;
mod gate;
mod section;
mod site;
mod thread;

pub use call::ScopeCall;
pub use future::Tracked;
pub use site::{Registered, Site, SiteMeta};

pub(crate) use clock::{Pace, elapsed_nanoseconds};
pub(crate) use gate::start;
pub(crate) use site::registered;
