"""What an audit could decide: for each log and each invariant what decided it, or why nothing could."""

from __future__ import annotations

from typing import NamedTuple

from rota.audit.folds import Fold
from rota.audit.logs import JOURNAL
from rota.audit.matrix import BOTH, MATRIX, NEEDS_ALL_RECORDS, OF_NEWER, QUERIED, REPLAYED, UNKNOWN, WHY_UNKNOWN
from rota.audit.promises import Promised

NOT_IN_LOG = "the log of groups has no joins, heartbeats or answers"


class Line(NamedTuple):
    """One invariant in one log."""

    source: str
    log: str
    id: str
    decided: str
    """`replay`, `query`, `both` or `unknown`."""
    why: str
    """Of what is unknown, or known in part only; else empty."""


def _line(source: str, log: str, identifier: str, missing: int, newer: int, unfolded: bool) -> Line:
    decided = MATRIX[identifier][0 if source == JOURNAL else 1]
    why = WHY_UNKNOWN.get(identifier, "" if decided != UNKNOWN else NOT_IN_LOG)
    if source != JOURNAL and missing and identifier in NEEDS_ALL_RECORDS:
        decided, why = UNKNOWN, f"unknown: compacted ({missing} records are gone; what is left was checked)"
    elif source != JOURNAL and newer and decided != UNKNOWN and identifier not in OF_NEWER:
        why = f"unknown of {newer} groups of the newer consumer protocol"
    if source == JOURNAL and unfolded and decided in {REPLAYED, BOTH}:
        decided = QUERIED if decided == BOTH else UNKNOWN
        why = "part of the journal is missing or could not be folded"
    return Line(source, log, identifier, decided, why)


def lines(partitions: list[Promised], folds: list[Fold]) -> list[Line]:
    """One for each log and invariant."""
    logs: dict[tuple[str, str], list[int]] = {}
    for each in partitions:
        counts = logs.setdefault((each.source, each.log), [0, 0])
        counts[0] += each.compacted
        counts[1] += sum(is_newer for _, is_newer in each.groups)
    troubled = {fold.log for fold in folds if fold.damage or fold.missing or fold.unchecked or fold.differences}
    return [
        _line(source, log, identifier, missing, newer, log in troubled)
        for (source, log), (missing, newer) in sorted(logs.items())
        for identifier in MATRIX
    ]
