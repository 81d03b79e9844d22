"""What an engine of `rota check` is, what it reports, and the table of all reports."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeVar

Progress = Callable[[int, int, str], None]
Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Effort:
    """How much is asked for. `steps` is for engines that take steps, `states` for the one that visits states, None
    leaves their number to them; `seed` is for those that choose, `protocol` for the random walk.
    """

    quick: bool = False
    seed: int = 0
    steps: int | None = None
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)
    states: int | None = None
    protocol: str = "classic"


@dataclass(frozen=True)
class Report:
    """One engine's outcome: whether everything held, its figures by name, and what did not hold in full words."""

    engine: str
    ok: bool
    seconds: float
    figures: dict[str, int | float | str]
    failures: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """The report as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Engine:
    """`checks` says in one sentence what it does. Its module, which is imported when it is needed, has
    `run(Effort, Progress) -> Report`, and may have `missing() -> str | None`.
    """

    name: str
    checks: str
    module: str
    protocols: tuple[str, ...] = ("classic",)
    """What `Effort.protocol` may be: the engine takes one in each run."""

    def missing(self) -> str | None:
        """What has to be installed first, if anything."""
        module = importlib.import_module(self.module)
        said: str | None = module.missing() if hasattr(module, "missing") else None
        return said

    def run(self, effort: Effort, progress: Progress) -> Report:
        """Run it to its end, or to what does not hold."""
        report: Report = importlib.import_module(self.module).run(effort, progress)
        return report


def table(reports: list[Report]) -> str:
    """One line for each engine."""
    rows = [("engine", "outcome", "seconds", "figures")]
    for report in reports:
        figures = ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
            for name, value in report.figures.items()
        )
        rows.append((report.engine, "holds" if report.ok else "FAILED", f"{report.seconds:.1f}", figures))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )


def each(work: Callable[[Job], Result], jobs: Iterable[Job], processes: int) -> Generator[Result]:
    """`work` done on every job, in some order. With one process it is done in this one."""
    if processes == 1:
        yield from map(work, jobs)
        return
    todo = iter(jobs)
    # Spawned, not forked: this process may have threads. Ctrl-C is for this process only, which then ends them.
    context, ignored = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(processes, context, signal.signal, ignored)
    try:
        done: SimpleQueue[Future[Result]] = SimpleQueue()
        running = 0
        while True:
            for job in islice(todo, 2 * processes - running):
                pool.submit(work, job).add_done_callback(done.put)
                running += 1
            if not running:
                return
            # Not `concurrent.futures.wait`: Ctrl-C in it can leave a lock held that the pool's own thread needs.
            yield done.get().result()
            running -= 1
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
