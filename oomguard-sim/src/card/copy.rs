//! Copies and fills that really move bytes, kept inside live blocks.

use super::error::{Error, Result};
use super::space::length;
use super::{Access, Card, Owner};

/// Below this, writing zeros is cheaper than faulting fresh pages in.
const WORTH_FORGETTING: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// One end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// An address that must lie in a live block of the card.
    Device(u64),
    /// An address of the program's own.
    Host(u64),
    /// Whichever of the two it is.
    Either(u64),
}

impl Place {
    fn address(self) -> u64 {
        match self {
            Self::Device(address) | Self::Host(address) | Self::Either(address) => address,
        }
    }

    fn moved(self, by: u64) -> Result<Self> {
        let address = self.address().checked_add(by).ok_or(Error::InvalidValue)?;
        Ok(match self {
            Self::Device(_) => Self::Device(address),
            Self::Host(_) => Self::Host(address),
            Self::Either(_) => Self::Either(address),
        })
    }
}

/// Rows of equal width, and planes of them, at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
    /// Bytes from one row to the next, source and destination.
    pub(crate) pitches: (u64, u64),
    /// Bytes from one plane to the next.
    pub(crate) planes: (u64, u64),
}

impl Card {
    /// The address at which a place can be used now, checked where it is the card's.
    fn checked(&self, place: Place, bytes: u64, access: Access) -> Result<u64> {
        let address = place.address();
        let known = match place {
            Place::Device(_) => true,
            Place::Host(_) => false,
            // Host memory that the driver does not know is as good as any.
            Place::Either(address) => self.block_at(address).is_some(),
        };
        if known {
            self.check_range(address, bytes, access)?;
        } else if address == 0 {
            return Err(Error::InvalidValue);
        }
        Ok(address)
    }

    /// Copies `bytes`; the two ranges may overlap.
    ///
    /// # Safety
    /// A host place must be good for `bytes`, for reading or for writing, and no other thread may write there meanwhile.
    pub(crate) unsafe fn copy(&self, to: Place, from: Place, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let to = self.checked(to, bytes, Access::ReadWrite)?;
        let from = self.checked(from, bytes, Access::Read)?;
        // SAFETY: device places were found to lie in live, mapped blocks, which cannot go while the card is borrowed; host
        // places are the caller's promise.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, length(bytes)) };
        Ok(())
    }

    /// Copies rows.
    ///
    /// # Safety
    /// As [`Card::copy`], for every row.
    pub(crate) unsafe fn copy_rows(&self, to: Place, from: Place, rows: Rows) -> Result<()> {
        let narrow = rows.height > 1 && (rows.pitches.0 < rows.width || rows.pitches.1 < rows.width);
        if narrow {
            return Err(Error::InvalidValue);
        }
        let offset =
            |plane: u64, step: u64, row: u64, pitch: u64| plane.checked_mul(step)?.checked_add(row.checked_mul(pitch)?);
        for plane in 0..rows.depth {
            for row in 0..rows.height {
                let out = offset(plane, rows.planes.1, row, rows.pitches.1).ok_or(Error::InvalidValue)?;
                let back = offset(plane, rows.planes.0, row, rows.pitches.0).ok_or(Error::InvalidValue)?;
                // SAFETY: the caller's promise holds for every row.
                unsafe { self.copy(to.moved(out)?, from.moved(back)?, rows.width)? };
            }
        }
        Ok(())
    }

    /// Zeroes a large range by giving its pages back, where that does it: a card zeroed whole takes nothing of this machine.
    fn forget(&self, start: u64, bytes: u64) -> bool {
        let private = self
            .block_at(start)
            .is_some_and(|block| matches!(block.owner, Owner::Linear | Owner::Pool(_) | Owner::Managed | Owner::Image));
        if !private || bytes < WORTH_FORGETTING {
            return false;
        }
        let first = start.next_multiple_of(PAGE);
        let last = (start + bytes) / PAGE * PAGE;
        // SAFETY: the range lies in a live block of private pages, which read as zeros once they are given back; the parts of
        // pages at its ends are written.
        unsafe {
            if libc::madvise(first as *mut libc::c_void, length(last - first), libc::MADV_DONTNEED) != 0 {
                return false;
            }
            std::ptr::write_bytes(start as *mut u8, 0, length(first - start));
            std::ptr::write_bytes(last as *mut u8, 0, length(start + bytes - last));
        }
        true
    }

    /// Fills device memory with a pattern of 1, 2 or 4 bytes: `height` rows of `count` patterns, `pitch` bytes apart.
    pub(crate) fn fill(&self, address: u64, pattern: &[u8], count: u64, height: u64, pitch: u64) -> Result<()> {
        let width = pattern.len() as u64;
        let bytes = count.checked_mul(width).ok_or(Error::InvalidValue)?;
        if !address.is_multiple_of(width) || height > 1 && (pitch < bytes || !pitch.is_multiple_of(width)) {
            return Err(Error::InvalidValue);
        }
        if bytes == 0 || height == 0 {
            return Ok(());
        }
        for row in 0..height {
            let offset = row.checked_mul(pitch).ok_or(Error::InvalidValue)?;
            let start = address.checked_add(offset).ok_or(Error::InvalidValue)?;
            self.check_range(start, bytes, Access::ReadWrite)?;
            if pattern.iter().all(|&byte| byte == 0) && self.forget(start, bytes) {
                continue;
            }
            // SAFETY: the row lies in live, mapped memory of the card, which nothing else in this process refers to.
            let row = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length(bytes)) };
            if let [byte] = *pattern {
                row.fill(byte);
            } else {
                row.chunks_exact_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    #[test]
    fn bytes_come_back_as_they_went() {
        let (mut card, caller) = card_with_context(small());
        let there = card.allocate(caller, 8).unwrap();
        let sent = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let mut got = [0u8; 8];
        let (from, to) = (sent.as_ptr() as u64, got.as_mut_ptr() as u64);
        // SAFETY: both arrays live on this stack and are eight bytes long.
        unsafe {
            card.copy(Place::Device(there), Place::Host(from), 8).unwrap();
            card.copy(Place::Either(to), Place::Either(there), 8).unwrap();
            assert_eq!(card.copy(Place::Device(there), Place::Host(from), 9), Err(Error::InvalidValue));
            assert_eq!(card.copy(Place::Device(from), Place::Host(from), 1), Err(Error::InvalidValue));
            assert_eq!(card.copy(Place::Device(there), Place::Host(0), 1), Err(Error::InvalidValue));
            assert_eq!(card.copy(Place::Device(0), Place::Host(0), 0), Ok(()));
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn fills_repeat_their_pattern_and_stay_inside() {
        let (mut card, caller) = card_with_context(small());
        let there = card.allocate(caller, 64).unwrap();
        card.fill(there, &[9], 64, 1, 0).unwrap();
        card.fill(there, &[1, 2], 2, 2, 32).unwrap();
        let mut got = [0u8; 64];
        let to = Place::Host(got.as_mut_ptr() as u64);
        // SAFETY: the array is 64 bytes long.
        unsafe { card.copy(to, Place::Device(there), 64).unwrap() };
        assert_eq!(got[..5], [1, 2, 1, 2, 9]);
        assert_eq!(got[32..37], [1, 2, 1, 2, 9]);
        assert_eq!(card.fill(there, &[1], 65, 1, 0), Err(Error::InvalidValue));
        assert_eq!(card.fill(there + 1, &[1, 2, 3, 4], 1, 1, 0), Err(Error::InvalidValue));
    }

    #[test]
    fn zeroing_much_zeroes_all_of_it_and_nothing_else() {
        let (mut card, caller) = card_with_context(small());
        let bytes = 4 * WORTH_FORGETTING;
        let there = card.allocate(caller, bytes).unwrap();
        card.fill(there, &[7], bytes, 1, 0).unwrap();
        card.fill(there + 100, &[0], bytes - 200, 1, 0).unwrap();
        let mut got = vec![1u8; length(bytes)];
        let to = Place::Host(got.as_mut_ptr() as u64);
        // SAFETY: the vector is that long.
        unsafe { card.copy(to, Place::Device(there), bytes).unwrap() };
        let end = got.len() - 100;
        assert!(got[..100].iter().all(|&byte| byte == 7) && got[end..].iter().all(|&byte| byte == 7));
        assert!(got[100..end].iter().all(|&byte| byte == 0));
    }
}
