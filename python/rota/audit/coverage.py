"""What an audit could decide: for each log and each invariant what decided it, or why nothing could."""

from __future__ import annotations

from typing import NamedTuple

from rota.audit.folds import Fold
from rota.audit.logs import JOURNAL, UNREADABLE
from rota.audit.matrix import BOTH, MATRIX, NEEDS_ALL_RECORDS, OF_NEWER, QUERIED, REPLAYED, UNKNOWN, WHY_UNKNOWN
from rota.audit.promises import Promised
from rota.why.words import counted

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


class _Counts:
    """What is counted of a log."""

    def __init__(self) -> None:
        self.missing = self.unread = self.newer = 0

    def add(self, one: Promised) -> None:
        """One of its partitions."""
        self.missing += one.compacted
        # The end that a crash left had no record that counts.
        self.unread += sum(kind == UNREADABLE for _, kind, _ in one.troubles)
        self.newer += sum(is_newer for _, is_newer in one.groups)


def _line(source: str, log: str, identifier: str, counts: _Counts, unfolded: bool) -> Line:
    decided = MATRIX[identifier][0 if source == JOURNAL else 1]
    why = WHY_UNKNOWN.get(identifier, "" if decided != UNKNOWN else NOT_IN_LOG)
    if source != JOURNAL and counts.missing and identifier in NEEDS_ALL_RECORDS:
        decided = UNKNOWN
        why = f"unknown: compacted ({counts.missing} records are gone; what is left was checked)"
    elif source != JOURNAL and counts.newer and decided != UNKNOWN and identifier not in OF_NEWER:
        why = f"unknown of {counts.newer} groups of the newer consumer protocol"
    if counts.unread and decided != UNKNOWN:
        said = f"{counted(counts.unread, 'place')} could not be read; what is left was checked"
        if identifier in NEEDS_ALL_RECORDS:
            decided, why = UNKNOWN, f"unknown: {said}"
        else:
            why = "; ".join(filter(None, [why, said]))
    if source == JOURNAL and unfolded and decided in {REPLAYED, BOTH}:
        decided = QUERIED if decided == BOTH else UNKNOWN
        why = "part of the journal is missing or could not be folded"
    return Line(source, log, identifier, decided, why)


def lines(partitions: list[Promised], folds: list[Fold]) -> list[Line]:
    """One for each log and invariant."""
    logs: dict[tuple[str, str], _Counts] = {}
    for each in partitions:
        logs.setdefault((each.source, each.log), _Counts()).add(each)
    troubled = {fold.log for fold in folds if fold.damage or fold.missing or fold.unchecked or fold.differences}
    return [
        _line(source, log, identifier, counts, log in troubled)
        for (source, log), counts in sorted(logs.items(), key=lambda of_log: of_log[0])
        for identifier in MATRIX
    ]
