"""The assignors, as `benches/assignors.py` measures them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benches import assignors
from benches.brokers import needs
from benches.ratios.row import Row, Wanted, at_least, at_most
from benches.ratios.run import Plan
from rota.bench.figures import duration, figure

# By the title in `benches/assignors.py`.
WANTED: dict[str, Wanted | None] = {
    "uniform, cold": at_least(10),
    "uniform, one leaves": None,
    "server range": at_least(10),
    "sticky equal, cold": at_least(20),
    "sticky equal, one leaves": at_least(50),
    "sticky unequal, cold": at_least(50),
}
GROWTH_WANTED = 1.2
# Of a run that Kafka may not finish: the whole table has to end, too.
LIMIT_S = 40
QUICK = ("server range",)


def chosen(plan: Plan, title: str) -> bool:
    """A few when it has to be quick; those that Kafka does not finish only when it has not."""
    return title in (QUICK if plan.quick else WANTED)


def assign(plan: Plan) -> Iterator[Row]:
    """PERF-11 and PERF-13."""
    for program in ("java", "mvn"):
        needs(program, "Kafka's assignors")
    program = assignors.native()
    for case in assignors.CASES:
        if chosen(plan, case.title):
            plan.say(f"assignor: {case.title}")
            case = replace(case, limit_s=LIMIT_S)
            yield row(case, assignors.compare(case, plan.rounds, program))
    for case_grown in assignors.GROWTH:
        if chosen(plan, case_grown[0]):
            plan.say(f"growth: {case_grown[0]}")
            yield grown(assignors.grow(case_grown, plan.rounds, program))


def targets(plan: Plan) -> Iterator[Row]:
    """PERF-16: the target of a consumer group in the core, records included, beside Kafka's class alone."""
    for program in ("java", "mvn"):
        needs(program, "Kafka's assignors")
    program = assignors.native("target")
    for case in assignors.TARGETS[: 1 if plan.quick else None]:
        plan.say(case.title)
        yield row(case, assignors.compare(case, plan.rounds, program), "PERF-16")


def row(case: assignors.Case, done: dict[str, Any], goal: str = "PERF-11") -> Row:
    """One of Kafka's classes."""
    wanted = WANTED.get(case.title)
    what = f"{case.title}, {case.topics * case.partitions:,} x {case.members:,}"
    ours = duration(done["rota_ms"] / 1_000)
    if done["late"]:
        theirs = f"> {case.limit_s:.0f} s"
        return Row(goal, what, "Kafka's class", ours, theirs, figure([done["ratio"]]), wanted, "at least")
    theirs = duration(done["kafka_ms"] / 1_000)
    low, high = done["quartiles"]
    return Row(
        goal,
        what,
        "Kafka's class" if done["never_worse"] else "Kafka's class, WHOSE PLAN IS BETTER",
        ours,
        theirs,
        figure([low, done["ratio"], high]),
        wanted,
        f"{done['runs']} pairs",
    )


def grown(done: dict[str, Any]) -> Row:
    """Eight times the size over once."""
    sizes, times = done["n"], done["ms"]
    return Row(
        "PERF-13",
        f"{done['case']}, 8 times the size, over n log n",
        "itself",
        duration(times[-1] / 1_000),
        duration(times[0] / 1_000),
        figure([done["over_n_log_n"][-1]]),
        at_most(GROWTH_WANTED),
        f"{sizes[-1]:,} / {sizes[0]:,}",
    )
