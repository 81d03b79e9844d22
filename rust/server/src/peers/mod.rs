//! What a server of a cluster asks the other ones: to write markers into partitions that they lead, and to admit
//! partitions to transactions that they coordinate.
//!
//! A thread of its own does this. Each server has a connection for each kind of question, with one request at a time: what
//! comes meanwhile goes together with the next one. A question without an answer ends within a TTL, and
//! the coordinator or the client tries again.

mod question;

use std::{collections::HashMap, fmt, io, sync::Weak, thread, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{LocalSet, spawn_local},
};

use self::question::Question;
pub use self::question::{Admission, Codes, Marker};
use crate::log::cluster::Cluster;

/// Questions of one request.
const BATCH_MAX: usize = 100;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: u32 = 16 << 20;

/// A question to a server.
enum Asked {
    Marker(i32, Marker),
    Admission(i32, Admission, Codes),
}

/// The way to the other servers. Its thread ends with it.
pub struct Peers {
    asked: UnboundedSender<Asked>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peers")
    }
}

impl Peers {
    /// Starts the thread. Errors: it cannot be started.
    pub fn start(cluster: Weak<Cluster>) -> io::Result<Peers> {
        let (asked, inbox) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let work = move || LocalSet::new().block_on(&runtime, serve(cluster, inbox));
        thread::Builder::new().name("rota-peers".to_owned()).spawn(work)?;
        Ok(Peers { asked })
    }

    /// Asks the leader of a partition to write a marker.
    pub fn write_marker(&self, node_id: i32, marker: Marker) {
        // The thread ends after this.
        let _gone = self.asked.send(Asked::Marker(node_id, marker));
    }

    /// Asks the coordinator of a transaction to admit partitions. `done` receives a code for each.
    pub fn admit(&self, node_id: i32, admission: Admission, done: Codes) {
        // The thread ends after this.
        let _gone = self.asked.send(Asked::Admission(node_id, admission, done));
    }
}

async fn serve(cluster: Weak<Cluster>, mut inbox: UnboundedReceiver<Asked>) {
    let (mut markers, mut admissions) = (Lanes::new(&cluster), Lanes::new(&cluster));
    while let Some(asked) = inbox.recv().await {
        match asked {
            Asked::Marker(node_id, marker) => markers.ask(node_id, marker),
            Asked::Admission(node_id, admission, done) => admissions.ask(node_id, (admission, done)),
        }
    }
}

/// The connections for one kind of question, by server.
struct Lanes<Q> {
    cluster: Weak<Cluster>,
    by_node: HashMap<i32, UnboundedSender<Q>>,
}

impl<Q: Question> Lanes<Q> {
    fn new(cluster: &Weak<Cluster>) -> Lanes<Q> {
        Lanes { cluster: Weak::clone(cluster), by_node: HashMap::new() }
    }

    fn ask(&mut self, node_id: i32, question: Q) {
        let lane = self.by_node.entry(node_id).or_insert_with(|| {
            let (lane, questions) = unbounded_channel();
            spawn_local(follow(Weak::clone(&self.cluster), node_id, questions));
            lane
        });
        // A lane ends with the thread.
        let _gone = lane.send(question);
    }
}

/// Asks one server one question after the other.
async fn follow<Q: Question>(cluster: Weak<Cluster>, node_id: i32, mut questions: UnboundedReceiver<Q>) {
    let mut connection = Connection::default();
    let mut batch = Vec::new();
    while questions.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let at = cluster.upgrade().and_then(|cluster| Some((cluster.address_of(node_id)?, cluster.ttl())));
        let codes = match at {
            Some((address, ttl)) => connection.ask(address, ttl, &batch).await.ok(),
            None => None,
        };
        Question::settle(std::mem::take(&mut batch), codes);
    }
}

/// A connection to a server, while there is one.
#[derive(Default)]
struct Connection {
    stream: Option<TcpStream>,
    correlation_id: i32,
}

impl Connection {
    /// Asks, and returns the codes of all partitions. Errors: there is no answer, or none that can be read.
    async fn ask<Q: Question>(&mut self, address: (String, u16), limit: Duration, batch: &[Q]) -> io::Result<Vec<i16>> {
        let was_open = self.stream.is_some();
        let mut answer = self.attempt(&address, limit, batch).await;
        if was_open && answer.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::TimedOut) {
            // It was idle for too long, or the server has started again.
            answer = self.attempt(&address, limit, batch).await;
        }
        answer
    }

    async fn attempt<Q: Question>(
        &mut self,
        address: &(String, u16),
        limit: Duration,
        batch: &[Q],
    ) -> io::Result<Vec<i16>> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let correlation_id = self.correlation_id;
        // A connection on which something failed is closed: an answer would be taken for that of the next request.
        let mut stream = self.stream.take();
        let request = Q::request(batch, correlation_id);
        let exchanged = tokio::time::timeout(limit, exchange(&mut stream, address, &request)).await;
        let answer = exchanged.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let codes = Q::codes(&answer, correlation_id).map_err(io::Error::other)?;
        self.stream = stream;
        Ok(codes)
    }
}

async fn exchange(stream: &mut Option<TcpStream>, (host, port): &(String, u16), request: &[u8]) -> io::Result<Vec<u8>> {
    let stream = if let Some(stream) = stream {
        stream
    } else {
        let connected = TcpStream::connect((host.as_str(), *port)).await?;
        connected.set_nodelay(true)?;
        stream.insert(connected)
    };
    stream.write_all(request).await?;
    let size = stream.read_u32().await?;
    if size > ANSWER_BYTES_MAX {
        return Err(io::Error::other(format!("an answer of {size} bytes")));
    }
    let mut answer = vec![0; size as usize];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
