//! What can go wrong with a server as a whole, in words for its user.

use std::{fmt, io};

use rota_core::controls::NotDone;

use crate::base::{names::Hint, owners::NODES_MAX, settings::SettingError};

/// Why a server did not start, or did not do what it was asked.
#[derive(Debug)]
pub enum ServerError {
    /// Not `HOST:PORT`.
    BadAddress {
        /// Which address, such as `listen`.
        what: &'static str,
        /// As given.
        address: String,
    },
    /// The host name has no address.
    UnknownHost {
        /// As given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else listens there.
    AddressInUse {
        /// As given.
        address: String,
    },
    /// The system refuses to listen there.
    CannotListen {
        /// As given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// No thread or event loop could be had.
    CannotRun {
        /// What the system says.
        source: io::Error,
    },
    /// A setting was refused.
    Setting(SettingError),
    /// The data directory cannot be opened.
    CannotOpen(rota_log::store::OpenError),
    /// The data directory is not one that can be served.
    BadData {
        /// The directory.
        dir: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A journal cannot be kept as asked: why, and what to do.
    BadJournal(String),
    /// The server has been stopped.
    Stopped,
    /// The server's thread has ended by itself: a bug in rota.
    Died,
    /// The server did not end in time.
    StopTimedOut {
        /// How long it was given.
        timeout_ms: u64,
    },
    /// Only a server with a virtual clock can be moved in time.
    ClockIsReal,
    /// A server has at least one node, and not too many.
    BadNodes {
        /// As given.
        nodes: u32,
    },
    /// Consecutive ports for all nodes would lead beyond the last one.
    TooFewPorts {
        /// Of the first node.
        port: u16,
        /// How many there are to be.
        nodes: u32,
    },
    /// There is no such node.
    UnknownNode {
        /// As given.
        node_id: i32,
        /// How many there are.
        nodes: u32,
    },
    /// There is no such partition of `__consumer_offsets`.
    UnknownPartition {
        /// As given.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The log of a partition cannot be read; it answers `NOT_COORDINATOR` until it is handed over again.
    LoadFailed {
        /// The partition.
        partition: u32,
        /// Where.
        offset: i64,
        /// What is wrong there.
        reason: String,
    },
    /// No error of the protocol has this name.
    UnknownErrorName {
        /// As given.
        name: String,
        /// The error that was probably meant.
        hint: Hint,
    },
    /// No API that can be made to answer an error has this name.
    UnknownApiName {
        /// As given.
        name: String,
        /// The API that was probably meant.
        hint: Hint,
    },
    /// No API that is served has this name.
    UnknownServedApi {
        /// As given.
        name: String,
        /// The API that was probably meant.
        hint: Hint,
    },
    /// The node is down and has to be started first.
    NodeIsDown {
        /// Its id.
        node_id: i32,
    },
    /// There is no such group.
    UnknownGroup {
        /// As given.
        group_id: String,
        /// The group that was probably meant.
        hint: Hint,
    },
    /// There is no such member.
    UnknownMember {
        /// As given.
        name: String,
        /// Where it was looked for, if not everywhere.
        group_id: Option<String>,
        /// The member or instance that was probably meant.
        hint: Hint,
    },
    /// An instance id names a member only together with its group.
    InstanceWithoutGroup {
        /// As given.
        instance_id: String,
        /// A group that has it.
        group_id: String,
    },
    /// A coordinator could not do what a test asked for.
    NotDone {
        /// What.
        what: String,
        /// Why.
        reason: NotDone,
    },
    /// There is no such topic.
    UnknownTopic {
        /// As given.
        topic: String,
        /// The topic that was probably meant.
        hint: Hint,
    },
    /// The topic has no such partition.
    UnknownTopicPartition {
        /// The topic.
        topic: String,
        /// As given.
        partition: i32,
        /// How many it has.
        partitions: i32,
    },
    /// A message was not appended.
    NotProduced {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The protocol's error and its reason.
        reason: String,
    },
    /// The messages of a partition cannot be read.
    Unreadable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// From where on.
        offset: i64,
        /// What is wrong there.
        reason: String,
    },
    /// Partitions cannot be added to the topic.
    NotGrown {
        /// The topic.
        topic: String,
        /// The protocol's error and its reason.
        reason: String,
    },
    /// The topic cannot be created.
    TopicRefused {
        /// The topic.
        topic: String,
        /// The protocol's error and its reason.
        reason: String,
    },
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
            ServerError::CannotOpen(error) => error.fmt(out),
            ServerError::BadJournal(reason) => write!(out, "{reason}"),
            ServerError::BadData { dir, reason } => write!(out, "`{}` {reason}", dir.display()),
            ServerError::Stopped => write!(out, "the server has been stopped"),
            ServerError::Died => {
                write!(out, "the server has ended by itself: a bug in rota; standard error says where")
            }
            ServerError::StopTimedOut { timeout_ms } => {
                write!(out, "the server did not end within {timeout_ms} ms")
            }
            ServerError::ClockIsReal => {
                write!(out, "the server runs on the real clock; start it with a virtual clock to advance it")
            }
            ServerError::BadNodes { nodes } => write!(out, "nodes is {nodes}: give 1 to {NODES_MAX}"),
            ServerError::TooFewPorts { port, nodes } => write!(
                out,
                "{nodes} nodes need the ports from {port} on, but the last port is 65535: choose a lower one"
            ),
            ServerError::UnknownNode { node_id, nodes } => {
                let ids = if *nodes == 1 { "1".to_owned() } else { format!("1 to {nodes}") };
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
            | ServerError::UnknownMember { .. }
            | ServerError::InstanceWithoutGroup { .. }
            | ServerError::UnknownTopic { .. }
            | ServerError::UnknownTopicPartition { .. }
            | ServerError::NotProduced { .. }
            | ServerError::Unreadable { .. }
            | ServerError::NotGrown { .. }
            | ServerError::NotDone { .. } => self.fmt_control(out),
        }
    }
}

impl ServerError {
    /// What a test asked for and cannot have.
    fn fmt_control(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::UnknownErrorName { name, hint } => {
                write!(out, "no error of the protocol is named `{name}`; {hint}")
            }
            ServerError::UnknownApiName { name, hint } => {
                write!(out, "no API that can be made to answer an error is named `{name}`; {hint}")
            }
            ServerError::UnknownServedApi { name, hint } => {
                write!(out, "no API of this server is named `{name}`; {hint}")
            }
            ServerError::NodeIsDown { node_id } => {
                write!(out, "node {node_id} is down: start it before you move a partition to it")
            }
            ServerError::UnknownGroup { group_id, hint } => {
                write!(out, "there is no group `{group_id}`; {hint}")
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
            ServerError::NotGrown { topic, reason } => {
                write!(out, "cannot add partitions to topic `{topic}`: {reason}")
            }
            ServerError::NotDone { what, reason } => write!(out, "{what}: {reason}"),
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

impl From<SettingError> for ServerError {
    fn from(error: SettingError) -> ServerError {
        ServerError::Setting(error)
    }
}
