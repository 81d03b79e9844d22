"""Groups that come to Stable from nothing, by the load that `rota bench serve` begins with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from benches import brokers
from benches.ratios.row import Row, at_least, faster
from benches.ratios.run import Plan, in_turns
from rota.bench import processes, serving
from rota.bench.processes import Served

# Groups, and members of each.
CROWDS = ((1, 100), (1, 1_000), (1, 5_000), (1_000, 10))
QUICK_CROWDS = ((1, 20), (5, 4))
WANTED = at_least(3)


def assembled(served: Served, groups: int, members: int) -> tuple[int, float]:
    """All members of new groups join and sync, each in a thread with a connection of its own; then they leave."""
    load = serving.Plan(1, 1, groups * members, members, 0, 1, 1)
    began = time.perf_counter()
    with serving.Crowd(served, load):
        return groups * members, time.perf_counter() - began


def joins(plan: Plan) -> Iterator[Row]:
    """PERF-7."""
    with processes.pinned_load() as core, processes.own_server(core) as ours, brokers.kafka(core) as kafka:
        # A new broker makes the topic of its offsets when it is first asked.
        assembled(kafka, 1, 2)
        for groups, members in QUICK_CROWDS if plan.quick else CROWDS:
            runs = {served.name: partial(assembled, served, groups, members) for served in (ours, kafka)}
            ways = in_turns(plan, runs)
            what = f"cold join to Stable of {groups:,} x {members:,} members, each"
            yield faster("PERF-7", what, ways[ours.name], ways[kafka.name], WANTED)
