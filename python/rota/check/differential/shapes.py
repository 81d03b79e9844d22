"""The model's data in the core's classes, field by field, so that the core's own equality compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import rota
from rota import _rota, model
from rota.check.differential.consumer_bytes import decoded
from rota.model import Group, Member, State
from rota.model.state import UNGROUPED_TIMERS

NOBODYS: Mapping[int, str] = {}


@dataclass(frozen=True)
class Batch:
    """An append with records of consumer groups."""

    append_id: int
    records: tuple[Any, ...]


def request(asked: model.Request) -> rota.protocol.Request:
    """A request of the model's, for the core."""
    return REQUESTS[type(asked)](asked)


def _join(asked: model.JoinGroup) -> rota.protocol.Request:
    return rota.protocol.JoinGroup(
        asked.group_id,
        asked.member_id,
        protocols=asked.protocols,
        protocol_type=asked.protocol_type,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        client_id=asked.client_id,
        client_host=asked.client_host,
        instance_id=asked.instance_id,
        version=asked.version,
    )


def _sync(asked: model.SyncGroup) -> rota.protocol.Request:
    return rota.protocol.SyncGroup(
        asked.group_id,
        asked.member_id,
        asked.generation,
        asked.assignments,
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        instance_id=asked.instance_id,
        version=asked.version,
    )


def _commit(asked: model.OffsetCommit) -> rota.protocol.Request:
    return rota.protocol.OffsetCommit(
        asked.group_id,
        [((topic, index), (offset, metadata, epoch)) for topic, index, offset, epoch, metadata in asked.offsets],
        asked.member_id,
        asked.generation,
        instance_id=asked.instance_id,
        retention_time_ms=asked.retention_time_ms,
        topic_ids=asked.topic_ids,
        version=asked.version,
    )


def _consumer_heartbeat(asked: model.ConsumerGroupHeartbeat) -> rota.protocol.Request:
    owned = asked.topic_partitions
    return rota.protocol.ConsumerGroupHeartbeat(
        asked.group_id,
        asked.member_id,
        asked.member_epoch,
        instance_id=asked.instance_id,
        rack_id=asked.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        subscribed_topic_names=asked.subscribed_topic_names,
        subscribed_topic_regex=asked.subscribed_topic_regex,
        server_assignor=asked.server_assignor,
        topic_partitions=None if owned is None else [(topic_id, [index]) for topic_id, index in owned],
        client_id=asked.client_id,
        client_host=asked.client_host,
        version=asked.version,
    )


REQUESTS: dict[type, Callable[[Any], rota.protocol.Request]] = {
    model.JoinGroup: _join,
    model.SyncGroup: _sync,
    model.Heartbeat: lambda asked: rota.protocol.Heartbeat(
        asked.group_id, asked.member_id, asked.generation, instance_id=asked.instance_id
    ),
    model.LeaveGroup: lambda asked: rota.protocol.LeaveGroup(asked.group_id, asked.members, version=asked.version),
    model.OffsetCommit: _commit,
    model.OffsetFetch: lambda asked: rota.protocol.OffsetFetch(
        asked.group_id,
        asked.partitions,
        asked.require_stable,
        topic_ids=asked.topic_ids,
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
    ),
    model.DeleteGroup: lambda asked: rota.protocol.DeleteGroup(asked.group_id),
    model.OffsetDelete: lambda asked: rota.protocol.OffsetDelete(asked.group_id, asked.partitions),
    model.DescribeGroup: lambda asked: rota.protocol.DescribeGroup(asked.group_id, version=asked.version),
    model.ListGroups: lambda asked: rota.protocol.ListGroups(asked.states, asked.types),
    model.ConsumerGroupHeartbeat: _consumer_heartbeat,
    model.ConsumerGroupDescribe: lambda asked: rota.protocol.ConsumerGroupDescribe(asked.group_id),
}

CLASSES = {
    name: getattr(_rota, name)
    for name in (
        "Append",
        "CommitAnswer",
        "CommittedPartition",
        "DeleteAnswer",
        "DeletedPartition",
        "DescribeAnswer",
        "DescribedMember",
        "FetchAnswer",
        "FetchedOffset",
        "GroupRecord",
        "GroupValue",
        "HeartbeatAnswer",
        "JoinAnswer",
        "JoinedMember",
        "LeaveAnswer",
        "LeftMember",
        "ListAnswer",
        "ListedGroup",
        "MemberValue",
        "OffsetDeleteAnswer",
        "OffsetRecord",
        "OffsetValue",
        "SyncAnswer",
    )
}
ORDERS: dict[str, tuple[str, ...]] = {name: shape.__match_args__ for name, shape in CLASSES.items()}


def effect(plain: Any, names: Mapping[int, str] = NOBODYS) -> Any:
    """An effect or record of the model's, as the core would give it, but for records of consumer groups, which have no
    class there. `names` are the topics' by id.
    """
    name = type(plain).__name__
    if isinstance(plain, model.ConsumerHeartbeatAnswer):
        return _heartbeat_answer(plain)
    if isinstance(plain, model.ConsumerDescribeAnswer):
        return _describe_answer(plain, names)
    if isinstance(plain, model.Append) and any(isinstance(each, model.ConsumerRecord) for each in plain.records):
        return Batch(plain.append_id, tuple(_recorded(each) for each in plain.records))
    return CLASSES[name](*(_value(key, getattr(plain, key)) for key in ORDERS[name]))


def _recorded(record: model.Record) -> Any:
    return record if isinstance(record, model.ConsumerRecord) else effect(record)


def seen(of_core: Any) -> Any:
    """An effect of the core's, with the records of consumer groups decoded."""
    unknown = rota.protocol.UnknownRecord
    if not isinstance(of_core, rota.coordinator.Append) or not any(isinstance(r, unknown) for r in of_core.records):
        return of_core
    records = (decoded(r.key, r.value) if isinstance(r, unknown) else r for r in of_core.records)
    return Batch(of_core.append_id, tuple(records))


def _heartbeat_answer(plain: model.ConsumerHeartbeatAnswer) -> Any:
    assignment = None
    if plain.assignment is not None:
        assignment = [rota.protocol.AssignedTopic(*each) for each in by_topic(plain.assignment)]
    head = (plain.ticket, rota.protocol.ErrorCode[plain.error], plain.error_message, plain.member_id)
    return rota.protocol.ConsumerHeartbeatAnswer(*head, plain.member_epoch, plain.heartbeat_interval_ms, assignment)


def _describe_answer(plain: model.ConsumerDescribeAnswer, names: Mapping[int, str]) -> Any:
    def named(partitions: Iterable[tuple[int, int]]) -> list[Any]:
        return [rota.protocol.NamedTopic(at, names[at], indexes) for at, indexes in by_topic(partitions)]

    members = [
        rota.protocol.ConsumerMemberDescription(
            each.member_id,
            each.instance_id,
            each.rack_id,
            each.epoch,
            each.client_id,
            each.client_host,
            sorted(each.names),
            each.pattern,
            named(each.assigned),
            named(each.target or ()),
            member_type=0 if each.classic else 1,
        )
        for each in plain.members
    ]
    head = (plain.ticket, rota.protocol.ErrorCode[plain.error], plain.error_message, plain.group_id, plain.state)
    return rota.protocol.ConsumerDescribeAnswer(*head, plain.epoch, plain.target_epoch, plain.assignor, members)


def by_topic(partitions: Iterable[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """(topic id, its partitions), ascending."""
    found: dict[int, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return list(found.items())


def _value(key: str, value: Any) -> Any:
    if key == "error":
        return rota.protocol.ErrorCode[value]
    if isinstance(value, tuple):
        return tuple(effect(each) for each in value)
    return effect(value) if type(value).__name__ in CLASSES else value


def projection(s: State, group: Group) -> rota.coordinator.Projection:
    """A group of the model's, as the core would project it. `in_flight` are the appends about the group."""
    timers = {
        (timer.kind, timer.name): timer.deadline_ms
        for timer in s.timers
        if timer.group_id == group.group_id and timer.kind not in UNGROUPED_TIMERS
    }
    named = [(kind, timers[kind, ""]) for kind in ("InitialDelay", "Join", "Sync") if (kind, "") in timers]
    return rota.coordinator.Projection(
        group.group_id,
        group.state,
        group.since_ms,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader,
        [_member(member, timers.get(("Session", member.member_id))) for member in group.members],
        sorted((member_id, timers["Pending", member_id]) for member_id in group.pending),
        named,
        [
            flying.append_id
            for flying in s.appends
            if any(record.group_id == group.group_id for record in flying.records)
        ],
        group.deleting,
        group.durable,
        group.subscribed_topics,
        [(topic, index, effect(group.offsets[topic, index])) for topic, index in sorted(group.offsets)],
    )


def _member(member: Member, deadline_ms: int | None) -> rota.coordinator.ProjectedMember:
    return rota.coordinator.ProjectedMember(
        member.member_id,
        member.instance_id,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.protocols,
        member.assignment,
        member.join is not None,
        member.sync is not None,
        member.owes_sync,
        member.is_new,
        deadline_ms,
    )


def differences(where: str, core: Any, modelled: Any) -> list[str]:
    """Every field in which two things differ, named by its path."""
    if core == modelled:
        return []
    if type(core) is not type(modelled) or not getattr(core, "__match_args__", ()):
        if isinstance(core, list | tuple) and isinstance(modelled, list | tuple) and len(core) == len(modelled):
            pairs = enumerate(zip(core, modelled, strict=True))
            return [line for index, (one, other) in pairs for line in differences(f"{where}[{index}]", one, other)]
        return [f"{where}: core {core!r}, model {modelled!r}"]
    return [
        line
        for name in core.__match_args__
        for line in differences(f"{where}.{name}", getattr(core, name), getattr(modelled, name))
    ]
