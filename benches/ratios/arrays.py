"""Heartbeats from Python."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import rota
from benches.crowd import Crowd
from benches.ratios.row import Row, at_least, faster
from benches.ratios.run import Plan, in_turns
from rota import _rota
from rota.bench.serving import interruptible

CALLS = 20_000


def from_python(plan: Plan) -> Iterator[Row]:
    """PERF-4: arrays in and out, one call an event, and the same arrays from Rust."""
    members = plan.members[1]
    plan.say(f"{members:,} members join, from Python")
    crowd, native = Crowd(members), interruptible(lambda: _rota.BenchCrowd(members))
    order = np.random.default_rng(1).permutation(members)
    handles, generations = crowd.handles[order], crowd.generations
    chosen = [crowd.members[at] for at in order[:CALLS]]
    requests = [rota.protocol.Heartbeat(group, member, 1) for group, member in chosen]

    def arrays() -> tuple[int, float]:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < plan.seconds:
            codes = crowd.coordinator.heartbeats(0, handles, generations)
            assert not codes.any()
            count += members
        return count, time.perf_counter() - began

    def calls() -> tuple[int, float]:
        submit, began = crowd.coordinator.submit, time.perf_counter()
        for request in requests:
            submit(0, 0, request, entropy=0)
        return len(requests), time.perf_counter() - began

    name = "arrays in and out"
    singly, loop = "one Python call an event", "the same arrays in a Rust loop"
    ways = in_turns(
        plan, {name: arrays, singly: calls, loop: lambda: interruptible(lambda: native.handles(plan.seconds))}
    )
    what = f"heartbeats from Python in arrays, {members:,}"
    yield faster("PERF-4", what, ways[name], ways[singly], at_least(5))
    yield faster("PERF-4", what, ways[name], ways[loop], at_least(0.8))
