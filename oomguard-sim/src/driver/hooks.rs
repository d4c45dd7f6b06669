//! What a test may do to the card that no driver would let it do. None of these is in CUDA.

use super::abi::{CUresult, CUstream};
use super::{answer, as_caller, card};

/// Kernels launched so far, in every context.
#[unsafe(no_mangle)]
extern "C" fn oomguardSimLaunchCount() -> u64 {
    card().as_ref().map_or(0, crate::card::Card::launches)
}

/// Brings a held-back stream's work to its end while the host does not wait for it, as a device does that is merely quick:
/// queries answer that it is done, and no pool gives memory back.
#[unsafe(no_mangle)]
extern "C" fn oomguardSimReleaseStream(stream: CUstream) -> CUresult {
    answer(|| as_caller(|card, caller| card.release_stream(caller, stream)))
}
