"""How the committed offsets of a group move, beside the ends of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rota.groups.cluster import Committed, Described, Partition
    from rota.groups.transactions import OpenTransaction


class Look(NamedTuple):
    """A group at one moment, as a broker describes it."""

    at_s: float
    """Seconds of a monotonic clock."""
    described: Described
    committed: dict[Partition, Committed]
    ends: dict[Partition, int]
    """The next offset of each partition that exists."""


class Surroundings(NamedTuple):
    """What is not the group's own, and can keep messages from it."""

    absent: Sequence[str] = ()
    """Topics that members subscribe to and that the broker does not show."""
    held: Mapping[Partition, OpenTransaction | None] = MappingProxyType({})
    """Partitions whose next message is behind the begin of an open transaction; None: it is not known which."""


class Movement(StrEnum):
    """What the offset of a partition does while it is watched."""

    CURRENT = "is up to date"
    MOVES = "moves"
    BEHIND = "falls behind"
    LAGS = "is behind"
    """Seen once: whether it moves is not known."""
    STILL = "stands still"
    BACK = "goes back"
    NONE = "has no commit"


class Place(NamedTuple):
    """One partition of a group, while it was watched."""

    topic: str
    partition: int
    movement: Movement
    committed: int | None
    lag: int | None
    """Messages from the committed offset to the end; None where one of them is not known."""
    lag_change: int
    """How much the lag grew."""
    member_id: str | None
    """Who has the partition."""


TROUBLES = (Movement.BACK, Movement.STILL, Movement.BEHIND)
"""What is worth a line, the worst first."""


def places(looks: Sequence[Look], owners: dict[Partition, str]) -> list[Place]:
    """The partitions that were committed for or are assigned, by topic and index."""
    first, last = looks[0], looks[-1]
    members = last.described.members or []
    owners = owners | {at: member.member_id for member in members for at in member.partitions}
    return [_place(at, first, last, owners.get(at)) for at in sorted(last.committed.keys() | owners.keys())]


def _place(at: Partition, first: Look, last: Look, owner: str | None) -> Place:
    lag, before = _lag(at, last), _lag(at, first)
    committed, earlier = last.committed.get(at), first.committed.get(at)
    grew = 0 if lag is None or before is None else lag - before
    if committed is None:
        movement = Movement.NONE
    elif earlier is not None and committed.offset < earlier.offset:
        movement = Movement.BACK
    elif lag is None or lag <= 0:
        movement = Movement.CURRENT
    elif first is last:
        movement = Movement.LAGS
    elif earlier is not None and committed.offset == earlier.offset:
        movement = Movement.STILL
    else:
        movement = Movement.BEHIND if grew > 0 else Movement.MOVES
    return Place(*at, movement, None if committed is None else committed.offset, lag, grew, owner)


def _lag(at: Partition, look: Look) -> int | None:
    if at not in look.committed or at not in look.ends:
        return None
    return max(0, look.ends[at] - look.committed[at].offset)
