"""The promises of one partition of a log, folded where the log lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rota import _rota
from rota.audit.folds import fold, said_of
from rota.audit.logs import JOURNAL, Part, opened, partitions_in, parts_of


class Finding(NamedTuple):
    """Something that a check of `rota.audit.checks` is about."""

    name: str
    group: str | None
    generation: int | None
    first_offset: int
    last_offset: int
    at_ms: int | None
    members: list[str]
    witness: str


class Promised(NamedTuple):
    """What came of one partition of a log."""

    source: str
    log: str
    partition: int
    rows: int
    compacted: int
    """Offsets without a record."""
    groups: list[tuple[str, bool]]
    """Their ids, and whether each is one of the newer protocol."""
    findings: list[Finding]
    troubles: list[tuple[int, str, str]]
    """What could not be read: offset, `unreadable` or `torn`, and why."""
    skipped: dict[str, int]
    """How many records no promise is about, by what they are about: `share group`, `streams group`, `unknown`."""


def promised(parts: list[Part], tell: Callable[[Part], None] = lambda _: None) -> Promised:
    """Fold the parts of one partition, in their order. `tell` hears of each part that was read."""
    first = parts[0]
    folding = _rota.AuditFold(first.source == JOURNAL, True)
    for part in parts:
        try:
            folding.read(opened(part))
        except OSError as error:
            folding.unreadable(part.first_offset, str(error))
        tell(part)
    folding.end()
    rows, compacted, troubles, skipped = folding.tally()
    groups, findings = sorted(folding.groups()), [Finding(*found) for found in folding.take()]
    place = (first.source, first.log, first.partition, rows, compacted)
    return Promised(*place, groups, findings, troubles, skipped)


def found_in(*paths: Path) -> Iterator[tuple[str, int, Finding]]:
    """What is found in the logs at these paths, with the log and the partition, and where their replay differs."""
    for parts in partitions_in(parts_of(list(paths))):
        of_partition = promised(parts)
        for finding in of_partition.findings:
            yield of_partition.log, of_partition.partition, finding
        for index in range(len(parts) if parts[0].source == JOURNAL else 0):
            for offset, *difference in fold(parts[index:]).differences:
                said = said_of(*difference)  # type: ignore[arg-type]  # the rest of a tuple is a list
                yield parts[0].log, parts[0].partition, Finding("replay", None, None, offset, offset, None, [], said)
