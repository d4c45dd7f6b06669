//! What the examples share: a card to run on.

use cudarc::driver::{CudaContext, DriverError, result};
use std::sync::Arc;

/// Bytes of a mebibyte.
pub const MIB: usize = 1 << 20;

/// Takes all of the card but `leave` bytes, by `cuMemAlloc` and so in no pool, to make a large card a small one.
///
/// The memory is held to the end of the process.
///
/// # Errors
/// The driver's, where less than `leave` is free already.
pub fn shrink_card(context: &Arc<CudaContext>, leave: usize) -> Result<(), DriverError> {
    context.bind_to_thread()?;
    let (free, _) = context.mem_get_info()?;
    // SAFETY: nobody reads or writes the memory, and it is never freed.
    unsafe { result::malloc_sync(free.saturating_sub(leave)) }?;
    Ok(())
}
