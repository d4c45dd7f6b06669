//! Functions as people write them: each must compile under the attribute, with no lint, and do what it did.
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings)]

use oomguard::track_gpu_mem;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Free, generic, with a where clause, borrowed result.
#[track_gpu_mem]
pub fn longest<'a, T, const N: usize>(first: &'a [T; N], second: &'a [T]) -> &'a [T]
where
    T: Clone,
{
    if second.len() > N { second } else { first }
}

/// Returns what it borrows from what it borrows mutably.
#[track_gpu_mem]
pub fn push_and_borrow(list: &mut Vec<u8>, fail: bool) -> Result<&mut u8, String> {
    if fail {
        return Err("asked to".to_owned());
    }
    list.push(1);
    let last = &mut *list;
    last.last_mut().ok_or_else(|| "empty".to_owned())
}

/// `impl Trait` on both sides.
#[track_gpu_mem]
pub fn doubled(numbers: impl IntoIterator<Item = u32>) -> impl Iterator<Item = u32> {
    numbers.into_iter().map(|number| number * 2)
}

/// A `Result` with `impl Trait` in it.
#[track_gpu_mem]
pub fn lines(text: &str) -> Result<impl Iterator<Item = &str>, std::num::ParseIntError> {
    let _: u32 = text.len().to_string().parse()?;
    Ok(text.lines())
}

/// A trait object made at the last expression.
#[track_gpu_mem]
pub fn boxed(flag: bool) -> Box<dyn Fn(u32) -> u32> {
    if flag { Box::new(|number| number + 1) } else { Box::new(|number| number) }
}

/// Destructured, mutable and unused parameters.
#[track_gpu_mem(name = "patterns")]
pub fn patterns((first, mut second): (u32, u32), mut third: u32, Wrapper { inner, .. }: Wrapper, _: u8, _unused: u8) -> u32 {
    second += 1;
    third += 1;
    first + second + third + inner
}

/// Something to take apart.
pub struct Wrapper {
    inner: u32,
    _rest: u32,
}

/// Never returns.
#[track_gpu_mem]
pub fn never() -> ! {
    panic!("as promised")
}

/// Diverges, with a type.
#[track_gpu_mem]
pub fn not_yet() -> u32 {
    panic!("not yet")
}

/// Documented, inlined, must be used.
#[inline]
#[must_use]
#[track_gpu_mem(growth = "64 MiB", peak = 1024)]
pub fn attributes() -> u32 {
    7
}

/// Its panic points at its caller.
#[track_caller]
#[track_gpu_mem]
pub fn caller() -> Result<&'static str, ()> {
    Ok(std::panic::Location::caller().file())
}

/// Option is no failure.
#[track_gpu_mem]
pub fn maybe(flag: bool) -> Option<u32> {
    let number = flag.then_some(3)?;
    Some(number + 1)
}

/// Async, with `?`, a reference and an owned argument.
#[track_gpu_mem]
pub async fn fetch(name: &str, data: Vec<u8>) -> Result<usize, std::num::ParseIntError> {
    std::future::ready(()).await;
    let number: usize = name.parse()?;
    Ok(number + data.len())
}

/// Async, no result.
#[track_gpu_mem]
pub async fn nothing() {
    std::future::ready(()).await;
}

/// Async, not `Send`.
#[track_gpu_mem]
pub async fn on_one_thread() -> u32 {
    let shared = Rc::new(5);
    std::future::ready(()).await;
    *shared
}

/// A future by hand.
#[track_gpu_mem]
pub fn by_hand(number: u32) -> impl Future<Output = u32> + Send {
    async move { number }
}

macro_rules! layer {
    ($name:ident, $ty:ty, $value:expr) => {
        /// Made by a macro.
        #[track_gpu_mem]
        pub fn $name(scale: $ty) -> $ty {
            let value = $value;
            value * scale
        }
    };
}
layer!(from_a_macro, u32, 4);

/// A type with methods of every receiver.
#[derive(Clone, Default)]
pub struct Model {
    weights: Vec<u32>,
}

impl Model {
    /// A constant in scope.
    pub const LAYERS: usize = 3;

    /// No receiver.
    #[track_gpu_mem]
    pub fn new(first: u32) -> Self {
        Self { weights: vec![first; Self::LAYERS] }
    }

    /// Shared.
    #[track_gpu_mem]
    pub fn sum(&self) -> u32 {
        self.weights.iter().sum()
    }

    /// Mutable, borrowed result.
    #[track_gpu_mem]
    pub fn first(&mut self) -> Option<&mut u32> {
        self.weights.first_mut()
    }

    /// Owned.
    #[track_gpu_mem]
    pub fn into_weights(self) -> Vec<u32> {
        self.weights
    }

    /// Owned, mutable, in a result.
    #[track_gpu_mem]
    pub fn extended(mut self, number: u32) -> Result<Self, String> {
        self.weights.push(number);
        Ok(self)
    }

    /// Shared ownership.
    #[track_gpu_mem]
    pub fn count(self: Arc<Self>) -> usize {
        self.weights.len()
    }

    /// An async method.
    #[track_gpu_mem]
    pub async fn run(&mut self, by: u32) -> Result<u32, String> {
        self.weights.push(by);
        std::future::ready(()).await;
        Ok(self.sum())
    }

    /// An async method that owns.
    #[track_gpu_mem]
    pub async fn finish(self) -> usize {
        std::future::ready(()).await;
        self.weights.len()
    }
}

/// A trait with a body and without.
pub trait Layer {
    /// What it is made of.
    type Output;
    /// Without a body.
    fn forward(&self, input: u32) -> Self::Output;
    /// With one.
    #[track_gpu_mem]
    fn twice(&self, input: u32) -> (Self::Output, Self::Output) {
        (self.forward(input), self.forward(input))
    }
    /// Async in a trait.
    fn later(&self) -> impl Future<Output = u32>;
}

impl Layer for Model {
    type Output = u32;
    #[track_gpu_mem]
    fn forward(&self, input: u32) -> Self::Output {
        self.sum() + input
    }
    #[track_gpu_mem]
    async fn later(&self) -> u32 {
        self.sum()
    }
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

/// Polls a future that is always ready.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

fn main() {
    assert_eq!(longest(&[1, 2], &[1, 2, 3]), [1, 2, 3]);
    let mut list = vec![];
    *push_and_borrow(&mut list, false).unwrap() = 9;
    assert_eq!(list, [9]);
    assert!(push_and_borrow(&mut list, true).is_err());
    assert_eq!(doubled([1, 2]).sum::<u32>(), 6);
    assert_eq!(lines("a\nb").unwrap().count(), 2);
    assert_eq!(boxed(true)(1) + boxed(false)(1), 3);
    assert_eq!(patterns((1, 2), 3, Wrapper { inner: 4, _rest: 0 }, 0, 0), 12);
    assert!(std::panic::catch_unwind(|| never()).is_err());
    assert!(std::panic::catch_unwind(not_yet).is_err());
    assert_eq!(attributes(), 7);
    assert!(caller().unwrap().ends_with("catalogue.rs"));
    assert_eq!(maybe(true), Some(4));
    assert_eq!(maybe(false), None);
    assert_eq!(block_on(assert_send(fetch("40", vec![1, 2]))), Ok(42));
    assert!(block_on(fetch("x", vec![])).is_err());
    block_on(nothing());
    assert_eq!(block_on(on_one_thread()), 5);
    assert_eq!(block_on(by_hand(6)), 6);
    assert_eq!(from_a_macro(2), 8);
    let mut model = Model::new(2);
    assert_eq!(model.sum(), 6);
    *model.first().unwrap() = 3;
    assert_eq!(model.clone().into_weights(), [3, 2, 2]);
    assert_eq!(model.clone().extended(4).unwrap().sum(), 11);
    assert_eq!(Arc::new(model.clone()).count(), 3);
    assert_eq!(block_on(model.run(1)), Ok(8));
    assert_eq!(model.twice(2), (10, 10));
    assert_eq!(block_on(model.later()), 8);
    assert_eq!(block_on(model.finish()), 4);

    let report = oomguard::report();
    // Every function is there, called or not, under its own path.
    for (scope, calls) in [
        ("longest", 1),
        ("push_and_borrow", 2),
        ("patterns", 1),
        ("Model::into_weights", 1),
        ("Layer::twice", 1),
        ("fetch", 2),
        ("from_a_macro", 1),
    ] {
        let scope = report.scope(scope).unwrap_or_else(|| panic!("no scope {scope} in {report}"));
        if report.mode == oomguard::report::Mode::Sampled {
            assert_eq!(scope.calls(), calls, "{}", scope.name);
        }
    }
}
