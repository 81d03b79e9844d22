"""Describing, deleting, commits and patterns of consumer groups (§11 to §13, §15.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rota.model.answers import NONE, DeleteAnswer, ListedGroup
from rota.model.consumer import records as log
from rota.model.consumer.data import (
    ConsumerDescribeAnswer,
    ConsumerGroupDescribe,
    ConsumerWrite,
    Group,
    Topic,
    metadata,
)
from rota.model.consumer.records import ConsumerRecord, Pattern
from rota.model.consumer.target import preferred
from rota.model.consumer.write import durable, write
from rota.model.records import Record
from rota.model.requests import OffsetCommit, OffsetFetch
from rota.model.state import State, emit
from rota.model.values import replace


def consumer_describe(s: State, ticket: int, r: ConsumerGroupDescribe) -> State:
    """Durable changes only; what a member holds is shown as assigned (§13.1)."""
    group = durable(s, r.group_id)
    if group is None:
        classic = s.groups.get(r.group_id)
        kind = "is not a consumer group" if classic and classic.durable else "not found"
        message = f"Group {r.group_id} {kind}."
        return emit(s, ConsumerDescribeAnswer(ticket, "GROUP_ID_NOT_FOUND", message, r.group_id))
    ids = {topic.topic_id for topic in s.topics.values()}
    members = tuple(
        replace(
            each,
            assigned={p: epoch for p, epoch in {**each.assigned, **each.revoking}.items() if p[0] in ids},
            target=frozenset(p for p in each.target or () if p[0] in ids),
        )
        for each in group.members.values()
    )
    shown = (group.group_id, group.state, group.epoch, group.target_epoch, preferred(group))
    return emit(s, ConsumerDescribeAnswer(ticket, NONE, None, *shown, members))


def listed(s: State) -> dict[str, ListedGroup]:
    """Durable changes only (§13.2)."""
    groups = {group_id: durable(s, group_id) for group_id in {*s.consumers, *(f.group_id for f in s.appends)}}
    return {name: ListedGroup(name, "consumer", group.state) for name, group in groups.items() if group}


def delete_consumers(s: State, ticket: int, group_id: str, offsets: tuple[Record, ...]) -> State:
    """Its offsets go with it (§13.2, §14.3)."""
    group = s.consumers[group_id]
    if group.members:
        return emit(s, DeleteAnswer(ticket, "NON_EMPTY_GROUP", group_id))
    return write(s, group_id, None, (*offsets, *log.deletion(group)), DeleteAnswer(ticket, NONE, group_id))


def end_idle(s: State) -> State:
    """Groups without members and offsets end (§13.2)."""
    for group_id, group in sorted(s.consumers.items()):
        has_offsets = group_id in s.groups and s.groups[group_id].offsets
        writing = any(f.group_id == group_id and isinstance(f.what, ConsumerWrite) for f in s.appends)
        if not group.members and not has_offsets and not writing:
            s = write(s, group_id, None, log.deletion(group))
    return s


def commit_error(group: Group, r: OffsetCommit, topics: Mapping[str, Topic]) -> str:
    """§11."""
    if r.generation < 0 and not group.members:
        return NONE
    member = group.members.get(r.member_id)
    if member is None:
        return "UNKNOWN_MEMBER_ID"
    if member.classic:
        return NONE if r.generation == member.epoch else "ILLEGAL_GENERATION"
    if r.version < 9:
        return "UNSUPPORTED_VERSION"
    if r.generation == member.epoch:
        return NONE
    if r.generation < 0 or r.generation > member.epoch:
        return "STALE_MEMBER_EPOCH"
    held = {**member.assigned, **member.revoking}
    ids = dict(r.topic_ids) | {topic.name: topic.topic_id for topic in topics.values()}
    fits = all(held.get((ids.get(topic, 0), index), r.generation + 1) <= r.generation for topic, index, *_ in r.offsets)
    return NONE if fits else "STALE_MEMBER_EPOCH"


def fetch_error(group: Group | None, r: OffsetFetch) -> str:
    """§12."""
    if group is None or (r.member_id is None and r.member_epoch < 0):
        return NONE
    if r.member_id is None:
        return "UNKNOWN_SERVER_ERROR"
    member = group.members.get(r.member_id)
    if member is None:
        return "UNKNOWN_MEMBER_ID"
    if r.member_epoch == member.epoch:
        return NONE
    return "ILLEGAL_GENERATION" if member.classic else "STALE_MEMBER_EPOCH"


def resolve_patterns(s: State, group_id: str) -> State:
    """All patterns of a group are resolved, outside any request (§15.2)."""
    group = s.consumers.get(group_id)
    if group is None:
        return s
    wanted = sorted({member.pattern for member in group.members.values() if member.pattern})
    found = {p: tuple(sorted(name for name in s.topics if re.fullmatch(p, name))) for p in wanted}
    records = tuple(ConsumerRecord(log.PATTERN, group_id, pattern, Pattern(found[pattern])) for pattern in wanted)
    after = replace(group, patterns=found)
    seen = metadata(after, s.topics)
    changed = any(set(found[p]) != set(group.patterns.get(p, ())) for p in wanted)
    if seen != group.metadata or changed:
        after = replace(after, metadata=seen, epoch=group.epoch + 1)
        records += (log.group_epoch(after),)
    return write(s, group_id, after, records)
