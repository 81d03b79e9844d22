"""`benches.nodes` notices what nodes share, and reads what callgrind writes."""

from __future__ import annotations

import pytest

from benches.heartbeats import Counted, counted
from benches.nodes import is_apart, locked_each

ALONE = Counted(1_400.0, 35.0)


@pytest.mark.parametrize(
    ("one", "expected"),
    [(ALONE, True), (Counted(1_428.0, 35.0), True), (Counted(1_429.0, 35.0), False)],
    ids=["the same", "noise", "more"],
)
def test_a_node_among_others_has_to_do_what_one_alone_does(one: Counted, *, expected: bool) -> None:
    assert is_apart(ALONE, one) == expected


@pytest.mark.parametrize("each", [0, 1, 2])
def test_a_lock_that_each_heartbeat_takes_is_told_from_those_of_a_write(each: int) -> None:
    of_a_write, depth = 35.0, 64
    singly, together = Counted(1_400.0, of_a_write + each), Counted(700.0, of_a_write / depth + each)
    assert locked_each(singly, together, depth) == pytest.approx(each)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("events: Ir Ge\nfn=(1)\n1 5 1\ntotals: 1200 7\n", Counted(1_200, 7)),
        ("events: Ir Ge\nsummary: 40 3\ntotals: 1200\n", Counted(1_200, 0)),
    ],
    ids=["both", "zeros left out"],
)
def test_the_sums_of_a_thread_are_read(text: str, expected: Counted) -> None:
    assert counted(text) == expected
