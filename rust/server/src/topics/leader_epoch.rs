//! `OffsetForLeaderEpoch`: the end offset of a leader epoch. Partitions have had one leader only, in epoch 0, unless Kafka
//! wrote their messages, or a start began a new epoch.

use kafka_protocol::messages::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
};
use rota_core::error::ErrorCode;

use super::{Topics, fetch::check_leader_epoch, partition_data::Records};

/// Unknown epoch, or no offset.
const NONE: i32 = -1;

/// Returns the answer for a topic that the client may not describe.
pub fn refused(topic: &OffsetForLeaderTopic) -> OffsetForLeaderTopicResult {
    let partition = |asked: &OffsetForLeaderPartition| {
        EpochEndOffset::default()
            .with_partition(asked.partition)
            .with_leader_epoch(NONE)
            .with_end_offset(i64::from(NONE))
            .with_error_code(ErrorCode::TopicAuthorizationFailed.code())
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions)
}

impl Topics {
    /// Handles versions 2–4. Topics and partitions are in request order, with repetitions.
    pub fn offset_for_leader_epoch(&self, request: &OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
        let topic = |asked: &OffsetForLeaderTopic| {
            let answers = asked.partitions.iter().map(|partition| self.epoch_end(asked.topic.as_str(), partition));
            OffsetForLeaderTopicResult::default().with_topic(asked.topic.clone()).with_partitions(answers.collect())
        };
        OffsetForLeaderEpochResponse::default().with_topics(request.topics.iter().map(topic).collect())
    }

    fn epoch_end(&self, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
        let answer = EpochEndOffset::default()
            .with_partition(asked.partition)
            .with_leader_epoch(NONE)
            .with_end_offset(i64::from(NONE));
        let found = self.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition);
        let found = found.and_then(|topic| self.partition(topic, asked.partition));
        let found = found.and_then(|(partition, epoch)| {
            check_leader_epoch(asked.current_leader_epoch, epoch)?;
            Ok(end_of_epoch(&partition.log, epoch, asked.leader_epoch))
        });
        match found {
            Ok(Some((epoch, end))) => answer.with_leader_epoch(epoch).with_end_offset(end),
            Ok(None) => answer,
            Err(error) => answer.with_error_code(error.code()),
        }
    }
}

/// Returns the newest epoch up to `asked` and its end offset; `None` for an epoch that is not known.
fn end_of_epoch(log: &Records, leader_epoch: i32, asked: i32) -> Option<(i32, i64)> {
    // Where earlier epochs end is not known: not before the end, which would make consumers go back.
    let current = [(leader_epoch, log.next_offset())];
    let epochs = log.epochs(leader_epoch).unwrap_or(&current);
    if asked == NONE {
        return None;
    }
    if epochs.last().is_some_and(|(newest, _)| *newest == asked) {
        return Some((asked, log.next_offset()));
    }
    let (_, next_start) = epochs.iter().find(|(epoch, _)| *epoch > asked)?;
    // Of an epoch before the first one there are no records: it ends where the log starts.
    let epoch = epochs.iter().rev().find(|(epoch, _)| *epoch <= asked).map_or(asked, |(epoch, _)| *epoch);
    Some((epoch, (*next_start).max(log.first_offset())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kafka_protocol::{
        messages::{
            FetchRequest, ListOffsetsRequest, MetadataRequest, TopicName,
            fetch_request::{FetchPartition, FetchTopic},
            list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        },
        protocol::StrBytes,
    };
    use rota_log::{
        BatchWriter,
        store::{Command, PartitionHandle, PartitionInfo},
    };

    use super::*;
    use crate::{
        base::{
            entropy::RandomBits,
            owners::{FIRST_NODE, Owners},
            settings::Settings,
        },
        log::data_dir::{DataConfig, DataDir},
        topics::{Cluster, TopicSettings, TopicTable, disk::OnDisk},
    };

    const NEWEST: i32 = 5;

    fn name() -> TopicName {
        TopicName(StrBytes::from_static_str("t"))
    }

    fn data(dir: &std::path::Path) -> DataDir {
        DataDir::open(&DataConfig::at(dir.to_owned()), &mut Settings::default(), "c").unwrap()
    }

    /// Topics whose partition has two records of epoch 2, and one of epoch 5.
    fn topics(dir: &std::path::Path) -> Topics {
        let before = data(dir);
        let created = before.store.call(vec![Command::Create { topic: "t".to_owned(), partition: 0, topic_id: 7 }]);
        let partition = PartitionHandle(*created[0].as_ref().unwrap() as u32);
        for epoch in [2, 2, NEWEST] {
            let mut writer = BatchWriter::default();
            writer.push(0, None, Some(b"v"));
            let batch = writer.finish().to_vec();
            let commands = vec![Command::Open { partition, epoch }, Command::Append { partition, epoch, batch }];
            assert!(before.store.call(commands).iter().all(Result::is_ok));
        }
        drop(before);
        let (owners, mut random) = (Owners::new(50, 1), RandomBits::default());
        let table = TopicTable::in_data_dir(&data(dir), TopicSettings::default(), owners, Vec::new(), &mut random);
        Topics::of_node(table.unwrap(), FIRST_NODE)
    }

    #[test]
    fn a_partition_that_kafka_wrote_is_led_in_the_newest_of_its_epochs() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = topics(dir.path());
        let cluster = Cluster { id: None, nodes: Vec::new() };
        let all = MetadataRequest::default().with_topics(None);
        let metadata = topics.metadata(&all, 9, &cluster, &mut RandomBits::default());
        let epochs = metadata.topics.iter().filter(|topic| !topic.is_internal).flat_map(|topic| &topic.partitions);
        assert_eq!(epochs.map(|partition| partition.leader_epoch).collect::<Vec<_>>(), [NEWEST]);
        for (epoch, error) in [(-1, ErrorCode::None), (NEWEST, ErrorCode::None), (0, ErrorCode::FencedLeaderEpoch)] {
            let partition = FetchPartition::default().with_current_leader_epoch(epoch);
            let topic = FetchTopic::default().with_topic(name()).with_partitions(vec![partition]);
            let request = FetchRequest::default().with_max_bytes(1).with_session_epoch(-1).with_topics(vec![topic]);
            let fetched = topics.fetch(&request, 12).response;
            assert_eq!(fetched.responses[0].partitions[0].error_code, error.code(), "{epoch}");
        }
        for (timestamp, offset, epoch) in [(-1, 3, NEWEST), (-2, 0, 2)] {
            let partition = ListOffsetsPartition::default().with_current_leader_epoch(NEWEST).with_timestamp(timestamp);
            let topic = ListOffsetsTopic::default().with_name(name()).with_partitions(vec![partition]);
            let listed = topics.list_offsets(&ListOffsetsRequest::default().with_topics(vec![topic]), 7);
            let found = &listed.topics[0].partitions[0];
            assert_eq!((found.error_code, found.offset, found.leader_epoch), (0, offset, epoch));
        }
    }

    #[test]
    fn an_epoch_of_a_partition_that_kafka_wrote_ends_where_the_next_one_begins() {
        let dir = tempfile::tempdir().unwrap();
        let topics = topics(dir.path());
        let end = |leader_epoch: i32| {
            let asked =
                OffsetForLeaderPartition::default().with_current_leader_epoch(-1).with_leader_epoch(leader_epoch);
            let topic = OffsetForLeaderTopic::default().with_topic(name()).with_partitions(vec![asked]);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            let answer = topics.offset_for_leader_epoch(&request).topics.remove(0).partitions.remove(0);
            assert_eq!(answer.error_code, 0);
            (answer.leader_epoch, answer.end_offset)
        };
        assert_eq!([0, 2, 4, NEWEST, 6, NONE].map(end), [(0, 0), (2, 2), (2, 2), (NEWEST, 3), (NONE, -1), (NONE, -1)]);
    }

    #[test]
    fn an_epoch_before_the_one_of_a_partition_without_epochs_ends_at_the_end() {
        let (mut log, mut writer) = (rota_log::PartitionLog::default(), BatchWriter::default());
        writer.push(0, None, Some(b"v"));
        let bytes = writer.finish();
        log.append(&rota_log::Batch::split(&bytes).unwrap().0, 0, None).unwrap();
        let records = Records::Memory(log);
        // As that of a coordinator which was handed over.
        let end = |asked| end_of_epoch(&records, 4, asked);
        assert_eq!([NONE, 0, 3, 4, 5].map(end), [None, Some((0, 1)), Some((3, 1)), Some((4, 1)), None]);
    }

    #[test]
    fn without_the_file_of_epochs_the_newest_batch_tells_the_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let topics = topics(dir.path());
        let (partition, _) = topics.partition(topics.topic("t").unwrap(), 0).unwrap();
        let Records::Disk(disk) = &partition.log else { panic!("on disk") };
        let info = PartitionInfo {
            handle: disk.on_disk.handle,
            topic: "t".to_owned(),
            partition: 0,
            topic_id: 7,
            epoch: None,
            epochs: Vec::new(),
            view: Arc::clone(&disk.on_disk.view),
        };
        let on_disk = OnDisk::of(info);
        assert_eq!((on_disk.epoch, &*on_disk.epochs), (NEWEST, &[(NEWEST, 3)][..]));
    }
}
