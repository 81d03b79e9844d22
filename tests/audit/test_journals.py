"""Journals in which something is missing, or cannot be read: that is said, and it is no violation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import GreaterThanOrEqual
from typer.testing import CliRunner

import rota
from harness import peer
from harness.raw import NONE, Connection
from rota import _rota, journal
from rota.audit.follow.advancing import Remembered, advanced
from rota.audit.follow.growth import Position, parts_from
from rota.audit.follow.query import batch_of
from rota.audit.logs import JOURNAL, PART_BYTES, Part
from rota.audit.promises import Finding
from rota.audit.rows import ARROW_SCHEMA, rows_of
from rota.audit.source import LogReader
from rota.cli import app

SETTINGS = {"offsets.topic.num.partitions": 1}
STARTS, COMMITS = 3, 10

Record = tuple[int, bytes, bytes | None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a server that was started three times; each start begins anew with a whole state."""
    data = tmp_path_factory.mktemp("journals") / "data"
    for start in range(STARTS):
        with rota.Server(data=data, journal=True, settings=SETTINGS) as server:
            if start == 0:
                server.create_topic("orders", 1)
            with Connection((server.host, server.port)) as connection:
                for number in range(COMMITS):
                    asked = peer.commit("group-0", {0: start * COMMITS + number})
                    assert peer.committed(connection.ask(asked)) == {NONE}
    return data / "journal"


@pytest.fixture
def log(whole: Path, tmp_path: Path) -> Path:
    """The directory of its one partition, in a copy with a batch for each entry."""
    (found,) = Path(shutil.copytree(whole, tmp_path / "journal")).glob("__rota_journal-*")
    write(found, [[record] for record in records_in(found)])
    return found


def records_in(log: Path) -> list[Record]:
    return [(0, line.group.encode(), line.value) for line in journal.entries(_rota.DataLog(log.parent), 0)]


def write(log: Path, of_batches: list[list[Record]]) -> None:
    """Let the log have these batches and no others."""
    offset, content = 0, b""
    for records in of_batches:
        content += _rota.write_batch(offset, records)
        offset += len(records)
    segment(log).write_bytes(content)
    for told_of_others in (log.parent / "rota.checkpoint", *log.glob("*index")):
        told_of_others.unlink(missing_ok=True)


def segment(log: Path) -> Path:
    (found,) = log.glob("*.log")
    return found


def batches(log: Path) -> list[Part]:
    return [part for part, _ in parts_from(log, Position(), 1)]


def in_segments(log: Path, *firsts: int) -> list[Path]:
    """The log in segments that begin with these batches."""
    path, parts = segment(log), batches(log)
    content = path.read_bytes()
    path.unlink()
    found = []
    for first, end in zip(firsts, [*firsts[1:], len(parts)], strict=True):
        found.append(path.with_name(f"{parts[first].first_offset:020}.log"))
        found[-1].write_bytes(content[parts[first].start : parts[end - 1].end])
    return found


def audited(log: Path, exit_code: int) -> dict[str, Any]:
    ended = CliRunner().invoke(app, ["audit", str(log.parent), "--json"])
    found: dict[str, Any] = json.loads(ended.stdout)
    assert (ended.exit_code, found["verdicts"]) == (exit_code, [])
    return found


def damage(found: dict[str, Any]) -> list[str]:
    return [fold["damage"] for fold in found["folds"] if fold["damage"] is not None]


def decided(found: dict[str, Any], identifier: str) -> str:
    (line,) = [line for line in found["coverage"] if line["id"] == identifier]
    return str(line["decided"])


def test_what_a_crash_left_at_the_end_is_no_damage(log: Path) -> None:
    path = segment(log)
    path.write_bytes(path.read_bytes()[:-5])
    found = audited(log, 0)
    assert [trouble["kind"] for trouble in found["unreadable"]] == ["torn"]
    assert (damage(found), decided(found, "S5"), decided(found, "S4")) == ([], "replay", "both")


def test_an_entry_of_another_version_is_unreadable_and_no_violation(log: Path) -> None:
    following = batches(log)[-1].next_offset
    with segment(log).open("ab") as file:
        file.write(_rota.write_batch(following, [(0, b"", b"\x02abc")]))
    found = audited(log, 2)
    assert [trouble["offset"] for trouble in found["unreadable"]] == [following]
    assert damage(found)[0].startswith(f"the entry of offset {following}: ")
    assert (decided(found, "S5"), decided(found, "S4")) == ("unknown", "unknown")
    assert [one.name for one in followed(log, Position(), Kept())] == ["unreadable"]


def test_a_state_of_another_version_is_unreadable_and_no_violation(log: Path) -> None:
    """In the middle: the last start is checked again."""
    lines = list(journal.entries(_rota.DataLog(log.parent), 0))
    _, loaded, _ = [at for at, line in enumerate(lines) if "Loaded" in line.fields()["event"]]
    replay = _rota.JournalReplay()
    assert replay.fold(lines[loaded].value) is None
    state = replay.snapshot()
    assert state
    records = records_in(log)
    records[loaded] = (0, b"", lines[loaded].value.replace(state, bytes([state[0] + 1]) + state[1:]))
    write(log, [records])
    found = audited(log, 2)
    assert [trouble["offset"] for trouble in found["unreadable"]] == [loaded]
    assert len(damage(found)) == 1
    assert sum(fold["compared"] for fold in found["folds"]) > 2 * COMMITS
    assert [one.name for one in followed(log, Position(), Kept())] == ["unreadable"]


def test_a_segment_that_cannot_be_opened_is_no_violation(log: Path) -> None:
    third = len(batches(log)) // 3
    _, path, _ = in_segments(log, 0, third, 2 * third)
    due = int(path.stem)
    path.unlink()
    path.mkdir()
    found = audited(log, 2)
    assert [(one["log"], one["offset"]) for one in found["unreadable"]] == [(str(log.parent), due)]
    assert "are missing" in damage(found)[0]


def test_a_segment_that_is_gone_is_no_violation(log: Path) -> None:
    third = len(batches(log)) // 3
    _, path, _ = in_segments(log, 0, third, 2 * third)
    path.unlink()
    found = audited(log, 0)
    assert damage(found)[0].startswith(f"the entries of offsets {int(path.stem)} to ")
    assert decided(found, "S5") == "unknown"


def test_a_journal_is_not_chosen_by_the_time_of_its_batches(log: Path) -> None:
    """The rows have the coordinator's time."""
    write(log, [records_in(log)])
    reader = LogReader([log.parent], PART_BYTES)
    assert list(reader.pushFilters([GreaterThanOrEqual(("at_ms",), 1)]))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert {"request", "append", "appended"} <= {row["kind"] for row in rows}


# ---- following


class Kept:
    """State between two batches, as a checkpoint keeps it."""

    def __init__(self) -> None:
        self.partition = Remembered()
        self.groups: dict[str, bytes] = {}

    def fold(self, part: Part) -> list[Finding]:
        table = pa.Table.from_batches(list(rows_of(part, has_entries=True)), ARROW_SCHEMA)
        rows = batch_of(tuple(row.values()) for row in table.to_pylist())
        found, self.partition, groups, _ = advanced(JOURNAL, self.partition, self.groups.get, rows)
        self.groups |= groups
        return found


def followed(log: Path, start: Position, kept: Kept) -> list[Finding]:
    return [found for part, _ in parts_from(log, start, 1) for found in kept.fold(part)]


def test_entries_that_retention_removed_before_they_were_read_are_no_violation(log: Path) -> None:
    """The last segment begins in the middle of the second start."""
    count = len(batches(log))
    first, second, last = in_segments(log, 0, count // 6, count // 2)
    later = [(path, path.read_bytes()) for path in (second, last)]
    second.unlink()
    last.unlink()
    kept = Kept()
    assert followed(log, Position(), kept) == []
    *_, (_, reached) = parts_from(log, Position(), 1)
    for path, content in later[1:]:
        path.write_bytes(content)
    first.unlink()
    assert followed(log, reached, kept) == []
    # The replay goes on with the last start.
    assert kept.partition.coordinator
