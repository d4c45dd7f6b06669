//! The smallest leak, and the test that keeps it out: `cargo run --example leak`.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use oomguard::track_gpu_mem;
use oomguard_examples::MIB;
use oomguard_sim::config::CardConfig;
use oomguard_sim::launch::ensure_card;
use std::sync::Arc;

struct Trainer {
    stream: Arc<CudaStream>,
    losses: Vec<CudaSlice<u8>>,
}

impl Trainer {
    #[track_gpu_mem(growth = "1 MiB")]
    fn step(&mut self) -> Result<(), DriverError> {
        let activations: CudaSlice<u8> = self.stream.alloc_zeros(64 * MIB)?;
        // The whole tensor is kept where its first number was meant.
        self.losses.push(self.stream.clone_dtod(&activations.slice(..2 * MIB))?);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ensure_card(&CardConfig::default())?;
    let _oomguard = oomguard::init();
    let stream = CudaContext::new(0)?.default_stream();
    let mut trainer = Trainer { stream, losses: Vec::new() };
    for _ in 0..100 {
        trainer.step()?;
    }
    // In a test of yours this is the whole test; here its message is shown.
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        oomguard::assert_no_growth!(warmup = 2, iterations = 6, || trainer.step());
    }));
    println!("the assertion {}", if verdict.is_err() { "failed, as it should" } else { "passed" });
    Ok(())
}
