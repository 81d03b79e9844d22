"""What can be asked, and what can happen, as plain data. Fields have the protocol's names; errors are its words."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.consumer.data import ConsumerGroupDescribe, ConsumerGroupHeartbeat, Topic
from rota.model.records import Record

Protocols = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class JoinGroup:
    """docs/protocol.md §4. `protocols` are (name, metadata), in order of preference."""

    group_id: str | None
    member_id: str
    protocols: Protocols
    protocol_type: str = "consumer"
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    client_id: str = "client"
    client_host: str = "/127.0.0.1"
    instance_id: str | None = None
    version: int = 9


@dataclass(frozen=True)
class SyncGroup:
    """docs/protocol.md §6. `assignments` are the leader's plan: (member id, bytes)."""

    group_id: str | None
    member_id: str
    generation: int
    assignments: Protocols = ()
    protocol_type: str | None = None
    protocol_name: str | None = None
    instance_id: str | None = None
    version: int = 5


@dataclass(frozen=True)
class Heartbeat:
    """docs/protocol.md §7."""

    group_id: str | None
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True)
class LeaveGroup:
    """docs/protocol.md §8. `members` are (member id, instance id)."""

    group_id: str | None
    members: tuple[tuple[str, str | None], ...]
    version: int = 5


@dataclass(frozen=True)
class OffsetCommit:
    """docs/protocol.md §10. `offsets` are (topic, partition, offset, leader epoch, metadata)."""

    group_id: str | None
    offsets: tuple[tuple[str, int, int, int, str | None], ...]
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    retention_time_ms: int | None = None
    topic_ids: tuple[tuple[str, int], ...] = ()
    version: int = 9


@dataclass(frozen=True)
class OffsetFetch:
    """docs/protocol.md §11. `partitions` are (topic, partition); None is every one that has an offset. `topic_ids` are
    those of topics that are asked for by id. Member id and epoch count in consumer groups (docs/consumer-protocol.md
    §12).
    """

    group_id: str | None
    partitions: tuple[tuple[str, int], ...] | None = None
    require_stable: bool = False
    topic_ids: tuple[tuple[str, int], ...] = ()
    member_id: str | None = None
    member_epoch: int = -1


@dataclass(frozen=True)
class DescribeGroup:
    """docs/protocol.md §12.1."""

    group_id: str | None
    version: int = 6


@dataclass(frozen=True)
class ListGroups:
    """docs/protocol.md §12.2. An empty filter lets everything through."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeleteGroup:
    """docs/protocol.md §12.3."""

    group_id: str | None


@dataclass(frozen=True)
class OffsetDelete:
    """docs/protocol.md §12.4. `partitions` are (topic, partition)."""

    group_id: str | None
    partitions: tuple[tuple[str, int], ...]


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | OffsetDelete
    | ConsumerGroupHeartbeat
    | ConsumerGroupDescribe
)


@dataclass(frozen=True)
class Submit:
    """A request arrives. `ticket` names it; `uuid` is what a member id ends with, should one be minted (§4.5)."""

    ticket: int
    request: Request
    uuid: str


@dataclass(frozen=True)
class Advance:
    """Time has passed: whatever is due fires (§16)."""


@dataclass(frozen=True)
class Appended:
    """An append ended: durable, or with the log's error (§10.3)."""

    append_id: int
    error: str | None = None


@dataclass(frozen=True)
class Replay:
    """One record of the log that is being loaded (§15.1)."""

    record: Record


@dataclass(frozen=True)
class Loaded:
    """The log was read to its end (§15.1)."""


@dataclass(frozen=True)
class LoadFailed:
    """The log could not be read (§15.1)."""


@dataclass(frozen=True)
class Unload:
    """Ownership is lost (§15.2)."""


@dataclass(frozen=True)
class TopicsDeleted:
    """These topics are gone (§13.3)."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class TopicsChanged:
    """The cluster has these topics now (docs/consumer-protocol.md §19)."""

    topics: tuple[Topic, ...]


@dataclass(frozen=True)
class GroupSettings:
    """A group's own settings, by Kafka's names, in ms (docs/consumer-protocol.md §20)."""

    group_id: str
    settings: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class ResolvePatterns:
    """The patterns of a group are resolved (docs/consumer-protocol.md §15.2)."""

    group_id: str


Event = (
    Submit
    | Advance
    | Appended
    | Replay
    | Loaded
    | LoadFailed
    | Unload
    | TopicsDeleted
    | TopicsChanged
    | GroupSettings
    | ResolvePatterns
)
