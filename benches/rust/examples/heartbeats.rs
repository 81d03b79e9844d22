//! A server and one member of each node that heartbeats, for counting instructions: `benches/observing.py` and
//! `benches/nodes.py`.
//!
//! ```text
//! heartbeats COUNT DEPTH [acls|nodes=N]   COUNT heartbeats to each node, DEPTH in each write; COUNT is a multiple of DEPTH
//! ```
//!
//! The members are on the main thread and take turns, the server is on threads of its own. Prints JSON: nanoseconds by the
//! clock (`wall_ns`), and processor nanoseconds of each node's thread (`nodes_cpu_ns`).

use std::{
    env, error, fs,
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use rota_server::{
    Server, ServerConfig, Settings,
    acl::{Binding, read_lines},
};

type Outcome<T> = Result<T, Box<dyn error::Error>>;

const JOIN_GROUP: i16 = 11;
const HEARTBEAT: i16 = 12;
const SYNC_GROUP: i16 = 14;
/// Names of groups begin with it, and ACLs are for it.
const GROUP: &str = "observed";
/// As Linux shows the names of threads.
const NODE_THREAD: &str = "rota-node-";
const TIMEOUT_MS: i32 = 300_000;
const ANSWER_BYTES: usize = 4 + 4 + 2;

/// A request in the making.
struct Frame(Vec<u8>);

impl Frame {
    fn of(api: i16, version: i16) -> Frame {
        Frame(vec![0; 4]).i16(api).i16(version).i32(1).text("observed")
    }

    fn i16(mut self, value: i16) -> Frame {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn i32(mut self, value: i32) -> Frame {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn text(self, text: &str) -> Frame {
        let mut frame = self.i16(text.len() as i16);
        frame.0.extend(text.as_bytes());
        frame
    }

    fn whole(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// Sends a request that is granted; what its answer has after throttle time and error.
fn ask(client: &mut TcpStream, request: &[u8]) -> Outcome<Vec<u8>> {
    client.write_all(request)?;
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut answer)?;
    match answer[8..10] {
        [0, 0] => Ok(answer.split_off(10)),
        ref error => Err(format!("a request is answered {error:?}").into()),
    }
}

/// Joins as the only member; a heartbeat of it.
fn joined(client: &mut TcpStream, group: &str) -> Outcome<Vec<u8>> {
    let join = Frame::of(JOIN_GROUP, 2).text(group).i32(TIMEOUT_MS).i32(TIMEOUT_MS).text("").text("consumer");
    let answer = ask(client, &join.i32(1).text("range").i32(0).whole())?;
    // Generation; then protocol, leader and member id as texts.
    let (generation, mut rest) = answer.split_at(4);
    let generation = i32::from_be_bytes(generation.try_into()?);
    let mut text = || {
        let (length, more) = rest.split_at(2);
        let (text, more) = more.split_at(usize::from(u16::from_be_bytes([length[0], length[1]])));
        rest = more;
        String::from_utf8(text.to_vec())
    };
    let (_protocol, _leader, member_id) = (text()?, text()?, text()?);
    let member = |api, version| Frame::of(api, version).text(group).i32(generation).text(&member_id);
    ask(client, &member(SYNC_GROUP, 1).i32(0).whole())?;
    Ok(member(HEARTBEAT, 0).whole())
}

/// Rights for the member's group, among those for many others.
fn acls() -> Outcome<Vec<Binding>> {
    let others = (0..1_000).map(|at| format!("ALLOW User:ana * READ GROUP LITERAL other-{at}\n"));
    let own = format!("ALLOW User:ANONYMOUS * READ GROUP PREFIXED {GROUP}\n");
    read_lines(&others.chain([own]).collect::<String>()).map_err(|(line, error)| format!("{line}: {error}").into())
}

/// A member of a group that the node coordinates: its connection, and a heartbeat.
fn member_of(server: &Server, node_id: i32, host: &str, port: u16) -> Outcome<(TcpStream, Vec<u8>)> {
    let is_of_node = |group: &String| server.owner(server.partition_of(group)).is_ok_and(|owner| owner == node_id);
    let group = (0..u32::MAX).map(|at| format!("{GROUP}-{at}")).find(is_of_node).expect("each node owns partitions");
    let mut client = TcpStream::connect((host, port))?;
    client.set_nodelay(true)?;
    let heartbeat = joined(&mut client, &group)?;
    Ok((client, heartbeat))
}

/// Processor nanoseconds of each node's thread so far.
fn nodes_cpu_ns() -> Outcome<Vec<u64>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = fs::read_to_string(task.join("comm"))?;
        if let Some(node_id) = name.trim_end().strip_prefix(NODE_THREAD) {
            let times = fs::read_to_string(task.join("schedstat"))?;
            found.push((node_id.parse::<i32>()?, times.split(' ').next().unwrap_or_default().parse()?));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, cpu_ns)| cpu_ns).collect())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (count, depth, more) = match arguments[..] {
        [count, depth] => (count.parse()?, depth.parse()?, ""),
        [count, depth, more] => (count.parse()?, depth.parse()?, more),
        _ => return Err("give COUNT and DEPTH, and `acls` for a server with an authorizer or `nodes=N`".into()),
    };
    let (count, depth): (usize, usize) = (count, depth);
    let (nodes, acls) = match (more, more.strip_prefix("nodes=")) {
        ("", _) => (1, None),
        ("acls", _) => (1, Some(acls()?)),
        (_, Some(nodes)) => (nodes.parse()?, None),
        _ => return Err(format!("`{more}`: expected `acls` or `nodes=N`").into()),
    };
    let mut settings = Settings::default();
    settings.set("group.initial.rebalance.delay.ms", "0")?;
    let server = Server::start(ServerConfig { settings, acls, nodes, ..ServerConfig::default() })?;
    let mut members = Vec::new();
    for (node_id, host, port) in server.addresses() {
        let (client, heartbeat) = member_of(&server, node_id, &host, port)?;
        members.push((client, heartbeat.repeat(depth)));
    }
    let mut answers = vec![0; ANSWER_BYTES * depth];
    let (began, before_ns) = (Instant::now(), nodes_cpu_ns()?);
    for _ in 0..count / depth {
        for (client, heartbeats) in &mut members {
            client.write_all(heartbeats)?;
        }
        for (client, _) in &mut members {
            client.read_exact(&mut answers)?;
            if answers.chunks(ANSWER_BYTES).any(|answer| answer[8..] != [0, 0]) {
                return Err("a heartbeat was refused".into());
            }
        }
    }
    let wall_ns = began.elapsed().as_nanos();
    let cpu_ns: Vec<u64> = nodes_cpu_ns()?.iter().zip(before_ns).map(|(after, before)| after - before).collect();
    println!("{{\"wall_ns\": {wall_ns}, \"nodes_cpu_ns\": {cpu_ns:?}}}");
    Ok(())
}
