"""`rota.coordinator.Wheel` does what a sorted list does, and this comparison can fail."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import rota

from .instants import TIME_END_MS
from .wheel_machine import AnyWheel, WheelMachine


def test_a_wheel_agrees_with_a_sorted_list() -> None:
    run_state_machine_as_test(WheelMachine, settings=settings(max_examples=120, stateful_step_count=60, deadline=None))


class Planted:
    """A wheel that is right; the classes below are wrong in one way each."""

    def __init__(self, now_ms: int) -> None:
        self.wheel = rota.coordinator.Wheel(now_ms)

    def arm(self, deadline_ms: int, payload: Any) -> int:
        return self.wheel.arm(deadline_ms, payload)

    def rearm(self, timer_id: int, deadline_ms: int) -> bool:
        return self.wheel.rearm(timer_id, deadline_ms)

    def cancel(self, timer_id: int) -> Any | None:
        return self.wheel.cancel(timer_id)

    def deadline(self, timer_id: int) -> int | None:
        return self.wheel.deadline(timer_id)

    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        return self.wheel.advance(now_ms)

    def next_deadline(self) -> int | None:
        return self.wheel.next_deadline()

    def __len__(self) -> int:
        return len(self.wheel)


class FiresLate(Planted):
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        return self.wheel.advance(max(now_ms - 1, 0))


class FiresEarly(Planted):
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        return self.wheel.advance(min(now_ms + 1, TIME_END_MS))


class TiesReversed(Planted):
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        fired = self.wheel.advance(now_ms)
        fired.reverse()
        fired.sort(key=lambda entry: entry[1])
        return fired


class EarlierRearmIgnored(Planted):
    def rearm(self, timer_id: int, deadline_ms: int) -> bool:
        before_ms = self.wheel.deadline(timer_id)
        return (before_ms is not None and deadline_ms < before_ms) or self.wheel.rearm(timer_id, deadline_ms)


class RearmKeepsItsTurn(Planted):
    """Re-arming for the same instant does not move the entry behind its peers."""

    def rearm(self, timer_id: int, deadline_ms: int) -> bool:
        return self.wheel.deadline(timer_id) == deadline_ms or self.wheel.rearm(timer_id, deadline_ms)


class CancelForgotten(Planted):
    def cancel(self, timer_id: int) -> Any | None:
        payload = self.wheel.cancel(timer_id)
        if payload is not None:
            self.wheel.arm(TIME_END_MS, payload)
        return payload


class NextDeadlineLate(Planted):
    def next_deadline(self) -> int | None:
        next_ms = self.wheel.next_deadline()
        return None if next_ms is None else next_ms + 1


class NextDeadlineStuck(Planted):
    def next_deadline(self) -> int | None:
        return None if self.wheel.next_deadline() is None else 0


@pytest.mark.parametrize(
    ("planted", "complaint"),
    [
        (FiresLate, "did not fire within their millisecond|no progress"),
        (FiresEarly, "fired early"),
        (TiesReversed, "in another order"),
        (EarlierRearmIgnored, "another deadline than the last arming's"),
        # Hundreds of examples come before the one that shows it.
        pytest.param(RearmKeepsItsTurn, "in another order", marks=pytest.mark.long),
        (CancelForgotten, None),
        (NextDeadlineLate, "next_deadline is late"),
        (NextDeadlineStuck, "no progress"),
    ],
)
def test_the_comparison_catches_a_planted_bug(planted: type[Planted], complaint: str | None) -> None:
    class PlantedMachine(WheelMachine):
        def new_wheel(self, now_ms: int) -> AnyWheel:
            return planted(now_ms)

    once = settings(
        max_examples=2_000,
        stateful_step_count=60,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
    )
    with pytest.raises(AssertionError, match=complaint):
        run_state_machine_as_test(PlantedMachine, settings=once)


def test_a_later_rearm_moves_the_deadline_and_an_earlier_one_too() -> None:
    wheel = rota.coordinator.Wheel()
    session = wheel.arm(45_000, "session")
    assert wheel.rearm(session, 48_000)
    assert wheel.advance(47_999) == []
    assert wheel.rearm(session, 47_000)
    assert wheel.next_deadline() == 47_000
    assert wheel.advance(47_999) == [(session, 47_000, "session")]
    assert (wheel.now_ms, len(wheel), wheel.next_deadline()) == (47_999, 0, None)


def test_an_id_and_every_other_number_may_be_asked_for() -> None:
    wheel = rota.coordinator.Wheel()
    armed = wheel.arm(5, "payload")
    for unknown in (0, -1, armed + 1, 2**32, 2**64, -(2**70)):
        assert wheel.deadline(unknown) is None
        assert wheel.cancel(unknown) is None
        assert not wheel.rearm(unknown, 5)
    assert wheel.deadline(armed) == 5


@pytest.mark.parametrize("instant_ms", [-1, 2**64, -(2**80)])
def test_an_instant_out_of_range_is_a_value_error_that_names_it(instant_ms: int) -> None:
    wheel = rota.coordinator.Wheel()
    armed = wheel.arm(5, "payload")
    with pytest.raises(ValueError, match=rf"`deadline_ms` must be from 0 to 2\*\*64 - 1 ms, not {instant_ms}"):
        wheel.arm(instant_ms, "payload")
    with pytest.raises(ValueError, match=rf"`deadline_ms` .* not {instant_ms}"):
        wheel.rearm(armed, instant_ms)
    with pytest.raises(ValueError, match=rf"`now_ms` .* not {instant_ms}"):
        wheel.advance(instant_ms)
    with pytest.raises(ValueError, match=rf"`now_ms` .* not {instant_ms}"):
        rota.coordinator.Wheel(instant_ms)
    assert wheel.advance(10) == [(armed, 5, "payload")], "a refused call changes nothing"


@pytest.mark.parametrize("instant", ["5", 5.0, None])
def test_an_instant_that_is_no_int_is_a_type_error(instant: Any) -> None:
    with pytest.raises(TypeError):
        rota.coordinator.Wheel().arm(instant, "payload")


def test_a_wheel_that_carries_itself_is_collected() -> None:
    class Payload:
        def __init__(self, wheel: rota.coordinator.Wheel) -> None:
            self.wheel = wheel

    wheel = rota.coordinator.Wheel()
    payload = Payload(wheel)
    wheel.arm(5, payload)
    seen = weakref.ref(payload)
    del wheel, payload
    gc.collect()
    assert seen() is None
