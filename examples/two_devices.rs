//! Two devices kept apart: `cargo run --example two_devices`. With one device both halves run on it.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use oomguard::track_gpu_mem;
use oomguard_examples::MIB;
use oomguard_sim::config::CardConfig;
use oomguard_sim::launch::ensure_card;
use std::sync::Arc;

#[track_gpu_mem]
fn pipeline(first: &Arc<CudaStream>, second: &Arc<CudaStream>) -> Result<CudaSlice<u8>, DriverError> {
    let hidden = encode(first)?;
    decode(second, &hidden)
}

#[track_gpu_mem]
fn encode(stream: &Arc<CudaStream>) -> Result<CudaSlice<u8>, DriverError> {
    stream.context().bind_to_thread()?;
    stream.alloc_zeros(96 * MIB)
}

#[track_gpu_mem]
fn decode(stream: &Arc<CudaStream>, hidden: &CudaSlice<u8>) -> Result<CudaSlice<u8>, DriverError> {
    stream.context().bind_to_thread()?;
    on_second(stream, hidden.len() / 2)
}

#[track_gpu_mem(name = "decode, second device")]
fn on_second(stream: &Arc<CudaStream>, bytes: usize) -> Result<CudaSlice<u8>, DriverError> {
    stream.alloc_zeros(bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ensure_card(&CardConfig { devices: 2, ..CardConfig::default() })?;
    let _oomguard = oomguard::init();
    let first = CudaContext::new(0)?.default_stream();
    let second = match CudaContext::device_count()? {
        2.. => CudaContext::new(1)?.default_stream(),
        _ => Arc::clone(&first),
    };
    let mut outputs = Vec::new();
    for _ in 0..5 {
        outputs.push(pipeline(&first, &second)?);
    }
    Ok(())
}
