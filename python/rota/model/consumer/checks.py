"""What a heartbeat is refused for (§3)."""

from __future__ import annotations

import re

from rota.model.consumer.data import IS_AWAY, LEAVES, ConsumerGroupHeartbeat, Group, Member, holder
from rota.model.consumer.target import ASSIGNORS

Refusal = tuple[str, str | None]
"""Error and message."""
SUBSCRIPTION = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
FENCED = (
    "The consumer group member has a {} member epoch ({}) than the one known by the group coordinator ({}). "
    "The member must abandon all its partitions and rejoin."
)


def request_error(r: ConsumerGroupHeartbeat) -> Refusal | None:
    """The request alone (§3.2)."""
    epoch, joins = r.member_epoch, r.member_epoch == 0
    needs_id = r.version >= 1 or epoch > 0 or epoch == LEAVES
    owns = r.topic_partitions is None or bool(r.topic_partitions)
    invalid = (
        (needs_id and not r.member_id.strip(), "MemberId can't be empty."),
        (not r.group_id.strip(), "GroupId can't be empty."),
        (_is_blank(r.instance_id), "InstanceId can't be empty."),
        (_is_blank(r.rack_id), "RackId can't be empty."),
        (joins and r.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (joins and owns, "TopicPartitions must be empty when (re-)joining."),
        (joins and r.subscribed_topic_names is None and r.subscribed_topic_regex is None, SUBSCRIPTION),
        (epoch == IS_AWAY and r.instance_id is None, "InstanceId can't be null."),
        (epoch < IS_AWAY, "MemberEpoch is invalid."),
    )
    for is_wrong, message in invalid:
        if is_wrong:
            return "INVALID_REQUEST", message
    if r.server_assignor is not None and r.server_assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        message = f"ServerAssignor {r.server_assignor} is not supported. Supported assignors: {known}."
        return "UNSUPPORTED_ASSIGNOR", message
    return None


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def member_error(group: Group, r: ConsumerGroupHeartbeat, size_max: int) -> Refusal | None:
    """Group and member, epoch 0 and above (§3.4)."""
    member, static = group.members.get(r.member_id), holder(group, r.instance_id)
    if len(group.members) >= size_max and member is None and static is None:
        message = f"The consumer group has reached its maximum capacity of {size_max} members."
        return "GROUP_MAX_SIZE_REACHED", message
    if r.instance_id is not None:
        error = _static_error(static, r)
        if error:
            return error
    elif member is None and r.member_epoch > 0:
        return "UNKNOWN_MEMBER_ID", f"Member {r.member_id} is not a member of group {r.group_id}."
    known = static or member
    error = epoch_error(known, r) if known else None
    return error or _pattern_error(group, r.subscribed_topic_regex)


def _static_error(static: Member | None, r: ConsumerGroupHeartbeat) -> Refusal | None:
    """§9.1."""
    if static is None:
        return ("UNKNOWN_MEMBER_ID", f"Instance id {r.instance_id} is unknown.") if r.member_epoch > 0 else None
    if r.member_epoch == 0 and static.epoch != IS_AWAY and not static.classic:
        message = f"Static member {r.member_id} with instance id {r.instance_id} cannot join the group because the "
        return "UNRELEASED_INSTANCE_ID", f"{message}instance id is owned by {static.member_id} member."
    if r.member_epoch > 0 and static.member_id != r.member_id:
        return fenced_instance(r, static)
    return None


def fenced_instance(r: ConsumerGroupHeartbeat, static: Member) -> Refusal:
    """§9.1, last line."""
    message = f"Static member {r.member_id} with instance id {r.instance_id} was fenced by member {static.member_id}."
    return "FENCED_INSTANCE_ID", message


def epoch_error(member: Member, r: ConsumerGroupHeartbeat) -> Refusal | None:
    """§5.3."""
    sent, known = r.member_epoch, member.epoch
    if sent in (0, known):
        return None
    owned = r.topic_partitions
    if sent < known and sent == member.previous and owned is not None and set(owned) <= set(member.assigned):
        return None
    which = "greater" if sent > known else "smaller"
    return "FENCED_MEMBER_EPOCH", FENCED.format(which, sent, known)


def _pattern_error(group: Group, pattern: str | None) -> Refusal | None:
    """§15.1."""
    if not pattern or any(each.pattern == pattern for each in group.members.values()):
        return None
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error.msg}."
        return "INVALID_REGULAR_EXPRESSION", message
    return None
