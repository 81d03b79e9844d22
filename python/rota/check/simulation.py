"""The engine `simulation`: many worlds of coordinators and members under faults, all kinds at once and some."""

from __future__ import annotations

import time

from rota import simulate
from rota.check.engines import Effort, Progress, Report
from rota.simulate import Total

WORLDS, WORLDS_QUICKLY = 10_000, 400
MS_OF_AN_HOUR = 3_600_000
PARTS = {"": (False, False, 2), " --swarm": (True, False, 4), " --cluster": (False, True, 4)}
"""The worlds by their option: whether swarms, whether over an engine, and one of how many worlds is such a one."""


def run(effort: Effort, progress: Progress) -> Report:
    """Worlds with consecutive seeds, from `effort.seed` on: half with every kind of fault, a quarter with some
    kinds, and a quarter whose nodes share partitions over an engine.
    """
    began = time.perf_counter()
    worlds, before = WORLDS_QUICKLY if effort.quick else WORLDS, 0
    totals: list[tuple[str, Total]] = []
    for option, (swarm, engine, share) in PARTS.items():
        done, stop = Total(), effort.seed + worlds // share
        for done in simulate.worlds(effort.seed, stop, swarm=swarm, engine=engine, threads=effort.processes):
            progress(before + done.seeds, worlds, "worlds")
        before += worlds // share
        totals.append((option, done))
    seconds = time.perf_counter() - began
    events = sum(total.figures["happenings"] for _, total in totals)
    kinds = {kind for _, total in totals for kind, count in total.figures["effective"].items() if count}
    figures: dict[str, int | float | str] = {
        "worlds": sum(total.seeds for _, total in totals),
        "events": events,
        "events/s": round(events / seconds),
        "simulated hours": round(sum(total.figures["simulated_ms"] for _, total in totals) / MS_OF_AN_HOUR, 1),
        "kinds of faults": len(kinds),
        "seed": effort.seed,
    }
    failures = [
        f"{world.broken.id}: {world.broken.words}\nrota simulate --seed {world.seed}{option} --minimise"
        for option, total in totals
        if (world := total.broken) is not None and world.broken is not None
    ]
    return Report("simulation", not failures, seconds, figures, failures)
