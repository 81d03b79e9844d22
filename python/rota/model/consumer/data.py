"""Consumer groups and their members as plain data (§1), and what a request may ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from rota.model.values import replace

if TYPE_CHECKING:
    from rota.model.answers import DeleteAnswer, JoinAnswer, LeaveAnswer
    from rota.model.requests import Protocols, Submit
    from rota.model.state import Group as ClassicGroup
    from rota.model.state import InFlight

STABLE, UNREVOKED, UNRELEASED = "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"
LEAVES, IS_AWAY = -1, -2

Partition = tuple[int, int]
"""Topic id and partition."""
Held = Mapping[Partition, int]
"""Partitions with their assignment epochs."""
NOTHING: Held = {}


@dataclass(frozen=True)
class Topic:
    """A topic of the cluster (§19)."""

    name: str
    topic_id: int
    partitions: int


Metadata = frozenset[Topic]
"""Stands for the metadata hash of these topics; the empty set for the hash 0 (§19.2)."""


@dataclass(frozen=True)
class Classic:
    """What only a member that speaks the classic protocol has (§18)."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True)
class Member:
    """§1.2. `target` is None until the first computation has seen the member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: frozenset[str] = frozenset()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = 0
    previous: int = -1
    state: str = STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    target: frozenset[Partition] | None = None
    classic: Classic | None = None

    @property
    def held(self) -> frozenset[Partition]:
        """What the member holds (§6.4)."""
        return frozenset(self.assigned) | frozenset(self.revoking)


@dataclass(frozen=True)
class Group:
    """§1.1. `is_stale` says that the metadata has to be looked at again (§19.1), `patterns`
    has the topic names of the resolved patterns (§15.2), `too_many` is how many members did not fit into the record of
    a classic group (§17.2).
    """

    group_id: str
    epoch: int = 1
    target_epoch: int = 1
    target_ms: int = 0
    metadata: Metadata = frozenset()
    members: Mapping[str, Member] = field(default_factory=dict)
    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_stale: bool = True
    too_many: int | None = None

    @property
    def state(self) -> str:
        """§1.3."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(each.state == STABLE and each.epoch == self.target_epoch for each in self.members.values())
        return "Stable" if settled else "Reconciling"


@dataclass(frozen=True)
class ConsumerGroupHeartbeat:
    """§4.1."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[Partition, ...] | None = None
    client_id: str = "client"
    client_host: str = "/127.0.0.1"
    version: int = 1


@dataclass(frozen=True)
class ConsumerGroupDescribe:
    """§13.1, one group."""

    group_id: str


@dataclass(frozen=True)
class ConsumerHeartbeatAnswer:
    """§4.2. The defaults are those of an error."""

    ticket: int
    error: str
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[Partition, ...] | None = None


@dataclass(frozen=True)
class ConsumerDescribeAnswer:
    """§13.1. The defaults are those of an error."""

    ticket: int
    error: str
    error_message: str | None = None
    group_id: str = ""
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[Member, ...] = ()


ConsumerAnswer: TypeAlias = "ConsumerHeartbeatAnswer | ConsumerDescribeAnswer | DeleteAnswer | JoinAnswer | LeaveAnswer"
"""What may wait for an append of a consumer group."""


@dataclass(frozen=True)
class Downgrade:
    """The classic group that takes the place of a consumer group, and the members that it is without. Without a leader
    it rebalances (§17.2).
    """

    group: ClassicGroup
    gone: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConsumerWrite:
    """What an append of a consumer group is for: the answers that wait for it, and the group to go back to if it
    fails (§4.4). `lost` are timers (kind, member id) that run again then, `upgraded` is the classic group that returns
    (§16.2). Once durable, `joined` is the classic member whose JoinGroup it was (§10), and `downgrade` what the group
    becomes.
    """

    answers: tuple[ConsumerAnswer, ...]
    before: Group | None
    lost: tuple[tuple[str, str], ...] = ()
    joined: str | None = None
    upgraded: ClassicGroup | None = None
    downgrade: Downgrade | None = None


@dataclass(frozen=True)
class Queued:
    """A request or an expired timer (kind, member id) that waits for the append of its consumer group
    (§4.4).
    """

    group_id: str
    what: Submit | tuple[str, str]


def with_member(group: Group, member: Member) -> Group:
    """The group with this member in place of the one that has its id (§1.1)."""
    return replace(group, members=dict(sorted({**group.members, member.member_id: member}.items())))


def without_members(group: Group, gone: Iterable[str]) -> Group:
    """The group without these members (§8.2)."""
    left = {member_id: each for member_id, each in group.members.items() if member_id not in set(gone)}
    return replace(group, members=left)


def staying(group: Group, appends: Iterable[InFlight]) -> Group:
    """The group without the members that leave it with a change of protocol, which is not durable yet (§17.2)."""
    writes = [each.what for each in appends if each.group_id == group.group_id]
    changes = [what.downgrade for what in writes if isinstance(what, ConsumerWrite) and what.downgrade]
    return without_members(group, [one for change in changes for one in change.gone])


def holder(group: Group, instance_id: str | None) -> Member | None:
    """The static member with this instance id (§9.1)."""
    if instance_id is None:
        return None
    return next((each for each in group.members.values() if each.instance_id == instance_id), None)


def subscribed(group: Group, member: Member, topics: Mapping[str, Topic]) -> frozenset[Topic]:
    """The existing topics of a member: by name and by its resolved pattern (§4.1)."""
    names = member.names | set(group.patterns.get(member.pattern, ()))
    return frozenset(topics[name] for name in names if name in topics)


def metadata(group: Group, topics: Mapping[str, Topic]) -> Metadata:
    """The topics of all members, as they are now (§19)."""
    return frozenset(t for member in group.members.values() for t in subscribed(group, member, topics))


def subscribed_names(group: Group | None) -> frozenset[str]:
    """The topic names of all members, by name and by resolved pattern, existing or not (§12)."""
    if group is None:
        return frozenset()
    names = {name for member in group.members.values() for name in member.names}
    return frozenset(names | {name for found in group.patterns.values() for name in found})
