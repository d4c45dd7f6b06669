//! Pools that the program names.

use crate::probe::sampled::{self, Device, MOST_DEVICES};
use std::ffi::c_void;

/// Counts a pool of the program's own among its device's, for as long as the returned value lives.
///
/// The device's default pool, and its current pool where the program set another, are counted without this. It is for pools
/// that the program allocates from by name (`cuMemAllocFromPoolAsync`). `pool` is the `CUmemoryPool` handle as a plain
/// pointer, since a program may hold two versions of cudarc. With several pools on a device the peaks of calls are unknown,
/// for their watermarks are of different moments. Calls that are open now will show the pool's level as growth.
///
/// # Errors
/// The device's ordinal is 64 or more, the handle is null, or seven pools of the device are watched already.
///
/// # Safety
/// `pool` must be a pool of device `device`, and must not be destroyed before the returned value is dropped, nor while a
/// tracked call that began before that is still at its entry or exit on another thread.
///
/// ```
/// let not_a_pool = std::ptr::null_mut();
/// // SAFETY: a null handle is refused.
/// assert!(unsafe { oomguard::watch_pool(0, not_a_pool) }.is_err());
/// ```
pub unsafe fn watch_pool(device: u32, pool: *mut c_void) -> Result<WatchedPool, WatchPoolError> {
    let ordinal = u8::try_from(device).ok().filter(|ordinal| usize::from(*ordinal) < MOST_DEVICES);
    let Some(ordinal) = ordinal else { return Err(WatchPoolError::Device(device)) };
    if pool.is_null() {
        return Err(WatchPoolError::Null);
    }
    let device = Device(ordinal);
    if sampled::add_pool(device, pool) { Ok(WatchedPool { device, pool }) } else { Err(WatchPoolError::Full) }
}

/// A pool that is counted. Dropping it ends that; it keeps neither the pool nor its memory alive.
#[derive(Debug)]
#[must_use = "the pool is counted only while this lives"]
pub struct WatchedPool {
    device: Device,
    pool: *mut c_void,
}

// SAFETY: the handle is compared with others here, and never followed.
unsafe impl Send for WatchedPool {}
// SAFETY: as above; there is nothing to change through a shared reference.
unsafe impl Sync for WatchedPool {}

impl Drop for WatchedPool {
    fn drop(&mut self) {
        sampled::remove_pool(self.device, self.pool);
    }
}

/// A pool cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchPoolError {
    /// The ordinal is too large.
    #[error("device {0} is past the {MOST_DEVICES} whose figures are kept")]
    Device(u32),
    /// There is no pool.
    #[error("the pool's handle is null")]
    Null,
    /// There is no room for another pool.
    #[error("seven pools of the device are watched already: drop one first")]
    Full,
}
