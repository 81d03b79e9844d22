"""Copies of logs, with a fault in one group after the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from rota import _rota
from rota.audit.logs import JOURNAL, OFFSETS, parts_of, records_of
from rota.audit.plant import journal, records
from rota.journal import JOURNAL_DIRECTORY, JOURNAL_TOPIC, journal_in
from rota.log import OFFSETS_TOPIC

RECORDS_A_BATCH = 100
MANIFEST = "planted.json"
META = "meta.properties"

T = TypeVar("T")


class Planted(NamedTuple):
    """One fault."""

    kind: str
    name: str
    """What an audit calls it."""
    source: str
    partition: int
    group: str


def _read(directory: Path, source: str) -> dict[int, list[tuple[int, bytes, bytes | None]]]:
    """Of each partition the records of a log: wall milliseconds, key, value. Raises OSError."""
    found: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
    for part in parts_of([directory]):
        if part.source == source:
            rows = found.setdefault(part.partition, [])
            rows += [(at_ms, key, value) for _, at_ms, _, key, value in records_of(part)]
    return dict(sorted(found.items()))


def _write(directory: Path, topic: str, partition: int, rows: list[tuple[int, bytes, bytes | None]]) -> None:
    target = directory / f"{topic}-{partition}"
    target.mkdir(parents=True)
    starts = range(0, len(rows), RECORDS_A_BATCH)
    batches = (_rota.write_batch(start, rows[start : start + RECORDS_A_BATCH]) for start in starts)
    (target / f"{0:020}.log").write_bytes(b"".join(batches))


def _mark(source: Path, target: Path) -> None:
    """Let the copy say whose directory it is: without that `rota log` does not open it."""
    if (source / META).exists():
        shutil.copyfile(source / META, target / META)


def _spread(
    copies: dict[int, list[T]],
    faults: Mapping[str, Callable[[list[T], str], list[T] | None]],
    group_of: Callable[[T], str | None],
) -> Iterator[tuple[str, int, str]]:
    """Each fault into the first group that has room for it and no other one: kind, partition, group."""
    used: set[str] = set()
    for kind, fault in faults.items():
        for index, group in [(index, group) for index, rows in copies.items() for group in groups_of(rows, group_of)]:
            changed = None if group in used else fault(copies[index], group)
            if changed is not None:
                copies[index] = changed
                used.add(group)
                yield kind, index, group
                break


def groups_of(rows: list[T], group_of: Callable[[T], str | None]) -> list[str]:
    """The groups that these are about, in the order in which they appear."""
    return [group for group in dict.fromkeys(map(group_of, rows)) if group]


def plant_records(source: Path, target: Path) -> list[Planted]:
    """The log of groups; of a directory without one nothing."""
    copies = {index: [records.Stored(*row) for row in rows] for index, rows in _read(source, OFFSETS).items()}
    spread = _spread(copies, records.FAULTS, records.group_of)
    planted = [Planted(kind, kind, OFFSETS, index, group) for kind, index, group in spread]
    for index, stored in copies.items():
        _write(target, OFFSETS_TOPIC, index, [(at.at_ms, at.key, at.value) for at in stored])
    return planted


def plant_journal(source: Path, target: Path) -> list[Planted]:
    """The journal."""
    copies = {
        index: [journal.Entry(at_ms, key, value or b"") for at_ms, key, value in rows]
        for index, rows in _read(source, JOURNAL).items()
    }
    spread = _spread(copies, journal.FAULTS, lambda entry: entry.group)
    planted = [Planted(kind, journal.NAMES.get(kind, kind), JOURNAL, index, group) for kind, index, group in spread]
    for index, entries in copies.items():
        _write(target, JOURNAL_TOPIC, index, [(entry.at_ms, entry.key, entry.value) for entry in entries])
    return planted


def plant(source: Path, target: Path) -> list[Planted]:
    """Copy the logs of a directory with one fault for each group, as many kinds as find a group that has room for them.

    What was planted is in `planted.json` of the copy, too. Raises OSError and, for a record that cannot be read,
    RecordError; then there is no copy.
    """
    target.mkdir(parents=True)
    try:
        planted = _plant(source, target)
        (target / MANIFEST).write_text(json.dumps([fault._asdict() for fault in planted], indent=1))
    except BaseException:
        # Also after Ctrl-C: half a copy would pass for one.
        shutil.rmtree(target, ignore_errors=True)
        raise
    return planted


def _plant(source: Path, target: Path) -> list[Planted]:
    planted = plant_records(source, target)
    _mark(source, target)
    where = journal_in(source)
    if where is not None:
        planted += plant_journal(where, target / JOURNAL_DIRECTORY)
        _mark(where, target / JOURNAL_DIRECTORY)
    return planted
