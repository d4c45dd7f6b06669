//! `cuMemAlloc` memory: chunks of whole steps of 2 MiB; requests below one step share chunks.
//!
//! Measured on an H200: 1 byte takes 2 MiB of the card, and the next 1 MiB comes out of the same chunk; 2 MiB + 1 byte
//! takes 4 MiB; a chunk goes back to the card with its last block.

use std::collections::BTreeMap;

use super::error::{Error, Result};
use super::space::{Access, STEP, Space, round_up};

/// Blocks start at multiples of this.
const ALIGNMENT: u64 = 512;

#[derive(Debug)]
struct Chunk {
    space: Space,
    shared: bool,
    free: u64,
    /// Offset to bytes asked for.
    blocks: BTreeMap<u64, u64>,
}

impl Chunk {
    fn gap(&self, bytes: u64) -> Option<u64> {
        let mut at = 0;
        for (&offset, &taken) in &self.blocks {
            if offset - at >= bytes {
                return Some(at);
            }
            at = offset + footprint(taken);
        }
        (self.space.bytes() - at >= bytes).then_some(at)
    }
}

fn footprint(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// The blocks of one owner.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: BTreeMap<u64, Chunk>,
    held: u64,
    /// Shared chunks are part of what the owner takes anyway.
    small_is_free: bool,
}

impl Arena {
    /// For what lives inside a context: measured, a small module takes nothing of the card.
    pub(crate) fn within_the_context() -> Self {
        Self { small_is_free: true, ..Self::default() }
    }

    /// Bytes taken from the card.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Serves `bytes`, taking at most `available` more from the card. Returns the block's address.
    pub(crate) fn allocate(&mut self, bytes: u64, available: u64) -> Result<u64> {
        let shared = bytes < STEP;
        if shared {
            let needed = footprint(bytes);
            for (&base, chunk) in self.chunks.iter_mut().filter(|(_, chunk)| chunk.shared && chunk.free >= needed) {
                if let Some(offset) = chunk.gap(needed) {
                    chunk.blocks.insert(offset, bytes);
                    chunk.free -= needed;
                    return Ok(base + offset);
                }
            }
        }
        let whole = round_up(bytes, STEP).ok_or(Error::OutOfMemory)?;
        let cost = if shared && self.small_is_free { 0 } else { whole };
        if cost > available {
            return Err(Error::OutOfMemory);
        }
        let space = Space::new(whole, Access::ReadWrite).ok_or(Error::OutOfMemory)?;
        let base = space.base();
        let free = whole - footprint(bytes).min(whole);
        self.chunks.insert(base, Chunk { space, shared, free, blocks: BTreeMap::from([(0, bytes)]) });
        self.held += cost;
        Ok(base)
    }

    /// Frees the block that starts at `address`; returns its size.
    pub(crate) fn free(&mut self, address: u64) -> Option<u64> {
        let (&base, chunk) = self.chunks.range_mut(..=address).next_back()?;
        let bytes = chunk.blocks.remove(&(address - base))?;
        chunk.free += footprint(bytes);
        if chunk.blocks.is_empty() {
            self.held -= if chunk.shared && self.small_is_free { 0 } else { chunk.space.bytes() };
            // Unmapping makes a later touch of the freed block a fault rather than a silent success.
            self.chunks.remove(&base);
        }
        Some(bytes)
    }

    /// The live block that holds `address`: its start and its size.
    pub(crate) fn block_holding(&self, address: u64) -> Option<(u64, u64)> {
        let (&base, chunk) = self.chunks.range(..=address).next_back()?;
        let (&offset, &bytes) = chunk.blocks.range(..=address - base).next_back()?;
        (address - base - offset < bytes).then_some((base + offset, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_share_a_step_and_large_ones_take_whole_steps() {
        let mut arena = Arena::default();
        let room = 1 << 40;
        let mut taken = Vec::new();
        let mut blocks = Vec::new();
        for bytes in [1, 1, 1 << 20, 1 << 20, 1 << 20, 2 << 20, 3 << 20, (2 << 20) + 1] {
            let before = arena.held();
            blocks.push(arena.allocate(bytes, room).unwrap());
            taken.push((arena.held() - before) >> 20);
        }
        assert_eq!(taken, [2, 0, 0, 2, 0, 2, 4, 4], "as the card counted them");
        for block in blocks.into_iter().rev() {
            assert!(arena.free(block).is_some());
            assert!(arena.free(block).is_none(), "a second free finds nothing");
        }
        assert_eq!(arena.held(), 0);
    }

    #[test]
    fn a_block_ends_where_it_was_asked_to_end() {
        let mut arena = Arena::default();
        let at = arena.allocate(100, STEP).unwrap();
        assert_eq!(arena.block_holding(at + 99), Some((at, 100)));
        assert_eq!(arena.block_holding(at + 100), None);
        assert!(arena.free(at + 1).is_none());
    }

    #[test]
    fn the_card_s_end_is_the_end() {
        let mut arena = Arena::default();
        assert_eq!(arena.allocate(1, STEP - 1), Err(Error::OutOfMemory));
        assert_eq!(arena.allocate(u64::MAX, u64::MAX), Err(Error::OutOfMemory));
    }
}
