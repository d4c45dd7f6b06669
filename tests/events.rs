//! Events for `tracing`: the mode at INFO, each call at TRACE, broken budgets at WARN, all under the target `oomguard`.

use cudarc::driver::CudaSlice;
use oomguard::track_gpu_mem;
use oomguard_tests::{on_card, stream, tensor};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::Level;

/// What was written to it, a line an event.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn subscribe(most: Level) -> Self {
        let lines = Self::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(most).with_ansi(false).without_time();
        subscriber.with_writer(move || writer.clone()).init();
        lines
    }
    /// The events of a level.
    fn at(&self, level: Level) -> Vec<String> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&written);
        let of_level = |line: &&str| line.trim_start().starts_with(level.as_str()) && line.contains("oomguard: ");
        text.lines().filter(of_level).map(str::to_owned).collect()
    }
}

#[track_gpu_mem(name = "within")]
fn within() -> CudaSlice<u8> {
    tensor(&stream(), 2)
}

#[track_gpu_mem(name = "over", growth = "1 MiB", peak = "3 MiB")]
fn over() -> CudaSlice<u8> {
    let stream = stream();
    let _scratch = tensor(&stream, 2);
    tensor(&stream, 2)
}

#[test]
fn each_call_is_told_at_trace_with_its_figures() {
    on_card!(|| {
        let lines = Lines::subscribe(Level::TRACE);
        let _context = stream();
        drop(within());
        let calls = lines.at(Level::TRACE);
        assert_eq!(calls.len(), 1, "{calls:?}");
        for field in ["scope=\"within\"", "device=0", "ending=\"returned\"", "net=2097152", "peak=2097152"] {
            assert!(calls[0].contains(field), "{field} in {calls:?}");
        }
        let mode = lines.at(Level::INFO);
        assert_eq!(mode.len(), 1, "{mode:?}");
        assert!(mode[0].contains("mode=sampled requested=auto"), "{mode:?}");
    });
}

#[test]
fn only_a_broken_budget_is_told_at_warn() {
    on_card!(|| {
        let lines = Lines::subscribe(Level::WARN);
        let _context = stream();
        drop(within());
        assert_eq!(lines.at(Level::WARN), Vec::<String>::new());
        drop(over());
        let warnings = lines.at(Level::WARN);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("scope=\"over\" device=0 net=2097152 budget=1048576"), "{warnings:?}");
        assert!(warnings[1].contains("peak=4194304 budget=3145728"), "{warnings:?}");
        assert!(lines.at(Level::TRACE).is_empty());
    });
}

#[test]
fn a_subscriber_that_calls_tracked_functions_is_no_deadlock() {
    struct Calling;
    impl tracing::Subscriber for Calling {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            if *event.metadata().level() == Level::INFO {
                inside();
            }
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    #[track_gpu_mem]
    fn inside() {}
    on_card!(|| {
        tracing::subscriber::set_global_default(Calling).expect("the first subscriber");
        // The first call of the process starts tracking, whose event runs the subscriber.
        inside();
        let calls = oomguard::report().scope("inside").map(oomguard::report::ScopeReport::calls);
        assert_eq!(calls, Some(2));
    });
}
