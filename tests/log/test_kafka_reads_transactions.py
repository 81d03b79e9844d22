"""Kafka's dump tool finds in a server's files about transactions what the server has told its clients: the states in
`__transaction_state`, aborted transactions in `.txnindex`, producers in `.snapshot`, and markers beside them all.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

import rota
from harness import kafka_tools
from rota.conform.broker import Broker
from tests.clients.reading import committed, consumer

WITHIN_S = 60
TOPIC, SOURCE, GROUP = "sink", "source", "workers"
IDS = [f"pay-{number}" for number in range(3)]
ROUNDS = 8
BIG = "x" * 300
SETTINGS: dict[str, str | int | bool] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.segment.bytes": 4_096,
}
READ_COMMITTED, EARLIEST_KEPT = 1, 0
STATE = re.compile(r"^\| offset: (\d+) .*? key: (\{.*?\}\}) payload: (.*)$")
MARKER = re.compile(r"^\| offset: (\d+) .*? endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: (\d+)")
BATCH = re.compile(
    r"^baseOffset: (\d+) .*? producerId: (-?\d+) .*? isTransactional: (true|false) isControl: (true|false)"
)
ABORTED = re.compile(r"^version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)")
PRODUCER = re.compile(r"^producerId: (\d+) producerEpoch: (\d+) .*?currentTxnFirstOffset: (\S+) ")
pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("java", "mvn")), reason="needs a JDK and Maven"
)


@dataclass
class Told:
    """What a server has told its clients about the transactions in its directory."""

    data: Path
    states: dict[str, rota.transactions.Transaction]
    #: of TOPIC, by producer id and first offset
    aborted: set[tuple[int, int]]
    group_offset: int


def fetched(server: rota.Server) -> tuple[set[tuple[int, int]], int, int]:
    """The aborted transactions of TOPIC, its last stable offset, and its end, as Fetch has them."""
    connection = Broker((server.host, server.port)).connect()
    aborted, offset = set[tuple[int, int]](), EARLIEST_KEPT
    while True:
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        asked = {"replica_id": -1, "max_bytes": 1 << 20, "isolation_level": READ_COMMITTED}
        answer = connection.ask("Fetch", 4, asked | {"topics": [{"topic": TOPIC, "partitions": [part]}]})
        found = answer["responses"][0]["partitions"][0]
        aborted |= {(each["producer_id"], each["first_offset"]) for each in found["aborted_transactions"]}
        records = found["records"]
        if not records:
            connection.close()
            return aborted, found["last_stable_offset"], found["high_watermark"]
        while records:
            offset = int.from_bytes(records[:8]) + int.from_bytes(records[23:27]) + 1
            records = records[12 + int.from_bytes(records[8:12]) :]


def transact(writer: Producer, metadata: object, number: int) -> None:
    writer.begin_transaction()
    for _ in range(3):
        writer.produce(TOPIC, value=BIG, partition=0)
    writer.send_offsets_to_transaction([TopicPartition(SOURCE, 0, number)], metadata, WITHIN_S)
    assert writer.flush(WITHIN_S) == 0


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Transactions that commit and abort, across segments, and one that is open when the server ends."""
    data = tmp_path_factory.mktemp("transactions") / "data"
    with rota.Server(data=data, settings=SETTINGS) as server:
        for topic in (TOPIC, SOURCE):
            server.create_topic(topic, 1)
        asker = consumer(server.bootstrap_servers, GROUP)
        writers = [Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": each}) for each in IDS]
        for writer in writers:
            writer.init_transactions(WITHIN_S)
        for number in range(ROUNDS):
            for at, writer in enumerate(writers):
                transact(writer, asker.consumer_group_metadata(), number * 10 + at)
                if (number + at) % 2:
                    writer.abort_transaction(WITHIN_S)
                else:
                    writer.commit_transaction(WITHIN_S)
        offset = committed(server.bootstrap_servers, GROUP, SOURCE)
        transact(writers[0], asker.consumer_group_metadata(), 1_000)
        states, (aborted, stable, end) = server.transactions(), fetched(server)
        assert stable < end, "a transaction is open"
        asker.close()
    return Told(data, states, aborted, offset)


def dumped(*options: str, files: list[Path]) -> list[str]:
    """The lines of Kafka's tool about these files."""
    return kafka_tools.dumped(*options, "--deep-iteration", files=files)


def filled(folder: Path, pattern: str) -> list[Path]:
    return [path for path in sorted(folder.glob(pattern)) if path.stat().st_size]


def markers(lines: list[str]) -> dict[int, tuple[int, str]]:
    """Offset of each marker: producer id, and how the transaction ended."""
    found, producer_id = dict[int, tuple[int, str]](), -1
    for line in lines:
        if batch := BATCH.match(line):
            producer_id = int(batch[2])
        elif marker := MARKER.match(line):
            found[int(marker[1])] = (producer_id, marker[2])
    return found


def test_the_last_record_of_each_id_is_the_state_that_the_server_told(told: Told) -> None:
    last: dict[str, dict[str, object]] = {}
    for partition in range(2):
        files = filled(told.data / f"__transaction_state-{partition}", "*.log")
        for match in filter(None, map(STATE.match, dumped("--transaction-log-decoder", files=files))):
            last[json.loads(match[2])["data"]["transactionalId"]] = json.loads(match[3])["data"]
    shown = {
        name: (value["transactionStatus"], value["producerId"], value["producerEpoch"]) for name, value in last.items()
    }
    statuses = {"Ongoing": 1, "CompleteCommit": 4, "CompleteAbort": 5}
    assert shown == {
        name: (statuses[each.state], each.producer_id, each.producer_epoch) for name, each in told.states.items()
    }
    assert {each.state for each in told.states.values()} == set(statuses)


def test_the_index_of_aborted_transactions_has_what_readers_were_told(told: Told) -> None:
    folder = told.data / f"{TOPIC}-0"
    segments, indexes = filled(folder, "*.log"), filled(folder, "*.txnindex")
    assert len(segments) > 3, "there are several segments"
    assert len(indexes) > 3, "there are aborted transactions in several segments"
    rows = [tuple(map(int, match.groups())) for match in filter(None, map(ABORTED.match, dumped(files=indexes)))]
    assert {(producer_id, first) for producer_id, first, _, _ in rows} == told.aborted
    assert len(rows) == len(told.aborted)
    there = markers(dumped(files=segments))
    assert {last: (producer_id, "ABORT") for producer_id, _, last, _ in rows} == {
        offset: marker for offset, marker in there.items() if marker[1] == "ABORT"
    }
    assert sum(kind == "COMMIT" for _, kind in there.values()) == ROUNDS * len(IDS) - len(rows)
    assert all(first < last < stable for _, first, last, stable in rows)


def test_the_newest_snapshot_has_the_producers(told: Told) -> None:
    snapshots = filled(told.data / f"{TOPIC}-0", "*.snapshot")
    found = {match[1] for match in filter(None, map(PRODUCER.match, dumped(files=snapshots[-1:])))}
    assert found == {str(each.producer_id) for each in told.states.values()}


def test_offsets_of_a_group_are_in_transactions_that_end_with_markers(told: Told) -> None:
    offsets, pending = -1, dict[int, int]()
    for partition in range(2):
        producer_id = -1
        for line in dumped("--offsets-decoder", files=filled(told.data / f"__consumer_offsets-{partition}", "*.log")):
            if batch := BATCH.match(line):
                producer_id = int(batch[2])
                assert batch[3] == "true" or producer_id == -1
            elif (record := STATE.match(line)) and json.loads(record[2])["data"].get("topic") == SOURCE:
                pending[producer_id] = json.loads(record[3])["data"]["offset"]
            elif marker := MARKER.match(line):
                offset = pending.pop(producer_id, -1)
                offsets = offset if marker[2] == "COMMIT" else offsets
    assert offsets == told.group_offset >= 0
    assert list(pending.values()) == [1_000], "one transaction is open"
