"""Heartbeats without sockets beside Kafka's timer, its shard and its service, and what an idle member takes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

from benches.ratios.row import Row, at_least, at_most, faster
from benches.ratios.run import Plan, Run, in_turns, jvm, native
from benches.rival import Rival
from rota import _rota
from rota.bench.alone import Way
from rota.bench.figures import Figure, duration, figure
from rota.bench.serving import interruptible

BYTES_MEMBERS = 100_000
# By position of the number of members.
KEYED_WANTED = (8, 20, 20)
BATCHED_WANTED = (8, 50, 60)
SINGLY_WANTED = (5, 25, 30)
SERVICE_WANTED = (50, 100, 100)
GROWTH_WANTED = 4
CONSUMER_WANTED = (8, 30, 30)
# A heartbeat of a consumer group takes at most so many of a classic one.
CLASSIC_WANTED = 1.5
BATCHED = "bytes to bytes, many in flight"
SINGLY = "bytes to bytes, singly"
# Beside what has threads of its own.
BATCHED_LEAST = f"{BATCHED}, wall or processor"
SINGLY_LEAST = f"{SINGLY}, wall or processor"
HANDLES = "by handle in arrays"
CONSUMER = "consumer group, bytes to bytes"
KEYED = "Kafka's timer, cancel and add by key"
SHARD = "Kafka's shard, frame decoded"
SERVICE = "Kafka's service with runtime"
SERVICE_SINGLY = "Kafka's service with runtime, singly"


def heartbeats(plan: Plan) -> Iterator[Row]:
    """PERF-1, PERF-2 and PERF-13: each number of members in turns with Kafka's classes."""
    first: Figure | None = None
    for at, members in enumerate(plan.members):
        plan.say(f"{members:,} members join")
        crowd = interruptible(lambda members=members: _rota.BenchCrowd(members))  # type: ignore[misc]
        with ExitStack() as stack:
            keyed, shard = (stack.enter_context(jvm(plan, what, members)) for what in ("keyed", "shard"))
            service = stack.enter_context(jvm(plan, "service", members, lines=("run", "singly")))
            ways = measured(plan, crowd, keyed, shard, service)
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
        what = f"heartbeat, {BATCHED}, {members:,}"
        yield faster("PERF-2", what, ways[BATCHED_LEAST], ways[SERVICE], at_least(SERVICE_WANTED[at]))
        yield faster("PERF-2", f"heartbeat, {SINGLY}, {members:,}", ways[SINGLY_LEAST], ways[SERVICE_SINGLY], None)
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


def consumer_heartbeats(plan: Plan) -> Iterator[Row]:
    """PERF-16: heartbeats of consumer groups that change nothing, beside Kafka's shard and beside the classic ones."""
    for at, members in enumerate(plan.members):
        crowd = interruptible(lambda members=members: _rota.BenchCrowd(members))  # type: ignore[misc]
        with ExitStack() as stack:
            ours = stack.enter_context(Rival(native("consumer_heartbeats", members, plan.seconds)))
            shard = stack.enter_context(jvm(plan, "consumer-shard", members))
            ways = in_turns(plan, {CONSUMER: ours.run, SHARD: shard.run, SINGLY: one_by_one(plan, crowd)})
        what = f"heartbeat, {CONSUMER}, {members:,}"
        yield faster("PERF-16", what, ways[CONSUMER], ways[SHARD], at_least(CONSUMER_WANTED[at]))
        took, other = ways[CONSUMER].each_s, ways[SINGLY].each_s
        yield Row(
            "PERF-16",
            what,
            f"classic group, {SINGLY}",
            duration(took.median),
            duration(other.median),
            took.over(other),
            at_most(CLASSIC_WANTED),
        )


def one_by_one(plan: Plan, crowd: _rota.BenchCrowd) -> Run:
    """Heartbeats of classic groups, each when the one before is answered."""
    return lambda: interruptible(lambda: crowd.requests_singly(plan.seconds))


def measured(plan: Plan, crowd: _rota.BenchCrowd, keyed: Rival, shard: Rival, service: Rival) -> dict[str, Way]:
    """All of them in turns."""
    return in_turns(
        plan,
        {
            BATCHED: lambda: interruptible(lambda: crowd.requests(plan.seconds)),
            SINGLY: one_by_one(plan, crowd),
            HANDLES: lambda: interruptible(lambda: crowd.handles(plan.seconds)),
            KEYED: keyed.run,
            SHARD: shard.run,
            BATCHED_LEAST: lambda: interruptible(lambda: on_one_thread(lambda: crowd.requests(plan.seconds))),
            SERVICE: lambda: on_threads(plan, service, "run"),
            SINGLY_LEAST: lambda: interruptible(lambda: on_one_thread(lambda: crowd.requests_singly(plan.seconds))),
            SERVICE_SINGLY: lambda: on_threads(plan, service, "singly"),
        },
    )


def on_one_thread(run: Run) -> tuple[int, float]:
    """A run on this thread: wall time or its processor time, whichever is less."""
    began_s = time.thread_time()
    operations, wall_s = run()
    return operations, min(wall_s, time.thread_time() - began_s)


def on_threads(plan: Plan, service: Rival, line: str) -> tuple[int, float]:
    """A run of something with threads of its own: wall time or the processor time of all of them, whichever is less.

    On quiet cores two threads at once take less wall time, on busy ones the processor's leaves out what others took.
    """
    wall, processor = service.run(line=line), service.run(line="processor")
    for what, (operations, seconds) in (("wall", wall), ("processor", processor)):
        plan.say(f"{what} time of each: {duration(seconds / operations)}")
    return min(wall, processor, key=lambda run: run[1])


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
