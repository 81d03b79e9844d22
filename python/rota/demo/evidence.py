"""What the demo's witnesses report: the consumers about themselves, and the coordinator when it is asked.

All times are milliseconds of the machine's monotonic clock, which every process of the demo shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class Ownership:
    """A consumer said what it owns, after its rebalance callback ran.

    `assigned` is true if the callback brought an assignment, false if it took one away. `lost` is true if the client
    learned that the coordinator no longer counts it as a member. `generation` is the one that the client knew when the
    callback ran; None if the client does not report it.
    """

    member: str
    at_ms: float
    partitions: frozenset[Partition]
    generation: int | None = None
    assigned: bool = True
    lost: bool = False


@dataclass(frozen=True)
class Ended:
    """A consumer's process is gone: its partitions have no owner."""

    member: str
    at_ms: float


@dataclass(frozen=True)
class Acknowledged:
    """The coordinator told a consumer that its commit is stored."""

    member: str
    at_ms: float
    partition: Partition
    offset: int


@dataclass(frozen=True)
class Resumed:
    """The first offset that a consumer read from a partition, which it was given at `since_ms`."""

    member: str
    since_ms: float
    partition: Partition
    offset: int


@dataclass(frozen=True)
class Snapshot:
    """The coordinator described the group: its state and, by member id, the assignment that it holds for each."""

    at_ms: float
    state: str
    owners: Mapping[str, frozenset[Partition]]


@dataclass(frozen=True)
class Checkpoint:
    """After a step of the script: who should share which topics, who says to own what, what the coordinator says."""

    step: str
    subscriptions: Mapping[str, frozenset[str]]
    by_clients: Mapping[str, frozenset[Partition]]
    by_coordinator: Snapshot | None


@dataclass
class Evidence:
    """All that was heard during one run."""

    ownerships: list[Ownership] = field(default_factory=list)
    endings: list[Ended] = field(default_factory=list)
    commits: list[Acknowledged] = field(default_factory=list)
    resumptions: list[Resumed] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    committed: dict[Partition, int] = field(default_factory=dict)
    """What a client of its own read back at the end."""


def told(member: str, line: Mapping[str, Any]) -> Ownership | Acknowledged | Resumed | None:
    """One line of a consumer's report as evidence; None for a line that is only news for the viewer."""
    match line["kind"]:
        case "assigned" | "revoked" | "lost" as kind:
            owned = frozenset(Partition(topic, index) for topic, index in line["owned"])
            return Ownership(member, line["at_ms"], owned, line.get("generation"), kind == "assigned", kind == "lost")
        case "committed":
            topic, index, offset = line["position"]
            return Acknowledged(member, line["at_ms"], Partition(topic, index), offset)
        case "resumed":
            topic, index, offset = line["position"]
            return Resumed(member, line["since_ms"], Partition(topic, index), offset)
        case _:
            return None
