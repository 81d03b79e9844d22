"""The front-end of OffsetCommit and the forms of OffsetFetch (docs/protocol.md §10, §11)."""

from __future__ import annotations

import pytest

import rota
from harness.raw import OFFSET_COMMIT, OFFSET_FETCH, Connection, Reader, compact, frame, i16, i32, i64, string, varint
from tests.clients.eventually import until_it_waits

Address = tuple[str, int]
UNKNOWN_TOPIC_OR_PARTITION = 3


@pytest.fixture(autouse=True)
def topics(rota_server: rota.Server) -> None:
    rota_server.create_topic("orders", 2)


def commit(group: str, topics: dict[str, list[int]], offset: int = 5) -> bytes:
    """An OffsetCommit v2 that is not from a member."""
    body = string(group) + i32(-1) + string("") + i64(-1) + i32(len(topics))
    for topic, partitions in topics.items():
        body += string(topic) + i32(len(partitions))
        for partition in partitions:
            body += i32(partition) + i64(offset) + string(f"note {partition}")
    return frame(OFFSET_COMMIT, 2, body)


def committed(answer: Reader) -> list[tuple[str | None, list[tuple[int, int]]]]:
    return [(answer.string(), [(answer.i32(), answer.i16()) for _ in range(answer.i32())]) for _ in range(answer.i32())]


def test_unknown_topics_and_partitions_are_refused_first_and_a_topic_with_both_is_one_entry(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(commit("g", {"orders": [0, 9, 1], "nowhere": [0]}))
        assert committed(answer) == [
            ("orders", [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, 0), (1, 0)]),
            ("nowhere", [(0, UNKNOWN_TOPIC_OR_PARTITION)]),
        ]


def test_a_commit_of_unknown_topics_only_does_not_make_a_group(rota_server: rota.Server, address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(commit("g", {"nowhere": [0, 1]}))
        refused = [(0, UNKNOWN_TOPIC_OR_PARTITION), (1, UNKNOWN_TOPIC_OR_PARTITION)]
        assert committed(answer) == [("nowhere", refused)]
        assert committed(connection.ask(commit("g", {}))) == []
    assert rota_server.groups() == []


def test_what_was_committed_is_fetched_and_what_was_not_is_minus_one(address: Address) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", {"orders": [0]}, offset=41)))
        body = string("g") + i32(1) + string("orders") + i32(2) + i32(0) + i32(1)
        answer = connection.ask(frame(OFFSET_FETCH, 1, body))
    expected = i32(1) + string("orders") + i32(2)
    expected += i32(0) + i64(41) + string("note 0") + i16(0) + i32(1) + i64(-1) + string("") + i16(0)
    assert answer.data == expected


def test_a_fetch_does_not_ask_whether_a_topic_exists(address: Address) -> None:
    with Connection(address) as connection:
        body = string("g") + i32(1) + string("nowhere") + i32(1) + i32(3)
        answer = connection.ask(frame(OFFSET_FETCH, 2, body))
    assert answer.data == i32(1) + string("nowhere") + i32(1) + i32(3) + i64(-1) + string("") + i16(0) + i16(0)


def test_several_groups_are_answered_in_the_order_of_the_request(address: Address) -> None:
    groups = [f"group {number}" for number in (3, 1, 2, 3)]
    with Connection(address) as connection:
        for group in set(groups):
            committed(connection.ask(commit(group, {"orders": [1]}, offset=int(group[-1]))))
        body = varint(5) + b"".join(compact(group) + varint(0) + b"\0" for group in groups) + b"\0\0"
        answer = connection.ask(frame(OFFSET_FETCH, 8, body))
    expected = b"\0" + i32(0) + varint(5)
    for group in groups:
        partition = i32(1) + i64(int(group[-1])) + i32(-1) + compact("note 1") + i16(0) + b"\0"
        expected += compact(group) + varint(2) + compact("orders") + varint(2) + partition + b"\0" + i16(0) + b"\0"
    assert answer.data == expected + b"\0"


def test_a_fetch_of_no_groups_is_answered(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(OFFSET_FETCH, 8, varint(1) + b"\0\0"))
    assert answer.data == b"\0" + i32(0) + varint(1) + b"\0"


def test_a_commit_waits_for_the_log(rota_server: rota.Server, address: Address) -> None:
    rota_server.hold_appends()
    with Connection(address) as connection:
        connection.send(commit("g", {"orders": [0]}))
        until_it_waits(rota_server)
        assert connection.is_silent(0.2)
        rota_server.release_appends()
        assert connection.receive()[-6:] == i32(0) + i16(0)


def test_a_commit_that_the_log_refuses_says_so_and_the_next_one_is_stored(
    rota_server: rota.Server, address: Address
) -> None:
    rota_server.fail_appends("NOT_ENOUGH_REPLICAS", 1)
    with Connection(address) as connection:
        assert committed(connection.ask(commit("g", {"orders": [0]}))) == [("orders", [(0, 15)])]
        assert committed(connection.ask(commit("g", {"orders": [0]}))) == [("orders", [(0, 0)])]
