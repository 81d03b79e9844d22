//! What a server of a cluster asks the other ones: to write markers into partitions that they lead, and to admit
//! partitions to transactions that they coordinate.
//!
//! A thread of its own does this. Each server has a connection for each kind of question, with one request at a time: what
//! comes meanwhile goes together with the next one. A question without an answer ends within a TTL, and
//! the coordinator or the client tries again. What only an operator can change is said once on standard error.

mod connection;
mod question;

use std::{collections::HashMap, fmt, io, sync::Weak, thread};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{LocalSet, spawn_local},
};

pub use self::question::{Admission, Codes, Marker};
use self::{
    connection::{Connection, Failure},
    question::Question,
};
use crate::log::cluster::{Cluster, NoAddress};

/// Questions of one request.
const BATCH_MAX: usize = 100;

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
        let codes = match cluster.upgrade() {
            Some(cluster) => ask(&cluster, node_id, &mut connection, &batch).await,
            None => None,
        };
        Question::settle(std::mem::take(&mut batch), codes);
    }
}

async fn ask<Q: Question>(
    cluster: &Cluster,
    node_id: i32,
    connection: &mut Connection,
    batch: &[Q],
) -> Option<Vec<i16>> {
    let answer = match (cluster.between_servers(), cluster.address_of(node_id)) {
        (Ok(between), Ok(address)) => {
            let answer = connection.ask(&address, between, cluster.ttl(), batch).await;
            answer.map_err(|failure| failure.map(|failure| (failure, Some(address))))
        }
        (_, Err(NoAddress::Unnamed(listener))) => {
            let reason = format!("it has no listener {listener}: give all servers one of this name and protocol");
            Err(Some((Failure::Wrong(reason), None)))
        }
        (Err(_), _) | (_, Err(NoAddress::Away)) => Err(Some((Failure::Away, None))),
    };
    match answer {
        Ok(codes) => {
            cluster.was_asked(node_id, Q::ABOUT, None);
            Some(codes)
        }
        Err(Some((Failure::Wrong(reason), address))) => {
            let at = address.map_or_else(String::new, |(host, port)| format!(" at {host}:{port}"));
            cluster.was_asked(node_id, Q::ABOUT, Some(format!("server {node_id}{at}: {reason}")));
            None
        }
        Err(Some((Failure::Away | Failure::Closed, _))) => {
            cluster.was_asked(node_id, Q::ABOUT, None);
            None
        }
        // Nothing is new.
        Err(None) => None,
    }
}
