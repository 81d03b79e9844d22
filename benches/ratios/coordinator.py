"""Heartbeats without sockets beside Kafka's timer and its coordinator shard, and what an idle member takes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

from benches.ratios.row import Row, at_least, at_most, faster
from benches.ratios.run import Plan, in_turns, jvm, native
from benches.rival import Rival
from rota import _rota
from rota.bench.alone import Way
from rota.bench.figures import Figure, figure
from rota.bench.serving import interruptible

BYTES_MEMBERS = 100_000
# By position of the number of members.
KEYED_WANTED = (8, 20, 20)
BATCHED_WANTED = (8, 50, 60)
SINGLY_WANTED = (5, 25, 30)
GROWTH_WANTED = 4
BATCHED = "bytes to bytes, many in flight"
SINGLY = "bytes to bytes, singly"
HANDLES = "by handle in arrays"
KEYED = "Kafka's timer, cancel and add by key"
SHARD = "Kafka's shard, frame decoded"


def heartbeats(plan: Plan) -> Iterator[Row]:
    """PERF-1, PERF-2 and PERF-13: each number of members in turns with Kafka's classes."""
    first: Figure | None = None
    for at, members in enumerate(plan.members):
        plan.say(f"{members:,} members join")
        crowd = interruptible(lambda members=members: _rota.BenchCrowd(members))  # type: ignore[misc]
        with ExitStack() as stack:
            keyed, shard = (stack.enter_context(jvm(plan, what, members)) for what in ("keyed", "shard"))
            ways = measured(plan, crowd, keyed, shard)
        yield faster(
            "PERF-1",
            f"look-up and timer of a heartbeat, {members:,}",
            ways[HANDLES],
            ways[KEYED],
            at_least(KEYED_WANTED[at]),
        )
        for name, wanted in ((BATCHED, BATCHED_WANTED[at]), (SINGLY, SINGLY_WANTED[at]), (HANDLES, None)):
            what = f"heartbeat, {name}, {members:,}"
            yield faster("PERF-2", what, ways[name], ways[SHARD], None if wanted is None else at_least(wanted))
        each_s = ways[BATCHED].each_s
        if first is not None:
            yield Row(
                "PERF-13",
                f"heartbeat, {BATCHED}, {members:,}",
                f"itself at {plan.members[0]:,}",
                ratio=each_s.over(first),
                wanted=at_most(GROWTH_WANTED),
            )
        first = first or each_s


def measured(plan: Plan, crowd: _rota.BenchCrowd, keyed: Rival, shard: Rival) -> dict[str, Way]:
    """All of them in turns."""
    return in_turns(
        plan,
        {
            BATCHED: lambda: interruptible(lambda: crowd.requests(plan.seconds)),
            SINGLY: lambda: interruptible(lambda: crowd.requests_singly(plan.seconds)),
            HANDLES: lambda: interruptible(lambda: crowd.handles(plan.seconds)),
            KEYED: keyed.run,
            SHARD: shard.run,
        },
    )


def idle_bytes(plan: Plan) -> Iterator[Row]:
    """PERF-8: live bytes of each of 100,000 members in groups of 100, in the coordinator alone on both sides."""
    members = BYTES_MEMBERS // (10 if plan.quick else 1)
    ours = int(subprocess.run(native("live_bytes", members), check=True, capture_output=True, text=True).stdout)
    with jvm(plan, "shard", members) as shard:
        theirs = int(shard.ask("bytes", 120))
    yield Row(
        "PERF-8",
        f"live bytes an idle member, {members:,}",
        "live heap of Kafka's shard",
        ours=f"{ours / members:,.0f}",
        theirs=f"{theirs / members:,.0f}",
        ratio=figure([ours / theirs]),
        wanted=at_most(0.25),
        operations=f"{members:,}",
    )
