"""Several servers share groups over one engine, with real clients (docs/cluster.md)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka as librdkafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

import rota
from harness import peer
from harness.peer import COORDINATOR_NOT_AVAILABLE, LEADER_NOT_AVAILABLE, NOT_COORDINATOR
from harness.raw import (
    API_VERSIONS,
    NONE,
    OFFSET_FETCH,
    REBALANCE_IN_PROGRESS,
    Connection,
    Reader,
    compact,
    frame,
    i32,
    varint,
)
from tests.clients.eventually import eventually

TTL_MS = 1_500
PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "offsets.topic.num.partitions": PARTITIONS,
}
GROUPS = [f"group-{number}" for number in range(8)]
TOPIC = "orders"
SESSION = "consumer.session.timeout.ms"


class Fleet:
    """Servers with node ids from 1, each on a port that it keeps."""

    def __init__(self) -> None:
        self.engine = rota.MemoryEngine()
        self.servers: dict[int, rota.Server] = {}
        self.ports: dict[int, int] = {}

    def start(self, node_id: int) -> rota.Server:
        listen = f"127.0.0.1:{self.ports.get(node_id, 0)}"
        server = rota.Server(listen, settings=SETTINGS, engine=self.engine, node_id=node_id, ttl_ms=TTL_MS)
        self.servers[node_id], self.ports[node_id] = server, server.port
        return server

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def holders(self) -> list[int | None]:
        """Who answers for each partition, if all running servers agree and nothing is being loaded."""
        seen = {tuple(row.coordinator for row in _cluster(server).partitions) for server in self.servers.values()}
        held = all(
            row.is_held and row.owner == row.coordinator
            for server in self.servers.values()
            for row in _cluster(server).partitions
        )
        loading = any(server._inner.loading() for server in self.servers.values())
        return list(seen.pop()) if len(seen) == 1 and held and not loading else [None]

    def settled(self, wanted: Callable[[list[int | None]], bool] = lambda _holders: True) -> list[int | None]:
        """Wait until every partition has an owner that lives, and `wanted` holds."""

        def look() -> list[int | None]:
            holders = self.holders()
            return holders if set(holders) <= set(self.servers) and wanted(holders) else []

        return eventually(look, 30, "every partition has an owner", lambda: repr(self.holders()))


def _cluster(server: rota.Server) -> Any:
    cluster = server.cluster()
    assert cluster is not None
    return cluster


@contextmanager
def fleet_of(count: int) -> Iterator[Fleet]:
    fleet = Fleet()
    try:
        for node_id in range(1, count + 1):
            fleet.start(node_id)
        fleet.settled(lambda holders: set(holders) == set(range(1, count + 1)))
        yield fleet
    finally:
        for server in fleet.servers.values():
            server.kill()


@pytest.fixture
def two() -> Iterator[Fleet]:
    with fleet_of(2) as fleet:
        fleet.servers[1].create_topic(TOPIC, 4)
        yield fleet


def commit(fleet: Fleet, group: str, offset: int) -> None:
    """Commit by librdkafka, again until it is acknowledged."""
    consumer = librdkafka.Consumer({"bootstrap.servers": fleet.bootstrap_servers, "group.id": group})
    position = [librdkafka.TopicPartition(TOPIC, 0, offset)]

    def committed() -> bool:
        try:
            consumer.commit(offsets=position, asynchronous=False)
        except librdkafka.KafkaException:
            return False
        return True

    try:
        eventually(committed, 30, f"{group} commits {offset}")
    finally:
        consumer.close()


def committed_offset(fleet: Fleet, group: str) -> int | None:
    """The committed offset as kafka-python sees it."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=fleet.bootstrap_servers.split(","), group_id=group)
    try:
        offset = consumer.committed(kafka.TopicPartition(TOPIC, 0))
        assert offset is None or isinstance(offset, int)
        return offset
    finally:
        consumer.close()


def test_clients_find_each_group_at_its_own_server(two: Fleet) -> None:
    for number, group in enumerate(GROUPS):
        commit(two, group, number)
    owners = {_cluster(two.servers[1]).partitions[two.servers[1].partition_of(group)].coordinator for group in GROUPS}
    assert owners == {1, 2}
    for number, group in enumerate(GROUPS):
        assert committed_offset(two, group) == number
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{two.ports[2]}"})
    described = admin.describe_cluster().result(timeout=10)
    assert sorted((node.id, node.port) for node in described.nodes) == sorted(two.ports.items())
    metadata = admin.list_topics(timeout=10)
    assert sorted(metadata.brokers) == [1, 2]
    leaders = {at: row.leader for at, row in metadata.topics["__consumer_offsets"].partitions.items()}
    assert leaders == dict(enumerate(two.holders()))
    assert {row.leader for row in metadata.topics[TOPIC].partitions.values()} == {1, 2}


def test_every_server_agrees_with_the_cluster_id_that_any_of_them_names(two: Fleet) -> None:
    """Clients send it in ApiVersions 5, and begin anew at error 129 (KIP-1242)."""
    for asked in two.ports.values():
        named = AdminClient({"bootstrap.servers": f"127.0.0.1:{asked}"}).list_topics(timeout=10).cluster_id
        for expected, node_id, port in [(0, node_id, port) for node_id, port in two.ports.items()] + [(129, 3, asked)]:
            body = compact("x") + compact("1") + compact(named) + i32(node_id) + b"\0"
            with Connection(("127.0.0.1", port)) as connection:
                assert connection.ask(frame(API_VERSIONS, 5, body)).i16() == expected


def test_commits_survive_the_kill_of_their_owner(two: Fleet) -> None:
    for number, group in enumerate(GROUPS):
        commit(two, group, 100 + number)
    two.servers.pop(2).kill()
    two.settled(lambda holders: set(holders) == {1})
    for number, group in enumerate(GROUPS):
        assert committed_offset(two, group) == 100 + number
        commit(two, group, 200 + number)
    two.start(2)
    two.settled(lambda holders: set(holders) == {1, 2})
    for number, group in enumerate(GROUPS):
        assert committed_offset(two, group) == 200 + number


def test_a_consumer_goes_on_after_its_coordinator_was_killed(two: Fleet) -> None:
    server = two.servers[1]
    holders = two.holders()
    group = next(name for name in GROUPS if holders[server.partition_of(name)] == 2)
    consumer = librdkafka.Consumer(
        {
            "bootstrap.servers": two.bootstrap_servers,
            "group.id": group,
            "session.timeout.ms": 6_000,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([TOPIC])

        def assigned() -> bool:
            consumer.poll(0.1)
            return len(consumer.assignment()) == 4

        eventually(assigned, 30, "the consumer has its partitions")
        two.servers.pop(2).kill()
        two.settled(lambda holders: set(holders) == {1})

        def commits() -> bool:
            consumer.poll(0.1)
            try:
                consumer.commit(offsets=[librdkafka.TopicPartition(TOPIC, 0, 7)], asynchronous=False)
            except librdkafka.KafkaException:
                return False
            return True

        eventually(commits, 30, "the consumer commits at the new coordinator")
    finally:
        consumer.close()
    assert committed_offset(two, group) == 7


def test_a_server_that_is_cut_off_answers_nothing_and_its_late_writes_do_not_count(two: Fleet) -> None:
    server, holders = two.servers[2], two.holders()
    group = next(name for name in GROUPS if holders[server.partition_of(name)] == 2)
    commit(two, group, 1)
    with Connection((server.host, server.port)) as connection:
        error, offsets = peer.fetched(connection.ask(peer.fetch(group, [0], topic=TOPIC)))
        assert (error, offsets[0]) == (NONE, 1)
        two.engine.set_faults(2, silent=True)
        connection.send(peer.commit(group, {0: 99}, -1, "", topic=TOPIC))
        others = Fleet()
        others.servers, others.ports = {1: two.servers[1]}, {1: two.ports[1]}
        others.settled(lambda holders: set(holders) == {1})
        # Its answer came when the session ended at the latest: a refusal.
        assert NONE not in peer.committed(_answer(connection))
        error, _ = peer.fetched(connection.ask(peer.fetch(group, [0], topic=TOPIC)))
        assert error == NOT_COORDINATOR
        commit(others, group, 2)
        two.engine.set_faults(2, silent=False)
        two.settled(lambda holders: set(holders) == {1, 2})
        assert committed_offset(two, group) == 2


def _answer(connection: Connection) -> Reader:
    answer = Reader(connection.receive())
    assert answer.i32() == 7
    return answer


def test_a_rolling_restart_loses_nothing_and_hands_over_without_waiting(two: Fleet) -> None:
    stopping = threading.Event()
    acknowledged: dict[str, int] = {}

    def work() -> None:
        offset = 0
        while not stopping.is_set():
            offset += 1
            for group in GROUPS[:2]:
                commit(two, group, offset)
                acknowledged[group] = offset

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for node_id in (2, 1):
            two.servers.pop(node_id).stop()
            two.settled(lambda holders: len(set(holders)) == 1)
            two.start(node_id)
            two.settled(lambda holders: set(holders) == {1, 2})
    finally:
        stopping.set()
        worker.join()
    for group in GROUPS[:2]:
        assert committed_offset(two, group) == acknowledged[group]


def test_a_topic_is_known_to_every_server_until_it_is_deleted(two: Fleet) -> None:
    admins = [AdminClient({"bootstrap.servers": f"127.0.0.1:{two.ports[at]}"}) for at in (1, 2)]
    admins[0].create_topics([NewTopic("new", 3)])["new"].result(timeout=10)

    def partitions(admin: Any) -> int:
        return len(admin.list_topics(timeout=10).topics["new"].partitions) if "new" in topics(admin) else 0

    def topics(admin: Any) -> set[str]:
        return set(admin.list_topics(timeout=10).topics)

    eventually(lambda: partitions(admins[1]) == 3, 10, "the other server has the topic")
    admins[1].delete_topics(["new"])["new"].result(timeout=10)
    eventually(lambda: "new" not in topics(admins[0]), 10, "the topic is gone everywhere")


def test_settings_of_groups_are_those_of_all_servers_and_survive_them(two: Fleet) -> None:
    group = next(each for each in GROUPS if two.holders()[two.servers[1].partition_of(each)] == 2)
    resource = ConfigResource(ConfigResource.Type.GROUP, group)
    entry = ConfigEntry(SESSION, "50000", incremental_operation=AlterConfigOpType.SET)

    def admin(at: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{two.ports[at]}"})

    def asked(at: int) -> str:
        asker = admin(at)
        # A server that has just started knows nothing yet.
        with contextlib.suppress(TimeoutError, librdkafka.KafkaException):
            return str(asker.describe_configs([resource])[resource].result(2)[SESSION].value)
        return ""

    changed = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    changer = admin(1)
    changer.incremental_alter_configs([changed])[changed].result(10)
    assert asked(1) == "50000"
    eventually(lambda: asked(2) == "50000", 10, "the group's own server knows the setting")
    for at in (1, 2):
        two.servers[at].kill()
    two.start(2)
    eventually(lambda: asked(2) == "50000", 30, "a server that has started knows it")


@pytest.mark.parametrize("version", [5, 8])
def test_fenced_reads_wait_for_the_engine_and_heartbeats_do_not(version: int) -> None:
    engine = rota.MemoryEngine()
    with (
        rota.Server(engine=engine, node_id=1, ttl_ms=20_000, reads="fenced", settings=SETTINGS) as server,
        Connection(("127.0.0.1", server.port), timeout=30) as member,
        Connection(("127.0.0.1", server.port), timeout=30) as reader,
    ):
        is_there = {TOPIC: NONE}
        eventually(lambda: peer.described(member.ask(peer.metadata(TOPIC)))[1] == is_there, 30, "the topic is there")
        eventually(lambda: peer.committed(member.ask(peer.commit("g", {0: 7}))) == {NONE}, 30, "a commit")
        named = peer.joined(member.ask(peer.join("g")))
        joined = peer.joined(member.ask(peer.join("g", named.member)))
        fetch = peer.fetch("g", [0]) if version < 8 else fetch_of_groups(["g", "other"])
        before = member.ask(fetch)
        engine.set_faults(1, silent=True)
        reader.send(fetch + fetch)
        assert reader.is_silent(0.3)
        beaten = peer.beaten(member.ask(peer.heartbeat("g", joined.generation, joined.member)))
        assert beaten in {NONE, REBALANCE_IN_PROGRESS}
        engine.set_faults(1, silent=False)
        assert [Reader(reader.receive()).data[4:] for _ in range(2)] == [before.data] * 2


def fetch_of_groups(groups: list[str]) -> bytes:
    """An OffsetFetch v8 of partition 0."""
    topic = varint(2) + compact(TOPIC) + varint(2) + i32(0) + b"\0"
    asked = b"".join(compact(group) + topic + b"\0" for group in groups)
    return frame(OFFSET_FETCH, 8, varint(len(groups) + 1) + asked + b"\0\0")


def test_what_is_missing_or_wrong_is_said() -> None:
    engine = rota.MemoryEngine()
    with pytest.raises(ValueError, match="an engine needs a node_id"):
        rota.Server(engine=engine)
    with pytest.raises(ValueError, match="there is no engine"):
        rota.Server(node_id=1)
    with pytest.raises(ValueError, match="ttl_ms is 5: give 500 to 60000"):
        rota.Server(engine=engine, node_id=1, ttl_ms=5)
    with pytest.raises(ValueError, match="reads is 'never': give one of session, fenced"):
        rota.Server(engine=engine, node_id=1, reads="never")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one node"):
        rota.Server(engine=engine, node_id=1, nodes=2)
    with pytest.raises(ValueError, match="give etcd:"):
        rota.Server(engine="http://localhost", node_id=1)


def test_a_server_without_its_engine_starts_and_says_why_it_is_not_ready() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"etcd://127.0.0.1:{taken.getsockname()[1]}/rota"
        with rota.Server(engine=url, node_id=1) as server:
            eventually(lambda: _cluster(server).reason, 20, "a reason")
            cluster = _cluster(server)
            assert (cluster.standing, cluster.is_ready) == ("joining", False)
            with Connection((server.host, server.port)) as connection:
                error, _ = peer.fetched(connection.ask(peer.fetch("g", [0])))
                assert error == NOT_COORDINATOR
                # It does not know whether a topic exists.
                assert peer.described(connection.ask(peer.metadata(TOPIC))) == ([1], {TOPIC: LEADER_NOT_AVAILABLE})
                assert peer.described(connection.ask(peer.metadata(None))) == ([], {})
                answer = connection.ask(peer.commit("g", {0: 1}, topic=TOPIC))
                assert peer.committed(answer) == {NOT_COORDINATOR}
                assert peer.found(connection.ask(peer.find("g")))[0] == COORDINATOR_NOT_AVAILABLE


def test_a_producer_whose_server_has_not_joined_yet_waits_for_its_topic() -> None:
    with fleet_of(1) as fleet:
        fleet.servers[1].create_topic(TOPIC, 1)
        fleet.servers.pop(1).kill()
        # It waits for half a TTL before it joins.
        fleet.start(1)
        fleet.engine.set_faults(1, silent=True)
        producer = librdkafka.Producer({"bootstrap.servers": fleet.bootstrap_servers})
        metadata = producer.list_topics(TOPIC, timeout=10)
        # Another id than that of its cluster would be another cluster to clients.
        assert metadata.cluster_id is None
        answer = metadata.topics[TOPIC].error
        assert answer is not None
        assert answer.code() == LEADER_NOT_AVAILABLE
        delivered: list[object] = []
        producer.produce(TOPIC, "v", on_delivery=lambda error, _message: delivered.append(error))
        producer.poll(0.5)
        assert delivered == []
        fleet.engine.set_faults(1, silent=False)
        fleet.settled()
        # Much sooner than the 30 s for which it remembers that a topic does not exist.
        assert producer.flush(10) == 0
        assert delivered == [None]


def test_faults_of_nodes_know_a_server_of_a_cluster_by_its_own_id() -> None:
    with rota.Server(engine=rota.MemoryEngine(), node_id=5) as server:
        with server.faults.delay_answers(10, node=5):
            pass
        with pytest.raises(rota.NotFoundError, match=r"^there is no node 1: give 5$"):
            server.faults.delay_answers(10, node=1)
        with pytest.raises(ValueError, match=r"a server that is a node of a cluster cannot do this: its node is the"):
            server.faults.stop_node(5)
        server.faults.reset()


def test_a_server_can_be_waited_for_until_it_has_joined() -> None:
    engine = rota.MemoryEngine()
    with rota.Server(settings=SETTINGS, engine=engine, node_id=1, ttl_ms=500) as server:
        server.wait_until_ready()
        assert _cluster(server).is_ready
        engine.set_faults(1, silent=True)
        eventually(lambda: not _cluster(server).is_ready, 60, "the server notices")
        with pytest.raises(TimeoutError, match=r"the server did not join its cluster within 0.1 s: \w+"):
            server.wait_until_ready(timeout=0.1)
        server.stop()
        with pytest.raises(rota.ServerError):
            server.wait_until_ready()
    with rota.Server() as alone:
        alone.wait_until_ready(timeout=0)
