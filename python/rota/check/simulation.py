"""The engine `simulation`: many worlds of coordinators and members under faults, all kinds at once and some."""

from __future__ import annotations

import time

from rota import simulate
from rota.check.engines import Effort, Progress, Report
from rota.simulate import Total

WORLDS, WORLDS_QUICKLY = 10_000, 400
MS_OF_AN_HOUR = 3_600_000


def run(effort: Effort, progress: Progress) -> Report:
    """Worlds with consecutive seeds, from `effort.seed` on: half of them with every kind of fault, half with some."""
    began = time.perf_counter()
    half = (WORLDS_QUICKLY if effort.quick else WORLDS) // 2
    totals: list[tuple[bool, Total]] = []
    for swarm in (False, True):
        done = Total()
        for done in simulate.worlds(effort.seed, effort.seed + half, swarm=swarm, threads=effort.processes):
            progress(half * swarm + done.seeds, 2 * half, "worlds")
        totals.append((swarm, done))
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
        f"{world.broken.id}: {world.broken.words}\nrota simulate --seed {world.seed}{' --swarm' * swarm} --minimise"
        for swarm, total in totals
        if (world := total.broken) is not None and world.broken is not None
    ]
    return Report("simulation", not failures, seconds, figures, failures)
