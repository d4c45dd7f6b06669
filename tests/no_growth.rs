//! `assert_no_growth!`: passes where nothing grows, fails with the evidence where something does.

use cudarc::driver::{CudaSlice, CudaStream};
use oomguard::{assert_no_growth, track_gpu_mem};
use oomguard_tests::{CardConfig, on_card, stream, tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[track_gpu_mem]
fn step(stream: &Arc<CudaStream>, kept: &mut Vec<CudaSlice<u8>>, keep: bool) {
    let scratch = tensor(stream, 5);
    if keep {
        kept.push(stream.alloc_zeros(1024).expect("memory"));
    }
    drop(scratch);
}

/// The message of the panic, if there was one.
fn failure(run: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    Some(panic.downcast_ref::<String>().cloned().expect("a message"))
}

#[test]
fn a_step_that_frees_what_it_takes_passes() {
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        assert_no_growth!(|| step(&stream, &mut kept, false));
    });
}

#[test]
fn a_kibibyte_a_step_fails_with_the_levels_and_the_scope() {
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        let message = failure(|| assert_no_growth!(warmup = 1, iterations = 6, || step(&stream, &mut kept, true)));
        let message = message.expect("it fails");
        assert!(message.contains("the floor rose by 3 KiB over 6 runs, and 0 B is tolerated"), "{message}");
        assert!(message.contains("no_growth::step: +6 KiB over 6 calls"), "{message}");
        for level in ["2 KiB", "3 KiB  +1 KiB", "7 KiB  +1 KiB"] {
            assert!(message.contains(level), "{level} in {message}");
        }
    });
}

#[test]
fn growth_within_the_tolerance_passes() {
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        assert_no_growth!(iterations = 10, tolerance = "5 KiB", || step(&stream, &mut kept, true));
        let message =
            failure(|| assert_no_growth!(iterations = 10, tolerance = 5119, || step(&stream, &mut kept, true)));
        assert!(message.is_some());
    });
}

#[test]
fn a_cache_filled_in_the_warm_up_and_a_sawtooth_pass() {
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        let mut runs = 0;
        assert_no_growth!(warmup = 4, iterations = 20, || {
            runs += 1;
            step(&stream, &mut kept, true);
            if runs % 5 == 0 {
                kept.clear();
            }
        });
        assert_eq!(runs, 24);
    });
}

#[test]
fn what_a_step_returns_is_not_growth() {
    on_card!(|| {
        let stream = stream();
        assert_no_growth!(|| tensor(&stream, 1));
    });
}

#[test]
fn without_a_context_the_check_is_skipped_with_a_word_or_fails_where_a_device_is_required() {
    on_card!(|| {
        let mut runs = 0;
        assert_no_growth!(warmup = 1, iterations = 3, || runs += 1);
        assert_eq!(runs, 4, "the step runs all the same");
    });
}

#[test]
fn where_a_device_is_required_none_is_a_failure() {
    on_card!(CardConfig::default(), &[("OOMGUARD_REQUIRE_DEVICE", "1")], || {
        let message = failure(|| assert_no_growth!(|| ())).expect("it fails");
        assert!(message.contains("nothing to measure by: this thread has no CUDA context"), "{message}");
    });
}
