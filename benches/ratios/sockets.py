"""Heartbeats and joins over TCP: the server on one core, the load on the other, all of them in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benches import brokers
from benches.ratios.row import Row, Wanted, at_least, at_most
from benches.ratios.run import Plan, warmed
from rota.bench import processes, serving
from rota.bench.figures import count, duration
from rota.bench.processes import BenchError, Served
from rota.bench.serving import Result

GROUP_MEMBERS = 100
OPEN_RATE = 20_000
# What a broker's failing looks like from here.
BROKEN = (BenchError, OSError)


@dataclass(frozen=True)
class Load:
    """One line of load; a `rate` makes it an open loop. `wanted` is by how much Kafka should be outdone."""

    connections: int
    depth: int
    rate: float | None = None
    wanted: Wanted | None = None

    @property
    def title(self) -> str:
        """In the table."""
        if self.rate is not None:
            return f"p99.9 at {self.rate:,.0f} heartbeats/s, open loop, {self.connections} connections"
        return f"TCP heartbeats/s, {self.connections:,} x {self.depth}"

    def plan(self, plan: Plan) -> serving.Plan:
        """As `rota bench serve` takes it."""
        seconds = 0.2 if plan.quick else 2.5
        return serving.Plan(
            self.connections, self.depth, self.connections, GROUP_MEMBERS, seconds / 6, seconds, plan.rounds, self.rate
        )


ECHO_LOADS = (Load(16, 1), Load(256, 1), Load(4_096, 1))
QUICK_ECHO_LOADS = (Load(16, 1),)
RIVAL_LOADS = (
    Load(16, 1, wanted=at_least(3)),
    Load(256, 1, wanted=at_least(3)),
    Load(16, 64, wanted=at_least(100)),
    Load(16, 1, OPEN_RATE, wanted=at_least(20)),
)
# Un-pipelined and beside the C mock; the others have no figure of their own.
MOCK_WANTED = at_least(1.4)


def beside_the_echo(plan: Plan) -> Iterator[Row]:
    """PERF-5: nothing else runs meanwhile."""
    with processes.pinned_load() as core, ExitStack() as stack:
        servers = [stack.enter_context(processes.echo(core)), stack.enter_context(processes.own_server(core))]
        for load in QUICK_ECHO_LOADS if plan.quick else ECHO_LOADS:
            echo, ours = serving.measure(servers, load.plan(plan), plan.say)
            yield of_rates(f"{load.title}", "PERF-5", ours, echo, at_least(0.9))
            if ours.cpu_each_s is not None and echo.cpu_each_s is not None:
                yield Row(
                    "PERF-5",
                    f"CPU of a TCP heartbeat, {load.connections:,} x {load.depth}",
                    echo.served.name,
                    duration(ours.cpu_each_s.median),
                    duration(echo.cpu_each_s.median),
                    ours.cpu_each_s.over(echo.cpu_each_s),
                    at_most(1.15),
                    answered(ours, echo),
                )


def beside_brokers(plan: Plan) -> Iterator[Row]:
    """PERF-6."""
    with processes.pinned_load() as core, ExitStack() as stack:
        ours = stack.enter_context(processes.own_server(core))
        rivals: list[Served] = []
        for name, start in brokers.RIVALS.items():
            plan.say(f"{name} starts")
            try:
                rivals.append(stack.enter_context(start(core)))
            except brokers.MissingError as error:
                yield Row("PERF-6", "TCP heartbeats", name, note=str(error))
        for rival in rivals:
            if is_kafka(rival):
                warmed(rival, plan)
        # What an open loop takes of a server that does nothing, and of the machine that all of them share.
        floor = stack.enter_context(processes.echo(core))
        for load in RIVAL_LOADS:
            yield from one_load(plan, load, ours, rivals if load.rate is None else [floor, *rivals])


def one_load(plan: Plan, load: Load, ours: Served, rivals: Sequence[Served]) -> Iterator[Row]:
    """Rota, then the others, in turns. If one of them fails under the load, each takes turns with rota alone."""
    try:
        together = [serving.measure([ours, *rivals], load.plan(plan), plan.say)]
    except BROKEN:
        together = []
        for rival in rivals:
            try:
                together.append(serving.measure([ours, rival], load.plan(plan), plan.say))
            except BROKEN as error:
                yield Row("PERF-6", load.title, rival.name, note=f"failed: {error}")
    for mine, *theirs in together:
        for result in theirs:
            yield beside(load, mine, result)


def is_kafka(served: Served) -> bool:
    """Which rivals Kafka's goals are about, and a JVM is behind."""
    return served.name.startswith("Kafka")


def beside(load: Load, mine: Result, result: Result) -> Row:
    """One rival under one load."""
    kafka = is_kafka(result.served)
    if load.rate is not None:
        return of_pauses(load.title, mine, result, load.wanted if kafka else None)
    is_mock = "mock" in result.served.name and load.depth == 1
    return of_rates(load.title, "PERF-6", mine, result, load.wanted if kafka else MOCK_WANTED if is_mock else None)


def refused(*results: Result) -> int:
    """Heartbeats that were answered with an error. That is quicker, so nothing can be said of such a run."""
    return sum(one.errors for result in results for one in result.rounds)


def answered(*results: Result) -> str:
    """How many heartbeats each, and how many of all were refused."""
    counts = [count(sum(one.answers for one in result.rounds)) for result in results]
    errors = refused(*results)
    return " / ".join(counts) + (f", {errors:,} REFUSED" if errors else "")


def of_rates(title: str, goal: str, ours: Result, theirs: Result, wanted: Wanted | None) -> Row:
    """Answers a second."""
    return Row(
        goal,
        title,
        theirs.served.name,
        count(ours.per_s.median),
        count(theirs.per_s.median),
        ours.per_s.over(theirs.per_s),
        None if refused(ours, theirs) else wanted,
        answered(ours, theirs),
    )


def of_pauses(title: str, ours: Result, theirs: Result, wanted: Wanted | None) -> Row:
    """The time within which 99.9 % of the answers came; behind the counts, how late 99.9 % were sent at most."""
    share = serving.SHARES["p99.9"]
    mine, other = ours.took_s(share), theirs.took_s(share)
    late = f"; sent late {duration(ours.late_s(share).median)} / {duration(theirs.late_s(share).median)}"
    return Row(
        "PERF-6",
        title,
        theirs.served.name,
        duration(mine.median),
        duration(other.median),
        other.over(mine),
        None if refused(ours, theirs) else wanted,
        answered(ours, theirs) + late,
    )
