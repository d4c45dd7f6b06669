//! The machine itself: devices, contexts, streams and every kind of memory, as plain data. No C types, no threads, no
//! globals: the driver in front of it locks, and says which thread calls and which context is current there.

mod attributes;
mod context;
mod copy;
mod error;
mod event;
mod host;
mod image;
mod linear;
mod memory;
mod module;
mod pools;
mod space;
mod stream;
mod virtual_memory;

use std::collections::BTreeMap;

pub(crate) use copy::{Place, Rows};
pub(crate) use error::{Error, Result};
pub(crate) use host::HostKind;
pub(crate) use memory::{Block, Owner};
pub(crate) use module::Shape;
pub(crate) use pools::{PoolAttribute, PoolProperties};
pub(crate) use space::{Access, STEP};
pub(crate) use stream::Caller;

use crate::config::CardConfig;

/// Handles are given out in steps, never twice, so that a stale one is known for what it is.
const HANDLE_STEP: u64 = 0x40;
const FIRST_HANDLE: u64 = 0x5100_0000;

/// One device of the machine.
#[derive(Debug)]
struct Device {
    primary: u64,
    primary_references: u32,
    primary_flags: u32,
    default_pool: u64,
    current_pool: u64,
    /// Bytes of `cuMemCreate` allocations.
    physical: u64,
}

/// Every device of the machine, and all that lives on them.
#[derive(Debug)]
pub(crate) struct Card {
    config: CardConfig,
    devices: Vec<Device>,
    contexts: BTreeMap<u64, context::Context>,
    streams: BTreeMap<u64, stream::Stream>,
    events: BTreeMap<u64, event::Event>,
    pools: BTreeMap<u64, pools::MemoryPool>,
    modules: BTreeMap<u64, module::Module>,
    libraries: BTreeMap<u64, u64>,
    functions: BTreeMap<u64, module::Function>,
    host: BTreeMap<u64, host::HostBlock>,
    reservations: BTreeMap<u64, virtual_memory::Reservation>,
    physical: BTreeMap<u64, virtual_memory::Physical>,
    last_handle: u64,
    allocation_calls: u64,
    launches: u64,
    lost: bool,
}

impl Card {
    pub(crate) fn new(config: CardConfig) -> Self {
        let mut card = Self {
            devices: Vec::new(),
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            pools: BTreeMap::new(),
            modules: BTreeMap::new(),
            libraries: BTreeMap::new(),
            functions: BTreeMap::new(),
            host: BTreeMap::new(),
            reservations: BTreeMap::new(),
            physical: BTreeMap::new(),
            last_handle: FIRST_HANDLE,
            allocation_calls: 0,
            launches: 0,
            lost: false,
            config,
        };
        for ordinal in 0..card.config.devices as usize {
            let primary = card.new_handle();
            card.contexts.insert(primary, context::Context::asleep(ordinal, primary));
            let default_pool = card.make_default_pool(ordinal);
            card.devices.push(Device {
                primary,
                primary_references: 0,
                primary_flags: 0,
                default_pool,
                current_pool: default_pool,
                physical: 0,
            });
        }
        card
    }

    pub(crate) fn config(&self) -> &CardConfig {
        &self.config
    }

    /// Whether an injected fault has taken the device away for good.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    fn new_handle(&mut self) -> u64 {
        self.last_handle += HANDLE_STEP;
        self.last_handle
    }

    /// Whether a handle was ever given out.
    fn gave_out(&self, handle: u64) -> bool {
        handle > FIRST_HANDLE && handle <= self.last_handle && handle.is_multiple_of(HANDLE_STEP)
    }

    /// Devices in the machine.
    pub(crate) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The index of a device, if there is one of that number.
    pub(crate) fn ordinal(&self, device: i32) -> Result<usize> {
        usize::try_from(device).ok().filter(|&ordinal| ordinal < self.devices.len()).ok_or(Error::InvalidDevice)
    }

    /// Bytes of a device that are taken, by whomever.
    fn held(&self, ordinal: usize) -> u64 {
        let contexts = self.contexts.values().filter(|context| context.device == ordinal);
        let in_contexts: u64 = contexts.map(|context| context.held(self.config.context_overhead)).sum();
        let in_pools: u64 =
            self.pools.values().filter(|pool| pool.device == ordinal).map(pools::MemoryPool::reserved).sum();
        in_contexts + in_pools + self.devices[ordinal].physical + self.config.other_process
    }

    /// Bytes of a device that nobody holds.
    pub(crate) fn available(&self, ordinal: usize) -> u64 {
        self.config.capacity.saturating_sub(self.held(ordinal))
    }

    /// Bytes that a request for `wanted` can have. Measured: where they run short, every pool of the device gives back what it
    /// does not use, whoever asks.
    fn made_available(&mut self, ordinal: usize, wanted: u64) -> u64 {
        if self.available(ordinal) < wanted {
            self.trim_pools(ordinal);
        }
        self.available(ordinal)
    }

    /// Counts an allocation call and fails it where the configuration says so.
    fn admit(&mut self, bytes: u64) -> Result<()> {
        self.allocation_calls += 1;
        if self.config.lose_device_after.is_some_and(|calls| self.allocation_calls > calls) {
            self.lost = true;
            return Err(Error::EccUncorrectable);
        }
        let chosen = self.config.fail_nth.contains(&self.allocation_calls);
        let above = self.config.fail_above.is_some_and(|most| bytes > most);
        if chosen || above { Err(Error::OutOfMemory) } else { Ok(()) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A caller with the primary context of device 0 current.
    pub(crate) fn card_with_context(config: CardConfig) -> (Card, Caller) {
        let mut card = Card::new(config);
        let context = card.retain_primary(0).unwrap();
        (card, Caller { context, thread: 1 })
    }

    pub(crate) fn small() -> CardConfig {
        CardConfig { capacity: 1 << 30, context_overhead: 64 << 20, ..CardConfig::default() }
    }

    #[test]
    fn the_card_adds_up() {
        let config = CardConfig { other_process: 100 << 20, ..small() };
        let (mut card, caller) = card_with_context(config);
        let whole = (1 << 30) - (64 << 20) - (100 << 20);
        assert_eq!(card.available(0), whole);
        let block = card.allocate(caller, 3 << 20).unwrap();
        assert_eq!(card.available(0), whole - (4 << 20));
        let physical = card.create_physical(0, 8 << 20).unwrap();
        assert_eq!(card.available(0), whole - (12 << 20));
        card.free(caller, block).unwrap();
        card.release_physical(physical).unwrap();
        assert_eq!(card.available(0), whole);
        card.release_primary(0).unwrap();
        assert_eq!(card.available(0), whole + (64 << 20));
    }

    #[test]
    fn chosen_allocations_fail_and_the_others_do_not() {
        let config = CardConfig { fail_nth: vec![2], fail_above: Some(1 << 20), ..small() };
        let (mut card, caller) = card_with_context(config);
        assert!(card.allocate(caller, 1).is_ok());
        assert_eq!(card.allocate(caller, 1), Err(Error::OutOfMemory));
        assert!(card.allocate(caller, 1 << 20).is_ok());
        assert_eq!(card.allocate(caller, (1 << 20) + 1), Err(Error::OutOfMemory));
        assert!(!card.is_lost());
    }

    #[test]
    fn a_lost_device_stays_lost() {
        let config = CardConfig { lose_device_after: Some(1), ..small() };
        let (mut card, caller) = card_with_context(config);
        assert!(card.allocate(caller, 1).is_ok());
        assert_eq!(card.allocate(caller, 1), Err(Error::EccUncorrectable));
        assert!(card.is_lost());
    }
}
