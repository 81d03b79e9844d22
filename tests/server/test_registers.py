"""The checker of histories beside porcupine, which searches."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.server import second_opinion
from tests.server.registers import NEVER, UNCOMMITTED, Call, History, violation

HISTORIES, CALLS, CLIENTS = 600, 14, 3


def history(chance: random.Random) -> list[Call]:
    """Calls of some clients of one register, in half of all histories with a fetch of an older value."""
    calls: list[Call] = []
    free, register, values = [0.0] * CLIENTS, UNCOMMITTED, [UNCOMMITTED]
    now = 0.0
    for value in range(CALLS):
        now += chance.uniform(0.1, 1.0)
        client = min(range(CLIENTS), key=free.__getitem__)
        begin = max(free[client], now - chance.uniform(0, 2))
        end = max(begin, now) + chance.uniform(0.01, 2)
        free[client] = end
        if chance.random() < 0.5:
            is_lost = chance.random() < 0.2
            calls.append(Call(True, value, begin, NEVER if is_lost else end))
            if not is_lost or chance.random() < 0.5:
                register = value
                values.append(value)
        else:
            calls.append(Call(False, register, begin, end))
    fetches = [at for at, call in enumerate(calls) if not call.is_commit]
    if fetches and chance.random() < 0.5:
        at = chance.choice(fetches)
        calls[at] = calls[at]._replace(value=chance.choice(values))
    return calls


@pytest.mark.skipif(not second_opinion.is_installed(), reason="Go is not installed")
def test_porcupine_says_the_same_of_random_histories() -> None:
    chance = random.Random(1)
    histories = [history(chance) for _ in range(HISTORIES)]
    found = [second_opinion.OK if violation(each) is None else second_opinion.ILLEGAL for each in histories]
    said = second_opinion.opinions(histories)
    differ = [calls for calls, ours, theirs in zip(histories, found, said, strict=True) if ours != theirs]
    assert not differ, differ[0]
    assert min(Counter(said).values()) > HISTORIES // 10, Counter(said)


@pytest.mark.skipif(not second_opinion.is_installed(), reason="Go is not installed")
def test_a_sample_of_a_run_is_judged() -> None:
    ran = History()
    for group in ("a", "b"):
        ran.acknowledge((group, 0), ran.begin((group, 0), 1.0), 2.0)
    ran.fetch(("b", 0), UNCOMMITTED, 3.0, 4.0)
    said, illegal = second_opinion.of_sample(ran)
    assert said == {second_opinion.OK: 1, second_opinion.ILLEGAL: 1}
    assert illegal == ["('b', 0): porcupine finds no order"]
