"""The other auditor: journals folded through the coordinator itself, part by part, inside Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from rota import _rota
from rota.audit.logs import JOURNAL, Part


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
    difference: tuple[int, int, str, str, str, str] | None
    """Offset, sequence, what differs, the event, what the journal has, what the coordinator does."""
    damage: str | None


def fold(parts: list[Part]) -> Fold:
    """Fold what belongs to the first of these parts of one partition."""
    first = parts[0]
    ranges = [(Path(part.path), part.start, part.end) for part in parts]
    try:
        tally, difference, damage = _rota.audit_replay(ranges, first.is_first)
    except OSError as error:
        tally, difference, damage = (0, 0, 0, 0, 0, 0), None, str(error)
    return Fold(first.log, first.partition, *tally, difference, damage)


def _folds(chunks: Iterable[list[Part]]) -> Iterable[Fold]:
    return map(fold, chunks)


def chunks_of(parts: list[Part]) -> list[list[Part]]:
    """For each part of a journal that part and those after it in its partition, as far as they can be read."""
    of_partition: dict[tuple[str, int], list[Part]] = {}
    for part in parts:
        if part.source == JOURNAL and part.trouble is None:
            of_partition.setdefault((part.log, part.partition), []).append(part)
    return [found[index:] for found in of_partition.values() for index in range(len(found))]


def replay(spark: SparkSession, parts: list[Part]) -> list[Fold]:
    """Fold the journals among these parts. Each entry is folded once, where it lies; nothing is shuffled."""
    chunks = chunks_of(parts)
    if not chunks:
        return []
    folded: list[Fold] = spark.sparkContext.parallelize(chunks, len(chunks)).mapPartitions(_folds).collect()
    return folded
