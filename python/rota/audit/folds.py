"""The other auditor: journals folded through the coordinator itself, part by part, inside Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rota import _rota
from rota.audit.logs import JOURNAL, Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


CAUSES = (
    "log string, `group` string, offset bigint, generation int, cause string, member string, reason string,"
    " began_ms bigint"
)


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


def _without_causes(folded: Fold) -> Fold:
    return folded._replace(causes=[])


def _causes(folded: Fold) -> list[Cause]:
    return folded.causes


def journals_in(parts: list[Part]) -> list[list[Part]]:
    """The parts of each partition of a journal, as far as they can be read."""
    of_partition: dict[tuple[str, int], list[Part]] = {}
    for part in parts:
        if part.source == JOURNAL and part.trouble is None:
            of_partition.setdefault((part.log, part.partition), []).append(part)
    return list(of_partition.values())


def replay(
    spark: SparkSession, parts: list[Part], causes_to: Path | None = None, in_driver: bool = False
) -> list[Fold]:
    """Fold the journals among these parts. Each entry is folded once, where it lies; nothing is shuffled.

    The causes of generations go to a directory as Parquet, if they are wanted; they are not among what is returned.
    """
    from pyspark import StorageLevel

    journals = journals_in(parts)
    if in_driver:
        all_folds = [fold(journal[index:]) for journal in journals for index in range(len(journal))]
        if causes_to is not None:
            told = [cause for each in all_folds for cause in each.causes]
            spark.createDataFrame(told, CAUSES).coalesce(1).write.mode("overwrite").parquet(str(causes_to))
        return list(map(_without_causes, all_folds))
    shared = spark.sparkContext.broadcast(journals)
    starts = [(number, index) for number, journal in enumerate(journals) for index in range(len(journal))]

    def fold_from(start: tuple[int, int]) -> Fold:
        number, index = start
        return fold(shared.value[number][index:])

    folded = spark.sparkContext.parallelize(starts, max(1, len(starts))).map(fold_from)
    if causes_to is not None:
        folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    found: list[Fold] = folded.map(_without_causes).collect()
    if causes_to is not None:
        causes = spark.createDataFrame(folded.flatMap(_causes), CAUSES)
        causes.coalesce(1).write.mode("overwrite").parquet(str(causes_to))
        folded.unpersist()
    return found
