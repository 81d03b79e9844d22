"""Rows of the table: a goal, what was measured beside what, and the ratio."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rota.bench.alone import Way
from rota.bench.figures import Figure, count, duration, ratio, table

HEAD = ("goal", "what", "rota", "beside", "its figure", "ratio (spread)", "wanted", "", "operations")


@dataclass(frozen=True)
class Wanted:
    """What a ratio has to be."""

    limit: float
    at_least: bool = True

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"

    def is_met(self, value: float) -> bool:
        """Whether that is enough, or little enough."""
        return value >= self.limit if self.at_least else value <= self.limit


def at_least(limit: float) -> Wanted:
    """A ratio that should be great."""
    return Wanted(limit)


def at_most(limit: float) -> Wanted:
    """A ratio that should be small."""
    return Wanted(limit, at_least=False)


@dataclass(frozen=True)
class Row:
    """One line. Without a ratio, `note` says why there is none."""

    goal: str
    what: str
    beside: str
    ours: str = ""
    theirs: str = ""
    ratio: Figure | None = None
    wanted: Wanted | None = None
    operations: str = ""
    note: str = ""
    is_of_runs: bool = False
    """Whether each round of the ratio is a whole run."""

    @property
    def verdict(self) -> str:
        """`met`, `not met`, `met in 2 of 3` runs, or `` if nothing was wanted or measured."""
        if self.ratio is None or self.wanted is None:
            return ""
        each = self.ratio.rounds if self.is_of_runs else (self.ratio.median,)
        met = sum(map(self.wanted.is_met, each))
        if 0 < met < len(each):
            return f"met in {met} of {len(each)}"
        return "met" if met else "not met"

    def same_as(self, other: Row) -> bool:
        """Whether this is the same line of another run."""
        return (self.goal, self.what, self.beside) == (other.goal, other.what, other.beside)

    def cells(self) -> list[str]:
        """As the table has it."""
        measured = self.note if self.ratio is None else ratio(self.ratio)
        wanted = "" if self.wanted is None else str(self.wanted)
        return [
            self.goal,
            self.what,
            self.ours,
            self.beside,
            self.theirs,
            measured,
            wanted,
            self.verdict,
            self.operations,
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything, with all rounds."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("ratio", "wanted")},
            "ratio": None if self.ratio is None else self.ratio.to_json(),
            "wanted": None if self.wanted is None else str(self.wanted),
            "verdict": self.verdict,
        }


def faster(goal: str, what: str, ours: Way, theirs: Way, wanted: Wanted | None) -> Row:
    """How many times as long the other takes for one operation."""
    return Row(
        goal,
        what,
        theirs.what,
        ours=duration(ours.each_s.median),
        theirs=duration(theirs.each_s.median),
        ratio=theirs.each_s.over(ours.each_s),
        wanted=wanted,
        operations=f"{count(ours.times)} / {count(theirs.times)}",
    )


def text(rows: Sequence[Row]) -> str:
    """For a terminal."""
    return table(HEAD, [row.cells() for row in rows])


def markdown(rows: Sequence[Row]) -> str:
    """For a page."""
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def as_json(machine: str, rows: Sequence[Row]) -> str:
    """For programs."""
    return json.dumps({"machine": machine, "rows": [row.to_json() for row in rows]}, indent=2)
