"""`docs/rows.toml` says which transcript shows which row of the conformance table; here it is held to the files."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.tidy import ROOT, sections_of

ROWS: dict[str, dict[str, Any]] = {
    row: entry
    for table in tomllib.loads((ROOT / "docs/rows.toml").read_text(encoding="utf-8")).values()
    for row, entry in table.items()
}
VECTORS = ROOT / "tests/vectors"
SECTIONS = sections_of((ROOT / "docs/protocol.md").read_text(encoding="utf-8"))


def complaints(row: str, entry: dict[str, Any], vectors: Path = VECTORS) -> list[str]:
    """What is wrong with one line of the table."""
    found = []
    if entry.get("section") not in SECTIONS:
        found.append(f"{row}: docs/protocol.md has no section {entry.get('section')!r}")
    if not entry.get("says"):
        found.append(f"{row} says nothing")
    transcripts, tests = entry.get("transcripts", []), entry.get("tests", [])
    if "later" in entry:
        if not entry["later"] or "status" in entry or transcripts:
            found.append(f"{row} is for later, and so has no status and no transcripts")
    elif entry.get("status") != "covered":
        found.append(f"{row} is neither covered nor for later")
    elif not transcripts and not tests:
        found.append(f"{row} is covered by nothing")
    found += [f"{row}: no such transcript: {name}" for name in transcripts if not (vectors / name).is_file()]
    found += [f"{row}: no such test: {name}" for name in tests if not (ROOT / name).is_file()]
    return found


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_covered_or_for_later(row: str) -> None:
    assert not complaints(row, ROWS[row])


def test_the_table_lists_every_trap() -> None:
    assert [row for row in ROWS if row.startswith("TRAP-")] == [f"TRAP-{number:02}" for number in range(1, 21)]


@pytest.mark.parametrize(
    "planted",
    [
        {"says": "x", "section": "4", "status": "covered", "transcripts": []},
        {"says": "x", "section": "4", "status": "covered", "transcripts": ["nowhere.txt"]},
        {"says": "x", "section": "4", "status": "covered", "tests": ["tests/nowhere.py"]},
        {"says": "x", "section": "99", "later": "retention"},
        {"says": "", "section": "4", "later": "retention"},
        {"says": "x", "section": "4", "later": ""},
        {"says": "x", "section": "4", "later": "retention", "status": "covered"},
        {"says": "x", "section": "4"},
    ],
)
def test_a_planted_bad_row_is_found(planted: dict[str, Any]) -> None:
    assert complaints("X01", planted)


def test_a_good_row_is_left_alone() -> None:
    assert not complaints("X01", {"says": "x", "section": "4.10", "later": "retention"})
    assert not complaints("X01", {"says": "x", "section": "4", "status": "covered", "tests": ["tests/test_rows.py"]})
