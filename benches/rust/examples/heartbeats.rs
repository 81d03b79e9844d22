//! A server and one member that heartbeats, for counting instructions: `benches/observing.py`.
//!
//! ```text
//! heartbeats COUNT DEPTH [acls]     COUNT heartbeats, DEPTH of them in each write; COUNT is a multiple of DEPTH
//! ```
//!
//! The member is on the main thread, the server on threads of its own.

use std::{
    env, error,
    io::{Read, Write},
    net::TcpStream,
};

use rota_server::{
    Server, ServerConfig, Settings,
    acl::{Binding, read_lines},
};

type Outcome<T> = Result<T, Box<dyn error::Error>>;

const JOIN_GROUP: i16 = 11;
const HEARTBEAT: i16 = 12;
const SYNC_GROUP: i16 = 14;
const GROUP: &str = "observed";
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
fn joined(client: &mut TcpStream) -> Outcome<Vec<u8>> {
    let join = Frame::of(JOIN_GROUP, 2).text(GROUP).i32(TIMEOUT_MS).i32(TIMEOUT_MS).text("").text("consumer");
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
    let member = |api, version| Frame::of(api, version).text(GROUP).i32(generation).text(&member_id);
    ask(client, &member(SYNC_GROUP, 1).i32(0).whole())?;
    Ok(member(HEARTBEAT, 0).whole())
}

/// Rights for the member's group, among those for many others.
fn acls() -> Outcome<Vec<Binding>> {
    let others = (0..1_000).map(|at| format!("ALLOW User:ana * READ GROUP LITERAL other-{at}\n"));
    let own = format!("ALLOW User:ANONYMOUS * READ GROUP LITERAL {GROUP}\n");
    read_lines(&others.chain([own]).collect::<String>()).map_err(|(line, error)| format!("{line}: {error}").into())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (count, depth, acls) = match arguments[..] {
        [count, depth] => (count.parse()?, depth.parse()?, None),
        [count, depth, "acls"] => (count.parse()?, depth.parse()?, Some(acls()?)),
        _ => return Err("give COUNT and DEPTH, and `acls` for a server with an authorizer".into()),
    };
    let (count, depth): (usize, usize) = (count, depth);
    let mut settings = Settings::default();
    settings.set("group.initial.rebalance.delay.ms", "0")?;
    let server = Server::start(ServerConfig { settings, acls, ..ServerConfig::default() })?;
    let mut client = TcpStream::connect(server.address())?;
    client.set_nodelay(true)?;
    let heartbeats = joined(&mut client)?.repeat(depth);
    let mut answers = vec![0; ANSWER_BYTES * depth];
    for _ in 0..count / depth {
        client.write_all(&heartbeats)?;
        client.read_exact(&mut answers)?;
        if answers.chunks(ANSWER_BYTES).any(|answer| answer[8..] != [0, 0]) {
            return Err("a heartbeat was refused".into());
        }
    }
    Ok(())
}
