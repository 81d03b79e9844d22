//! Fetch.

use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, ProducerId,
    fetch_request::FetchPartition,
    fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData},
};
use rota_core::error::ErrorCode;
use rota_log::{batches, store::Slice};
use uuid::Uuid;

use super::{Partition, Topics, partition_data::Records, refusal::BY_ID_SINCE, settings::FETCH_BYTES_MAX};

/// The first version with fetch sessions.
const SESSIONS_SINCE: i16 = 7;
/// The session epochs of a full fetch: "new session" and "no session".
const FULL_FETCH_EPOCHS: [i32; 2] = [0, -1];
pub(super) const READ_UNCOMMITTED: i8 = 0;
pub(super) const READ_COMMITTED: i8 = 1;

/// The result of a fetch.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchOutcome {
    /// The current answer.
    pub response: FetchResponse,
    /// Bytes of records in the answer.
    pub bytes: usize,
    /// Bytes that count towards the least number asked for. Of a partition with more records than the answer, these are as
    /// many as its limit: Kafka also counts the part of a batch that it cuts off there.
    pub ready_bytes: usize,
    /// Number of partitions that this node leads and can read.
    pub readable: usize,
    /// Whether waiting is pointless: an error of an existing partition or of the request, or no partition to wait for.
    pub has_error: bool,
}

impl FetchOutcome {
    /// Whether the answer can be sent now: there is enough data, or waiting is not requested or impossible.
    pub fn is_complete(&self, request: &FetchRequest) -> bool {
        self.has_error || request.max_wait_ms <= 0 || self.ready_bytes >= min_bytes(request)
    }
}

/// Returns the least bytes of records to wait for. No answer has more than its limit.
pub(super) fn min_bytes(request: &FetchRequest) -> usize {
    usize::try_from(request.min_bytes).unwrap_or(0).min(bytes_max(request))
}

/// Returns the limit on the bytes of records in an answer.
fn bytes_max(request: &FetchRequest) -> usize {
    usize::try_from(request.max_bytes).unwrap_or(0).min(FETCH_BYTES_MAX)
}

/// The remaining bytes of a fetch.
struct Budget {
    left_bytes: usize,
    /// Whether the next batch is included whatever its size, since none was found before.
    at_least_one: bool,
}

impl Topics {
    /// Handles versions 4–18. Returns whole batches in request order, as many as fit, but always the first one. Every
    /// answer has session id 0, so no request continues a session. Of committed records only, an answer has those below
    /// the last stable offset, and the aborted transactions among them. A partition that is named several times is answered
    /// once.
    pub fn fetch(&self, request: &FetchRequest, version: i16) -> FetchOutcome {
        let mut outcome = FetchOutcome {
            response: FetchResponse::default(),
            bytes: 0,
            ready_bytes: 0,
            readable: 0,
            has_error: false,
        };
        if version >= SESSIONS_SINCE && !FULL_FETCH_EPOCHS.contains(&request.session_epoch) {
            outcome.response.error_code = ErrorCode::FetchSessionIdNotFound as i16;
            outcome.has_error = true;
            return outcome;
        }
        let mut budget = Budget { left_bytes: bytes_max(request), at_least_one: true };
        // Most requests name one partition, or each of them once.
        let may_repeat = request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > 1;
        let mut newest = if may_repeat { self.newest_mentions(request, version) } else { HashMap::new() };
        for asked in &request.topics {
            let found = self.asked(version >= BY_ID_SINCE, &asked.topic, asked.topic_id);
            let mut answer =
                FetchableTopicResponse::default().with_topic(asked.topic.clone()).with_topic_id(asked.topic_id);
            for named in &asked.partitions {
                let wanted = match &found {
                    Ok((_, topic)) if may_repeat => newest.remove(&(topic.id, named.partition)),
                    _ => Some(named),
                };
                // A repeated partition is already answered.
                let Some(wanted) = wanted else { continue };
                let partition = match &found {
                    Ok((_, topic)) => self.partition(topic, wanted.partition),
                    Err(error) => Err(*error),
                };
                // A partition with another leader, or that cannot be read, has no data to wait for.
                let has_none = matches!(&partition, Err(ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError));
                outcome.has_error |= has_none;
                let read = partition.and_then(|(partition, epoch)| {
                    outcome.readable += 1;
                    let read = read(partition, epoch, wanted, request.isolation_level, &mut budget);
                    outcome.has_error |= read.is_err();
                    let (records, ready_bytes) = read?;
                    outcome.bytes += records.len();
                    outcome.ready_bytes = outcome.ready_bytes.saturating_add(ready_bytes);
                    Ok((partition, records))
                });
                answer.partitions.push(partition_answer(wanted, read, request.isolation_level));
            }
            if !answer.partitions.is_empty() || asked.partitions.is_empty() {
                outcome.response.responses.push(answer);
            }
        }
        outcome.has_error |= outcome.readable == 0;
        outcome
    }

    /// Returns what counts of each partition that exists: as in Kafka, what the request says of it last.
    pub(super) fn newest_mentions<'r>(
        &self,
        request: &'r FetchRequest,
        version: i16,
    ) -> HashMap<(Uuid, i32), &'r FetchPartition> {
        let mut newest = HashMap::new();
        for asked in &request.topics {
            if let Ok((_, topic)) = self.asked(version >= BY_ID_SINCE, &asked.topic, asked.topic_id) {
                newest.extend(asked.partitions.iter().map(|wanted| ((topic.id, wanted.partition), wanted)));
            }
        }
        newest
    }
}

/// Returns whole batches, and the bytes that count towards the least number asked for.
fn read(
    partition: &Partition,
    epoch: i32,
    wanted: &FetchPartition,
    isolation_level: i8,
    budget: &mut Budget,
) -> Result<(Bytes, usize), ErrorCode> {
    check_leader_epoch(wanted.current_leader_epoch, epoch)?;
    let (log, from) = (&partition.log, wanted.fetch_offset);
    if !(log.first_offset()..=log.next_offset()).contains(&from) {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let is_committed = isolation_level == READ_COMMITTED;
    let end = if is_committed { partition.last_stable_offset() } else { log.next_offset() };
    if from >= end {
        return Ok((Bytes::new(), 0));
    }
    let limit_bytes = usize::try_from(wanted.partition_max_bytes).unwrap_or(0).min(budget.left_bytes);
    let Slice { bytes, next_offset } = log.read(from, limit_bytes, budget.at_least_one)?;
    let records = if is_committed { stable(&bytes, end) } else { bytes.clone() };
    let has_more = if bytes.is_empty() {
        // The first batch is above the limit.
        !budget.at_least_one
    } else {
        records.len() == bytes.len() && next_offset < end
    };
    let ready_bytes = if has_more { records.len().max(limit_bytes) } else { records.len() };
    budget.left_bytes = budget.left_bytes.saturating_sub(records.len());
    budget.at_least_one &= records.is_empty();
    Ok((records, ready_bytes))
}

/// Checks a leader epoch; -1: not given. Errors: `FencedLeaderEpoch`, `UnknownLeaderEpoch`.
pub(super) fn check_leader_epoch(asked: i32, current: i32) -> Result<(), ErrorCode> {
    match asked {
        -1 => Ok(()),
        _ if asked == current => Ok(()),
        _ if asked < current => Err(ErrorCode::FencedLeaderEpoch),
        _ => Err(ErrorCode::UnknownLeaderEpoch),
    }
}

/// Returns the whole batches below the last stable offset, where a batch begins.
fn stable(records: &Bytes, last_stable_offset: i64) -> Bytes {
    let within = batches(records).map_while(|batch| {
        let batch = batch.ok()?;
        (batch.header().base_offset < last_stable_offset).then(|| batch.bytes().len())
    });
    let bytes: usize = within.sum();
    records.slice(..bytes)
}

/// Returns the aborted transactions with records in an answer.
fn aborted(partition: &Partition, from: i64, records: &Bytes) -> Vec<AbortedTransaction> {
    if records.is_empty() || partition.transactions.aborted().is_empty() {
        return Vec::new();
    }
    let newest = batches(records).flatten().last();
    let end = newest.map_or(from, |batch| batch.header().last_offset() + 1);
    let shown = |aborted: rota_log::AbortedTransaction| {
        let producer_id = ProducerId(aborted.producer_id);
        AbortedTransaction::default().with_producer_id(producer_id).with_first_offset(aborted.first_offset)
    };
    let mut found = partition.transactions.aborted_within(from, end);
    if matches!(partition.log, Records::Offsets(_)) {
        // Compaction removes records and marker. A client that hears of the transaction then drops the producer's next one.
        found.retain(|aborted| has_records_of(records, aborted));
    }
    found.into_iter().map(shown).collect()
}

fn has_records_of(records: &Bytes, aborted: &rota_log::AbortedTransaction) -> bool {
    let within = aborted.first_offset..=aborted.last_offset;
    batches(records).flatten().any(|batch| {
        let header = batch.header();
        let is_data = header.is_transactional() && !header.is_control();
        is_data && header.producer_id == aborted.producer_id && within.contains(&header.base_offset)
    })
}

/// Errors of partitions that are not looked at.
const UNSEEN: [ErrorCode; 3] =
    [ErrorCode::UnknownTopicOrPartition, ErrorCode::TopicAuthorizationFailed, ErrorCode::UnknownTopicId];

pub(super) fn partition_answer(
    wanted: &FetchPartition,
    read: Result<(&Partition, Bytes), ErrorCode>,
    isolation_level: i8,
) -> PartitionData {
    let is_committed = isolation_level == READ_COMMITTED;
    let answer =
        PartitionData::default().with_partition_index(wanted.partition).with_preferred_read_replica((-1).into());
    match read {
        Ok((partition, records)) => answer
            .with_aborted_transactions(is_committed.then(|| aborted(partition, wanted.fetch_offset, &records)))
            .with_high_watermark(partition.log.next_offset())
            .with_last_stable_offset(partition.last_stable_offset())
            .with_log_start_offset(partition.log.first_offset())
            .with_records(Some(records)),
        Err(error) => answer
            .with_error_code(error as i16)
            // As Kafka says it: a list where it does not look at the partition.
            .with_aborted_transactions(UNSEEN.contains(&error).then(Vec::new))
            .with_high_watermark(-1)
            .with_last_stable_offset(-1)
            .with_log_start_offset(-1)
            .with_records(Some(Bytes::new())),
    }
}
