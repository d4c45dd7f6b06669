//! The level of memory at this moment.

/// Allocated bytes of the pools of this thread's device.
///
/// # Errors
/// A sentence that says why there is no figure.
#[cfg(feature = "enabled")]
pub(crate) fn allocated() -> Result<u64, String> {
    use crate::{probe, scope};
    scope::start();
    let Some(sampler) = probe::sampler() else {
        return Err(
            probe::chosen().map_or_else(|| "tracking could not start".to_owned(), |choice| choice.reason.clone())
        );
    };
    let device = sampler
        .current_device()
        .ok_or("this thread has no CUDA context, or its device has no memory pools that can be read")?;
    let reading = sampler.read(device).ok_or("the driver refused to read the pools")?;
    Ok(reading.allocated.cast_unsigned())
}

/// Nothing is known in a build without tracking.
///
/// # Errors
/// Always.
#[cfg(not(feature = "enabled"))]
pub(crate) fn allocated() -> Result<u64, String> {
    Err(crate::report::DISABLED.to_owned())
}
