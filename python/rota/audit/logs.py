"""Which files a log is made of, cut into parts that tasks can read on their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rota import _rota
from rota.journal import JOURNAL_DIRECTORY, JOURNAL_TOPIC

PART_BYTES = 16 << 20
OFFSETS_TOPIC = "__consumer_offsets"
JOURNAL, OFFSETS = "journal", "offsets"
UNREADABLE = "unreadable"
"""The kind of a row that says what could not be read."""
SOURCES = {OFFSETS_TOPIC: OFFSETS, JOURNAL_TOPIC: JOURNAL}

PARTITION = re.compile(rf"({OFFSETS_TOPIC}|{JOURNAL_TOPIC})-([0-9]+)")
SEGMENT = re.compile(r"([0-9]{20})\.log(\.swap)?")


class Part(NamedTuple):
    """Whole batches of one segment, or something that cannot be read."""

    source: str
    """`journal` or `offsets`."""
    log: str
    """The directory that has the partitions' directories in it."""
    partition: int
    path: str
    start: int
    end: int
    first_offset: int
    next_offset: int
    newest_ms: int
    records: int
    is_first: bool
    """Nothing of its partition comes before it."""
    is_newest: bool
    """Nothing of its partition comes after it."""
    trouble: str | None = None
    """Why there is nothing to read."""


def partition_directories(path: Path) -> Iterator[Path]:
    """The directories of partitions at a path: itself, those in it, and those of its journal. Raises OSError."""
    if PARTITION.fullmatch(path.name):
        yield path
        return
    for place in (path, path / JOURNAL_DIRECTORY):
        if place.is_dir() or place == path:
            yield from sorted(child for child in place.iterdir() if PARTITION.fullmatch(child.name))


def segments(directory: Path) -> list[tuple[int, Path]]:
    """Base offsets and files, oldest first; a segment that compaction was about to put in place counts as in place."""
    found: dict[int, Path] = {}
    for path in sorted(directory.iterdir()):
        if match := SEGMENT.fullmatch(path.name):
            found[int(match[1])] = path
    return sorted(found.items())


def _unreadable(path: Path, source: str, partition: int, reason: object) -> Part:
    return Part(source, str(path.parent), partition, str(path), 0, 0, 0, 0, 0, 0, False, False, str(reason))


def _partition_parts(directory: Path, part_bytes: int) -> list[Part]:
    match = PARTITION.fullmatch(directory.name)
    assert match is not None, directory
    source, partition = SOURCES[match[1]], int(match[2])
    parts: list[Part] = []
    following = 0
    try:
        found = segments(directory)
    except OSError as error:
        return [_unreadable(directory, source, partition, error)]
    for base_offset, path in found:
        try:
            ranges = _rota.audit_ranges(path, base_offset, part_bytes)
        except OSError as error:
            parts.append(_unreadable(path, source, partition, error))
            continue
        for start, end, first_offset, next_offset, newest_ms, records in ranges:
            expected = following if start == 0 else first_offset
            place = (source, str(directory.parent), partition, str(path), start, end)
            parts.append(Part(*place, expected, next_offset, newest_ms, records, not parts, False))
            following = next_offset
    if parts:
        parts[-1] = parts[-1]._replace(is_newest=True)
    return parts


def parts_of(paths: list[Path], part_bytes: int = PART_BYTES) -> list[Part]:
    """The parts of all logs at these paths, in order. A path without anything to read gives a part that says so."""
    found: dict[Path, list[Part]] = {}
    for path in paths:
        try:
            directories = list(partition_directories(path))
        except OSError as error:
            found[path] = [_unreadable(path, OFFSETS, -1, error)]
            continue
        if not directories:
            reason = f"`{path}` has no {OFFSETS_TOPIC} and no journal in it"
            found[path] = [_unreadable(path, OFFSETS, -1, reason)]
        for directory in directories:
            found.setdefault(directory.resolve(), _partition_parts(directory, part_bytes))
    return [part for parts in found.values() for part in parts]
