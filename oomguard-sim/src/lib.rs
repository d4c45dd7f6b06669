//! A simulated CUDA driver.
pub mod pool;
