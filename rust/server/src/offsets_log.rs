//! The log under `__consumer_offsets`, in memory: appends end in order within a partition, normally as soon as the
//! event that made them is over. For tests their ends can be held back, or made failures.

use std::collections::VecDeque;

use rota_core::{effects::AppendId, error::ErrorCode, records::Record};

/// The end of one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose append it was.
    pub partition: u32,
    /// The coordinator's name for it.
    pub append_id: AppendId,
    /// The first offset, or why it failed.
    pub result: Result<u64, ErrorCode>,
}

/// The in-memory log of all partitions.
#[derive(Debug)]
pub struct OffsetsLog {
    next_offsets: Vec<u64>,
    unended: VecDeque<Ended>,
    held: bool,
    failures: VecDeque<(ErrorCode, u32)>,
}

impl OffsetsLog {
    /// With so many empty partitions.
    pub fn new(partitions: u32) -> OffsetsLog {
        OffsetsLog {
            next_offsets: vec![0; partitions as usize],
            unended: VecDeque::new(),
            held: false,
            failures: VecDeque::new(),
        }
    }

    /// Takes `records` as one batch.
    pub fn append(&mut self, partition: u32, append_id: AppendId, records: &[Record]) {
        let result = match self.failures.front_mut() {
            Some((error, times)) => {
                let error = *error;
                *times -= 1;
                if *times == 0 {
                    self.failures.pop_front();
                }
                Err(error)
            }
            None => {
                let next = &mut self.next_offsets[partition as usize];
                let first = *next;
                *next += records.len() as u64;
                Ok(first)
            }
        };
        self.unended.push_back(Ended { partition, append_id, result });
    }

    /// The next append that has ended; `None` while they are held back.
    pub fn next_ended(&mut self) -> Option<Ended> {
        if self.held { None } else { self.unended.pop_front() }
    }

    /// From now on no append ends.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Appends end again, those that were held back first.
    pub fn release(&mut self) {
        self.held = false;
    }

    /// The next `times` appends fail with `error`.
    pub fn fail(&mut self, error: ErrorCode, times: u32) {
        if times > 0 {
            self.failures.push_back((error, times));
        }
    }

    /// How many appends have not ended.
    pub fn unended(&self) -> usize {
        self.unended.len()
    }
}
