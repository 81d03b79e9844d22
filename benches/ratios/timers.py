"""The wheel beside other timers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from benches.brokers import MissingError
from benches.ratios.row import Row, at_least, faster
from benches.ratios.run import Plan, Run, in_turns, jvm, native
from benches.rival import Rival

# What each takes a turn with, and by how much it should be outdone.
WANTED = {"Kafka's SystemTimer": 10.0, "tokio-util DelayQueue": 3.0, "hierarchical_hash_wheel_timer": 3.0}
NATIVE = {"rota": "wheel", "tokio-util DelayQueue": "delay-queue", "hierarchical_hash_wheel_timer": "hierarchical"}
OPERATIONS = {"restart": "timer restarted", "expiry": "timer that fires"}


def timers(plan: Plan) -> Iterator[Row]:
    """PERF-3."""
    for armed in (10_000,) if plan.quick else (1_000_000, 10_000_000):
        for operation, what in OPERATIONS.items():
            yield from among(plan, operation, what, armed)


def among(plan: Plan, operation: str, what: str, armed: int) -> Iterator[Row]:
    """One operation on so many timers."""
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        for name, word in NATIVE.items():
            runs[name] = stack.enter_context(Rival(native("timers", word, operation, armed))).run
        missing = ""
        try:
            runs["Kafka's SystemTimer"] = stack.enter_context(jvm(plan, operation, armed)).run
        except MissingError as error:
            missing = str(error)
        ways = in_turns(plan, runs)
    for rival, wanted in WANTED.items():
        title = f"{what}, {armed:,} armed"
        if rival in ways:
            yield faster("PERF-3", title, ways["rota"], ways[rival], at_least(wanted))
        else:
            yield Row("PERF-3", title, rival, note=missing)
