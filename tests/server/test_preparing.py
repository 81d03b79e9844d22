"""What a test prepares on a server before its consumers start: messages with headers, topics, committed offsets."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import rota
from rota.messages import Headers
from tests.clients.eventually import eventually

from .test_consumer_members import GROUP as CONSUMERS
from .test_consumer_members import Members

WITHIN_S = 30
GROUP = "shipping"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}
HEADERS: list[tuple[str, str | bytes | None]] = [
    ("trace", b"7"),
    ("trace", b"8"),
    ("none", None),
    ("näme", "wört".encode()),
    ("empty", b""),
]
JOINS = {"rebalance_timeout_ms": 60_000, "topic_partitions": []}

pytestmark = pytest.mark.clients


@pytest.fixture(params=["one-node", "three-nodes", "virtual-clock", "disk"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rota.Server]:
    nodes = 3 if request.param == "three-nodes" else 1
    clock = rota.VirtualClock() if request.param == "virtual-clock" else None
    data = tmp_path / "data" if request.param == "disk" else None
    with rota.Server(settings=SETTINGS, nodes=nodes, clock=clock, data=data) as server:
        server.create_topic("orders", partitions=2)
        yield server


def consumer(server: rota.Server, **settings: object) -> closing[Consumer]:
    own = {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False}
    return closing(Consumer({**own, "auto.offset.reset": "earliest", **settings}))


def as_admin(server: rota.Server, offsets: list[TopicPartition]) -> list[TopicPartition]:
    """The answer to a commit of an admin client."""
    client = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    (future,) = client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP, offsets)]).values()
    found: list[TopicPartition] = future.result(WITHIN_S).topic_partitions
    return found


def members_of(server: rota.Server) -> Members:
    """Members of the newer protocol, connected to their coordinator."""
    return Members(server.nodes()[server.owner(server.partition_of(CONSUMERS))])


def test_headers_that_a_server_produces_are_those_that_clients_read(server: rota.Server) -> None:
    pairs: list[Headers] = [
        [("trace", "7"), ("trace", b"8"), ("none", None), ("näme", "wört"), ("empty", "")],
        {"one": b"1"},
        (),
    ]
    assert server.produce("orders", ["a", "b", "c"], headers=pairs, partition=1) == [0, 1, 2]
    expected = [HEADERS, [("one", b"1")], []]
    with consumer(server) as reader:
        reader.assign([TopicPartition("orders", 1, 0)])
        read = reader.consume(3, timeout=WITHIN_S)
    assert [message.value() for message in read] == [b"a", b"b", b"c"]
    assert [message.headers() or [] for message in read] == expected
    with closing(kafka.KafkaConsumer(bootstrap_servers=server.bootstrap_servers.split(","))) as other:
        at = kafka.TopicPartition("orders", 1)
        other.assign([at])
        other.seek(at, 0)
        assert [list(next(other).headers) for _ in expected] == expected
    assert [list(message.headers) for message in server.messages("orders")] == expected


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_headers_that_clients_produce_are_seen(server: rota.Server, codec: str) -> None:
    client = Producer({"bootstrap.servers": server.bootstrap_servers, "compression.type": codec})
    client.produce("orders", b"a", key=b"k", headers=list(HEADERS), partition=0)
    client.produce("orders", b"b", partition=0)
    client.flush()
    with closing(kafka.KafkaProducer(bootstrap_servers=server.bootstrap_servers.split(","))) as other:
        other.send("orders", b"c", headers=[("from", b"kafka-python")], partition=1).get(WITHIN_S)
    found = server.messages("orders")
    assert [list(message.headers) for message in found] == [HEADERS, [], [("from", b"kafka-python")]]
    assert [(message.key, message.value) for message in found] == [(b"k", b"a"), (None, b"b"), (None, b"c")]


def test_the_bytes_of_headers_count_in_a_batch(server: rota.Server) -> None:
    """Those of 20 messages together are more than a topic takes in one batch."""
    header = ("bytes", b"x" * 100_000)
    assert server.produce("orders", ["v"] * 20, headers=[[header]] * 20) == list(range(20))
    assert [message.headers for message in server.messages("orders")] == [(header,)] * 20


def test_a_message_is_unpacked_and_compared_as_before() -> None:
    plain = rota.Message(0, 5, 1_000, None, b"v")
    headed = rota.Message(0, 5, 1_000, None, b"v", [("name", b"x")])
    partition, offset, timestamp_ms, key, value = headed
    assert (partition, offset, timestamp_ms, key, value) == plain == headed[:]
    assert (plain.headers, headed.headers) == ((), (("name", b"x"),))
    assert headed == (0, 5, 1_000, None, b"v")
    assert headed != plain
    assert (headed == plain) is False
    assert headed == rota.Message(0, 5, 1_000, None, b"v", [("name", b"x")])
    assert len({headed, plain}) == 2
    for same in (copy.copy(headed), pickle.loads(pickle.dumps(headed)), headed._replace(value=b"v")):
        assert (same, same.headers) == (headed, headed.headers)
    assert headed._replace(offset=6).headers == headed.headers
    assert (
        repr(headed)
        == "Message(partition=0, offset=5, timestamp_ms=1000, key=None, value=b'v', headers=(('name', b'x'),))"
    )


@pytest.mark.parametrize(
    ("headers", "error", "message"),
    [
        ([[("a", b"1")]], ValueError, "headers has 1, and values has 2: give the headers for each value"),
        ([("a", b"1"), ("b", b"2")], TypeError, r"headers has \('a', b'1'\) in it: give for each value its headers"),
        ({"a": b"1"}, TypeError, r"headers is \{'a': b'1'\}: give for each value its headers, a list"),
        ("ab", TypeError, "headers is 'ab': give for each value"),
        ([None, None], TypeError, "headers has None in it: give for each value"),
        ([[("a", b"1", 2)], []], TypeError, r"headers has \[\('a', b'1', 2\)\] in it: give for each value"),
        ([[(b"a", b"1")], []], TypeError, "the name of a header is b'a': give a str"),
        ([[("a", 1)], []], TypeError, "header 'a' has 1 in it: give str, bytes or None"),
    ],
)
def test_headers_that_cannot_be_are_refused(headers: object, error: type[Exception], message: str) -> None:
    with rota.Server() as server:
        server.create_topic("orders")
        with pytest.raises(error, match=message):
            server.produce("orders", ["a", "b"], headers=headers)  # type: ignore[arg-type]
        assert server.messages("orders") == []


def test_topics_are_listed_with_their_partitions(server: rota.Server) -> None:
    server.create_topic("returns")
    client = Producer({"bootstrap.servers": server.bootstrap_servers})
    client.produce("created.by.a.client", b"v")
    client.flush()
    server.add_partitions("returns", 3)
    assert list(server.topics().items()) == [("created.by.a.client", 1), ("orders", 2), ("returns", 4)]


def test_a_deleted_topic_takes_its_messages_and_offsets_with_it(server: rota.Server) -> None:
    server.create_topic("stays")
    server.produce("orders", ["before"])
    groups = [f"group-{number}" for number in range(6)]
    for group in groups:
        server.commit(group, {("orders", 0): 1, ("stays", 0): 0})
    server.delete_topic("orders")
    assert server.topics() == {"stays": 1}
    assert [server.committed(group) for group in groups] == [{("stays", 0): 0}] * 6
    with pytest.raises(rota.NotFoundError, match="there is no topic `orders`"):
        server.messages("orders")
    server.create_topic("orders")
    assert server.messages("orders") == []
    assert server.committed(groups[0]) == {("stays", 0): 0}


def test_members_of_the_newer_protocol_give_up_a_deleted_topic(server: rota.Server) -> None:
    server.create_topic("returns")
    members = members_of(server)
    with closing(members.wire):
        answer = members.ask("m1", 0, **JOINS, subscribed_topic_names=["orders", "returns"])
        assert sorted(len(topic["partitions"]) for topic in answer["assignment"]["topic_partitions"]) == [1, 2]
        epoch, owned = answer["member_epoch"], answer["assignment"]["topic_partitions"]
        server.delete_topic("returns")

        def assigned() -> list[int]:
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders", "returns"]}
            answer = members.ask("m1", epoch, **fields, topic_partitions=owned)
            return [len(topic["partitions"]) for topic in (answer["assignment"] or {}).get("topic_partitions", [])]

        eventually(lambda: assigned() == [2], WITHIN_S, "only the other topic is assigned")


def test_a_topic_that_cannot_be_deleted_is_an_error(server: rota.Server) -> None:
    with pytest.raises(rota.NotFoundError, match="there is no topic `order`; the nearest one is `orders`") as found:
        server.delete_topic("order")
    assert found.value.what == "topic"
    with pytest.raises(rota.RotaError, match="cannot delete topic `__consumer_offsets`: INVALID_TOPIC_EXCEPTION"):
        server.delete_topic("__consumer_offsets")
    with pytest.raises(TypeError, match="name is 5: give a str"):
        server.delete_topic(5)  # type: ignore[arg-type]
    assert server.topics() == {"orders": 2}


def test_a_consumer_begins_at_the_offsets_that_a_test_commits(server: rota.Server) -> None:
    server.produce("orders", ["old", "older", "new"])
    server.produce("orders", ["new, too"], partition=1)
    server.commit(GROUP, {("orders", 0): 2})
    assert server.committed(GROUP) == {("orders", 0): 2}
    with consumer(server) as reader:
        reader.subscribe(["orders"])
        read = reader.consume(2, timeout=WITHIN_S)
    assert sorted(message.value() or b"" for message in read) == [b"new", b"new, too"]


def test_a_later_commit_replaces_the_earlier_one_as_that_of_an_admin_client_does(server: rota.Server) -> None:
    server.commit(GROUP, {("orders", 0): 2, ("orders", 1): 1})
    [answer] = as_admin(server, [TopicPartition("orders", 1, 5)])
    assert answer.error is None
    server.commit(GROUP, {("orders", 0): 3})
    server.commit(GROUP, {})
    assert server.committed(GROUP) == {("orders", 0): 3, ("orders", 1): 5}


def test_a_group_with_members_takes_no_commits_of_others(server: rota.Server) -> None:
    with consumer(server) as reader:
        reader.subscribe(["orders"])
        server.wait_until_stable(GROUP, members=1)
        [answer] = as_admin(server, [TopicPartition("orders", 0, 5)])
        assert answer.error is not None
        assert answer.error.name() == "UNKNOWN_MEMBER_ID"
        refusal = "cannot commit offsets of group `shipping`: UNKNOWN_MEMBER_ID: it has members; close or expire them"
        with pytest.raises(rota.RotaError, match=refusal):
            server.commit(GROUP, {("orders", 0): 5})
        assert server.committed(GROUP) == {}
        eventually(lambda: reader.poll(0.02) is None and reader.assignment(), WITHIN_S, "it may be closed")
    server.wait_until_stable(GROUP, members=0)
    server.commit(GROUP, {("orders", 0): 5})
    assert server.committed(GROUP) == {("orders", 0): 5}


def test_a_group_of_the_newer_protocol_with_members_takes_none_either(server: rota.Server) -> None:
    members = members_of(server)
    with closing(members.wire):
        answer = members.ask("m1", 0, **JOINS, subscribed_topic_names=["orders"])
        assert answer["error_code"] == 0
        with pytest.raises(rota.RotaError, match="UNKNOWN_MEMBER_ID: it has members"):
            server.commit(CONSUMERS, {("orders", 0): 5})
        assert members.ask("m1", -1)["error_code"] == 0
        server.commit(CONSUMERS, {("orders", 0): 5})
        assert server.committed(CONSUMERS) == {("orders", 0): 5}


def test_a_commit_of_what_is_not_there_stores_nothing(server: rota.Server) -> None:
    [answer] = as_admin(server, [TopicPartition("order", 0, 5)])
    assert answer.error is not None
    assert answer.error.name() == "UNKNOWN_TOPIC_OR_PART"
    with pytest.raises(rota.NotFoundError, match="there is no topic `order`; the nearest one is `orders`"):
        server.commit(GROUP, {("orders", 0): 1, ("order", 0): 1})
    with pytest.raises(rota.NotFoundError, match="topic `orders` has no partition 2: give 0 to 1") as found:
        server.commit(GROUP, {("orders", 0): 1, ("orders", 2): 1})
    assert found.value.what == "partition"
    assert GROUP not in server.groups()


@pytest.mark.parametrize(
    ("offsets", "error", "message"),
    [
        ([("orders", 0, 1)], TypeError, "offsets is .*: give a mapping from"),
        ({"orders": 1}, TypeError, r"offsets has 'orders' in it: give \(topic, partition\), such as \('orders', 0\)"),
        ({("orders", "0"): 1}, TypeError, "partition is '0': give a whole number"),
        ({("orders", -1): 1}, ValueError, "partition is -1: give 0 to"),
        ({("orders", 0): "1"}, TypeError, r"the offset of \('orders', 0\) is '1': give a whole number"),
        ({("orders", 0): -1}, ValueError, r"the offset of \('orders', 0\) is -1: give 0 to"),
    ],
)
def test_offsets_that_cannot_be_are_refused(offsets: object, error: type[Exception], message: str) -> None:
    with rota.Server() as server:
        server.create_topic("orders")
        with pytest.raises(error, match=message):
            server.commit(GROUP, offsets)  # type: ignore[arg-type]


def test_a_commit_that_fails_or_is_never_durable_is_an_error() -> None:
    clock = rota.VirtualClock()
    with rota.Server(clock=clock) as server:
        server.create_topic("orders")
        server.faults.fail_appends("NOT_ENOUGH_REPLICAS")
        with pytest.raises(
            rota.RotaError, match="cannot commit offsets of group `shipping`: COORDINATOR_NOT_AVAILABLE"
        ):
            server.commit(GROUP, {("orders", 0): 1})
        server.faults.hold_appends()
        with pytest.raises(rota.RotaError, match="is not durable in time: release the appends, or advance"):
            server.commit(GROUP, {("orders", 0): 1})
        server.faults.release_appends()
        server.commit(GROUP, {("orders", 0): 2})
        assert server.committed(GROUP) == {("orders", 0): 2}
