//! Destinations of a coordinator's answer, and its encoding.

use std::{cell::RefCell, rc::Rc};

use rota_core::{
    error::ErrorCode,
    response::{Answer, CommittedTopic, FetchAnswer, FetchedOffset, FetchedTopic},
};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{
    answers::{self, AskedTopic, FetchIds},
    consumer_groups, transactions,
    versions::{self, Api},
    write::Writer,
};

use super::{
    Client, Ending,
    access::Access,
    caller_reply::CallerReply,
    fan_out::{FanOut, PARTS_BYTES_MAX, least_bytes},
    reply_to::ReplyTo,
};

/// Additions of the server to a coordinator's answer.
#[derive(Debug, Default)]
pub enum Beside {
    /// No additions.
    #[default]
    Nothing,
    /// Partitions of an `OffsetCommit` or `OffsetDelete` that the server refused before the coordinator.
    Refused(Vec<CommittedTopic>),
    /// The partitions that an `OffsetFetch` v1 requested.
    Asked(Vec<AskedTopic>),
}

/// What a client may see of the answer to its `OffsetFetch`.
#[derive(Debug)]
pub struct FetchAccess {
    /// The topics of the request that it may not describe, by name, with partitions.
    pub refused: Vec<AskedTopic>,
    /// If it asked for all topics, it sees those that it may describe.
    pub of_all: Option<Access>,
}

impl FetchAccess {
    fn topics<'a>(&'a self, answer: &FetchAnswer<'a>) -> Vec<FetchedTopic<'a>> {
        if answer.error != ErrorCode::None {
            return answer.topics.to_vec();
        }
        let sees = |topic: &&FetchedTopic<'_>| {
            self.of_all.as_ref().is_none_or(|access| access.may(Operation::Describe, ResourceType::Topic, topic.name))
        };
        let none = |index: &i32| FetchedOffset {
            index: *index,
            offset: -1,
            leader_epoch: -1,
            metadata: "",
            topic_id: 0,
            error: ErrorCode::TopicAuthorizationFailed,
        };
        let refused = |(name, partitions): &'a AskedTopic| FetchedTopic {
            name,
            partitions: partitions.iter().map(none).collect(),
        };
        answer.topics.iter().filter(sees).cloned().chain(self.refused.iter().map(refused)).collect()
    }
}

/// The destination of a coordinator's answer.
#[derive(Debug)]
pub enum Reply {
    /// The answer to a client's request.
    Whole(ReplyTo, Beside),
    /// The answer to an `OffsetFetch`, with what the client may see of it.
    Fetched(Box<Reply>, FetchAccess),
    /// A part of an assembled answer.
    Part(Rc<RefCell<FanOut>>, usize),
    /// A part of the answer to an `OffsetFetch` v10.
    PartById(Rc<RefCell<FanOut>>, usize, FetchIds),
    /// The answer to a marker or a commit, for a function of this process.
    Caller(CallerReply),
    /// No destination: the answer is dropped.
    Discard,
}

impl Reply {
    /// Returns the client that waits for a whole answer.
    pub fn client(&self) -> Option<&Rc<Client>> {
        match self {
            Reply::Whole(to, _) => Some(&to.client),
            Reply::Fetched(reply, _) => reply.client(),
            Reply::Part(..) | Reply::PartById(..) | Reply::Caller(_) | Reply::Discard => None,
        }
    }

    /// Writes the answer to its destination.
    pub fn write(self, answer: &Answer<'_>) {
        let visited_bytes = least_bytes(answer);
        self.write_seen(answer, visited_bytes);
    }

    /// Writes what the client sees of an answer, for which a coordinator visited at least so many bytes.
    fn write_seen(self, answer: &Answer<'_>, visited_bytes: usize) {
        match self {
            Reply::Whole(to, _) if visited_bytes > PARTS_BYTES_MAX => {
                to.client.end(Ending::Now);
                to.client.answered();
            }
            Reply::Whole(to, beside) => to.answer(|out| write_answer(out, to.api, to.version, answer, &beside)),
            Reply::Part(fan_out, index) => fan_out.borrow_mut().part(index, answer, None, visited_bytes),
            Reply::PartById(fan_out, index, ids) => {
                fan_out.borrow_mut().part(index, answer, Some(&ids), visited_bytes);
            }
            Reply::Fetched(reply, access) => match answer {
                Answer::OffsetFetch(fetch) => {
                    let seen = FetchAnswer { topics: &access.topics(fetch), ..*fetch };
                    reply.write_seen(&Answer::OffsetFetch(seen), visited_bytes);
                }
                _ => reply.write_seen(answer, visited_bytes),
            },
            Reply::Caller(reply) => reply.write(answer),
            Reply::Discard => {}
        }
    }
}

fn write_answer(out: &mut Writer<'_>, api: &Api, version: i16, answer: &Answer<'_>, beside: &Beside) {
    match answer {
        Answer::JoinGroup(answer) => answers::join_group(out, version, answer),
        Answer::SyncGroup(answer) => answers::sync_group(out, version, answer),
        Answer::Heartbeat(error) => answers::heartbeat(out, version, *error),
        Answer::LeaveGroup(answer) => answers::leave_group(out, version, answer),
        Answer::OffsetCommit(answer) => {
            let refused: &[CommittedTopic] = if let Beside::Refused(refused) = beside { refused } else { &[] };
            match api.key {
                versions::TXN_OFFSET_COMMIT => {
                    transactions::txn_offset_commit(out, version, refused, answer.topics);
                }
                _ => answers::offset_commit(out, version, refused, answer.topics),
            }
        }
        Answer::OffsetFetch(answer) => {
            let asked: &[AskedTopic] = if let Beside::Asked(asked) = beside { asked } else { &[] };
            answers::offset_fetch_single(out, version, answer, asked);
        }
        Answer::OffsetDelete(answer) => {
            let refused: &[CommittedTopic] = if let Beside::Refused(refused) = beside { refused } else { &[] };
            answers::offset_delete(out, answer, refused);
        }
        // Always parts of an assembled answer, or of no client.
        Answer::WriteTxnMarker(_)
        | Answer::DescribeGroup(_)
        | Answer::ListGroups(_)
        | Answer::DeleteGroup(_)
        | Answer::ConsumerGroupDescribe(_) => {}
        Answer::ConsumerGroupHeartbeat(answer) => consumer_groups::heartbeat(out, answer),
    }
}
