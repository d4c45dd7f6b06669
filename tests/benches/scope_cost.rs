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
use std::cell::Cell;
use std::env;
use std::hint::black_box;
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

/// One mode's figures, by criterion.
fn measure(mode: &str) {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(30);
    let _context = CudaContext::new(0).expect("a card");
    let pool = Pool::default_of_first_device();
    let reads = reads_of(mode);
    let mut group = criterion.benchmark_group(mode);
    group.bench_function("bare", |bencher| bencher.iter(|| bare(black_box(1))));
    group.bench_function("scope", |bencher| bencher.iter(|| tracked(black_box(1))));
    if reads > 0 {
        group.bench_function("reads", |bencher| bencher.iter(|| bare(black_box(1)) + pool.reads(reads)));
        group.bench_function("reads on threads", |bencher| {
            bencher.iter_custom(|calls| on_threads(calls, |value| bare(value) + pool.reads(reads)));
        });
        group.bench_function("scope on threads", |bencher| {
            bencher.iter_custom(|calls| on_threads(calls, tracked));
        });
    }
    group.finish();
    ratios(mode, pool);
}

/// Best time of one call of each, in nanoseconds: in turns of a thousand, so that what else the machine does meets all alike.
fn in_turns<const N: usize>(work: [&dyn Fn(u64) -> u64; N]) -> [f64; N] {
    const TURNS: u32 = 300;
    const CALLS: u32 = 1_000;
    let mut best = [f64::INFINITY; N];
    for _ in 0..TURNS {
        for (work, best) in work.iter().zip(&mut best) {
            let began = Instant::now();
            for value in 0..CALLS {
                black_box(work(black_box(value.into())));
            }
            *best = best.min(began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
        }
    }
    best
}

/// The figures that the goals are about.
fn ratios(mode: &str, pool: Pool) {
    let reads = reads_of(mode);
    if reads == 0 {
        let [bare, scope] = in_turns([&bare, &tracked]);
        println!("RESULT {mode}: a scope costs {:.2} ns over the bare call", scope - bare);
        return;
    }
    let next = Cell::new(0);
    let of_many = |value| {
        let site = next.replace((next.get() + 1) % SITES);
        let mut call = many::SITES[site].call();
        call.enter();
        bare(value)
    };
    let [bare_time, read_time, scope, many] =
        in_turns([&bare, &|value| bare(value) + pool.reads(reads), &tracked, &of_many]);
    let (read_time, scope, many) = (read_time - bare_time, scope - bare_time, many - bare_time);
    println!(
        "RESULT {mode}: {reads} reads {read_time:.0} ns; a scope {scope:.0} ns, {:.2} times the reads; \
         one of {SITES} sites {many:.0} ns, {:.2} times",
        scope / read_time,
        many / read_time,
    );
    let [context, counter] = in_turns([
        &|value| {
            let mut device = 0;
            // SAFETY: the pointer is to a live integer.
            let _ = unsafe { sys::cuCtxGetDevice(&raw mut device) };
            bare(value) + u64::from(device.unsigned_abs())
        },
        &|value| bare(value) + processor_counter(),
    ]);
    println!(
        "RESULT {mode}: of a scope, asking for the context's device {:.0} ns, two looks at the processor's counter {:.0} ns",
        context - bare_time,
        2.0 * (counter - bare_time),
    );
    let best = |work: &(dyn Fn(u64) -> u64 + Sync)| {
        (0..15).map(|_| on_threads(4_000, work)).min().unwrap_or_default().as_secs_f64() * 1e9 / 4_000.0
    };
    let (read_time, scope) = (best(&|value| bare(value) + pool.reads(reads)), best(&tracked));
    println!(
        "RESULT {mode}, {THREADS} threads at once: {reads} reads {read_time:.0} ns; a scope {scope:.0} ns, {:.2} times the reads",
        scope / read_time,
    );
}

#[cfg(target_arch = "x86_64")]
fn processor_counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_counter() -> u64 {
    0
}

/// Counter reads of one call.
fn reads_of(mode: &str) -> usize {
    match mode {
        "off" => 0,
        "sampled" => 4,
        _ => 6,
    }
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
    let itself = env::current_exe().expect("this program");
    let mut results = Vec::new();
    for (mode, tracking, peaks) in
        [("off", "off", "off"), ("sampled", "sampled", "off"), ("sampled with peaks", "sampled", "on")]
    {
        let output = Command::new(&itself)
            .args(env::args_os().skip(1))
            .env(MODE, mode)
            .env("OOMGUARD", tracking)
            .env("OOMGUARD_PEAK", peaks)
            .output()
            .expect("this program again");
        let said = String::from_utf8_lossy(&output.stdout);
        print!("{said}");
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            exit(1);
        }
        results.extend(said.lines().filter_map(|line| line.strip_prefix("RESULT ")).map(str::to_owned));
    }
    println!("\nbest of one run, in turns:");
    for result in results {
        println!("{result}");
    }
}
