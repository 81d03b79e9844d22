"""Consumers of librdkafka with `group.protocol=consumer` form groups on rota (docs/consumer-protocol.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import rota

from .eventually import eventually

TOPIC = "orders"
PARTITIONS = 6
WITHIN_S = 60.0
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
def address() -> Iterator[str]:
    with rota.Server(settings=SETTINGS) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(WITHIN_S)
        yield server.bootstrap_servers


class Members:
    """Consumers of one group, polled in turn. What a poll gives a consumer is kept."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.consumers: dict[str, Consumer] = {}
        self.read: list[bytes] = []

    def join(self, name: str, **settings: str) -> Consumer:
        config = {
            "bootstrap.servers": self.address,
            "group.id": "g",
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
        }
        consumer = Consumer({**config, **{key.replace("_", "."): value for key, value in settings.items()}})
        consumer.subscribe([TOPIC])
        self.consumers[name] = consumer
        return consumer

    def leave(self, name: str) -> None:
        self.consumers.pop(name).close()

    def poll(self) -> int:
        """Polls each consumer once; how many messages have been read."""
        for consumer in self.consumers.values():
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                self.read.append(value)
        return len(self.read)

    def owned(self) -> dict[str, list[int]]:
        self.poll()
        return {name: sorted(at.partition for at in consumer.assignment()) for name, consumer in self.consumers.items()}

    def share(self, *sizes: int, partitions: int = PARTITIONS) -> bool:
        """Whether every partition has one owner, and members own so many each."""
        owned = self.owned()
        everything = sorted(at for part in owned.values() for at in part)
        return everything == list(range(partitions)) and sorted(map(len, owned.values())) == sorted(sizes)

    def settle(self, *sizes: int, partitions: int = PARTITIONS) -> None:
        eventually(
            lambda: self.share(*sizes, partitions=partitions), WITHIN_S, f"shares {sizes}", lambda: str(self.owned())
        )


@pytest.fixture
def members(address: str) -> Iterator[Members]:
    members = Members(address)
    try:
        yield members
    finally:
        for consumer in members.consumers.values():
            consumer.close()


def test_members_that_join_and_leave_share_the_partitions(members: Members) -> None:
    members.join("a")
    members.settle(6)
    members.join("b")
    members.settle(3, 3)
    members.join("c")
    members.settle(2, 2, 2)
    members.leave("b")
    members.settle(3, 3)
    members.leave("a")
    members.settle(6)


def test_a_topic_that_grows_is_shared_anew(members: Members, address: str) -> None:
    members.join("a")
    members.join("b")
    members.settle(3, 3)
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_partitions([NewPartitions(TOPIC, 8)])[TOPIC].result(WITHIN_S)
    members.settle(4, 4, partitions=8)


def test_a_group_goes_on_where_it_committed(members: Members, address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(30):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    first = members.join("a")
    eventually(lambda: members.poll() >= 30, WITHIN_S, "all messages")
    first.commit(asynchronous=False)
    members.leave("a")
    producer.produce(TOPIC, b"later", partition=0)
    assert producer.flush(WITHIN_S) == 0
    members.read.clear()
    second = members.join("b")
    eventually(members.poll, WITHIN_S, "the next message")
    assert members.read == [b"later"]
    (committed,) = second.committed([TopicPartition(TOPIC, 1)], timeout=WITHIN_S)
    assert committed.offset == 5


def test_a_static_member_that_comes_back_keeps_its_partitions(members: Members) -> None:
    members.join("a", group_instance_id="ia")
    members.join("b", group_instance_id="ib")
    members.settle(3, 3)
    before = members.owned()["a"]
    members.leave("a")
    members.join("a", group_instance_id="ia")
    members.settle(3, 3)
    assert members.owned()["a"] == before


def test_the_group_is_listed_and_described_as_a_consumer_group(members: Members, address: str) -> None:
    members.join("a")
    members.settle(6)
    admin = AdminClient({"bootstrap.servers": address})
    (listed,) = admin.list_consumer_groups(request_timeout=WITHIN_S).result().valid
    assert (listed.group_id, listed.type) == ("g", ConsumerGroupType.CONSUMER)
    described = admin.describe_consumer_groups(["g"], request_timeout=WITHIN_S)["g"].result()
    assert described.state.name == "STABLE"
    (member,) = described.members
    assert sorted(at.partition for at in member.assignment.topic_partitions) == list(range(PARTITIONS))
