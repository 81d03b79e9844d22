"""The engine `differential`: seeded runs of core and model in lock-step, and the smallest witness of a difference."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rota.check.differential import volume, witness
from rota.check.engines import Effort, Progress, Report, each

STEPS, STEPS_QUICKLY = 1_000_000, 20_000
RUNS_AT_A_TIME = 20
# How many failed runs are shortened, to print the smallest.
FAILURES_MAX = 8


def run(effort: Effort, progress: Progress) -> Report:
    """Runs with consecutive seeds, from `effort.seed` on, until there are so many steps or a few of them failed."""
    began = time.perf_counter()
    wanted = effort.steps or (STEPS_QUICKLY if effort.quick else STEPS)
    runs = steps = 0
    failures: list[volume.Failure] = []
    for done, taken, failed in each(_runs, _jobs(effort.seed, wanted), effort.processes):
        runs, steps = runs + done, steps + taken
        failures += failed
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
    return Report("differential", not failures, seconds, figures, _smallest(failures))


def _jobs(first: int, steps: int) -> Iterator[range]:
    """The seeds of as many runs as give so many steps."""
    last = first + -(-steps // volume.STEPS_OF_A_RUN)
    return (range(seed, min(seed + RUNS_AT_A_TIME, last)) for seed in range(first, last, RUNS_AT_A_TIME))


def _runs(seeds: range) -> tuple[int, int, list[volume.Failure]]:
    """How many runs, how many steps, and what failed."""
    outcomes = [volume.run(seed) for seed in seeds]
    return len(outcomes), sum(steps for steps, _ in outcomes), [failure for _, failure in outcomes if failure]


def _smallest(failures: list[volume.Failure]) -> list[str]:
    """The failure that the fewest steps show, in words and as a transcript."""
    found = min(map(volume.shorten, failures[:FAILURES_MAX]), key=lambda failure: len(failure.steps), default=None)
    return [f"{found.error}\n\n{witness.transcript(found.config, found.steps)}".rstrip()] if found else []
