"""Whole worlds of coordinators and members under faults: `make bench`."""

from itertools import count
from typing import Any

import rota.simulate


def test_a_world(benchmark: Any) -> None:
    seeds = count()
    world = benchmark.pedantic(lambda: rota.simulate.world(next(seeds)), rounds=20)
    assert world.broken is None
    benchmark.extra_info["seconds of the world"] = world.figures.get("ended_ms", 0) / 1_000
