"""One request at a time on a connection, and what a closed one means (docs/protocol.md §17.1)."""

from __future__ import annotations

import socket
import time

import rota
from harness.raw import (
    API_VERSIONS,
    LEAVE_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    ClosedError,
    Connection,
    Member,
    frame,
    heartbeat,
    i16,
    i32,
    join,
    member_of,
    string,
    sync,
)
from tests.clients.eventually import until_it_waits

Address = tuple[str, int]
PATIENCE_S = 20


def test_what_comes_behind_a_parked_join_waits_for_its_answer(rota_server: rota.Server, address: Address) -> None:
    with Member(address, "g") as first, Connection(address) as second:
        second.send(join("g") + frame(API_VERSIONS, 0, correlation=8))
        until_it_waits(rota_server)
        assert second.is_silent(0.3)
        assert first.heartbeat() == REBALANCE_IN_PROGRESS
        first.connection.send(join("g", first.member_id))
        assert second.receive()[:4] == i32(7)
        assert second.receive()[:4] == i32(8)


def test_a_parked_member_whose_connection_closes_is_in_the_next_generation(address: Address) -> None:
    with Member(address, "g") as first:
        second = Connection(address)
        second.send(join("g"))
        until = time.monotonic() + PATIENCE_S
        while first.heartbeat() != REBALANCE_IN_PROGRESS:
            assert time.monotonic() < until
        second.close()
        answer = first.connection.ask(join("g", first.member_id))
        assert (answer.i16(), answer.i32()) == (NONE, 2)
        answer.string(), answer.string(), answer.string()
        assert answer.i32() == 2


def test_requests_behind_a_parked_one_are_handled_though_the_client_has_closed(address: Address) -> None:
    with Member(address, "g") as first:
        second = Connection(address)
        until = time.monotonic() + PATIENCE_S
        # The second member joins, is parked, and leaves the first one alone before it has an answer.
        leave = frame(LEAVE_GROUP, 0, string("g") + string(first.member_id))
        second.send(join("g") + leave)
        while first.heartbeat() != REBALANCE_IN_PROGRESS:
            assert time.monotonic() < until
        second.close()
        assert first.connection.ask(join("g", first.member_id)).i16() == NONE
        while first.heartbeat() != UNKNOWN_MEMBER_ID:
            assert time.monotonic() < until


def test_a_client_that_has_only_stopped_sending_still_gets_its_answers(
    rota_server: rota.Server, address: Address
) -> None:
    with Member(address, "g") as first, Connection(address) as second:
        second.send(join("g") + heartbeat("elsewhere", "m", 0, correlation=8))
        second.socket.shutdown(socket.SHUT_WR)
        until_it_waits(rota_server)
        assert first.connection.ask(join("g", first.member_id)).i16() == NONE
        assert second.receive()[:6] == i32(7) + i16(NONE)
        assert second.receive() == i32(8) + i16(UNKNOWN_MEMBER_ID)
        assert second.ends()


def test_answers_to_others_do_not_wait_for_a_parked_request(rota_server: rota.Server, address: Address) -> None:
    with Member(address, "g") as first, Connection(address) as parked, Connection(address) as other:
        parked.send(join("g"))
        until_it_waits(rota_server)
        assert other.ask(heartbeat("elsewhere", "m", 0)).i16() == UNKNOWN_MEMBER_ID
        assert first.heartbeat() == REBALANCE_IN_PROGRESS


def test_a_parked_request_is_answered_when_the_server_stops(rota_server: rota.Server, address: Address) -> None:
    with Member(address, "g"), Connection(address) as parked:
        parked.send(join("g"))
        until_it_waits(rota_server)
        rota_server.stop()
        answer = parked.receive()
        assert answer[:6] == i32(7) + (16).to_bytes(2, "big")
        assert parked.ends()


def test_two_joins_of_one_member_on_one_connection_get_the_same_answer(
    rota_server: rota.Server, address: Address
) -> None:
    with Member(address, "g") as first, Connection(address) as other:
        other.send(join("g"))
        until_it_waits(rota_server)
        first.connection.send(join("g", first.member_id) * 2)
        one, two = first.connection.receive(), first.connection.receive()
        assert one == two


def test_the_leader_syncs_for_a_follower_on_another_connection(rota_server: rota.Server, address: Address) -> None:
    with Member(address, "g") as first, Connection(address) as follower:
        follower.send(join("g"))
        until_it_waits(rota_server)
        assert first.connection.ask(join("g", first.member_id)).i16() == NONE
        follower_id = member_of(follower.receive())
        follower.send(sync("g", follower_id, 2))
        until_it_waits(rota_server)
        plan = {first.member_id: b"mine", follower_id: b"yours"}
        assert first.connection.ask(sync("g", first.member_id, 2, plan)).data[2:] == i32(4) + b"mine"
        assert follower.receive()[6:] == i32(5) + b"yours"


def test_a_connection_that_ends_inside_a_frame_is_forgotten(rota_server: rota.Server, address: Address) -> None:
    connection = Connection(address)
    connection.send(heartbeat("g", "m", 0)[:-1])
    connection.close()
    until = time.monotonic() + PATIENCE_S
    while rota_server._inner.load()[0] > 0:
        assert time.monotonic() < until


def test_nothing_is_answered_after_the_server_has_stopped(rota_server: rota.Server, address: Address) -> None:
    with Connection(address) as connection:
        assert connection.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID
        rota_server.stop()
        try:
            connection.send(heartbeat("g", "m", 0))
            connection.receive()
        except (ClosedError, ConnectionError):
            return
    raise AssertionError("a stopped server has answered")
