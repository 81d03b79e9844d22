"""Histories of transactional clients, and what must not be in them, in the manner of Jepsen's tests of Kafka.

A history has every transaction with its values and how it ended for its client, every late request with its answer,
what readers of committed messages saw in which order, and at the end all of the log and the groups' offsets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"

Place = tuple[int, int]
"""Partition and offset."""
Seen = tuple[int, int, str]
"""Partition, offset and value."""


@dataclass
class Transaction:
    """One transaction of a worker, which also commits `offset` for the worker's group."""

    worker: str
    offset: int
    values: list[str] = field(default_factory=list)
    #: of the values that were acknowledged
    places: dict[str, Place] = field(default_factory=dict)
    #: unknown: its commit was sent, and not answered
    outcome: str = ABORTED


@dataclass
class Late:
    """A request about a transaction that has ended, sent when the next one is open; a value only if it is a Produce."""

    api: str
    error_code: int
    value: str = ""


@dataclass
class History:
    """What clients know."""

    transactions: list[Transaction] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    #: of each reader, in the order in which it got them
    reads: list[list[Seen]] = field(default_factory=list)
    #: the whole log, read when nothing was open any more
    last_read: list[Seen] = field(default_factory=list)
    #: of each worker's group, -1 without one
    offsets: dict[str, int] = field(default_factory=dict)


def anomalies(history: History) -> dict[str, list[str]]:
    """What must not be, by kind."""
    found: dict[str, list[str]] = defaultdict(list)
    for kind, what in (*_of_values(history), *_of_order(history), *_of_transactions(history), *_of_late(history)):
        found[kind].append(what)
    return dict(found)


def _of_values(history: History) -> Iterator[tuple[str, str]]:
    owners = {value: each for each in history.transactions for value in each.values}
    late = {each.value for each in history.late if each.value}
    values = {value for seen in (*history.reads, history.last_read) for _, _, value in seen}
    for value in sorted(values):
        if value in late:
            yield "late write", value
        elif value not in owners:
            yield "unwritten read", value
        elif owners[value].outcome == ABORTED:
            yield "aborted read", value
    for value, count in sorted(Counter(value for _, _, value in history.last_read).items()):
        if count > 1:
            yield "duplicate", f"{value}, {count} times"


def _of_order(history: History) -> Iterator[tuple[str, str]]:
    at: dict[Place, set[str]] = defaultdict(set)
    for seen in (*history.reads, history.last_read):
        last: dict[int, int] = {}
        for partition, offset, value in seen:
            at[partition, offset].add(value)
            if offset <= last.get(partition, -1):
                yield "order of a reader", f"{value} at {partition}/{offset} after {last[partition]}"
            last[partition] = offset
    for each in history.transactions:
        for value, place in each.places.items():
            if each.outcome == COMMITTED:
                at[place].add(value)
    for (partition, offset), values in sorted(at.items()):
        if len(values) > 1:
            yield "two values of an offset", f"{partition}/{offset}: {sorted(values)}"


def _of_transactions(history: History) -> Iterator[tuple[str, str]]:
    there = {value for _, _, value in history.last_read}
    visible: dict[str, int] = {}
    for each in history.transactions:
        present = [value for value in each.values if value in there]
        if each.outcome == COMMITTED and not present:
            yield "lost write", f"{each.worker}, transaction {each.offset}: {each.values}"
        elif present and len(present) < len(each.values):
            yield "torn transaction", f"{each.worker}, transaction {each.offset}: only {present} of {each.values}"
        if present:
            visible[each.worker] = max(each.offset, visible.get(each.worker, -1))
    # A commit is a transaction of messages and offsets: the newest visible one has the group's offset.
    for worker, offset in sorted(history.offsets.items()):
        if offset != visible.get(worker, -1):
            yield "torn offset", f"{worker} has {offset}, and the messages of {visible.get(worker, -1)}"


def _of_late(history: History) -> Iterator[tuple[str, str]]:
    for each in history.late:
        if each.error_code == 0:
            yield f"late {each.api} accepted", each.value
