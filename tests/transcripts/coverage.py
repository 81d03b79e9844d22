"""Which transcript shows which row."""

from __future__ import annotations

from .runner import VECTORS, transcripts
from .text import parse

WANTED = VECTORS / "rows.txt"


def rows() -> dict[str, list[str]]:
    """Row id -> transcripts that name it, for every row in rows.txt and every row that a transcript names."""
    found: dict[str, list[str]] = {row: [] for row in wanted_rows()}
    for path in transcripts():
        for row in parse(path).rows:
            found.setdefault(row, []).append(str(path.relative_to(VECTORS.parent)))
    return found


def wanted_rows() -> list[str]:
    """The rows that must have a transcript: the first word of each line of rows.txt."""
    lines = [line.strip() for line in WANTED.read_text().splitlines()]
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def uncovered_rows() -> list[str]:
    """Rows that nobody shows."""
    return [row for row, files in rows().items() if not files]
