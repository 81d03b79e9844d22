"""A storm of joins: servers take turns, and the time counts until every group is Stable with all of its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any
from uuid import uuid4

from rota import _rota
from rota.bench.figures import Figure, duration, figure, table
from rota.bench.processes import Served
from rota.bench.serving import SESSION_TIMEOUT_MS, Say, interruptible


@dataclass(frozen=True)
class Storm:
    """How many groups of how many members, and how often."""

    groups: int
    members: int
    rounds: int


@dataclass(frozen=True)
class Round:
    """One storm."""

    elapsed_s: float
    requests: int
    generations: int
    join_p50_s: float
    join_p99_s: float
    join_max_s: float


@dataclass
class Result:
    """All storms of one server."""

    served: Served
    rounds: list[Round] = field(default_factory=list)

    def figure(self, name: str) -> Figure:
        """One column, round by round."""
        return figure([getattr(one, name) for one in self.rounds])

    def to_json(self) -> dict[str, Any]:
        """All columns and rounds; times in seconds."""
        columns = {column.name: self.figure(column.name).to_json() for column in fields(Round)}
        return {"name": self.served.name, "address": self.served.address, **columns}


def measure(servers: Sequence[Served], storm: Storm, say: Say) -> list[Result]:
    """All servers in turn, round by round; each round has groups of its own, and they leave at its end."""
    results = [Result(served) for served in servers]
    for number in range(storm.rounds):
        for result in results:
            address, prefix = result.served.address, f"rota-storm-{uuid4().hex[:8]}"
            say(f"round {number + 1} of {storm.rounds}: {result.served.name}")
            weather = partial(_rota.bench_storm, address, storm.groups, storm.members, SESSION_TIMEOUT_MS, prefix)
            elapsed_s, requests, generations, joins_s, seats = interruptible(weather)
            _rota.bench_dismiss(address, seats)
            result.rounds.append(Round(elapsed_s, requests, generations, *joins_s))
    return results


def text(results: Sequence[Result], storm: Storm) -> str:
    """The table."""
    head = ["", "to Stable", "spread", "requests", "generations", "join p50", "join p99", "slowest"]
    rows = []
    for result in results:
        took = result.figure("elapsed_s")
        rows.append(
            [
                result.served.name,
                duration(took.median),
                f"{duration(min(took.rounds))} - {duration(max(took.rounds))}",
                f"{result.figure('requests').median:,.0f}",
                f"{result.figure('generations').median:.0f}",
                *(duration(result.figure(name).median) for name in ("join_p50_s", "join_p99_s", "join_max_s")),
            ]
        )
    title = f"{storm.groups:,} groups of {storm.members:,} members join at once; medians of {storm.rounds} rounds"
    return f"{title}\n{table(head, rows)}"
