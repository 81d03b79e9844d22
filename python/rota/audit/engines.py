"""What has to be done for an audit, task by task, and the engine that does it in this process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from rota.audit import folds, opinion, promises
from rota.audit.logs import JOURNAL, Part

Result = promises.Promised | folds.Fold | opinion.Opinion
Partitions = list[list[Part]]
"""The parts of the logs, partition by partition."""
Say = Callable[[str], None]

PROMISES, REPLAY, MODEL = "promises", "replay", "model"
SAID_EVERY_S = 1.0


class Task(NamedTuple):
    """A task about one of the partitions."""

    kind: str
    """`promises`, `replay` or `model`."""
    partition: int
    part: int = 0
    """Of a replay, which parts of a journal share: the first part."""


class Engine(Protocol):
    """Runs tasks; gives their results in the same order."""

    def __call__(self, tasks: list[Task], partitions: Partitions, say: Say) -> list[Result]:
        """`say` hears how far it is."""


def tasks_of(partitions: Partitions) -> list[Task]:
    """All tasks. Every partition is folded for its promises; journals are replayed, and the model is asked of some."""
    readable = [
        number
        for number, parts in enumerate(partitions)
        if parts[0].source == JOURNAL and any(part.trouble is None for part in parts)
    ]
    asked = readable[:: max(1, -(-len(readable) // opinion.PARTITIONS_ASKED))]
    parts = [(number, index) for number in readable for index in range(len(folds.readable(partitions[number])))]
    return [
        *(Task(PROMISES, number) for number in range(len(partitions))),
        *(Task(REPLAY, *part) for part in parts),
        *(Task(MODEL, number) for number in asked),
    ]


def run(task: Task, partitions: Partitions, tell: Callable[[Part], None] = lambda _: None) -> Result:
    """One task. `tell` hears of each part that was read."""
    parts = partitions[task.partition]
    if task.kind == PROMISES:
        return promises.promised(parts, tell)
    if task.kind == MODEL:
        return opinion.opinion_of(parts[0])
    parts = folds.readable(parts)[task.part :]
    folded = folds.fold(parts)
    tell(parts[0])
    return folded


class Rate:
    """How far reading is: bytes, rate, and the time that is left."""

    def __init__(self, tasks: list[Task], partitions: Partitions, say: Say) -> None:
        # A journal is read twice: for its promises, and by the replay.
        reads = [task.partition for task in tasks if task.kind == PROMISES]
        reads += sorted({task.partition for task in tasks if task.kind == REPLAY})
        self._total_bytes = sum(part.end - part.start for number in reads for part in partitions[number])
        self._read_bytes = 0
        self._say = say
        self._began_s = self._said_s = time.monotonic()
        self._lock = threading.Lock()
        self.is_over = False
        """Whether the results are not wanted any more."""

    def tell(self, part: Part) -> None:
        """A part was read."""
        if self.is_over:
            raise InterruptedError("the audit was interrupted")
        with self._lock:
            self._read_bytes += part.end - part.start
            now_s = time.monotonic()
            if now_s - self._said_s < SAID_EVERY_S:
                return
            self._said_s = now_s
            self._say(self.said(now_s - self._began_s))

    def said(self, spent_s: float) -> str:
        """How far it is after so long."""
        rate = self._read_bytes / max(spent_s, 1e-3)
        left_s = (self._total_bytes - self._read_bytes) / max(rate, 1.0)
        mb = 1_000_000
        done = f"{self._read_bytes // mb} of {self._total_bytes // mb} MB read"
        return f"{done}, {rate / mb:.0f} MB a second, {left_s:.0f} s left"


def _without_causes(result: Result) -> Result:
    """A result without what only tables need, one for each generation."""
    return result._replace(causes=[]) if isinstance(result, folds.Fold) else result


def local(tasks: list[Task], partitions: Partitions, say: Say) -> list[Result]:
    """Run tasks in this process, on all cores."""
    rate = Rate(tasks, partitions, say)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return list(pool.map(lambda task: _without_causes(run(task, partitions, rate.tell)), tasks))
        except BaseException:
            rate.is_over = True
            raise
