"""Which files a log is made of, cut into parts that tasks can read on their own."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rota import _rota
from rota.journal import JOURNAL_DIRECTORY, JOURNAL_TOPIC

PART_BYTES = 16 << 20
FILE_END = (1 << 63) - 1
UNKNOWN_MS = (1 << 63) - 1
"""The newest timestamp of a part if that is not known."""
FOREVER_MS = (1 << 63) - 1
OFFSETS_TOPIC = "__consumer_offsets"
JOURNAL, OFFSETS = "journal", "offsets"
UNREADABLE = "unreadable"
"""The kind of a row that says what could not be read."""
NOTHING_IN = f"`{{}}` has no {OFFSETS_TOPIC} and no journal in it: give a data directory"
SOURCES = {OFFSETS_TOPIC: OFFSETS, JOURNAL_TOPIC: JOURNAL}

PARTITION = re.compile(rf"({OFFSETS_TOPIC}|{JOURNAL_TOPIC})-([0-9]+)")
SEGMENT = re.compile(r"([0-9]{20})\.log(\.swap)?")


Transaction = tuple[int, int, int]
"""Producer id, the offset of its first record, the offset behind its last one."""


class Part(NamedTuple):
    """Whole batches of one file, or something that cannot be read."""

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
    pieces: tuple[tuple[int, int], ...] = ()
    """Of a write-ahead file, which other partitions share: where between `start` and `end` the batches lie."""
    uncommitted: tuple[Transaction, ...] = ()
    """The transactions in it that were aborted or have not ended: their records do not count."""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Where in the file its batches lie, each from a byte to the one after its last."""
        return list(self.pieces) or [(self.start, self.end)]


def partition_directories(path: Path) -> Iterator[Path]:
    """The directories of partitions at a path: itself, those in it, and those of its journal. Raises OSError."""
    if PARTITION.fullmatch(path.name):
        yield path
        return
    for place in (path, path / JOURNAL_DIRECTORY):
        if place.is_dir() or place == path:
            yield from sorted(child for child in place.iterdir() if PARTITION.fullmatch(child.name))


def segments(directory: Path) -> list[tuple[int, Path]]:
    """Base offsets and files, oldest first. What compaction was about to put in place counts as in place, and the
    segments that it covers as gone. Raises OSError."""
    found: dict[int, Path] = {}
    swaps: list[tuple[int, Path]] = []
    for path in sorted(directory.iterdir()):
        if match := SEGMENT.fullmatch(path.name):
            found[int(match[1])] = path
            swaps += [(int(match[1]), path)] if match[2] else []
    for base_offset, path in swaps:
        try:
            next_offset = max((row[3] for row in _rota.audit_ranges(path, base_offset, FILE_END)), default=base_offset)
        except OSError:
            continue  # its reader reports it
        for covered in [other for other in found if base_offset < other < next_offset]:
            del found[covered]
    return sorted(found.items())


def unreadable_part(path: Path, source: str, partition: int, reason: object) -> Part:
    """A part that says why a file or directory cannot be read."""
    return Part(source, str(path.parent), partition, str(path), 0, 0, 0, 0, 0, 0, False, False, str(reason))


class Batch(NamedTuple):
    """A batch in a write-ahead file."""

    path: Path
    start: int
    end: int
    first_offset: int
    next_offset: int
    newest_ms: int
    records: int


Ahead = dict[Path, list[Batch]]
"""What write-ahead files have, by the directory of the partition, in order."""


def ahead_in(log: Path) -> Ahead:
    """The records of groups in the write-ahead files of a data directory of rota. Raises OSError."""
    said = None
    while True:
        try:
            batches = _rota.audit_ahead(log, OFFSETS_TOPIC)
            break
        except OSError as error:
            # A frame that was written while the file was read looks like damage once, real damage every time.
            if str(error) == said:
                raise
            said = str(error)
    found: Ahead = {}
    for partition, path, batch in batches:
        found.setdefault(log / f"{OFFSETS_TOPIC}-{partition}", []).append(Batch(path, *batch))
    return found


def _parts_ahead(source: str, directory: Path, batches: list[Batch], part_bytes: int) -> Iterator[Part]:
    """Batches of write-ahead files, in parts of about so many bytes."""
    partition = int(directory.name.rpartition("-")[2])
    taken: list[Batch] = []
    size_bytes = 0
    for index, batch in enumerate(batches):
        taken.append(batch)
        size_bytes += batch.end - batch.start
        if size_bytes >= part_bytes or index + 1 == len(batches) or batches[index + 1].path != batch.path:
            place = (source, str(directory.parent), partition, str(batch.path), taken[0].start, batch.end)
            newest_ms, records = max(one.newest_ms for one in taken), sum(one.records for one in taken)
            told = (taken[0].first_offset, batch.next_offset, newest_ms, records, False, False)
            yield Part(*place, *told, pieces=tuple((one.start, one.end) for one in taken))
            taken, size_bytes = [], 0


def _due(before: list[Part], base_offset: int) -> int:
    """The offset expected at the start of a segment. The end of a segment that is damaged to its end is not known."""
    if not before:
        return 0
    return before[-1].next_offset if before[-1].records else max(before[-1].next_offset, base_offset)


def _segment_parts(source: str, segment: tuple[int, Path], before: list[Part], part_bytes: int, end: int) -> list[Part]:
    """The parts of a segment up to a byte, or one that says why it cannot be read."""
    base_offset, path = segment
    partition = int(path.parent.name.rpartition("-")[2])
    try:
        ranges = _rota.audit_ranges(path, base_offset, part_bytes, end=end)
    except OSError as error:
        due = _due(before, base_offset)
        part = unreadable_part(path.parent, source, partition, error)
        return [part._replace(path=str(path), first_offset=due, next_offset=due)]
    parts: list[Part] = []
    for start, range_end, first_offset, next_offset, newest_ms, records in ranges:
        expected = _due(before, base_offset) if start == 0 else first_offset
        place = (source, str(path.parent.parent), partition, str(path), start, range_end)
        parts.append(Part(*place, expected, next_offset, newest_ms, records, not (before or parts), False))
    return parts


class Wrong(NamedTuple):
    """Where a segment is damaged so that a write-ahead file may have what stood there."""

    segment: int
    """Which of them it is."""
    start: int
    end: int
    offset: int
    """The one that is due there."""


def _first_wrong(found: list[tuple[int, Path]], first_offset: int) -> Wrong | None:
    """In segments the first damage of an offset that write-ahead files may have: they begin with `first_offset`."""
    for index, (base_offset, path) in enumerate(found):
        if index + 1 < len(found) and found[index + 1][0] <= first_offset:
            continue
        try:
            wrong = _rota.audit_wrong(path, base_offset, first_offset)
        except OSError:
            continue  # it has a part that says so
        if wrong is not None:
            return Wrong(index, *wrong[:3])
    return None


def _without_uncommitted(parts: list[Part], until_ms: int) -> list[Part]:
    """The parts of a partition of `__consumer_offsets`, told which transactions do not count at this time."""
    files = [(Path(part.path), part.ranges if part.trouble is None else []) for part in parts]
    uncommitted, _ = _rota.audit_transactions(files, until_ms=until_ms)
    later, known = deque(uncommitted), list[Transaction]()
    found = []
    for part in parts:
        while later and later[0][1] < part.next_offset:
            known.append(later.popleft())
        known = [transaction for transaction in known if transaction[2] > part.first_offset]
        found.append(part._replace(uncommitted=tuple(known)))
    return found


def _partition_parts(directory: Path, part_bytes: int, ahead: list[Batch], until_ms: int) -> list[Part]:
    match = PARTITION.fullmatch(directory.name)
    assert match is not None, directory
    source, partition = SOURCES[match[1]], int(match[2])
    try:
        found = segments(directory) if directory.exists() or not ahead else []
    except OSError as error:
        return [unreadable_part(directory, source, partition, error)]
    parts: list[Part] = []
    for segment in found:
        parts += _segment_parts(source, segment, parts, part_bytes, FILE_END)
    following = next((part.next_offset for part in reversed(parts) if part.trouble is None), 0)
    missing = [batch for batch in ahead if batch.first_offset >= following]
    # What write-ahead files have to the end of the segments and beyond, they have instead of what is damaged there.
    wrong = _first_wrong(found, ahead[0].first_offset) if ahead and ahead[-1].next_offset >= following else None
    instead = [] if wrong is None else [batch for batch in ahead if batch.first_offset >= wrong.offset]
    if wrong is not None and instead:
        missing = instead
        base_offset, path = found[wrong.segment]
        earlier = {str(segment) for _, segment in found[: wrong.segment]}
        parts = [part for part in parts if part.path in earlier]
        parts += _segment_parts(source, (base_offset, path), parts, part_bytes, wrong.start)
        if missing[0].first_offset != wrong.offset:
            place = (source, str(directory.parent), partition, str(path), wrong.start, wrong.end)
            parts.append(Part(*place, wrong.offset, wrong.offset, UNKNOWN_MS, 0, not parts, False))
    parts += _parts_ahead(source, directory, missing, part_bytes)
    if parts:
        parts[0] = parts[0]._replace(is_first=parts[0].trouble is None)
        parts[-1] = parts[-1]._replace(is_newest=True)
    if source == JOURNAL:
        return parts
    try:
        return _without_uncommitted(parts, until_ms)
    except OSError as error:
        return [unreadable_part(directory, source, partition, error)]


def _directories(path: Path) -> tuple[list[Path], Ahead, list[Part]]:
    """The directories of partitions at a path, what write-ahead files have of them, and what is wrong with those.

    A write-ahead file is read before the segments that are behind it: of a server that is running they are not.
    """
    log = path.parent if PARTITION.fullmatch(path.name) else path
    try:
        ahead, troubles = ahead_in(log), []
    except OSError as error:
        ahead, troubles = {}, [unreadable_part(log / OFFSETS_TOPIC, OFFSETS, -1, error)]
    directories = list(partition_directories(path))
    if log == path:
        directories += sorted(ahead.keys() - set(directories))
    return directories, ahead, troubles


def nothing_in(path: Path) -> str | None:
    """Why there is nothing to read at a path; None: there is something, or it cannot be read."""
    try:
        directories, _, troubles = _directories(path)
    except OSError:
        return None
    return None if directories or troubles else NOTHING_IN.format(path)


def parts_of(paths: list[Path], part_bytes: int = PART_BYTES, until_ms: int = FOREVER_MS) -> list[Part]:
    """The parts of all logs at these paths, in order. A path without anything to read gives a part that says so.

    Transactions count that were committed up to a time.
    """
    found: dict[Path, list[Part]] = {}
    for path in paths:
        try:
            directories, ahead, troubles = _directories(path)
        except OSError as error:
            found[path] = [unreadable_part(path, OFFSETS, -1, error)]
            continue
        if not directories and not troubles:
            troubles = [unreadable_part(path, OFFSETS, -1, nothing_in(path))]
        if troubles:
            found.setdefault(path.resolve() / OFFSETS_TOPIC, troubles)
        for directory in directories:
            batches = ahead.get(directory, [])
            found.setdefault(directory.resolve(), _partition_parts(directory, part_bytes, batches, until_ms))
    return [part for parts in found.values() for part in parts]


def partitions_in(parts: list[Part]) -> list[list[Part]]:
    """The parts partition by partition."""
    found: dict[tuple[str, str, int], list[Part]] = {}
    for part in parts:
        found.setdefault((part.log, part.source, part.partition), []).append(part)
    return [found[place] for place in sorted(found)]


def opened(
    part: Part,
    groups: list[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    has_entries: bool = False,
) -> _rota.AuditRows:
    """The open file of a part, which stays readable after compaction has removed its name. Raises OSError.

    Only rows of these groups, not earlier and not later; rows about no group are always among them. With `has_entries`
    each entry of a journal comes whole before its rows, too.
    """
    if part.trouble is not None:
        raise OSError(part.trouble)
    place = (Path(part.path), part.ranges, part.first_offset, part.is_newest, part.source == JOURNAL)
    return _rota.AuditRows(*place, groups, since_ms, until_ms, has_entries, part.uncommitted)


Record = tuple[int, int, int, bytes, bytes | None]
"""Offset, wall milliseconds, epoch, key, value."""


def records_of(part: Part) -> list[Record]:
    """The records of one part as they are, without those that do not count. Raises OSError if they cannot be read."""
    if part.trouble is not None:
        raise OSError(part.trouble)
    offsets = (part.first_offset, part.next_offset)
    return _rota.audit_records(Path(part.path), part.ranges, offsets, part.is_newest, part.uncommitted)
