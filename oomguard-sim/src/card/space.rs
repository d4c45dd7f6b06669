//! Address ranges: real addresses whose pages cost nothing until somebody writes to them.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Device memory is placed, and counted by `cuMemGetInfo`, in steps of this.
pub(crate) const STEP: u64 = 2 << 20;

/// Bytes as the system counts them: the card's figures and this machine's are of the same width.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn length(bytes: u64) -> usize {
    const { assert!(usize::BITS == 64, "the card's addresses need 64 bits") };
    bytes as usize
}

/// Rounds `bytes` up to a multiple of `step`, or `None` where that would overflow.
pub(crate) fn round_up(bytes: u64, step: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(step)
}

/// What a program may do with the bytes of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    None,
    Read,
    ReadWrite,
}

impl Access {
    fn protection(self) -> libc::c_int {
        match self {
            Self::None => libc::PROT_NONE,
            Self::Read => libc::PROT_READ,
            Self::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// An owned range of this process's addresses, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Space {
    base: u64,
    bytes: u64,
}

impl Space {
    /// A fresh range of `bytes` (rounded up to pages) that starts at a multiple of [`STEP`].
    pub(crate) fn new(bytes: u64, access: Access) -> Option<Self> {
        // Room to cut an aligned range out of: mmap promises pages only.
        let bytes = round_up(bytes, 4096)?;
        let room = bytes.checked_add(STEP)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choosing touches nobody's memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length(room), access.protection(), flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let start = at as u64;
        let base = round_up(start, STEP)?;
        unmap(start, base - start);
        unmap(base + bytes, start + room - (base + bytes));
        Some(Self { base, bytes })
    }

    /// The largest range the system gives, from `wanted` down to `least`.
    pub(crate) fn up_to(wanted: u64, least: u64, access: Access) -> Option<Self> {
        let mut bytes = wanted.max(least);
        loop {
            if let Some(space) = Self::new(bytes, access) {
                return Some(space);
            }
            if bytes <= least {
                return None;
            }
            bytes = (bytes / 2).max(least);
        }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        address >= self.base && address - self.base < self.bytes
    }

    /// Gives the pages of a part back to the system; they read as zeros afterwards.
    pub(crate) fn give_back(&self, offset: u64, bytes: u64) {
        let Some(end) = offset.checked_add(bytes) else { return };
        let end = end.min(self.bytes);
        if offset < end {
            let at = (self.base + offset) as *mut libc::c_void;
            // SAFETY: the part lies in a private anonymous mapping that this value owns, and no reference points there.
            unsafe { libc::madvise(at, length(end - offset), libc::MADV_DONTNEED) };
        }
    }

    /// Lays the bytes of `backing` over the part at `address`.
    pub(crate) fn lay(&self, address: u64, bytes: u64, backing: &Backing, access: Access) -> bool {
        debug_assert!(self.holds(address) && bytes <= self.base + self.bytes - address);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let fd = backing.0.as_raw_fd();
        // SAFETY: the part lies inside a range that this value owns, so that MAP_FIXED replaces nothing of others.
        let at = unsafe { libc::mmap(address as *mut libc::c_void, length(bytes), access.protection(), flags, fd, 0) };
        at != libc::MAP_FAILED
    }

    /// Takes whatever lies at `address` away again and leaves the addresses reserved.
    pub(crate) fn clear(&self, address: u64, bytes: u64) -> bool {
        debug_assert!(self.holds(address) && bytes <= self.base + self.bytes - address);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: as in `lay`.
        let at = unsafe { libc::mmap(address as *mut libc::c_void, length(bytes), libc::PROT_NONE, flags, -1, 0) };
        at != libc::MAP_FAILED
    }

    /// Changes what may be done with a part.
    pub(crate) fn protect(&self, address: u64, bytes: u64, access: Access) -> bool {
        debug_assert!(self.holds(address) && bytes <= self.base + self.bytes - address);
        // SAFETY: the part lies inside a range that this value owns.
        unsafe { libc::mprotect(address as *mut libc::c_void, length(bytes), access.protection()) == 0 }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        unmap(self.base, self.bytes);
    }
}

fn unmap(base: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: callers pass ranges that they mapped and that nothing refers to any more.
        unsafe { libc::munmap(base as *mut libc::c_void, length(bytes)) };
    }
}

/// Bytes that can lie at several addresses at once, as physical memory can.
#[derive(Debug)]
pub(crate) struct Backing(OwnedFd);

impl Backing {
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        // SAFETY: the name is a C string, and the call has no other precondition.
        let fd = unsafe { libc::memfd_create(c"oomguard-sim".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let end = libc::off_t::try_from(bytes).ok()?;
        // SAFETY: the descriptor is open; a sparse file takes no memory for its length.
        (unsafe { libc::ftruncate(fd.as_raw_fd(), end) } == 0).then_some(Self(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_start_at_a_step_and_hold_what_is_written() {
        let space = Space::new(3 * STEP + 1, Access::ReadWrite).unwrap();
        assert_eq!(space.base() % STEP, 0);
        assert!(space.holds(space.base() + 3 * STEP));
        let at = space.base() as *mut u8;
        // SAFETY: the byte lies in the range just made.
        unsafe { at.write(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { at.read() }, 7);
        space.give_back(0, STEP);
        // SAFETY: as above; the page reads as zeros again.
        assert_eq!(unsafe { at.read() }, 0);
    }

    #[test]
    fn one_backing_shows_through_two_places() {
        let space = Space::new(2 * STEP, Access::None).unwrap();
        let backing = Backing::new(STEP).unwrap();
        assert!(space.lay(space.base(), STEP, &backing, Access::ReadWrite));
        assert!(space.lay(space.base() + STEP, STEP, &backing, Access::Read));
        // SAFETY: both places were laid just now.
        unsafe { (space.base() as *mut u8).write(9) };
        // SAFETY: as above.
        assert_eq!(unsafe { ((space.base() + STEP) as *const u8).read() }, 9);
        assert!(space.clear(space.base(), STEP));
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        assert!(Space::new(1 << 60, Access::ReadWrite).is_none());
        assert!(Space::up_to(1 << 60, STEP, Access::ReadWrite).is_some());
        assert!(Space::new(u64::MAX, Access::ReadWrite).is_none());
    }
}
