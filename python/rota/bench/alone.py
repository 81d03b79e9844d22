"""Heartbeats without sockets, and the floors of the machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota import _rota
from rota.bench.figures import Figure, count, duration, figure, table
from rota.bench.serving import Say, interruptible

KIB, MIB = 1 << 10, 1 << 20
LOADS_BYTES = (16 * KIB, 256 * KIB, 8 * MIB, 256 * MIB)
MAP_MEMBERS = (1_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Way:
    """One way to do something: how often in all, and the seconds each takes, round by round."""

    what: str
    times: int
    each_s: Figure

    def to_json(self) -> dict[str, Any]:
        """Times in seconds."""
        return {"what": self.what, "times": self.times, "each_s": self.each_s.to_json()}


def way(what: str, rounds: Sequence[tuple[int, float]]) -> Way:
    """From (how often, seconds) of each round."""
    return Way(what, sum(times for times, _ in rounds), figure([seconds / times for times, seconds in rounds]))


def heartbeats(members: int, seconds: float, rounds: int, say: Say) -> list[Way]:
    """Through the coordinator, in turns with a hit in a map of as many member ids."""
    say(f"{members:,} members join")
    crowd = interruptible(lambda: _rota.BenchCrowd(members))
    in_flight: list[tuple[int, float]] = []
    singly: list[tuple[int, float]] = []
    by_handle: list[tuple[int, float]] = []
    map_hits: list[tuple[int, float]] = []
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        in_flight.append(interruptible(lambda: crowd.requests(seconds)))
        singly.append(interruptible(lambda: crowd.requests_singly(seconds)))
        by_handle.append(interruptible(lambda: crowd.handles(seconds)))
        map_hits.append(interruptible(lambda: _rota.bench_map_hits(members, seconds)[1:]))
    return [
        way("a request's bytes in, its answer's bytes out, many in flight", in_flight),
        way("the same, one by one", singly),
        way("by handle, in arrays", by_handle),
        way(f"floor: a hit in a map of {members:,} member ids", map_hits),
    ]


def floors(directory: Path | None, seconds: float, say: Say) -> list[Way]:
    """What the machine takes for the parts, one after the other."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        parts = [
            lambda: _rota.bench_clock(seconds),
            *(lambda size=size: _rota.bench_loads(size, seconds) for size in LOADS_BYTES),
            *(lambda members=members: _rota.bench_map_hits(members, seconds) for members in MAP_MEMBERS),
            lambda: _rota.bench_syncs(Path(place), seconds),
        ]
        found = []
        for number, part in enumerate(parts):
            say(f"floor {number + 1} of {len(parts)}")
            what, times, took_s = interruptible(part)
            found.append(way(what, [(times, took_s)]))
    return found


def text(ways: Sequence[Way]) -> str:
    """The table."""
    rows = []
    for one in ways:
        spread = f"{duration(min(one.each_s.rounds))} - {duration(max(one.each_s.rounds))}"
        rows.append(
            [
                one.what,
                duration(one.each_s.median),
                spread if len(one.each_s.rounds) > 1 else "",
                count(1 / one.each_s.median),
                count(one.times),
            ]
        )
    return table(["", "each", "spread", "a second", "times"], rows)
