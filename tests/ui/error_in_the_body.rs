use oomguard::track_gpu_mem;

#[track_gpu_mem]
fn wrong_type() -> u32 {
    "five"
}

#[track_gpu_mem]
fn wrong_type_in_a_result(fail: bool) -> Result<u32, String> {
    if fail {
        return Err(5);
    }
    Ok(1)
}

#[track_gpu_mem]
async fn wrong_type_in_a_future() -> u32 {
    "five"
}

#[track_gpu_mem]
fn moved_twice(data: Vec<u8>) -> usize {
    drop(data);
    data.len()
}

fn main() {}
