"""Heartbeats over sockets: servers take turns under one load, the bare echo among them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

from rota import _rota
from rota.bench.figures import Figure, count, duration, figure, ratio, table
from rota.bench.processes import Served

T = TypeVar("T")

SESSION_TIMEOUT_MS = 30_000
# The longest that brokers allow by default.
SESSION_TIMEOUT_MAX_MS = 1_800_000
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
LOOK_S = 0.1
Seat = tuple[str, str, int]
Points = list[tuple[float, int]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """The load. A `rate` of heartbeats a second makes an open loop, None a closed one."""

    connections: int
    depth: int
    members: int
    group_members: int
    warm_up_s: float
    seconds: float
    rounds: int
    rate: float | None = None


@dataclass(frozen=True)
class Round:
    """What one server did in one round."""

    answers: int
    errors: int
    elapsed_s: float
    points: Points
    cpu_s: float | None
    late: Points = field(default_factory=list)
    """By how much an open loop sent later than was due: the load's own doing, which is in `points` too."""

    @property
    def per_s(self) -> float:
        """Answers a second."""
        return self.answers / self.elapsed_s

    def took_s(self, share: float) -> float:
        """The time within which this share of the answers came."""
        return at_share(self.points, share)

    def late_s(self, share: float) -> float:
        """The time by which this share of the heartbeats was sent late at most."""
        return at_share(self.late, share)


def at_share(points: Points, share: float) -> float:
    """Seconds."""
    return next(ns for at, ns in points if at >= share) / 1e9


@dataclass
class Result:
    """All rounds of one server."""

    served: Served
    rounds: list[Round] = field(default_factory=list)

    @property
    def per_s(self) -> Figure:
        """Answers a second of each round."""
        return figure([one.per_s for one in self.rounds])

    def took_s(self, share: float) -> Figure:
        """A share's time in each round."""
        return figure([one.took_s(share) for one in self.rounds])

    def late_s(self, share: float) -> Figure:
        """How late a share was sent in each round of an open loop."""
        return figure([one.late_s(share) for one in self.rounds])

    @property
    def cpu_each_s(self) -> Figure | None:
        """CPU of the server for each answer; the warm-up's share is taken as that of the rest."""
        known = [one.cpu_s / one.answers for one in self.rounds if one.cpu_s is not None]
        return figure(known) if len(known) == len(self.rounds) else None

    def to_json(self, floor: Result | None, plan: Plan) -> dict[str, Any]:
        """Everything of the table and all rounds; times in seconds."""
        cpu = self.cpu_each_s
        late = None if plan.rate is None else {name: self.late_s(share).to_json() for name, share in SHARES.items()}
        return {
            "name": self.served.name,
            "address": self.served.address,
            "answers": sum(one.answers for one in self.rounds),
            "errors": sum(one.errors for one in self.rounds),
            "per_s": self.per_s.to_json(),
            "of_the_echo": None if floor is None else self.per_s.over(floor.per_s).to_json(),
            "cpu_s_each": None if cpu is None else cpu.to_json(),
            "took_s": {name: self.took_s(share).to_json() for name, share in SHARES.items()},
            "sent_late_s": late,
        }


def interruptible(work: Callable[[], T]) -> T:
    """Do it in a thread, so that Ctrl-C is heard while compiled code runs."""
    done: list[T | BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            # Raised again by the one who waits.
            done.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_S)
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


def patient_ms(servers: int, plan: Plan) -> int:
    """A session that lasts while the others have their turns, with as much again for their members to join."""
    round_ms = round(servers * (plan.warm_up_s + plan.seconds) * 1_000)
    return min(SESSION_TIMEOUT_MS + 2 * round_ms, SESSION_TIMEOUT_MAX_MS)


def seats(served: Served, plan: Plan, session_timeout_ms: int) -> list[Seat]:
    """Members that have joined, each in its own way; those of the echo are made up."""
    prefix = f"rota-bench-{uuid4().hex[:8]}"
    if not served.speaks:
        return [(f"{prefix}-{at // plan.group_members}", f"{'-' * 40}{at:06}", 1) for at in range(plan.members)]
    if served.assemble is not None:
        return served.assemble(served.address, plan.members, plan.group_members)
    return interruptible(
        lambda: _rota.bench_assemble(served.address, plan.members, plan.group_members, session_timeout_ms, prefix)
    )


class Crowd:
    """Members of a server's groups for as long as it is measured; they leave at the end."""

    def __init__(self, served: Served, plan: Plan, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.served = served
        self.seats = seats(served, plan, session_timeout_ms)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        if self.served.speaks:
            _rota.bench_dismiss(self.served.address, self.seats)

    def run(self, plan: Plan) -> Round:
        """One round of the load."""
        before = self.served.cpu_s()
        answers, errors, elapsed_s, points, late = interruptible(
            lambda: _rota.bench_load(
                self.served.address,
                self.seats,
                connections=plan.connections,
                depth=plan.depth,
                warm_up_s=plan.warm_up_s,
                seconds=plan.seconds,
                rate=plan.rate,
            )
        )
        after = self.served.cpu_s()
        counted = elapsed_s / (elapsed_s + plan.warm_up_s)
        cpu_s = None if before is None or after is None else (after - before) * counted
        return Round(answers, errors, elapsed_s, points, cpu_s, late)


def measure(servers: Sequence[Served], plan: Plan, say: Say) -> list[Result]:
    """All servers in turn, round by round."""
    results = [Result(served) for served in servers]
    with ExitStack() as stack:
        crowds = []
        for served in servers:
            if served.speaks:
                say(f"{plan.members:,} members join at {served.name}")
            crowds.append(stack.enter_context(Crowd(served, plan, patient_ms(len(servers), plan))))
        for number in range(plan.rounds):
            for crowd, result in zip(crowds, results, strict=True):
                say(f"round {number + 1} of {plan.rounds}: {crowd.served.name}")
                result.rounds.append(crowd.run(plan))
    return results


def floor_of(results: Sequence[Result]) -> Result | None:
    """The echo, if it was among them."""
    return next((result for result in results if not result.served.speaks), None)


def text(results: Sequence[Result], plan: Plan) -> str:
    """The table."""
    floor = floor_of(results)
    loop = "closed loop" if plan.rate is None else f"open loop, {plan.rate:,.0f}/s, time counted from when it was due"
    late = [] if plan.rate is None else ["sent late, p99.9"]
    head = ["", "heartbeats/s", "of the echo", "CPU each", *SHARES, *late, "errors"]
    rows = []
    for result in results:
        cpu = result.cpu_each_s
        rows.append(
            [
                result.served.name,
                count(result.per_s.median),
                "" if floor is None or result is floor else ratio(result.per_s.over(floor.per_s)),
                "" if cpu is None else duration(cpu.median),
                *(duration(result.took_s(share).median) for share in SHARES.values()),
                *(duration(result.late_s(SHARES["p99.9"]).median) for _ in late),
                f"{sum(one.errors for one in result.rounds):,}",
            ]
        )
    title = (
        f"{plan.connections:,} connections, {plan.depth} in flight on each, {plan.members:,} members; {loop}; "
        f"medians of {plan.rounds} rounds of {plan.seconds:g} s"
    )
    return f"{title}\n{table(head, rows)}"
