//! Assembles an answer from those of several coordinators, or of one coordinator about several groups.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, sync::Arc};

use bytes::BytesMut;
use rota_core::{
    error::ErrorCode,
    response::{Answer, ConsumerDescribeAnswer, DescribeAnswer, ListAnswer},
};
use rota_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use rota_wire::{
    answers::{self, FetchIds},
    consumer_groups,
    versions::{self, Api},
    write::Writer,
};

use super::{Ending, access::Access, reply_to::ReplyTo};
use crate::log::newer_groups::Listed;

/// Maximum bytes of an assembled answer, with those that its client does not see. A short request can name a large group
/// many times; beyond the limit the connection is closed.
pub const PARTS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The least bytes of an offset beside its metadata: index, offset, a length and an error.
const OFFSET_BYTES: usize = 16;
/// The bytes of a topic's id.
const TOPIC_ID_BYTES: usize = 16;

/// Returns how many bytes an answer has at least if its client sees all of it. A coordinator also visits what the client
/// does not see, so it counts: a request may name the same large group many times.
pub(super) fn least_bytes(answer: &Answer<'_>) -> usize {
    match answer {
        Answer::OffsetFetch(fetch) => {
            let offsets = fetch.topics.iter().flat_map(|topic| &topic.partitions);
            offsets.fold(0, |bytes, offset| bytes.saturating_add(OFFSET_BYTES + offset.metadata.len()))
        }
        Answer::ConsumerGroupDescribe(described) => {
            let subscribed = described.members.iter().flat_map(|member| member.subscribed_topic_names);
            let topics =
                described.members.iter().flat_map(|member| member.assignment.iter().chain(member.target_assignment));
            let names_bytes = subscribed.fold(0_usize, |bytes, name| bytes.saturating_add(name.len()));
            topics.fold(names_bytes, |bytes, topic| {
                bytes.saturating_add(TOPIC_ID_BYTES + topic.topic.len() + size_of_val(topic.partitions))
            })
        }
        _ => 0,
    }
}

/// The group type of classic groups in a list.
const CLASSIC: &str = "classic";
const CONSUMER: &str = "consumer";

/// Kafka's message for a group with topics that the client may not describe.
const HIDDEN_TOPICS: &str = "The group has described topic(s) that the client is not authorized to describe.";

/// The first version of `DescribeGroups` with an error for groups of other types.
const DESCRIBE_SAYS_WHY_SINCE: i16 = 6;

/// A request split into groups or partitions, with the parts of its answer so far.
#[derive(Debug)]
pub struct FanOut {
    reply_to: ReplyTo,
    parts: Vec<BytesMut>,
    parts_bytes: usize,
    missing: usize,
    listed: usize,
    list_error: ErrorCode,
    authorized_operations: i32,
    /// What the client may do.
    access: Access,
    /// Groups of other protocols that the answer may concern.
    newer: Vec<Listed>,
    /// Groups of the consumer protocol coordinated here.
    consumer_groups: BTreeSet<Arc<str>>,
}

impl FanOut {
    /// Creates an answer of this number of parts, at least one.
    pub fn new(reply_to: ReplyTo, parts: usize, authorized_operations: i32) -> Rc<RefCell<FanOut>> {
        Rc::new(RefCell::new(FanOut {
            reply_to,
            parts: vec![BytesMut::new(); parts],
            parts_bytes: 0,
            missing: parts,
            listed: 0,
            list_error: ErrorCode::None,
            authorized_operations,
            access: Access::OPEN,
            newer: Vec::new(),
            consumer_groups: BTreeSet::new(),
        }))
    }

    /// Restricts the answer to what the client may see.
    pub fn restrict_to(&mut self, access: Access) {
        self.access = access;
    }

    /// Adds groups of other protocols. The coordinators have only their offsets.
    pub fn beside_newer(&mut self, newer: impl IntoIterator<Item = Listed>) {
        self.newer.extend(newer);
    }

    /// Adds groups of the consumer protocol coordinated here.
    pub fn beside_consumer(&mut self, group_ids: BTreeSet<Arc<str>>) {
        self.consumer_groups = group_ids;
    }

    /// Whether the parts exceed the size limit, so that there is no answer.
    pub fn is_too_large(&self) -> bool {
        self.parts_bytes > PARTS_BYTES_MAX
    }

    /// Adds the answer of part `index`, for which a coordinator visited at least so many bytes. The last part completes the
    /// answer.
    pub fn part(&mut self, index: usize, answer: &Answer<'_>, ids: Option<&FetchIds>, visited_bytes: usize) {
        let needed_bytes = self.parts_bytes.saturating_add(visited_bytes);
        if needed_bytes > PARTS_BYTES_MAX {
            self.parts_bytes = needed_bytes;
        } else {
            self.write_part(index, answer, ids);
            self.parts_bytes += self.parts[index].len().max(visited_bytes);
        }
        if self.is_too_large() {
            self.parts.clear();
            self.reply_to.client.end(Ending::Now);
            return;
        }
        self.missing -= 1;
        if self.missing == 0 {
            self.finish();
        }
    }

    fn write_part(&mut self, index: usize, answer: &Answer<'_>, ids: Option<&FetchIds>) {
        let ReplyTo { api, version, .. } = self.reply_to;
        let out = &mut Writer::new(&mut self.parts[index], api.flexible(version));
        let operations = |group_id: &str| match self.authorized_operations {
            answers::OPERATIONS_NOT_ASKED => answers::OPERATIONS_NOT_ASKED,
            all if self.access.is_open() => all,
            _ => self.access.operations(ResourceType::Group, group_id),
        };
        match answer {
            Answer::OffsetFetch(answer) => match ids {
                Some(ids) => answers::offset_fetch_group_by_id(out, answer, ids),
                None => answers::offset_fetch_group(out, version, answer),
            },
            Answer::DescribeGroup(answer) => {
                // A group that could not be read has no authorized operations.
                let failed = answer.error != ErrorCode::None;
                let operations = if failed { answers::OPERATIONS_NOT_ASKED } else { operations(answer.group_id) };
                let is_untyped = answer.protocol_type.is_empty()
                    && matches!(answer.error, ErrorCode::None | ErrorCode::GroupIdNotFound);
                if is_untyped && is_in(&self.newer, answer.group_id) {
                    describe_newer(out, version, answer, operations);
                } else {
                    answers::described_group(out, version, answer, operations);
                }
            }
            Answer::DeleteGroup(answer) => answers::deleted_group(out, version, answer),
            Answer::ConsumerGroupDescribe(answer) => {
                let answer = visible(answer, &self.access);
                let failed = answer.error != ErrorCode::None;
                let operations = if failed { answers::OPERATIONS_NOT_ASKED } else { operations(answer.group_id) };
                consumer_groups::described_group(out, version, &answer, operations);
            }
            Answer::ListGroups(answer) => self.list_part(index, answer),
            _ => {}
        }
    }

    /// A loading partition fails the whole list; a partition of another node is left out (§12.2).
    fn list_part(&mut self, index: usize, answer: &ListAnswer<'_>) {
        let ReplyTo { api, version, .. } = self.reply_to;
        match answer.error {
            ErrorCode::None => {
                let out = &mut Writer::new(&mut self.parts[index], api.flexible(version));
                let may_see = |group_id| self.access.may(Operation::Describe, ResourceType::Group, group_id);
                let sees_all = self.access.may(Operation::Describe, ResourceType::Cluster, CLUSTER_NAME);
                for group in answer.groups.iter().filter(|group| sees_all || may_see(group.group_id)) {
                    // The coordinator has the offsets of a group of another protocol.
                    if group.protocol_type.is_empty() && is_in(&self.newer, group.group_id) {
                        continue;
                    }
                    let is_consumer = self.consumer_groups.contains(group.group_id);
                    answers::listed_group(out, version, group, if is_consumer { CONSUMER } else { CLASSIC });
                    self.listed += 1;
                }
            }
            ErrorCode::NotCoordinator => {}
            error => self.list_error = error,
        }
    }

    fn finish(&mut self) {
        let ReplyTo { api, version, .. } = self.reply_to;
        self.reply_to.answer(|out| {
            if api.key != versions::LIST_GROUPS {
                return answers::multi(out, throttled(api, version), self.parts.iter().map(|part| &part[..]));
            }
            if self.list_error == ErrorCode::None {
                let lines = &mut BytesMut::from(&self.parts.concat()[..]);
                let may_see = |group_id| self.access.may(Operation::Describe, ResourceType::Group, group_id);
                let sees_all = self.access.may(Operation::Describe, ResourceType::Cluster, CLUSTER_NAME);
                let newer =
                    self.newer.iter().filter(|newer| newer.is_wanted && (sees_all || may_see(newer.line().group_id)));
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

fn is_in(groups: &[Listed], group_id: &str) -> bool {
    groups.iter().any(|group| group.group_id() == group_id)
}

/// Returns only an error if the group has partitions of topics that the client may not describe.
fn visible<'a>(answer: &ConsumerDescribeAnswer<'a>, access: &Access) -> ConsumerDescribeAnswer<'a> {
    let members = answer.members.iter();
    let mut topics = members.flat_map(|member| member.assignment.iter().chain(member.target_assignment));
    if topics.all(|topic| access.may(Operation::Describe, ResourceType::Topic, topic.topic)) {
        return *answer;
    }
    let error = ErrorCode::TopicAuthorizationFailed;
    ConsumerDescribeAnswer {
        error,
        error_message: Some(HIDDEN_TOPICS),
        group_state: "",
        group_epoch: 0,
        assignment_epoch: 0,
        assignor_name: "",
        members: &[],
        ..*answer
    }
}

/// Whether an assembled answer starts with a throttle time.
pub fn throttled(api: &Api, version: i16) -> bool {
    api.key != versions::DESCRIBE_GROUPS || version >= 1
}

/// Describes a group of another type. The coordinator has only its offsets.
fn describe_newer(out: &mut Writer<'_>, version: i16, answer: &DescribeAnswer<'_>, operations: i32) {
    let message = format!("Group {} is not a classic group.", answer.group_id);
    let says_why = version >= DESCRIBE_SAYS_WHY_SINCE;
    let error = if says_why { ErrorCode::GroupIdNotFound } else { ErrorCode::None };
    let error_message = says_why.then_some(&*message);
    let described = DescribeAnswer { error, error_message, state: "Dead", ..*answer };
    answers::described_group(
        out,
        version,
        &described,
        if says_why { answers::OPERATIONS_NOT_ASKED } else { operations },
    );
}

#[cfg(test)]
mod tests {
    use rota_core::response::{ConsumerMemberDescription, FetchAnswer, FetchedOffset, FetchedTopic, NamedTopic};

    use super::*;
    use crate::client::{
        reply::{Beside, FetchAccess, Reply},
        tests::nowhere,
    };

    /// What a client may do that may do nothing.
    fn nothing(api: &'static Api) -> Access {
        Access::checked(Arc::default(), Arc::default(), &nowhere(), api)
    }

    /// Whether an answer that its client does not see twice ends the connection, and how many bytes were written.
    fn hidden_twice(
        key: i16,
        version: i16,
        answer: &Answer<'_>,
        reply: impl Fn(Rc<RefCell<FanOut>>, usize) -> Reply,
    ) -> (Ending, usize) {
        let api = versions::find(key).unwrap();
        let reply_to = ReplyTo { client: nowhere(), api, version, correlation_id: 7 };
        let fan_out = FanOut::new(reply_to.clone(), 3, answers::OPERATIONS_NOT_ASKED);
        fan_out.borrow_mut().restrict_to(nothing(api));
        reply(Rc::clone(&fan_out), 0).write(answer);
        let written = fan_out.borrow().parts[0].len();
        reply(Rc::clone(&fan_out), 1).write(answer);
        (reply_to.client.ending(), written)
    }

    #[test]
    fn what_a_client_does_not_see_of_an_answer_counts_as_if_it_did() {
        let metadata = "m".repeat(PARTS_BYTES_MAX / 2);
        let (offset, leader_epoch, topic_id, error) = (1, -1, 0, ErrorCode::None);
        let fetched = FetchedOffset { index: 0, offset, leader_epoch, metadata: &metadata, topic_id, error };
        let topics = [FetchedTopic { name: "t", partitions: vec![fetched] }];
        let answer = Answer::OffsetFetch(FetchAnswer { group_id: "g", error, topics: &topics });
        let restricted = |fan_out, index| {
            let of_all = Some(nothing(versions::find(versions::OFFSET_FETCH).unwrap()));
            Reply::Fetched(Box::new(Reply::Part(fan_out, index)), FetchAccess { refused: Vec::new(), of_all })
        };
        let (ending, written) = hidden_twice(versions::OFFSET_FETCH, 9, &answer, restricted);
        assert_eq!((ending, written < 100), (Ending::Now, true));
        // An offset without a topic id is in no answer by id.
        let by_id = |fan_out, index| Reply::PartById(fan_out, index, FetchIds::default());
        let (ending, written) = hidden_twice(versions::OFFSET_FETCH, 10, &answer, by_id);
        assert_eq!((ending, written < 100), (Ending::Now, true));
        let topics = [NamedTopic { topic_id: 1, topic: &metadata, partitions: &[0] }];
        let member = ConsumerMemberDescription {
            member_id: "m",
            instance_id: None,
            rack_id: None,
            member_epoch: 1,
            client_id: "c",
            client_host: "/127.0.0.1",
            subscribed_topic_names: &[],
            subscribed_topic_regex: None,
            assignment: &topics,
            target_assignment: &[],
            member_type: 1,
        };
        let answer = Answer::ConsumerGroupDescribe(ConsumerDescribeAnswer {
            error,
            error_message: None,
            group_id: "g",
            group_state: "Stable",
            group_epoch: 1,
            assignment_epoch: 1,
            assignor_name: "uniform",
            members: &[member],
        });
        let (ending, written) = hidden_twice(versions::CONSUMER_GROUP_DESCRIBE, 1, &answer, Reply::Part);
        assert_eq!((ending, written < 200), (Ending::Now, true));
    }

    #[test]
    fn offsets_without_metadata_count_too() {
        let (offset, leader_epoch, metadata, topic_id, error) = (1, -1, "", 0, ErrorCode::None);
        let fetched = FetchedOffset { index: 0, offset, leader_epoch, metadata, topic_id, error };
        let topics = [FetchedTopic { name: "t", partitions: vec![fetched; 1_000] }];
        let answer = Answer::OffsetFetch(FetchAnswer { group_id: "g", error, topics: &topics });
        assert_eq!(least_bytes(&answer), 1_000 * OFFSET_BYTES);
    }

    #[test]
    fn parts_that_are_too_large_together_end_the_connection_without_an_answer() {
        let answer = Answer::OffsetFetch(FetchAnswer { group_id: "g", error: ErrorCode::None, topics: &[] });
        for (before_bytes, ending) in [(0, Ending::No), (PARTS_BYTES_MAX, Ending::Now)] {
            let api = versions::find(versions::OFFSET_FETCH).unwrap();
            let reply_to = ReplyTo { client: nowhere(), api, version: 9, correlation_id: 7 };
            let fan_out = FanOut::new(reply_to.clone(), 2, answers::OPERATIONS_NOT_ASKED);
            fan_out.borrow_mut().parts_bytes = before_bytes;
            Reply::Part(Rc::clone(&fan_out), 0).write(&answer);
            Reply::Part(Rc::clone(&fan_out), 1).write(&answer);
            assert_eq!(fan_out.borrow().is_too_large(), ending == Ending::Now);
            assert_eq!(reply_to.client.ending(), ending);
            assert_eq!(reply_to.client.out().is_empty(), ending == Ending::Now);
        }
    }

    #[test]
    fn an_offset_that_is_named_too_often_ends_the_connection_before_the_answer_is_written() {
        let metadata = "m".repeat(1 << 20);
        let (offset, leader_epoch, topic_id, error) = (1, -1, 0, ErrorCode::None);
        let fetched = FetchedOffset { index: 0, offset, leader_epoch, metadata: &metadata, topic_id, error };
        let partitions = vec![fetched; PARTS_BYTES_MAX / metadata.len() + 1];
        let topics = [FetchedTopic { name: "t", partitions }];
        let answer = Answer::OffsetFetch(FetchAnswer { group_id: "g", error: ErrorCode::None, topics: &topics });
        for is_whole in [true, false] {
            let api = versions::find(versions::OFFSET_FETCH).unwrap();
            let version = if is_whole { 7 } else { 8 };
            let reply_to = ReplyTo { client: nowhere(), api, version, correlation_id: 7 };
            let reply = if is_whole {
                Reply::Whole(reply_to.clone(), Beside::Nothing)
            } else {
                Reply::Part(FanOut::new(reply_to.clone(), 1, answers::OPERATIONS_NOT_ASKED), 0)
            };
            reply.write(&answer);
            assert_eq!(reply_to.client.ending(), Ending::Now);
            assert!(reply_to.client.out().is_empty());
        }
    }
}
