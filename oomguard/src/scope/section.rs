//! A stretch of a program between two readings: a call, or one poll of a future.

use super::thread::ThreadState;
use crate::probe::overlap::{self, Presence};
use crate::probe::sampled::{Device, Reading, Sampler};
use crate::stats::slot::Measured;

/// An open section on one device.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) device: Device,
    pub(crate) start: Reading,
    presence: Presence,
    /// What the section around this one had before it.
    saved_children: i64,
    saved_high: i64,
    /// Whether the watermark tells this section's peak.
    peak_known: bool,
}

impl Section {
    /// Takes the first reading. `None`: the driver would not give one.
    #[inline]
    pub(crate) fn open(thread: &ThreadState, sampler: &Sampler, device: Device) -> Option<Self> {
        let state = &thread.devices[device.index()];
        let depth = state.depth.get();
        let presence = overlap::arrive(device, state.side.get(), depth == 0);
        state.side.set(presence.side());
        let watermark = sampler.watermark(device);
        let Some(start) = sampler.read(device) else {
            overlap::depart(device, presence);
            return None;
        };
        let mut saved_high = state.high.get();
        if let Some(high) = watermark {
            // The section around this one loses its watermark to the reset, so what it reached is kept for it.
            saved_high = saved_high.max(high);
            if high != start.allocated {
                sampler.reset_watermark(device);
            }
        }
        state.high.set(0);
        state.depth.set(depth + 1);
        let saved_children = state.children.replace(0);
        Some(Self { device, start, presence, saved_children, saved_high, peak_known: watermark.is_some() })
    }

    /// Takes the second reading. `None`: the driver would not give one.
    #[inline]
    pub(crate) fn close(&self, thread: &ThreadState, sampler: &Sampler) -> Option<Measured> {
        let end = sampler.read(self.device);
        let watermark = if self.peak_known { sampler.watermark(self.device) } else { None };
        let overlapped = overlap::depart(self.device, self.presence);
        let state = &thread.devices[self.device.index()];
        state.depth.set(state.depth.get().saturating_sub(1));
        let high = watermark.map(|watermark| watermark.max(state.high.get()));
        state.high.set(self.saved_high.max(high.unwrap_or(0)));
        let net = end.map(|end| end.allocated - self.start.allocated);
        let children = state.children.replace(self.saved_children + net.unwrap_or(0));
        let (end, net) = (end?, net?);
        Some(Measured {
            net,
            self_net: net - children,
            reserved_net: end.reserved - self.start.reserved,
            // The watermark is read last, and never below the last reading.
            peak: high.map(|high| high.max(end.allocated).max(self.start.allocated) - self.start.allocated),
            overlapped,
        })
    }
}
