"""Injected errors in the versions that name topics by id (docs/protocol.md §10, §11); Rust's tests have the others."""

from __future__ import annotations

import rota
from harness.raw import OFFSET_COMMIT, Connection, frame, i16, i32, i64, string

from .test_deletes import delete, delete_offsets, deleted, offsets_deleted
from .test_topic_ids import (
    NOWHERE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Address,
    commit,
    committed,
    fetch,
    orders,
)

__all__ = ["orders"]  # the fixture

NOT_COORDINATOR = 16


def test_a_commit_by_topic_id_has_the_error_on_each_partition_that_is_there(
    rota_server: rota.Server, address: Address, orders: bytes
) -> None:
    with Connection(address) as connection:
        injection = rota_server.faults.inject_error("OffsetCommit", "NOT_COORDINATOR")
        refused = committed(connection.ask(commit("g", [(NOWHERE, [0]), (orders, [0, 1])])))
        assert refused == [(NOWHERE, [0, UNKNOWN_TOPIC_ID]), (orders, [0, NOT_COORDINATOR, 1, NOT_COORDINATOR])]
        assert (injection.count, rota_server.groups()) == (1, [])


def test_a_commit_of_which_no_partition_is_there_does_not_use_an_injection_up(
    rota_server: rota.Server, address: Address
) -> None:
    with Connection(address) as connection:
        injection = rota_server.faults.inject_error("OffsetCommit", "NOT_COORDINATOR")
        assert committed(connection.ask(commit("g", [(NOWHERE, [0])]))) == [(NOWHERE, [0, UNKNOWN_TOPIC_ID])]
        by_name = string("g") + i32(-1) + string("") + i64(-1) + i32(1)
        by_name += string("nowhere") + i32(1) + i32(0) + i64(5) + string("")
        answer = connection.ask(frame(OFFSET_COMMIT, 2, by_name))
        assert answer.data == i32(1) + string("nowhere") + i32(1) + i32(0) + i16(UNKNOWN_TOPIC_OR_PARTITION)
        assert (injection.count, injection.left) == (0, 1)


def test_a_fetch_of_offsets_by_topic_id_has_the_error_of_the_group(
    rota_server: rota.Server, address: Address, orders: bytes
) -> None:
    with Connection(address) as connection:
        rota_server.faults.inject_error("OffsetFetch", "NOT_COORDINATOR")
        answer = connection.ask(fetch("g", [(orders, [0])]))
        no_topics, no_tags = b"\x01", b"\0"
        assert answer.data.endswith(no_topics + i16(NOT_COORDINATOR) + no_tags + no_tags)


def test_a_deletion_has_the_error_of_each_group_or_at_the_top(rota_server: rota.Server, address: Address) -> None:
    with Connection(address) as connection:
        rota_server.faults.inject_error("DeleteGroups", "NOT_COORDINATOR", group="h")
        answers = deleted(connection.ask(delete(["g", "h"])))
        assert [(group, code == NOT_COORDINATOR) for group, code in answers] == [("g", False), ("h", True)]
        rota_server.faults.inject_error("OffsetDelete", "NOT_COORDINATOR")
        assert offsets_deleted(connection.ask(delete_offsets("g", [])))[0] == NOT_COORDINATOR
