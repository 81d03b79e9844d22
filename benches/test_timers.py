"""The wheel and the purgatory from Python, 10,000 entries at a time: `make bench`."""

from typing import Any

import pytest

import rota

TIMERS, SESSION_MS, KEYS = 10_000, 45_000, 100


@pytest.fixture
def wheel() -> rota.coordinator.Wheel:
    return rota.coordinator.Wheel()


def armed(wheel: rota.coordinator.Wheel) -> list[int]:
    return [wheel.arm(wheel.now_ms + 1 + at * 7_919 % SESSION_MS, at) for at in range(TIMERS)]


def test_timers_are_given_later_deadlines(benchmark: Any, wheel: rota.coordinator.Wheel) -> None:
    timers = armed(wheel)

    def rearm() -> bool:
        return sum(wheel.rearm(timer, 2 * SESSION_MS) for timer in timers) == TIMERS

    assert benchmark(rearm)


def test_timers_are_cancelled_and_armed_again(benchmark: Any, wheel: rota.coordinator.Wheel) -> None:
    timers = armed(wheel)

    def again() -> None:
        for at, timer in enumerate(timers):
            timers[at] = wheel.arm(SESSION_MS, wheel.cancel(timer))

    benchmark(again)
    assert len(wheel) == TIMERS


def test_all_timers_fire(benchmark: Any, wheel: rota.coordinator.Wheel) -> None:
    def setup() -> None:
        armed(wheel)

    def fire() -> int:
        return len(wheel.advance(wheel.now_ms + SESSION_MS + 1))

    fired = benchmark.pedantic(fire, setup=setup, rounds=20)
    assert fired == TIMERS


def test_operations_are_watched_and_completed(benchmark: Any) -> None:
    purgatory = rota.coordinator.Purgatory()
    keys = [f"group-{key}" for key in range(KEYS)]

    def wait_and_complete() -> int:
        for at in range(TIMERS):
            purgatory.watch(at, SESSION_MS, [keys[at % KEYS]])
        done = [purgatory.complete(number) for key in keys for number, _ in purgatory.check(key)]
        return len(done)

    assert benchmark(wait_and_complete) == TIMERS
    assert len(purgatory) == 0
