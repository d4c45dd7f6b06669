use oomguard::track_gpu_mem;

#[track_gpu_mem(nmae = "x")]
fn near_miss() {}

#[track_gpu_mem(colour = "red")]
fn no_such_thing() {}

fn main() {
    near_miss();
    no_such_thing();
}
