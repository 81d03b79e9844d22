//! Describes and lists groups (docs/protocol.md §12).

use std::collections::BTreeMap;

use crate::{
    consumer_group::group::GroupState,
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    group::Group,
    request::{DescribeGroup, ListGroups, Ticket},
    response::{Answer, DescribeAnswer, DescribedMember, ListAnswer, ListedGroup},
    states::State,
};

/// The first version that answers a missing group with an error.
const FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: i16 = 6;

/// The group type of the classic protocol.
const GROUP_TYPE: &str = "classic";
const CONSUMER_GROUP_TYPE: &str = "consumer";

impl Coordinator {
    pub(crate) fn describe_group(&self, step: &mut Step<'_>, ticket: Ticket, request: &DescribeGroup<'_>) {
        let group_id = request.group_id.unwrap_or("");
        if self.durable_consumer_state(group_id).is_some() {
            let message = format!("Group {group_id} is not a classic group.");
            return answer_missing_group(step, ticket, request.version, group_id, &message);
        }
        let group = self.find_group(group_id).map(|group| &self.groups[group]).filter(|group| group.is_visible());
        let Some(group) = group else {
            let message = format!("Group {group_id} not found.");
            return answer_missing_group(step, ticket, request.version, group_id, &message);
        };
        let chosen = match group.state {
            State::Stable => group.protocol_name.as_deref(),
            _ => None,
        };
        let members: Vec<DescribedMember<'_>> = group
            .joined
            .values()
            .map(|member| {
                let member = &self.members[*member];
                DescribedMember {
                    member_id: &member.id,
                    instance_id: member.client.instance_id.as_deref(),
                    client_id: &member.client.id,
                    client_host: &member.client.host,
                    metadata: chosen.map_or(&[], |protocol| member.metadata_bytes(protocol)),
                    assignment: &member.assignment,
                }
            })
            .collect();
        let answer = DescribeAnswer {
            error: ErrorCode::None,
            error_message: None,
            group_id,
            state: group.state.name(),
            protocol_type: group.protocol_type.as_deref().unwrap_or(""),
            protocol_name: chosen.unwrap_or(""),
            members: &members,
        };
        step.sink.answer(ticket, Answer::DescribeGroup(answer));
    }

    /// The state of a consumer group as far as the log has it. INVARIANT: C9.
    fn durable_consumer_state(&self, group_id: &str) -> Option<GroupState> {
        self.consumer_groups.get(group_id)?.durable_state()
    }

    pub(crate) fn list_groups(&self, step: &mut Step<'_>, ticket: Ticket, request: &ListGroups<'_>) {
        let consumer_groups: BTreeMap<&str, GroupState> = self
            .consumer_groups
            .keys()
            .filter_map(|group_id| Some((&**group_id, self.durable_consumer_state(group_id)?)))
            .collect();
        let wanted = |group: &&Group| request.takes(GROUP_TYPE, group.state.name());
        let mut groups: Vec<ListedGroup<'_>> = self
            .group_ids
            .values()
            .map(|group| &self.groups[*group])
            .filter(|group| group.is_visible() && !consumer_groups.contains_key(&*group.id))
            .filter(wanted)
            .map(|group| ListedGroup {
                group_id: &group.id,
                protocol_type: group.protocol_type.as_deref().unwrap_or(""),
                state: group.state.name(),
            })
            .collect();
        groups.extend(
            consumer_groups
                .iter()
                .map(|(group_id, state)| ListedGroup {
                    group_id,
                    protocol_type: CONSUMER_GROUP_TYPE,
                    state: state.name(),
                })
                .filter(|listed| request.takes(CONSUMER_GROUP_TYPE, listed.state)),
        );
        groups.sort_unstable_by_key(|listed| listed.group_id);
        step.sink.answer(ticket, Answer::ListGroups(ListAnswer { error: ErrorCode::None, groups: &groups }));
    }
}

fn answer_missing_group(step: &mut Step<'_>, ticket: Ticket, version: i16, group_id: &str, message: &str) {
    let says_so = version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND;
    let answer = DescribeAnswer {
        error: if says_so { ErrorCode::GroupIdNotFound } else { ErrorCode::None },
        error_message: says_so.then_some(message),
        group_id,
        state: State::Dead.name(),
        protocol_type: "",
        protocol_name: "",
        members: &[],
    };
    step.sink.answer(ticket, Answer::DescribeGroup(answer));
}

/// Answers with an error of the gate, without state or message.
pub(crate) fn answer_describe_error(step: &mut Step<'_>, ticket: Ticket, group_id: &str, error: ErrorCode) {
    let answer = DescribeAnswer {
        error,
        error_message: None,
        group_id,
        state: "",
        protocol_type: "",
        protocol_name: "",
        members: &[],
    };
    step.sink.answer(ticket, Answer::DescribeGroup(answer));
}
