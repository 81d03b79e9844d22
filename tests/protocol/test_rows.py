"""`docs/rows.toml` says which transcript shows which row of the conformance table; here it is compared with the files.

`python -m tests.protocol.test_rows` writes the transcripts into the table, from the `rows` line in the header of each.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.checks.tidy import ROOT, sections_of

TABLE = ROOT / "docs/rows.toml"
NEWER = "docs/consumer-protocol.md"
VECTORS = ROOT / "python/rota/conform/vectors"
SECTIONS = sections_of((ROOT / "docs/protocol.md").read_text(encoding="utf-8"))


PAGES = {"docs/protocol.md": SECTIONS, NEWER: sections_of((ROOT / NEWER).read_text(encoding="utf-8"))}


def rows_of(table: str) -> dict[str, dict[str, Any]]:
    """Every line of the table, by row."""
    return {row: entry for part in tomllib.loads(table).values() for row, entry in part.items()}


def header(path: Path) -> dict[str, list[str]]:
    """What a transcript says of itself before its first section: `rows J25`, `doc 4.8 4.9`."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("---"):
            break
        key, *words = line.split() or [""]
        found.setdefault(key, []).extend(words)
    return found


CONSUMER_VECTORS = ROOT / "python/rota/conform/consumer_vectors"
HEADERS = {path.relative_to(VECTORS).as_posix(): header(path) for path in sorted(VECTORS.rglob("*.txt"))}
CONSUMER_HEADERS = {path.name: header(path) for path in sorted(CONSUMER_VECTORS.glob("*.txt"))}
ROWS = rows_of(TABLE.read_text(encoding="utf-8"))


def complaints(row: str, entry: dict[str, Any], headers: dict[str, dict[str, list[str]]]) -> list[str]:
    """What is wrong with one line of the table."""
    found = []
    page = entry.get("page", "docs/protocol.md")
    if entry.get("section") not in PAGES[page]:
        found.append(f"{row}: {page} has no section {entry.get('section')!r}")
    if not entry.get("says"):
        found.append(f"{row} says nothing")
    transcripts, tests = entry.get("transcripts", []), entry.get("tests", [])
    if "later" in entry:
        if not entry["later"] or "status" in entry or transcripts:
            found.append(f"{row} is for later, and so has no status and no transcripts")
        early = [name for name, words in headers.items() if row in words.get("rows", [])]
        found += [f"{row} is for later, but {name} names it" for name in early]
    elif entry.get("status") != "covered":
        found.append(f"{row} is neither covered nor for later")
    elif not transcripts and not tests:
        found.append(f"{row} is covered by nothing")
    headers = headers if page != NEWER else CONSUMER_HEADERS
    for name in transcripts:
        if name not in headers:
            found.append(f"{row}: no such transcript: {name}")
        elif row not in headers[name].get("rows", []):
            found.append(f"{row}: {name} does not name it")
    found += [f"{row}: no such test: {name}" for name in tests if not (ROOT / name).is_file()]
    return found


def rewritten(table: str, headers: dict[str, dict[str, list[str]]]) -> str:
    """The table with the transcripts that name each row; rows for later are left alone."""
    named: dict[str, list[str]] = {}
    for name, words in headers.items():
        for row in words.get("rows", []):
            named.setdefault(row, []).append(name)

    def line(match: re.Match[str]) -> str:
        if match[1] not in named:
            return match[0]
        listed = ", ".join(f'"{name}"' for name in named[match[1]])
        return re.sub(r"transcripts = \[[^\]]*\]", lambda _: f"transcripts = [{listed}]", match[0])

    return re.sub(r"^([A-Z0-9-]+) = \{.*$", line, table, flags=re.MULTILINE)


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_covered_or_for_later(row: str) -> None:
    assert not complaints(row, ROWS[row], HEADERS)


@pytest.mark.parametrize("name", HEADERS)
def test_each_transcript_names_rows_and_sections_that_exist(name: str) -> None:
    assert set(HEADERS[name].get("rows", [])) <= set(ROWS)
    assert set(HEADERS[name].get("doc", [])) <= SECTIONS


@pytest.mark.parametrize("name", CONSUMER_HEADERS)
def test_each_transcript_of_the_newer_protocol_names_rows_and_sections_that_exist(name: str) -> None:
    assert set(CONSUMER_HEADERS[name]["rows"]) <= {row for row, entry in ROWS.items() if entry.get("page") == NEWER}
    assert set(CONSUMER_HEADERS[name]["doc"]) <= PAGES[NEWER]


def test_the_table_is_as_the_transcripts_say() -> None:
    table = TABLE.read_text(encoding="utf-8")
    assert rewritten(table, HEADERS | CONSUMER_HEADERS) == table, "run `python -m tests.protocol.test_rows`"


def test_the_table_lists_every_trap() -> None:
    assert [row for row in ROWS if row.startswith("TRAP-")] == [f"TRAP-{number:02}" for number in range(1, 21)]


def unshown(departures: str) -> list[str]:
    """The departures that name no transcript and do not say why not."""
    sections = re.findall(r"^## (D\d+) (.*?)(?=^## |\Z)", departures, re.MULTILINE | re.DOTALL)
    shown = r"\*\*Transcript\*\*: (`python/rota/conform/(?:consumer_)?vectors/|later, with |none; )"
    return [departure for departure, text in sections if not re.search(shown, text)]


def test_every_departure_has_a_transcript_or_says_why_not() -> None:
    assert not unshown((ROOT / "docs/departures.md").read_text(encoding="utf-8"))


def test_a_planted_departure_without_a_transcript_is_found() -> None:
    assert unshown("## D1 x\n**Transcript**: none; why\n## D2 y\n**Transcript**: to be named.\n") == ["D2"]


GOOD = {"a/b.txt": {"rows": ["X01", "X02"], "doc": ["4"]}}


@pytest.mark.parametrize(
    "planted",
    [
        {"says": "x", "section": "4", "status": "covered", "transcripts": []},
        {"says": "x", "section": "4", "status": "covered", "transcripts": ["nowhere.txt"]},
        {"says": "x", "section": "4", "status": "covered", "tests": ["tests/nowhere.py"]},
        {"says": "x", "section": "99", "tests": ["tests/protocol/test_rows.py"], "status": "covered"},
        {"says": "", "section": "4", "tests": ["tests/protocol/test_rows.py"], "status": "covered"},
        {"says": "x", "section": "4", "later": ""},
        {"says": "x", "section": "4", "later": "retention", "status": "covered"},
        {"says": "x", "section": "4"},
    ],
)
def test_a_planted_bad_row_is_found(planted: dict[str, Any]) -> None:
    assert complaints("X01", planted, GOOD)


def test_a_transcript_that_does_not_name_its_row_is_found() -> None:
    line = {"says": "x", "section": "4", "status": "covered", "transcripts": ["a/b.txt"]}
    assert complaints("X03", line, GOOD)
    assert not complaints("X02", line, GOOD)


def test_a_transcript_of_a_row_for_later_is_found() -> None:
    assert complaints("X01", {"says": "x", "section": "4", "later": "retention"}, GOOD)
    assert not complaints("X03", {"says": "x", "section": "4", "later": "retention"}, GOOD)


def test_the_transcripts_are_written_into_the_table() -> None:
    table = 'X01 = { says = "x", section = "4", status = "covered", transcripts = ["old.txt"] }\n'
    other = 'X02 = { says = "y", section = "4", later = "z" }\n'
    assert rewritten(table + other, GOOD) == table.replace("old.txt", "a/b.txt") + other


if __name__ == "__main__":
    TABLE.write_text(rewritten(TABLE.read_text(encoding="utf-8"), HEADERS | CONSUMER_HEADERS), encoding="utf-8")
