"""Whole requests of a group, from Python: `make bench`."""

from itertools import count
from typing import Any

import rota
from benches.crowd import Crowd

MEMBERS, PARTITIONS = 1_000, 100


def test_a_cold_group_of_a_thousand_joins(benchmark: Any) -> None:
    crowd, numbers = Crowd(100), count()
    answers = benchmark.pedantic(lambda: crowd.join(f"cold-{next(numbers)}", MEMBERS), rounds=10)
    assert [answer.error for answer in answers] == [rota.protocol.ErrorCode.NONE] * MEMBERS


def test_a_group_of_a_hundred_joins_and_syncs(benchmark: Any) -> None:
    crowd, numbers = Crowd(100), count()
    benchmark.pedantic(lambda: crowd.settle(f"settled-{next(numbers)}"), rounds=20)
    assert crowd.coordinator.explain("settled-0") is not None


def test_offsets_are_committed(benchmark: Any) -> None:
    crowd = Crowd(100)
    group, member = crowd.members[0]
    offsets = {("orders", partition): 1 for partition in range(PARTITIONS)}
    benchmark.extra_info["offsets"] = PARTITIONS
    effects = benchmark(lambda: crowd.submit(rota.protocol.OffsetCommit(group, offsets, member, 1)))
    assert [effect.error for effect in effects if isinstance(effect, rota.protocol.CommitAnswer)] == [
        rota.protocol.ErrorCode.NONE
    ]
