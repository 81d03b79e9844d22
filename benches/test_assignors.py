"""The assignors on flat arrays, 100,000 partitions and 1,000 members: `make bench`."""

from typing import Any

import numpy as np
import pytest

import rota.assign

TOPICS, PARTITIONS, MEMBERS = 100, 1_000, 1_000


@pytest.fixture(scope="module")
def group() -> Any:
    starts = np.arange(TOPICS + 1, dtype=np.uint32) * PARTITIONS
    members = np.arange(MEMBERS + 1, dtype=np.uint32) * TOPICS
    return rota.assign.FlatGroup(starts, members, np.tile(np.arange(TOPICS, dtype=np.uint32), MEMBERS))


@pytest.mark.parametrize("assignor", ["server-range", "uniform", "sticky"])
def test_a_cold_group_is_assigned(benchmark: Any, group: Any, assignor: str) -> None:
    owners = benchmark(group.assign, assignor)
    loads = np.bincount(owners, minlength=MEMBERS)
    assert (loads.min(), loads.max()) == (TOPICS, TOPICS)


def test_a_plan_that_is_good_is_kept(benchmark: Any, group: Any) -> None:
    plan = group.assign("sticky")
    assert (benchmark(group.assign, "sticky", plan) == plan).all()
