"""`python -m tests.checks.planted_inside ENGINE`: what an engine in Python finds in the core of this process, as JSON.

It is started with the planted core on its path and a bug in its environment, so the engines are as they always are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rota import InvariantViolation
from rota.check.differential import volume
from rota.check.differential.lockstep import Difference, panicked
from rota.check.differential.steps import Step
from rota.check.differential.walks import CONSUMER, CONVERSION
from rota.conform.said import Evidence
from rota.transcript import runner
from rota.transcript.core_subject import CoreSubject
from rota.transcript.text import parse
from tests.checks.machine import CoreAndModel
from tests.checks.planted_found import Found
from tests.conform import consumer_kafka, conversion_kafka
from tests.conform.conversion import conversions

SEEDS = 2_000
WALK_SEEDS = 110
EXAMPLES, EXAMPLE_STEPS = 1_000, 40


def transcripts() -> Found | None:
    """The shortest of the transcripts that come out otherwise."""
    played, first, shortest = 0, 0, 0
    for path in runner.transcripts():
        for run in runner.runs(parse(path)):
            length = _differs(run)
            played += length or len(run.part.steps)
            if length:
                first, shortest = first or played, min(shortest or length, length)
    return Found(first, shortest) if shortest else None


def _differs(run: runner.Run) -> int:
    """The first step of a transcript with another effect than is written; 0 if there is none."""
    try:
        outcome = runner.play(run, CoreSubject(run.config))
    except BaseException as error:
        if not panicked(error):
            raise
        return len([step for part in (run.given, run.part) if part for step in part.steps])
    differs = (at for at, (step, actual) in enumerate(outcome.steps, 1) if step.effects != actual)
    return next(differs, 0 if outcome.matches else len(outcome.steps))


def differential() -> Found | None:
    """The first difference from the model on seeded runs, shortened."""
    taken = 0
    for seed in range(SEEDS):
        steps, failure = volume.run(seed)
        taken += steps
        if failure:
            return Found(taken, len(volume.shorten(failure).steps))
    return None


def machine() -> Found | None:
    """The same steps, chosen by Hypothesis. It could make them small, too, but not within a minute."""
    taken = 0
    failed: list[volume.Failure] = []

    class Watched(CoreAndModel):
        def do(self, step: Step) -> None:
            nonlocal taken
            taken += not failed
            try:
                super().do(step)
            except BaseException as error:
                if not isinstance(error, Exception) and not panicked(error):
                    raise
                failed.append(volume.Failure(self.config, list(self.steps), str(error)))
                raise Difference from None

    quiet = settings(
        max_examples=EXAMPLES,
        stateful_step_count=EXAMPLE_STEPS,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Watched, settings=quiet)
    except Difference:
        return Found(taken, len(volume.shorten(failed[0]).steps))
    return None


def recordings() -> Found | None:
    """The session recorded from Kafka that differs after the fewest steps; all are played."""
    played, first, shortest = 0, 0, 0
    for steps, play in _recorded():
        try:
            same = play()
        except InvariantViolation:
            same = [False]
        except BaseException as error:
            if not panicked(error):
                raise
            same = [False]
        length = next((at for at, each in enumerate(same, 1) if not each), 0)
        played += length or steps
        if length:
            first, shortest = first or played, min(shortest or length, length)
    return Found(first, shortest) if shortest else None


def _recorded() -> Iterator[tuple[int, Callable[[], list[bool]]]]:
    """Of each session that no departure explains: its steps, and whether the core answers each as Kafka did."""
    known = consumer_kafka.recorded().rows
    for session in consumer_kafka.sessions():
        if session.name not in consumer_kafka.explained("core"):
            yield len(session.steps), partial(_same, consumer_kafka.on_the_core, session, known[session.name])
    rows = conversion_kafka.recorded().rows
    for each in conversions():
        if each.name not in conversion_kafka.EXPLAINED:
            yield len(each.steps), partial(_same, conversion_kafka.on_the_core, each, rows[each.name])


def _same(play: Callable[[Any], Evidence], session: Any, told: Evidence) -> list[bool]:
    pairs = zip(conversion_kafka.in_order(play(session)), conversion_kafka.in_order(told), strict=True)
    return [ours.answers == theirs.answers for ours, theirs in pairs]


def walks() -> Found | None:
    """The first difference from the model on seeded runs, of consumer groups and of conversions in turn."""
    taken = 0
    for seed in range(WALK_SEEDS):
        for walk in (CONSUMER, CONVERSION):
            steps, failure = volume.run(seed, walk=walk)
            taken += steps
            if failure:
                return Found(taken, len(failure.steps))
    return None


ENGINES = {
    "transcripts": transcripts,
    "differential": differential,
    "machine": machine,
    "recordings": recordings,
    "walks": walks,
}

if __name__ == "__main__":
    found = ENGINES[sys.argv[1]]()
    print(json.dumps(found))
