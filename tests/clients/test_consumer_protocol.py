"""Consumers of librdkafka with `group.protocol=consumer` form groups on rota (docs/consumer-protocol.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaConsumer

import rota

from .eventually import eventually

TOPIC = "orders"
PARTITIONS = 6
WITHIN_S = 60.0
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
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

    def join(self, name: str, topics: Sequence[str] = (TOPIC,), **settings: str) -> Consumer:
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
        consumer.subscribe(list(topics))
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

    def read_all(self, count: int) -> None:
        """Polls until so many messages have been read."""
        eventually(lambda: self.poll() >= count, WITHIN_S, f"{count} messages")

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


def by_topic(members: Members) -> dict[str, dict[str, int]]:
    """How many partitions of each topic each member owns."""
    members.poll()
    owned: dict[str, dict[str, int]] = {}
    for name, consumer in members.consumers.items():
        found: dict[str, int] = {}
        for at in consumer.assignment():
            found[at.topic] = found.get(at.topic, 0) + 1
        owned[name] = found
    return owned


def test_a_pattern_follows_the_topics_that_come_and_go(members: Members, address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("logs-a", 2)])["logs-a"].result(WITHIN_S)
    members.join("a", topics=["^logs-.*"])
    eventually(lambda: by_topic(members) == {"a": {"logs-a": 2}}, WITHIN_S, "logs-a", lambda: str(by_topic(members)))
    admin.create_topics([NewTopic("logs-b", 2)])["logs-b"].result(WITHIN_S)
    both = {"a": {"logs-a": 2, "logs-b": 2}}
    eventually(lambda: by_topic(members) == both, WITHIN_S, "logs-b", lambda: str(by_topic(members)))
    members.join("b", topics=["^logs-.*", TOPIC])

    def is_shared() -> bool:
        owned = by_topic(members)
        sizes = [sum(found.values()) for found in owned.values()]
        return sum(sizes) == 10 and "logs-b" in owned["a"] | owned["b"]

    eventually(is_shared, WITHIN_S, "all partitions of both", lambda: str(by_topic(members)))
    admin.delete_topics(["logs-a"])["logs-a"].result(WITHIN_S)

    def is_gone() -> bool:
        return all("logs-a" not in found for found in by_topic(members).values())

    eventually(is_gone, WITHIN_S, "logs-a is deleted", lambda: str(by_topic(members)))


def test_a_pattern_that_is_not_valid_is_refused_with_the_reason(members: Members) -> None:
    consumer = members.join("a", topics=[r"^(logs)\1"])
    told: list[str] = []

    def refused() -> bool:
        message = consumer.poll(0.05)
        error = None if message is None else message.error()
        if error is not None:
            told.append(error.str())
        return any("The regular expression is not valid" in text for text in told)

    eventually(refused, WITHIN_S, "an error about the pattern", lambda: str(told))


def test_a_groups_own_settings_are_set_and_described(members: Members, address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    name = "consumer.heartbeat.interval.ms"

    def alter(value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
        (changed,) = admin.incremental_alter_configs([resource]).values()
        changed.result(WITHIN_S)

    alter("150")
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.GROUP, "g")]).values()
    assert described.result(WITHIN_S)[name].value == "150"
    with pytest.raises(KafkaException, match=f"{name} must be in the range 100 to 15000 inclusive."):
        alter("99")
    members.join("a")
    members.settle(6)


CLASSIC = {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"}
MEMBERS = ("a", "b", "c", "d")
POLL_MS = 100


def group_type(address: str) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": address})
    (listed,) = admin.list_consumer_groups(request_timeout=WITHIN_S).result().valid
    found: ConsumerGroupType = listed.type
    return found


def test_a_rolling_upgrade_and_downgrade_of_four_members_keeps_every_partition_owned(
    members: Members, address: str
) -> None:
    for name in MEMBERS:
        members.join(name, (TOPIC,), **CLASSIC)
    members.settle(1, 1, 2, 2)
    assert group_type(address) == ConsumerGroupType.CLASSIC
    for name in MEMBERS:
        members.leave(name)
        members.join(name)
        members.settle(1, 1, 2, 2)
        assert group_type(address) == ConsumerGroupType.CONSUMER
    for name in MEMBERS:
        members.leave(name)
        members.join(name, (TOPIC,), **CLASSIC)
        members.settle(1, 1, 2, 2)
    assert group_type(address) == ConsumerGroupType.CLASSIC


def test_a_rolling_upgrade_processes_every_message_once(members: Members, address: str) -> None:
    for name in MEMBERS:
        members.join(name, (TOPIC,), **CLASSIC)
    members.settle(1, 1, 2, 2)
    producer = Producer({"bootstrap.servers": address})
    sent = 0
    for name in MEMBERS:
        for _ in range(12):
            producer.produce(TOPIC, b"%d" % sent, partition=sent % PARTITIONS)
            sent += 1
        assert producer.flush(WITHIN_S) == 0
        members.read_all(sent)
        for consumer in members.consumers.values():
            consumer.commit(asynchronous=False)
        members.leave(name)
        members.join(name)
        members.settle(1, 1, 2, 2)
    assert sorted(members.read) == sorted(b"%d" % number for number in range(sent))


class KafkaPython(Thread):
    """A consumer of kafka-python, which speaks the classic protocol, polled until it is closed."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.closing = Event()
        self.consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id="g",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
        )

    def run(self) -> None:
        while not self.closing.is_set():
            self.consumer.poll(timeout_ms=POLL_MS)
        self.consumer.close()

    def owned(self) -> list[int]:
        return sorted(place.partition for place in self.consumer.assignment())

    def close(self) -> None:
        self.closing.set()
        self.join(WITHIN_S)
        assert not self.is_alive()


@pytest.fixture
def kafka_python(address: str) -> Iterator[KafkaPython]:
    consumer = KafkaPython(address)
    consumer.start()
    yield consumer
    consumer.close()


def test_members_of_kafka_python_and_of_the_newer_protocol_share_a_group(
    members: Members, kafka_python: KafkaPython, address: str
) -> None:
    def shares(*, with_newer: bool) -> bool:
        owned = [*members.owned().values(), kafka_python.owned()]
        sizes = [PARTITIONS // len(owned)] * len(owned)
        everything = sorted(at for part in owned for at in part)
        return len(owned) == 1 + with_newer and everything == list(range(PARTITIONS)) and [*map(len, owned)] == sizes

    eventually(lambda: shares(with_newer=False), WITHIN_S, "kafka-python alone")
    assert group_type(address) == ConsumerGroupType.CLASSIC
    members.join("newer")
    eventually(lambda: shares(with_newer=True), WITHIN_S, "both protocols")
    assert group_type(address) == ConsumerGroupType.CONSUMER
    members.leave("newer")
    eventually(lambda: shares(with_newer=False), WITHIN_S, "kafka-python alone again")
    assert group_type(address) == ConsumerGroupType.CLASSIC
