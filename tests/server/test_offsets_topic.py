"""Clients read `__consumer_offsets` as an ordinary topic (docs/protocol.md §17.5)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from typer.testing import CliRunner

import rota
from rota.cli import app
from tests.clients.eventually import eventually
from tests.clients.reading import consumer

PARTITIONS, TOPIC, GROUP, ID = 3, "orders", "workers", "pay"
OFFSETS = "__consumer_offsets"
SETTINGS = {"offsets.topic.num.partitions": PARTITIONS}
WITHIN_S = 30
LONG_MS = 20_000

Committed = tuple[str, int]


@pytest.fixture(params=["memory", "data", "nodes"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rota.Server]:
    of: dict[str, dict[str, Any]] = {"data": {"data": tmp_path / "data"}, "nodes": {"nodes": 2}}
    options = of.get(request.param, {})
    with rota.Server(settings=SETTINGS, **options) as server:
        server.create_topic(TOPIC)
        yield server


def commit(server: rota.Server, offset: int, group: str = GROUP) -> None:
    with closing(consumer(server.bootstrap_servers, group)) as member:
        member.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)


def group_of(server: rota.Server, partition: int) -> str:
    """A group whose offsets are in this partition."""
    return next(name for n in itertools.count() if server.partition_of(name := f"g{n}") == partition)


def follow(server: rota.Server, isolation: str, **config: Any) -> Consumer:
    """A consumer of all partitions, from the beginning."""
    reader = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **config,
        }
    )
    reader.assign([TopicPartition(OFFSETS, partition, 0) for partition in range(PARTITIONS)])
    return reader


def offset_of(message: Any) -> Committed | None:
    """Group and offset in a record of a commit; None: another record, or a tombstone."""
    key, value = message.key(), message.value()
    (version, length) = struct.unpack(">hh", key[:4])
    if version > 1 or value is None:
        return None
    return key[4 : 4 + length].decode(), struct.unpack(">q", value[2:10])[0]


def read(server: rota.Server, isolation: str = "read_uncommitted") -> list[Committed]:
    """The commits in the topic, in the order of each partition."""
    found: list[Committed] = []
    ended = set[int]()
    with closing(follow(server, isolation)) as reader:
        while len(ended) < PARTITIONS:
            message = reader.poll(WITHIN_S)
            assert message is not None, f"no end: {found}"
            error = message.error()
            if error is None:
                found += [row for row in [offset_of(message)] if row is not None]
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
    return found


def test_commits_are_read_in_their_order(server: rota.Server) -> None:
    for offset in (3, 4, 5):
        commit(server, offset)
    assert read(server) == [(GROUP, 3), (GROUP, 4), (GROUP, 5)]
    assert read(server, "read_committed") == read(server)


def test_a_waiting_reader_gets_a_commit_at_once(server: rota.Server) -> None:
    waits = {"fetch.wait.max.ms": LONG_MS, "socket.timeout.ms": 3 * LONG_MS}
    # A first Fetch of empty partitions would wait, too.
    for partition in range(PARTITIONS):
        commit(server, 1, group_of(server, partition))
    with closing(follow(server, "read_uncommitted", **waits)) as reader:
        for _ in range(PARTITIONS):
            assert reader.poll(WITHIN_S) is not None
        commit(server, 3)

        def comes() -> bool:
            message = reader.poll(0.1)
            return message is not None and message.error() is None and offset_of(message) == (GROUP, 3)

        eventually(comes, LONG_MS / 2_000, "the commit is read")
        # The reader closes after its Fetch in flight is answered.
        reader.unassign()
        commit(server, 4)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_offsets_of_a_transaction_are_committed_with_it_or_never(server: rota.Server, is_commit: bool) -> None:
    # A group of the same partition, whose commit comes behind the transaction.
    other = group_of(server, server.partition_of(GROUP))
    made = Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": ID})
    made.init_transactions(WITHIN_S)
    made.begin_transaction()
    with closing(consumer(server.bootstrap_servers, GROUP)) as worker:
        made.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 7)], worker.consumer_group_metadata(), WITHIN_S)
    commit(server, 3, other)
    assert read(server) == [(GROUP, 7), (other, 3)]
    assert read(server, "read_committed") == []
    if is_commit:
        made.commit_transaction(WITHIN_S)
    else:
        made.abort_transaction(WITHIN_S)
    expected = [*([(GROUP, 7)] if is_commit else []), (other, 3)]
    eventually(lambda: read(server, "read_committed") == expected, WITHIN_S, "the transaction is over")


@pytest.mark.parametrize("nodes", [1, 2])
def test_many_transactions_are_read_to_their_end_whatever_compaction_takes(nodes: int) -> None:
    with rota.Server(settings=SETTINGS, nodes=nodes) as server:
        server.create_topic(TOPIC)
        made = Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": ID})
        made.init_transactions(WITHIN_S)
        with closing(consumer(server.bootstrap_servers, GROUP)) as worker:
            # Two records each: compaction begins after 1,024.
            for offset in range(600):
                made.begin_transaction()
                position = [TopicPartition(TOPIC, 0, offset)]
                made.send_offsets_to_transaction(position, worker.consumer_group_metadata(), WITHIN_S)
                if offset % 3 == 1:
                    made.abort_transaction(WITHIN_S)
                else:
                    made.commit_transaction(WITHIN_S)
                if offset % 99 == 0:
                    assert read(server, "read_committed")[-1] == (GROUP, offset)
        assert read(server, "read_committed")[-1] == (GROUP, 599)


def test_what_compaction_leaves_is_read() -> None:
    with rota.Server(settings=SETTINGS) as server:
        server.create_topic(TOPIC)
        with closing(consumer(server.bootstrap_servers, GROUP)) as member:
            # Compaction begins after 1,024 records.
            for offset in range(1_100):
                member.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        found = read(server)
        assert found[-1] == (GROUP, 1_099)
        assert len(found) < 1_000
        with closing(follow(server, "read_uncommitted")) as reader:
            ends = [reader.get_watermark_offsets(TopicPartition(OFFSETS, at), WITHIN_S) for at in range(PARTITIONS)]
        assert sorted(ends) == [(0, 0), (0, 0), (0, 1_100)]


def test_clients_do_not_write_to_it(server: rota.Server) -> None:
    made = Producer({"bootstrap.servers": server.bootstrap_servers})
    told: list[Any] = []
    made.produce(OFFSETS, b"no", partition=0, on_delivery=lambda error, _: told.append(error))
    assert made.flush(WITHIN_S) == 0
    assert told[0].code() == KafkaError.TOPIC_EXCEPTION


def test_the_audit_reads_it_from_a_server(server: rota.Server) -> None:
    for group in ("ana", "ben"):
        commit(server, 3, group)
    ended = CliRunner().invoke(app, ["audit", "--bootstrap-server", server.bootstrap_servers])
    assert ended.exit_code == 0, ended.output
    assert "2 groups audited" in ended.output


def test_a_server_of_a_cluster_refuses_it() -> None:
    with rota.Server(engine=rota.MemoryEngine(), node_id=1, settings=SETTINGS) as server:
        eventually(lambda: _is_ready(server), WITHIN_S, "the server has joined")
        with closing(consumer(server.bootstrap_servers, GROUP)) as reader, pytest.raises(KafkaException) as refused:
            reader.get_watermark_offsets(TopicPartition(OFFSETS, 0), WITHIN_S)
        assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


def _is_ready(server: rota.Server) -> bool:
    cluster = server.cluster()
    return cluster is not None and cluster.is_ready
