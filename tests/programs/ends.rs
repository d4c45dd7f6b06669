//! A program that ends in the way its argument names, on whatever card it finds.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use oomguard::track_gpu_mem;
use std::process::exit;
use std::sync::Arc;

#[track_gpu_mem]
fn work(stream: &Arc<CudaStream>) -> CudaSlice<u8> {
    stream.alloc_zeros(2 << 20).expect("memory")
}

#[track_gpu_mem]
fn leave_from_inside(stream: &Arc<CudaStream>) {
    let _held = work(stream);
    exit(7);
}

fn main() -> Result<(), String> {
    let how = std::env::args().nth(1).unwrap_or_default();
    let _oomguard = oomguard::init();
    let stream = CudaContext::new(0).map_err(|error| error.to_string())?.default_stream();
    let _held = work(&stream);
    match how.as_str() {
        "return" => {}
        "question mark" => Err("as asked")?,
        "panic" => panic!("as asked"),
        "exit" => exit(7),
        "exit inside" => leave_from_inside(&stream),
        "exit on a thread" => std::thread::spawn(|| exit(7)).join().map_err(|_| "the thread")?,
        other => return Err(format!("no such end: {other}")),
    }
    println!("returned");
    Ok(())
}
