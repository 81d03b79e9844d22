"""The simulator from Python: whole worlds of coordinators and members under faults, each from one seed.

`docs/simulate.md` says what a world is made of, what goes wrong in it, and what is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from rota._rota import simulate_faults, simulate_world, simulate_worlds
from rota.interrupts import completed

__all__ = ["PROTOCOLS", "Broken", "Total", "World", "faults", "world", "worlds"]

SEEDS_AT_A_TIME = 50
PROTOCOLS: Final = ("classic", "consumer", "mixed", "all")


@dataclass(frozen=True)
class Broken:
    """What a world broke: the check, when (ms of the world), and what was seen."""

    id: str
    at_ms: int
    words: str


@dataclass(frozen=True)
class World:
    """How one world went.

    `protocol` is that of its members: classic, consumer or mixed. `faults` are in the order in which they strike;
    `lines` is empty unless it was asked for. `lives` are the processes: each `process` is a place and a number of its
    life there. `owned` says who had which partition from when to when.
    """

    seed: int
    protocol: str
    faults: list[dict[str, int | str]]
    broken: Broken | None
    figures: dict[str, Any]
    lines: list[str]
    lives: list[dict[str, Any]]
    owned: list[dict[str, Any]]

    @classmethod
    def read(cls, report: dict[str, Any]) -> World:
        """From the report that the simulator gives."""
        violation = report["violation"]
        broken = None if violation is None else Broken(**violation)
        told = {name: report[name] for name in ("seed", "protocol", "faults", "figures", "lines", "lives", "owned")}
        return cls(broken=broken, **told)


@dataclass
class Total:
    """What many worlds came to: sums, and the world with the lowest seed that broke."""

    seeds: int = 0
    settled_ms_max: int = 0
    settled_rebalances_max: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    broken: World | None = None

    def add(self, part: dict[str, Any]) -> None:
        """Add what some worlds came to."""
        self.seeds += part["seeds"]
        self.settled_ms_max = max(self.settled_ms_max, part["settled_ms_max"])
        self.settled_rebalances_max = max(self.settled_rebalances_max, part["settled_rebalances_max"])
        _add(self.figures, part["figures"])
        if part["broken"] is not None:
            broken = World.read(part["broken"])
            if self.broken is None or broken.seed < self.broken.seed:
                self.broken = broken


def _add(sums: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            _add(sums.setdefault(name, {}), value)
        else:
            sums[name] = sums.get(name, 0) + value


def faults() -> dict[str, str]:
    """The kinds of faults by name, and what each does."""
    return dict(simulate_faults())


def world(
    seed: int,
    *,
    protocol: str = "all",
    swarm: bool = False,
    engine: bool = False,
    lines: bool = False,
    minimised: bool = False,
) -> World | None:
    """Run the world of a seed. `protocol` is one of `PROTOCOLS`; with `all` the seed decides. `swarm`: only some kinds
    of faults, which differ from seed to seed. `engine`: the nodes share the partitions over an engine. `minimised`
    leaves out the faults that are not needed to break it, and gives None if nothing breaks.
    """
    report = simulate_world(seed, protocol=protocol, swarm=swarm, engine=engine, lines=lines, minimised=minimised)
    return None if report is None else World.read(json.loads(report))


def worlds(
    first: int, stop: int, *, protocol: str = "all", swarm: bool = False, engine: bool = False, threads: int = 1
) -> Iterator[Total]:
    """Run the worlds of the seeds from `first` to `stop` - 1, and give the total so far again and again.

    Ends early when one broke: the first of those that were run.
    """
    total = Total()
    todo = [(seed, min(seed + SEEDS_AT_A_TIME, stop)) for seed in range(first, stop, SEEDS_AT_A_TIME)]
    run = partial(simulate_worlds, protocol=protocol, swarm=swarm, engine=engine)
    running = completed(lambda part: run(*part), todo, threads)
    try:
        for report in running:
            total.add(json.loads(report))
            yield total
            if total.broken is not None:
                return
    finally:
        running.close()
