"""Which transcript shows which row of docs/rows.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from rota.transcript.runner import VECTORS, consumer_transcripts, transcripts
from rota.transcript.text import parse

ROWS = Path(__file__).parent.parent.parent / "docs" / "rows.toml"


def table() -> dict[str, dict[str, Any]]:
    """Every row of docs/rows.toml."""
    tables = tomllib.loads(ROWS.read_text(encoding="utf-8")).values()
    return {row: entry for rows in tables for row, entry in rows.items()}


def shown() -> dict[str, list[str]]:
    """Row -> the transcripts whose header names it."""
    found: dict[str, list[str]] = {}
    for path in transcripts():
        for row in parse(path).rows:
            found.setdefault(row, []).append(path.relative_to(VECTORS).as_posix())
    return found


def uncovered_rows() -> list[str]:
    """Rows that should be shown now and are not, neither by a transcript nor by another test."""
    files = shown()
    due = [row for row, entry in table().items() if "later" not in entry and not entry.get("tests")]
    named = {row for path in consumer_transcripts() for row in parse(path).rows}
    return [row for row in due if row not in files and row not in named]
