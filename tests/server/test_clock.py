"""`rota.VirtualClock` by itself, over stand-ins for servers; and over servers that start later."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rota
from rota.clock import LATEST_MS, STEP_MS, VirtualClock


class Recorder:
    """Stands in for a server: has members, and remembers how it was moved."""

    def __init__(self, *members: str) -> None:
        self.members = members
        self.moves: list[tuple[int, list[str]]] = []

    def _advance(self, ms: int, expire: list[str]) -> None:
        self.moves.append((ms, expire))

    def _member_ids(self) -> set[str]:
        return set(self.members)


def test_a_clock_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock()
    assert clock.now_ms == 0
    clock.advance(45_000)
    clock.advance(1)
    assert clock.now_ms == 45_001
    assert repr(clock) == "VirtualClock(now_ms=45001)"


def test_every_server_of_a_clock_moves_with_it_until_it_is_released() -> None:
    clock, first, second = VirtualClock(), Recorder("m-1"), Recorder()
    clock._drive(first)
    clock._drive(second)
    clock.advance(10, expire=["m-1"])
    clock._release(second)
    clock.advance(20)
    assert first.moves == [(10, ["m-1"]), (20, [])]
    assert second.moves == [(10, ["m-1"])]


def test_the_members_to_expire_may_come_from_any_iterable() -> None:
    clock, server = VirtualClock(), Recorder("m-0", "m-1")
    clock._drive(server)
    clock.advance(5, expire=(f"m-{number}" for number in range(2)))
    assert server.moves == [(5, ["m-0", "m-1"])]


def test_a_clock_does_not_keep_a_forgotten_server_alive() -> None:
    clock, server = VirtualClock(), Recorder()
    clock._drive(server)
    del server
    assert len(clock._servers) == 0


def test_time_does_not_go_back() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="ms is -1: time does not go back, give 0 or more"):
        clock.advance(-1)
    assert clock.now_ms == 0


def test_one_member_id_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(TypeError, match="expire is 'm-1': give a list of member ids"):
        VirtualClock().advance(1, expire="m-1")


@pytest.mark.parametrize(
    ("ms", "expire", "error", "says"),
    [
        (1.5, (), TypeError, "ms is 1.5: give a whole number of milliseconds"),
        ("5", (), TypeError, "ms is '5'"),
        (LATEST_MS + 1, (), ValueError, f"the clock ends {LATEST_MS} ms after it was made"),
        (1, ["m-1", 5], TypeError, "expire has 5 in it: give a list of member ids"),
        (1, ["m-1", "m-9"], ValueError, "expire has 'm-9' in it: no group of this clock's servers has that member"),
    ],
)
def test_a_clock_that_cannot_be_moved_so_stays_where_it_is(
    ms: int, expire: Iterable[str], error: type[Exception], says: str
) -> None:
    clock, server = VirtualClock(), Recorder("m-1")
    clock._drive(server)
    with pytest.raises(error, match=says):
        clock.advance(ms, expire)
    assert (clock.now_ms, server.moves) == (0, [])


def test_a_long_way_is_gone_in_steps_and_an_interruption_leaves_all_at_the_same_time() -> None:
    class Interrupting(Recorder):
        def _advance(self, ms: int, expire: list[str]) -> None:
            super()._advance(ms, expire)
            if len(self.moves) == 3:
                raise KeyboardInterrupt

    clock, servers = VirtualClock(), [Interrupting() for _ in range(3)]
    for server in servers:
        clock._drive(server)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(100 * STEP_MS)
    for server in servers:
        assert [ms for ms, _ in server.moves] == [STEP_MS] * 3
    assert clock.now_ms == 3 * STEP_MS
    clock.advance(STEP_MS + 1)
    for server in servers:
        assert [ms for ms, _ in server.moves[3:]] == [STEP_MS, 1]


def test_threads_move_a_clock_one_after_the_other() -> None:
    clock, both = VirtualClock(), threading.Barrier(2)

    class Slow(Recorder):
        def _advance(self, ms: int, expire: list[str]) -> None:
            # Lets the other thread run.
            threading.Event().wait(0.001)
            super()._advance(ms, expire)

    def advance(_: int) -> None:
        both.wait()
        for _ in range(10):
            clock.advance(STEP_MS + 1)

    server = Slow()
    clock._drive(server)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(advance, range(2)))
    assert clock.now_ms == 20 * (STEP_MS + 1)
    assert server.moves == [(STEP_MS, []), (1, [])] * 20


class Broken(Recorder):
    """Stands in for a server that cannot go on."""

    def _advance(self, ms: int, expire: list[str]) -> None:
        super()._advance(ms, expire)
        raise rota.ServerError("a node has died")


def test_a_clock_whose_only_server_fails_stays_where_it_is() -> None:
    clock, broken = VirtualClock(), Broken()
    clock._drive(broken)
    with pytest.raises(rota.ServerError, match="a node has died"):
        clock.advance(5)
    assert clock.now_ms == 0


def test_the_other_servers_follow_their_clock_when_one_fails() -> None:
    clock, servers = VirtualClock(), [Recorder(), Broken(), Recorder()]
    for server in servers:
        clock._drive(server)
    with pytest.raises(rota.ServerError, match="a node has died"):
        clock.advance(5)
    assert clock.now_ms == 5
    assert [server.moves for server in servers] == [[(5, [])]] * 3


def test_a_server_that_stops_meanwhile_does_not_fail_an_advance() -> None:
    clock = VirtualClock()

    class Stopping(Broken):
        def _advance(self, ms: int, expire: list[str]) -> None:
            clock._release(self)
            super()._advance(ms, expire)

    server = Stopping()
    clock._drive(server)
    clock.advance(5)
    assert clock.now_ms == 5


def test_a_server_that_starts_later_goes_on_with_the_time_of_its_clock(tmp_path: Path) -> None:
    day_ms = 86_400_000
    clock = VirtualClock()
    with rota.Server(clock=clock, data=tmp_path / "data") as server:
        server.create_topic("t")
        clock.advance(2 * day_ms)
        server.produce("t", ["before"])
    clock.advance(day_ms)
    with rota.Server(clock=clock, data=tmp_path / "data") as server:
        server.produce("t", ["after"])
        before, after = server.messages("t")
    assert after.timestamp_ms - before.timestamp_ms == day_ms
