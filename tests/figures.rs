//! What a scope's figures say, on the simulated card, where every byte is known.

use cudarc::driver::{CudaSlice, CudaStream};
use oomguard::track_gpu_mem;
use oomguard_tests::{MIB, figures, on_card, stream, tensor};
use std::sync::{Arc, Barrier};

const MEGABYTE: i64 = 1 << 20;

type Stream = Arc<CudaStream>;
type Tensor = CudaSlice<u8>;

#[test]
fn a_call_that_keeps_memory_nets_what_it_keeps() {
    #[track_gpu_mem]
    fn keep(stream: &Stream, kept: &mut Vec<Tensor>) {
        let scratch = tensor(stream, 10);
        kept.push(tensor(stream, 3));
        drop(scratch);
    }
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        for _ in 0..4 {
            keep(&stream, &mut kept);
        }
        let figures = figures("keep");
        let net = figures.exact.net.expect("a net");
        assert_eq!((figures.calls, figures.exact.calls), (4, 4));
        assert_eq!((net.total, net.min, net.max), (12 * MEGABYTE, 3 * MEGABYTE, 3 * MEGABYTE));
        let peak = figures.exact.peak.expect("a peak");
        assert_eq!((peak.min, peak.max), (13 * MEGABYTE, 13 * MEGABYTE));
        assert_eq!(figures.exact.transient.expect("a transient").max, 10 * MEGABYTE);
        assert_eq!(figures.levels.first.expect("a level").allocated, 0);
        assert_eq!(figures.levels.last.expect("a level").allocated, 9 << 20);
    });
}

#[test]
fn reserved_moves_in_granules_and_is_counted_apart() {
    #[track_gpu_mem]
    fn small(stream: &Stream) -> Tensor {
        tensor(stream, 1)
    }
    on_card!(|| {
        let stream = stream();
        let _kept = (small(&stream), small(&stream));
        let reserved = figures("small").exact.reserved_net.expect("a reserved net");
        assert_eq!(
            (reserved.min, reserved.max),
            (0, 32 * MEGABYTE),
            "the first call takes a granule, the second shares it"
        );
    });
}

#[test]
fn a_callers_self_is_what_its_callees_did_not_do() {
    #[track_gpu_mem]
    fn outer(stream: &Stream) -> (Tensor, Tensor) {
        let own = tensor(stream, 5);
        (own, inner(stream))
    }
    #[track_gpu_mem]
    fn inner(stream: &Stream) -> Tensor {
        tensor(stream, 2)
    }
    on_card!(|| {
        let stream = stream();
        let _kept = outer(&stream);
        let (outer, inner) = (figures("outer"), figures("inner"));
        assert_eq!(outer.exact.net.expect("a net").total, 7 * MEGABYTE);
        assert_eq!(outer.exact.self_net, Some(5 * MEGABYTE));
        assert_eq!(inner.exact.self_net, Some(2 * MEGABYTE));
    });
}

#[test]
fn a_callee_that_measures_its_own_peak_leaves_its_callers_right() {
    #[track_gpu_mem]
    fn caller(stream: &Stream) {
        drop(tensor(stream, 40));
        callee(stream);
        callee(stream);
        drop(tensor(stream, 7));
    }
    #[track_gpu_mem]
    fn callee(stream: &Stream) {
        drop(tensor(stream, 9));
    }
    #[track_gpu_mem]
    fn peaks_inside(stream: &Stream) {
        let _held = tensor(stream, 4);
        callee(stream);
    }
    on_card!(|| {
        let stream = stream();
        caller(&stream);
        peaks_inside(&stream);
        let peak = |scope| figures(scope).exact.peak.expect("a peak").max;
        assert_eq!(peak("caller"), 40 * MEGABYTE, "reached before the callees reset the watermark");
        assert_eq!(peak("callee"), 9 * MEGABYTE);
        assert_eq!(peak("peaks_inside"), 13 * MEGABYTE, "its own 4 and the callee's 9");
        let report = oomguard::report();
        assert_eq!(report.devices[0].peak_allocated, Some(40 << 20));
    });
}

#[test]
fn what_a_call_consumes_is_freed_within_it() {
    #[track_gpu_mem]
    fn consume(_tensor: Tensor) {}
    #[track_gpu_mem]
    fn consume_pair((_first, _): (Tensor, u8)) {}
    struct Model(#[expect(dead_code, reason = "it is there to be dropped")] Tensor);
    impl Model {
        #[track_gpu_mem]
        fn finish(self) {}
        #[track_gpu_mem]
        fn last_word(self) -> Result<(), ()> {
            Err(())
        }
    }
    on_card!(|| {
        let stream = stream();
        consume(tensor(&stream, 6));
        consume_pair((tensor(&stream, 5), 0));
        Model(tensor(&stream, 4)).finish();
        Model(tensor(&stream, 3)).last_word().expect_err("it fails");
        let net = |scope| figures(scope).exact.net.expect("a net").total;
        assert_eq!(net("consume"), -6 * MEGABYTE);
        assert_eq!(net("consume_pair"), -5 * MEGABYTE);
        assert_eq!(net("Model::finish"), -4 * MEGABYTE);
        assert_eq!(net("Model::last_word"), -3 * MEGABYTE);
    });
}

#[test]
fn the_temporaries_of_a_last_expression_are_freed_within_the_call() {
    #[track_gpu_mem]
    fn length(stream: &Stream) -> usize {
        tensor(stream, 8).len()
    }
    on_card!(|| {
        let stream = stream();
        assert_eq!(length(&stream), 8 * MIB);
        assert_eq!(figures("length").exact.net.expect("a net").total, 0);
    });
}

#[test]
fn a_returned_tensor_is_its_makers_growth_and_its_droppers_relief() {
    #[track_gpu_mem]
    fn step(stream: &Stream) {
        let _tensor = make(stream);
    }
    #[track_gpu_mem]
    fn make(stream: &Stream) -> Tensor {
        tensor(stream, 2)
    }
    on_card!(|| {
        let stream = stream();
        for _ in 0..10 {
            step(&stream);
        }
        assert_eq!(figures("make").exact.net.expect("a net").total, 20 * MEGABYTE);
        let step = figures("step");
        assert_eq!(step.exact.net.expect("a net").total, 0);
        assert_eq!(step.exact.self_net, Some(-20 * MEGABYTE));
        // What tells the two from a leak: the level at entry never rose.
        let figures = figures("make");
        assert!(figures.levels.windows.iter().all(|window| window.allocated == 0));
    });
}

#[test]
fn every_way_out_is_counted_as_what_it_is() {
    #[track_gpu_mem]
    fn leave(how: u8) -> Result<u8, String> {
        let parsed: u8 = match how {
            0 => return Ok(0),
            1 => "x".parse().map_err(|_| "not a number".to_owned())?,
            2 => panic!("as asked"),
            _ => 7,
        };
        Ok(parsed)
    }
    #[track_gpu_mem]
    fn maybe(value: Option<u8>) -> Option<u8> {
        Some(value? + 1)
    }
    on_card!(|| {
        let _stream = stream();
        for how in [0, 1, 1, 2, 3] {
            drop(std::panic::catch_unwind(|| leave(how)));
        }
        maybe(None);
        let leave = figures("leave");
        assert_eq!((leave.calls, leave.open, leave.errors, leave.panics), (5, 0, Some(2), 1));
        let maybe = figures("maybe");
        assert_eq!((maybe.calls, maybe.errors), (1, None), "an absent value is no failure, and nobody looked for one");
    });
}

#[test]
fn a_call_that_panics_still_has_its_figures() {
    #[track_gpu_mem]
    fn panics(stream: &Stream, kept: &mut Vec<Tensor>) {
        kept.push(tensor(stream, 2));
        let _freed_by_unwinding = tensor(stream, 30);
        panic!("as asked");
    }
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics(&stream, &mut kept)));
        assert!(caught.is_err());
        let figures = figures("panics");
        assert_eq!(figures.panics, 1);
        assert_eq!(figures.exact.net.expect("a net").total, 2 * MEGABYTE);
        assert_eq!(figures.exact.peak.expect("a peak").max, 32 * MEGABYTE);
    });
}

#[test]
fn recursion_counts_its_bytes_once() {
    #[track_gpu_mem]
    fn descend(stream: &Stream, depth: u32, kept: &mut Vec<Tensor>) {
        kept.push(tensor(stream, 1));
        if depth > 0 {
            descend(stream, depth - 1, kept);
        }
    }
    #[track_gpu_mem]
    fn even(stream: &Stream, depth: u32, kept: &mut Vec<Tensor>) {
        kept.push(tensor(stream, 1));
        if depth > 0 {
            odd(stream, depth - 1, kept);
        }
    }
    #[track_gpu_mem]
    fn odd(stream: &Stream, depth: u32, kept: &mut Vec<Tensor>) {
        kept.push(tensor(stream, 10));
        if depth > 0 {
            even(stream, depth - 1, kept);
        }
    }
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        descend(&stream, 4, &mut kept);
        let descend = figures("descend");
        assert_eq!((descend.calls, descend.recursive, descend.exact.calls), (5, 4, 1));
        assert_eq!(descend.exact.net.expect("a net").total, 5 * MEGABYTE);
        assert_eq!(descend.exact.self_net, Some(5 * MEGABYTE));

        even(&stream, 3, &mut kept);
        let (even, odd) = (figures("even"), figures("odd"));
        assert_eq!(even.exact.net.expect("a net").total, 22 * MEGABYTE);
        assert_eq!(even.exact.self_net, Some(2 * MEGABYTE), "its own two, whoever called it");
        assert_eq!(odd.exact.self_net, Some(20 * MEGABYTE));
        assert!(oomguard::report().paths.len() <= 3, "paths do not grow with depth");
    });
}

#[test]
fn call_paths_keep_a_scopes_callers_apart() {
    #[track_gpu_mem]
    fn train(stream: &Stream, kept: &mut Vec<Tensor>) {
        kept.push(shared(stream, 3));
    }
    #[track_gpu_mem]
    fn infer(stream: &Stream) {
        drop(shared(stream, 3));
    }
    #[track_gpu_mem]
    fn shared(stream: &Stream, mebibytes: usize) -> Tensor {
        tensor(stream, mebibytes)
    }
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        train(&stream, &mut kept);
        infer(&stream);
        infer(&stream);
        let report = oomguard::report();
        let calls_under = |caller: &str| {
            let is_shared = |path: &&oomguard::report::PathReport| {
                path.name.ends_with("::shared")
                    && path.parent.is_some_and(|parent| report.paths[parent as usize].name.ends_with(caller))
            };
            report.paths.iter().find(is_shared).map(|path| path.on[0].calls)
        };
        assert_eq!((calls_under("::train"), calls_under("::infer")), (Some(1), Some(2)));
        let indented = report.by_path().to_string();
        assert!(indented.lines().any(|line| line.starts_with("  ") && line.contains("::shared ")), "{indented}");
    });
}

#[test]
fn a_scope_that_was_never_called_is_named() {
    #[track_gpu_mem]
    fn never_called() {}
    #[track_gpu_mem]
    fn generic_never_made<T>(_: T) {}
    on_card!(|| {
        let _ = (never_called as fn(), generic_never_made::<u8> as fn(u8));
        let report = oomguard::report();
        for scope in ["never_called", "generic_never_made"] {
            assert_eq!(report.scope(scope).map(oomguard::report::ScopeReport::calls), Some(0), "{scope}");
        }
        assert!(report.to_string().contains("never called"));
    });
}

#[test]
fn a_call_without_a_context_is_counted_and_its_figures_unknown() {
    #[track_gpu_mem]
    fn early() -> u32 {
        4
    }
    on_card!(|| {
        assert_eq!(early(), 4);
        let report = oomguard::report();
        let scope = report.scope("early").expect("the scope");
        assert_eq!((scope.on[0].device, scope.on[0].calls, scope.on[0].unknown), (None, 1, 1));
        assert_eq!(scope.on[0].exact.net, None);
        let table = report.to_string();
        assert!(table.lines().any(|line| line.contains("early") && line.contains('?')), "{table}");
        assert!(table.contains("no usable CUDA context"), "{table}");
    });
}

#[test]
fn calls_that_overlapped_on_other_threads_are_marked_and_kept_out_of_the_exact_figures() {
    #[track_gpu_mem]
    fn work(stream: &Stream, together: Option<&Barrier>) -> Tensor {
        together.map(Barrier::wait);
        let tensor = tensor(stream, 1);
        together.map(Barrier::wait);
        tensor
    }
    on_card!(|| {
        let stream = stream();
        drop(work(&stream, None));
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    stream.context().bind_to_thread().expect("a context");
                    drop(work(&stream, Some(&together)));
                });
            }
        });
        let figures = figures("work");
        assert_eq!((figures.calls, figures.exact.calls, figures.overlapped.calls), (3, 1, 2));
        assert_eq!(figures.exact.net.expect("a net").total, MEGABYTE);
        let report = oomguard::report();
        assert!(report.notes.iter().any(|note| note.contains("2 calls (~) overlapped")), "{report}");
    });
}

#[test]
fn a_thread_that_ended_leaves_its_figures() {
    #[track_gpu_mem]
    fn on_a_thread(stream: &Stream) -> Tensor {
        tensor(stream, 1)
    }
    on_card!(|| {
        let stream = stream();
        let mut kept = Vec::new();
        for _ in 0..20 {
            let stream = Arc::clone(&stream);
            let work = std::thread::spawn(move || {
                stream.context().bind_to_thread().expect("a context");
                on_a_thread(&stream)
            });
            kept.push(work.join().expect("the thread"));
        }
        let figures = figures("on_a_thread");
        assert_eq!((figures.calls, figures.exact.net.expect("a net").total), (20, 20 * MEGABYTE));
        let starts: Vec<_> = figures.levels.windows.iter().map(|window| window.allocated).collect();
        assert!(starts.is_sorted() && starts.len() == 20, "in the order of time: {starts:?}");
    });
}

#[test]
fn the_series_of_levels_is_bounded_and_keeps_the_newest() {
    #[track_gpu_mem]
    fn creep(stream: &Stream, kept: &mut Vec<Tensor>) {
        kept.push(stream.alloc_zeros(1).expect("a byte"));
    }
    on_card!(|| {
        let (stream, mut kept) = (stream(), Vec::new());
        for _ in 0..1_000 {
            creep(&stream, &mut kept);
        }
        let levels = figures("creep").levels;
        assert!(levels.windows.len() <= 32 && levels.windows.len() > 15, "{}", levels.windows.len());
        assert_eq!(levels.windows.iter().map(|window| window.calls).sum::<u64>(), 1_000);
        assert_eq!(levels.last.expect("a level").allocated, 999);
        let mut entered = 0;
        for window in &levels.windows {
            assert_eq!(window.allocated, entered, "a window's floor is the level at its first call, for it only grew");
            entered += window.calls;
        }
    });
}

#[test]
fn a_json_report_comes_back_as_it_was() {
    #[track_gpu_mem(name = "a \"quoted\" näme\u{1b}[31m")]
    fn named(stream: &Stream) -> Tensor {
        tensor(stream, 1)
    }
    on_card!(|| {
        let stream = stream();
        drop(named(&stream));
        let report = oomguard::report();
        let again = oomguard::Report::from_json(&report.to_json()).expect("our own report");
        assert_eq!(again, report);
        assert!(!report.to_string().contains('\u{1b}'), "a name steers no terminal");
        let newer = report.to_json().replacen("\"schema_version\": 1", "\"schema_version\": 99", 1);
        let error = oomguard::Report::from_json(&newer).expect_err("a newer report").to_string();
        assert!(error.contains("99"), "{error}");
    });
}

#[test]
fn a_pool_that_the_program_made_current_is_seen() {
    use cudarc::driver::sys;
    #[track_gpu_mem]
    fn allocate(stream: &Stream) -> Tensor {
        tensor(stream, 2)
    }
    on_card!(|| {
        let stream = stream();
        let mut properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                // SAFETY: an all-zero location names device 0.
                ..unsafe { std::mem::zeroed() }
            },
            // SAFETY: all-zero properties are the default ones.
            ..unsafe { std::mem::zeroed() }
        };
        let mut pool = std::ptr::null_mut();
        // SAFETY: both pointers are to live values, and the pool is destroyed after its blocks are freed.
        unsafe { sys::cuMemPoolCreate(&raw mut pool, &raw mut properties) }.result().expect("a pool");
        // SAFETY: the pool is alive.
        unsafe { sys::cuDeviceSetMemPool(0, pool) }.result().expect("a current pool");
        let kept = allocate(&stream);
        assert_eq!(figures("allocate").exact.net.expect("a net").total, 2 * MEGABYTE);
        drop(kept);
        stream.synchronize().expect("a sync");
        // SAFETY: nothing is allocated from it any more; the driver makes the default pool the current one again.
        unsafe { sys::cuMemPoolDestroy(pool) }.result().expect("destroyed");
        drop(allocate(&stream));
        assert_eq!(figures("allocate").exact.net.expect("a net").total, 4 * MEGABYTE, "the default pool is read again");
    });
}
