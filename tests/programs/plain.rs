//! A program that needs no device: what tracking does to it must be nothing.

use oomguard::track_gpu_mem;

#[track_gpu_mem]
fn answer(question: &str) -> Result<usize, String> {
    if question.is_empty() { Err("no question".to_owned()) } else { Ok(question.len()) }
}

fn main() {
    let _oomguard = oomguard::init();
    println!("{:?} {:?}", answer("what is it?"), answer(""));
}
