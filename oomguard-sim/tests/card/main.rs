//! What the simulated card promises to programs that use cudarc, each in a process of its own.

mod copies;
mod driver;
mod faults;
mod frees;
mod launcher;
mod pools;
mod safe;
mod streams;

use std::process::Command;

use oomguard_sim::config::CardConfig;
use oomguard_sim::launch::{ACTIVE, command_on_card};

/// Runs `promise` in a process that was started on `card`: this test, called again by its name.
fn on_card(card: &CardConfig, name: &str, promise: impl FnOnce()) {
    if std::env::var_os(ACTIVE).is_some() {
        return promise();
    }
    let program = std::env::current_exe().expect("the test program's path");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command_on_card(&mut command, card).expect("the simulated card");
    let output = command.output().expect("the test program starts again");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "on the card: {text}");
    assert!(text.contains("1 passed"), "no such test in {name}: {text}");
}

/// A test on a card: the card, and what holds there.
macro_rules! promise {
    ($name:ident on $card:expr, $body:block) => {
        #[test]
        fn $name() {
            let path = module_path!().split_once("::").expect("a module of this crate").1;
            $crate::on_card(&$card, &format!("{path}::{}", stringify!($name)), || $body);
        }
    };
}
use promise;

/// A gigabyte or so, which any machine can pretend to have.
fn small() -> CardConfig {
    CardConfig { context_overhead: 64 << 20, ..CardConfig::with_capacity(1 << 30) }
}

/// A pool's counter, by the driver's number.
fn counter(pool: cudarc::driver::sys::CUmemoryPool, attribute: cudarc::driver::sys::CUmemPool_attribute) -> u64 {
    let mut value = 0u64;
    // SAFETY: the pool lives as long as its device, and its counters are 64 bits wide.
    unsafe { cudarc::driver::result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast()) }
        .expect("a counter of a living pool");
    value
}

/// The default pool of the first device.
fn default_pool() -> cudarc::driver::sys::CUmemoryPool {
    // SAFETY: device 0 is there once the driver is initialised.
    unsafe { cudarc::driver::result::device::get_default_mem_pool(0) }.expect("a default pool")
}
