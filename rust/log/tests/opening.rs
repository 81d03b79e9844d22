//! Opening a directory that another process was using until then.

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Mutex},
};

use rota_log::{
    BatchWriter,
    files::{Access, Entry, File, Files, ForgetfulFiles, Lock},
    store::{Command, PartitionHandle, Store, StoreOptions},
};

const TOPIC: &str = "__consumer_offsets";

type Event = Box<dyn FnOnce() + Send>;

/// Files that run an event just before the lock is taken.
struct LateLock {
    files: ForgetfulFiles,
    before: Mutex<Option<Event>>,
}

impl fmt::Debug for LateLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LateLock({:?})", self.files)
    }
}

impl Files for LateLock {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.files.open(path, access)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.files.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.files.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.files.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        if let Some(event) = self.before.lock().unwrap().take() {
            event();
        }
        self.files.lock(path)
    }
}

fn append(store: &mut Store, partition: PartitionHandle, n: i64) {
    let mut writer = BatchWriter::default();
    writer.push(1_000, Some(format!("key {n}").as_bytes()), Some(b"value"));
    let append = Command::Append { partition, epoch: 1, batch: writer.finish().to_vec() };
    assert_eq!(store.pass(vec![append]), [Ok(n)]);
}

/// Opens a directory of three records, while the server that uses it does `last` and ends.
fn opened_after(last: impl FnOnce(&mut Store, PartitionHandle) + Send + 'static) -> Store {
    let files = ForgetfulFiles::new(64);
    // A checkpoint is always due.
    let options = || StoreOptions { wal_bytes: 1, wal_reserve_bytes: 512, ..StoreOptions::default() };
    let (mut store, _) = Store::open(Arc::new(files.clone()), Path::new(""), options()).unwrap();
    let create = Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 9 };
    let handle = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
    (0..3).for_each(|n| append(&mut store, handle, n));
    let event: Event = Box::new(move || last(&mut store, handle));
    let late = LateLock { files, before: Mutex::new(Some(event)) };
    Store::open(Arc::new(late), Path::new(""), options()).unwrap().0
}

fn count(store: &Store) -> usize {
    let view = store.view(store.handle(TOPIC, 0).unwrap()).unwrap();
    view.read_records(0, usize::MAX).unwrap().len()
}

#[test]
fn a_directory_whose_server_wrote_its_last_checkpoint_meanwhile_is_not_taken_for_damaged() {
    assert_eq!(count(&opened_after(|store, _| store.checkpoint().unwrap())), 3);
}

#[test]
fn what_a_server_that_is_killed_meanwhile_has_acknowledged_is_there() {
    let store = opened_after(|store, handle| {
        // The next write-ahead file begins, and the checkpoint does not end.
        drop(store.next_task(0).expect("a checkpoint is due"));
        append(store, handle, 3);
    });
    assert_eq!(count(&store), 4);
}
