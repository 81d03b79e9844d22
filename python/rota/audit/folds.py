"""The other auditor: journals folded through the coordinator itself, part by part."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rota import _rota
from rota.audit.logs import Part

SHOWN = 160
"""Characters of each side of a difference in a verdict; the command beside it has all."""


class Cause(NamedTuple):
    """Why a group came to a generation: what the coordinator says of it."""

    log: str
    group: str
    offset: int
    """Of the entry that completed the join phase."""
    generation: int | None
    cause: str
    member: str
    """The member that caused the event, or ""."""
    reason: str
    """What the client said about it."""
    began_ms: int
    """Wall milliseconds."""


def said_of(sequence: int, what: str, event: str, journal: str, coordinator: str) -> str:
    """A difference in words, a few lines."""
    theirs, ours = apart(journal, coordinator)
    return f"entry {sequence}: the {what} differ\nevent    {clipped(event)}\njournal  {theirs}\nreplayed {ours}"


def clipped(text: str, start: int = 0) -> str:
    """At most `SHOWN` characters from `start` on, and where something is left out."""
    end = start + SHOWN
    return ("… " if start else "") + text[start:end] + (" …" if end < len(text) else "")


def apart(one: str, other: str) -> tuple[str, str]:
    """Two texts from shortly before where they begin to differ."""
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    start = 0 if same < SHOWN // 2 else same - SHOWN // 4
    return clipped(one, start), clipped(other, start)


class Fold(NamedTuple):
    """What came of one part of a journal: from one whole state to the next."""

    log: str
    partition: int
    entries: int
    compared: int
    snapshots: int
    missing: int
    unchecked: int
    cut: int
    differences: list[tuple[int, int, str, str, str, str]]
    """The first behind each whole state: offset, sequence, what differs, the event, what the journal has, what the
    coordinator does."""
    causes: list[Cause]
    damage: str | None


def fold(parts: list[Part]) -> Fold:
    """Fold what belongs to the first of these parts of one partition."""
    first = parts[0]
    ranges = [(Path(part.path), part.start, part.end) for part in parts]
    try:
        counts, differences, causes, damage = _rota.audit_replay(ranges, first.is_first)
    except OSError as error:
        return Fold(first.log, first.partition, 0, 0, 0, 0, 0, 0, [], [], str(error))
    told = [Cause(first.log, *cause) for cause in causes]
    return Fold(first.log, first.partition, *counts, differences, told, damage)


def readable(parts: list[Part]) -> list[Part]:
    """The parts of a partition that can be read: no unreadable file, and not what a crash left at the end."""
    return [part for part in parts if part.trouble is None and not (part.is_newest and not part.records)]
