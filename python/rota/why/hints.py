"""Members that get no messages though their group is settled: what `rota why` says of a server and of any broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rota.why import words

NAMED = 3
"""How many members one line names."""


class Holder(NamedTuple):
    """A member of a settled group."""

    name: str
    topics: Sequence[str]
    """What it subscribes to."""
    partitions: int
    """How many it has."""


def hints(holders: Sequence[Holder], absent: Iterable[str], says: str) -> Iterator[str]:
    """Members that subscribe to topics which are absent, with what that means, and members without partitions."""
    absent = sorted(set(absent))
    for topic in absent:
        names = [holder.name for holder in holders if topic in holder.topics]
        if names:
            yield f"{words.first(names, NAMED)} subscribe{'s' * (len(names) == 1)} to {words.printable(topic)}, {says}"
    idle = [one.name for one in holders if not one.partitions and not (one.topics and set(one.topics) <= set(absent))]
    if idle:
        held = sum(holder.partitions for holder in holders)
        shared = f"{words.counted(len(holders), 'member')} share{'s' * (len(holders) == 1)}"
        verb = "has" if len(idle) == 1 else "have"
        yield f"{words.first(idle, NAMED)} {verb} no partition: {shared} {words.counted(held, 'partition')}"
