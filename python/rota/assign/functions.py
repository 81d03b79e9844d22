"""The assignors as functions of names.

Each takes `members` (member id -> subscribed topics, or a `Subscriber` that says more) and `partitions` (topic ->
number of partitions) and returns every member's partitions, sorted. `racks` (topic -> for each partition the racks of
its replicas) matters to `range`, `sticky` and `cooperative_sticky`.

A topic that `partitions` does not have is left out, as Kafka's clients do; `uniform` and `server_range` refuse it, as
Kafka's servers do. Everything that is refused raises InputError, which names the member or topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rota._rota import Assignment as _Assignment
from rota._rota import (
    Certificate,
    EmbeddedError,
    InputError,
    assign_names,
    certify_names,
    decode_subscription,
)
from rota._rota import encode_assignment as _encode_assignment

NAMES = ("range", "roundrobin", "sticky", "cooperative_sticky", "uniform", "server_range")
NOBODY = 2**32 - 1
"""In arrays: no owner, or no rack."""
CONTESTED = 2**32 - 2
"""In arrays of previous owners: several members claim the partition in the same generation."""

Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """What a member says about itself beyond its topics."""

    topics: Sequence[str]
    instance_id: str | None = None
    """`group.instance.id` of a static member."""
    owned: Sequence[Partition] = field(default=())
    """The partitions that it says it owns."""
    generation: int = -1
    """In which generation it got them; -1: it does not say. The newest claim of a partition counts."""
    rack: str | None = None
    """`client.rack`."""
    user_data: bytes | None = None
    """The assignor's own bytes. Those of `sticky` replace `owned` and `generation`; those of `cooperative_sticky` give
    the generation if there is no other."""


Members: TypeAlias = Mapping[str, Sequence[str] | Subscriber]
Partitions: TypeAlias = Mapping[str, int]
Racks: TypeAlias = Mapping[str, Sequence[Sequence[str]]]
Plan: TypeAlias = dict[str, list[Partition]]

_Row: TypeAlias = tuple[str, str | None, list[str], list[Partition], int, str | None, bytes | None]


def _row(member: str, said: Sequence[str] | Subscriber) -> _Row:
    one = said if isinstance(said, Subscriber) else Subscriber(said)
    if isinstance(one.topics, str | bytes):
        raise InputError(f"member `{member}` subscribes to a string, {one.topics!r}: give a sequence of topics")
    return (member, one.instance_id, list(one.topics), list(one.owned), one.generation, one.rack, one.user_data)


def _rows(members: Members) -> list[_Row]:
    return [_row(member, said) for member, said in members.items()]


def _topics(partitions: Partitions, racks: Racks | None) -> list[tuple[str, int, list[list[str]]]]:
    known = racks or {}
    for topic in known:
        if topic not in partitions:
            raise InputError(f"there are racks for topic `{topic}`, which does not exist")
    return [
        (topic, count, [list(replicas) for replicas in known.get(topic, ())]) for topic, count in partitions.items()
    ]


def assign(name: str, members: Members, partitions: Partitions, *, racks: Racks | None = None) -> Plan:
    """The plan of the assignor of this name (with hyphens or underscores)."""
    lists = assign_names(name, _rows(members), _topics(partitions, racks))
    return dict(zip(members, lists, strict=True))


def range(members: Members, partitions: Partitions, *, racks: Racks | None = None) -> Plan:  # noqa: A001
    """Topic by topic, neighbouring partitions to neighbours: Kafka's `range`, exactly."""
    return assign("range", members, partitions, racks=racks)


def roundrobin(members: Members, partitions: Partitions) -> Plan:
    """All partitions dealt in a ring: Kafka's `roundrobin`, exactly."""
    return assign("roundrobin", members, partitions)


def sticky(members: Members, partitions: Partitions, *, racks: Racks | None = None) -> Plan:
    """The most even loads there are; then the fewest partitions away from their racks; then the fewest moves."""
    return assign("sticky", members, partitions, racks=racks)


def cooperative_sticky(members: Members, partitions: Partitions, *, racks: Racks | None = None) -> Plan:
    """As `sticky`, but what another member still claims goes to nobody in this round. Two rounds settle any group."""
    return assign("cooperative_sticky", members, partitions, racks=racks)


def uniform(members: Members, partitions: Partitions) -> Plan:
    """The servers' `uniform`: the most even loads, then the fewest moves. `owned` is the previous target."""
    return assign("uniform", members, partitions)


def server_range(members: Members, partitions: Partitions) -> Plan:
    """The servers' `range`: as `range`, whatever the racks."""
    return assign("server_range", members, partitions)


def certify(
    members: Members,
    partitions: Partitions,
    plan: Mapping[str, Sequence[Partition]],
    *,
    cooperative: bool = False,
    racks: Racks | None = None,
) -> Certificate:
    """Check a plan, whoever made it, and measure it against what the members say they own.

    Every partition of a subscribed topic must go to one member, who subscribes to it; with `cooperative=True` those
    that somebody else claims must go to nobody. Raises PlanError that names the first partition that does not.
    """
    for member in plan:
        if member not in members:
            raise InputError(f"the plan names member `{member}`, which is not in the group")
    lists = [list(plan.get(member, ())) for member in members]
    # With user data the claims are those of the sticky assignors.
    name = "cooperative_sticky" if cooperative else "sticky"
    return certify_names(name, _rows(members), _topics(partitions, racks), lists, cooperative)


def read_members(
    metadata: Mapping[str, bytes], instance_ids: Mapping[str, str | None] | None = None
) -> dict[str, Subscriber]:
    """The members of a group from the metadata they joined with. Raises InputError that names whose cannot be read."""
    statics = instance_ids or {}
    members = {}
    for member, data in metadata.items():
        try:
            read = decode_subscription(data)
        except EmbeddedError as error:
            raise InputError(f"the metadata of member `{member}` is no subscription: {error}") from error
        owned = [(topic, index) for topic, indices in read.owned_partitions for index in indices]
        members[member] = Subscriber(
            read.topics, statics.get(member), owned, read.generation, read.rack, read.user_data
        )
    return members


def encode_plan(plan: Mapping[str, Sequence[Partition]], user_data: bytes | None = None) -> dict[str, bytes]:
    """Each member's part of a plan as the leader sends it in SyncGroup, topics in the order in which they come."""
    encoded = {}
    for member, assigned in plan.items():
        by_topic: dict[str, list[int]] = {}
        for topic, index in assigned:
            by_topic.setdefault(topic, []).append(index)
        encoded[member] = _encode_assignment(_Assignment(list(by_topic.items()), user_data=user_data))
    return encoded
