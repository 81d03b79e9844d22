"""DeleteGroups and OffsetDelete (docs/protocol.md §12.3, §12.4): order, duplicates and codes as Apache Kafka 4.4's."""

from __future__ import annotations

import pytest

import rota
from harness.raw import (
    DELETE_GROUPS,
    NONE,
    OFFSET_DELETE,
    Connection,
    Member,
    Reader,
    compact,
    frame,
    i32,
    string,
    varint,
)
from tests.clients.eventually import until_it_waits

from .test_offsets import commit, committed

Address = tuple[str, int]

UNKNOWN_TOPIC_OR_PARTITION, INVALID_GROUP_ID, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 3, 24, 68, 69
COORDINATOR_NOT_AVAILABLE = 15


@pytest.fixture(autouse=True)
def topics(rota_server: rota.Server) -> None:
    rota_server.create_topic("orders", 2)


def delete(groups: list[str], version: int = 3) -> bytes:
    if version < 2:
        return frame(DELETE_GROUPS, version, i32(len(groups)) + b"".join(map(string, groups)))
    return frame(DELETE_GROUPS, version, varint(len(groups) + 1) + b"".join(map(compact, groups)) + b"\0")


def deleted(answer: Reader, version: int = 3) -> list[tuple[str | None, int]]:
    """Groups and codes; a message of v3 must be null."""
    if version < 2:
        assert answer.i32() == 0
        return [(answer.string(), answer.i16()) for _ in range(answer.i32())]
    assert (answer.take(1), answer.i32()) == (b"\0", 0)
    results = []
    for _ in range(answer.varint() - 1):
        results.append((answer.compact(), answer.i16()))
        assert answer.take(1 + (version >= 3)) == b"\0" * (1 + (version >= 3))
    assert answer.data == b"\0"
    return results


def delete_offsets(group: str, topics: list[tuple[str, list[int]]]) -> bytes:
    body = string(group) + i32(len(topics))
    for topic, partitions in topics:
        body += string(topic) + i32(len(partitions)) + b"".join(map(i32, partitions))
    return frame(OFFSET_DELETE, 0, body)


def offsets_deleted(answer: Reader) -> tuple[int, list[tuple[str | None, list[tuple[int, int]]]]]:
    error, throttle_ms = answer.i16(), answer.i32()
    assert throttle_ms == 0
    return error, committed(answer)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_groups_are_deleted_once_each_in_the_order_of_the_request(
    rota_server: rota.Server, address: Address, version: int
) -> None:
    with Connection(address) as connection:
        for group in ["", "a", "b"]:
            committed(connection.ask(commit(group, {"orders": [0]})))
        answer = connection.ask(delete(["nobody", "b", "", "b", "nobody"], version))
        expected = [("nobody", GROUP_ID_NOT_FOUND), ("b", NONE), ("", NONE)]
        assert deleted(answer, version) == expected
        assert rota_server.groups() == ["a"]
        assert deleted(connection.ask(delete([], version)), version) == []


def test_a_group_with_members_is_not_deleted(address: Address) -> None:
    with Member(address, "g") as member, Connection(address) as connection:
        assert deleted(connection.ask(delete(["g"]))) == [("g", NON_EMPTY_GROUP)]
        assert member.heartbeat() == NONE


def test_a_deletion_waits_for_the_log_and_says_when_it_failed(rota_server: rota.Server, address: Address) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", {"orders": [0]})))
        rota_server.fail_appends("NOT_ENOUGH_REPLICAS", 1)
        assert deleted(connection.ask(delete(["g"]))) == [("g", COORDINATOR_NOT_AVAILABLE)]
        assert rota_server.groups() == ["g"]
        rota_server.hold_appends()
        connection.send(delete(["g"]))
        until_it_waits(rota_server)
        assert connection.is_silent(0.2)
        rota_server.release_appends()
        answer = Reader(connection.receive())
        answer.i32()
        assert deleted(answer) == [("g", NONE)]


def test_offsets_are_deleted_and_what_does_not_exist_is_refused_first(address: Address) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", {"orders": [0, 1]})))
        asked = [("nowhere", [0]), ("orders", [0, 0, 9]), ("orders", [1])]
        assert offsets_deleted(connection.ask(delete_offsets("g", asked))) == (
            NONE,
            [
                ("nowhere", [(0, UNKNOWN_TOPIC_OR_PARTITION)]),
                ("orders", [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, NONE), (0, NONE), (1, NONE)]),
            ],
        )


def test_a_topic_that_is_named_twice_is_one_entry_only_beside_what_is_refused(address: Address) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", {"orders": [0, 1]})))
        twice = [("orders", [0]), ("orders", [1])]
        answers = [
            offsets_deleted(connection.ask(delete_offsets("g", asked))) for asked in (twice, [*twice, ("no", [0])])
        ]
        assert answers == [
            (NONE, [("orders", [(0, NONE)]), ("orders", [(1, NONE)])]),
            (NONE, [("no", [(0, UNKNOWN_TOPIC_OR_PARTITION)]), ("orders", [(0, NONE), (1, NONE)])]),
        ]


def test_an_error_of_the_group_comes_before_unknown_topics(address: Address) -> None:
    with Connection(address) as connection:
        for asked in [[("orders", [0])], [("nowhere", [0])], []]:
            answer = connection.ask(delete_offsets("nobody", asked))
            assert offsets_deleted(answer) == (GROUP_ID_NOT_FOUND, [])
        assert offsets_deleted(connection.ask(delete_offsets("", [("orders", [0])]))) == (INVALID_GROUP_ID, [])


def test_topics_without_partitions_are_named_only_if_they_do_not_exist(address: Address) -> None:
    with Connection(address) as connection:
        committed(connection.ask(commit("g", {"orders": [0]})))
        answer = connection.ask(delete_offsets("g", [("orders", []), ("nowhere", [])]))
        assert offsets_deleted(answer) == (NONE, [("nowhere", [])])
        assert offsets_deleted(connection.ask(delete_offsets("g", []))) == (NONE, [])
