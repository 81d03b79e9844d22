"""The records that outlive a coordinator (docs/protocol.md §14), as plain data. A value of None is a tombstone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.consumer import records as consumer
from rota.model.consumer.records import ConsumerRecord


@dataclass(frozen=True)
class OffsetValue:
    """A committed offset (§10.2). An epoch of -1 and a topic id of 0 mean none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = 0
    expire_timestamp_ms: int | None = None
    topic_id: int = 0


@dataclass(frozen=True)
class OffsetRecord:
    """The newest offset of a group's partition."""

    group_id: str
    topic: str
    partition: int
    value: OffsetValue | None


@dataclass(frozen=True)
class MemberValue:
    """A member inside a group record: its metadata for the chosen protocol, and its part of the plan."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True)
class GroupValue:
    """A whole group. The timestamp is that of its last transition, in ms since the Unix epoch."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberValue, ...]


@dataclass(frozen=True)
class GroupRecord:
    """A group, or its end."""

    group_id: str
    value: GroupValue | None


Record = OffsetRecord | GroupRecord | ConsumerRecord


def is_tombstone(record: Record) -> bool:
    """Whether the record deletes an offset or a group (docs/protocol.md §14)."""
    return isinstance(record, OffsetRecord | GroupRecord) and record.value is None


def key_of(record: Record) -> tuple[Any, ...]:
    """What compaction keeps one record of (docs/protocol.md §14); keys of groups sort before those of offsets."""
    if isinstance(record, OffsetRecord):
        return (1, record.group_id, record.topic, record.partition)
    if isinstance(record, ConsumerRecord):
        return consumer.key_of(record)
    return (0, record.group_id)
