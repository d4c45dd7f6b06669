use oomguard::track_gpu_mem;

#[track_gpu_mem]
struct Model;

#[track_gpu_mem]
impl Model {}

trait Layer {
    #[track_gpu_mem]
    fn forward(&self);
}

#[track_gpu_mem]
const fn sizes() -> usize {
    4
}

fn main() {}
