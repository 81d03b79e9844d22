"""The whole state of one coordinator, and the few moves that every rule is made of.

A rule is a function from a state, with what happened, to the next state. Effects gather in the state until `step` takes
them out. Nothing is cached: what can be counted is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.model.answers import CommitAnswer, DeleteAnswer, Effect, OffsetDeleteAnswer
from rota.model.consumer import data as consumer
from rota.model.records import OffsetValue, Record
from rota.model.requests import Protocols, Submit
from rota.model.values import replace

NEW_MEMBER_TIMEOUT_MS = 300_000
# Timers that belong to no group; their `group_id` is "".
UNGROUPED_TIMERS = ("Append", "Waiter", "Cleaner", "ConsumerWait")


@dataclass(frozen=True)
class Config:
    """Settings by Kafka's names, dots as underscores (docs/protocol.md §3, §4.4, §5.3, §10), but for
    `group_max_pending_members`, which is rota's.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    group_max_pending_members: int = 100_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"


@dataclass(frozen=True)
class Parked:
    """A request whose answer is withheld."""

    ticket: int
    version: int


@dataclass(frozen=True)
class Member:
    """docs/protocol.md §1.2. `replacing` is the append that a static newcomer waits for (§9.3)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: Parked | None = None
    sync: Parked | None = None
    owes_sync: bool = False
    is_new: bool = False
    replacing: int | None = None


@dataclass(frozen=True)
class Group:
    """docs/protocol.md §1.1. Members stand in joining order; pending ids in the order in which they were handed out.

    `delay` is the running initial delay and the budget left after it (§5.3), `creating` the append of the group's first
    record (§4.10), `held` says that a join phase's end waits for it, `plan` is the append of the leader's plan (§6.3),
    `deleting` that of the group's end (§12.3), `durable` says that the log has something of the group.
    """

    group_id: str
    since_ms: int
    state_timestamp_ms: int
    state: str = "Empty"
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: tuple[Member, ...] = ()
    pending: tuple[str, ...] = ()
    subscribed_topics: tuple[str, ...] | None = None
    offsets: Mapping[tuple[str, int], OffsetValue] = field(default_factory=dict)
    new_member_flag: bool = False
    delay: tuple[int, int] | None = None
    creating: int | None = None
    held: bool = False
    plan: int | None = None
    deleting: int | None = None
    durable: bool = False


@dataclass(frozen=True)
class Creation:
    """The first record of a group (§4.10)."""


@dataclass(frozen=True)
class Plan:
    """What the leader assigned, by member id (§6.3)."""

    assignments: Mapping[str, bytes]


@dataclass(frozen=True)
class Replacement:
    """A static newcomer, whom to restore if it falls, who led before, when its predecessor's session is over (§9.3)."""

    new: Member
    old: Member
    previous_leader: str
    session_ends_ms: int


@dataclass(frozen=True)
class Promise:
    """The answer if the append succeeds (§10.3, §12.3, §12.4); None for tombstones of the cleaner, which
    no request waits for (§13.1).
    """

    answer: CommitAnswer | DeleteAnswer | OffsetDeleteAnswer | None


What = Creation | Plan | Replacement | Promise | consumer.ConsumerWrite


@dataclass(frozen=True)
class InFlight:
    """An append whose end does not count yet. `what` is None for records that are written again if they fail (§10.3),
    `end` is the reported end, `late` says that the deadline has passed.
    """

    append_id: int
    group_id: str
    records: tuple[Record, ...]
    what: What | None
    end: str | None = None
    late: bool = False


@dataclass(frozen=True)
class Waiter:
    """A stable fetch behind an append (§11.3), or a request to a group that the append is to delete (§12.3)."""

    event: Submit
    append_id: int


@dataclass(frozen=True, order=True)
class Timer:
    """One deadline. Timers sort as they fire (§16.1): `kind` is as in §16.2, but Waiter for those
    that wait for appends; `name` says whose it is."""

    deadline_ms: int
    arming: int
    kind: str
    group_id: str
    name: str


@dataclass(frozen=True)
class State:
    """A coordinator. `phase` is Loading, Active, Failed or Unloaded; `effects` are those of the step under way.
    `consumers` are the groups of the newer protocol (docs/consumer-protocol.md §1), whose offsets are in `groups`;
    `topics` are those of the cluster, `settings` the groups' own. Two fields make the model do what rota does:
    `one_append`, one append of a consumer group at a time (docs/consumer-protocol.md §4.4), and `uniform_plan`, which
    replaces Kafka's plan of `uniform` (docs/departures.md D16).
    """

    config: Config = field(default_factory=Config)
    phase: str = "Loading"
    now_ms: int = 0
    wall_ms: int = 0
    groups: Mapping[str, Group] = field(default_factory=dict)
    consumers: Mapping[str, consumer.Group] = field(default_factory=dict)
    topics: Mapping[str, consumer.Topic] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    timers: tuple[Timer, ...] = ()
    armings: int = 0
    appends: tuple[InFlight, ...] = ()
    append_ids: int = 0
    unwritten: tuple[Record, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    queue: tuple[consumer.Queued, ...] = ()
    one_append: bool = False
    uniform_plan: Callable[..., dict[str, list[consumer.Partition]]] | None = None
    effects: tuple[Effect, ...] = ()


def emit(s: State, effect: Effect) -> State:
    """Add an effect to the step under way."""
    return replace(s, effects=(*s.effects, effect))


def put(s: State, group: Group) -> State:
    """Store a group."""
    return replace(s, groups={**s.groups, group.group_id: group})


def change(s: State, group_id: str, **fields: Any) -> State:
    """Change fields of a group."""
    return put(s, replace(s.groups[group_id], **fields))


def enter(s: State, group_id: str, state: str) -> State:
    """A transition (§2); its time is the group's state timestamp."""
    return change(s, group_id, state=state, since_ms=s.now_ms, state_timestamp_ms=s.wall_ms)


def find(group: Group, member_id: str) -> Member | None:
    """The member with this id."""
    return next((member for member in group.members if member.member_id == member_id), None)


def holder(group: Group, instance_id: str | None) -> Member | None:
    """The static member that has this instance id (§9)."""
    if instance_id is None:
        return None
    return next((member for member in group.members if member.instance_id == instance_id), None)


def alter(s: State, group_id: str, member_id: str, **fields: Any) -> State:
    """Change fields of a member."""
    members = (
        replace(member, **fields) if member.member_id == member_id else member for member in s.groups[group_id].members
    )
    return change(s, group_id, members=tuple(members))


def arm(s: State, kind: str, group_id: str, name: str, after_ms: int) -> State:
    """Arm a deadline, instead of the one that has the same name (§16.1)."""
    s = cancel(s, kind, group_id, name)
    timer = Timer(s.now_ms + after_ms, s.armings, kind, group_id, name)
    return replace(s, timers=tuple(sorted((*s.timers, timer))), armings=s.armings + 1)


def cancel(s: State, kind: str, group_id: str, name: str) -> State:
    """Disarm a deadline, if it is armed (docs/protocol.md §16.1)."""
    gone = (kind, group_id, name)
    return replace(s, timers=tuple(timer for timer in s.timers if (timer.kind, timer.group_id, timer.name) != gone))


def arm_session(s: State, group_id: str, member_id: str) -> State:
    """A full session from now on (docs/protocol.md §7.2). Who is parked has none, unless it is new (§16.2)."""
    member = find(s.groups[group_id], member_id)
    if member is None or ((member.join or member.sync) and not member.is_new):
        return s
    return arm(s, "Session", group_id, member_id, member.session_timeout_ms)


def disarm_parked(s: State, group_id: str, member_id: str) -> State:
    """Parking ends a session (docs/protocol.md §16.2), but not the 300 000 ms of a new member (§4.7)."""
    member = find(s.groups[group_id], member_id)
    return s if member and member.is_new else cancel(s, "Session", group_id, member_id)


def wait_for_append(s: State, event: Submit, append_id: int) -> State:
    """A request waits for the end of an append (docs/protocol.md §11.3, §12.3)."""
    s = replace(s, waiters=(*s.waiters, Waiter(event, append_id)))
    return arm(s, "Waiter", "", str(event.ticket), s.config.offsets_commit_timeout_ms)
