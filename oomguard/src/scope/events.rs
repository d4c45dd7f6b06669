//! Events for `tracing`, target `oomguard`. Nothing is formatted unless a subscriber wants it.

use super::Site;
use crate::probe::Choice;
use crate::probe::sampled::Device;
use crate::report::Mode;
use crate::stats::slot::{Call, Ending};
use tracing::{Level, event, event_enabled};

const TARGET: &str = "oomguard";

/// The mode was chosen.
pub(super) fn mode_chosen(requested: Mode, choice: &Choice) {
    event!(target: TARGET, Level::INFO, mode = %choice.mode, %requested, reason = %choice.reason, "mode chosen");
}

/// A call ended: at TRACE each, at WARN those over a budget.
#[inline]
pub(super) fn call_ended(site: &Site, device: Option<Device>, call: &Call) {
    if call.over_growth || call.over_peak {
        over_budget(site, device, call);
    }
    if event_enabled!(target: TARGET, Level::TRACE) {
        trace_call(site, device, call);
    }
}

#[cold]
fn over_budget(site: &Site, device: Option<Device>, call: &Call) {
    let device = device.map(|device| device.0);
    let measured = call.measured.as_ref();
    if call.over_growth {
        event!(
            target: TARGET, Level::WARN, scope = site.name(), device,
            net = measured.map(|measured| measured.net), budget = site.meta.growth,
            "a call grew by more than its budget"
        );
    }
    if call.over_peak {
        event!(
            target: TARGET, Level::WARN, scope = site.name(), device,
            peak = measured.and_then(|measured| measured.peak), budget = site.meta.peak,
            "a call's peak was above its budget"
        );
    }
}

#[cold]
fn trace_call(site: &Site, device: Option<Device>, call: &Call) {
    let measured = call.measured.as_ref();
    let ending = match call.ending {
        Ending::Returned => "returned",
        Ending::Failed => "failed",
        Ending::Panicked => "panicked",
        Ending::Cancelled => "cancelled",
    };
    event!(
        target: TARGET, Level::TRACE, scope = site.name(), device = device.map(|device| device.0), ending,
        net = measured.map(|measured| measured.net),
        reserved_net = measured.map(|measured| measured.reserved_net),
        peak = measured.and_then(|measured| measured.peak),
        overlapped = measured.map(|measured| measured.overlapped),
        nanoseconds = super::Pace::now().nanoseconds(call.ticks),
        "call"
    );
}
