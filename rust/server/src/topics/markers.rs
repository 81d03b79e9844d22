//! The end of a transaction in a partition of a user topic (docs/transactions.md §10).

use std::sync::Arc;

use rota_core::error::ErrorCode;
use rota_log::{Batch, EndMarker, LogError};
use rota_txn::{Marker, TransactionVersion};

use super::{LEADER_EPOCH, Topics, partition_data::Records, produce::AppendToken, transactions::WrittenBatch};

/// The result of writing a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerOutcome {
    /// It is durable, or was refused.
    Ended(Result<(), ErrorCode>),
    /// Its append is in flight; [`Topics::produced`] has its end.
    InFlight(AppendToken),
}

impl Topics {
    /// Ends the transaction of a producer in a partition that this node leads. A repeated marker is written again. Errors:
    /// `UnknownTopicOrPartition`, `NotLeaderOrFollower`, `InvalidProducerEpoch`, `TransactionCoordinatorFenced`, and those
    /// of the disk.
    pub fn write_marker(&mut self, name: &str, index: i32, marker: &Marker, now_ms: i64) -> MarkerOutcome {
        match self.append_marker(name, index, marker, now_ms) {
            Ok(Some(token)) => MarkerOutcome::InFlight(token),
            Ok(None) => MarkerOutcome::Ended(Ok(())),
            Err(error) => MarkerOutcome::Ended(Err(error)),
        }
    }

    fn append_marker(
        &mut self,
        name: &str,
        index: i32,
        marker: &Marker,
        now_ms: i64,
    ) -> Result<Option<AppendToken>, ErrorCode> {
        let topic = self.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (_leader_epoch, place) = (self.led(topic, index)?, (topic.id, index));
        let name = name.to_owned();
        self.prepare_disk(&name, place, true).map_err(|refusal| refusal.code)?;
        let partition = self.data.entry(place).or_default();
        let before_bytes = partition.memory_bytes();
        partition.know_producers().map_err(|refusal| refusal.code)?;
        let Marker { producer_id, producer_epoch, coordinator_epoch, is_commit, transaction_version } = *marker;
        let marker = EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit };
        partition.producers.check_marker(&marker, transaction_version == TransactionVersion::V2)?;
        let bytes = marker.batch(now_ms);
        let (batch, _) = Batch::split(&bytes).map_err(|_| ErrorCode::UnknownServerError)?;
        let token = match &mut partition.log {
            Records::Disk(disk) => {
                disk.check_writable().map_err(|_| ErrorCode::KafkaStorageError)?;
                let owner = Arc::clone(&self.owner);
                let waker = owner.waker(self.node_id);
                let began = self.appends.begin(&owner, waker, disk, place, &batch, None);
                Some(began.map_err(|refusal| refusal.code)?.1)
            }
            // The groups write their own markers.
            Records::Offsets(_) => return Err(ErrorCode::UnknownTopicOrPartition),
            // The end of a transaction must be possible whatever the limit on bytes: it is what lets records go.
            Records::Memory(log) => {
                let base_offset = log.append(&batch, LEADER_EPOCH, None).map_err(|_| ErrorCode::UnknownServerError)?;
                partition.observe(&WrittenBatch::of(&batch, Some(marker)).at(base_offset), None);
                None
            }
        };
        partition.producers.ended(&marker, now_ms);
        if token.is_none() {
            self.owner.count_bytes(partition.memory_bytes(), before_bytes);
            self.wake(place);
        }
        Ok(token)
    }
}

/// The result of an append that ended as an error code.
pub fn error_of(result: &Result<i64, LogError>) -> Result<(), ErrorCode> {
    let code = |error: &LogError| ErrorCode::from_code(error.code()).unwrap_or(ErrorCode::KafkaStorageError);
    result.as_ref().map(|_| ()).map_err(code)
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
    };

    use kafka_protocol::{
        messages::{
            FetchRequest, ProduceRequest, TopicName,
            fetch_request::{FetchPartition, FetchTopic},
            fetch_response::PartitionData,
            produce_request::{PartitionProduceData, TopicProduceData},
        },
        protocol::StrBytes,
    };
    use rota_log::{
        BatchWriter, TransactionIndex,
        files::{Access, DiskFiles, Entry, File, Files, Lock},
    };
    use rota_txn::Verdict;

    use super::*;
    use crate::{
        base::{
            entropy::RandomBits,
            owners::{FIRST_NODE, Owners},
            settings::Settings,
        },
        log::data_dir::{DataConfig, DataDir},
        topics::{Served, TopicSettings, TopicTable},
    };

    const A: i64 = 100;

    /// The topics of a data directory with small segments.
    fn open(dir: &Path) -> Topics {
        open_with(&DataConfig::at(dir.to_owned()))
    }

    fn open_with(config: &DataConfig) -> Topics {
        let mut settings = Settings::default();
        settings.set("offsets.topic.segment.bytes", "4096").unwrap();
        let data = DataDir::open(config, &mut settings, "c").unwrap();
        let owners = Owners::new(4, 1);
        let mut random = RandomBits::default();
        let table = TopicTable::in_data_dir(&data, TopicSettings::default(), owners, Vec::new(), &mut random).unwrap();
        let mut topics = Topics::of_node(table, FIRST_NODE);
        if topics.partition_count("t").is_none() {
            topics.create("t", 1, &mut random).unwrap();
        }
        topics
    }

    /// Waits until nothing is in flight.
    fn settle(topics: &mut Topics, mut waiting: Vec<AppendToken>) {
        while !waiting.is_empty() {
            for (token, result) in topics.produced() {
                assert!(result.is_ok(), "{result:?}");
                waiting.retain(|other| *other != token);
            }
            thread::yield_now();
        }
    }

    fn write(topics: &mut Topics, producer: Option<(i64, i16, i32)>) -> i16 {
        let (code, waiting) = begin_to_write(topics, producer);
        settle(topics, waiting);
        code
    }

    /// The error, and the appends in flight.
    fn begin_to_write(topics: &mut Topics, producer: Option<(i64, i16, i32)>) -> (i16, Vec<AppendToken>) {
        let mut writer = BatchWriter::default();
        (writer.producer, writer.is_transactional) = (producer, producer.is_some());
        writer.push(1_000, None, Some(&[7; 100]));
        let data = PartitionProduceData::default().with_index(0).with_records(Some(writer.finish()));
        let name = TopicName(StrBytes::from_static_str("t"));
        let topic = TopicProduceData::default().with_name(name).with_partition_data(vec![data]);
        let id = producer.map(|_| StrBytes::from_static_str("pay").into());
        let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]).with_transactional_id(id);
        let verify = |_: &str, _: i64, _: i16, _: &str, _: i32| Verdict::Verified;
        let served = Served { verify: &verify, has_second_protocol: false, asks_others: false, not_added: None };
        let outcome = topics.produce_verified(&request, 9, Some(served), 1_000);
        let waiting = outcome.waiting.into_keys().collect();
        (outcome.response.responses[0].partition_responses[0].error_code, waiting)
    }

    fn end(topics: &mut Topics, producer_id: i64, is_commit: bool) {
        let transaction_version = TransactionVersion::V1;
        let marker = Marker { producer_id, producer_epoch: 0, coordinator_epoch: 0, is_commit, transaction_version };
        let MarkerOutcome::InFlight(token) = topics.write_marker("t", 0, &marker, 1_000) else { panic!("on disk") };
        settle(topics, vec![token]);
    }

    /// A fetch of committed records from offset 0.
    fn fetched(topics: &Topics) -> PartitionData {
        topics.fetch(&request(0), 12).response.responses[0].partitions[0].clone()
    }

    /// The request for committed records from an offset on.
    fn request(from: i64) -> FetchRequest {
        let wanted = FetchPartition::default().with_current_leader_epoch(-1).with_partition_max_bytes(1 << 20);
        let wanted = wanted.with_fetch_offset(from);
        let name = TopicName(StrBytes::from_static_str("t"));
        let topic = FetchTopic::default().with_topic(name).with_partitions(vec![wanted]);
        let request = FetchRequest::default().with_max_bytes(1 << 20).with_session_epoch(-1).with_isolation_level(1);
        request.with_topics(vec![topic])
    }

    /// High watermark, last stable offset and aborted transactions from offset 0.
    fn seen(topics: &Topics) -> (i64, i64, Vec<i64>) {
        let answer = fetched(topics);
        assert_eq!(answer.error_code, 0);
        let aborted = answer.aborted_transactions.iter().flatten();
        (answer.high_watermark, answer.last_stable_offset, aborted.map(|aborted| aborted.first_offset).collect())
    }

    fn names(dir: &Path, suffix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(dir.join("t-0")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(suffix)).collect();
        names.sort();
        names
    }

    #[test]
    fn a_durable_batch_of_a_transaction_is_not_stable_before_its_transaction_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = open(dir.path());
        assert_eq!(write(&mut topics, None), 0);
        let (code, waiting) = begin_to_write(&mut topics, Some((A, 0, 0)));
        assert_eq!(code, 0);
        while topics.log_end("t", 0) != Some(2) {
            thread::yield_now();
        }
        assert_eq!(seen(&topics), (2, 1, Vec::new()), "the store is ahead of this thread");
        settle(&mut topics, waiting);
        assert_eq!(seen(&topics), (2, 1, Vec::new()));
        assert_eq!(write(&mut topics, None), 0);
        end(&mut topics, A, true);
        assert_eq!(seen(&topics), (4, 4, Vec::new()));
    }

    #[test]
    fn a_waiting_fetch_of_committed_records_reads_again_when_the_transaction_before_them_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = open(dir.path());
        assert_eq!(write(&mut topics, Some((A, 0, 0))), 0);
        let request = request(0).with_min_bytes(300).with_max_wait_ms(i32::MAX);
        let look = |topics: &Topics| {
            let outcome = topics.fetch(&request, 12);
            (outcome.is_complete(&request), topics.seen(&request, 12, &outcome))
        };
        let (is_complete, seen) = look(&topics);
        assert!(!is_complete);
        for _ in 0..4 {
            assert_eq!(write(&mut topics, None), 0);
            assert!(!topics.may_be_complete(&request, 12, &seen));
        }
        end(&mut topics, A, true);
        assert!(topics.may_be_complete(&request, 12, &seen) && look(&topics).0);
    }

    #[test]
    fn a_waiting_fetch_reads_again_once_enough_has_come_or_its_offset_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = open(dir.path());
        assert_eq!(write(&mut topics, None), 0);
        let request = request(1).with_min_bytes(400).with_max_wait_ms(i32::MAX);
        let seen = topics.seen(&request, 12, &topics.fetch(&request, 12));
        for is_enough in [false, false, true] {
            assert_eq!(write(&mut topics, None), 0);
            assert_eq!(topics.may_be_complete(&request, 12, &seen), is_enough);
        }
        let seen = topics.seen(&request, 12, &topics.fetch(&request, 12));
        let patient = request.with_min_bytes(i32::MAX).with_max_bytes(i32::MAX);
        assert!(!topics.may_be_complete(&patient, 12, &seen));
        let Records::Disk(disk) = &topics.data.values().next().unwrap().log else { panic!("on disk") };
        disk.on_disk.view.delete_below(2);
        assert!(topics.may_be_complete(&patient, 12, &seen));
    }

    #[test]
    fn open_and_aborted_transactions_are_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = open(dir.path());
        assert_eq!(write(&mut topics, None), 0);
        assert_eq!(names(dir.path(), "snapshot"), [""; 0], "no transactions so far");
        assert_eq!(write(&mut topics, Some((A, 0, 0))), 0);
        end(&mut topics, A, false);
        assert_eq!(write(&mut topics, Some((A, 0, 1))), 0);
        for sequence in 0..80 {
            assert_eq!(write(&mut topics, Some((A + 1, 0, sequence))), 0);
        }
        end(&mut topics, A + 1, false);
        assert_eq!(write(&mut topics, None), 0);
        let before = seen(&topics);
        assert_eq!((before.0, before.1), (86, 3));
        assert_eq!(before.2, [1]);
        let place = *topics.data.keys().next().unwrap();
        let index = topics.data[&place].transactions.clone();
        drop(topics);
        assert!(names(dir.path(), "log").len() > 3 && names(dir.path(), "snapshot").len() > 2);
        assert!(!names(dir.path(), "txnindex").is_empty());
        let mut topics = open(dir.path());
        assert_eq!(topics.data[&place].transactions, index);
        assert_eq!(seen(&topics), before);
        assert_eq!(write(&mut topics, Some((A, 0, 1))), 0);
        assert_eq!(seen(&topics).0, 86, "it was a repetition");
        assert_eq!(write(&mut topics, Some((A, 0, 3))), ErrorCode::OutOfOrderSequenceNumber.code());
        end(&mut topics, A, true);
        assert_eq!(seen(&topics), (87, 87, vec![1, 4]));
        drop(topics);
        assert_eq!(seen(&open(dir.path())), (87, 87, vec![1, 4]));
    }

    #[test]
    fn a_partition_whose_transactions_cannot_be_read_shows_no_aborted_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = open(dir.path());
        assert_eq!(write(&mut topics, Some((A, 0, 0))), 0);
        end(&mut topics, A, false);
        for _ in 0..80 {
            assert_eq!(write(&mut topics, None), 0);
        }
        assert_eq!(seen(&topics), (82, 82, vec![0]));
        drop(topics);
        let last = dir.path().join("t-0").join(names(dir.path(), "log").pop().unwrap());
        let mut bytes = std::fs::read(&last).unwrap();
        // The magic of its first batch.
        bytes[16] ^= 1;
        std::fs::write(&last, bytes).unwrap();
        let mut topics = open(dir.path());
        let answer = fetched(&topics);
        assert_eq!(answer.error_code, ErrorCode::KafkaStorageError.code());
        assert!(answer.records.is_none_or(|records| records.is_empty()));
        let snapshots = names(dir.path(), "snapshot");
        for transaction in [None, Some((A, 0, 1)), Some((A + 1, 0, 0))] {
            assert_eq!(write(&mut topics, transaction), ErrorCode::KafkaStorageError.code());
        }
        // One that says that there are no transactions before it would count once the segment can be read again.
        assert_eq!(names(dir.path(), "snapshot"), snapshots);
    }

    /// Aborts a transaction of one record.
    fn abort(topics: &mut Topics, producer_id: i64) {
        assert_eq!(write(topics, Some((producer_id, 0, 0))), 0);
        end(topics, producer_id, false);
    }

    /// Writes until there are `count` segments.
    fn fill(topics: &mut Topics, dir: &Path, count: usize) {
        while names(dir, "log").len() < count {
            assert_eq!(write(topics, None), 0);
        }
    }

    fn known(topics: &Topics) -> TransactionIndex {
        topics.data.values().next().unwrap().transactions.clone()
    }

    #[test]
    fn an_aborted_transaction_that_a_crash_left_out_of_its_file_is_written_before_the_next_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let mut topics = open(dir.path());
        abort(&mut topics, A);
        abort(&mut topics, A + 1);
        fill(&mut topics, dir.path(), 2);
        drop(topics);
        // A kill between the roll and the files about it leaves these.
        let file = |name: &str| dir.path().join("t-0").join(name);
        std::fs::remove_file(file(&names(dir.path(), "snapshot")[1])).unwrap();
        let index = file(&names(dir.path(), "txnindex")[0]);
        let rows = std::fs::read(&index).unwrap();
        std::fs::write(&index, &rows[..rows.len() / 2]).unwrap();
        let mut topics = open(dir.path());
        assert_eq!(known(&topics).aborted().len(), 2);
        fill(&mut topics, dir.path(), 3);
        let before = known(&topics);
        drop(topics);
        assert_eq!(names(dir.path(), "snapshot").len(), 2);
        assert_eq!(std::fs::read(&index).unwrap(), rows);
        assert_eq!(known(&open(dir.path())), before);
    }

    /// A disk that refuses to write the files of aborted transactions while `fails`.
    #[derive(Debug, Default)]
    struct Failing {
        disk: DiskFiles,
        fails: AtomicBool,
    }

    impl Files for Failing {
        fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
            let is_refused = access == Access::Create && path.to_string_lossy().contains(".txnindex");
            if is_refused && self.fails.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.disk.open(path, access)
        }

        fn create_dir(&self, path: &Path) -> io::Result<()> {
            self.disk.create_dir(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.disk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.disk.remove(path)
        }

        fn remove_dir(&self, path: &Path) -> io::Result<()> {
            self.disk.remove_dir(path)
        }

        fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
            self.disk.list(dir)
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            self.disk.sync_dir(dir)
        }

        fn lock(&self, path: &Path) -> io::Result<Lock> {
            self.disk.lock(path)
        }
    }

    #[test]
    fn an_aborted_transaction_whose_file_could_not_be_written_is_written_before_the_next_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(Failing::default());
        let fail = |topics: &Topics, fails: bool| {
            // What was submitted before comes before.
            let _none = topics.owner.disk.as_ref().unwrap().transactions(Vec::new());
            files.fails.store(fails, Ordering::Relaxed);
        };
        let mut topics =
            open_with(&DataConfig { files: Arc::<Failing>::clone(&files), ..DataConfig::at(dir.path().to_owned()) });
        abort(&mut topics, A);
        fail(&topics, true);
        abort(&mut topics, A + 1);
        fill(&mut topics, dir.path(), 2);
        fail(&topics, false);
        assert_eq!(names(dir.path(), "snapshot").len(), 1, "none after a failure");
        fill(&mut topics, dir.path(), 3);
        let before = known(&topics);
        assert_eq!(before.aborted().len(), 2);
        drop(topics);
        assert_eq!(names(dir.path(), "snapshot").len(), 2);
        assert_eq!(known(&open(dir.path())), before);
    }
}
