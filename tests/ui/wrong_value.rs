use oomguard::track_gpu_mem;

#[track_gpu_mem(growth = "64 MB")]
fn decimal_unit() {}

#[track_gpu_mem(peak = true)]
fn not_a_size() {}

#[track_gpu_mem(name = 5)]
fn name_is_no_string() {}

#[track_gpu_mem(name = "")]
fn empty_name() {}

#[track_gpu_mem(growth)]
fn no_value() {}

#[track_gpu_mem(name = "a", name = "b")]
fn twice() {}

fn main() {}
