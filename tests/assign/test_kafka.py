"""Kafka's classes beside rota's: a small part of `make compare-assignors`, and the bytes of the consumer protocol."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rota
import rota.assign
from rota.model.assignors import Partition
from tests.assign import differential
from tests.assign.kafka import Kafka, member_as_json

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("kafka-assignors")]

TOPICS = st.sampled_from(["a", "b", "topic-é", "z" * 100])
PARTITIONS = st.lists(st.tuples(TOPICS, st.integers(0, 5)), max_size=6, unique=True).map(sorted)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as running:
        yield running


def by_topic(partitions: list[Partition]) -> list[tuple[str, list[int]]]:
    grouped: dict[str, list[int]] = {}
    for topic, index in partitions:
        grouped.setdefault(topic, []).append(index)
    return list(grouped.items())


def test_no_plan_is_worse_than_kafkas_and_the_exact_ones_are_equal() -> None:
    tallies = list(differential.rows(400, seed=7))
    assert [tally.shown for _, _, tally in tallies if tally.counts["worse"] or tally.counts["error"]] == []
    better = {name for name, _, tally in tallies if tally.counts["loads"] + tally.counts["moves"]}
    assert better == {"sticky", "cooperative_sticky", "uniform"}
    assert max(rounds for _, _, tally in tallies for rounds in tally.rota_rounds) == 2


@settings(max_examples=100, deadline=None)
@given(
    st.lists(TOPICS, unique=True).map(sorted),
    PARTITIONS,
    st.integers(-1, 2**31 - 1),
    st.sampled_from([None, "r1", "rack-é"]),
    st.integers(0, 3),
)
def test_subscriptions_are_written_as_kafka_writes_them(
    kafka: Kafka, topics: list[str], owned: list[Partition], generation: int, rack: str | None, version: int
) -> None:
    said = rota.assign.Subscriber(topics, None, owned, generation, rack)
    answer = kafka.ask("subscription", member=member_as_json("m", topics, said), version=version)
    subscription = rota.protocol.Subscription(
        topics, owned_partitions=by_topic(owned), generation=generation, rack=rack, version=version
    )
    assert rota.protocol.encode_subscription(subscription).hex() == answer["bytes"]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(TOPICS, unique=True),
    PARTITIONS,
    st.integers(-1, 2**31 - 1),
    st.sampled_from([None, "", "r1"]),
    st.none() | st.binary(max_size=5),
    st.integers(0, 9),
)
def test_kafka_reads_what_rota_writes(
    kafka: Kafka,
    topics: list[str],
    owned: list[Partition],
    generation: int,
    rack: str | None,
    user_data: bytes | None,
    version: int,
) -> None:
    subscription = rota.protocol.Subscription(
        topics,
        owned_partitions=by_topic(owned),
        generation=generation,
        rack=rack,
        user_data=user_data,
        version=version,
    )
    data = rota.protocol.encode_subscription(subscription)
    theirs: Any = kafka.ask("read subscription", bytes=data.hex())
    ours = rota.assign.read_members({"m": data})["m"]
    assert theirs["topics"] == list(ours.topics)
    assert [tuple(one) for one in theirs["owned"]] == list(ours.owned)
    assert theirs["generation"] == ours.generation
    assert theirs["rack"] == ours.rack
    assert theirs["user_data"] == (None if ours.user_data is None else ours.user_data.hex())


@settings(max_examples=60, deadline=None)
@given(PARTITIONS, st.integers(0, 3))
def test_assignments_are_written_as_kafka_writes_them(kafka: Kafka, partitions: list[Partition], version: int) -> None:
    answer = kafka.ask("assignment", partitions=partitions, version=version)
    assert (
        rota.protocol.encode_assignment(rota.protocol.Assignment(by_topic(partitions), version=version)).hex()
        == answer["bytes"]
    )
    if version == 3:
        assert rota.assign.encode_plan({"m": partitions})["m"].hex() == answer["bytes"]


@settings(max_examples=60, deadline=None)
@given(PARTITIONS, st.integers(0, 2**31 - 1))
def test_the_user_data_of_sticky_is_kafkas(kafka: Kafka, partitions: list[Partition], generation: int) -> None:
    theirs = bytes.fromhex(
        kafka.ask("user data", assignor="sticky", partitions=partitions, generation=generation)["bytes"]
    )
    read, read_generation = rota.assign.decode_sticky_user_data(theirs)
    assert (sorted((topic, list(indices)) for topic, indices in read), read_generation) == (
        by_topic(partitions),
        generation,
    )
    # Java writes the topics in the order of its hashes; in that order the bytes are the same.
    assert rota.assign.encode_sticky_user_data(read, generation) == theirs


@settings(max_examples=20, deadline=None)
@given(st.integers(-1, 2**31 - 1))
def test_the_user_data_of_cooperative_sticky_is_kafkas(kafka: Kafka, generation: int) -> None:
    answer = kafka.ask("user data", assignor="cooperative_sticky", partitions=[], generation=generation)
    assert rota.assign.encode_cooperative_sticky_user_data(generation).hex() == answer["bytes"]
    assert rota.assign.decode_cooperative_sticky_user_data(bytes.fromhex(answer["bytes"])) == generation
