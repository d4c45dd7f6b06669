//! A future's call: entered and left at each poll, one call from the first poll to its end.

use cudarc::driver::{CudaSlice, CudaStream};
use oomguard::track_gpu_mem;
use oomguard_tests::{figures, on_card, stream, tensor};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const MEGABYTE: i64 = 1 << 20;

type Stream = Arc<CudaStream>;
type Tensor = CudaSlice<u8>;

/// Pending once.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[track_gpu_mem]
async fn two_steps(stream: &Stream) -> (Tensor, Tensor) {
    let first = tensor(stream, 2);
    pause().await;
    (first, tensor(stream, 3))
}

#[test]
fn what_others_do_between_two_polls_is_not_the_futures() {
    on_card!(|| {
        let stream = stream();
        let mut future = pin!(two_steps(&stream));
        assert!(poll_once(future.as_mut()).is_pending());
        let _of_others = tensor(&stream, 100);
        let Poll::Ready(_kept) = poll_once(future.as_mut()) else { panic!("it pauses once") };
        let figures = figures("two_steps");
        assert_eq!((figures.calls, figures.open), (1, 0));
        assert_eq!(figures.exact.net.expect("a net").total, 5 * MEGABYTE);
        assert_eq!(figures.exact.peak.expect("a peak").max, 5 * MEGABYTE);
    });
}

#[test]
fn a_future_that_is_never_polled_is_no_call_and_one_half_way_is_open() {
    on_card!(|| {
        let stream = stream();
        drop(two_steps(&stream));
        let mut future = Box::pin(two_steps(&stream));
        assert!(poll_once(future.as_mut()).is_pending());
        let figures_now = figures("two_steps");
        assert_eq!((figures_now.calls, figures_now.open), (1, 1));
        assert!(oomguard::report().notes.iter().any(|note| note.contains("1 calls had not ended")));
    });
}

#[test]
fn a_dropped_future_is_cancelled_and_frees_within_its_call() {
    on_card!(|| {
        let stream = stream();
        let mut future = Box::pin(two_steps(&stream));
        assert!(poll_once(future.as_mut()).is_pending());
        drop(future);
        let figures = figures("two_steps");
        assert_eq!((figures.calls, figures.open, figures.cancelled), (1, 0, 1));
        assert_eq!(figures.exact.net.expect("a net").total, 0);
    });
}

#[test]
fn a_future_that_changes_threads_is_one_call() {
    on_card!(|| {
        let stream = stream();
        let mut future = Box::pin(two_steps(&stream));
        assert!(poll_once(future.as_mut()).is_pending());
        let kept = std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                stream.context().bind_to_thread().expect("a context");
                match poll_once(future.as_mut()) {
                    Poll::Ready(kept) => kept,
                    Poll::Pending => panic!("it pauses once"),
                }
            });
            elsewhere.join().expect("the thread")
        });
        let figures = figures("two_steps");
        assert_eq!((figures.calls, figures.open, figures.unknown), (1, 0, 0));
        assert_eq!(figures.exact.net.expect("a net").total, 5 * MEGABYTE);
        drop(kept);
    });
}

#[test]
fn a_poll_on_a_thread_with_no_context_leaves_the_figures_unknown() {
    #[track_gpu_mem]
    async fn computes(value: u32) -> u32 {
        pause().await;
        value + 1
    }
    on_card!(|| {
        let _stream = stream();
        let mut future = Box::pin(computes(1));
        assert!(poll_once(future.as_mut()).is_pending());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(poll_once(future.as_mut()).is_ready()));
        });
        let figures = figures("computes");
        assert_eq!((figures.calls, figures.open, figures.unknown, figures.exact.calls), (1, 0, 1, 0));
    });
}

#[test]
fn errors_and_panics_of_futures_are_counted() {
    #[track_gpu_mem]
    async fn fails(how: u8) -> Result<u8, std::num::ParseIntError> {
        pause().await;
        match how {
            0 => "x".parse(),
            1 => panic!("as asked"),
            _ => Ok(how),
        }
    }
    on_card!(|| {
        let _stream = stream();
        for how in 0..3 {
            let mut future = Box::pin(fails(how));
            assert!(poll_once(future.as_mut()).is_pending());
            drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll_once(future.as_mut()))));
        }
        let figures = figures("fails");
        assert_eq!((figures.calls, figures.open), (3, 0));
        assert_eq!((figures.errors, figures.panics, figures.cancelled), (Some(1), 1, 0));
    });
}

#[test]
fn calls_inside_a_future_stand_under_it() {
    #[track_gpu_mem]
    async fn parent(stream: &Stream) -> Tensor {
        pause().await;
        child(stream).await
    }
    #[track_gpu_mem]
    async fn child(stream: &Stream) -> Tensor {
        pause().await;
        tensor(stream, 4)
    }
    on_card!(|| {
        let stream = stream();
        let mut future = pin!(parent(&stream));
        let kept = loop {
            if let Poll::Ready(kept) = poll_once(future.as_mut()) {
                break kept;
            }
        };
        let (parent, child) = (figures("parent"), figures("child"));
        assert_eq!(parent.exact.net.expect("a net").total, 4 * MEGABYTE);
        assert_eq!((parent.exact.self_net, child.exact.self_net), (Some(0), Some(4 * MEGABYTE)));
        let report = oomguard::report();
        let path = report.paths.iter().find(|path| path.name.ends_with("child")).expect("the child's path");
        assert!(path.parent.is_some_and(|parent| report.paths[parent as usize].name.ends_with("parent")));
        drop(kept);
    });
}

#[test]
fn tasks_of_a_server_add_up() {
    #[track_gpu_mem]
    async fn handle(stream: Stream) -> usize {
        let tensor = tensor(&stream, 1);
        tokio::task::yield_now().await;
        tensor.len()
    }
    on_card!(|| {
        let stream = stream();
        let context = Arc::clone(stream.context());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .on_thread_start(move || context.bind_to_thread().expect("a context"))
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let tasks: Vec<_> = (0..200).map(|_| tokio::spawn(handle(Arc::clone(&stream)))).collect();
            for task in tasks {
                task.await.expect("the task");
            }
        });
        let figures = figures("handle");
        assert_eq!((figures.calls, figures.open, figures.cancelled), (200, 0, 0));
        assert_eq!(figures.exact.calls + figures.overlapped.calls + figures.unknown, 200);
    });
}
