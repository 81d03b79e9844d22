"""The formulas that are proved give the numbers that the wheel in Rust gives."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.coordinator import Wheel
from rota.specs import wheel

Words = NDArray[np.uint64]


class Numbers:
    """The arithmetic of `rota.specs.wheel` on arrays of unsigned 64-bit numbers."""

    @staticmethod
    def word(value: int) -> np.uint64:
        return np.uint64(value)

    @staticmethod
    def right(word: Words, by: Any) -> Words:
        return word >> np.uint64(by) if isinstance(by, int) else word >> by

    @staticmethod
    def left(word: Words, by: Any) -> Words:
        return word << np.uint64(by) if isinstance(by, int) else word << by

    @staticmethod
    def below(a: Any, b: Any) -> Any:
        return a < b

    @staticmethod
    def choose(condition: Any, then: Any, otherwise: Any) -> Any:
        return np.where(condition, then, otherwise)


def instants(seed: int, count: int) -> Words:
    """Instants of every magnitude, and those beside the borders of slots."""
    random = np.random.default_rng(seed)
    words = random.integers(0, 2**64, count, dtype=np.uint64) >> random.integers(0, 64, count, dtype=np.uint64)
    shifts = np.array([wheel.shift(level) for level in range(wheel.LEVELS)], dtype=np.uint64)
    borders = np.uint64(1) << random.choice(shifts, count)
    beside = words // borders * borders + random.integers(0, 3, count, dtype=np.uint64) - np.uint64(1)
    return np.where(random.random(count) < 0.4, beside, words)


def starts(now: Words, deadline: Words) -> Words:
    """By the formulas: the start of the slot where a deadline after `now` is linked."""
    level = wheel.level_of(Numbers, now, deadline)
    found = np.zeros_like(now)
    for each in range(wheel.LEVELS):
        slot = wheel.slot_of(Numbers, deadline, each)
        found = np.where(level == each, wheel.slot_start(Numbers, now, each, slot), found)
    return found


def reached(now: Words, later: Words, deadline: Words) -> NDArray[np.bool_]:
    """By the formulas: whether time, moving to `later`, empties the slot of the deadline."""
    level = wheel.level_of(Numbers, now, deadline)
    found = np.zeros(len(now), dtype=bool)
    for each in range(wheel.LEVELS):
        bit = wheel.is_reached(Numbers, now, later, each, wheel.slot_of(Numbers, deadline, each))
        found |= (level == each) & (bit == 1)
    return found


def compare(inputs: int, seed: int) -> int:
    """Arm a timer, re-arm it, move time: the wheel in Rust must say what the formulas do. Gives how many were due."""
    one = np.uint64(1)
    first, second, third, fourth = (instants(seed + each, inputs) for each in range(4))
    now = np.minimum(np.minimum(first, second), np.uint64(2**64 - 2))
    later, deadline = np.maximum(first, second), np.maximum(third, now + one)
    anew = np.where(fourth % np.uint64(3) == 0, deadline, np.maximum(fourth, now + one))
    start = starts(now, deadline)
    linked = np.where(anew < start, anew, deadline)  # a later deadline is only written: the entry keeps its place
    place = starts(now, linked)
    empties = reached(now, later, linked)
    after = np.where(empties, starts(later, anew), place)
    fired = 0
    columns = (now, later, deadline, anew, start, place, empties, after)
    for n, l, d, a, s, p, e, again in zip(*(column.tolist() for column in columns), strict=True):  # noqa: E741
        timer = Wheel(n)
        entry = timer.arm(d, None)
        assert timer.next_deadline() == s
        timer.rearm(entry, a)
        assert timer.next_deadline() == p
        due = timer.advance(l)
        assert bool(due) == (a <= l)
        assert e or not due
        if not due:
            assert timer.next_deadline() == again
        fired += bool(due)
    return fired


def test_formulas_and_rust_agree() -> None:
    """`make specs-inputs` compares ten times as many."""
    assert 20_000 < compare(100_000, 1) < 80_000


def test_formulas_know_the_borders() -> None:
    now = np.array([0, 63, 64, 64, 2**58 - 2, 0, 2**64 - 2], dtype=np.uint64)
    deadline = np.array([1, 64, 127, 128, 2**58, 2**58, 2**64 - 1], dtype=np.uint64)
    assert wheel.level_of(Numbers, now, deadline).tolist() == [0, 0, 0, 1, 0, 9, 0]
    assert starts(now, deadline).tolist() == deadline.tolist()
    assert wheel.level_of(Numbers, now[:1], now[:1] + np.uint64(2**16 - 1)).tolist() == [1]
    assert [Wheel(n).next_deadline() for n in now.tolist()] == [None] * 7
