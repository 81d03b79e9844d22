"""Journals: the events and effects of coordinators, read and replayed (docs/journal.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rota import _rota

__all__ = ["Difference", "Line", "PartitionReplay", "journal_in", "replay"]

JOURNAL_TOPIC = "__rota_journal"
JOURNAL_DIRECTORY = "journal"
ENTRIES_AT_ONCE = 1_000


class Line(NamedTuple):
    """One entry of a journal."""

    partition: int
    offset: int
    group: str
    """What it is about; empty: no group, or several."""
    value: bytes

    def fields(self) -> dict[str, Any]:
        """As JSON has it. Raises ValueError if it is no entry."""
        entry: dict[str, Any] = json.loads(_rota.journal_entry(self.value))
        return {"type": "journal", "partition": self.partition, "offset": self.offset, "group": self.group} | entry


class Difference(NamedTuple):
    """Where a journal and a fresh coordinator part."""

    offset: int
    """Of the entry in its partition."""
    sequence: int
    what: str
    """`answers`, `digest`, `state`, `order`, or `entry` if it cannot be read."""
    event: str
    journal: str
    replayed: str


class PartitionReplay(NamedTuple):
    """What came of the replay of one partition."""

    partition: int
    entries: int
    compared: int
    snapshots: int
    """Whole states that were compared."""
    missing: int
    """Entries that the journal says are missing."""
    unchecked: int
    """Entries before which something is missing."""
    cut: int
    """Incarnations that ended without saying so."""
    difference: Difference | None
    damage: str | None
    """Why it could not be read to its end."""

    @property
    def is_well(self) -> bool:
        """Whether the coordinator did the same, as far as could be compared."""
        return self.difference is None and self.damage is None


def journal_in(directory: Path) -> Path | None:
    """Where the journal of a directory is: there, or in the data directory's own folder for it; None: it has none."""
    inside = directory / JOURNAL_DIRECTORY
    if inside.is_dir():
        return inside
    return directory if any(directory.glob(f"{JOURNAL_TOPIC}-*")) else None


def partitions(log: _rota.DataLog) -> list[int]:
    """The partitions of a journal that have anything in them."""
    return [index for topic, index, _, end in log.partitions() if topic == JOURNAL_TOPIC and end > 0]


def entries(log: _rota.DataLog, partition: int, from_offset: int = 0) -> Iterator[Line]:
    """The entries of one partition. Raises OSError where it is damaged."""
    following = from_offset
    while rows := log.records(JOURNAL_TOPIC, partition, following, ENTRIES_AT_ONCE):
        for offset, _, _, key, value in rows:
            yield Line(partition, offset, key.decode(errors="replace"), value or b"")
        following = rows[-1][0] + 1


def replay_partition(lines: Iterator[Line], partition: int) -> PartitionReplay:
    """Fold the entries of one partition through a fresh coordinator, up to the first difference."""
    folding = _rota.JournalReplay()
    difference = damage = None
    try:
        for line in lines:
            if (row := folding.fold(line.value)) is not None:
                difference = Difference(line.offset, *row)
                break
    except OSError as error:
        damage = str(error)
    return PartitionReplay(partition, *folding.counts(), difference, damage)


def replay(directory: Path) -> list[PartitionReplay]:
    """Fold a journal through fresh coordinators, partition by partition, and compare every answer and digest.

    Raises OSError if the directory cannot be opened, and FileNotFoundError if it has no journal.
    """
    where = journal_in(directory)
    if where is None:
        raise FileNotFoundError(f"`{directory}` has no journal: `rota serve --journal` writes one")
    log = _rota.DataLog(where)
    found = [replay_partition(entries(log, partition), partition) for partition in partitions(log)]
    refused = [PartitionReplay(-1, 0, 0, 0, 0, 0, 0, None, damage) for damage in log.damage()]
    return found + refused
