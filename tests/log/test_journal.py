"""`--journal`: what is written down, how it is shown, and that a replay finds what was planted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner, Result

import rota
from rota import _rota, journal
from rota.cli import app
from tests.clients.eventually import eventually
from tests.journaled import check_journal, journaled

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
WITHIN_S = 30


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def commit(server: rota.Server, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def consume(server: rota.Server, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.subscribe(["orders"])
    eventually(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), WITHIN_S, "it is assigned")
    consumer.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a journal: two starts, two groups."""
    data = tmp_path_factory.mktemp("written") / "data"
    for start in range(2):
        with rota.Server(data=data, journal=True, settings=SETTINGS, nodes=2) as server:
            if start == 0:
                server.create_topic("orders", 2)
            commit(server, "payments", 5 + start)
            consume(server, "billing")
            server.move_partition(server.partition_of("billing"), 2)
            consume(server, "billing")
        check_journal(server, data)
    return data


def test_a_replay_finds_no_difference(written: Path) -> None:
    ended = run("replay", written)
    assert (ended.exit_code, ended.stdout.strip().endswith("0 differences")) == (0, True)
    parts = [json.loads(line) for line in run("replay", written, "--json").stdout.splitlines()]
    assert [part["partition"] for part in parts] == [0, 1, 2]
    assert sum(part["compared"] for part in parts) > 20


def test_a_dump_shows_records_and_the_journal_of_one_group(written: Path) -> None:
    lines = [json.loads(line) for line in run("dump", written, "--group", "payments", "--json").stdout.splitlines()]
    assert {line["type"] for line in lines} == {"offset", "group", "journal"} or {line["type"] for line in lines} == {
        "offset",
        "journal",
    }
    asked = [line["event"]["Submitted"]["request"] for line in lines if "Submitted" in line.get("event", {})]
    commits = [request["OffsetCommit"]["topics"] for request in asked if "OffsetCommit" in request]
    assert [topics[0]["partitions"][0]["offset"] for topics in commits] == [5, 6]
    text = run("dump", written, "--group", "payments").stdout
    assert " payments Submitted " in text
    assert " payments Appended " in text


@pytest.mark.parametrize("source", ["offsets", "journal"])
def test_a_dump_of_a_group_that_is_not_there_names_the_nearest(written: Path, source: str) -> None:
    ended = run("dump", written, "--group", "payment", "--source", source)
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert ended.stderr == "rota: no record that was read is of group `payment`; the nearest is `payments`\n"
    ended = run("dump", written, "--group", "payments", "--source", source, "--from-offset", "1000000")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert ended.stderr == "rota: no record that was read is of group `payments`; there are no groups\n"


def test_what_a_client_calls_a_group_moves_no_cursor(tmp_path: Path) -> None:
    hostile = "evil\x1b[2J\nnothing"
    data = tmp_path / "data"
    with rota.Server(data=data, journal=True, settings=SETTINGS) as server:
        server.create_topic("orders", 1)
        commit(server, hostile, 5)
        consume(server, hostile)
    told = [
        run("dump", data),
        run("dump", data, "--group", "evil", "--source", "offsets"),
        CliRunner().invoke(app, ["state", "evil", "--from", str(data)]),
        CliRunner().invoke(app, ["why", hostile, "--from", str(data)]),
        CliRunner().invoke(app, ["plant", str(data), str(tmp_path / "planted")]),
        CliRunner().invoke(app, ["audit", str(tmp_path / "planted")]),
    ]
    for ended in told:
        assert r"evil\x1b[2J" in ended.output, ended.output
        assert "\x1b" not in ended.output
        assert "\nnothing" not in ended.output


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("journal/__rota_journal-*/*.log"))


def last_behind_the_end(said: list[str]) -> set[int]:
    """The last entries of incarnations that had been unloaded before: ends of appends, without which nothing is
    missing."""
    found, is_over = set(), False
    for at, text in enumerate(said[:-1]):
        begins_next = '"Began"' in said[at + 1]
        if is_over and begins_next:
            found.add(at)
        is_over = (is_over or '"event":"Unloaded"' in text) and not begins_next
    return found


def test_a_planted_fault_is_found_where_it_is(written: Path) -> None:
    log = _rota.DataLog(written / "journal")
    partition = max(journal.partitions(log), key=lambda index: len(list(journal.entries(log, index))))
    lines = list(journal.entries(log, partition))
    afterthoughts = last_behind_the_end([_rota.journal_entry(line.value) for line in lines])
    for at in range(1, len(lines) - 1):
        dropped = lines[:at] + lines[at + 1 :]
        exchanged = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
        changed = [*lines[:at], lines[at]._replace(value=lines[at].value[:-1] + b"\x00"), *lines[at + 1 :]]
        began = '"Began"' in _rota.journal_entry(lines[at].value)
        found = [journal.replay_partition(iter(planted), partition) for planted in (dropped, exchanged)]
        # Without its last entry an incarnation looks like one that was killed.
        is_drop_found, is_exchange_found = (part.difference is not None or part.cut > 0 for part in found)
        assert is_drop_found or at in afterthoughts
        assert is_exchange_found
        last = journal.replay_partition(iter(changed), partition)
        is_mark = lines[at].value[-1] == 0 or began
        assert is_mark or (last.difference is not None and last.difference.offset == lines[at].offset)


def test_damage_in_the_journal_is_named(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(written, copy)
    segment = max(segments(copy), key=lambda path: path.stat().st_size)
    damaged = bytearray(segment.read_bytes())
    damaged[100] ^= 0xFF  # In the first batch: a last one would be taken for a torn tail.
    segment.write_bytes(damaged)
    ended = run("replay", copy)
    assert ended.exit_code == 1
    assert str(segment) in ended.stdout


def test_a_test_whose_journal_differs_fails(tmp_path: Path) -> None:
    with rota.Server(journal=tmp_path / "journal", settings=SETTINGS) as server:
        server.create_topic("orders", 1)
        commit(server, "g", 1)
    check_journal(server, tmp_path / "journal")
    damaged = max(tmp_path.glob("journal/__rota_journal-*/*.log"), key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(AssertionError):
        check_journal(server, tmp_path / "journal")


def test_a_directory_without_a_journal_says_how_to_get_one(tmp_path: Path) -> None:
    ended = run("replay", tmp_path)
    assert (ended.exit_code, "rota serve --journal" in ended.output) == (3, True)


def test_a_journal_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no data directory to write it in"):
        rota.Server(journal=True)
    with journaled(tmp_path / "apart", settings=SETTINGS) as server:
        server.create_topic("orders", 1)
        consume(server, "g")


def test_a_small_journal_drops_its_oldest_segments_and_replays_from_a_state(tmp_path: Path) -> None:
    # What is kept holds more than one start, and so at least one state.
    for start in range(18):
        with rota.Server(
            data=tmp_path / "data",
            journal=True,
            journal_retention_bytes=200_000,
            settings={**SETTINGS, "offsets.topic.num.partitions": 1},
        ) as server:
            if start == 0:
                server.create_topic("orders", 1)
            consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g", "log_level": 0})
            for offset in range(100):
                consumer.commit(offsets=[TopicPartition("orders", 0, offset, "x" * 200)], asynchronous=False)
            consumer.close()
    kept = segments(tmp_path / "data")
    assert int(kept[0].stem) > 0, "the oldest segments are gone"
    assert sum(path.stat().st_size for path in kept) <= 400_000, (
        "a segment more than asked for, and what no checkpoint has synced"
    )
    (part,) = journal.replay(tmp_path / "data")
    assert part.is_well
    assert part.compared > 0


def files_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_journal_is_not_taken_for_a_data_directory(written: Path) -> None:
    before = files_of(written)
    with pytest.raises(OSError, match=r"has a journal and is no data directory; give the data directory"):
        rota.Server(data=written / "journal", settings=SETTINGS)
    assert files_of(written) == before


def test_a_data_directory_is_not_taken_for_a_journal(written: Path, tmp_path: Path) -> None:
    before = files_of(written)
    with pytest.raises(OSError, match=r"is a data directory, which has `rota.topics`; choose a directory of its own"):
        rota.Server(data=tmp_path / "other", journal=written, settings=SETTINGS)
    assert files_of(written) == before


def test_a_partition_is_not_taken_for_a_data_directory(written: Path) -> None:
    before = files_of(written)
    with pytest.raises(OSError, match=r"is a partition of the data directory `.*`; give that"):
        rota.Server(data=next(written.glob("__consumer_offsets-*")), settings=SETTINGS)
    assert files_of(written) == before
