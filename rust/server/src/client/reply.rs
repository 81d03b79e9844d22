//! Who gets the answer to which ticket, and how it is written.

use std::{cell::RefCell, rc::Rc};

use bytes::BytesMut;
use rota_core::{
    error::ErrorCode,
    request::Ticket,
    response::{Answer, CommittedTopic, ListAnswer},
};
use rota_wire::{
    answers::{self, AskedTopic, FetchIds},
    header::RequestHeader,
    versions::{self, Api},
    write::{Writer, begin_answer},
};

use crate::{
    log::newer_groups::{self, Listed},
    net::connection::{Connection, Ending},
};

/// Bytes of an answer that is put together from parts. A few bytes of a request can ask for all of a large group
/// again and again; beyond this the connection is closed.
pub const PARTS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Where an answer goes: a connection, and the request there.
#[derive(Clone, Debug)]
pub struct Address {
    /// The connection.
    pub connection: Rc<Connection>,
    /// The API of the request.
    pub api: &'static Api,
    /// Its version.
    pub version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
}

impl Address {
    /// Of the request with this header.
    pub fn of(connection: &Rc<Connection>, header: &RequestHeader<'_>) -> Address {
        let RequestHeader { api, version, correlation_id, .. } = *header;
        Address { connection: Rc::clone(connection), api, version, correlation_id }
    }

    /// Writes a whole answer into the connection's buffer and wakes it. One that is longer than its length field can
    /// say ends the connection.
    pub fn answer(&self, body: impl FnOnce(&mut Writer<'_>)) {
        if !self.connection.ended.get() {
            let out = &mut *self.connection.out.borrow_mut();
            let start = begin_answer(out, self.correlation_id, self.api.tagged_answer_header(self.version));
            body(&mut Writer::new(out, self.api.flexible(self.version)));
            if i32::try_from(out.len() - start).is_ok() {
                self.connection.end_answer(out, start);
            } else {
                out.truncate(start);
                self.connection.end(Ending::Now);
            }
        }
        self.connection.answered();
    }
}

/// What has to be known when the answer is written, besides what the core says.
#[derive(Debug, Default)]
pub enum Beside {
    /// Nothing.
    #[default]
    Nothing,
    /// What the front-end refused of an `OffsetCommit` or `OffsetDelete`.
    Refused(Vec<CommittedTopic>),
    /// What an `OffsetFetch` v1 asked for.
    Asked(Vec<AskedTopic>),
}

/// What becomes of an answer.
#[derive(Debug)]
pub enum Reply {
    /// It is the answer to a client's request.
    Whole(Address, Beside),
    /// It is a part of one.
    Part(Rc<RefCell<FanOut>>, usize),
    /// It is a part of an `OffsetFetch` v10.
    PartById(Rc<RefCell<FanOut>>, usize, FetchIds),
    /// Nobody wants it.
    Discard,
}

impl Reply {
    fn write(self, answer: &Answer<'_>) {
        match self {
            Reply::Whole(address, beside) => {
                address.answer(|out| write_answer(out, address.version, answer, &beside));
            }
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

/// A request that is split over groups or partitions, and its answer as far as it is there.
#[derive(Debug)]
pub struct FanOut {
    address: Address,
    parts: Vec<BytesMut>,
    parts_bytes: usize,
    missing: usize,
    listed: usize,
    list_error: ErrorCode,
    authorized_operations: i32,
    /// Groups of newer protocols that the answer may be about.
    newer: Vec<Listed>,
}

impl FanOut {
    /// For an answer of so many parts, in order; there is at least one.
    pub fn new(address: Address, parts: usize, authorized_operations: i32) -> Rc<RefCell<FanOut>> {
        Rc::new(RefCell::new(FanOut {
            address,
            parts: vec![BytesMut::new(); parts],
            parts_bytes: 0,
            missing: parts,
            listed: 0,
            list_error: ErrorCode::None,
            authorized_operations,
            newer: Vec::new(),
        }))
    }

    /// Says which groups are of newer protocols, as far as the coordinators know them for their offsets only.
    pub fn beside_newer(&mut self, newer: impl IntoIterator<Item = Listed>) {
        self.newer.extend(newer);
    }

    /// The parts are too large together: there will be no answer.
    pub fn is_too_large(&self) -> bool {
        self.parts_bytes > PARTS_BYTES_MAX
    }

    fn part(&mut self, index: usize, answer: &Answer<'_>, ids: Option<&FetchIds>) {
        if !self.is_too_large() {
            self.write_part(index, answer, ids);
            self.parts_bytes += self.parts[index].len();
        }
        if self.is_too_large() {
            self.parts.clear();
            self.address.connection.end(Ending::Now);
            return;
        }
        self.missing -= 1;
        if self.missing == 0 {
            self.finish();
        }
    }

    fn write_part(&mut self, index: usize, answer: &Answer<'_>, ids: Option<&FetchIds>) {
        let Address { api, version, .. } = self.address;
        let out = &mut Writer::new(&mut self.parts[index], api.flexible(version));
        match answer {
            Answer::OffsetFetch(answer) => match ids {
                Some(ids) => answers::offset_fetch_group_by_id(out, answer, ids),
                None => answers::offset_fetch_group(out, version, answer),
            },
            Answer::DescribeGroup(answer) => {
                // Nobody is told what may be done with a group that could not be read.
                let failed = answer.error != ErrorCode::None;
                let operations = if failed { answers::OPERATIONS_NOT_ASKED } else { self.authorized_operations };
                let is_untyped = answer.protocol_type.is_empty()
                    && matches!(answer.error, ErrorCode::None | ErrorCode::GroupIdNotFound);
                if is_untyped && self.newer.iter().any(|newer| newer.is(answer.group_id)) {
                    newer_groups::describe(out, version, answer, operations);
                } else {
                    answers::described_group(out, version, answer, operations);
                }
            }
            Answer::DeleteGroup(answer) => answers::deleted_group(out, version, answer),
            Answer::ListGroups(answer) => self.list_part(index, answer),
            _ => {}
        }
    }

    /// A partition that is being loaded fails the whole listing; one that is not owned is left out (§12.2).
    fn list_part(&mut self, index: usize, answer: &ListAnswer<'_>) {
        let Address { api, version, .. } = self.address;
        match answer.error {
            ErrorCode::None => {
                let out = &mut Writer::new(&mut self.parts[index], api.flexible(version));
                for group in answer.groups {
                    if !group.protocol_type.is_empty() {
                        self.newer.retain(|newer| !newer.is(group.group_id));
                    } else if self.newer.iter().any(|newer| newer.is(group.group_id)) {
                        continue;
                    }
                    answers::listed_group(out, version, group, newer_groups::CLASSIC);
                    self.listed += 1;
                }
            }
            ErrorCode::NotCoordinator => {}
            error => self.list_error = error,
        }
    }

    fn finish(&mut self) {
        let Address { api, version, .. } = self.address;
        self.address.answer(|out| {
            if api.key != versions::LIST_GROUPS {
                return answers::multi(out, throttled(api, version), self.parts.iter().map(|part| &part[..]));
            }
            if self.list_error == ErrorCode::None {
                let lines = &mut BytesMut::from(&self.parts.concat()[..]);
                let newer = self.newer.iter().filter(|newer| newer.is_wanted);
                let listed = self.listed + newer.clone().count();
                let mut line = Writer::new(lines, api.flexible(version));
                newer.for_each(|newer| answers::listed_group(&mut line, version, &newer.line(), newer.kind.name()));
                answers::list_groups(out, version, ErrorCode::None, listed, lines);
            } else {
                answers::list_groups(out, version, self.list_error, 0, &[]);
            }
        });
    }
}

/// Whether an answer that is put together from parts begins with a throttle time.
pub fn throttled(api: &Api, version: i16) -> bool {
    api.key != versions::DESCRIBE_GROUPS || version >= 1
}

/// The tickets that have been handed to coordinators and not been answered. A ticket is an index and, above it, how
/// often the index has been used, so a ticket that is answered twice finds nothing.
#[derive(Debug, Default)]
pub struct Tickets {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    used: u32,
    reply: Option<Reply>,
}

impl Tickets {
    /// A ticket whose answer goes to `reply`.
    pub fn issue(&mut self, reply: Reply) -> Ticket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { used: 0, reply: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.reply = Some(reply);
        Ticket(u64::from(place.used) << 32 | u64::from(index))
    }

    /// Writes the answer of `ticket`. False if it has been answered before (S18).
    pub fn answer(&mut self, ticket: Ticket, answer: &Answer<'_>) -> bool {
        let index = ticket.0 as u32;
        let Some(place) = self.places.get_mut(index as usize) else { return false };
        if u64::from(place.used) != ticket.0 >> 32 {
            return false;
        }
        let Some(reply) = place.reply.take() else { return false };
        place.used = place.used.wrapping_add(1);
        self.free.push(index);
        reply.write(answer);
        true
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use rota_core::response::FetchAnswer;

    use super::*;

    fn address() -> Address {
        let nowhere = ([127, 0, 0, 1], 0).into();
        let connection = Rc::new(Connection::new(1, nowhere, nowhere));
        let api = versions::find(versions::OFFSET_FETCH).unwrap();
        Address { connection, api, version: 9, correlation_id: 7 }
    }

    #[test]
    fn parts_that_are_too_large_together_end_the_connection_without_an_answer() {
        let answer = Answer::OffsetFetch(FetchAnswer { group_id: "g", error: ErrorCode::None, topics: &[] });
        for (before_bytes, ending) in [(0, Ending::No), (PARTS_BYTES_MAX, Ending::Now)] {
            let address = address();
            let fan_out = FanOut::new(address.clone(), 2, answers::OPERATIONS_NOT_ASKED);
            fan_out.borrow_mut().parts_bytes = before_bytes;
            Reply::Part(Rc::clone(&fan_out), 0).write(&answer);
            Reply::Part(Rc::clone(&fan_out), 1).write(&answer);
            assert_eq!(fan_out.borrow().is_too_large(), ending == Ending::Now);
            assert_eq!(address.connection.ending.get(), ending);
            assert_eq!(address.connection.out.borrow().is_empty(), ending == Ending::Now);
        }
    }

    #[test]
    fn a_ticket_is_answered_once() {
        let mut tickets = Tickets::default();
        let first = tickets.issue(Reply::Discard);
        let answer = Answer::Heartbeat(ErrorCode::None);
        assert!(tickets.answer(first, &answer));
        assert!(!tickets.answer(first, &answer));
        let second = tickets.issue(Reply::Discard);
        assert_ne!(first, second);
        assert!(!tickets.answer(first, &answer));
        assert_eq!(tickets.waiting(), 1);
        assert!(tickets.answer(second, &answer));
        assert_eq!(tickets.waiting(), 0);
    }
}
