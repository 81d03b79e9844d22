//! Where an answer goes, and how what a coordinator answers is written.

use std::{cell::RefCell, rc::Rc};

use kafka_protocol::protocol::Encodable;
use rota_core::response::{Answer, CommittedTopic};
use rota_wire::{
    answers::{self, AskedTopic, FetchIds},
    header::RequestHeader,
    versions::Api,
    write::{Writer, begin_answer},
};

use super::{Client, Ending, fan_out::FanOut};

/// The answer does not fit its layout, such as a text that is too long. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unencodable;

/// The way back to one request of a client.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    /// The client.
    pub client: Rc<Client>,
    /// The API of the request.
    pub api: &'static Api,
    /// Its version.
    pub version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
}

impl ReplyTo {
    /// The request with this header.
    pub fn of(client: &Rc<Client>, header: &RequestHeader<'_>) -> ReplyTo {
        let RequestHeader { api, version, correlation_id, .. } = *header;
        ReplyTo { client: Rc::clone(client), api, version, correlation_id }
    }

    /// Writes a whole answer into the client's buffer and wakes its task. One that is longer than its length field can
    /// say ends the connection.
    pub fn answer(&self, body: impl FnOnce(&mut Writer<'_>)) {
        if !self.client.ended.get() {
            let out = &mut *self.client.out.borrow_mut();
            let start = begin_answer(out, self.correlation_id, self.api.tagged_answer_header(self.version));
            body(&mut Writer::new(out, self.api.flexible(self.version)));
            if i32::try_from(out.len() - start).is_ok() {
                self.client.end_answer(out, start);
            } else {
                out.truncate(start);
                self.client.end(Ending::Now);
            }
        }
        self.client.answered();
    }

    /// The same with a message of kafka-protocol. After an error the client waits in vain: its own deadline ends that,
    /// unless the connection is closed.
    pub fn encode(&self, response: &impl Encodable) -> Result<(), Unencodable> {
        let mut written = Ok(());
        if !self.client.ended.get() {
            let out = &mut *self.client.out.borrow_mut();
            let start = begin_answer(out, self.correlation_id, self.api.tagged_answer_header(self.version));
            if response.encode(out, self.version).is_ok() {
                self.client.end_answer(out, start);
            } else {
                out.truncate(start);
                written = Err(Unencodable);
            }
        }
        self.client.answered();
        written
    }
}

/// What an answer says beside what the coordinator says.
#[derive(Debug, Default)]
pub enum Beside {
    /// Nothing.
    #[default]
    Nothing,
    /// What the server refused of an `OffsetCommit` or `OffsetDelete` before the coordinator was asked.
    Refused(Vec<CommittedTopic>),
    /// What an `OffsetFetch` v1 asked for.
    Asked(Vec<AskedTopic>),
}

/// What becomes of a coordinator's answer.
#[derive(Debug)]
pub enum Reply {
    /// It is the answer to a client's request.
    Whole(ReplyTo, Beside),
    /// It is a part of one.
    Part(Rc<RefCell<FanOut>>, usize),
    /// It is a part of an `OffsetFetch` v10.
    PartById(Rc<RefCell<FanOut>>, usize, FetchIds),
    /// It is dropped.
    Discard,
}

impl Reply {
    /// Writes the answer.
    pub fn write(self, answer: &Answer<'_>) {
        match self {
            Reply::Whole(to, beside) => to.answer(|out| write_answer(out, to.version, answer, &beside)),
            Reply::Part(fan_out, index) => fan_out.borrow_mut().part(index, answer, None),
            Reply::PartById(fan_out, index, ids) => fan_out.borrow_mut().part(index, answer, Some(&ids)),
            Reply::Discard => {}
        }
    }
}

fn write_answer(out: &mut Writer<'_>, version: i16, answer: &Answer<'_>, beside: &Beside) {
    match answer {
        Answer::JoinGroup(answer) => answers::join_group(out, version, answer),
        Answer::SyncGroup(answer) => answers::sync_group(out, version, answer),
        Answer::Heartbeat(error) => answers::heartbeat(out, version, *error),
        Answer::LeaveGroup(answer) => answers::leave_group(out, version, answer),
        Answer::OffsetCommit(answer) => {
            let refused: &[CommittedTopic] = if let Beside::Refused(refused) = beside { refused } else { &[] };
            answers::offset_commit(out, version, refused, answer.topics);
        }
        Answer::OffsetFetch(answer) => {
            let asked: &[AskedTopic] = if let Beside::Asked(asked) = beside { asked } else { &[] };
            answers::offset_fetch_single(out, version, answer, asked);
        }
        Answer::OffsetDelete(answer) => {
            let refused: &[CommittedTopic] = if let Beside::Refused(refused) = beside { refused } else { &[] };
            answers::offset_delete(out, answer, refused);
        }
        // These are always parts of an answer.
        Answer::DescribeGroup(_) | Answer::ListGroups(_) | Answer::DeleteGroup(_) => {}
    }
}
