"""The transcripts as rows: what of them can be seen from outside, each append stored at once, in real time.

A broker keeps its log to itself, so `stored` and what is logged is left out, and what a `stored` shows belongs to the
step before it. Answers to different connections have no order, and neither have the members of a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rota.conform.broker import NAMELESS, NotServedError, Visit
from rota.conform.evidence import said
from rota.conform.rows import ANY_DELAY_S, Known, Row, expected
from rota.conform.said import Evidence, Said
from rota.conform.subject import WireSubject
from rota.conform.wire import WireError
from rota.transcript import runner
from rota.transcript.cast import StepError, duration_ms
from rota.transcript.runner import Run
from rota.transcript.text import Step, parse

#: Steps that only the owner of a log, or of a server, can do.
UNSEEN = {"refused", "forget", "unload", "replay", "loaded"}
#: What only a subject that lives here can show.
NOT_SHOWN = {"stored", "explain"}
DELAY = "group.initial.rebalance.delay.ms"
#: The initial delays that a transcript can be played with: 0 means that those who join one after the other meet, and
#: then no more is waited; so do a few hundred milliseconds in real time.
DELAYS_S = {"0": (0.15, 1.5), "3000": (2.5, 3.5)}
#: A step that ends so shortly before something that is to happen ends this much earlier, and the step in which it
#: happens makes up for that: a broker's clock is not ours.
EXACT_MS = 10
EARLIER_MS = 600
#: `rebalance=0ms` ends a sync phase at once, and here every request takes time.
IN_NO_TIME = "rebalance=0ms"


@dataclass
class Moment:
    """One step to play, and every answer that is expected by its end."""

    step: Step
    expected: list[str]


def rows() -> Iterator[Row]:
    """Every transcript."""
    for path in runner.transcripts():
        yield row(path)


def row(path: Path) -> Row:
    """One transcript, wherever it is."""
    run = next(runner.runs(parse(path)))
    return Row(
        id=f"{path.parent.name}/{path.stem}",
        says=" ".join(line.removeprefix("# ") for line in run.transcript.header if line.startswith("# ")),
        section=" ".join(run.transcript.doc),
        perform=lambda visit, known: play(next(runner.runs(parse(path))), visit, known),
        wait_s=sum(duration_ms(step.text[1:]) for step in _steps(run) if step.text.startswith("+")) / 1_000,
        delay_s=DELAYS_S.get(run.config.get(DELAY, "3000"), (0.0, 0.0)) if _joins(run) else ANY_DELAY_S,
        settings=frozenset((name, value) for name, value in run.config.items() if name != DELAY),
        needs_topics=any("Offset" in step.text or ":[" in step.text for step in _steps(run)),
        left_out=why_not(run),
    )


def why_not(run: Run) -> str:
    """What a broker from outside cannot be brought to do; nothing if it can."""
    words = {step.text.split()[0] for step in _steps(run)}
    if run.transcript.loading or words & UNSEEN:
        return "loads, unloads or fails"
    if any("ids=" in step.text for step in _steps(run)):
        return "topic ids of its own"
    if any("group=null" in step.text for step in _steps(run)):
        return "null where the wire has none"
    if any(IN_NO_TIME in step.text for step in _steps(run)):
        return "happens in no time"
    return ""


def play(run: Run, visit: Visit, known: Known) -> Evidence:
    """Step by step to the end, or to where it cannot go on."""
    subject = WireSubject(visit)
    evidence: Evidence = []
    step = "at the beginning"
    try:
        player = subject.player(loading=run.transcript.loading)
        with visit.alone(" ".join(step.text for step in _steps(run))):
            for part in filter(None, (run.given, run.part)):
                if part is run.part and run.given:
                    player.cast.rebase()
                for moment in moments(part.steps):
                    step = moment.step.text
                    written = [Said(step, tuple(moment.expected))]
                    answers = expected(known, len(evidence))
                    subject.expected = (expected(written, 0) or 0) if answers is None else answers
                    evidence.append(said(step, player.play(moment.step)))
    except (WireError, NotServedError, StepError) as error:
        evidence.append(visit.fault(step, error))
    finally:
        subject.close()
    return evidence


def _joins(run: Run) -> bool:
    return any("JoinGroup" in step.text and NAMELESS not in step.text for step in _steps(run))


def _steps(run: Run) -> list[Step]:
    return [step for part in (run.given, run.part) if part for step in part.steps]


def moments(steps: list[Step]) -> Iterator[Moment]:
    """What can be played, with what is expected of it and of the `stored` behind it."""
    found: list[Moment] = []
    for step in steps:
        word = step.text.split()[0]
        if word not in NOT_SHOWN:
            answers: list[str] = []
            if found and word.startswith("+") and found[-1].step.text.startswith("+"):  # no step in between
                before = found.pop()
                answers = before.expected
                span_ms = duration_ms(before.step.text[1:]) + duration_ms(word[1:])
                step = Step(step.line, f"+{span_ms}ms", effects=step.effects)
            found.append(Moment(step, answers))
        if found and word != "explain":
            found[-1].expected += [line for line in step.effects if not line.startswith("log ")]
    yield from _in_real_time(found)


def _in_real_time(found: list[Moment]) -> Iterator[Moment]:
    early_ms = 0
    waits = [moment for moment in found if moment.step.text.startswith("+")]
    spans = [duration_ms(moment.step.text[1:]) for moment in waits] + [0]
    for moment in found:
        if waits and moment is waits[0]:
            waits.pop(0)
            span_ms = spans.pop(0)
            is_exact = 0 < spans[0] <= EXACT_MS or 0 < -span_ms % 1_000 <= EXACT_MS
            if is_exact and span_ms > EXACT_MS:
                early_ms = min(EARLIER_MS, span_ms // 2)
                span_ms -= early_ms
            elif span_ms <= EXACT_MS or moment.expected:
                span_ms, early_ms = span_ms + early_ms, 0
            moment.step = Step(moment.step.line, f"+{span_ms}ms")
        yield moment
