//! Workloads that are the same each time, so that their instructions can be counted: `make bench-gate`.
//!
//! A workload prepares what it needs and then does its work inside [`measured`], the only function whose instructions
//! are counted. Nothing here reads a clock or draws a number.

pub mod workloads;

/// What is counted: callgrind is switched on by this function's name, and off when it returns.
#[inline(never)]
pub fn measured<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

/// An odd multiplier, so that a walk by it visits every entry of any even count once, far from the one before.
pub const STRIDE: usize = 0x9e37_79b1;
