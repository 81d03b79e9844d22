"""The formulas that are proved give the numbers that the wheel in Rust gives."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rota import Wheel
from specs import wheel

INPUTS = 1_100_000  # of which some have no deadline to come
Words = NDArray[np.uint64]


class Numbers:
    """The arithmetic of specs/wheel.py on arrays of unsigned 64-bit numbers."""

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
    borders = np.uint64(1) << (np.uint64(6) * random.integers(0, 11, count, dtype=np.uint64))
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
        bits = wheel.slots_reached(Numbers, now, later, each)
        bit = (bits >> wheel.slot_of(Numbers, deadline, each)) & np.uint64(1)
        found |= (level == each) & (bit == 1)
    return found


@pytest.mark.slow
def test_formulas_and_rust_agree_on_a_million_inputs() -> None:
    a, b, c = (instants(seed, INPUTS) for seed in (1, 2, 3))
    low, middle, high = np.sort((a, b, c), axis=0)
    now, later, deadline = low, np.where(a < b, middle, high), np.where(a < b, high, middle)
    linked = deadline > now
    start = starts(now, deadline)
    empties = reached(now, later, deadline)
    after = np.where(empties, starts(later, deadline), start)
    compared = 0
    for n, l, d, s, e, again in zip(  # noqa: E741
        *(array[linked].tolist() for array in (now, later, deadline, start, empties, after)), strict=True
    ):
        timer = Wheel(n)
        timer.arm(d, None)
        assert timer.next_deadline() == s
        due = timer.advance(l)
        assert bool(due) == (d <= l)
        assert e or not due
        if not due:
            assert timer.next_deadline() == again
        compared += 1
    assert compared >= 1_000_000


def test_formulas_know_the_borders() -> None:
    now = np.array([0, 63, 64, 2**60 - 1, 2**64 - 2], dtype=np.uint64)
    deadline = np.array([1, 64, 127, 2**60, 2**64 - 1], dtype=np.uint64)
    assert wheel.level_of(Numbers, now, deadline).tolist() == [0, 1, 0, 10, 0]
    assert starts(now, deadline).tolist() == deadline.tolist()
    assert [Wheel(n).next_deadline() for n in now.tolist()] == [None] * 5
