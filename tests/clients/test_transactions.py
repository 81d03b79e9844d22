"""Transactions of unmodified clients: what a reader of committed messages sees, who is fenced, and offsets of a group
that commit with the messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from .family import FAMILIES, FRANZ_GO, Family, need
from .reading import committed, consumer, read
from .scene import Scene

WITHIN_S = 30
PARTITIONS = 2


def producer(scene: Scene, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": transactional_id})
    made.init_transactions(WITHIN_S)
    return made


@pytest.mark.scenario("16 transactions")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_transaction_of_every_client_is_committed_or_aborted_with_its_offsets(scene: Scene, family: Family) -> None:
    topic = scene.topic(1)
    client = scene.client(family)
    client.send("transact", transactional_id=scene.name, topic=topic, group=scene.group, within_ms=WITHIN_S * 1000)
    reply = client.reply(within_s=WITHIN_S)
    assert reply["ok"], f"{reply}\n{client.story()}"
    assert read(scene.bootstrap, topic, 1) == ["committed"]
    assert read(scene.bootstrap, topic, 1, "read_uncommitted") == ["aborted", "committed"]
    assert committed(scene.bootstrap, scene.group, topic) == 1


@pytest.mark.scenario("51 transactions, whole or not at all")
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_readers_of_committed_messages_see_a_transaction_whole_or_not_at_all(scene: Scene, is_commit: bool) -> None:
    topic = scene.topic(PARTITIONS)
    writer = producer(scene, scene.name)
    writer.begin_transaction()
    expected = []
    for number in range(20):
        expected.append(f"m{number:02}")
        writer.produce(topic, value=expected[-1], partition=number % PARTITIONS)
    assert writer.flush(WITHIN_S) == 0
    assert read(scene.bootstrap, topic, PARTITIONS) == []
    assert read(scene.bootstrap, topic, PARTITIONS, "read_uncommitted") == expected
    if is_commit:
        writer.commit_transaction(WITHIN_S)
    else:
        writer.abort_transaction(WITHIN_S)
    assert read(scene.bootstrap, topic, PARTITIONS) == (expected if is_commit else [])


@pytest.mark.scenario("52 transactions, zombies")
def test_a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction(scene: Scene) -> None:
    topic = scene.topic(1)
    zombie = producer(scene, scene.name)
    zombie.begin_transaction()
    zombie.produce(topic, value="zombie", partition=0)
    assert zombie.flush(WITHIN_S) == 0
    successor = producer(scene, scene.name)
    assert read(scene.bootstrap, topic, 1) == []
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(WITHIN_S)
    error = refused.value.args[0]
    assert error.fatal(), error
    assert error.code() == KafkaError._FENCED, error
    successor.begin_transaction()
    successor.produce(topic, value="successor", partition=0)
    successor.commit_transaction(WITHIN_S)
    assert read(scene.bootstrap, topic, 1) == ["successor"]


def messages(reader: Consumer, count: int) -> Iterator[str]:
    while count:
        message = reader.poll(WITHIN_S)
        assert message is not None, f"{count} messages are missing"
        if message.error() is None:
            count -= 1
            value = message.value()
            assert isinstance(value, bytes)
            yield value.decode()


@pytest.mark.scenario("53 consume, process, produce")
def test_offsets_of_a_live_group_commit_and_abort_with_the_messages(scene: Scene) -> None:
    source, sink = scene.topic(1, "-source"), scene.topic(1, "-sink")
    inputs = [f"m{number}" for number in range(5)]
    plain = Producer({"bootstrap.servers": scene.bootstrap})
    for value in inputs:
        plain.produce(source, value=value, partition=0)
    assert plain.flush(WITHIN_S) == 0
    member = consumer(scene.bootstrap, scene.group)
    member.subscribe([source])
    worker = producer(scene, scene.name)
    for is_commit in (False, True):
        worker.begin_transaction()
        for value in messages(member, len(inputs)):
            worker.produce(sink, value=f"{value}, processed", partition=0)
        assert member.assignment(), "the group is live"
        positions = member.position(member.assignment())
        worker.send_offsets_to_transaction(positions, member.consumer_group_metadata(), WITHIN_S)
        if is_commit:
            worker.commit_transaction(WITHIN_S)
            continue
        assert worker.flush(WITHIN_S) == 0
        worker.abort_transaction(WITHIN_S)
        assert committed(scene.bootstrap, scene.group, source) < 0, "an aborted offset is not there"
        assert read(scene.bootstrap, sink, 1) == []
        member.seek(TopicPartition(source, 0, 0))
    assert committed(scene.bootstrap, scene.group, source) == len(inputs)
    assert read(scene.bootstrap, sink, 1) == [f"{value}, processed" for value in inputs]
    member.close()


@pytest.mark.scenario("53 consume, process, produce")
def test_offsets_of_a_session_of_franz_go_commit_and_abort_with_the_messages(scene: Scene) -> None:
    need(FRANZ_GO)
    source, sink = scene.topic(1, "-source"), scene.topic(1, "-sink")
    inputs = [f"m{number}" for number in range(5)]
    client = scene.client(FRANZ_GO)
    client.ask("produce", topic=source, partition=0, values=inputs)
    asked = {"transactional_id": scene.name, "group": scene.group, "topics": [source], "topic": sink}
    client.ask("transform", WITHIN_S, **asked, count=len(inputs), within_ms=WITHIN_S * 1000)
    outputs = [f"{value}, processed" for value in inputs]
    assert read(scene.bootstrap, sink, 1) == outputs
    assert read(scene.bootstrap, sink, 1, "read_uncommitted") == sorted(outputs + outputs)
    assert committed(scene.bootstrap, scene.group, source) == len(inputs)


@pytest.mark.scenario("54 offsets of a member that left")
def test_offsets_of_a_member_that_has_left_are_refused_and_the_transaction_can_be_aborted(scene: Scene) -> None:
    source, sink = scene.topic(1, "-source"), scene.topic(1, "-sink")
    plain = Producer({"bootstrap.servers": scene.bootstrap})
    plain.produce(source, value="m", partition=0)
    assert plain.flush(WITHIN_S) == 0
    member = consumer(scene.bootstrap, scene.group)
    member.subscribe([source])
    assert list(messages(member, 1)) == ["m"]
    positions, metadata = member.position(member.assignment()), member.consumer_group_metadata()
    member.close()
    worker = producer(scene, scene.name)
    worker.begin_transaction()
    worker.produce(sink, value="late", partition=0)
    with pytest.raises(KafkaException) as refused:
        worker.send_offsets_to_transaction(positions, metadata, WITHIN_S)
    assert refused.value.args[0].txn_requires_abort(), refused.value
    worker.abort_transaction(WITHIN_S)
    assert read(scene.bootstrap, sink, 1) == []
    assert committed(scene.bootstrap, scene.group, source) < 0
