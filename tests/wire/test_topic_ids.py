"""OffsetCommit and OffsetFetch of version 10, which name topics by id (docs/protocol.md §10, §11).

What is expected here, codes and order, is what Apache Kafka 4.4 answered to the same requests.
"""

from __future__ import annotations

import pytest

import rota
from harness.raw import METADATA, OFFSET_COMMIT, OFFSET_FETCH, Connection, Reader, compact, frame, i32, i64, varint

Address = tuple[str, int]
Topics = list[tuple[bytes, list[int]]]

NONE, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_ID = 0, 3, 69, 100
NOWHERE, ZERO = b"\x11" * 16, b"\0" * 16


def id_of(address: Address, topic: str) -> bytes:
    """The id of a topic, by Metadata v10."""
    with Connection(address) as connection:
        asked = varint(2) + ZERO + compact(topic) + b"\0"
        answer = connection.ask(frame(METADATA, 10, asked + b"\0\0\0\0"))
        answer.take(1 + 4)
        for _ in range(answer.varint() - 1):
            answer.i32(), answer.compact(), answer.i32(), answer.compact(), answer.take(1)
        answer.compact(), answer.i32()
        assert (answer.varint(), answer.i16(), answer.compact()) == (2, NONE, topic)
        return answer.take(16)


@pytest.fixture
def orders(rota_server: rota.Server, address: Address) -> bytes:
    rota_server.create_topic("orders", 2)
    return id_of(address, "orders")


def commit(group: str, topics: Topics, *, generation: int = -1, member: str = "") -> bytes:
    body = compact(group) + i32(generation) + compact(member) + compact(None) + varint(len(topics) + 1)
    for topic, partitions in topics:
        body += topic + varint(len(partitions) + 1)
        for partition in partitions:
            body += i32(partition) + i64(5) + i32(-1) + compact("n") + b"\0"
        body += b"\0"
    return frame(OFFSET_COMMIT, 10, body + b"\0")


def committed(answer: Reader) -> Topics:
    """Topics with their partitions' codes."""
    assert (answer.take(1), answer.i32()) == (b"\0", 0)
    topics: Topics = []
    for _ in range(answer.varint() - 1):
        topic, codes = answer.take(16), []
        for _ in range(answer.varint() - 1):
            codes += [answer.i32(), answer.i16()]
            answer.take(1)
        answer.take(1)
        topics.append((topic, codes))
    assert answer.data == b"\0"
    return topics


def fetch(group: str, topics: Topics | None) -> bytes:
    body = varint(2) + compact(group) + compact(None) + i32(-1)
    body += varint(0) if topics is None else varint(len(topics) + 1)
    for topic, partitions in topics or []:
        body += topic + varint(len(partitions) + 1) + b"".join(map(i32, partitions)) + b"\0"
    return frame(OFFSET_FETCH, 10, body + b"\0" + b"\0" + b"\0")


def fetched(answer: Reader) -> Topics:
    """Topics with each partition's number, offset and code."""
    assert (answer.take(1), answer.i32(), answer.varint()) == (b"\0", 0, 2)
    answer.compact()
    topics: Topics = []
    for _ in range(answer.varint() - 1):
        topic, found = answer.take(16), []
        for _ in range(answer.varint() - 1):
            found += [answer.i32(), answer.i64()]
            assert answer.i32() == -1
            assert answer.compact() == ("" if found[-1] == -1 else "n")
            found.append(answer.i16())
            answer.take(1)
        answer.take(1)
        topics.append((topic, found))
    assert (answer.i16(), answer.data) == (NONE, b"\0\0")
    return topics


def test_an_unknown_id_is_refused_on_each_partition_before_the_group_is_looked_at(
    rota_server: rota.Server, address: Address, orders: bytes
) -> None:
    with Connection(address) as connection:
        refused = committed(connection.ask(commit("g", [(NOWHERE, [0, 1])])))
        assert refused == [(NOWHERE, [0, UNKNOWN_TOPIC_ID, 1, UNKNOWN_TOPIC_ID])]
        refused = committed(connection.ask(commit("g", [(ZERO, [0]), (NOWHERE, []), (orders, [])])))
        assert refused == [(ZERO, [0, UNKNOWN_TOPIC_ID]), (NOWHERE, [])]
    assert rota_server.groups() == []


def test_what_is_refused_comes_first_and_a_topic_is_one_entry(address: Address, orders: bytes) -> None:
    with Connection(address) as connection:
        answer = committed(connection.ask(commit("g", [(orders, [0, 9]), (NOWHERE, [0]), (orders, [1])])))
    assert answer == [
        (orders, [9, UNKNOWN_TOPIC_OR_PARTITION, 0, NONE, 1, NONE]),
        (NOWHERE, [0, UNKNOWN_TOPIC_ID]),
    ]


def test_an_error_of_the_group_is_beside_the_unknown_id(address: Address, orders: bytes) -> None:
    with Connection(address) as connection:
        request = commit("nobody", [(orders, [0]), (NOWHERE, [0])], generation=5, member="m")
        assert committed(connection.ask(request)) == [
            (NOWHERE, [0, UNKNOWN_TOPIC_ID]),
            (orders, [0, GROUP_ID_NOT_FOUND]),
        ]


def test_offsets_are_fetched_by_id_and_unknown_ids_come_last(address: Address, orders: bytes) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", [(orders, [0, 1])])))
        asked: Topics = [(NOWHERE, [0, 1]), (orders, [0, 7]), (ZERO, [2]), (orders, [1])]
        assert fetched(connection.ask(fetch("g", asked))) == [
            (orders, [0, 5, NONE, 7, -1, NONE]),
            (orders, [1, 5, NONE]),
            (NOWHERE, [0, -1, UNKNOWN_TOPIC_ID, 1, -1, UNKNOWN_TOPIC_ID]),
            (ZERO, [2, -1, UNKNOWN_TOPIC_ID]),
        ]
        assert fetched(connection.ask(fetch("g", [(NOWHERE, []), (orders, [])]))) == [(orders, []), (NOWHERE, [])]


def test_all_offsets_of_a_group_come_with_their_ids(address: Address, orders: bytes) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", [(orders, [0, 1])])))
        assert fetched(connection.ask(fetch("g", None))) == [(orders, [0, 5, NONE, 1, 5, NONE])]
        assert fetched(connection.ask(fetch("nobody", None))) == []


def test_a_topic_that_is_made_again_has_another_id_and_no_offsets(
    rota_server: rota.Server, address: Address, orders: bytes
) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", [(orders, [0])])))
        connection.ask(frame(20, 1, i32(1) + b"\0\x06orders" + i32(1_000)))
        rota_server.create_topic("orders", 2)
        again = id_of(address, "orders")
        assert again != orders
        assert fetched(connection.ask(fetch("g", [(orders, [0]), (again, [0])]))) == [
            (again, [0, -1, NONE]),
            (orders, [0, -1, UNKNOWN_TOPIC_ID]),
        ]
