"""Offsets in transactions: those of one that was aborted, or has not ended, do not count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

import rota
from rota import _rota
from rota.audit.command import shown_time
from rota.audit.follow.growth import Position, parts_from
from rota.audit.logs import Part, parts_of
from rota.cli import app
from tests.audit.test_ahead import rows

GROUP, PRODUCER = "eos", 7
BEGAN_MS = 1_790_000_000_000
WITHIN_S = 30


class Log:
    """A partition of `__consumer_offsets`. Batch `n` has offset `n`, and its time is `n` seconds later."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.directory = data / "__consumer_offsets-0"
        self.directory.mkdir(parents=True)
        self.segment = self.directory / f"{0:020}.log"
        self.segment.touch()
        self.following = 0

    def _append(self, batch: bytes) -> Log:
        with self.segment.open("ab") as file:
            file.write(batch)
        self.following += 1
        return self

    def commits(self, offset: int, producer_id: int | None = PRODUCER) -> Log:
        record = _rota.OffsetRecord(GROUP, "orders", 0, _rota.OffsetValue(offset))
        sent = [(self.now_ms, record.key_bytes(), record.value_bytes())]
        return self._append(_rota.write_batch(self.following, sent, producer_id))

    def ends(self, *, is_commit: bool, producer_id: int = PRODUCER) -> Log:
        return self._append(_rota.write_marker(self.following, self.now_ms, producer_id, is_commit))

    def rolls(self) -> Log:
        self.segment = self.directory / f"{self.following:020}.log"
        self.segment.touch()
        return self

    @property
    def now_ms(self) -> int:
        return BEGAN_MS + 1_000 * self.following


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Four transactions: 50 and 60 are committed, 100 and 999 are not. A segment ends within the second one."""
    found = Log(tmp_path / "data").commits(50).ends(is_commit=True)
    found.commits(100).rolls().ends(is_commit=False)
    return found.commits(60).ends(is_commit=True).commits(999).ends(is_commit=False)


def committed(parts: list[Part]) -> list[int]:
    found = rows(parts)
    assert {row["kind"] for row in found} <= {"offset"}
    return [row["committed"] for row in found]


def run(*arguments: str | Path) -> str:
    ended = CliRunner().invoke(app, [*map(str, arguments)])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def state(data: Path, *at: str) -> dict[str, Any]:
    told = json.loads(run("state", GROUP, "--from", data, "--json", *at))
    offsets: dict[str, Any] = told["offsets"]
    return offsets


@pytest.mark.parametrize(("part_bytes", "known"), [(1, [0, 0, 1, 0, 0, 0, 1, 0]), (16 << 20, [1, 1])])
def test_the_rows_have_what_was_committed(log: Log, part_bytes: int, known: list[int]) -> None:
    parts = parts_of([log.data], part_bytes)
    assert committed(parts) == [50, 60]
    assert [len(part.uncommitted) for part in parts] == known


def test_the_commands_count_what_was_committed(log: Log) -> None:
    assert state(log.data) == {"orders-0": 60}
    assert json.loads(run("audit", log.data, "--json"))["verdicts"] == []


def test_a_transaction_that_has_not_ended_does_not_count(log: Log) -> None:
    log.commits(70).commits(80, producer_id=None)
    assert committed(parts_of([log.data])) == [50, 60, 80]
    log.ends(is_commit=True)
    assert committed(parts_of([log.data])) == [50, 60, 70, 80]


def test_a_state_counts_what_was_committed_at_that_time(log: Log) -> None:
    log.commits(70).ends(is_commit=True)
    last = log.following - 1
    told = [state(log.data, "--at", shown_time(BEGAN_MS + 1_000 * number)) for number in (last - 1, last)]
    assert told == [{"orders-0": 60}, {"orders-0": 70}]


def test_producers_do_not_end_the_transactions_of_others(log: Log) -> None:
    log.commits(70, 1).commits(80, 2).ends(is_commit=False, producer_id=1).ends(is_commit=True, producer_id=2)
    assert committed(parts_of([log.data])) == [50, 60, 80]


def test_what_was_open_where_the_log_is_damaged_does_not_count(log: Log) -> None:
    """The marker of 70 is damaged, and what comes behind it is another transaction."""
    log.commits(70)
    whole = log.segment.stat().st_size
    log.ends(is_commit=False).commits(80).ends(is_commit=True)
    content = bytearray(log.segment.read_bytes())
    content[whole + 30] ^= 0x55
    log.segment.write_bytes(content)
    found = rows(parts_of([log.data]))
    assert [(row["kind"], row["committed"]) for row in found[-2:]] == [("unreadable", None), ("offset", 80)]
    assert [row["committed"] for row in found[:-2]] == [50, 60]


def test_a_planted_copy_has_what_was_committed(log: Log, tmp_path: Path) -> None:
    run("plant", log.data, tmp_path / "planted")
    assert {50, 60} <= set(committed(parts_of([tmp_path / "planted"]))) <= {50, 60, 49}


def followed(log: Log, start: Position, part_bytes: int) -> tuple[list[int], Position]:
    read = list(parts_from(log.directory, start, part_bytes))
    return committed([part for part, _ in read]), read[-1][1] if read else start


@pytest.mark.parametrize("part_bytes", [1, 4 << 20])
def test_following_waits_for_the_end_of_a_transaction(log: Log, part_bytes: int) -> None:
    log.commits(70).commits(80, producer_id=None)
    found, reached = followed(log, Position(), part_bytes)
    assert (found, reached.offset) == ([50, 60], log.following - 2)
    log.rolls().commits(90, producer_id=None)
    assert followed(log, reached, part_bytes) == ([], reached)
    log.ends(is_commit=False)
    found, reached = followed(log, reached, part_bytes)
    assert (found, reached.offset) == ([80, 90], log.following)


def test_the_transactions_of_a_server_are_told_by_its_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data, settings={"offsets.topic.num.partitions": 1}) as server:
        server.create_topic("orders", 1)
        of_server = {"bootstrap.servers": server.bootstrap_servers}
        reader = Consumer({**of_server, "group.id": GROUP, "enable.auto.commit": False})
        producer = Producer({**of_server, "transactional.id": "pay"})
        producer.init_transactions(WITHIN_S)
        for offset, is_commit in ((50, True), (100, False), (60, True), (999, False)):
            producer.begin_transaction()
            place = [TopicPartition("orders", 0, offset)]
            producer.send_offsets_to_transaction(place, reader.consumer_group_metadata(), WITHIN_S)
            end = producer.commit_transaction if is_commit else producer.abort_transaction
            end(WITHIN_S)
        reader.close()
    assert state(data) == {"orders-0": 60}
    assert json.loads(run("audit", data, "--json"))["verdicts"] == []
    assert committed(parts_of([data])) == [50, 60]
