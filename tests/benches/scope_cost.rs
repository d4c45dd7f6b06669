//! What a scope costs in time, as ratios against a baseline of the same run.
//!
//! `cargo bench -p oomguard-tests`. The mode is a matter of the whole process, so that each mode is measured in a process of
//! its own: this program starts itself once for each, and puts their figures side by side at the end. On a machine with no
//! card the simulated one is measured, whose reads cost other than a driver's.

use criterion::Criterion;
use cudarc::driver::{CudaContext, sys};
use oomguard::track_gpu_mem;
use oomguard_sim::config::CardConfig;
use oomguard_sim::launch::ensure_card;
use std::env;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Set in the processes that measure.
const MODE: &str = "OOMGUARD_BENCH_MODE";

const THREADS: usize = 8;
const SITES: usize = 10_000;

#[inline(never)]
#[track_gpu_mem]
fn tracked(value: u64) -> u64 {
    black_box(value)
}

#[inline(never)]
fn bare(value: u64) -> u64 {
    black_box(value)
}

/// As many sites as a very large program has.
mod many {
    use oomguard::__private::{Site, SiteMeta};

    pub(super) static SITES: [Site; super::SITES] = [const {
        Site::new(SiteMeta {
            name: Some("one of many"),
            path: || "one::of::many",
            file: file!(),
            line: line!(),
            growth: None,
            peak: None,
            sees_outcome: false,
        })
    }; super::SITES];
}

#[derive(Clone, Copy)]
struct Pool(sys::CUmemoryPool);

// SAFETY: the driver's pool handles may be used from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    fn default_of_first_device() -> Self {
        let mut pool = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0) }.result().expect("the default pool");
        Self(pool)
    }

    #[inline]
    fn read(self, attribute: sys::CUmemPool_attribute) -> u64 {
        let mut value = 0_u64;
        // SAFETY: the default pool lives as long as its device, and the attributes read here are 64-bit integers.
        let _ = unsafe { sys::cuMemPoolGetAttribute(self.0, attribute, (&raw mut value).cast()) };
        value
    }

    /// What a scope reads at its two edges, and no more.
    #[inline]
    fn reads(self, count: usize) -> u64 {
        use sys::CUmemPool_attribute as Attribute;
        let attributes = [
            Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
            Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
            Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        ];
        (0..count).map(|index| self.read(attributes[index / 2])).sum()
    }
}

/// Time of one call when eight threads make them at once.
fn on_threads(calls: u64, work: impl Fn(u64) -> u64 + Sync) -> Duration {
    let context = CudaContext::new(0).expect("a card");
    let start = Barrier::new(THREADS);
    let slowest = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (work, start, context) = (&work, &start, Arc::clone(&context));
                scope.spawn(move || {
                    context.bind_to_thread().expect("a context");
                    // The call path is known before the clock runs.
                    black_box(work(0));
                    start.wait();
                    let began = Instant::now();
                    for value in 0..calls {
                        black_box(work(value));
                    }
                    began.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).max()
    });
    slowest.unwrap_or_default()
}

fn measure(mode: &str) {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(40);
    let _context = CudaContext::new(0).expect("a card");
    let pool = Pool::default_of_first_device();
    let mut group = criterion.benchmark_group(mode);
    group.bench_function("bare", |bencher| bencher.iter(|| bare(black_box(1))));
    group.bench_function("scope", |bencher| bencher.iter(|| tracked(black_box(1))));
    if mode != "off" {
        let reads = reads_of(mode);
        group.bench_function("reads", |bencher| bencher.iter(|| bare(black_box(1)) + pool.reads(reads)));
        group.bench_function("scope of many", |bencher| {
            let mut next = (0..SITES).cycle();
            bencher.iter(|| {
                let mut call = many::SITES[next.next().unwrap_or_default()].call();
                call.enter();
            });
        });
        group.bench_function("reads on threads", |bencher| {
            bencher.iter_custom(|calls| on_threads(calls, |value| bare(value) + pool.reads(reads)));
        });
        group.bench_function("scope on threads", |bencher| {
            bencher.iter_custom(|calls| on_threads(calls, tracked));
        });
    }
    group.finish();
}

/// Counter reads of one call.
fn reads_of(mode: &str) -> usize {
    if mode == "sampled with peaks" { 6 } else { 4 }
}

/// Criterion's estimate, in nanoseconds.
fn estimate(home: &Path, mode: &str, what: &str) -> Option<f64> {
    let path = home.join(mode).join(what).join("new/estimates.json");
    let estimates: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}

fn main() {
    if let Ok(mode) = env::var(MODE) {
        measure(&mode);
        return;
    }
    if let Err(error) = ensure_card(&CardConfig::default()) {
        eprintln!("{error}");
        exit(1);
    }
    let home = env::var_os("CRITERION_HOME").map_or_else(|| PathBuf::from("target/criterion"), PathBuf::from);
    let itself = env::current_exe().expect("this program");
    for (mode, tracking, peaks) in
        [("off", "off", "off"), ("sampled", "sampled", "off"), ("sampled with peaks", "sampled", "on")]
    {
        let status = Command::new(&itself)
            .args(env::args_os().skip(1))
            .env(MODE, mode)
            .env("CRITERION_HOME", &home)
            .env("OOMGUARD", tracking)
            .env("OOMGUARD_PEAK", peaks)
            .status()
            .expect("this program again");
        if !status.success() {
            exit(1);
        }
    }
    let time = |mode: &str, what: &str| estimate(&home, mode, what).unwrap_or(f64::NAN);
    println!("\nmedians of one run:");
    println!("off: a scope costs {:.2} ns over the bare call", time("off", "scope") - time("off", "bare"));
    for mode in ["sampled", "sampled with peaks"] {
        let reads = time(mode, "reads");
        let of_reads = |what| time(mode, what) / reads;
        println!(
            "{mode}: {} reads {reads:.0} ns; a scope {:.0} ns, {:.2} times the reads; one of {SITES} sites {:.0} ns, {:.2} times",
            reads_of(mode),
            time(mode, "scope"),
            of_reads("scope"),
            time(mode, "scope of many"),
            of_reads("scope of many"),
        );
        println!(
            "{mode}, {THREADS} threads at once: the reads {:.0} ns; a scope {:.0} ns, {:.2} times the reads",
            time(mode, "reads on threads"),
            time(mode, "scope on threads"),
            time(mode, "scope on threads") / time(mode, "reads on threads"),
        );
    }
}
