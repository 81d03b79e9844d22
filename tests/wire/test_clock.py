"""A clock that is moved: members whose clients are connected are kept (docs/protocol.md §7, §16)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rota
from harness.raw import NONE, UNKNOWN_MEMBER_ID, Connection, Member, Reader, heartbeat, join
from tests.clients.eventually import until_it_waits

from .conftest import SETTINGS
from .test_offsets import commit, committed

Address = tuple[str, int]


@pytest.fixture
def clock() -> rota.VirtualClock:
    return rota.VirtualClock()


@pytest.fixture
def rota_server(clock: rota.VirtualClock) -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS | {"group.initial.rebalance.delay.ms": 3_000}, clock=clock) as server:
        yield server


def state(server: rota.Server) -> str:
    """The state of the group `g`."""
    return server.explain("g").state


def member(address: Address, clock: rota.VirtualClock) -> Member:
    """A member of the group `g`, past the initial delay."""

    def until_the_join_is_parked_and_answered() -> None:
        with Connection(address) as other:
            other.ask(heartbeat("nothing", "m", 0))
        clock.advance(3_000)

    return Member(address, "g", until_the_join_is_parked_and_answered)


def test_the_initial_delay_waits_for_the_clock(
    rota_server: rota.Server, address: Address, clock: rota.VirtualClock
) -> None:
    with Connection(address) as connection:
        connection.send(join("g"))
        until_it_waits(rota_server)
        assert connection.is_silent(0.2)
        clock.advance(2_999)
        assert connection.is_silent(0.1)
        clock.advance(1)
        assert connection.receive()[4:6] == NONE.to_bytes(2, "big")


def test_what_is_due_at_once_does_not_wait_for_the_clock(clock: rota.VirtualClock) -> None:
    with rota.Server(settings=SETTINGS, clock=clock) as server, Member((server.host, server.port), "g") as alone:
        assert alone.heartbeat() == NONE
    assert clock.now_ms == 0


def test_a_member_whose_client_is_connected_outlives_any_jump(address: Address, clock: rota.VirtualClock) -> None:
    with member(address, clock) as alive:
        clock.advance(10_000_000)
        assert alive.heartbeat() == NONE


def test_a_member_whose_client_is_gone_expires_at_its_session_timeout(
    rota_server: rota.Server, address: Address, clock: rota.VirtualClock
) -> None:
    gone = member(address, clock)
    gone.connection.close()
    with Connection(address) as other:
        # An answer means that the server has seen the end of the other connection, which came first.
        other.ask(heartbeat("nothing", "m", 0))
        clock.advance(29_999)
        assert state(rota_server) == "Stable"
        clock.advance(1)
        assert state(rota_server) == "Empty"
        assert other.ask(heartbeat("g", gone.member_id, gone.generation)).i16() == UNKNOWN_MEMBER_ID


def test_a_connected_member_expires_when_it_is_told_to(
    rota_server: rota.Server, address: Address, clock: rota.VirtualClock
) -> None:
    with member(address, clock) as alive:
        clock.advance(30_000, expire=[alive.member_id])
        assert state(rota_server) == "Empty"
        assert alive.heartbeat() == UNKNOWN_MEMBER_ID


def test_whoever_speaks_for_a_member_last_keeps_it(address: Address, clock: rota.VirtualClock) -> None:
    first = member(address, clock)
    with Connection(address) as second:
        assert second.ask(heartbeat("g", first.member_id, first.generation)).i16() == NONE
        first.connection.close()
        clock.advance(1_000_000)
        assert second.ask(heartbeat("g", first.member_id, first.generation)).i16() == NONE


def test_an_append_that_is_held_too_long_is_answered_when_its_deadline_comes(
    rota_server: rota.Server, address: Address, clock: rota.VirtualClock
) -> None:
    rota_server.create_topic("orders", 1)
    rota_server.hold_appends()
    with Connection(address) as connection:
        connection.send(commit("g", {"orders": [0]}))
        until_it_waits(rota_server)
        clock.advance(5_000)
        answer = Reader(connection.receive())
        answer.i32()
        [(topic, [(partition, error)])] = committed(answer)
        assert (topic, partition) == ("orders", 0)
        assert error != NONE
