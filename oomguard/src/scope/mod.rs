//! Scopes: the sites that macros register, and entering and leaving them, on a thread or in a future.

mod call;
mod events;
mod future;
mod gate;
mod section;
mod site;
mod thread;

pub use call::ScopeCall;
pub use future::Tracked;
pub use site::{Registered, Site, SiteMeta};

pub(crate) use gate::{elapsed, is_on, start};
pub(crate) use site::registered;
