"""Several runs as one table: whether a goal is met is a matter of luck if it is met in one run and not in the next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benches.ratios.row import Row, Wanted
from rota.bench.figures import figure

MARKS = {">=": True, "<=": False}


def read(path: Path) -> tuple[str, list[Row]]:
    """The machine and the rows of a run, as `--json` prints them. Raises ValueError if that is something else."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return held["machine"], [_row(each) for each in held["rows"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: this is no run of `--json`: {error!r}") from error


def _row(held: dict[str, Any]) -> Row:
    fields = {name: value for name, value in held.items() if name not in {"ratio", "wanted", "verdict"}}
    ratio, wanted = held["ratio"], held["wanted"]
    return Row(
        **fields,
        ratio=None if ratio is None else figure(ratio["rounds"]),
        wanted=None if wanted is None else _wanted(wanted),
    )


def _wanted(held: str) -> Wanted:
    mark, limit = held.split()
    return Wanted(float(limit), at_least=MARKS[mark])


def together(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """One row for each that the first run has. Its figures are those of the run with the middle ratio. Its ratio has
    one round for each run: the median of that run.
    """
    return [_middle([row for rows in runs for row in rows if row.same_as(first)]) for first in runs[0]]


def _middle(rows: Sequence[Row]) -> Row:
    measured = sorted((row.ratio.median, at, row) for at, row in enumerate(rows) if row.ratio is not None)
    if not measured:
        return rows[0]
    _, _, row = measured[(len(measured) - 1) // 2]
    return replace(row, ratio=figure([median for median, _, _ in measured]), is_of_runs=True)
