//! Contexts: the primary one of each device, and those that a program creates.

use std::collections::{BTreeMap, BTreeSet};

use super::Card;
use super::error::{Error, Result};
use super::linear::Arena;
use super::memory::Managed;
use super::stream::Stream;

/// Limits that `cuCtxGetLimit` knows, by number, as an H200 has them. The others are not supported.
const LIMITS: [(u32, u64); 8] =
    [(0, 1024), (1, 8_650_752), (2, 8_388_608), (4, 2048), (5, 64), (6, 11_796_480), (7, 232_448), (8, 0)];

/// What a new context's flags read as: mapped host memory, the only way since CUDA 11.
const FLAGS: u32 = 8;

#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: usize,
    pub(super) alive: bool,
    pub(super) primary: bool,
    pub(super) flags: u32,
    pub(super) cache_config: u32,
    pub(super) limits: BTreeMap<u32, u64>,
    pub(super) default_stream: u64,
    /// The per-thread default streams, by thread.
    pub(super) thread_streams: BTreeMap<u64, u64>,
    pub(super) blocks: Arena,
    /// What loaded modules take.
    pub(super) images: Arena,
    pub(super) managed: BTreeMap<u64, Managed>,
    peers: BTreeSet<u64>,
    pub(super) id: u64,
}

impl Context {
    /// A context that takes nothing of the card yet.
    pub(super) fn asleep(device: usize, id: u64) -> Self {
        Self {
            device,
            alive: false,
            primary: true,
            flags: FLAGS,
            cache_config: 0,
            limits: LIMITS.into_iter().collect(),
            default_stream: 0,
            thread_streams: BTreeMap::new(),
            blocks: Arena::default(),
            images: Arena::within_the_context(),
            managed: BTreeMap::new(),
            peers: BTreeSet::new(),
            id,
        }
    }

    /// Bytes that the context takes of its device.
    pub(super) fn held(&self, overhead: u64) -> u64 {
        if self.alive { overhead + self.blocks.held() + self.images.held() } else { 0 }
    }
}

impl Card {
    /// The living context behind a handle; 0 is none.
    pub(super) fn context(&self, handle: u64) -> Result<&Context> {
        match self.contexts.get(&handle) {
            Some(context) if context.alive => Ok(context),
            Some(_) => Err(Error::ContextIsDestroyed),
            None => Err(Error::InvalidContext),
        }
    }

    pub(super) fn context_mut(&mut self, handle: u64) -> Result<&mut Context> {
        self.context(handle)?;
        self.contexts.get_mut(&handle).ok_or(Error::InvalidContext)
    }

    /// The device of a context, destroyed or not.
    pub(crate) fn device_of(&self, context: u64) -> Result<i32> {
        let context = self.contexts.get(&context).ok_or(Error::InvalidContext)?;
        i32::try_from(context.device).map_err(|_| Error::Unknown)
    }

    /// Whether a handle ever named a context.
    pub(crate) fn knows_context(&self, handle: u64) -> bool {
        self.contexts.contains_key(&handle)
    }

    fn wake(&mut self, handle: u64) -> Result<()> {
        let device = self.contexts[&handle].device;
        if self.available(device) < self.config.context_overhead {
            return Err(Error::OutOfMemory);
        }
        let stream = self.new_handle();
        self.streams.insert(stream, Stream::of(handle, 0, 0));
        let context = self.contexts.get_mut(&handle).ok_or(Error::InvalidContext)?;
        context.alive = true;
        context.default_stream = stream;
        Ok(())
    }

    /// Takes everything of the context away with it. Blocks in the device's pools stay: they are the device's.
    fn put_to_sleep(&mut self, handle: u64) {
        self.finish_streams_of(handle, |_| true);
        let Some(context) = self.contexts.get_mut(&handle) else { return };
        let fresh =
            Context { primary: context.primary, flags: context.flags, ..Context::asleep(context.device, handle) };
        *context = fresh;
        self.streams.retain(|_, stream| stream.context != handle);
        self.events.retain(|_, event| event.context != handle);
        let modules: Vec<u64> =
            self.modules.iter().filter(|(_, module)| module.context == handle).map(|(&module, _)| module).collect();
        for module in modules {
            self.forget_module(module);
        }
    }

    pub(crate) fn retain_primary(&mut self, device: i32) -> Result<u64> {
        let ordinal = self.ordinal(device)?;
        let handle = self.devices[ordinal].primary;
        if !self.contexts[&handle].alive {
            self.wake(handle)?;
        }
        self.devices[ordinal].primary_references += 1;
        Ok(handle)
    }

    pub(crate) fn release_primary(&mut self, device: i32) -> Result<()> {
        let ordinal = self.ordinal(device)?;
        let device = &mut self.devices[ordinal];
        device.primary_references = device.primary_references.checked_sub(1).ok_or(Error::InvalidContext)?;
        if device.primary_references == 0 {
            let handle = device.primary;
            self.put_to_sleep(handle);
        }
        Ok(())
    }

    pub(crate) fn reset_primary(&mut self, device: i32) -> Result<()> {
        let ordinal = self.ordinal(device)?;
        let handle = self.devices[ordinal].primary;
        self.devices[ordinal].primary_references = 0;
        self.put_to_sleep(handle);
        Ok(())
    }

    /// The primary context's flags, and whether it is alive.
    pub(crate) fn primary_state(&self, device: i32) -> Result<(u32, bool)> {
        let device = &self.devices[self.ordinal(device)?];
        Ok((device.primary_flags, self.contexts[&device.primary].alive))
    }

    pub(crate) fn set_primary_flags(&mut self, device: i32, flags: u32) -> Result<()> {
        let ordinal = self.ordinal(device)?;
        self.devices[ordinal].primary_flags = flags;
        Ok(())
    }

    pub(crate) fn create_context(&mut self, device: i32, flags: u32) -> Result<u64> {
        let ordinal = self.ordinal(device)?;
        let handle = self.new_handle();
        let context = Context { primary: false, flags: flags | FLAGS, ..Context::asleep(ordinal, handle) };
        self.contexts.insert(handle, context);
        if let Err(error) = self.wake(handle) {
            self.contexts.remove(&handle);
            return Err(error);
        }
        Ok(handle)
    }

    pub(crate) fn destroy_context(&mut self, handle: u64) -> Result<()> {
        if self.context(handle)?.primary {
            return Err(Error::InvalidContext);
        }
        // The handle stays known: threads where it is current learn that it was destroyed.
        self.put_to_sleep(handle);
        Ok(())
    }

    pub(crate) fn context_flags(&self, handle: u64) -> Result<u32> {
        Ok(self.context(handle)?.flags)
    }

    pub(crate) fn set_context_flags(&mut self, handle: u64, flags: u32) -> Result<()> {
        self.context_mut(handle)?.flags = flags | FLAGS;
        Ok(())
    }

    pub(crate) fn context_id(&self, handle: u64) -> Result<u64> {
        Ok(self.context(handle)?.id)
    }

    pub(crate) fn limit(&self, handle: u64, limit: u32) -> Result<u64> {
        self.context(handle)?.limits.get(&limit).copied().ok_or(Error::UnsupportedLimit)
    }

    pub(crate) fn set_limit(&mut self, handle: u64, limit: u32, value: u64) -> Result<()> {
        let slot = self.context_mut(handle)?.limits.get_mut(&limit).ok_or(Error::UnsupportedLimit)?;
        *slot = value;
        Ok(())
    }

    pub(crate) fn cache_config(&self, handle: u64) -> Result<u32> {
        Ok(self.context(handle)?.cache_config)
    }

    pub(crate) fn set_cache_config(&mut self, handle: u64, config: u32) -> Result<()> {
        if config > 3 {
            return Err(Error::InvalidValue);
        }
        self.context_mut(handle)?.cache_config = config;
        Ok(())
    }

    pub(crate) fn enable_peer(&mut self, handle: u64, peer: u64) -> Result<()> {
        self.context(peer)?;
        if handle == peer || !self.context_mut(handle)?.peers.insert(peer) {
            return Err(Error::PeerAccessAlreadyEnabled);
        }
        Ok(())
    }

    pub(crate) fn disable_peer(&mut self, handle: u64, peer: u64) -> Result<()> {
        if self.context_mut(handle)?.peers.remove(&peer) { Ok(()) } else { Err(Error::PeerAccessNotEnabled) }
    }

    /// Free bytes of the context's device, and all of them.
    pub(crate) fn memory_info(&self, handle: u64) -> Result<(u64, u64)> {
        let device = self.context(handle)?.device;
        Ok((self.available(device), self.config.capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    #[test]
    fn the_primary_context_counts_its_references_and_keeps_its_handle() {
        let mut card = Card::new(small());
        assert_eq!(card.release_primary(0), Err(Error::InvalidContext));
        let first = card.retain_primary(0).unwrap();
        assert_eq!(card.retain_primary(0), Ok(first));
        assert_eq!(card.primary_state(0), Ok((0, true)));
        card.release_primary(0).unwrap();
        assert!(card.context(first).is_ok());
        card.release_primary(0).unwrap();
        assert_eq!(card.memory_info(first), Err(Error::ContextIsDestroyed));
        assert_eq!(card.retain_primary(0), Ok(first));
        assert_eq!(card.retain_primary(1), Err(Error::InvalidDevice));
    }

    #[test]
    fn a_created_context_costs_the_same_and_gives_all_back() {
        let (mut card, caller) = card_with_context(small());
        let before = card.available(0);
        let second = card.create_context(0, 0).unwrap();
        assert_eq!(card.available(0), before - (64 << 20));
        let inside = super::super::Caller { context: second, ..caller };
        card.allocate(inside, 1).unwrap();
        card.destroy_context(second).unwrap();
        assert_eq!(card.available(0), before);
        assert_eq!(card.destroy_context(second), Err(Error::ContextIsDestroyed));
        assert_eq!(card.allocate(inside, 1), Err(Error::ContextIsDestroyed));
        assert_eq!(card.destroy_context(caller.context), Err(Error::InvalidContext));
    }

    #[test]
    fn a_context_that_does_not_fit_is_refused() {
        let mut card = Card::new(crate::config::CardConfig { capacity: 32 << 20, ..small() });
        assert_eq!(card.retain_primary(0), Err(Error::OutOfMemory));
        assert_eq!(card.primary_state(0), Ok((0, false)));
    }
}
