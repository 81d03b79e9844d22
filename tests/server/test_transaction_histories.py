"""Transactions of the second protocol while the server is killed again and again, with late duplicates of Produce and
EndTxn: the histories of clients have no anomaly. `make histories` does 500 kills.
"""

from __future__ import annotations

import copy
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from harness.brokers import free_port
from rota.codec import Fields
from rota.conform.batches import batch
from rota.conform.broker import Broker
from rota.conform.wire import Connection, WireError
from tests.server.test_transactions import PARTITIONS, SOURCE, TOPIC, served
from tests.server.transaction_histories import (
    ABORTED,
    COMMITTED,
    UNKNOWN,
    History,
    Late,
    Transaction,
    anomalies,
)

KILLS = int(os.environ.get("ROTA_HISTORY_KILLS", "5"))
SEED = int(os.environ.get("ROTA_SEED", "1"))
WORKERS, WITHIN_S, ROUND_S = 3, 60, 30
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS
NOT_YET = {14, 15, 16, 51}
#: A killed server is killed after so many transactions at most.
TRANSACTIONS_MAX = 40


class Worker:
    """Begins, fills and ends transactions until its server is gone."""

    def __init__(self, number: int, history: History) -> None:
        self.name, self.history = f"worker-{number}", history
        self.random = random.Random(f"{SEED}/{number}")
        self.count = 0
        self.producer: tuple[int, int] = (-1, -1)
        #: of the transaction before: its producer and next sequence number, and how it ended
        self.before: tuple[tuple[int, int], dict[int, int], bool] | None = None

    def named(self, producer: tuple[int, int]) -> Fields:
        return {"transactional_id": self.name, "producer_id": producer[0], "producer_epoch": producer[1]}

    def run(self, address: tuple[str, int]) -> None:
        """Until the server is gone."""
        with suppress(WireError, OSError):
            connection = Broker(address).connect(WITHIN_S)
            try:
                self.begin(connection)
                while True:
                    self.transact(connection)
            finally:
                connection.close()

    def begin(self, connection: Connection) -> None:
        """Ends what an earlier life of the server has left open."""
        asked = self.named((-1, -1)) | {"transaction_timeout_ms": 60_000}
        while (told := connection.ask("InitProducerId", 4, asked))["error_code"] in NOT_YET:
            pass
        assert told["error_code"] == 0, told
        self.producer, self.before = (told["producer_id"], told["producer_epoch"]), None

    def transact(self, connection: Connection) -> None:
        of = Transaction(self.name, self.count)
        self.count += 1
        self.history.transactions.append(of)
        sequences: dict[int, int] = {}
        for number in range(self.random.randint(1, 4)):
            value, index = f"{self.name}.{of.offset}.{number}", self.random.randrange(PARTITIONS)
            of.values.append(value)
            told = self.produce(connection, self.producer, index, sequences.get(index, 0), value)
            assert told["error_code"] == 0, told
            sequences[index] = sequences.get(index, 0) + 1
            of.places[value] = (index, told["base_offset"])
        self.send_late(connection)
        self.commit_offset(connection, of.offset)
        commits = self.random.random() < 0.7
        of.outcome = UNKNOWN if commits else ABORTED
        told = self.end(connection, self.producer, is_commit=commits)
        assert told["error_code"] == 0, told
        of.outcome = COMMITTED if commits else ABORTED
        self.before = (self.producer, sequences, commits)
        self.producer = (told["producer_id"], told["producer_epoch"])

    def produce(
        self, connection: Connection, producer: tuple[int, int], index: int, sequence: int, value: str
    ) -> Fields:
        """One value. The partition may be ending the transaction before."""
        records = batch(*producer, sequence, value=value.encode())
        data = [{"name": TOPIC, "partition_data": [{"index": index, "records": records}]}]
        asked = {"transactional_id": self.name, "acks": -1, "timeout_ms": 5_000, "topic_data": data}
        while True:
            told: Fields = connection.ask("Produce", 12, asked)["responses"][0]["partition_responses"][0]
            if told["error_code"] not in NOT_YET:
                return told

    def commit_offset(self, connection: Connection, offset: int) -> None:
        part = {"partition_index": 0, "offset": offset, "leader_epoch": -1, "metadata": ""}
        topics = [{"name": SOURCE, "partitions": [part]}]
        asked = self.named(self.producer) | {"group_id": self.name, "generation": -1, "topics": topics}
        while (code := self._code(connection.ask("TxnOffsetCommit", 5, asked))) in NOT_YET:
            pass
        assert code == 0, code

    @staticmethod
    def _code(told: Fields) -> int:
        code: int = told["topics"][0]["partitions"][0]["error_code"]
        return code

    def end(self, connection: Connection, producer: tuple[int, int], *, is_commit: bool) -> Fields:
        while (told := connection.ask("EndTxn", 5, self.named(producer) | {"is_commit": is_commit}))[
            "error_code"
        ] in NOT_YET:
            pass
        return told

    def send_late(self, connection: Connection) -> None:
        """While a transaction is open: what a network could hold back of the one before."""
        if self.before is None or self.random.random() < 0.5:
            return
        producer, sequences, was_committed = self.before
        for index, sequence in sequences.items():
            value = f"late.{self.name}.{self.count}.{index}"
            late = Late("Produce", -1, value)
            # It is in the history before it is sent: a server that is killed may have taken it.
            self.history.late.append(late)
            late.error_code = self.produce(connection, producer, index, sequence, value)["error_code"]
        for is_commit in (was_committed, not was_committed):
            told = self.end(connection, producer, is_commit=is_commit)
            self.history.late.append(Late("EndTxn", told["error_code"]))


class Reader:
    """Reads committed messages from the beginning, whatever happens to the server."""

    def __init__(self, bootstrap: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not-a-group",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 100,
                "log_level": 0,
            }
        )
        self.consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        self.seen: list[tuple[int, int, str]] = []
        self.stopping = threading.Event()
        self.ended: set[int] = set()

    def step(self) -> None:
        message = self.consumer.poll(0.1)
        if message is None:
            return
        error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
        assert partition is not None
        if error is None:
            assert offset is not None
            assert isinstance(value, bytes)
            self.seen.append((partition, offset, value.decode()))
        elif error.code() == KafkaError._PARTITION_EOF:
            self.ended.add(partition)

    def run(self) -> None:
        """Until `stopping`."""
        while not self.stopping.is_set():
            self.step()
        self.consumer.close()

    def to_the_end(self) -> list[tuple[int, int, str]]:
        until = time.monotonic() + WITHIN_S
        while len(self.ended) < PARTITIONS:
            assert time.monotonic() < until, f"the end is not reached after {len(self.seen)} messages"
            self.step()
        self.consumer.close()
        return self.seen


def offset_of(address: tuple[str, int], group: str) -> int:
    connection = Broker(address).connect(WITHIN_S)
    asked = {"group_id": group, "topics": [{"name": SOURCE, "partition_indexes": [0]}]}
    found: int = connection.ask("OffsetFetch", 5, asked)["topics"][0]["partitions"][0]["offset"]
    connection.close()
    return found


@pytest.mark.timeout(600 + KILLS * ROUND_S)
def test_histories_beside_kills_have_no_anomalies(tmp_path: Path) -> None:
    history, chance, port = History(), random.Random(SEED), free_port()
    address, bootstrap = ("127.0.0.1", port), f"127.0.0.1:{port}"
    workers = [Worker(number, history) for number in range(WORKERS)]
    reader: Reader | None = None
    for _ in range(KILLS):
        with served(tmp_path / "data", port) as process:
            if reader is None:
                reader = Reader(bootstrap)
                reading = threading.Thread(target=reader.run)
                reading.start()
            threads = [threading.Thread(target=partial(worker.run, address)) for worker in workers]
            for thread in threads:
                thread.start()
            moment, read = len(history.transactions) + chance.randint(1, TRANSACTIONS_MAX), len(reader.seen)
            until = time.monotonic() + ROUND_S
            while len(history.transactions) < moment or len(reader.seen) == read:
                assert time.monotonic() < until, "transactions or their reader make no progress"
                assert all(thread.is_alive() for thread in threads), "a worker has ended by itself"
                reader.stopping.wait(chance.random() / 500)
            process.kill()
            for thread in threads:
                thread.join(WITHIN_S)
                assert not thread.is_alive()
    assert reader is not None
    reader.stopping.set()
    reading.join(WITHIN_S)
    with served(tmp_path / "data", port):
        for worker in workers:
            connection = Broker(address).connect(WITHIN_S)
            worker.begin(connection)
            connection.close()
        history.reads.append(reader.seen)
        history.last_read = Reader(bootstrap).to_the_end()
        history.offsets = {worker.name: offset_of(address, worker.name) for worker in workers}
    assert anomalies(history) == {}
    outcomes = Counter(each.outcome for each in history.transactions)
    late = Counter((each.api, each.error_code) for each in history.late)
    assert outcomes[COMMITTED] > KILLS
    assert reader.seen
    print(f"{KILLS} kills, {dict(outcomes)}, {len(reader.seen)} read beside them, late {dict(late)}: no anomaly")


def clean() -> History:
    """Two workers; the last transaction of the second was not answered, and is there."""
    committed = Transaction("a", 0, ["a0", "a1"], {"a0": (0, 0), "a1": (1, 0)}, COMMITTED)
    aborted = Transaction("a", 1, ["a2"], {"a2": (0, 2)}, ABORTED)
    unknown = Transaction("b", 0, ["b0", "b1"], {"b0": (0, 4), "b1": (1, 2)}, UNKNOWN)
    seen = [(0, 0, "a0"), (1, 0, "a1"), (0, 4, "b0"), (1, 2, "b1")]
    late = [Late("Produce", 47, "late"), Late("EndTxn", 90)]
    return History([committed, aborted, unknown], late, [seen[:2]], seen, {"a": 0, "b": 0})


def test_a_clean_history_has_no_anomaly() -> None:
    history = clean()
    assert anomalies(history) == {}
    history.last_read = history.last_read[:2]
    history.offsets["b"] = -1
    assert anomalies(history) == {}, "a commit without an answer may be none"


def _lose(of: History) -> None:
    of.last_read = [seen for seen in of.last_read if seen[2] not in ("a0", "a1")]
    of.offsets["a"] = -1


def _late_produce(of: History) -> None:
    of.late[0].error_code = 0


def _late_end(of: History) -> None:
    of.late[1].error_code = 0


PLANTED: dict[str, Callable[[History], object]] = {
    "lost write": _lose,
    "aborted read": lambda of: of.reads[0].append((0, 2, "a2")),
    "torn transaction": lambda of: of.last_read.remove((1, 2, "b1")),
    "torn offset": lambda of: of.offsets.update(a=1),
    "duplicate": lambda of: of.last_read.append((1, 4, "b1")),
    "two values of an offset": lambda of: of.reads.append([(0, 0, "b0")]),
    "order of a reader": lambda of: of.reads[0].append((0, 0, "a0")),
    "unwritten read": lambda of: of.reads[0].append((0, 9, "nobody's")),
    "late write": lambda of: of.last_read.append((0, 6, "late")),
    "late Produce accepted": _late_produce,
    "late EndTxn accepted": _late_end,
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_anomaly_is_found_and_no_other(kind: str) -> None:
    history = copy.deepcopy(clean())
    PLANTED[kind](history)
    assert set(anomalies(history)) == {kind}
