//! What a waiting Fetch has seen of its partitions. It reads them again only once they may have enough.

use std::collections::BTreeMap;

use kafka_protocol::messages::{
    FetchRequest, FetchResponse, TopicName,
    fetch_request::{FetchPartition, FetchTopic},
    fetch_response::FetchableTopicResponse,
};
use rota_core::error::ErrorCode;
use uuid::Uuid;

use super::{
    Partition, Topic, Topics,
    fetch::{FetchOutcome, READ_COMMITTED, READ_UNCOMMITTED, check_leader_epoch, min_bytes, partition_answer},
    partition_data::Records,
    refusal::BY_ID_SINCE,
};

/// Partitions of one topic that a Fetch gets errors for, however long it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    topic: TopicName,
    topic_id: Uuid,
    /// The position of the topic in the request, if other partitions of it are read.
    read_at: Option<usize>,
    partitions: Vec<(i32, ErrorCode)>,
}

impl Unread {
    /// All partitions of a topic that a Fetch names get this error.
    pub fn all(asked: &FetchTopic, error: ErrorCode) -> Unread {
        let partitions = asked.partitions.iter().map(|named| (named.partition, error)).collect();
        Unread { topic: asked.topic.clone(), topic_id: asked.topic_id, read_at: None, partitions }
    }

    /// Returns its approximate memory in bytes.
    pub fn size_bytes(&self) -> usize {
        size_of::<Unread>() + self.partitions.capacity() * size_of::<(i32, ErrorCode)>()
    }

    /// Adds the errors to the answer for what was read.
    pub fn add_to(&self, response: &mut FetchResponse) {
        let errors = self.partitions.iter().map(|(index, error)| {
            let wanted = FetchPartition::default().with_partition(*index);
            partition_answer(&wanted, Err(*error), READ_UNCOMMITTED)
        });
        match self.read_at.and_then(|at| response.responses.get_mut(at)) {
            Some(answer) => answer.partitions.extend(errors),
            None => response.responses.push(
                FetchableTopicResponse::default()
                    .with_topic(self.topic.clone())
                    .with_topic_id(self.topic_id)
                    .with_partitions(errors.collect()),
            ),
        }
    }
}

/// What a fetch has seen when it was not complete.
#[derive(Clone, Debug)]
pub struct Seen {
    ready_bytes: usize,
    /// Of each partition in the request; `None`: it has to be read to know.
    positions: Option<Vec<Position>>,
}

/// What is known of a partition without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// This node does not lead it or cannot read it, or it does not exist.
    Absent,
    Led {
        /// Bytes that have become readable since the start.
        arrived_bytes: u64,
        /// The base offset of the newest segment. A read ends where a segment does.
        segment_base: i64,
        /// The first offset of the oldest open transaction, from which a reader of committed records sees none.
        held_from: Option<i64>,
    },
}

impl Position {
    /// Returns the most bytes that a reader may have got since `then`; `None`: it has to read to know.
    fn growth(self, then: Position) -> Option<u64> {
        match (then, self) {
            (Position::Absent, Position::Absent) => Some(0),
            (
                Position::Led { arrived_bytes: before, segment_base: old_base, held_from: was_held },
                Position::Led { arrived_bytes, segment_base, held_from },
            ) if segment_base == old_base => match was_held {
                // Fewer are those of another topic of this name.
                None => arrived_bytes.checked_sub(before),
                // All that has come since is after the open transaction.
                Some(_) => (held_from == was_held).then_some(0),
            },
            _ => None,
        }
    }
}

impl Seen {
    /// Returns its approximate memory in bytes.
    pub fn size_bytes(&self) -> usize {
        self.positions.as_ref().map_or(0, |positions| positions.len() * size_of::<Position>())
    }
}

impl Topics {
    /// Leaves in a request that waits only what it waits for: as in Kafka each partition once, as it was named last. Data that
    /// comes must not cost the length of the request. Returns the partitions that this node cannot read.
    pub fn take_unread(&self, request: &mut FetchRequest, version: i16) -> Vec<Unread> {
        let mut unread = Vec::new();
        let mut read: Vec<FetchTopic> = Vec::new();
        let mut newest = self.newest_mentions(request, version);
        for asked in &request.topics {
            let found = match self.asked(version >= BY_ID_SINCE, &asked.topic, asked.topic_id) {
                Ok((_, found)) => found,
                Err(error) => {
                    unread.push(Unread::all(asked, error));
                    continue;
                }
            };
            let (mut wanted, mut errors) = (Vec::new(), Vec::new());
            for named in &asked.partitions {
                // A repeated partition is already there.
                let Some(named) = newest.remove(&(found.id, named.partition)) else { continue };
                match self.partition(found, named.partition) {
                    Ok(_) => wanted.push(named.clone().with_unknown_tagged_fields(BTreeMap::new())),
                    Err(error) => errors.push((named.partition, error)),
                }
            }
            let (topic, topic_id) = (asked.topic.clone(), asked.topic_id);
            let is_read = !wanted.is_empty();
            if !errors.is_empty() || asked.partitions.is_empty() {
                let read_at = is_read.then_some(read.len());
                unread.push(Unread { topic: topic.clone(), topic_id, read_at, partitions: errors });
            }
            if is_read {
                wanted.shrink_to_fit();
                read.push(FetchTopic::default().with_topic(topic).with_topic_id(topic_id).with_partitions(wanted));
            }
        }
        request.topics = read;
        request.unknown_tagged_fields = BTreeMap::new();
        unread
    }

    /// Returns what a fetch with this outcome has seen.
    pub fn seen(&self, request: &FetchRequest, version: i16, outcome: &FetchOutcome) -> Seen {
        Seen { ready_bytes: outcome.ready_bytes, positions: self.positions(request, version).collect() }
    }

    /// Whether a fetch that has `seen` this may be complete by now. Reads nothing.
    pub fn may_be_complete(&self, request: &FetchRequest, version: i16, seen: &Seen) -> bool {
        let Some(before) = &seen.positions else { return true };
        let growths = self.positions(request, version).zip(before).map(|(now, then)| now?.growth(*then));
        let grown = growths.sum::<Option<u64>>();
        grown.is_none_or(|grown| seen.ready_bytes as u64 + grown >= min_bytes(request) as u64)
    }

    /// Returns the position of each partition in the request.
    fn positions<'r>(
        &'r self,
        request: &'r FetchRequest,
        version: i16,
    ) -> impl Iterator<Item = Option<Position>> + use<'r> {
        let is_committed = request.isolation_level == READ_COMMITTED;
        request.topics.iter().flat_map(move |asked| {
            let found = self.asked(version >= BY_ID_SINCE, &asked.topic, asked.topic_id).map(|(_, topic)| topic);
            asked.partitions.iter().map(move |wanted| self.position(found, wanted, is_committed))
        })
    }

    fn position(
        &self,
        found: Result<&Topic, ErrorCode>,
        wanted: &FetchPartition,
        is_committed: bool,
    ) -> Option<Position> {
        let led = found.and_then(|topic| self.partition(topic, wanted.partition));
        let Ok((partition, epoch)) = led else { return Some(Position::Absent) };
        let Partition { log, transactions, .. } = partition;
        let segment_base = match log {
            Records::Memory(_) => 0,
            Records::Disk(disk) => disk.on_disk.view.segments().last().map_or(0, |newest| newest.base_offset),
            // Their batches are made for each read.
            Records::Offsets(_) => return None,
        };
        let is_readable =
            check_leader_epoch(wanted.current_leader_epoch, epoch).is_ok() && log.first_offset() <= wanted.fetch_offset;
        let held_from = if is_committed { transactions.first_open() } else { None };
        is_readable.then_some(Position::Led { arrived_bytes: partition.arrived_bytes, segment_base, held_from })
    }
}
