"""Records that a write-ahead file has and the segments have not: what a loss of power leaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rota
from harness import peer
from harness.raw import NONE, Connection
from rota import _rota
from rota.audit.logs import JOURNAL, OFFSETS_TOPIC, Part, parts_of
from rota.audit.rows import rows_of
from rota.cli import app
from rota.journal import JOURNAL_DIRECTORY, JOURNAL_TOPIC
from tests.clients.eventually import eventually

SETTINGS = {"offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0}
COMMITS = 20
WITHIN_S = 30

Row = dict[str, Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the data directory of a server that runs: what is there if it is killed now."""
    place = tmp_path_factory.mktemp("ahead")
    with rota.Server(data=place / "data", settings=SETTINGS) as server:
        server.create_topic("orders", 1)
        with Connection((server.host, server.port)) as connection:
            for number in range(COMMITS):
                for group in ("group-0", "group-1"):
                    assert peer.committed(connection.ask(peer.commit(group, {0: number}))) == {NONE}
        return Path(shutil.copytree(place / "data", place / "killed"))


@pytest.fixture
def killed(running: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(running, tmp_path / "data"))


def rows(parts: list[Part]) -> list[Row]:
    return [row for part in parts for batch in rows_of(part) for row in batch.to_pylist()]


def commits(found: list[Row]) -> list[tuple[int, int, str, int]]:
    return [(row["partition"], row["offset"], row["group"], row["committed"]) for row in found]


def in_directory(directory: Path, found: list[Row]) -> list[Row]:
    """The same rows, of a directory at another place."""
    return [row | {"log": str(directory)} for row in found]


def segments(directory: Path) -> list[Path]:
    found = sorted(directory.glob("__consumer_offsets-*/*.log"))
    assert len(found) == 2
    return found


def batch_ends(segment: Path) -> list[int]:
    """Where its batches end."""
    content, ends = segment.read_bytes(), [0]
    while ends[-1] < len(content):
        ends.append(ends[-1] + 12 + int.from_bytes(content[ends[-1] + 8 : ends[-1] + 12], "big"))
    return ends[1:]


def test_what_segments_have_is_not_read_again_from_the_write_ahead_file(running: Path) -> None:
    parts = parts_of([running])
    assert {Path(part.path).suffix for part in parts} == {".log"}
    found = rows(parts)
    assert {row["kind"] for row in found} == {"offset"}
    assert sorted(committed for *_, committed in commits(found)) == sorted(2 * [*range(COMMITS)])


@pytest.mark.parametrize(
    ("kept", "torn_bytes"), [(COMMITS // 2, 0), (COMMITS // 2, 30), (COMMITS // 2, 100), (0, 0), (0, 7)]
)
def test_what_segments_lack_is_read_from_the_write_ahead_file(
    running: Path, killed: Path, kept: int, torn_bytes: int
) -> None:
    whole = in_directory(killed, rows(parts_of([running])))
    for segment in segments(killed):
        end = [0, *batch_ends(segment)][kept]
        segment.write_bytes(segment.read_bytes()[: end + torn_bytes])
    parts = parts_of([killed])
    assert any(part.pieces for part in parts)
    assert rows(parts) == whole
    small = parts_of([killed], part_bytes=500)
    assert len(small) > len(parts)
    assert rows(small) == whole
    one = next(segment.parent for segment in segments(killed))
    assert rows(parts_of([one])) == [row for row in whole if row["partition"] == int(one.name[-1])]


def test_a_partition_without_a_directory_is_read_from_the_write_ahead_file(running: Path, killed: Path) -> None:
    whole = in_directory(killed, rows(parts_of([running])))
    for segment in segments(killed):
        shutil.rmtree(segment.parent)
    assert rows(parts_of([killed])) == whole


def test_a_frame_that_was_being_written_is_left_out(killed: Path) -> None:
    (ahead,) = killed.glob("rota.wal.*")
    shorter = ahead.read_bytes().rstrip(b"\0")[:-1]
    ahead.write_bytes(shorter)
    for segment in segments(killed):
        segment.unlink()
    found = rows(parts_of([killed]))
    assert len(found) == 2 * COMMITS - 1
    assert {row["kind"] for row in found} == {"offset"}


def test_a_damaged_write_ahead_file_is_said_and_segments_are_read(running: Path, killed: Path) -> None:
    (ahead,) = killed.glob("rota.wal.*")
    damaged = bytearray(ahead.read_bytes())
    damaged[60] ^= 0xFF
    ahead.write_bytes(damaged)
    said, *others = rows(parts_of([killed]))
    assert said["kind"] == "unreadable"
    assert "rota.wal." in said["note"]
    assert others == in_directory(killed, rows(parts_of([running])))


def told(*arguments: str | Path) -> Any:
    """What a command prints, as JSON."""
    ended = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


def shortened(killed: Path, kept: int) -> None:
    """Of each segment only so many batches are left, and half of one."""
    for segment in segments(killed):
        end = [0, *batch_ends(segment)][kept]
        segment.write_bytes(segment.read_bytes()[: end + 30])


@pytest.mark.parametrize("kept", [0, COMMITS // 2])
def test_a_state_is_told_from_what_only_the_write_ahead_file_has(running: Path, killed: Path, kept: int) -> None:
    shortened(killed, kept)
    for group in ("group-0", "group-1"):
        state = told("state", group, "--from", killed)
        assert state["offsets"] == {"orders-0": COMMITS - 1}
        assert state == told("state", group, "--from", running)


def test_a_state_is_not_told_from_a_damaged_write_ahead_file(killed: Path) -> None:
    (ahead,) = killed.glob("rota.wal.*")
    damaged = bytearray(ahead.read_bytes())
    damaged[60] ^= 0xFF
    ahead.write_bytes(damaged)
    ended = CliRunner().invoke(app, ["state", "group-0", "--from", str(killed)])
    assert (ended.exit_code, "rota.wal." in ended.stderr) == (1, True), ended.stderr


def test_faults_are_planted_into_what_only_the_write_ahead_file_has(
    running: Path, killed: Path, tmp_path: Path
) -> None:
    whole = rows(parts_of([running]))
    shortened(killed, COMMITS // 2)
    ended = CliRunner().invoke(app, ["plant", str(killed), str(tmp_path / "planted")])
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].endswith(": offset went back")
    found = rows(parts_of([tmp_path / "planted"]))
    assert {row["committed"] for row in found} == {row["committed"] for row in whole}
    assert len(found) >= len(whole)


@pytest.mark.parametrize("number", [0, 7])
def test_nothing_is_planted_into_what_cannot_be_read(number: int, killed: Path, tmp_path: Path) -> None:
    for ahead in killed.glob("rota.wal.*"):
        ahead.unlink()  # it has what is damaged here
    segment = segments(killed)[0]
    content = bytearray(segment.read_bytes())
    content[[0, *batch_ends(segment)][number] + 70] ^= 0xFF
    segment.write_bytes(content)
    ended = CliRunner().invoke(app, ["plant", str(killed), str(tmp_path / "planted")])
    assert (ended.exit_code, segment.name in ended.stderr) == (2, True), ended.stderr
    assert not (tmp_path / "planted").exists()


def test_a_journal_has_no_write_ahead_file(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data", journal=True, settings=SETTINGS) as server:
        server.create_topic("orders", 1)
        with Connection((server.host, server.port)) as connection:
            assert peer.committed(connection.ask(peer.commit("group-0", {0: 1}))) == {NONE}

        def is_written() -> bool:
            return bool(rows([part for part in parts_of([tmp_path / "data"]) if part.source == JOURNAL]))

        eventually(is_written, WITHIN_S, "the journal is written")
        assert _rota.audit_ahead(tmp_path / "data", OFFSETS_TOPIC)
        assert _rota.audit_ahead(tmp_path / "data" / JOURNAL_DIRECTORY, JOURNAL_TOPIC) == []
