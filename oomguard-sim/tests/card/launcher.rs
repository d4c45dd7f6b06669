//! Starting programs on the card, and refusing to.

use std::process::Command;

use oomguard_sim::launch::{ACTIVE, command_on_card, find_library, install};

use crate::small;

/// This test program, about to list nothing: a child that loads no driver unless a test in it does.
fn child() -> Command {
    Command::new(std::env::current_exe().expect("the test program's path"))
}

#[test]
fn a_bad_value_is_named_and_nothing_runs() {
    if std::env::var_os(ACTIVE).is_some() {
        let error = cudarc::driver::CudaContext::new(0).unwrap_err();
        assert_eq!(error.0, cudarc::driver::sys::cudaError_enum::CUDA_ERROR_INVALID_VALUE);
        return;
    }
    let mut command = child();
    command.args(["--exact", "launcher::a_bad_value_is_named_and_nothing_runs", "--nocapture"]);
    command_on_card(&mut command, &small()).unwrap();
    command.env("OOMGUARD_SIM_CAPACITY", "lots").env("OOMGUARD_SIM_CAPACTIY", "24GiB");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("OOMGUARD_SIM_CAPACITY is \"lots\": expected a size such as 24GiB"), "{text}");
    assert!(text.contains("OOMGUARD_SIM_CAPACTIY is not known; did you mean OOMGUARD_SIM_CAPACITY?"), "{text}");
}

#[test]
fn the_library_is_laid_under_the_driver_s_names() {
    let folder = install(&find_library().unwrap()).unwrap();
    assert!(folder.join("libcuda.so").is_file());
    assert_eq!(std::fs::read_link(folder.join("libcuda.so.1")).unwrap().as_os_str(), "libcuda.so");
}
