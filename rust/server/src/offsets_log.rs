//! The log under `__consumer_offsets`: from the coordinators' appends to those of the fenced log, and back.

use std::collections::HashMap;

use rota_core::{effects::AppendId, error::ErrorCode, records::Record};
use rota_log::{Completion, FencedLog, LogAppendId, LogError, LogRecord, MemoryLog};

/// The epoch of every partition: there is one node, and it owns them from its start to its end.
pub const EPOCH: u32 = 0;

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

/// The log of all partitions, in memory.
#[derive(Debug)]
pub struct OffsetsLog {
    log: MemoryLog,
    names: HashMap<LogAppendId, AppendId>,
}

impl OffsetsLog {
    /// With so many empty partitions; an append of more than `batch_bytes_max` fails.
    pub fn new(partitions: u32, batch_bytes_max: usize) -> OffsetsLog {
        let mut log = MemoryLog::new(partitions, batch_bytes_max);
        for partition in 0..partitions {
            let opened = log.open(partition as i32, EPOCH as i32);
            debug_assert_eq!(opened, Ok(0), "a new log has the partition and nobody has opened it");
        }
        OffsetsLog { log, names: HashMap::new() }
    }

    /// Takes `records` as one batch.
    pub fn append(&mut self, partition: u32, append_id: AppendId, wall_ms: i64, records: &[Record]) {
        let records = records.iter().map(|record| LogRecord { key: record.key_bytes(), value: record.value_bytes() });
        let log_append_id = self.log.append(partition as i32, EPOCH as i32, wall_ms, records.collect());
        self.names.insert(log_append_id, append_id);
    }

    /// Makes durable what was appended, unless that is held back, and takes the ends that have arrived.
    pub fn ended(&mut self) -> Vec<Ended> {
        if self.names.is_empty() {
            return Vec::new();
        }
        self.log.flush();
        let completions = self.log.completions();
        completions.into_iter().filter_map(|completion| self.translated(completion)).collect()
    }

    fn translated(&mut self, completion: Completion) -> Option<Ended> {
        let append_id = self.names.remove(&completion.append_id)?;
        let error = |error: LogError| ErrorCode::from_code(error.code()).unwrap_or(ErrorCode::UnknownServerError);
        let result = completion.result.map(|offset| offset as u64).map_err(error);
        Some(Ended { partition: completion.partition as u32, append_id, result })
    }

    /// From now on no append ends.
    pub fn hold(&mut self) {
        self.log.hold();
    }

    /// Appends end again, those that were held back first; gives how many those are.
    pub fn release(&mut self) -> usize {
        self.log.release_all()
    }

    /// The next `times` appends to end fail with `error`.
    pub fn fail(&mut self, error: ErrorCode, times: u32) {
        self.log.fail_next(LogError::Failed { code: error.code() }, u64::from(times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_gone() -> [Record; 1] {
        [Record::Group { group_id: "g".into(), value: None }]
    }

    #[test]
    fn appends_end_with_the_coordinators_names_in_the_order_of_their_partition() {
        let mut log = OffsetsLog::new(2, 1_000);
        log.append(1, AppendId(7), 0, &group_gone());
        log.append(0, AppendId(7), 0, &group_gone());
        log.append(1, AppendId(8), 0, &group_gone());
        let ended: Vec<_> = log.ended().into_iter().map(|end| (end.partition, end.append_id.0, end.result)).collect();
        assert_eq!(ended, [(1, 7, Ok(0)), (0, 7, Ok(0)), (1, 8, Ok(1))]);
        assert!(log.ended().is_empty());
    }

    #[test]
    fn held_appends_end_when_they_are_released() {
        let mut log = OffsetsLog::new(1, 1_000);
        log.hold();
        log.append(0, AppendId(0), 0, &group_gone());
        assert!(log.ended().is_empty());
        assert_eq!(log.release(), 1);
        assert_eq!(log.ended().len(), 1);
    }

    #[test]
    fn an_append_fails_as_it_was_asked_to_and_so_does_one_that_is_too_large() {
        let mut log = OffsetsLog::new(1, 5);
        log.fail(ErrorCode::NotEnoughReplicas, 1);
        log.append(0, AppendId(0), 0, &group_gone());
        log.append(0, AppendId(1), 0, &group_gone());
        log.append(0, AppendId(2), 0, &[group_gone(), group_gone()].concat());
        let results: Vec<_> = log.ended().into_iter().map(|end| end.result).collect();
        assert_eq!(results, [Err(ErrorCode::NotEnoughReplicas), Ok(0), Err(ErrorCode::MessageTooLarge)]);
    }
}
