"""What is new in logs that grow: `spark.readStream.format("rota").load("data")`.

A position is a directory of a partition, the segment, its byte and the offset that is due there. It is checked before
it is used: compaction may have written the segment anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from rota import _rota
from rota.audit.logs import (
    FILE_END,
    JOURNAL,
    PARTITION,
    SOURCES,
    Part,
    Transaction,
    opened,
    partition_directories,
    segments,
)
from rota.audit.rows import batches_of, unreadable

if TYPE_CHECKING:
    import pyarrow as pa

Positions = dict[str, dict[str, int]]
"""By directory: `segment` (its base offset), `byte`, `offset`."""


class Position(NamedTuple):
    """Where reading goes on in a partition."""

    segment: int = 0
    byte: int = 0
    offset: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """What orders the positions of a partition."""
        return self.offset, self.segment, self.byte


def _byte_of(path: Path, base: int, at: Position) -> int:
    """Where the batch that is due begins, or the end of the segment. Raises OSError."""
    if at.byte == 0 and at.offset <= base:
        return 0
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(at.byte)
        begins = file.read(8)
    if at.byte == size_bytes or (begins and int.from_bytes(begins, "big") == at.offset):
        return at.byte
    # Records are missing here, or the segment was written anew: its batches are looked through.
    batches = _rota.audit_ranges(path, base, 1)
    return next((first for first, _, _, next_offset, _, records in batches if next_offset > at.offset or not records),
                path.stat().st_size)  # fmt: skip


def _placed(at: Position, found: list[tuple[int, Path]]) -> Position:
    """The position in the segments that there are: compaction puts the records of some segments into an earlier one."""
    bases = [base for base, _ in found]
    if at.segment in bases:
        return at
    return Position(max((base for base in bases if base <= at.offset), default=0), 0, at.offset)


Range = tuple[int, int, int, int, int, int]
"""A part of a segment, with the fields that `_rota.audit_ranges` gives."""


def _decided(source: str, cut: Range, expected: int, paths: list[Path]) -> tuple[Range | None, tuple[Transaction, ...]]:
    """What of a range is decided, and the transactions in it that do not count. Raises OSError.

    Nothing from the first record of an open transaction on is: its marker may come. `paths` are the segment of the
    range and those behind it.
    """
    first, _, _, next_offset, _, records = cut
    if source == JOURNAL or records == 0:
        return cut, ()
    files = [(path, [(0 if index else first, FILE_END)]) for index, path in enumerate(paths)]
    uncommitted, undecided_at = _rota.audit_transactions(files, next_offset)
    if undecided_at is None:
        return cut, tuple(uncommitted)
    if undecided_at <= first:
        return None, ()
    (shorter,) = _rota.audit_ranges(paths[0], expected, undecided_at - first, first, 1, undecided_at)
    return shorter, tuple(one for one in uncommitted if one[1] < shorter[3])


def parts_from(
    directory: Path, start: Position, part_bytes: int, goal: Position | None = None
) -> Iterator[tuple[Part, Position]]:
    """What there is behind a position, up to another one, part by part, and where each ends. Raises OSError.

    A batch that is only half there is left for later, and so is what follows the first record of an open transaction;
    what is no batch in the middle of a log is a part without records. Of a log that was compacted since the goal was
    set a part may go beyond it.
    """
    match = PARTITION.fullmatch(directory.name)
    assert match is not None, directory
    source, partition = SOURCES[match[1]], int(match[2])
    found = segments(directory)
    at = _placed(start, found)
    for index, (base, path) in enumerate(found):
        following = found[index + 1][0] if index + 1 < len(found) else None
        if base < at.segment or (following is not None and following <= at.offset):
            continue
        if base > at.segment:
            at = Position(base, 0, at.offset)
        while goal is None or at.key < goal.key:
            begins = _byte_of(path, base, at)
            bytes_due = part_bytes if goal is None or goal.segment != base else min(part_bytes, goal.byte - begins)
            cut = _rota.audit_ranges(path, at.offset, max(1, bytes_due), begins, 1)
            if not cut or (cut[0][5] == 0 and following is None):
                break
            decided, uncommitted = _decided(source, cut[0], at.offset, [path for _, path in found[index:]])
            if decided is None:
                return
            first, end, _, next_offset, newest_ms, records = decided
            place = (source, str(directory.parent), partition, str(path), first, end)
            part = Part(*place, at.offset, next_offset, newest_ms, records, at.offset == 0, False)
            part = part._replace(uncommitted=uncommitted)
            if records == 0 and following is not None:
                next_offset = max(next_offset, following)  # the end of what is damaged is not known
            at = Position(base, end, next_offset)
            yield part, at


def parts_now(
    directory: Path, start: Position, part_bytes: int, goal: Position | None = None, at_most: int | None = None
) -> list[tuple[Part, Position]]:
    """`parts_from`, begun again if compaction removed a segment between listing and reading. Raises OSError."""
    while True:
        before = segments(directory)
        try:
            return list(islice(parts_from(directory, start, part_bytes, goal), at_most))
        except OSError:
            if segments(directory) == before:
                raise


def _is_as_planned(part: Part) -> bool:
    """Whether the batches of a part are where they were when it was planned. Raises OSError."""
    size_bytes = max(1, part.end - part.start)
    found = _rota.audit_ranges(Path(part.path), part.first_offset, size_bytes, part.start, end=part.end)
    return [(end, next_offset, records) for _, end, _, next_offset, _, records in found] == [
        (part.end, part.next_offset, part.records)
    ]


def rows_now(part: Part, part_bytes: int, has_entries: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a part that was planned earlier. Compaction may have put other segments in its place since."""
    if part.trouble is not None:
        yield unreadable(part, part.trouble)
        return
    try:
        # Opened first: the open file stays as it is, whatever takes its name.
        rows = opened(part, has_entries=has_entries)
        is_as_planned = _is_as_planned(part)
    except OSError as error:
        if Path(part.path).exists():
            yield unreadable(part, str(error))
            return
        is_as_planned = False
    if is_as_planned:
        yield from batches_of(part, rows)
        return
    start, goal = Position(offset=part.first_offset), Position(offset=part.next_offset)
    for current, _ in parts_now(Path(part.path).parent, start, part_bytes, goal):
        yield from rows_now(current, part_bytes, has_entries)


def _plain(positions: dict[str, Position]) -> Positions:
    return {directory: at._asdict() for directory, at in positions.items()}


def _positions(plain: Positions) -> dict[str, Position]:
    return {directory: Position(**at) for directory, at in plain.items()}


class GrowthReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new, up to so many bytes of each partition at once."""

    def __init__(self, paths: list[Path], part_bytes: int, has_entries: bool) -> None:
        self.paths = paths
        self.part_bytes = part_bytes
        self.has_entries = has_entries
        self.goal: dict[str, Position] | None = None

    def _directories(self) -> list[Path]:
        """Those that can be listed; what cannot be may be there later."""
        found = []
        for path in self.paths:
            if path.is_dir():
                found += [directory.resolve() for directory in partition_directories(path)]
        return sorted(set(found))

    def _reach(self, start: dict[str, Position], is_limited: bool) -> dict[str, Position]:
        reached = dict(start)
        for directory in self._directories():
            name = str(directory)
            goal = None if self.goal is None else self.goal.get(name, Position())
            at_most = 1 if is_limited else None
            for _, end in parts_now(directory, start.get(name, Position()), self.part_bytes, goal, at_most):
                reached[name] = end
        return reached

    def initialOffset(self) -> Positions:  # noqa: N802 - Spark's name
        """Nothing has been read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """One part of each partition."""
        return ReadMaxBytes(self.part_bytes)

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:  # noqa: N802 - Spark's name
        """How far the next batch reads."""
        return _plain(self._reach(_positions(start), not isinstance(limit, ReadAllAvailable)))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that is read."""
        self.goal = self._reach({}, is_limited=False)

    def partitions(self, start: Positions, end: Positions) -> Sequence[InputPartition]:
        """The parts between two positions."""
        ends = _positions(end)
        begins = _positions(start)
        found = []
        for name, goal in ends.items():
            parts = parts_now(Path(name), begins.get(name, Position()), self.part_bytes, goal)
            found += [InputPartition(part) for part, _ in parts]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        return rows_now(partition.value, self.part_bytes, self.has_entries)
