"""The assignors as functions of names.

Each takes `members` (member id -> subscribed topics, or a `Subscriber` that says more) and `partitions` (topic ->
number of partitions) and returns every member's partitions, sorted. `racks` (topic -> for each partition the racks of
its replicas) matters to `range`, `sticky` and `cooperative_sticky`.

A topic that `partitions` does not have is left out, as Kafka's clients do; `uniform` and `server_range` refuse it, as
Kafka's servers do. Everything that is refused raises InputError, which names the member or topic.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
    """A member with more than its topics."""

    topics: Sequence[str]
    instance_id: str | None = None
    """`group.instance.id` of a static member."""
    owned: Sequence[Partition] = field(default=())
    """Partitions that the member claims to own."""
    generation: int = -1
    """Generation of the claim, -1 if unknown. The newest claim of a partition counts."""
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


_Topic: TypeAlias = tuple[str, int, list[list[str]]]


def _listed(found: Any, where: str, expected: str) -> list[Any]:
    if isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise InputError(f"{where} is {found!r}: expected {expected}")
    return list(found)


def _mapped(found: Any, where: str, expected: str) -> Mapping[Any, Any]:
    if not isinstance(found, Mapping):
        raise InputError(f"{where} is {found!r}: expected {expected}")
    return found


def _row(member: str, said: Sequence[str] | Subscriber) -> _Row:
    one = said if isinstance(said, Subscriber) else Subscriber(said)
    topics = _listed(one.topics, f"what member `{member}` subscribes to", "a sequence of topics")
    owned = _listed(one.owned, f"what member `{member}` owns", "a sequence of (topic, partition)")
    return (member, one.instance_id, topics, owned, one.generation, one.rack, one.user_data)


def _rows(members: Members) -> list[_Row]:
    named = _mapped(members, "`members`", "a mapping from member ids to topics")
    return [_row(member, said) for member, said in named.items()]


def _topics(partitions: Partitions, racks: Racks | None) -> list[_Topic]:
    counts = _mapped(partitions, "`partitions`", "a mapping from topics to numbers of partitions")
    known = _mapped(racks or {}, "`racks`", "a mapping from topics to the racks of each partition's replicas")
    for topic in known:
        if topic not in counts:
            raise InputError(f"there are racks for topic `{topic}`, which does not exist")
    expected = "for each partition a sequence of racks"
    where = "`racks` of topic `{}`"
    return [
        (
            topic,
            count,
            [
                _listed(replicas, f"an element of {where.format(topic)}", "a sequence of racks")
                for replicas in _listed(known.get(topic, ()), where.format(topic), expected)
            ],
        )
        for topic, count in counts.items()
    ]


def _is_text(found: object) -> bool:
    return isinstance(found, str) and not any("\ud800" <= character <= "\udfff" for character in found)


def _is_int32(found: object) -> bool:
    return isinstance(found, int) and -(2**31) <= found < 2**31


def _is_partition(found: object) -> bool:
    match found:
        case (topic, index) if isinstance(found, tuple):
            return _is_text(topic) and _is_int32(index)
    return False


def _blame(rows: list[_Row], topics: list[_Topic], plan: Sequence[Sequence[Partition]] = ()) -> InputError | None:
    """The argument that the extension could not decode, as an error; None if all could be decoded."""
    text, optional, generation = "a string", "a string or None", "a number of 32 bits"
    for member, instance_id, subscribed, owned, since, rack, user_data in rows:
        of = f"of member `{member}`"
        for found, where, expected, fits in (
            (member, "a member id", text, _is_text(member)),
            (instance_id, f"`instance_id` {of}", optional, instance_id is None or _is_text(instance_id)),
            (since, f"`generation` {of}", generation, _is_int32(since)),
            (rack, f"`rack` {of}", optional, rack is None or _is_text(rack)),
            (user_data, f"`user_data` {of}", "bytes or None", user_data is None or isinstance(user_data, bytes)),
            *((one, f"a topic {of}", text, _is_text(one)) for one in subscribed),
            *((one, f"a partition {of}", "(topic, partition)", _is_partition(one)) for one in owned),
        ):
            if not fits:
                return InputError(f"{where} is {found!r}: expected {expected}")
    for topic, count, racks in topics:
        if not _is_text(topic):
            return InputError(f"a topic is {topic!r}: expected {text}")
        if not _is_int32(count) or count < 0:
            return InputError(f"topic `{topic}` has {count!r} partitions: give 0 to 2147483647")
        for found in (one for replicas in racks for one in replicas):
            if not _is_text(found):
                return InputError(f"a rack of topic `{topic}` is {found!r}: expected {text}")
    for (member, *_), assigned in zip(rows, plan, strict=False):
        for one in assigned:
            if not _is_partition(one):
                return InputError(f"the plan gives member `{member}` {one!r}: expected (topic, partition)")
    return None


_UNREADABLE = (TypeError, OverflowError, UnicodeEncodeError)


def assign(name: str, members: Members, partitions: Partitions, *, racks: Racks | None = None) -> Plan:
    """The plan of the assignor of this name (with hyphens or underscores)."""
    rows, topics = _rows(members), _topics(partitions, racks)
    try:
        lists = assign_names(name, rows, topics)
    except _UNREADABLE as error:
        raise _blame(rows, topics) or error from None
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
    """As `sticky`, but partitions that another member still claims are withheld in this round. Two rounds settle any
    group."""
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
    """Check a plan of any assignor, and measure it against what the members say they own.

    Every partition of a subscribed topic must go to one member, who subscribes to it; with `cooperative=True` those
    that another member claims must have no owner. Raises PlanError, which names the first partition that breaks a rule.
    """
    rows, topics = _rows(members), _topics(partitions, racks)
    for member in _mapped(plan, "the plan", "a mapping from member ids to partitions"):
        if member not in members:
            raise InputError(f"the plan names member `{member}`, which is not in the group")
    expected = "a sequence of (topic, partition)"
    lists = [_listed(plan.get(member, ()), f"what the plan gives member `{member}`", expected) for member in members]
    # With user data the claims are those of the sticky assignors.
    name = "cooperative_sticky" if cooperative else "sticky"
    try:
        return certify_names(name, rows, topics, lists, cooperative)
    except _UNREADABLE as error:
        raise _blame(rows, topics, lists) or error from None


def read_members(
    metadata: Mapping[str, bytes], instance_ids: Mapping[str, str | None] | None = None
) -> dict[str, Subscriber]:
    """The members of a group from the metadata they joined with. Raises InputError that names whose cannot be read."""
    statics = instance_ids or {}
    members = {}
    for member, data in _mapped(metadata, "the metadata", "a mapping from member ids to bytes").items():
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
