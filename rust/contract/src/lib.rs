//! The contract of replicated engines, as tests that the crates of real engines run.
//!
//! `rota_engine::requests` states what each request compares, writes and answers. [`sequences`] sends random requests to a
//! store in memory and to a real engine, and compares all answers, the contents and the images. An [`Owner`](owner::Owner) appends
//! while a test kills what it appends to.
#![forbid(unsafe_code)]

// Layers, lowest first.

pub mod answers;
pub mod generate;

pub mod sequences;

pub mod owner;
