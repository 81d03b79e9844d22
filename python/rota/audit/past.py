"""A group as it was: its journal folded up to an instant, or the last records of it before that instant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import rota
from rota import _rota, journal
from rota.audit.logs import FOREVER_MS, OFFSETS, nothing_in, parts_of, records_of
from rota.audit.names import instead_of
from rota.audit.others import other_of
from rota.consumer_records import ConsumerGroupRecord, consumer_record, fold
from rota.log import META_PROPERTIES, Line

NOT_LOADED = "the coordinator was not loaded after {}"
ENDS = "the journal ends at {}"
END = "end"


class UnknownPastError(Exception):
    """The logs do not tell; the message says why."""


class NotInJournalError(UnknownPastError):
    """The journal has nothing about the group."""


@dataclass(frozen=True)
class Moment:
    """What a journal tells of a group at an instant."""

    at_ms: int
    """Wall milliseconds."""
    mono_ms: int
    coordinator: rota.coordinator.Coordinator
    log: Path
    partition: int
    offset: int
    """Of the last entry of the partition that is not later."""
    ending: str | None = None
    """Why this is an earlier instant than the one that was asked about: `NOT_LOADED`, `ENDS`, each with the time."""


def _partition_with(log: _rota.DataLog, group: str, where: Path) -> int:
    """The partition of a journal that has the group: entries about it, or it is in a whole state.

    Raises NotInJournalError if there is none.
    """
    names: set[str] = set()
    for partition in journal.partitions(log):
        for line in journal.entries(log, partition):
            if line.group == group:
                return partition
            names.add(line.group)
    names.discard("")
    for partition in journal.partitions(log):
        for line in journal.entries(log, partition):
            held = set() if line.group else _held_in(line.value)
            if group in held:
                return partition
            names |= held
    raise NotInJournalError(f"the journal in `{where}` has nothing about group `{group}`; {instead_of(group, names)}")


def _held_in(entry: bytes) -> set[str]:
    """The groups in the whole state of an entry, if it has one."""
    replay = _rota.JournalReplay()
    replay.fold(entry)
    state = replay.snapshot()
    return set() if state is None else set(rota.coordinator.Coordinator.restore(state).group_ids())


# Behind the first ones a coordinator is not loaded, behind the others it is, or entries are missing.
LEAVES = frozenset({"Began", "Unloaded"})
RETURNS = frozenset({"Loaded", "Snapshot", "Gap"})


@dataclass(frozen=True)
class _Known:
    """The state behind an entry."""

    state: bytes | None
    mono_ms: int
    wall_ms: int
    offset: int


class _Folding:
    """Folds the entries of a partition, and knows the coordinator as it was when it was loaded last."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._replay = _rota.JournalReplay()
        self._last = _Known(None, 0, 0, -1)
        self._left: _Known | None = None

    @property
    def is_away(self) -> bool:
        """Whether no coordinator is loaded."""
        return self._left is not None

    def known(self) -> _Known:
        """Behind the last entry, or before the coordinator was unloaded."""
        return self._left or replace(self._last, state=self._replay.snapshot())

    def fold(self, line: journal.Line, event: str, mono_ms: int, wall_ms: int) -> None:
        """The next entry. Raises OSError if the coordinator does something else."""
        if event in LEAVES and self._left is None:
            left = self.known()
            # Without an end the last entry is all that there is.
            self._left = replace(left, mono_ms=mono_ms, wall_ms=wall_ms) if event == "Unloaded" else left
        if (difference := self._replay.fold(line.value)) is not None:
            place = f"partition {line.partition}, offset {line.offset}"
            raise OSError(
                f"{place}: the {difference[1]} differ from what the coordinator does; `rota log replay {self._where}`"
                " shows them"
            )
        if event in RETURNS:
            self._left = None
        self._last = _Known(None, mono_ms, wall_ms, line.offset)


def _event(line: journal.Line) -> str:
    """What happened; empty: something in a group. Raises ValueError."""
    if line.group:
        return ""
    event = line.fields()["event"]
    return event if isinstance(event, str) else next(iter(event))


def moment(directory: Path, group: str, at_ms: int | None = None) -> Moment:
    """Fold the group's journal up to an instant; None: to its end, as the coordinator was before a stop.

    Raises UnknownPastError if the journal does not tell, and OSError if it cannot be read or folded.
    """
    where = journal.journal_in(directory)
    if where is None:
        raise UnknownPastError(f"`{directory}` has no journal: `rota serve --journal` writes one")
    log = _rota.DataLog(where)
    partition = _partition_with(log, group, where)
    folding, following = _Folding(where), END
    for line in journal.entries(log, partition):
        try:
            mono_ms, wall_ms = _rota.journal_time(line.value)
            event = _event(line)
        except ValueError as error:
            raise OSError(f"partition {partition}, offset {line.offset}: {error}") from error
        if at_ms is not None and wall_ms > at_ms:
            following = event
            break
        folding.fold(line, event, mono_ms, wall_ms)
    known = folding.known()
    if known.state is None:
        raise UnknownPastError(f"the journal in `{where}` begins later, or entries before that instant are missing")
    coordinator = rota.coordinator.Coordinator.restore(known.state)
    instant, ending = known.wall_ms if at_ms is None else at_ms, None
    if at_ms is not None:
        due_ms = coordinator.next_deadline()
        is_over = due_ms is not None and due_ms - known.mono_ms < at_ms - known.wall_ms
        if folding.is_away or (following == "Began" and is_over):
            instant, ending = known.wall_ms, NOT_LOADED
        elif following == END and is_over:
            instant, ending = known.wall_ms, ENDS
    mono_ms = known.mono_ms + instant - known.wall_ms
    return Moment(instant, mono_ms, coordinator, where, partition, known.offset, ending)


@dataclass(frozen=True)
class Recorded:
    """What a log of groups tells of a group at an instant."""

    partition: int
    offset: int
    timestamp_ms: int
    value: dict[str, Any] | None
    """The record of a classic group, what the records of a consumer group say, or the `type` of another one; None: it
    was deleted."""
    offsets: dict[str, int]
    """Committed offsets by topic and partition."""


def _lines(directory: Path, at_ms: int | None) -> Iterator[Line]:
    """The records of groups, partition by partition, without those of transactions that are not committed at that time.

    Raises OSError where they cannot be read.
    """
    # A server makes the files of `__consumer_offsets` with the first group.
    if (directory / META_PROPERTIES).exists() and nothing_in(directory) is not None:
        return
    for part in parts_of([directory], until_ms=FOREVER_MS if at_ms is None else at_ms):
        if part.source == OFFSETS:
            for offset, timestamp_ms, epoch, key, value in records_of(part):
                try:
                    record = consumer_record(_rota.decode_record(key, value))
                except _rota.RecordError as error:
                    raise OSError(f"`{part.path}`, offset {offset}: {error}") from error
                yield Line(part.partition, offset, timestamp_ms, epoch, record)


def recorded(directory: Path, group: str, at_ms: int | None = None) -> Recorded:
    """The last record of a group that is not later. Raises UnknownPastError and OSError."""
    found: Recorded | None = None
    names: set[str] = set()
    for partition, lines in groupby(_lines(directory, at_ms), key=lambda line: line.partition):
        offsets: dict[str, int] = {}
        consumer: dict[str, Any] | None = None
        others: set[bytes] = set()
        is_later = False
        for line in lines:
            record = line.record
            other = other_of(record.key) if isinstance(record, _rota.UnknownRecord) else None
            name = getattr(record, "group_id", None) if other is None else other[1]
            if isinstance(name, str):
                names.add(name)
            # Nothing behind the first later record counts, as in a journal: with some records of a batch and not with
            # others, because the clock went back, there would be groups that never were.
            is_later = is_later or (at_ms is not None and line.timestamp_ms > at_ms)
            if is_later or name != group:
                continue
            if isinstance(record, _rota.OffsetRecord):
                place = f"{record.topic}-{record.partition}"
                offsets.pop(place, None)
                if record.value is not None:
                    offsets[place] = record.value.offset
            value = None if found is None else found.value
            if other is not None and isinstance(record, _rota.UnknownRecord):
                others = others | {record.key} if record.value is not None else others - {record.key}
                # Without all of its records it is gone.
                value = {"type": other[0]} if others else None
            elif isinstance(record, _rota.GroupRecord):
                consumer, value = None, line.fields()["value"]
            elif isinstance(record, ConsumerGroupRecord):
                consumer = fold(consumer, record)
                # A group that changes its protocol has the records of both in one batch.
                is_classic = value is not None and "protocol_type" in value
                value = value if is_classic and consumer is None else consumer
            found = Recorded(partition, line.offset, line.timestamp_ms, value, dict(offsets))
    if found is None:
        if group in names:
            raise UnknownPastError(f"`{directory}` has no record of group `{group}` up to that time")
        raise UnknownPastError(f"`{directory}` has no record of group `{group}`; {instead_of(group, names)}")
    return found


def as_json(projection: rota.coordinator.Projection | rota.coordinator.ConsumerView) -> dict[str, Any]:
    """A projection, or the view of a consumer group, as JSON has it; bytes are hexadecimal."""
    return {name: _plain(getattr(projection, name)) for name in projection.__match_args__}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if hasattr(value, "__match_args__"):
        return {name: _plain(getattr(value, name)) for name in value.__match_args__}
    return value if isinstance(value, str | int | float | bool | None) else json.loads(json.dumps(value, default=str))
