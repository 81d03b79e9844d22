"""Data directories with damage in them: nothing is read twice, nothing is left out without a word."""

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
from rota.audit.follow.growth import Position, parts_from
from rota.audit.logs import Part, parts_of
from rota.cli import app
from tests.audit.test_ahead import batch_ends, rows, told

SETTINGS = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
COMMITS = 20
AHEAD = COMMITS // 2
"""The first commit that the write-ahead file has."""
FORMAT_AT = 16
"""Where in a batch the version of its format is: nothing else than 2 is a header."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the data directory of a server that runs and was started twice, one record for each commit."""
    place = tmp_path_factory.mktemp("damage")
    for first in (0, AHEAD):
        with rota.Server(data=place / "data", settings=SETTINGS) as server:
            if first == 0:
                server.create_topic("orders", 1)
            with Connection((server.host, server.port)) as connection:
                for number in range(first, first + AHEAD):
                    assert peer.committed(connection.ask(peer.commit("group-0", {0: number}))) == {NONE}
            if first:
                shutil.copytree(place / "data", place / "killed")
    return place / "killed"


@pytest.fixture
def killed(running: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(running, tmp_path / "data"))


@pytest.fixture
def segments_only(killed: Path) -> Path:
    """Without its write-ahead file."""
    for ahead in killed.glob("rota.wal.*"):
        ahead.unlink()
    return killed


def segment(directory: Path) -> Path:
    (found,) = directory.glob("__consumer_offsets-0/*.log")
    return found


def batch_starts(path: Path) -> list[int]:
    starts = [0, *batch_ends(path)]
    assert len(starts) == COMMITS + 1
    return starts


def without_header(path: Path, number: int) -> None:
    """The header of a batch is none any more."""
    content = bytearray(path.read_bytes())
    content[batch_starts(path)[number] + FORMAT_AT] ^= 0x55
    path.write_bytes(content)


def split(path: Path, number: int) -> Path:
    """The batches from this one on are a segment of their own."""
    start, content = batch_starts(path)[number], path.read_bytes()
    later = path.with_name(f"{number:020}.log")
    later.write_bytes(content[start:])
    path.write_bytes(content[:start])
    return later


def told_of(found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Kinds and offsets; of a commit the number that was committed, which is its offset."""
    assert all(row["committed"] == row["offset"] for row in found if row["kind"] == "offset")
    return [(row["kind"], row["offset"]) for row in found]


def expected(*damaged: int) -> list[tuple[str, int]]:
    return [("unreadable" if number in damaged else "offset", number) for number in range(COMMITS)]


def followed(directory: Path) -> list[Part]:
    return [part for part, _ in parts_from(directory / "__consumer_offsets-0", Position(), 4 << 20)]


@pytest.mark.parametrize("part_bytes", [16 << 20, 500, 1])
def test_what_lies_behind_a_damaged_header_is_read_once(killed: Path, part_bytes: int) -> None:
    without_header(segment(killed), 5)
    parts = parts_of([killed], part_bytes)
    assert told_of(rows(parts)) == expected(5)
    assert sum(part.records for part in parts) == COMMITS - 1
    assert not any(part.pieces for part in parts)


@pytest.mark.parametrize("number", [5, AHEAD - 1], ids=["middle", "end"])
def test_a_damaged_header_takes_no_offsets_from_the_next_segment(segments_only: Path, number: int) -> None:
    first = segment(segments_only)
    split(first, AHEAD)
    content = bytearray(first.read_bytes())
    content[[0, *batch_ends(first)][number] + FORMAT_AT] ^= 0x55
    first.write_bytes(content)
    assert told_of(rows(parts_of([segments_only]))) == expected(number)
    assert told_of(rows(followed(segments_only))) == expected(number)


def test_following_says_a_damaged_header_in_the_newest_segment(segments_only: Path) -> None:
    without_header(segment(segments_only), 5)
    assert told_of(rows(followed(segments_only))) == expected(5)


def test_following_waits_for_the_rest_of_a_batch(segments_only: Path) -> None:
    path = segment(segments_only)
    path.write_bytes(path.read_bytes()[:-5])
    assert told_of(rows(followed(segments_only))) == expected()[:-1]


def zeroed(path: Path, number: int, skipped: int, *, is_rest: bool) -> None:
    """Zeros in a batch behind so many bytes of it, up to its end or that of the file: what never reached the disk."""
    starts, content = batch_starts(path), bytearray(path.read_bytes())
    start, end = starts[number] + skipped, len(content) if is_rest else starts[number + 1]
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


@pytest.mark.parametrize("number", [AHEAD, 15, COMMITS - 1])
@pytest.mark.parametrize("skipped", [0, 30, 80], ids=["batch", "header", "body"])
@pytest.mark.parametrize("is_rest", [False, True], ids=["one", "rest"])
def test_what_is_damaged_is_read_from_the_write_ahead_file(
    running: Path, killed: Path, number: int, skipped: int, is_rest: bool
) -> None:
    zeroed(segment(killed), number, skipped, is_rest=is_rest)
    for part_bytes in (16 << 20, 500):
        parts = parts_of([killed], part_bytes)
        assert told_of(rows(parts)) == expected()
        assert sum(part.records for part in parts) == COMMITS
    assert told("state", "group-0", "--from", killed) == told("state", "group-0", "--from", running)


def test_what_is_damaged_in_a_segment_before_the_last_is_read_from_the_write_ahead_file(killed: Path) -> None:
    path = segment(killed)
    zeroed(path, 12, 80, is_rest=False)
    split(path, 15)
    assert told_of(rows(parts_of([killed]))) == expected()


def test_damage_that_begins_before_the_write_ahead_file_is_said_up_to_there(killed: Path) -> None:
    zeroed(segment(killed), 8, 0, is_rest=True)
    found = told_of(rows(parts_of([killed])))
    assert found == [row for row in expected(8) if row[1] != 9]


def test_a_write_ahead_file_that_ends_before_the_segments_replaces_nothing(killed: Path) -> None:
    (ahead,) = killed.glob("rota.wal.*")
    content = ahead.read_bytes()
    last = content.rfind(batch_bytes(segment(killed), COMMITS - 1))
    assert last > 0
    ahead.write_bytes(content[:last])
    without_header(segment(killed), 15)
    assert told_of(rows(parts_of([killed]))) == expected(15)


def batch_bytes(path: Path, number: int) -> bytes:
    starts = batch_starts(path)
    return path.read_bytes()[starts[number] : starts[number + 1]]


def test_faults_are_planted_into_a_copy_with_what_the_write_ahead_file_has(killed: Path, tmp_path: Path) -> None:
    zeroed(segment(killed), COMMITS - 1, 80, is_rest=False)
    ended = CliRunner().invoke(app, ["plant", str(killed), str(tmp_path / "planted")])
    assert ended.exit_code == 0, ended.stderr
    found = rows(parts_of([tmp_path / "planted"]))
    assert {row["committed"] for row in found} == set(range(COMMITS))


@pytest.mark.parametrize(("number", "byte", "says"), [(5, 3, "not one of 5 to 20"), (5, 7, "not one of 5 to 20")])
def test_no_state_is_told_from_offsets_out_of_order(
    number: int, byte: int, says: str, segments_only: Path, tmp_path: Path
) -> None:
    path = segment(segments_only)
    content = bytearray(path.read_bytes())
    content[batch_starts(path)[number] + byte] ^= 0x01
    path.write_bytes(content)
    for command in (["state", "group-0", "--from"], ["plant"]):
        target = [str(tmp_path / "planted")] if command == ["plant"] else []
        ended = CliRunner().invoke(app, [*command, str(segments_only), *target])
        assert ended.exit_code in {1, 2}
        assert says in ended.stderr, ended.stderr


def test_segments_that_a_compacted_one_covers_are_gone(segments_only: Path) -> None:
    first = segment(segments_only)
    whole = first.read_bytes()
    split(first, AHEAD)
    first.with_name(f"{COMMITS:020}.log").touch()
    first.with_name(first.name + ".swap").write_bytes(whole)
    assert told_of(rows(parts_of([segments_only]))) == expected()
    assert told_of(rows(followed(segments_only))) == expected()


def coverage(data: Path, exit_code: int) -> dict[str, tuple[str, str]]:
    """What decided each invariant of the log of groups, and what is unknown of it."""
    ended = CliRunner().invoke(app, ["audit", str(data), "--json"])
    assert ended.exit_code == exit_code
    return {line["id"]: (line["decided"], line["why"]) for line in json.loads(ended.stdout)["coverage"]}


def test_what_cannot_be_read_is_not_decided(segments_only: Path) -> None:
    without_header(segment(segments_only), 5)
    found = coverage(segments_only, 2)
    said = "1 place could not be read; what is left was checked"
    assert (found["S4"], found["S3"]) == (("unknown", f"unknown: {said}"), ("query", said))


def test_what_a_crash_left_at_the_end_takes_nothing_from_what_is_decided(segments_only: Path) -> None:
    path = segment(segments_only)
    path.write_bytes(path.read_bytes()[:-5])
    found = coverage(segments_only, 0)
    assert (found["S4"], found["S3"]) == (("query", ""), ("query", ""))


def group_record(generation: int) -> tuple[bytes, bytes | None]:
    record = _rota.GroupRecord("orders", _rota.GroupValue(generation=generation, protocol_type="consumer"))
    return record.key_bytes(), record.value_bytes()


@pytest.mark.parametrize("damage", ["none", "batch", "file"])
def test_a_group_may_have_ended_in_what_cannot_be_read(damage: str, tmp_path: Path) -> None:
    """Three segments of one record each: generation 5, another group, generation 1."""
    directory = tmp_path / "data" / "__consumer_offsets-0"
    directory.mkdir(parents=True)
    other = _rota.OffsetRecord("other", "orders", 0, _rota.OffsetValue(7))
    records = [group_record(5), (other.key_bytes(), other.value_bytes()), group_record(1)]
    paths = [directory / f"{offset:020}.log" for offset in range(len(records))]
    for offset, (path, record) in enumerate(zip(paths, records, strict=True)):
        path.write_bytes(_rota.write_batch(offset, [(0, *record)]))
    if damage == "batch":
        content = bytearray(paths[1].read_bytes())
        content[-1] ^= 0x55
        paths[1].write_bytes(content)
    elif damage == "file":
        paths[1].unlink()
        paths[1].mkdir()
    ended = CliRunner().invoke(app, ["audit", str(tmp_path / "data"), "--json"])
    found = json.loads(ended.stdout)
    assert [verdict["name"] for verdict in found["verdicts"]] == (["generation back"] if damage == "none" else [])
    assert (ended.exit_code, found["groups"]) == ((1, 2) if damage == "none" else (2, 1))
    places = [(one["log"], one["partition"], one["offset"]) for one in found["unreadable"]]
    assert places == ([] if damage == "none" else [(str(tmp_path / "data"), 0, 1)])
