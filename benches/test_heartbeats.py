"""Heartbeats through the coordinator, from Python: `make bench`.

The floor is one Python-level call that does next to nothing; the figures beside it are one heartbeat a call, and a
batch of all members in one call.
"""

from typing import Any

import numpy as np
import pytest

import rota
from benches.crowd import Crowd


@pytest.fixture(scope="module", params=[1_000, 100_000])
def crowd(request: pytest.FixtureRequest) -> Crowd:
    return Crowd(request.param)


def test_floor_of_one_python_call(benchmark: Any) -> None:
    benchmark(rota.coordinator.Coordinator().next_deadline)


def test_one_heartbeat_a_call(benchmark: Any, crowd: Crowd) -> None:
    group, member = crowd.members[0]
    request = rota.protocol.Heartbeat(group, member, 1)
    effects = benchmark(crowd.coordinator.submit, 0, 0, request, entropy=0)
    assert effects[0].error == rota.protocol.ErrorCode.NONE


def test_all_members_in_one_call(benchmark: Any, crowd: Crowd) -> None:
    order = np.random.default_rng(1).permutation(len(crowd.handles))
    benchmark.extra_info["heartbeats"] = len(order)
    codes = benchmark(crowd.coordinator.heartbeats, 0, crowd.handles[order], crowd.generations)
    assert not codes.any()
