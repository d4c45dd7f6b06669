//! Three patients on one card, each of which dies of `CUDA_ERROR_OUT_OF_MEMORY` for a reason of its own.
//!
//! `cargo run --release --example detective`. Without a card it starts itself again on the simulated one.

use cudarc::driver::{CudaContext, DriverError};
use oomguard_examples::{MIB, shrink_card};
use oomguard_sim::config::CardConfig;
use oomguard_sim::launch::ensure_card;
use std::sync::Arc;

/// What the patients may use of the card.
const WARD: usize = 2048 * MIB;

/// A cache of answers that never evicts.
mod cache {
    use super::MIB;
    use cudarc::driver::{CudaSlice, CudaStream, DriverError};
    use oomguard::track_gpu_mem;
    use std::collections::HashMap;
    use std::sync::Arc;

    pub(super) struct Server {
        pub(super) stream: Arc<CudaStream>,
        pub(super) answers: HashMap<u32, CudaSlice<u8>>,
    }

    impl Server {
        #[track_gpu_mem]
        pub(super) fn request(&mut self, id: u32) -> Result<(), DriverError> {
            let features = self.features()?;
            let answer = self.answer(&features)?;
            self.answers.insert(id, answer);
            Ok(())
        }

        #[track_gpu_mem]
        fn features(&self) -> Result<CudaSlice<u8>, DriverError> {
            self.stream.alloc_zeros(48 * MIB)
        }

        #[track_gpu_mem]
        fn answer(&self, features: &CudaSlice<u8>) -> Result<CudaSlice<u8>, DriverError> {
            let scratch: CudaSlice<u8> = self.stream.alloc_zeros(features.len())?;
            self.stream.clone_dtod(&scratch.slice(..3 * MIB))
        }
    }
}

/// An index whose small vectors are made between the large, unequal states of a batch.
mod lengths {
    use super::MIB;
    use cudarc::driver::{CudaSlice, CudaStream, DriverError};
    use oomguard::track_gpu_mem;
    use std::sync::Arc;

    pub(super) struct Encoder {
        pub(super) stream: Arc<CudaStream>,
        pub(super) index: Vec<CudaSlice<u8>>,
    }

    impl Encoder {
        #[track_gpu_mem]
        pub(super) fn batch(&mut self, lengths: &[usize]) -> Result<(), DriverError> {
            let mut states = Vec::new();
            for length in lengths {
                states.push(self.encode(*length)?);
                self.remember()?;
            }
            Ok(())
        }

        #[track_gpu_mem]
        fn encode(&self, length: usize) -> Result<CudaSlice<u8>, DriverError> {
            self.stream.alloc_zeros(length)
        }

        #[track_gpu_mem]
        fn remember(&mut self) -> Result<(), DriverError> {
            self.index.push(self.stream.alloc_zeros(MIB)?);
            Ok(())
        }

        #[track_gpu_mem]
        pub(super) fn search(&self) -> Result<CudaSlice<u8>, DriverError> {
            self.stream.alloc_zeros(1024 * MIB)
        }
    }
}

/// A model whose activations do not fit beside its weights.
mod model {
    use super::MIB;
    use cudarc::driver::{CudaSlice, CudaStream, DriverError};
    use oomguard::track_gpu_mem;
    use std::sync::Arc;

    #[track_gpu_mem]
    pub(super) fn load(stream: &Arc<CudaStream>) -> Result<Vec<CudaSlice<u8>>, DriverError> {
        (0..12).map(|_| stream.alloc_zeros(120 * MIB)).collect()
    }

    #[track_gpu_mem]
    pub(super) fn forward(stream: &Arc<CudaStream>, weights: &[CudaSlice<u8>]) -> Result<(), DriverError> {
        for _ in weights {
            let _activations: CudaSlice<u8> = stream.alloc_zeros(700 * MIB)?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ensure_card(&CardConfig::with_capacity(24 << 30))?;
    let _oomguard = oomguard::init();
    let context = CudaContext::new(0)?;
    shrink_card(&context, WARD)?;

    println!("patient 1, a server with a cache: {}", died_of(serve(&context)));
    println!("patient 2, an encoder of unequal lengths: {}", died_of(encode(&context)));
    println!("patient 3, a large model: {}", died_of(infer(&context)));
    Ok(())
}

fn died_of(result: Result<(), DriverError>) -> String {
    match result {
        Ok(()) => "survived".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn serve(context: &Arc<CudaContext>) -> Result<(), DriverError> {
    let mut server = cache::Server { stream: context.default_stream(), answers: std::collections::HashMap::new() };
    let outcome = (0..1_000).try_for_each(|id| server.request(id));
    server.answers.clear();
    context.synchronize()?;
    outcome
}

fn encode(context: &Arc<CudaContext>) -> Result<(), DriverError> {
    let mut encoder = lengths::Encoder { stream: context.default_stream(), index: Vec::new() };
    let lengths: Vec<_> = (0..56).map(|sequence| (24 + sequence * 5 % 8) * MIB).collect();
    let outcome = encoder.batch(&lengths).and_then(|()| encoder.search().map(drop));
    encoder.index.clear();
    context.synchronize()?;
    outcome
}

fn infer(context: &Arc<CudaContext>) -> Result<(), DriverError> {
    let stream = context.default_stream();
    let weights = model::load(&stream)?;
    let outcome = model::forward(&stream, &weights);
    drop(weights);
    context.synchronize()?;
    outcome
}
