"""Figures with their spread, and ratios of what was measured in turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One figure of each round. Rounds take turns, so the n-th of two figures were measured side by side."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one of the rounds."""
        return statistics.median(self.rounds)

    def over(self, other: Figure) -> Figure:
        """The ratio of each round."""
        return Figure(tuple(mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True)))

    def to_json(self) -> dict[str, float | list[float]]:
        """Median, extremes and all rounds."""
        return {
            "median": self.median,
            "least": min(self.rounds),
            "greatest": max(self.rounds),
            "rounds": list(self.rounds),
        }


def figure(rounds: Sequence[float]) -> Figure:
    """Of at least one round."""
    return Figure(tuple(rounds))


# From here on a thousand of a unit is written as one of the next.
ROUNDS_UP = 0.9995


def count(value: float) -> str:
    """A rate or count with three digits that matter: `1,234`, `56.7k`, `8.91M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit * ROUNDS_UP:
            return f"{value / min(limit, 1e3 if unit == 'k' else limit):.3g}{unit}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """A time with three digits that matter: `12.3 ns`, `4.56 us`, `0.789 ms`, `1.2 s`."""
    for limit, unit in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if seconds < limit * ROUNDS_UP:
            return f"{seconds / (limit / 1e3):.3g} {unit}"
    return f"{seconds:.3g} s"


def ratio(value: Figure) -> str:
    """`2.51x (2.40-2.63)`."""
    return f"{value.median:.2f}x ({min(value.rounds):.2f}-{max(value.rounds):.2f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what is in them; the first one to the left, figures to the right."""
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
