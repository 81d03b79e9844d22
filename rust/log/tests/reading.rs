//! A directory that is read while a store writes to it.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use rota_log::{
    BatchWriter,
    files::{Access as FileAccess, Entry, Fault, File, Files, ForgetfulFiles, Lock},
    store::{Access, Command, Durability, OpenError, PartitionHandle, Store, StoreOptions},
};

const TOPIC: &str = "__consumer_offsets";
const RECORDS: u64 = 30;

fn options(durability: Durability, access: Access) -> StoreOptions {
    StoreOptions { durability, access, segment_bytes: 500, wal_reserve_bytes: 512, ..StoreOptions::default() }
}

/// A store with one partition under epoch 1.
fn written(files: &ForgetfulFiles, durability: Durability) -> Writer {
    let options = options(durability, Access::Own);
    let (mut store, _) = Store::open(Arc::new(files.clone()), Path::new(""), options).unwrap();
    let create = Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 9 };
    let partition = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    store.pass(vec![Command::Open { partition, epoch: 1 }]).remove(0).unwrap();
    Writer { store, partition, next: 0 }
}

struct Writer {
    store: Store,
    partition: PartitionHandle,
    next: u64,
}

impl Writer {
    /// Appends records under ten keys.
    fn append(&mut self, records: u64) {
        for _ in 0..records {
            let mut writer = BatchWriter::default();
            let (key, value) = (format!("key {}", self.next % 10), self.next.to_string());
            writer.push(1_000, Some(key.as_bytes()), Some(value.as_bytes()));
            let append = Command::Append { partition: self.partition, epoch: 1, batch: writer.finish().to_vec() };
            assert_eq!(self.store.pass(vec![append]), [Ok(self.next as i64)]);
            self.next += 1;
        }
    }

    /// A checkpoint, and a compaction if one is due.
    fn work(&mut self) {
        self.store.checkpoint().unwrap();
        while let Some(mut task) = self.store.next_task(0) {
            while task.step().unwrap() {}
            self.store.finish(task, Ok(()));
        }
    }
}

fn opened(files: Arc<dyn Files>, durability: Durability) -> Store {
    let (store, report) = Store::open(files, Path::new(""), options(durability, Access::Read)).unwrap();
    assert_eq!(report.damage, []);
    store
}

/// The newest value of each key.
fn newest(store: &Store) -> Vec<u64> {
    let view = store.view(store.handle(TOPIC, 0).unwrap()).unwrap();
    let mut newest = vec![0; 10];
    for stored in view.read_records(0, usize::MAX).unwrap() {
        let value = String::from_utf8(stored.record.value.unwrap()).unwrap();
        let value: u64 = value.parse().unwrap();
        newest[(value % 10) as usize] = value;
    }
    newest
}

#[test]
fn what_was_acknowledged_is_there_before_the_first_checkpoint_and_behind_it() {
    for durability in [Durability::Fsync, Durability::Os] {
        let files = ForgetfulFiles::new(64);
        let mut writer = written(&files, durability);
        writer.append(RECORDS);
        let next_offset = |store: &Store| store.view(store.handle(TOPIC, 0).unwrap()).unwrap().next_offset();
        assert_eq!(next_offset(&opened(Arc::new(files.clone()), durability)), RECORDS as i64);
        writer.store.checkpoint().unwrap();
        writer.append(5);
        assert_eq!(next_offset(&opened(Arc::new(files.clone()), durability)), RECORDS as i64 + 5);
    }
}

#[test]
fn what_only_the_write_ahead_file_has_is_no_torn_tail() {
    let files = ForgetfulFiles::new(64);
    let mut writer = written(&files, Durability::Fsync);
    writer.append(RECORDS);
    let reading = options(Durability::Fsync, Access::Read);
    let (_, report) = Store::open(Arc::new(files.clone()), Path::new(""), reading).unwrap();
    assert_eq!((report.cut, report.torn_wal_bytes), (vec![], 0));
}

#[test]
fn a_directory_with_nothing_in_it_is_refused() {
    let files = ForgetfulFiles::new(64);
    let opened = Store::open(Arc::new(files.clone()), Path::new(""), options(Durability::Fsync, Access::Read));
    let error = opened.unwrap_err();
    assert!(
        matches!(error, OpenError::NoData { .. }) && error.to_string().contains("is not a data directory"),
        "{error}"
    );
    assert_eq!(files.operations(), 0);
}

type Act = Box<dyn FnOnce() + Send>;

/// Does something before the n-th time that a reader looks.
struct Meddled {
    files: ForgetfulFiles,
    act: Mutex<(usize, Option<Act>)>,
}

impl std::fmt::Debug for Meddled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.files.fmt(f)
    }
}

impl Meddled {
    fn look(&self) {
        let mut act = self.act.lock().unwrap();
        if act.0 == 0
            && let Some(act) = act.1.take()
        {
            act();
        }
        act.0 = act.0.saturating_sub(1);
    }
}

impl Files for Meddled {
    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn File>> {
        self.look();
        self.files.open(path, access)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.look();
        self.files.list(dir)
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn lock(&self, _: &Path) -> io::Result<Lock> {
        unreachable!("a reader changes nothing")
    }
}

#[test]
fn a_checkpoint_and_a_compaction_at_any_moment_of_a_read_do_no_harm() {
    for durability in [Durability::Fsync, Durability::Os] {
        let mut moments = 0;
        loop {
            let files = ForgetfulFiles::new(64);
            let mut writer = written(&files, durability);
            writer.append(RECORDS);
            writer.work();
            writer.append(RECORDS);
            let act: Act = Box::new(move || {
                let before = writer.store.compactions();
                writer.append(RECORDS);
                writer.work();
                assert!(writer.store.compactions() > before);
            });
            let meddled = Arc::new(Meddled { files, act: Mutex::new((moments, Some(act))) });
            let store = opened(Arc::clone(&meddled) as Arc<dyn Files>, durability);
            for value in newest(&store) {
                assert!(value >= 2 * RECORDS - 10, "{durability:?}, before look {moments}: {value}");
            }
            if meddled.act.lock().unwrap().1.is_some() {
                break;
            }
            moments += 1;
        }
        assert!(moments > 5, "{moments}");
    }
}

#[test]
fn batches_that_were_taken_back_are_not_looked_for() {
    let files = ForgetfulFiles::new(4_096);
    let options = StoreOptions { segment_bytes: 1 << 20, ..options(Durability::Fsync, Access::Own) };
    let (mut store, _) = Store::open(Arc::new(files.clone()), Path::new(""), options).unwrap();
    let create = Command::Create { topic: "t".to_owned(), partition: 0, topic_id: 9 };
    let partition = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    let open = |epoch| Command::Open { partition, epoch };
    let append = |epoch, bytes| {
        let mut writer = BatchWriter::default();
        writer.push(1_000, None, Some(&vec![7; bytes]));
        Command::Append { partition, epoch, batch: writer.finish().to_vec() }
    };
    assert_eq!(store.pass(vec![open(1), append(1, 10)]), [Ok(0), Ok(0)]);
    // Three writes, since epochs begin between them. The last one finds the disk full.
    files.fail_at(files.operations() + 2, Fault::NoSpace(1));
    let failed = store.pass(vec![append(1, 70_000), open(2), append(2, 70_000), open(3), append(3, 70_000)]);
    assert!(failed.iter().all(Result::is_err), "{failed:?}");
    for offset in 1..4 {
        assert_eq!(store.pass(vec![append(1, 10)]), [Ok(offset)]);
    }
    let view = store.view(partition).unwrap();
    for from in 0..4 {
        let slice = view.read_slice(from, 1).unwrap();
        assert_eq!((slice.batches().count(), slice.next_offset), (1, from + 1));
    }
}

#[test]
fn damage_is_the_error_of_the_reads_that_meet_it() {
    let files = ForgetfulFiles::new(64);
    let mut writer = written(&files, Durability::Fsync);
    writer.append(3);
    let view = writer.store.view(writer.partition).unwrap();
    let segment = Path::new("__consumer_offsets-0/00000000000000000000.log");
    let size = view.read_within(1, 1, true).unwrap().bytes.len();
    files.damage(segment, |bytes| bytes[size + 30] ^= 1).unwrap();
    let read = |from| view.read_within(from, 1_000, true).map(|slice| slice.next_offset).ok();
    assert_eq!([0, 1, 2, 3].map(read), [Some(1), None, Some(3), Some(3)], "what is before it is returned");
    assert!(view.refusal().is_none() && view.failure().is_some());
    // A coordinator needs all of its records.
    view.read_slice(1, 1_000).unwrap_err();
    assert_eq!(read(2), None);
}
