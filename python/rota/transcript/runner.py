"""Plays transcripts to a subject in virtual time and compares every effect, in order.

A transcript is played in three modes: `now` (each append is stored at once; probes are left out), `later` (something
else happens between an append and its end) and `failed` (appends are refused).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rota.transcript.cast import StepError
from rota.transcript.player import Player
from rota.transcript.subject import Subject
from rota.transcript.text import EFFECT_INDENT, Section, Step, Transcript, parse

VECTORS = Path(__file__).parent.parent / "conform" / "vectors"
#: Transcripts of the newer protocol (docs/consumer-protocol.md).
CONSUMER_VECTORS = VECTORS.with_name("consumer_vectors")
SubjectFactory = Callable[[dict[str, str]], Subject]


@dataclass(frozen=True)
class Part:
    """A section to play, with or without its probes."""

    section: Section
    probes: bool

    @property
    def steps(self) -> list[Step]:
        """The steps to play."""
        return [step for step in self.section.steps if self.probes or not step.probe]


@dataclass(frozen=True)
class Run:
    """One playing of one section of a transcript in one mode."""

    mode: str
    transcript: Transcript
    given: Part | None
    part: Part
    config: dict[str, str]

    @property
    def name(self) -> str:
        """The name in pytest's output."""
        heading = "" if self.part.section.kind == "main" else f" [{self.part.section.label()}]"
        return f"{self.transcript.path.parent.name}/{self.transcript.path.stem} {self.mode}{heading}"


@dataclass
class Outcome:
    """What happened, step by step, and the first thing that made going on impossible."""

    steps: list[tuple[Step, list[str]]] = field(default_factory=list)
    error: str | None = None

    @property
    def matches(self) -> bool:
        """Whether everything happened as written and nothing else."""
        return self.error is None and all(step.effects == actual for step, actual in self.steps)


def play(run: Run, subject: Subject) -> Outcome:
    """Play one run to the end, or to where it cannot go on."""
    outcome = Outcome()
    step: Step | None = None
    try:
        player = Player(subject, run.transcript.loading, run.transcript.at_once)
        for part in filter(None, (run.given, run.part)):
            if part is run.part and run.given:
                player.cast.rebase()
            for step in part.steps:
                outcome.steps.append((step, player.play(step)))
        step = None
        player.finish()
    except Exception as error:  # the subject's faults belong into the report, with their place
        where = f"{run.transcript.path.name}:{step.line}: `{step.text}`" if step else "at the end"
        outcome.error = f"{where}: {type(error).__name__}: {error}"
    return outcome


def runs(transcript: Transcript) -> Iterator[Run]:
    """Every playing of a transcript: its main section in the three modes, its other sections once."""
    given = parse(VECTORS / "given" / f"{transcript.given}.txt") if transcript.given else None
    config = (given.config if given else {}) | transcript.config
    usual = {mode: Part(given.main, mode == "later") if given else None for mode in ("now", "later")}
    failing = [section for section in given.sections if section.kind == "failed"] if given else []
    after_failure = Part(failing[0], True) if failing else None
    main = transcript.main
    yield Run("now", transcript, usual["now"], Part(main, False), config)
    if transcript.at_once:
        return
    yield Run("later", transcript, usual["later"], Part(main, True), config)
    if after_failure or not any(section.kind == "failed" for section in transcript.sections):
        yield Run("failed", transcript, after_failure or usual["now"], Part(main, False), config)
    for section in transcript.sections[1:]:
        before = (after_failure or usual["now"]) if section.kind == "failed" else usual["later"]
        yield Run(section.kind, transcript, before, Part(section, True), config)


def report(run: Run, outcome: Outcome) -> str:
    """Where a run left its text: each step that differs, expected lines with `-`, actual ones with `+`."""
    lines = [f"{run.name}  ({run.transcript.path})"]
    for step, actual in outcome.steps:
        if step.effects == actual:
            continue
        lines.append(f"line {step.line}: {step.text}")
        diff = difflib.ndiff(step.effects, actual)
        lines += [EFFECT_INDENT + line for line in diff if not line.startswith("?")]
    if outcome.error:
        lines.append(outcome.error)
    return "\n".join(lines)


def rewrite(path: Path, factory: SubjectFactory) -> bool:
    """Write into the file what happens; true if that changed it. Given parts must match already."""
    transcript = parse(path)
    for run in runs(transcript):
        if run.part.section.kind == "main" and run.mode != "later" and not transcript.at_once:
            continue
        outcome = play(run, factory(run.config))
        if outcome.error:
            raise StepError(f"{run.name}: {outcome.error}")
        for step, actual in outcome.steps:
            if step in run.part.section.steps:
                step.effects = actual
    before, after = path.read_text(), transcript.render()
    path.write_text(after)
    return before != after


def consumer_transcripts() -> list[Path]:
    """Every transcript of the newer protocol, in order."""
    return sorted(CONSUMER_VECTORS.glob("*.txt"))


def transcripts() -> list[Path]:
    """Every transcript, in order."""
    return sorted(VECTORS.glob("*/*.txt"))
