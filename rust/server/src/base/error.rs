//! Errors of a server, with messages for its user.

use std::{fmt, io};

use rota_core::controls::NotDone;
use rota_security::tls::BadTls;

use crate::base::{listeners::ListenerError, names::Hint, owners::NODES_MAX, settings::SettingError};

/// Why a server did not start or did not do what was requested.
#[derive(Debug)]
pub enum ServerError {
    /// An address is not of the form `HOST:PORT`.
    BadAddress {
        /// The option of the address, such as `listen`.
        what: &'static str,
        /// The address given.
        address: String,
    },
    /// The host name does not resolve.
    UnknownHost {
        /// The address given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another process listens at the address.
    AddressInUse {
        /// The address given.
        address: String,
    },
    /// The system refuses to listen at the address.
    CannotListen {
        /// The address given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a thread or an event loop.
    CannotRun {
        /// The system's error.
        source: io::Error,
    },
    /// A setting is wrong.
    Setting(SettingError),
    /// The TLS configuration is wrong.
    Tls(BadTls),
    /// The listeners are wrong.
    Listeners(ListenerError),
    /// Files could not be read again: which, and why.
    NotReloaded(String),
    /// The data directory cannot be opened.
    CannotOpen(rota_log::store::OpenError),
    /// The data directory cannot be served.
    BadData {
        /// The directory.
        dir: std::path::PathBuf,
        /// The problem, and what to do.
        reason: String,
    },
    /// The journal cannot be kept as requested: the reason, and what to do.
    BadJournal(String),
    /// The server was stopped.
    Stopped,
    /// The server is one of another process, from which this one was copied.
    OtherProcess {
        /// That process.
        process_id: u32,
    },
    /// The server's thread ended unexpectedly, which is a bug in rota.
    Died,
    /// The server did not stop in time.
    StopTimedOut {
        /// The timeout in milliseconds.
        timeout_ms: u64,
    },
    /// The server has a real clock, which cannot be moved.
    ClockIsReal,
    /// The number of nodes is 0 or too large.
    BadNodes {
        /// The number given.
        nodes: u32,
    },
    /// Consecutive ports for all nodes exceed the highest port.
    TooFewPorts {
        /// The first node's port.
        port: u16,
        /// The number of nodes.
        nodes: u32,
    },
    /// The node does not exist.
    UnknownNode {
        /// The id given.
        node_id: i32,
        /// The lowest id.
        first_node: i32,
        /// The number of nodes.
        nodes: u32,
    },
    /// The partition of `__consumer_offsets` does not exist.
    UnknownPartition {
        /// The partition given.
        partition: u32,
        /// The number of partitions.
        partitions: u32,
    },
    /// The log of a partition cannot be read. The partition answers `NOT_COORDINATOR` until it is handed over again.
    LoadFailed {
        /// The partition.
        partition: u32,
        /// The offset of the damage.
        offset: i64,
        /// The damage.
        reason: String,
    },
    /// The protocol has no error of this name.
    UnknownErrorName {
        /// The name given.
        name: String,
        /// The closest name, or all names.
        hint: Hint,
    },
    /// No API with injectable errors has this name.
    UnknownApiName {
        /// The name given.
        name: String,
        /// The closest name, or all names.
        hint: Hint,
    },
    /// No served API has this name.
    UnknownServedApi {
        /// The name given.
        name: String,
        /// The closest name, or all names.
        hint: Hint,
    },
    /// The node is down and must be started first.
    NodeIsDown {
        /// The node id.
        node_id: i32,
    },
    /// The group does not exist.
    UnknownGroup {
        /// The id given.
        group_id: String,
        /// The closest group, or all groups.
        hint: Hint,
    },
    /// The transactional id does not exist.
    UnknownTransaction {
        /// The id given.
        transactional_id: String,
        /// The closest id, or all ids.
        hint: Hint,
    },
    /// The transactional id has no open transaction.
    TransactionNotOpen {
        /// The id.
        transactional_id: String,
        /// The name of its state.
        state: &'static str,
    },
    /// The member does not exist.
    UnknownMember {
        /// The name given.
        name: String,
        /// The group of the search; `None`: all groups.
        group_id: Option<String>,
        /// The closest member or instance, or all.
        hint: Hint,
    },
    /// An instance id identifies a member only together with its group.
    InstanceWithoutGroup {
        /// The instance id given.
        instance_id: String,
        /// A group with this instance.
        group_id: String,
    },
    /// A server that is a node of a cluster cannot do this.
    OfCluster(&'static str),
    /// A coordinator refused a control of a test.
    NotDone {
        /// The control.
        what: String,
        /// The reason.
        reason: NotDone,
    },
    /// The topic does not exist.
    UnknownTopic {
        /// The name given.
        topic: String,
        /// The closest topic, or all topics.
        hint: Hint,
    },
    /// The topic does not have this partition.
    UnknownTopicPartition {
        /// The topic.
        topic: String,
        /// The partition given.
        partition: i32,
        /// The number of partitions.
        partitions: i32,
    },
    /// A message was not appended.
    NotProduced {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The protocol error and its reason.
        reason: String,
    },
    /// The messages of a partition cannot be read.
    Unreadable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset of the damage.
        offset: i64,
        /// The damage.
        reason: String,
    },
    /// What a request of a client does was refused.
    Refused {
        /// What was asked for.
        what: String,
        /// The protocol error and its reason.
        reason: String,
    },
    /// The topic cannot be created.
    TopicRefused {
        /// The topic.
        topic: String,
        /// The protocol error and its reason.
        reason: String,
    },
}

fn ids_of(first_node: i32, nodes: u32) -> String {
    let last_node = i64::from(first_node) + i64::from(nodes) - 1;
    if nodes == 1 { first_node.to_string() } else { format!("{first_node} to {last_node}") }
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::BadAddress { what, address } => {
                write!(out, "the address to {what} is `{address}`, expected HOST:PORT, such as 127.0.0.1:9092")
            }
            ServerError::UnknownHost { address, source } => {
                write!(out, "cannot find the host of `{address}`: {source}; check the name or use an IP address")
            }
            ServerError::AddressInUse { address } => write!(
                out,
                "{address} is in use; stop the program that listens there, or choose another port (0 picks a free one)"
            ),
            ServerError::CannotListen { address, source } => write!(
                out,
                "cannot listen on {address}: {source}; choose an address of this machine and a port above 1023"
            ),
            ServerError::CannotRun { source } => write!(out, "cannot start the server's thread: {source}"),
            ServerError::Setting(error) => error.fmt(out),
            ServerError::Tls(error) => error.fmt(out),
            ServerError::Listeners(error) => error.fmt(out),
            ServerError::CannotOpen(error) => error.fmt(out),
            ServerError::NotReloaded(reason) | ServerError::BadJournal(reason) => write!(out, "{reason}"),
            ServerError::BadData { dir, reason } => write!(out, "`{}` {reason}", dir.display()),
            ServerError::Stopped => write!(out, "the server has been stopped"),
            ServerError::Died => {
                write!(out, "the server stopped unexpectedly: a bug in rota; standard error has details")
            }
            ServerError::StopTimedOut { timeout_ms } => {
                write!(out, "the server did not stop within {timeout_ms} ms")
            }
            ServerError::ClockIsReal => {
                write!(out, "the server runs on the real clock; start it with a virtual clock to advance it")
            }
            ServerError::BadNodes { nodes } => write!(out, "nodes is {nodes}: give 1 to {NODES_MAX}"),
            ServerError::TooFewPorts { port, nodes } => write!(
                out,
                "{nodes} nodes need the ports from {port} on, but the last port is 65535: choose a lower one"
            ),
            ServerError::UnknownNode { node_id, first_node, nodes } => {
                let ids = ids_of(*first_node, *nodes);
                write!(out, "there is no node {node_id}: give {ids}")
            }
            ServerError::UnknownPartition { partition, partitions } => {
                let last = partitions.saturating_sub(1);
                write!(out, "__consumer_offsets has no partition {partition}: give 0 to {last}")
            }
            ServerError::LoadFailed { partition, offset, reason } => write!(
                out,
                "partition {partition} of __consumer_offsets cannot be loaded, at offset {offset}: {reason}"
            ),
            ServerError::TopicRefused { topic, reason } => write!(out, "cannot create topic `{topic}`: {reason}"),
            ServerError::UnknownErrorName { .. }
            | ServerError::UnknownApiName { .. }
            | ServerError::UnknownServedApi { .. }
            | ServerError::NodeIsDown { .. }
            | ServerError::UnknownGroup { .. }
            | ServerError::UnknownTransaction { .. }
            | ServerError::TransactionNotOpen { .. }
            | ServerError::UnknownMember { .. }
            | ServerError::InstanceWithoutGroup { .. }
            | ServerError::UnknownTopic { .. }
            | ServerError::UnknownTopicPartition { .. }
            | ServerError::NotProduced { .. }
            | ServerError::Unreadable { .. }
            | ServerError::Refused { .. }
            | ServerError::OfCluster(_)
            | ServerError::OtherProcess { .. }
            | ServerError::NotDone { .. } => self.fmt_control(out),
        }
    }
}

impl ServerError {
    /// Formats errors of controls.
    fn fmt_control(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::UnknownErrorName { name, hint } => {
                write!(out, "the protocol has no error `{name}`; {hint}")
            }
            ServerError::UnknownApiName { name, hint } => {
                write!(out, "no API that can answer an injected error is named `{name}`; {hint}")
            }
            ServerError::UnknownServedApi { name, hint } => {
                write!(out, "this server has no API `{name}`; {hint}")
            }
            ServerError::NodeIsDown { node_id } => {
                write!(out, "node {node_id} is down: start it before you move a partition to it")
            }
            ServerError::UnknownGroup { group_id, hint } => {
                write!(out, "there is no group `{group_id}`; {hint}")
            }
            ServerError::UnknownTransaction { transactional_id, hint } => {
                write!(out, "there is no transactional id `{transactional_id}`; {hint}")
            }
            ServerError::TransactionNotOpen { transactional_id, state } => {
                write!(out, "transactional id `{transactional_id}` has no open transaction: its state is {state}")
            }
            ServerError::UnknownMember { name, group_id: None, hint } => {
                write!(out, "no group has a member `{name}`; {hint}")
            }
            ServerError::UnknownMember { name, group_id: Some(group_id), hint } => {
                write!(out, "group `{group_id}` has no member or instance `{name}`; {hint}")
            }
            ServerError::InstanceWithoutGroup { instance_id, group_id } => write!(
                out,
                "`{instance_id}` is a group.instance.id, which names a member only within a group: give its group, \
                 such as `{group_id}`, too"
            ),
            ServerError::UnknownTopic { topic, hint } => {
                write!(out, "there is no topic `{topic}`; {hint}")
            }
            ServerError::UnknownTopicPartition { topic, partition, partitions } => {
                write!(out, "topic `{topic}` has no partition {partition}: give 0 to {}", partitions - 1)
            }
            ServerError::NotProduced { topic, partition, reason } => {
                write!(out, "cannot append to partition {partition} of topic `{topic}`: {reason}")
            }
            ServerError::Unreadable { topic, partition, offset, reason } => {
                write!(out, "cannot read partition {partition} of topic `{topic}` from offset {offset}: {reason}")
            }
            ServerError::OfCluster(reason) => {
                write!(out, "a server that is a node of a cluster cannot do this: {reason}")
            }
            ServerError::OtherProcess { process_id } => write!(
                out,
                "the server is in process {process_id}, from which this one was forked: use its address, not the object"
            ),
            ServerError::NotDone { what, reason } => write!(out, "{what}: {reason}"),
            ServerError::Refused { what, reason } => write!(out, "{what}: {reason}"),
            other => write!(out, "{other}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::UnknownHost { source, .. }
            | ServerError::CannotListen { source, .. }
            | ServerError::CannotRun { source } => Some(source),
            _ => None,
        }
    }
}

impl From<ListenerError> for ServerError {
    fn from(error: ListenerError) -> ServerError {
        ServerError::Listeners(error)
    }
}

impl From<BadTls> for ServerError {
    fn from(error: BadTls) -> ServerError {
        ServerError::Tls(error)
    }
}

impl From<SettingError> for ServerError {
    fn from(error: SettingError) -> ServerError {
        ServerError::Setting(error)
    }
}
