"""The records of a consumer group (§14) as plain data, and how loading folds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.consumer.data import (
    STABLE,
    Classic,
    Group,
    Held,
    Member,
    Metadata,
    Partition,
    with_member,
    without_members,
)
from rota.model.values import replace

GROUP, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN = 3, 4, 5, 6, 7, 8, 16


@dataclass(frozen=True)
class GroupEpoch:
    """Value of type 3 (§14.1)."""

    epoch: int
    metadata: Metadata


@dataclass(frozen=True)
class Subscription:
    """Value of type 5 (§14.1)."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    names: tuple[str, ...]
    pattern: str
    rebalance_timeout_ms: int
    assignor: str | None
    classic: Classic | None = None


@dataclass(frozen=True)
class TargetEpoch:
    """Value of type 6 (§14.1)."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True)
class Target:
    """Value of type 7 (§14.1)."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class Current:
    """Value of type 8 (§14.1)."""

    epoch: int
    previous: int
    state: str
    assigned: tuple[tuple[Partition, int], ...]
    revoking: tuple[tuple[Partition, int], ...]


@dataclass(frozen=True)
class Pattern:
    """Value of type 16 (§14.1)."""

    topics: tuple[str, ...]


Value = GroupEpoch | Subscription | TargetEpoch | Target | Current | Pattern


@dataclass(frozen=True)
class ConsumerRecord:
    """A record of type `kind`; `name` is the member id or the pattern, "" for the group. None is a tombstone."""

    kind: int
    group_id: str
    name: str
    value: Value | None


def key_of(record: ConsumerRecord) -> tuple[Any, ...]:
    """What compaction keeps one record of (§14.1)."""
    return (record.kind, record.group_id, record.name)


def group_epoch(group: Group) -> ConsumerRecord:
    """Type 3 (§14.1)."""
    return ConsumerRecord(GROUP, group.group_id, "", GroupEpoch(group.epoch, group.metadata))


def target_epoch(group: Group) -> ConsumerRecord:
    """Type 6 (§14.1)."""
    return ConsumerRecord(TARGET_EPOCH, group.group_id, "", TargetEpoch(group.target_epoch, group.target_ms))


def subscription(group_id: str, member: Member) -> ConsumerRecord:
    """Type 5 (§14.1)."""
    value = Subscription(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(member.names)),
        member.pattern,
        member.rebalance_timeout_ms,
        member.assignor,
        member.classic,
    )
    return ConsumerRecord(MEMBER, group_id, member.member_id, value)


def target(group_id: str, member: Member) -> ConsumerRecord:
    """Type 7 (§14.1)."""
    return ConsumerRecord(TARGET, group_id, member.member_id, Target(tuple(sorted(member.target or ()))))


def current(group_id: str, member: Member) -> ConsumerRecord:
    """Type 8 (§14.1)."""
    held = (tuple(sorted(member.assigned.items())), tuple(sorted(member.revoking.items())))
    value = Current(member.epoch, member.previous, member.state, *held)
    return ConsumerRecord(CURRENT, group_id, member.member_id, value)


def tombstones(group_id: str, member_id: str) -> tuple[ConsumerRecord, ...]:
    """A member's end: 8, 7, 5 (§8.2)."""
    return tuple(ConsumerRecord(kind, group_id, member_id, None) for kind in (CURRENT, TARGET, MEMBER))


def deletion(group: Group) -> tuple[ConsumerRecord, ...]:
    """The end of a whole group (§14.3)."""
    of_members = [(kind, member) for kind in (CURRENT, TARGET) for member in group.members]
    order = [*of_members, (TARGET_EPOCH, ""), *((MEMBER, member) for member in group.members)]
    order += [(PATTERN, pattern) for pattern in group.patterns]
    return tuple(ConsumerRecord(kind, group.group_id, name, None) for kind, name in [*order, (TOPICS, ""), (GROUP, "")])


def fold(group: Group | None, record: ConsumerRecord) -> Group | None:
    """One record of the log (§14.4). The last record of a key counts, so any order that
    compaction leaves gives the same group; a partition that two members hold belongs to the later record.
    """
    value = record.value
    if group is None and value is None:
        return None
    group = group or Group(record.group_id)
    member = group.members.get(record.name) or Member(record.name)
    match value:
        case GroupEpoch():
            return replace(group, epoch=value.epoch, metadata=value.metadata)
        case TargetEpoch():
            return replace(group, target_epoch=value.epoch, target_ms=value.timestamp_ms)
        case Pattern():
            return replace(group, patterns={**group.patterns, record.name: value.topics})
        case Subscription():
            fields = {name: getattr(value, name) for name in Subscription.__dataclass_fields__}
            return with_member(group, replace(member, **fields | {"names": frozenset(value.names)}))
        case Target():
            return with_member(group, replace(member, target=frozenset(value.partitions)))
        case Current():
            member = replace(member, epoch=value.epoch, previous=value.previous, state=value.state)
            return _held_by(group, member, value)
    return _buried(group, record)


def _held_by(group: Group, member: Member, value: Current) -> Group:
    assigned, revoking = dict(value.assigned), dict(value.revoking)
    for other in group.members.values():
        if other.member_id != member.member_id and other.held & {*assigned, *revoking}:
            kept = _less(other.assigned, {*assigned, *revoking}), _less(other.revoking, {*assigned, *revoking})
            group = with_member(group, replace(other, assigned=kept[0], revoking=kept[1]))
    return with_member(group, replace(member, assigned=assigned, revoking=revoking))


def _less(held: Held, gone: set[Partition]) -> Held:
    return {partition: epoch for partition, epoch in held.items() if partition not in gone}


def _buried(group: Group, record: ConsumerRecord) -> Group | None:
    member = group.members.get(record.name)
    match record.kind:
        case 3:
            return group if group.members else None
        case 5:
            return without_members(group, [record.name])
        case 6:
            return replace(group, target_epoch=group.epoch, target_ms=0)
        case 16:
            return replace(group, patterns={p: found for p, found in group.patterns.items() if p != record.name})
    if member is None:
        return group
    if record.kind == TARGET:
        return with_member(group, replace(member, target=None))
    if record.kind == CURRENT:
        return with_member(group, replace(member, epoch=-1, previous=-1, state=STABLE, assigned={}, revoking={}))
    return group
