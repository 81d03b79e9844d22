"""Servers of a cluster with data directories: messages survive their server (docs/cluster.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as librdkafka
import pytest
from confluent_kafka.admin import AdminClient

import rota
from harness.etcd import Etcd, is_installed
from tests.clients.eventually import eventually
from tests.server.test_data import serving

TTL_MS = 1_500
WITHIN_S = 30.0
ANSWER_WITHIN_S = 2.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
}
TOPIC = "orders"


class Fleet:
    """Servers over one engine, each with a directory and a port that it keeps."""

    def __init__(self, place: Path) -> None:
        self.engine, self.place = rota.MemoryEngine(), place
        self.servers: dict[int, rota.Server] = {}
        self.ports: dict[int, int] = {}

    def start(self, node_id: int) -> rota.Server:
        server = rota.Server(
            f"127.0.0.1:{self.ports.get(node_id, 0)}",
            engine=self.engine,
            node_id=node_id,
            ttl_ms=TTL_MS,
            settings=SETTINGS,
            data=self.data(node_id),
        )
        self.servers[node_id], self.ports[node_id] = server, server.port
        self.settle()
        return server

    def settle(self) -> None:
        """Wait until each server has joined and all partitions have owners."""
        eventually(lambda: all(map(_is_settled, self.servers.values())), WITHIN_S, "the cluster is settled")

    def data(self, node_id: int) -> Path:
        return self.place / f"node-{node_id}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())


def _is_settled(server: rota.Server) -> bool:
    cluster = server.cluster()
    assert cluster is not None
    return cluster.is_ready and all(row.owner == row.coordinator is not None for row in cluster.partitions)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    try:
        yield fleet
    finally:
        for server in fleet.servers.values():
            server.kill()


def produce(fleet: Fleet, partition: int, *values: str) -> None:
    producer = librdkafka.Producer({"bootstrap.servers": fleet.bootstrap_servers})
    for value in values:
        producer.produce(TOPIC, value, partition=partition)
    assert producer.flush(WITHIN_S) == 0


def delete(fleet: Fleet) -> None:
    admin = AdminClient({"bootstrap.servers": fleet.bootstrap_servers})
    admin.delete_topics([TOPIC])[TOPIC].result(WITHIN_S)


def delete_records(fleet: Fleet, partition: int, offset: int) -> int:
    """The low watermark after that."""
    admin = AdminClient({"bootstrap.servers": fleet.bootstrap_servers})
    [result] = admin.delete_records([librdkafka.TopicPartition(TOPIC, partition, offset)]).values()
    return int(result.result(WITHIN_S).low_watermark)


def bounds(fleet: Fleet, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and the one after the last."""
    asker = librdkafka.Consumer({"bootstrap.servers": fleet.bootstrap_servers, "group.id": "bounds"})
    found = asker.get_watermark_offsets(librdkafka.TopicPartition(TOPIC, partition), WITHIN_S)
    asker.close()
    assert found is not None
    return found


def values(fleet: Fleet, count: int, **config: str) -> list[str]:
    """The first messages of all partitions, sorted."""
    consumer = librdkafka.Consumer(
        {"bootstrap.servers": fleet.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest", **config}
    )
    found: list[str] = []

    def more() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
        return len(found) >= count

    try:
        consumer.subscribe([TOPIC])
        eventually(more, WITHIN_S, f"{count} messages", lambda: repr(found))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(found)


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_messages_survive_their_server(fleet: Fleet, ends: str) -> None:
    fleet.start(1)
    fleet.start(2)
    fleet.servers[1].create_topic(TOPIC, 2)
    for partition in (0, 1):
        produce(fleet, partition, f"first {partition}")
    assert values(fleet, 2) == ["first 0", "first 1"]
    for node_id in (1, 2):
        getattr(fleet.servers.pop(node_id), ends)()
        fleet.start(node_id)
    for partition in (0, 1):
        produce(fleet, partition, f"second {partition}")
    # The group goes on at its offsets, and another one reads all.
    assert values(fleet, 2) == ["second 0", "second 1"]
    everything = ["first 0", "first 1", "second 0", "second 1"]
    assert values(fleet, 4, **{"group.id": "other"}) == everything


def test_an_aborted_transaction_stays_aborted_when_the_leader_starts_again(fleet: Fleet) -> None:
    fleet.start(1)
    fleet.servers[1].create_topic(TOPIC, 1)
    producer = librdkafka.Producer({"bootstrap.servers": fleet.bootstrap_servers, "transactional.id": "pay"})
    producer.init_transactions(WITHIN_S)
    for value in ("aborted", "committed"):
        producer.begin_transaction()
        producer.produce(TOPIC, value)
        (producer.commit_transaction if value == "committed" else producer.abort_transaction)(WITHIN_S)
    fleet.servers.pop(1).stop()
    fleet.start(1)
    assert values(fleet, 1, **{"isolation.level": "read_committed"}) == ["committed"]
    producer.begin_transaction()
    producer.produce(TOPIC, "later")
    producer.commit_transaction(WITHIN_S)
    assert values(fleet, 1, **{"isolation.level": "read_committed"}) == ["later"]


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_what_was_deleted_of_a_partition_stays_deleted(fleet: Fleet, ends: str) -> None:
    fleet.start(1)
    fleet.start(2)
    fleet.servers[1].create_topic(TOPIC, 2)
    for partition in (0, 1):
        produce(fleet, partition, *(f"{partition}-{number}" for number in range(5)))
    for partition, offset in ((0, 3), (1, 4)):
        assert delete_records(fleet, partition, offset) == offset
    for node_id in (1, 2):
        getattr(fleet.servers.pop(node_id), ends)()
        fleet.start(node_id)
    assert [bounds(fleet, partition) for partition in (0, 1)] == [(3, 5), (4, 5)]
    assert values(fleet, 3) == ["0-3", "0-4", "1-4"]
    assert delete_records(fleet, 0, 1) == 3, "a low watermark never falls"
    # A topic of the same name begins anew.
    delete(fleet)
    fleet.servers[1].create_topic(TOPIC, 2)
    produce(fleet, 0, "anew")
    assert bounds(fleet, 0) == (0, 1)


def test_a_topic_that_was_deleted_meanwhile_makes_room_for_another_one_of_its_name(fleet: Fleet) -> None:
    fleet.start(1)
    fleet.start(2)
    fleet.servers[1].create_topic(TOPIC, 2)
    for partition in (0, 1):
        produce(fleet, partition, "old")
    fleet.servers.pop(2).stop()
    delete(fleet)
    fleet.settle()
    # The partitions of a new topic go to the servers that beat: this one and, when it is back, the other.
    fleet.start(2)
    assert (fleet.data(2) / f"{TOPIC}-0").is_dir() != (fleet.data(2) / f"{TOPIC}-1").is_dir(), "it is kept"
    fleet.servers[1].create_topic(TOPIC, 2)
    for partition in (0, 1):
        produce(fleet, partition, f"new {partition}")
    assert values(fleet, 2) == ["new 0", "new 1"]


def test_a_topic_that_is_deleted_takes_its_messages_along(fleet: Fleet) -> None:
    fleet.start(1)
    fleet.start(2)
    fleet.servers[1].create_topic(TOPIC, 2)
    for partition in (0, 1):
        produce(fleet, partition, "old")

    def kept() -> list[str]:
        return sorted(path.name for node_id in (1, 2) for path in fleet.data(node_id).glob(f"{TOPIC}-*"))

    assert kept() == ["orders-0", "orders-1"]
    delete(fleet)
    eventually(lambda: not kept(), WITHIN_S, "the other server has deleted its partition, too", lambda: repr(kept()))


def test_messages_of_another_cluster_are_never_deleted(fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> None:
    fleet.start(1)
    fleet.servers[1].create_topic(TOPIC, 1)
    produce(fleet, 0, "theirs")
    fleet.servers.pop(1).stop()
    theirs, fleet.engine = fleet.engine, rota.MemoryEngine()
    server = fleet.start(1)
    assert "not used, and kept: orders-0; they are of another cluster" in capfd.readouterr().err
    server.create_topic(TOPIC, 1)
    with pytest.raises(rota.RotaError, match="KAFKA_STORAGE_ERROR"):
        server.produce(TOPIC, ["ours"])
    fleet.servers.pop(1).stop()
    fleet.engine = theirs
    fleet.start(1)
    assert values(fleet, 1) == ["theirs"]


def test_a_directory_has_one_node_and_is_not_for_a_server_that_is_alone(fleet: Fleet) -> None:
    fleet.start(1).stop()
    with pytest.raises(OSError, match="has the messages of node 1, and this is node 2: give its own"):
        rota.Server(engine=fleet.engine, node_id=2, data=fleet.data(1))
    with pytest.raises(OSError, match="whose groups are in its engine: give --engine"):
        rota.Server(data=fleet.data(1))
    file = fleet.data(1) / "rota.node"
    file.write_text(file.read_text().replace("node 1", "node 9"))
    with pytest.raises(OSError, match=r"`rota\.node` that cannot be read: its checksum is wrong"):
        rota.Server(engine=fleet.engine, node_id=1, data=fleet.data(1))


def test_a_directory_of_a_server_that_was_alone_keeps_its_groups_for_it(fleet: Fleet) -> None:
    with rota.Server(data=fleet.data(1), settings=SETTINGS) as alone:
        alone.create_topic(TOPIC, 1)
        alone.produce(TOPIC, ["alone"])
    fleet.start(1)
    fleet.servers.pop(1).stop()
    with rota.Server(data=fleet.data(1), settings=SETTINGS) as alone:
        assert [message.value for message in alone.messages(TOPIC)] == [b"alone"]


@pytest.mark.skipif(not is_installed(), reason="etcd is not installed (Debian: etcd-server, etcd-client)")
def test_what_was_acknowledged_survives_the_kill_of_the_process(tmp_path: Path) -> None:
    with Etcd(tmp_path) as etcd:
        words = ["--engine", etcd.url(), "--node-id", "1", "--ttl-ms", str(TTL_MS)]
        sent = 0
        for _ in range(3):
            with serving(tmp_path / "data", *words) as (process, ready):
                client: dict[str, Any] = {"bootstrap.servers": ready["listen"], "log_level": 0}
                if sent:
                    eventually(lambda: _end(client) == sent, WITHIN_S, f"{sent} messages")  # noqa: B023
                producer = librdkafka.Producer(client)
                for _ in range(100):
                    producer.produce(TOPIC, "message", partition=0)
                assert producer.flush(WITHIN_S) == 0
                sent += 100
                process.kill()


def _end(client: dict[str, Any]) -> int:
    """The end offset of partition 0; -1 while no server leads it. A client keeps the answer that there is no such
    topic for 30 s, so each client asks once."""
    consumer = librdkafka.Consumer(client | {"group.id": "g"})
    try:
        return int(consumer.get_watermark_offsets(librdkafka.TopicPartition(TOPIC, 0), timeout=ANSWER_WITHIN_S)[1])
    except librdkafka.KafkaException:
        return -1
    finally:
        consumer.close()
