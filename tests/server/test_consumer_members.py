"""Members of consumer groups (KIP-848) under the controls of a test: time and injected errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

import rota
from harness.peer import host_port
from harness.raw import Connection
from rota.conform.consumer import ConsumerWire
from tests.clients.eventually import eventually
from tests.server.messages import delete_topic, deleted

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
GROUP, TOPIC = "g", "t"
SESSION_MS = 45_000
REBALANCE_TIMEOUT_MS = 100_000
JOINS = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, UNKNOWN_MEMBER_ID = 14, 16, 25
WITHIN_S = 60.0


class Members:
    """Members that send single heartbeats over one connection."""

    def __init__(self, address: str) -> None:
        self.wire = ConsumerWire(host_port(address), "")

    def ask(self, member_id: str, epoch: int, **fields: Any) -> Any:
        request = {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, "instance_id": None}
        others = {"rack_id": None, "subscribed_topic_regex": None, "server_assignor": None}
        stays = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
        return self.wire.ask("ConsumerGroupHeartbeat", 1, request | others | stays | fields)

    def join(self, member_id: str) -> Any:
        return self.ask(member_id, 0, **JOINS)


@pytest.fixture
def clock() -> rota.VirtualClock:
    return rota.VirtualClock()


@pytest.fixture
def server(clock: rota.VirtualClock) -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS, clock=clock) as server:
        server.create_topic(TOPIC, partitions=4)
        yield server


@pytest.fixture
def members(server: rota.Server) -> Iterator[Members]:
    members = Members(server.bootstrap_servers)
    yield members
    members.wire.close()


def partitions(answer: Any) -> int:
    return sum(len(topic["partitions"]) for topic in answer["assignment"]["topic_partitions"])


def test_connected_members_keep_their_sessions_when_the_clock_is_advanced(
    server: rota.Server, clock: rota.VirtualClock, members: Members
) -> None:
    assert partitions(members.join("m1")) == 4
    clock.advance(10 * SESSION_MS)
    assert server.explain(GROUP).state == "Stable"
    assert members.ask("m1", 2)["error_code"] == 0
    clock.advance(SESSION_MS, expire=["m1"])
    assert server.explain(GROUP).state == "Empty"
    assert members.ask("m1", 2)["error_code"] == UNKNOWN_MEMBER_ID


def test_the_session_of_a_member_without_a_connection_expires(
    server: rota.Server, clock: rota.VirtualClock, members: Members
) -> None:
    members.join("m1")
    eventually(lambda: server.faults.drop_connections() == 0, WITHIN_S, "no connection is open")
    clock.advance(SESSION_MS)
    assert server.explain(GROUP).state == "Empty"


def test_a_topic_that_is_deleted_and_created_again_during_a_load_is_assigned(
    server: rota.Server, members: Members
) -> None:
    members.join("m1")
    server.faults.hold_loads()
    server.move_partition(server.partition_of(GROUP), server.owner(server.partition_of(GROUP)))
    with Connection(host_port(server.bootstrap_servers)) as connection:
        assert deleted(connection.ask(delete_topic(TOPIC))) == 0
    server.create_topic(TOPIC, partitions=3)
    assert members.ask("m1", 2)["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
    assert server.faults.release_loads() == 1
    assert partitions(members.join("m1")) == 3


def test_a_member_that_gives_nothing_up_keeps_its_session_until_its_rebalance_timeout(
    server: rota.Server, clock: rota.VirtualClock, members: Members
) -> None:
    members.join("m1")
    members.join("m2")
    assert partitions(members.ask("m1", 2)) == 2
    clock.advance(REBALANCE_TIMEOUT_MS - 1)
    assert sorted(server.members(GROUP)) == ["m1", "m2"]
    clock.advance(1)
    assert list(server.members(GROUP)) == ["m2"]
    assert server.explain(GROUP).rebalances[-1].cause == "RevocationExpired"
    assert partitions(members.ask("m2", 3)) == 4


def test_a_member_that_has_not_heard_of_its_new_assignment_keeps_its_session_and_hears_of_it(
    server: rota.Server, clock: rota.VirtualClock, members: Members
) -> None:
    members.join("m1")
    members.join("m2")
    clock.advance(10 * SESSION_MS)
    assert partitions(members.ask("m1", 2)) == 2
    assert server.explain(GROUP).waiting[0].what == "Revoke"


def test_a_static_member_that_is_away_does_not_keep_its_session(
    server: rota.Server, clock: rota.VirtualClock, members: Members
) -> None:
    members.ask("m1", 0, instance_id="i", **JOINS)
    assert members.ask("m1", -2, instance_id="i")["error_code"] == 0
    clock.advance(SESSION_MS)
    assert server.explain(GROUP).state == "Empty"


def test_errors_are_injected_into_requests_of_the_group(server: rota.Server, members: Members) -> None:
    members.join("m1")
    injected = server.faults.inject_error("ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS", group=GROUP)
    assert members.ask("m1", 2)["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
    assert injected.count == 1
    assert members.ask("m1", 2)["error_code"] == 0
    server.faults.inject_error("ConsumerGroupDescribe", "COORDINATOR_LOAD_IN_PROGRESS")
    asked = {"group_ids": [GROUP], "include_authorized_operations": False}
    [described] = members.wire.ask("ConsumerGroupDescribe", 1, asked)["groups"]
    assert described["error_code"] == COORDINATOR_LOAD_IN_PROGRESS


def test_consumers_of_librdkafka_keep_their_sessions(server: rota.Server, clock: rota.VirtualClock) -> None:
    with contextlib.ExitStack() as stack:
        consumers = []
        for name in ("ana", "ben"):
            settings = {"client.id": name, "group.id": GROUP, "group.protocol": "consumer"}
            consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, **settings})
            stack.callback(consumer.close)
            consumer.subscribe([TOPIC])
            consumers.append(consumer)

        def owned() -> list[int]:
            for consumer in consumers:
                consumer.poll(0.02)
            return [len(consumer.assignment()) for consumer in consumers]

        eventually(lambda: owned() == [2, 2], WITHIN_S, "a share each", lambda: str(owned()))
        epoch = server.explain(GROUP).generation
        for _ in range(3):
            clock.advance(SESSION_MS)
            owned()
        assert (server.explain(GROUP).generation, owned()) == (epoch, [2, 2])
        [ben] = [name for name, member in server.members(GROUP).items() if name == consumers[1].memberid()]
        clock.advance(SESSION_MS, expire=[ben])
        assert server.explain(GROUP).rebalances[-1].cause == "SessionExpired"

        def is_shared_again() -> bool:
            return owned() == [2, 2] and server.explain(GROUP).generation == epoch + 2

        eventually(is_shared_again, WITHIN_S, "ben joins again", lambda: str(server.explain(GROUP)))


def test_only_the_node_that_coordinates_the_group_answers_its_members() -> None:
    with rota.Server(settings=SETTINGS, nodes=2) as server, contextlib.ExitStack() as stack:
        server.create_topic(TOPIC, partitions=4)
        members = {node: Members(address) for node, address in server.nodes().items()}
        for each in members.values():
            stack.callback(each.wire.close)
        partition = server.partition_of(GROUP)
        old, new = server.owner(partition), 3 - server.owner(partition)
        assert partitions(members[old].join("m1")) == 4
        assert members[new].ask("m1", 2)["error_code"] == NOT_COORDINATOR
        server.move_partition(partition, new)
        assert members[old].ask("m1", 2)["error_code"] == NOT_COORDINATOR
        assert members[new].ask("m1", 2)["error_code"] == 0
