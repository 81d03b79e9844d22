//! `TxnOffsetCommit` and `WriteTxnMarkers`, decoded in place, and their answers. The `kafka-protocol` crate does not know
//! their latest versions.

use std::ops::Range;

use rota_core::{
    error::ErrorCode,
    request::{CommitPartition, CommitTopic, TxnOffsetCommit},
    response::CommittedTopic,
};

use crate::{
    answers::{THROTTLE_TIME_MS, of_commit, results_by_topic},
    read::{Reader, WireError},
    requests::{CommitTopicBody, commit_topics, elements, reader, since},
    versions,
    write::Writer,
};

/// The first version of `TxnOffsetCommit` that names topics by id.
pub const TXN_TOPIC_IDS_SINCE: i16 = 6;

/// A decoded `TxnOffsetCommit`, v0–6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnOffsetCommitBody<'a> {
    version: i16,
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The group id.
    pub group_id: &'a str,
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    generation: i32,
    /// The sender's member id; "" if it names none.
    pub member_id: &'a str,
    instance_id: Option<&'a str>,
    /// The topics in request order.
    pub topics: Vec<CommitTopicBody<'a>>,
    /// The partitions of all topics.
    pub partitions: Vec<CommitPartition<'a>>,
}

impl<'a> TxnOffsetCommitBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<TxnOffsetCommitBody<'a>, WireError> {
        let mut reader = reader(versions::TXN_OFFSET_COMMIT, version, body)?;
        let transactional_id = reader.str("transactional_id")?;
        let group_id = reader.str("group_id")?;
        let producer_id = reader.i64("producer_id")?;
        let producer_epoch = reader.i16("producer_epoch")?;
        let generation = if version >= 3 { reader.i32("generation_id_or_member_epoch")? } else { -1 };
        let member_id = since(version, 3, || reader.str("member_id"))?;
        let instance_id = since(version, 3, || reader.nullable_str("group_instance_id"))?;
        let (topics, partitions) = commit_topics(&mut reader, version >= TXN_TOPIC_IDS_SINCE, version >= 2)?;
        reader.skip_tags()?;
        Ok(TxnOffsetCommitBody {
            version,
            transactional_id,
            group_id,
            producer_id,
            producer_epoch,
            generation,
            member_id,
            instance_id,
            topics,
            partitions,
        })
    }

    /// Converts to the core's type, with the topics that the front-end accepted.
    pub fn request<'r>(&'r self, topics: &'r [CommitTopic<'r>]) -> TxnOffsetCommit<'r> {
        TxnOffsetCommit {
            version: self.version,
            group_id: Some(self.group_id),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            generation: self.generation,
            member_id: self.member_id,
            instance_id: self.instance_id,
            topics,
        }
    }
}

/// Writes a `TxnOffsetCommit` answer, v0–6: the partitions that the front-end refused, then the coordinator's results.
pub fn txn_offset_commit(out: &mut Writer<'_>, version: i16, refused: &[CommittedTopic], answered: &[CommittedTopic]) {
    out.i32(THROTTLE_TIME_MS);
    results_by_topic(out, version >= TXN_TOPIC_IDS_SINCE, refused, answered.iter().map(of_commit));
    out.no_tags();
}

/// One marker of a decoded `WriteTxnMarkers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerBody<'a> {
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch from now on.
    pub producer_epoch: i16,
    /// Whether the transaction is committed.
    pub is_commit: bool,
    /// Topics in request order, each with a range of [`WriteTxnMarkersBody::partitions`].
    pub topics: Vec<(&'a str, Range<usize>)>,
    /// The epoch of the transaction coordinator.
    pub coordinator_epoch: i32,
    /// v2+: the protocol of the transaction; 0 and 1 are the first one.
    pub transaction_version: i8,
}

/// A decoded `WriteTxnMarkers`, v1–2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTxnMarkersBody<'a> {
    /// The markers in request order.
    pub markers: Vec<MarkerBody<'a>>,
    /// The partitions of all markers.
    pub partitions: Vec<i32>,
}

impl<'a> WriteTxnMarkersBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<WriteTxnMarkersBody<'a>, WireError> {
        let mut reader = reader(versions::WRITE_TXN_MARKERS, version, body)?;
        let mut partitions = Vec::new();
        let count = reader.count("markers")?;
        let markers = elements(&mut reader, count, |reader| read_marker(reader, version, &mut partitions))?;
        reader.skip_tags()?;
        Ok(WriteTxnMarkersBody { markers, partitions })
    }
}

fn read_marker<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    partitions: &mut Vec<i32>,
) -> Result<MarkerBody<'a>, WireError> {
    let producer_id = reader.i64("producer_id")?;
    let producer_epoch = reader.i16("producer_epoch")?;
    let is_commit = reader.bool("transaction_result")?;
    let count = reader.count("topics")?;
    let topics = elements(reader, count, |reader| {
        let name = reader.str("name")?;
        let first = partitions.len();
        for _ in 0..reader.count("partition_indexes")? {
            partitions.push(reader.i32("partition_indexes")?);
        }
        Ok((name, first..partitions.len()))
    })?;
    let coordinator_epoch = reader.i32("coordinator_epoch")?;
    let transaction_version = since(version, 2, || reader.i8("transaction_version"))?;
    Ok(MarkerBody { producer_id, producer_epoch, is_commit, topics, coordinator_epoch, transaction_version })
}

/// The results of one marker: the producer id, and the codes of its partitions by topic.
pub type MarkerResults = (i64, Vec<(Box<str>, Vec<(i32, ErrorCode)>)>);

/// Writes a `WriteTxnMarkers` answer, v1–2.
pub fn write_txn_markers(out: &mut Writer<'_>, markers: &[MarkerResults]) {
    out.count(markers.len());
    for (producer_id, topics) in markers {
        out.i64(*producer_id);
        out.count(topics.len());
        for (name, partitions) in topics {
            out.str(name);
            out.count(partitions.len());
            for (partition, error) in partitions {
                out.i32(*partition);
                out.i16(error.code());
                out.no_tags();
            }
            out.no_tags();
        }
        out.no_tags();
    }
    out.no_tags();
}
