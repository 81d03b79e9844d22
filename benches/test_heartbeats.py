"""Heartbeats through the coordinator, from Python: `make bench`.

The floor is one Python-level call that does next to nothing; the figures beside it are one heartbeat a call, and a
batch of all members in one call.
"""

from typing import Any

import numpy as np
import pytest

import rota

GROUP_MEMBERS = 100
SESSION_TIMEOUT_MS = 45_000


class Crowd:
    """Stable groups of 100 members each."""

    def __init__(self, members: int) -> None:
        self.coordinator = rota.Coordinator({"group.initial.rebalance.delay.ms": 0})
        self.coordinator.loaded(0)
        self.tickets = 0
        self.members: list[tuple[str, str]] = []
        for group in range(members // GROUP_MEMBERS):
            self.settle(f"group-{group}")
        handles = [self.coordinator.member_handles(group, [member]) for group, member in self.members]
        self.handles = np.concatenate(handles)
        assert len(self.handles) == members
        self.generations = np.ones(len(self.members), dtype=np.int32)

    def submit(self, request: rota.Request) -> list[rota.Effect]:
        self.tickets += 1
        effects = self.coordinator.submit(0, self.tickets, request, entropy=self.tickets << 64)
        for append in [effect for effect in effects if isinstance(effect, rota.Append)]:
            effects += self.coordinator.appended(append.append_id, append.append_id, 0)
        return effects

    def settle(self, group: str) -> None:
        for _ in range(GROUP_MEMBERS):
            self.submit(rota.JoinGroup(group, protocols=[("range", b"")], version=3))
        # The first deadline finds that others have joined meanwhile, and gives them as much time again: none.
        effects = self.coordinator.advance(0) + self.coordinator.advance(0)
        for answer in [effect for effect in effects if isinstance(effect, rota.JoinAnswer)]:
            self.submit(rota.SyncGroup(group, answer.member_id, answer.generation, version=3))
            self.members.append((group, answer.member_id))


@pytest.fixture(scope="module", params=[1_000, 100_000])
def crowd(request: pytest.FixtureRequest) -> Crowd:
    return Crowd(request.param)


def test_floor_of_one_python_call(benchmark: Any) -> None:
    benchmark(rota.Coordinator().next_deadline)


def test_one_heartbeat_a_call(benchmark: Any, crowd: Crowd) -> None:
    group, member = crowd.members[0]
    request = rota.Heartbeat(group, member, 1)
    effects = benchmark(crowd.coordinator.submit, 0, 0, request, entropy=0)
    assert effects[0].error == rota.ErrorCode.NONE


def test_all_members_in_one_call(benchmark: Any, crowd: Crowd) -> None:
    order = np.random.default_rng(1).permutation(len(crowd.handles))
    benchmark.extra_info["heartbeats"] = len(order)
    codes = benchmark(crowd.coordinator.heartbeats, 0, crowd.handles[order], crowd.generations)
    assert not codes.any()
