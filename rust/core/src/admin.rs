//! Describing and listing groups (docs/protocol.md §12).

use crate::{
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    group::Group,
    request::{DescribeGroup, ListGroups, Ticket},
    response::{Answer, DescribeAnswer, DescribedMember, ListAnswer, ListedGroup},
    states::State,
};

/// From this version on a missing group is an error.
const FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: i16 = 6;

/// Types of groups, and of a group of the consumer protocol also its protocol type.
const GROUP_TYPE: &str = "classic";
const CONSUMER_GROUP_TYPE: &str = "consumer";

impl Coordinator {
    pub(crate) fn describe_group(&self, step: &mut Step<'_>, ticket: Ticket, request: &DescribeGroup<'_>) {
        let group_id = request.group_id.unwrap_or("");
        if self.find_consumer_group(group_id).is_some() {
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

    pub(crate) fn list_groups(&self, step: &mut Step<'_>, ticket: Ticket, request: &ListGroups<'_>) {
        let wanted = |group: &&Group| request.takes(GROUP_TYPE, group.state.name());
        let mut groups: Vec<ListedGroup<'_>> = self
            .group_ids
            .values()
            .map(|group| &self.groups[*group])
            .filter(|group| group.is_visible() && !self.consumer_groups.contains_key(&group.id))
            .filter(wanted)
            .map(|group| ListedGroup {
                group_id: &group.id,
                protocol_type: group.protocol_type.as_deref().unwrap_or(""),
                state: group.state.name(),
            })
            .collect();
        let consumer_groups = self.consumer_groups.values().filter(|group| !group.is_gone());
        groups.extend(
            consumer_groups
                .map(|group| ListedGroup {
                    group_id: &group.id,
                    protocol_type: CONSUMER_GROUP_TYPE,
                    state: group.state().name(),
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

/// A gate error: no state, no message.
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
