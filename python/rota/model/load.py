"""Loading a partition and letting it go (docs/protocol.md §15)."""

from __future__ import annotations

from rota.model.answers import JoinAnswer, SyncAnswer
from rota.model.consumer import service as consumer
from rota.model.consumer.records import ConsumerRecord
from rota.model.consumer.write import put as put_consumer
from rota.model.log import keep_promise
from rota.model.offsets import fold_offset
from rota.model.rebalance import begin_rebalance, fold_tombstone
from rota.model.records import GroupValue, MemberValue, OffsetRecord, Record
from rota.model.refusals import refusal
from rota.model.retention import arm_cleaner
from rota.model.state import Group, Member, Promise, State, arm_session, emit, put
from rota.model.values import replace
from rota.model.vote import subscribed_topics


def replay(s: State, record: Record) -> State:
    """Fold one record; the last of a key counts (docs/protocol.md §15.1)."""
    if s.phase != "Loading":
        return s
    if isinstance(record, ConsumerRecord):
        return consumer.replay(s, record)
    if isinstance(record, OffsetRecord):
        return fold_offset(s, record)
    if record.value is None:
        return fold_tombstone(s, record.group_id)
    before = s.groups.get(record.group_id) or Group(record.group_id, s.now_ms, s.wall_ms)
    # Records of a consumer group before this one are of an upgrade that was stored, and reported as failed.
    return put(put_consumer(s, record.group_id, None), _loaded_group(before, record.value))


def _loaded_group(before: Group, value: GroupValue) -> Group:
    """A group as its record has it, with the offsets that were there (docs/protocol.md §15.1)."""
    group = Group(
        before.group_id,
        before.since_ms,
        value.state_timestamp_ms,
        "Stable" if value.members else "Empty",
        value.generation,
        value.protocol_type or None,
        value.protocol_name,
        value.leader,
        tuple(_loaded_member(member, value.protocol_name) for member in value.members),
        offsets=before.offsets,
        durable=True,
    )
    return replace(group, subscribed_topics=subscribed_topics(group))


def _loaded_member(value: MemberValue, protocol_name: str | None) -> Member:
    """The stored metadata is the whole list (docs/protocol.md §15.1)."""
    return Member(
        value.member_id,
        value.instance_id,
        value.client_id,
        value.client_host,
        value.session_timeout_ms,
        value.session_timeout_ms if value.rebalance_timeout_ms == -1 else value.rebalance_timeout_ms,
        ((protocol_name or "", value.subscription),),
        value.assignment,
    )


def loaded(s: State) -> State:
    """Sessions start, first those of consumer groups. Groups that are too large rebalance (docs/protocol.md §15.1)."""
    if s.phase != "Loading":
        return s
    s = consumer.loaded(replace(s, phase="Active"))
    for group_id, group in sorted(s.groups.items()):
        known_ms = group.state_timestamp_ms if group.protocol_type or group.state_timestamp_ms != -1 else s.wall_ms
        s = put(s, replace(group, since_ms=s.now_ms, state_timestamp_ms=known_ms))
        for member in group.members:
            s = arm_session(s, group_id, member.member_id)
    for group_id, group in sorted(s.groups.items()):
        if group.members and not group.leader:  # it was a consumer group (departure D24)
            s = begin_rebalance(put(s, replace(group, leader=group.members[0].member_id)), group_id)
        elif len(group.members) > s.config.group_max_size:
            s = begin_rebalance(s, group_id)
    return arm_cleaner(s)


def unload(s: State) -> State:
    """Every waiting request is answered NOT_COORDINATOR, and nothing is kept: members first, then each append's
    requester and the requests behind it (docs/protocol.md §15.2).
    """
    error = "NOT_COORDINATOR"
    s = consumer.unloaded(s, error)
    for _, group in sorted(s.groups.items()):
        for member in group.members:
            if member.join:
                s = emit(s, JoinAnswer(member.join.ticket, error, member_id=member.member_id))
            if member.sync:
                s = emit(s, SyncAnswer(member.sync.ticket, error))
    for flying in s.appends:
        if isinstance(flying.what, Promise):
            s = keep_promise(s, flying, flying.what, error)
        for waiter in s.waiters:
            if waiter.append_id == flying.append_id:
                s = emit(s, refusal(waiter.event.ticket, waiter.event.request, error))
    return replace(State(s.config, "Unloaded", s.now_ms, s.wall_ms), effects=s.effects)
