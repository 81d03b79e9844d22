//! One node as a process: a host on a real etcd, and a serving thread that keeps a list of values for each partition.
//!
//! Commands come as lines, and answers go as lines that begin with `@`: `append PARTITION VALUE` and `read PARTITION ID`.

use std::{
    collections::BTreeMap,
    io::BufRead,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use rota_cluster::{
    Change, Connect, Engine, Host, HostConfig, Pending, SessionClock, Standing,
    notes::{Address, NodeInfo, Partitions},
};
use rota_engine::{Directory, Epoch, NodeId, PartitionId};
use rota_etcd::{Config, EtcdEngine};
use rota_log::{Append, BatchKind, Completion, Completions, FencedLog, LogRecord, Operation};

use crate::unfenced::Unfenced;

pub const PARTITIONS: u32 = 2;
pub const TTL_MS: u64 = 2_000;
/// The variables that make a process a node: its id, the members of etcd, and whether its appends ignore the owner.
pub const NODE: &str = "ROTA_TEST_NODE";
pub const ENGINE: &str = "ROTA_TEST_ENGINE";
pub const UNFENCED: &str = "ROTA_TEST_UNFENCED";

enum Mail {
    Changes,
    Line(String),
    Ended(Completion),
    Over,
}

/// What the node serves of a partition; the values are `None` until they are loaded.
struct Served {
    epoch: i32,
    values: Option<Vec<String>>,
}

struct Serving {
    host: Host,
    served: BTreeMap<i32, Served>,
    /// Values on their way, by append.
    appends: BTreeMap<u64, String>,
    next_append: u64,
    to: Arc<Completions>,
}

/// Runs the node of this process, if it is one.
pub fn run() {
    let Ok(node) = std::env::var(NODE) else { return };
    let node: i32 = node.parse().expect("a node's id");
    let url = std::env::var(ENGINE).expect("an engine");
    let is_unfenced = std::env::var(UNFENCED).is_ok();
    let config = Config::parse(&url, None).expect("a URL");
    let connect: Connect = Box::new(move || {
        let config = config.clone();
        let connecting: Pending<'static, _> = Box::pin(async move {
            let engine = EtcdEngine::open(config.clone()).await.map_err(|error| error.to_string())?;
            let engine: Arc<dyn Engine> =
                if is_unfenced { Arc::new(Unfenced::new(engine, config)) } else { Arc::new(engine) };
            Ok(engine)
        });
        connecting
    });
    let address = Address { listener: "PLAINTEXT".to_owned(), host: "127.0.0.1".to_owned(), port: 1 };
    let host = HostConfig {
        node: NodeId(node),
        directory: Directory(node as u128),
        ttl_ms: TTL_MS,
        partitions: Partitions { groups: PARTITIONS, transactions: 0 },
        batch_bytes_max: 1 << 20,
        append_timeout_ms: 5_000,
        info: NodeInfo { addresses: vec![address], version: "1".to_owned(), ..NodeInfo::default() },
        clock: SessionClock::of_boot(),
        cluster_id: "cluster".to_owned(),
        random: Box::new(|| u128::from_be_bytes(rota_security::random::bytes().expect("random bytes"))),
        on_table: Box::new(|_, _| ()),
    };
    let host = Host::start(connect, host).expect("a host");
    let (mail, inbox) = channel();
    let waking = mail.clone();
    host.session.on_mail(move || drop(waking.send(Mail::Changes)));
    let ended = mail.clone();
    let to = Completions::relay(move |completion| drop(ended.send(Mail::Ended(completion))));
    let lines = mail;
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ended = lines.send(Mail::Line(line));
        }
        let _ended = lines.send(Mail::Over);
    });
    let (served, appends) = (BTreeMap::new(), BTreeMap::new());
    Serving { host, served, appends, next_append: 0, to }.serve(&inbox);
}

impl Serving {
    fn serve(mut self, inbox: &Receiver<Mail>) {
        loop {
            let mail = match inbox.recv_timeout(Duration::from_millis(100)) {
                Ok(mail) => mail,
                Err(RecvTimeoutError::Timeout) => Mail::Changes,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // The command is taken; the clock is read after it.
            self.follow();
            match mail {
                Mail::Changes => {}
                Mail::Line(line) => self.command(&line),
                Mail::Ended(completion) => self.ended(&completion),
                Mail::Over => return,
            }
            if let Standing::Stopped(reason) = &self.host.table().standing {
                println!("@stopped {reason}");
                return;
            }
        }
    }

    fn follow(&mut self) {
        let mut changes = Vec::new();
        let served = &mut self.served;
        self.host.session.follow(|change| {
            match change {
                Change::Take(partition, epoch) => {
                    served.insert(partition.0, Served { epoch: epoch.0, values: None });
                }
                Change::Lose(partition, epoch) => {
                    if served.get(&partition.0).is_some_and(|served| served.epoch == epoch.0) {
                        served.remove(&partition.0);
                    }
                }
            }
            changes.push(change);
        });
        for change in changes {
            if let Change::Take(partition, epoch) = change {
                self.host.log.open(partition.0, epoch.0, &self.to);
            }
        }
        if !self.host.session.is_valid() {
            for (partition, served) in std::mem::take(&mut self.served) {
                self.host.session.dropped(PartitionId(partition), Epoch(served.epoch));
            }
        }
    }

    fn command(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [command, partition, what] = words[..] else { panic!("{line}") };
        let partition: i32 = partition.parse().expect("a partition");
        let is_valid = self.host.session.is_valid();
        let served = self.served.get(&partition).filter(|served| is_valid && served.values.is_some());
        let Some(served) = served else { return println!("@no {what}") };
        if command == "read" {
            let values = served.values.as_ref().map(|values| values.join(","));
            return println!("@values {what} {}", values.unwrap_or_default());
        }
        let (epoch, id) = (served.epoch, self.next_append);
        self.next_append += 1;
        self.appends.insert(id, what.to_owned());
        let batch = vec![LogRecord { key: what.as_bytes().to_vec(), value: None }];
        let append = Append { partition, epoch, id, timestamp_ms: 0, kind: BatchKind::Plain, batch };
        self.host.log.append(append, &self.to);
    }

    fn ended(&mut self, completion: &Completion) {
        let is_valid = self.host.session.is_valid();
        let of = |served: &&mut Served| served.epoch == completion.epoch;
        match completion.operation {
            Operation::Open => {
                if let (Ok(end), Some(served)) =
                    (&completion.result, self.served.get_mut(&completion.partition).filter(of))
                {
                    served.values = Some(read_all(&self.host, completion.partition, *end));
                }
            }
            Operation::Append(id) => {
                let Some(value) = self.appends.remove(&id) else { return };
                let served = self.served.get_mut(&completion.partition).filter(of);
                let Some((served, Ok(_))) = served.map(|served| (served, &completion.result)) else {
                    return println!("@unknown {value}");
                };
                println!("@{} {value}", if is_valid { "ok" } else { "unknown" });
                served.values.get_or_insert_default().push(value);
            }
        }
    }
}

fn read_all(host: &Host, partition: i32, end: i64) -> Vec<String> {
    let (mut values, mut from) = (Vec::new(), 0);
    loop {
        let read = host.log.read(partition, from, &mut |record| {
            assert!(record.offset < end, "an offset after the end");
            values.push(String::from_utf8(record.key.to_vec()).expect("a value"));
        });
        match read.expect("a loaded partition") {
            next if next == from => return values,
            next => from = next,
        }
    }
}
