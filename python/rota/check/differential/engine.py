"""The engine `differential`: seeded runs of core and model in lockstep, and the smallest witness of a difference."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from rota.check.differential import recording, volume, witness
from rota.check.differential.cells import Reached
from rota.check.differential.walks import WALKS
from rota.check.engines import Effort, Progress, Report, each

STEPS, STEPS_QUICKLY = 1_000_000, 20_000
RUNS_AT_A_TIME = 20
NAMES = {name: "differential" if name == "classic" else f"differential/{name}" for name in WALKS}
# How many failed runs are shortened, to print the smallest.
FAILURES_MAX = 8


def run(effort: Effort, progress: Progress) -> Report:
    """Runs with consecutive seeds, from `effort.seed` on, until there are so many steps or a few of them failed."""
    began = time.perf_counter()
    wanted = effort.steps or (STEPS_QUICKLY if effort.quick else STEPS)
    walk = WALKS[effort.protocol]
    runs = steps = 0
    failures: list[volume.Failure] = []
    reached = Reached(walk.name)
    work = partial(_runs, walk=effort.protocol)
    for done, taken, failed, seen in each(work, _jobs(effort.seed, wanted), effort.processes):
        runs, steps = runs + done, steps + taken
        failures += failed
        reached.add(seen)
        progress(min(steps, wanted), wanted, "steps")
        if len(failures) >= FAILURES_MAX:
            break
    seconds = time.perf_counter() - began
    figures: dict[str, int | float | str] = {
        "steps": steps,
        "runs": runs,
        "seed": effort.seed,
        "steps/s": round(steps / seconds),
    }
    if failures:
        figures["failed runs"] = len(failures)
    found = _smallest(failures)
    if walk.situations:
        figures |= {"cells": len(reached.cells), "situations": f"{len(reached.situations)} of {len(walk.situations)}"}
        if not failures and steps >= walk.seen_within:
            found += [f"never reached in {steps:,} steps: {name}" for name in reached.unseen]
    return Report(NAMES[walk.name], not found, seconds, figures, found)


def _jobs(first: int, steps: int) -> Iterator[range]:
    """The seeds of as many runs as give so many steps."""
    last = first + -(-steps // volume.STEPS_OF_A_RUN)
    return (range(seed, min(seed + RUNS_AT_A_TIME, last)) for seed in range(first, last, RUNS_AT_A_TIME))


def _runs(seeds: range, walk: str) -> tuple[int, int, list[volume.Failure], Reached]:
    """How many runs, how many steps, what failed, and what was reached."""
    reached = Reached(walk)
    wanted = reached if WALKS[walk].situations else None
    outcomes = [volume.run(seed, walk=WALKS[walk], reached=wanted) for seed in seeds]
    failures = [failure for _, failure in outcomes if failure]
    return len(outcomes), sum(steps for steps, _ in outcomes), failures, reached


def _smallest(failures: list[volume.Failure]) -> list[str]:
    """The failure that the fewest steps show, in words and as a transcript."""
    found = min(map(volume.shorten, failures[:FAILURES_MAX]), key=lambda failure: len(failure.steps), default=None)
    if found is None:
        return []
    shown = recording.text(found) if found.is_recorded else witness.transcript(found.config, found.steps)
    return [f"{found.error}\n\n{shown}".rstrip()]


def replay(lines: str) -> Report:
    """Play a recorded run, and report where core and model differ. Raises ValueError for text that is no run."""
    began = time.perf_counter()
    config, steps = recording.read(lines)
    error = volume.error_of(config, steps)
    figures: dict[str, int | float | str] = {"steps": len(steps)}
    return Report("differential", error is None, time.perf_counter() - began, figures, [error] if error else [])
