//! Nodes as processes over three members of etcd: `kill -9` and `SIGSTOP` of both, while clients append unique values and
//! read. The histories must be those of one list for each partition. An engine whose appends ignore the owner must be found.
//!
//! `ROTA_TEST_FAULTS` says how many faults there are, `ROTA_TEST_SEED` which ones.

mod child;
#[path = "../real/etcd.rs"]
mod etcd;
mod history;
mod unfenced;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use child::{ENGINE, NODE, PARTITIONS, TTL_MS, UNFENCED};
use etcd::{Etcd, PATIENCE};
use history::{Call, History};

const NODES: i32 = 3;
const MEMBERS: usize = 3;
/// Of a cluster, whose histories grow with the square of them: more faults have more clusters. The negative control has up
/// to so many to find something.
const FAULTS: u64 = 8;
const FAULTS_TO_FIND: u64 = 20;
/// Of `strike`.
const KINDS: [u64; 8] = [0, 5, 2, 3, 1, 4, 5, 2];

/// The process of a node: this program again, with the test below.
#[test]
fn node() {
    child::run();
}

struct Node {
    process: Child,
    commands: ChildStdin,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A line of a node, with the time at which it came.
type Said = (i32, Instant, String);

struct Cluster {
    etcd: Etcd,
    url: String,
    is_unfenced: bool,
    nodes: BTreeMap<i32, Node>,
    said: Receiver<Said>,
    saying: Sender<Said>,
    history: History,
    /// Who answered the last read of a partition.
    owners: BTreeMap<i32, i32>,
    asked: BTreeMap<String, i32>,
    next: u64,
    stopped: Option<String>,
}

impl Cluster {
    fn start(is_unfenced: bool) -> Cluster {
        let etcd = Etcd::start(MEMBERS, &[]);
        let members: Vec<String> = etcd.endpoints().iter().map(ToString::to_string).collect();
        let url = format!("etcd://{}/rota/nodes", members.join(","));
        let (saying, said) = channel();
        let mut cluster = Cluster {
            etcd,
            url,
            is_unfenced,
            nodes: BTreeMap::new(),
            said,
            saying,
            history: History::default(),
            owners: BTreeMap::new(),
            asked: BTreeMap::new(),
            next: 0,
            stopped: None,
        };
        (1..=NODES).for_each(|id| cluster.start_node(id));
        cluster
    }

    fn start_node(&mut self, id: i32) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "node", "--nocapture"]).env(NODE, id.to_string()).env(ENGINE, &self.url);
        if self.is_unfenced {
            command.env(UNFENCED, "1");
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process");
        let commands = process.stdin.take().expect("a pipe");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let saying = self.saying.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, said)) = line.split_once('@') {
                    let _ended = saying.send((id, Instant::now(), said.to_owned()));
                }
            }
        });
        self.nodes.insert(id, Node { process, commands });
    }

    fn signal(&self, id: i32, signal: &str) {
        let pid = self.nodes[&id].process.id().to_string();
        assert!(Command::new("kill").args([format!("-{signal}"), pid]).status().is_ok_and(|status| status.success()));
    }

    fn command(&mut self, id: i32, line: &str) {
        // A node that was killed has no pipe any more.
        let _gone = writeln!(self.nodes.get_mut(&id).expect("a node").commands, "{line}");
    }

    fn call(&mut self, partition: i32) -> (String, Call) {
        self.next += 1;
        (self.next.to_string(), Call { partition, from: Instant::now(), until: None, values: None })
    }

    fn append(&mut self, id: i32, partition: i32) {
        let (value, call) = self.call(partition);
        self.history.appends.insert(value.clone(), call);
        self.command(id, &format!("append {partition} {value}"));
    }

    fn read(&mut self, id: i32, partition: i32) {
        let (number, call) = self.call(partition);
        self.history.reads.insert(number.clone(), call);
        self.asked.insert(number.clone(), id);
        self.command(id, &format!("read {partition} {number}"));
    }

    /// Takes what the nodes have said within a time.
    fn listen(&mut self, within: Duration) {
        let until = Instant::now() + within;
        while let Ok((_, at, said)) = self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            let (what, rest) = said.split_once(' ').unwrap_or((&said, ""));
            let (id, values) = rest.split_once(' ').unwrap_or((rest, ""));
            match what {
                "ok" => self.history.appends.get_mut(id).expect("an append").until = Some(at),
                "values" => {
                    let read = self.history.reads.get_mut(id).expect("a read");
                    let values = values.split(',').filter(|value| !value.is_empty());
                    (read.until, read.values) = (Some(at), Some(values.map(str::to_owned).collect()));
                    self.owners.insert(read.partition, self.asked[id]);
                }
                "stopped" => self.stopped = Some(rest.to_owned()),
                _ => {}
            }
        }
    }

    /// Clients append and read for a time.
    fn load(&mut self, lasting: Duration) {
        let until = Instant::now() + lasting;
        while Instant::now() < until {
            for id in 1..=NODES {
                for partition in 0..PARTITIONS as i32 {
                    self.append(id, partition);
                    self.read(id, partition);
                }
            }
            self.listen(Duration::from_millis(30));
        }
    }

    /// Waits until a node answers for a partition, another one than `but`.
    fn owner(&mut self, partition: i32, but: Option<i32>) -> Option<i32> {
        let began = Instant::now();
        self.owners.remove(&partition);
        while began.elapsed() < PATIENCE && self.stopped.is_none() {
            if let Some(owner) = self.owners.get(&partition).copied().filter(|owner| Some(*owner) != but) {
                return Some(owner);
            }
            (1..=NODES).filter(|id| Some(*id) != but).for_each(|id| self.read(id, partition));
            self.listen(Duration::from_millis(50));
        }
        assert!(self.stopped.is_some(), "no node answers for {partition}");
        None
    }

    /// Everything goes on, and every partition is read once more. Returns what is wrong.
    fn verdict(&mut self) -> Option<String> {
        for partition in 0..PARTITIONS as i32 {
            if let Some(owner) = self.owner(partition, None) {
                self.append(owner, partition);
                self.listen(Duration::from_millis(100));
                self.owner(partition, None);
            }
        }
        let contradiction = (0..PARTITIONS as i32).find_map(|partition| self.history.contradiction(partition));
        contradiction.or_else(|| self.stopped.clone().map(|reason| format!("a node stopped: {reason}")))
    }

    fn strike(&mut self, fault: u64, more: u64) {
        let (id, member) = (1 + (more % NODES as u64) as i32, (more / 7) as usize % MEMBERS);
        let ttl = Duration::from_millis(TTL_MS);
        match fault {
            0 => {
                self.nodes.remove(&id);
                self.start_node(id);
            }
            1 | 2 => {
                self.signal(id, "STOP");
                self.load(if fault == 1 { ttl / 2 } else { ttl * 3 });
                self.signal(id, "CONT");
            }
            3 => {
                self.etcd.kill(member);
                self.load(ttl / 2);
                self.etcd.restart(member);
            }
            4 => {
                self.etcd.signal(member, "STOP");
                self.load(ttl);
                self.etcd.signal(member, "CONT");
            }
            _ => self.delay_an_append(more as i32 % PARTITIONS as i32),
        }
    }

    /// An append lies at a member that sleeps while its owner sleeps, too, and loses the partition. Then the member wakes.
    fn delay_an_append(&mut self, partition: i32) {
        let Some(owner) = self.owner(partition, None) else { return };
        for member in 0..MEMBERS {
            self.etcd.signal(member, "STOP");
        }
        self.append(owner, partition);
        self.listen(Duration::from_millis(100));
        self.signal(owner, "STOP");
        for member in 1..MEMBERS {
            self.etcd.signal(member, "CONT");
        }
        self.owner(partition, Some(owner));
        self.etcd.signal(0, "CONT");
        self.listen(Duration::from_millis(500));
        self.load(Duration::from_millis(500));
        self.signal(owner, "CONT");
        self.load(Duration::from_millis(500));
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Plays faults until something is wrong. Returns what, after how many faults, and how many appends were acknowledged.
fn play(is_unfenced: bool, faults: u64, kinds: &[u64], seed: u64) -> (Option<String>, u64, usize) {
    let mut cluster = Cluster::start(is_unfenced);
    for partition in 0..PARTITIONS as i32 {
        cluster.owner(partition, None);
    }
    let mut random = seed;
    for fault in 0..faults {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cluster.load(Duration::from_millis(300));
        cluster.strike(kinds[fault as usize % kinds.len()], random >> 33);
        cluster.load(Duration::from_millis(300));
        if let Some(wrong) = cluster.verdict() {
            return (Some(wrong), fault + 1, cluster.history.acknowledged());
        }
    }
    (None, faults, cluster.history.acknowledged())
}

#[test]
fn whatever_is_killed_or_paused_histories_are_those_of_lists() {
    if !etcd::is_installed() || std::env::var(NODE).is_ok() {
        return;
    }
    let (faults, seed) = (number("ROTA_TEST_FAULTS", FAULTS), number("ROTA_TEST_SEED", 1));
    let mut all = 0;
    for first in (0..faults).step_by(FAULTS as usize) {
        let (wrong, played, acknowledged) = play(false, FAULTS.min(faults - first), &KINDS, seed + first);
        all += acknowledged;
        println!("{} faults, {all} appends acknowledged", first + played);
        assert_eq!(wrong, None);
    }
    assert!(all as u64 > 10 * faults, "{all}");
}

#[test]
fn appends_that_ignore_the_owner_are_found() {
    if !etcd::is_installed() || std::env::var(NODE).is_ok() {
        return;
    }
    let (wrong, faults, acknowledged) = play(true, FAULTS_TO_FIND, &[5], 1);
    println!("{wrong:?} after {faults} faults, {acknowledged} appends acknowledged");
    assert!(wrong.is_some(), "not found within {faults} faults");
}
