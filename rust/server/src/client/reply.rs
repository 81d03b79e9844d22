//! What becomes of a coordinator's answer, and how it is written.

use std::{cell::RefCell, rc::Rc};

use rota_core::response::{Answer, CommittedTopic};
use rota_wire::{
    answers::{self, AskedTopic, FetchIds},
    consumer_groups,
    write::Writer,
};

use super::{fan_out::FanOut, reply_to::ReplyTo};

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
        Answer::DescribeGroup(_)
        | Answer::ListGroups(_)
        | Answer::DeleteGroup(_)
        | Answer::ConsumerGroupDescribe(_) => {}
        Answer::ConsumerGroupHeartbeat(answer) => consumer_groups::heartbeat(out, answer),
    }
}
