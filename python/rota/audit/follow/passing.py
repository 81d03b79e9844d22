"""One pass over the rows of a partition; and over whole logs that do not grow, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rota.audit.follow.finding import COLUMNS, Finding, Seen
from rota.audit.follow.partition import Group, Partition
from rota.audit.follow.replaying import Folding
from rota.audit.logs import JOURNAL, UNREADABLE, Part, parts_of
from rota.audit.rows import rows_of


def follow(partition: Partition, folding: Folding, is_journal: bool, rows: list[Seen]) -> Iterator[Finding]:
    """What is found in the next rows of a partition, in their order. Rows that have been seen are passed over."""
    new = [row for row in rows if row.offset >= partition.next_offset]
    if not new:
        return
    for row in new:
        if row.kind == UNREADABLE:
            at = (row.offset, row.offset, row.at_ms)
            yield Finding(UNREADABLE, row.group, None, *at, [], row.note or "")
    if is_journal:
        yield from folding.fold(new)
    of_promises = [row for row in new if row.kind not in {"entry", UNREADABLE}]
    yield from (partition.of_journal if is_journal else partition.of_groups)(of_promises)
    partition.next_offset = max(
        (row.offset + 1 for row in new if row.kind != UNREADABLE), default=partition.next_offset
    )


def seen_in(part: Part) -> list[Seen]:
    """All rows of a part."""
    rows = (row for batch in rows_of(part, has_entries=True) for row in batch.to_pylist())
    return [Seen(*(row[name] for name in COLUMNS)) for row in rows]


class _Groups(dict[str, Group]):
    def __missing__(self, name: str) -> Group:
        self[name] = Group()
        return self[name]


def found_in(*paths: Path) -> Iterator[tuple[str, int, Finding]]:
    """What is found in the logs at these paths, with the log and the partition. Needs pyarrow, but neither Spark nor
    Java."""
    known: dict[tuple[str, int], tuple[Partition, Folding]] = {}
    for part in parts_of(list(paths)):
        place = (part.log, part.partition)
        partition, folding = known.setdefault((f"{part.source} {part.log}", part.partition), _unknown())
        for found in follow(partition, folding, part.source == JOURNAL, seen_in(part)):
            yield *place, found


def _unknown() -> tuple[Partition, Folding]:
    return Partition(_Groups().__getitem__), Folding()
