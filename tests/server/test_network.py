"""Faults of the network: answers that are late or lost, connections that are dropped, nodes that are down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

import rota
from harness.raw import API_VERSIONS, Connection, frame, join

SILENCE_S = 0.3
LONG_MS = 3_600_000
GROUP = "shipping"
SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture(params=["memory", "disk"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rota.Server]:
    """Three nodes with topic `orders`."""
    data = tmp_path / "data" if request.param == "disk" else None
    with rota.Server(settings=SETTINGS, nodes=3, data=data) as server:
        server.create_topic("orders", partitions=3)
        yield server


def connected(server: rota.Server, node: int) -> Connection:
    host, _, port = server.nodes()[node].rpartition(":")
    return Connection((host, int(port)))


def ask_versions(connection: Connection) -> None:
    """ApiVersions v0."""
    connection.send(frame(API_VERSIONS, 0))


def is_answered(connection: Connection) -> bool:
    """Whether the connection is alive."""
    ask_versions(connection)
    return connection.receive()[:4] == (7).to_bytes(4)


def test_answers_of_one_api_from_one_node_are_late_until_the_fault_ends(server: rota.Server) -> None:
    with connected(server, 1) as here, connected(server, 2) as there:
        late = server.faults.delay_answers(LONG_MS, api="ApiVersions", node=1)
        ask_versions(here)
        assert is_answered(there)
        assert here.is_silent(SILENCE_S)
        assert (late.count, late.left) == (1, None)
        late.end()
        assert here.receive()[:4] == (7).to_bytes(4)
        assert is_answered(here)
        assert (late.count, late.left) == (1, 0)


def test_an_answer_is_late_by_as_much_as_was_asked_for(server: rota.Server) -> None:
    with connected(server, 1) as connection, server.faults.delay_answers(int(SILENCE_S * 2_000)) as late:
        ask_versions(connection)
        assert connection.is_silent(SILENCE_S)
        assert connection.receive()[:4] == (7).to_bytes(4)
        assert late.count == 1


def test_a_delay_of_another_api_delays_nothing(server: rota.Server) -> None:
    with connected(server, 1) as connection, server.faults.delay_answers(LONG_MS, api="Heartbeat") as late:
        assert is_answered(connection)
        assert late.count == 0


def test_what_follows_a_late_answer_waits_behind_it(server: rota.Server) -> None:
    with connected(server, 1) as connection:
        with server.faults.delay_answers(LONG_MS):
            ask_versions(connection)
            assert connection.is_silent(SILENCE_S)
            ask_versions(connection)
            assert connection.is_silent(SILENCE_S)
        for _ in range(2):
            assert connection.receive()[:4] == (7).to_bytes(4)


def test_a_server_stops_while_answers_are_late() -> None:
    with rota.Server() as server, connected(server, 1) as connection:
        server.faults.delay_answers(LONG_MS)
        ask_versions(connection)
        assert connection.is_silent(SILENCE_S)
        server.stop()
        with pytest.raises(rota.ServerError, match="has been stopped"):
            server.faults.delay_answers(1)


def test_so_many_answers_are_lost_and_the_next_is_not(server: rota.Server) -> None:
    lost = server.faults.drop_answers("ApiVersions", times=2)
    for left in (1, 0):
        with connected(server, 1) as connection:
            ask_versions(connection)
            assert connection.ends()
            assert lost.left == left
    with connected(server, 1) as connection:
        assert is_answered(connection)
    assert lost.count == 2


def test_connections_of_one_node_or_of_all_are_dropped(server: rota.Server) -> None:
    with connected(server, 1) as first, connected(server, 2) as second:
        assert is_answered(first)
        assert is_answered(second)
        assert server.faults.drop_connections(node=2) == 1
        assert second.ends()
        assert is_answered(first)
        with connected(server, 3) as third:
            assert is_answered(third)
            assert server.faults.drop_connections() == 2
            assert first.ends()
            assert third.ends()
        with connected(server, 2) as again:
            assert is_answered(again)


def test_a_node_that_is_down_refuses_connections_and_comes_back_on_its_port(server: rota.Server) -> None:
    host, _, port = server.nodes()[2].rpartition(":")
    with connected(server, 2) as connection:
        assert is_answered(connection)
        outage = server.faults.stop_node(2)
        assert connection.ends()
    assert server.faults.down_nodes() == [2]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    server.faults.stop_node(2)
    with pytest.raises(rota.RotaError, match="node 2 is down: start it before you move a partition to it"):
        server.move_partition(0, 2)
    outage.end()
    outage.end()
    assert server.faults.down_nodes() == []
    with connected(server, 2) as connection:
        assert is_answered(connection)


@pytest.mark.clients
def test_groups_of_a_node_that_was_down_are_as_the_log_has_them(server: rota.Server) -> None:
    node = server.owner(server.partition_of(GROUP))
    settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False}
    with closing(Consumer({**settings, "heartbeat.interval.ms": 100, "log_level": 0})) as consumer:
        consumer.subscribe(["orders"])
        before = server.wait_until_stable(GROUP, members=1)
        while not consumer.assignment():
            consumer.poll(0.02)
        members = server.members(GROUP)
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        with server.faults.stop_node(node):
            assert GROUP not in server.groups()
        after = server.wait_until_stable(GROUP, members=1)
        assert (after.generation, server.members(GROUP)) == (before.generation, members)
        assert server.committed(GROUP) == {("orders", 0): 7}
        consumer.commit(offsets=[TopicPartition("orders", 0, 8)], asynchronous=False)
        assert server.committed(GROUP) == {("orders", 0): 8}


@pytest.mark.clients
def test_a_group_is_moved_off_a_node_that_is_down(server: rota.Server) -> None:
    partition = server.partition_of(GROUP)
    node = server.owner(partition)
    settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False}
    with closing(Consumer({**settings, "log_level": 0})) as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        with server.faults.stop_node(node):
            server.move_partition(partition, node % 3 + 1)
            consumer.commit(offsets=[TopicPartition("orders", 0, 8)], asynchronous=False)
            assert server.committed(GROUP) == {("orders", 0): 8}
        assert server.owner(partition) == node % 3 + 1


@pytest.mark.clients
def test_the_other_nodes_do_not_name_one_that_is_down(server: rota.Server) -> None:
    consumer = Consumer({"bootstrap.servers": server.nodes()[1], "group.id": GROUP, "log_level": 0})
    with closing(consumer), server.faults.stop_node(3):
        metadata = consumer.list_topics("orders", timeout=30)
        assert sorted(metadata.brokers) == [1, 2]
        leaders = {place.id: (place.leader, place.error) for place in metadata.topics["orders"].partitions.values()}
        lost = [error.name() for leader, error in leaders.values() if leader == -1]
        assert lost == ["LEADER_NOT_AVAILABLE"]


def test_time_moves_on_while_a_node_is_down() -> None:
    clock = rota.VirtualClock()
    with rota.Server(nodes=2, clock=clock) as server, server.faults.stop_node(2):
        clock.advance(60_000)
        assert clock.now_ms == 60_000


def test_loads_that_are_held_do_not_hold_up_a_node_that_comes_back(server: rota.Server) -> None:
    server.faults.hold_loads()
    with server.faults.stop_node(1):
        pass
    with connected(server, 1) as connection:
        assert is_answered(connection)
    server.faults.release_loads()


def test_a_port_that_was_taken_meanwhile_is_an_error_and_the_node_stays_down() -> None:
    with rota.Server() as server:
        server.faults.stop_node(1)
        with socket.socket() as taken:
            taken.bind((server.host, server.port))
            taken.listen()
            with pytest.raises(OSError, match="is in use"):
                server.faults.start_node(1)
            assert server.faults.down_nodes() == [1]
        server.faults.start_node(1)
        with connected(server, 1) as connection:
            assert is_answered(connection)


@pytest.mark.clients
def test_a_commit_whose_append_is_reported_as_failed_is_in_the_log(server: rota.Server) -> None:
    settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        server.faults.lose_append_answers("REQUEST_TIMED_OUT", times=100)
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[TopicPartition("orders", 0, 8)], asynchronous=False)
        assert server.committed(GROUP) == {("orders", 0): 7}
        server.faults.reset()
        partition = server.partition_of(GROUP)
        server.move_partition(partition, server.owner(partition))
        assert server.committed(GROUP) == {("orders", 0): 8}


def commit(server: rota.Server, offset: int) -> None:
    settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


def load_again(server: rota.Server) -> None:
    partition = server.partition_of(GROUP)
    server.move_partition(partition, server.owner(partition))


@pytest.mark.clients
def test_a_commit_that_is_stored_twice_is_answered_once_and_loaded_once(server: rota.Server) -> None:
    server.faults.duplicate_appends(times=100)
    commit(server, 7)
    commit(server, 8)
    load_again(server)
    assert server.committed(GROUP) == {("orders", 0): 8}


@pytest.mark.clients
def test_a_commit_that_is_fenced_is_not_stored_until_the_partition_is_loaded_again(server: rota.Server) -> None:
    commit(server, 7)
    server.faults.fence_appends()
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        commit(server, 8)
    load_again(server)
    assert server.committed(GROUP) == {("orders", 0): 7}
    commit(server, 9)
    assert server.committed(GROUP) == {("orders", 0): 9}


@pytest.mark.clients
def test_a_partition_moves_while_logs_do_not_open_and_is_loaded_when_they_do(server: rota.Server) -> None:
    commit(server, 7)
    server.faults.hold_opens()
    load_again(server)
    assert server.faults.release_opens() == 1
    assert server.faults.release_opens() == 0
    assert server.committed(GROUP) == {("orders", 0): 7}


@pytest.mark.clients
def test_everything_that_was_asked_for_ends_with_a_reset(server: rota.Server) -> None:
    late, lost = server.faults.delay_answers(LONG_MS), server.faults.drop_answers(times=100)
    injected = server.faults.inject_error("Heartbeat", "NOT_COORDINATOR", times=5)
    server.faults.fail_appends("NOT_ENOUGH_REPLICAS", times=5)
    server.faults.delay_appends(LONG_MS)
    server.faults.hold_appends()
    server.faults.hold_loads()
    server.faults.hold_opens()
    server.faults.duplicate_appends(times=5)
    server.faults.fence_appends(times=5)
    server.faults.stop_node(2)
    server.faults.reset()
    assert (late.left, lost.left, injected.left, server.faults.down_nodes()) == (0, 0, 0, [])
    server.move_partition(server.partition_of(GROUP), 2)
    settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    assert server.committed(GROUP) == {("orders", 0): 7}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.delay_answers(-1), ValueError, "ms is -1"),
        (lambda s: s.delay_answers(1, api="Heartbeats"), ValueError, "no API `Heartbeats`; .* `Heartbeat`"),
        (lambda s: s.drop_answers("Fetsh"), ValueError, "the nearest one is `Fetch`"),
        (lambda s: s.drop_answers(times=-1), ValueError, "times is -1"),
        (lambda s: s.delay_answers(1, node=4), rota.NotFoundError, "there is no node 4: give 1 to 3"),
        (lambda s: s.drop_connections(node=0), rota.NotFoundError, "there is no node 0: give 1 to 3"),
        (lambda s: s.stop_node(4), rota.NotFoundError, "there is no node 4: give 1 to 3"),
        (lambda s: s.start_node(-5), rota.NotFoundError, "there is no node -5: give 1 to 3"),
        (lambda s: s.stop_node("2"), TypeError, "node is '2': give a whole number"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(
    server: rota.Server, call: object, error: type[Exception], message: str
) -> None:
    assert callable(call)
    with pytest.raises(error, match=message):
        call(server)


def test_a_join_that_waits_is_closed_by_an_outage_and_not_answered() -> None:
    settings = {"group.initial.rebalance.delay.ms": LONG_MS}
    with rota.Server(settings=settings) as server, connected(server, 1) as connection:
        connection.send(join("g"))
        assert connection.is_silent(SILENCE_S)
        server.faults.stop_node(1)
        assert connection.ends()
