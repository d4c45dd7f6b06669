//! A tokio server whose handlers share a card: `cargo run --example async_server`.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use oomguard::track_gpu_mem;
use oomguard_examples::MIB;
use oomguard_sim::config::CardConfig;
use oomguard_sim::launch::ensure_card;
use std::sync::Arc;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[track_gpu_mem]
async fn handle(stream: Arc<CudaStream>, megabytes: usize) -> Result<usize> {
    let input = upload(&stream, megabytes).await?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    // A worker thread has no context of its own yet.
    stream.context().bind_to_thread()?;
    Ok(stream.clone_dtoh(&input)?.len())
}

#[track_gpu_mem]
async fn upload(stream: &Arc<CudaStream>, megabytes: usize) -> Result<CudaSlice<u8>> {
    tokio::task::yield_now().await;
    stream.context().bind_to_thread()?;
    Ok(stream.clone_htod(&vec![1_u8; megabytes * MIB])?)
}

fn main() -> Result<()> {
    ensure_card(&CardConfig::default())?;
    let _oomguard = oomguard::init();
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let worker_context = Arc::clone(&context);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        // Without this a tensor that is dropped on a worker is not freed: the driver refuses a free with no context.
        .on_thread_start(move || worker_context.bind_to_thread().expect("the context outlives its workers"))
        .build()?;
    runtime.block_on(async {
        let requests: Vec<_> = (0..40).map(|n| tokio::spawn(handle(Arc::clone(&stream), 1 + n % 4))).collect();
        for request in requests {
            request.await??;
        }
        Ok(())
    })
}
