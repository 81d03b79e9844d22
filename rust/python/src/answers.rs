//! What the coordinator answers and appends, as frozen Python classes.

use pyo3::prelude::*;
use rota_core::{AppendId, ErrorCode, Record, Sink, Ticket, response};

use crate::{
    errors::Code,
    plain::plain,
    records::PyRecord,
    values::{Octets, Tuple, union},
};

plain! {
    /// Answer to `JoinGroup`. On an error: generation -1, no leader, no protocol, no members.
    JoinAnswer {
        /// The request's ticket.
        ticket: u64,
        /// `ErrorCode.NONE` on success.
        error: Code,
        /// -1 on an error.
        generation: i32,
        /// `None` on an error.
        protocol_type: Option<String>,
        /// `None` on an error.
        protocol_name: Option<String>,
        /// The leader's member id, "" on an error.
        leader: String,
        /// The leader is told the members but need not compute a plan.
        skip_assignment: bool,
        /// The receiver's own id, or "".
        member_id: String,
        /// Only for the leader.
        members: Tuple<JoinedMember>,
    }
}

plain! {
    /// One line of the list that the leader gets.
    JoinedMember {
        /// The member.
        member_id: String,
        /// Static members only.
        instance_id: Option<String>,
        /// Its metadata for the chosen protocol.
        metadata: Octets,
    }
}

plain! {
    /// Answer to `SyncGroup`. On an error: no assignment, no protocol.
    SyncAnswer {
        /// The request's ticket.
        ticket: u64,
        /// `ErrorCode.NONE` on success.
        error: Code,
        /// `None` on an error.
        protocol_type: Option<String>,
        /// `None` on an error.
        protocol_name: Option<String>,
        /// The leader's bytes for this member, or empty.
        assignment: Octets,
    }
}

plain! {
    /// Answer to `Heartbeat`.
    HeartbeatAnswer {
        /// The request's ticket.
        ticket: u64,
        /// `ErrorCode.NONE` on success.
        error: Code,
    }
}

plain! {
    /// Answer to `LeaveGroup`.
    LeaveAnswer {
        /// The request's ticket.
        ticket: u64,
        /// Top level; up to version 2 the single member's error.
        error: Code,
        /// In request order, identities as requested.
        members: Tuple<LeftMember>,
    }
}

plain! {
    /// One leaver's result.
    LeftMember {
        /// As requested.
        member_id: String,
        /// As requested.
        instance_id: Option<String>,
        /// `ErrorCode.NONE` when it left.
        error: Code,
    }
}

plain! {
    /// Answer to `OffsetCommit`.
    CommitAnswer {
        /// The request's ticket.
        ticket: u64,
        /// In request order.
        partitions: Tuple<CommittedPartition>,
    }
    methods {
        /// The first partition's error that is not `ErrorCode.NONE`, else `ErrorCode.NONE`.
        #[getter]
        fn error(&self) -> Code {
            let mut errors = self.partitions.0.iter().map(|partition| partition.error);
            errors.find(|error| error.0 != ErrorCode::None).unwrap_or(Code(ErrorCode::None))
        }
    }
}

plain! {
    /// One partition's result of a commit.
    CommittedPartition {
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: i32,
        /// `ErrorCode.NONE` when it was stored.
        error: Code,
        /// The topic's id, 0 if unknown.
        topic_id: u128 = 0,
    }
    shown "(topic, partition, error, topic_id=0)"
}

plain! {
    /// Answer to `OffsetFetch`.
    FetchAnswer {
        /// The request's ticket.
        ticket: u64,
        /// The group's.
        error: Code,
        /// The group asked about.
        group_id: String,
        /// In request order, or by topic and partition; empty on an error.
        partitions: Tuple<FetchedOffset>,
    }
}

plain! {
    /// One committed offset; -1, -1, "" when there is none.
    FetchedOffset {
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: i32,
        /// -1: none.
        offset: i64,
        /// -1: none.
        leader_epoch: i32,
        /// As committed.
        metadata: String,
        /// Why this partition could not be read, or `ErrorCode.NONE`.
        error: Code,
        /// The topic id that the commit carried, 0 if none.
        topic_id: u128 = 0,
    }
    shown "(topic, partition, offset, leader_epoch, metadata, error, topic_id=0)"
}

plain! {
    /// Answer to `DescribeGroup`.
    DescribeAnswer {
        /// The request's ticket.
        ticket: u64,
        /// The gate's, or from version 6 on `ErrorCode.GROUP_ID_NOT_FOUND`.
        error: Code,
        /// Only with `ErrorCode.GROUP_ID_NOT_FOUND`.
        error_message: Option<String>,
        /// The group asked about.
        group_id: String,
        /// `Dead` for a missing group; "" when the gate refused.
        state: String,
        /// "" if the group has none.
        protocol_type: String,
        /// Only while Stable.
        protocol_name: String,
        /// In joining order.
        members: Tuple<DescribedMember>,
    }
}

plain! {
    /// One member in a description.
    DescribedMember {
        /// The member.
        member_id: String,
        /// Static members only.
        instance_id: Option<String>,
        /// As it joined first.
        client_id: String,
        /// As it joined first.
        client_host: String,
        /// For the chosen protocol while Stable, else empty.
        metadata: Octets,
        /// The assignment in memory.
        assignment: Octets,
    }
}

plain! {
    /// Answer to `ListGroups` for one coordinator partition.
    ListAnswer {
        /// The request's ticket.
        ticket: u64,
        /// The gate's.
        error: Code,
        /// By group id.
        groups: Tuple<ListedGroup>,
    }
}

plain! {
    /// Answer to `DeleteGroup`.
    DeleteAnswer {
        /// The request's ticket.
        ticket: u64,
        /// `ErrorCode.NONE` when the group is gone for good.
        error: Code,
        /// The group asked about.
        group_id: String,
    }
}

plain! {
    /// Answer to `OffsetDelete`.
    OffsetDeleteAnswer {
        /// The request's ticket.
        ticket: u64,
        /// The group's error.
        error: Code,
        /// In request order; empty on an error of the group.
        partitions: Tuple<DeletedPartition>,
    }
}

plain! {
    /// One partition's result of an `OffsetDelete`.
    DeletedPartition {
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: i32,
        /// `ErrorCode.NONE`, also where no offset was stored.
        error: Code,
    }
}

plain! {
    /// One line of a listing.
    ListedGroup {
        /// The group.
        group_id: String,
        /// "" if it has none.
        protocol_type: String,
        /// The group's state.
        state: String,
    }
}

plain! {
    /// Records to append as one batch; report the end with `Coordinator.appended`.
    Append {
        /// Names the append.
        append_id: u64,
        /// In order.
        records: Tuple<PyRecord>,
    }
}

/// One effect of a step.
#[derive(IntoPyObject)]
pub enum Effect {
    Join(JoinAnswer),
    Sync(SyncAnswer),
    Heartbeat(HeartbeatAnswer),
    Leave(LeaveAnswer),
    Commit(CommitAnswer),
    Fetch(FetchAnswer),
    Describe(DescribeAnswer),
    List(ListAnswer),
    Delete(DeleteAnswer),
    OffsetDelete(OffsetDeleteAnswer),
    Append(Append),
}

/// Keeps the effects of one step in their order.
#[derive(Default)]
pub struct Effects(pub Vec<Effect>);

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: response::Answer<'_>) {
        self.0.push(effect(ticket.0, &answer));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        let records = records.iter().map(PyRecord::from).collect();
        self.0.push(Effect::Append(Append { append_id: append_id.0, records }));
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

fn effect(ticket: u64, answer: &response::Answer<'_>) -> Effect {
    match answer {
        response::Answer::JoinGroup(answer) => Effect::Join(join(ticket, answer)),
        response::Answer::SyncGroup(answer) => Effect::Sync(SyncAnswer {
            ticket,
            error: Code(answer.error),
            protocol_type: owned(answer.protocol_type),
            protocol_name: owned(answer.protocol_name),
            assignment: answer.assignment.into(),
        }),
        response::Answer::Heartbeat(error) => Effect::Heartbeat(HeartbeatAnswer { ticket, error: Code(*error) }),
        response::Answer::LeaveGroup(answer) => Effect::Leave(LeaveAnswer {
            ticket,
            error: Code(answer.error),
            members: answer.members.iter().map(left).collect(),
        }),
        response::Answer::OffsetCommit(answer) => Effect::Commit(commit(ticket, answer)),
        response::Answer::OffsetFetch(answer) => Effect::Fetch(fetch(ticket, answer)),
        response::Answer::DescribeGroup(answer) => Effect::Describe(describe(ticket, answer)),
        response::Answer::ListGroups(answer) => Effect::List(ListAnswer {
            ticket,
            error: Code(answer.error),
            groups: answer.groups.iter().map(listed).collect(),
        }),
        response::Answer::DeleteGroup(answer) => {
            Effect::Delete(DeleteAnswer { ticket, error: Code(answer.error), group_id: answer.group_id.to_owned() })
        }
        response::Answer::OffsetDelete(answer) => Effect::OffsetDelete(offset_delete(ticket, answer)),
    }
}

fn join(ticket: u64, answer: &response::JoinAnswer<'_>) -> JoinAnswer {
    let joined = |member: &response::JoinedMember<'_>| JoinedMember {
        member_id: member.member_id.to_owned(),
        instance_id: owned(member.instance_id),
        metadata: member.metadata.into(),
    };
    JoinAnswer {
        ticket,
        error: Code(answer.error),
        generation: answer.generation,
        protocol_type: owned(answer.protocol_type),
        protocol_name: owned(answer.protocol_name),
        leader: answer.leader.to_owned(),
        skip_assignment: answer.skip_assignment,
        member_id: answer.member_id.to_owned(),
        members: answer.members.iter().map(joined).collect(),
    }
}

fn left(member: &response::LeftMember<'_>) -> LeftMember {
    LeftMember {
        member_id: member.member_id.to_owned(),
        instance_id: owned(member.instance_id),
        error: Code(member.error),
    }
}

fn commit(ticket: u64, answer: &response::CommitAnswer<'_>) -> CommitAnswer {
    let mut partitions = Tuple::default();
    for topic in answer.topics {
        partitions.0.extend(topic.partitions.iter().map(|&(partition, error)| CommittedPartition {
            topic: topic.name.to_string(),
            partition,
            error: Code(error),
            topic_id: topic.topic_id,
        }));
    }
    CommitAnswer { ticket, partitions }
}

fn fetch(ticket: u64, answer: &response::FetchAnswer<'_>) -> FetchAnswer {
    let mut partitions = Tuple::default();
    for topic in answer.topics {
        partitions.0.extend(topic.partitions.iter().map(|fetched| FetchedOffset {
            topic: topic.name.to_owned(),
            partition: fetched.index,
            offset: fetched.offset,
            leader_epoch: fetched.leader_epoch,
            metadata: fetched.metadata.to_owned(),
            error: Code(fetched.error),
            topic_id: fetched.topic_id,
        }));
    }
    FetchAnswer { ticket, error: Code(answer.error), group_id: answer.group_id.to_owned(), partitions }
}

fn offset_delete(ticket: u64, answer: &response::OffsetDeleteAnswer<'_>) -> OffsetDeleteAnswer {
    let mut partitions = Tuple::default();
    for topic in answer.topics {
        partitions.0.extend(topic.partitions.iter().map(|&(partition, error)| DeletedPartition {
            topic: topic.name.to_string(),
            partition,
            error: Code(error),
        }));
    }
    OffsetDeleteAnswer { ticket, error: Code(answer.error), partitions }
}

fn describe(ticket: u64, answer: &response::DescribeAnswer<'_>) -> DescribeAnswer {
    let described = |member: &response::DescribedMember<'_>| DescribedMember {
        member_id: member.member_id.to_owned(),
        instance_id: owned(member.instance_id),
        client_id: member.client_id.to_owned(),
        client_host: member.client_host.to_owned(),
        metadata: member.metadata.into(),
        assignment: member.assignment.into(),
    };
    DescribeAnswer {
        ticket,
        error: Code(answer.error),
        error_message: owned(answer.error_message),
        group_id: answer.group_id.to_owned(),
        state: answer.state.to_owned(),
        protocol_type: answer.protocol_type.to_owned(),
        protocol_name: answer.protocol_name.to_owned(),
        members: answer.members.iter().map(described).collect(),
    }
}

fn listed(group: &response::ListedGroup<'_>) -> ListedGroup {
    ListedGroup {
        group_id: group.group_id.to_owned(),
        protocol_type: group.protocol_type.to_owned(),
        state: group.state.to_owned(),
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JoinAnswer>()?;
    module.add_class::<JoinedMember>()?;
    module.add_class::<SyncAnswer>()?;
    module.add_class::<HeartbeatAnswer>()?;
    module.add_class::<LeaveAnswer>()?;
    module.add_class::<LeftMember>()?;
    module.add_class::<CommitAnswer>()?;
    module.add_class::<CommittedPartition>()?;
    module.add_class::<FetchAnswer>()?;
    module.add_class::<FetchedOffset>()?;
    module.add_class::<DescribeAnswer>()?;
    module.add_class::<DescribedMember>()?;
    module.add_class::<ListAnswer>()?;
    module.add_class::<ListedGroup>()?;
    module.add_class::<DeleteAnswer>()?;
    module.add_class::<OffsetDeleteAnswer>()?;
    module.add_class::<DeletedPartition>()?;
    module.add_class::<Append>()?;
    let py = module.py();
    let answers = union(&[
        py.get_type::<JoinAnswer>(),
        py.get_type::<SyncAnswer>(),
        py.get_type::<HeartbeatAnswer>(),
        py.get_type::<LeaveAnswer>(),
        py.get_type::<CommitAnswer>(),
        py.get_type::<FetchAnswer>(),
        py.get_type::<DescribeAnswer>(),
        py.get_type::<ListAnswer>(),
        py.get_type::<DeleteAnswer>(),
        py.get_type::<OffsetDeleteAnswer>(),
    ])?;
    module.add("Effect", answers.bitor(py.get_type::<Append>())?)?;
    module.add("Answer", answers)
}
