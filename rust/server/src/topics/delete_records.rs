//! `DeleteRecords`: the records of a partition below an offset are gone for readers, after a restart, too.

use std::collections::BTreeMap;

use kafka_protocol::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, TopicName,
    delete_records_request::DeleteRecordsTopic,
    delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
};
use rota_core::error::ErrorCode;

use super::{Partition, Records, Topics, refuse_internal, starts::Place};

/// The offset that means the high watermark.
const HIGH_WATERMARK: i64 = -1;

/// The error of a topic whose records stay, because its `cleanup.policy` lacks `delete`.
const POLICY_VIOLATION: i16 = 44;

/// The first offset in the answer to an error.
const NOWHERE: i64 = -1;

/// A partition with its first offset after the deletion, or the error code.
type Deletable = Result<(Place, i64), i16>;

impl Topics {
    /// Handles versions 0–2. The new start of a partition on disk is durable before the answer. Of a partition that is
    /// named several times, the last offset counts.
    pub fn delete_records(&mut self, request: &DeleteRecordsRequest) -> DeleteRecordsResponse {
        let mut found: BTreeMap<(&TopicName, i32), Deletable> = BTreeMap::new();
        for topic in &request.topics {
            for asked in &topic.partitions {
                let index = asked.partition_index;
                found.insert((&topic.name, index), self.deletable_below(&topic.name, index, asked.offset));
            }
        }
        let starts: Vec<(Place, i64)> = found.values().filter_map(|found| found.ok()).collect();
        let saved = self.delete_below(&starts);
        let mut response = DeleteRecordsResponse::default();
        for ((name, index), found) in found {
            let outcome = found.and_then(|(_, offset)| saved.map(|()| offset));
            if response.topics.last().is_none_or(|last: &DeleteRecordsTopicResult| last.name != *name) {
                response.topics.push(DeleteRecordsTopicResult::default().with_name(name.clone()));
            }
            if let Some(topic) = response.topics.last_mut() {
                topic.partitions.push(partition_answer(index, outcome));
            }
        }
        response
    }

    /// Returns the partition, and its first offset after the deletion.
    fn deletable_below(&self, name: &str, index: i32, offset: i64) -> Deletable {
        let topic = self.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition.code())?;
        refuse_internal(name).map_err(|error| error.code.code())?;
        let (partition, _) = self.partition(topic, index).map_err(ErrorCode::code)?;
        if topic.configs.keeps_all() {
            return Err(POLICY_VIOLATION);
        }
        let end = partition.log.next_offset();
        let below = if offset == HIGH_WATERMARK { end } else { offset };
        if !(0..=end).contains(&below) {
            return Err(ErrorCode::OffsetOutOfRange.code());
        }
        Ok(((topic.id, index), below.max(partition.log.first_offset())))
    }

    /// Makes the new first offsets durable, then deletes. Errors: `KafkaStorageError`, then nothing is deleted.
    fn delete_below(&mut self, starts: &[(Place, i64)]) -> Result<(), i16> {
        if let Some(disk) = &self.owner.disk {
            disk.save_starts(starts).map_err(|_| ErrorCode::KafkaStorageError.code())?;
        }
        for (place, offset) in starts {
            let Some(Partition { log, .. }) = self.data.get_mut(place) else { continue };
            let before_bytes = log.memory_bytes();
            match log {
                Records::Memory(log) => log.delete_below(*offset),
                Records::Disk(records) => {
                    records.on_disk.view.delete_below(*offset);
                    if let Some(disk) = &self.owner.disk {
                        disk.trim_below(&records.on_disk, *offset);
                    }
                }
                // It was refused before.
                Records::Offsets(_) => {}
            }
            self.owner.count_bytes(log.memory_bytes(), before_bytes);
        }
        Ok(())
    }
}

/// Returns the answer for a topic that the client may not delete from.
pub fn refused(topic: &DeleteRecordsTopic) -> DeleteRecordsTopicResult {
    let answer = |index| partition_answer(index, Err(ErrorCode::TopicAuthorizationFailed.code()));
    let partitions = topic.partitions.iter().map(|asked| answer(asked.partition_index)).collect();
    DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions)
}

fn partition_answer(index: i32, outcome: Result<i64, i16>) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult::default()
        .with_partition_index(index)
        .with_low_watermark(outcome.unwrap_or(NOWHERE))
        .with_error_code(outcome.err().unwrap_or(ErrorCode::None.code()))
}
