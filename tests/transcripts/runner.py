"""Plays transcripts to a subject in virtual time and compares every effect, in order.

A transcript is played in three modes: `now` (each append is stored at once; probes are left out), `later` (something
else happens between an append and its end) and `failed` (appends are refused).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.transcripts import render, requests
from tests.transcripts.cast import Cast, StepError, duration_ms, duration_text
from tests.transcripts.subject import Answer, Append, Effect, Subject
from tests.transcripts.text import EFFECT_INDENT, Section, Step, Transcript, parse

VECTORS = Path(__file__).parent.parent / "vectors"
DEADLINES_AT_ONE_INSTANT_MAX = 100
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
        """As pytest shows it."""
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


class Player:
    """One run in progress."""

    def __init__(self, subject: Subject, loading: bool) -> None:
        self.subject = subject
        self.cast = Cast()
        self.now_ms = 0
        self.tickets: dict[int, tuple[str, str]] = {}
        self.answered: set[int] = set()
        self.next_ticket = 0
        self.in_flight: list[int] = []
        if not loading and self._show(subject.loaded(0)):
            raise StepError("loading an empty log has an effect")

    def play(self, step: Step) -> list[str]:
        """The effects of one step, rendered."""
        word, *rest = step.text.split()
        if word.startswith("+"):
            lines = self._pass_time(duration_ms(word[1:]))
        elif word == "member":
            requests.declare_member(self.cast, " ".join(rest))
            lines = []
        elif word in ("stored", "refused"):
            lines = self._end_append(word, rest)
        elif word == "explain" and "explain" not in self.subject.shows:
            lines = step.effects
        elif word == "explain":
            lines = render.explanation(self.cast, self.subject.explain(rest[0] if rest else "g"), self.now_ms)
        elif word == "replay":
            self.subject.replay(requests.build_record(self.cast, rest, self.now_ms))
            return []
        elif word == "loaded":
            lines = self._show(self.subject.loaded(self.now_ms))
        elif word == "forget":
            lines = self._show(self.subject.topics_deleted(rest, self.now_ms))
        elif word == "unload":
            lines = self._show(self.subject.unload(self.now_ms))
            self.in_flight.clear()
        elif rest:
            lines = self._request(word, rest)
        else:
            raise StepError(f"`{word}` is no step")
        self.subject.check_invariants()
        return lines

    def _request(self, connection: str, rest: list[str]) -> list[str]:
        if any(waiting == connection for waiting, _ in self.tickets.values()):
            raise StepError(f"connection {connection} still waits for an answer: use {connection}' for another one")
        request = requests.build(self.cast, connection, rest[0], rest[1:])
        self.next_ticket += 1
        self.tickets[self.next_ticket] = (connection, request.api)
        # SplitMix-like spreading: distinct, deterministic, no bit constant
        entropy = (self.next_ticket * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) % (1 << 128)
        return self._show(self.subject.submit(self.now_ms, self.next_ticket, request, entropy))

    def _end_append(self, word: str, rest: list[str]) -> list[str]:
        if not self.in_flight:
            raise StepError(f"`{word}`, but no append is in flight")
        newest = bool(rest) and rest[-1] == "newest"
        append_id = self.in_flight.pop(-1 if newest else 0)
        error = None
        if word == "refused":
            error = rest[0] if rest and rest[0] != "newest" else "NOT_LEADER_OR_FOLLOWER"
        return self._show(self.subject.appended(append_id, error, self.now_ms))

    def _pass_time(self, span_ms: int) -> list[str]:
        """Stop at every deadline on the way, as a driver with a timer would."""
        start_ms, target_ms = self.now_ms, self.now_ms + span_ms
        lines: list[str] = []
        stops = 0
        while (deadline_ms := self.subject.next_deadline()) is not None and deadline_ms <= target_ms:
            stops = stops + 1 if deadline_ms <= self.now_ms else 0
            if stops > DEADLINES_AT_ONE_INSTANT_MAX:
                raise StepError(f"next_deadline stays at {deadline_ms} ms although advance was called")
            self.now_ms = max(self.now_ms, deadline_ms)
            lines += self._advance(start_ms, target_ms)
        self.now_ms = target_ms
        return lines + self._advance(start_ms, target_ms)

    def _advance(self, start_ms: int, target_ms: int) -> list[str]:
        early = f"@{duration_text(self.now_ms - start_ms)} " if self.now_ms < target_ms else ""
        lines = [early + line for line in self._show(self.subject.advance(self.now_ms))]
        self.subject.check_invariants()
        return lines

    def _show(self, effects: list[Effect]) -> list[str]:
        """Bind the ids that the answers hand out, then render: a list may name a member before it is told."""
        for effect in effects:
            if isinstance(effect, Answer) and effect.api == "JoinGroup" and effect.ticket in self.tickets:
                self._learn(self.tickets[effect.ticket][0], effect)
        return [self._line(effect) for effect in effects]

    def _learn(self, connection: str, effect: Answer) -> None:
        actor, fields = self.cast.actor(connection), effect.fields
        if fields["error"] in ("NONE", "MEMBER_ID_REQUIRED"):
            self.cast.bind(actor, fields["member_id"])
        if fields["error"] == "NONE":
            actor.generation = fields["generation"]
            actor.told = (fields["protocol_type"], fields["protocol_name"])

    def _line(self, effect: Effect) -> str:
        if isinstance(effect, Append):
            self.in_flight.append(effect.append_id)
            return render.append(self.cast, effect)
        if effect.ticket not in self.tickets:
            what = "a second time" if effect.ticket in self.answered else "though nobody asked"
            raise StepError(f"ticket {effect.ticket} is answered {what} (S18): {effect}")
        connection, api = self.tickets.pop(effect.ticket)
        self.answered.add(effect.ticket)
        if api != effect.api:
            raise StepError(f"{connection} sent {api} and is answered with {effect.api}")
        return f"{connection}< {render.answer(self.cast, effect)}"

    def finish(self) -> None:
        """Unload: whoever still waits is told to look elsewhere, and then nobody waits (S18)."""
        if "unload" not in self.subject.shows:
            return
        for line in self._show(self.subject.unload(self.now_ms)):
            if "NOT_COORDINATOR" not in line:
                raise StepError(f"unloading at the end gave `{line}` (expected NOT_COORDINATOR)")
        if self.tickets:
            waiting = ", ".join(f"{connection} ({api})" for connection, api in self.tickets.values())
            raise StepError(f"never answered, even by unloading (S18): {waiting}")


def play(run: Run, subject: Subject) -> Outcome:
    """Play one run to the end, or to where it cannot go on."""
    outcome = Outcome()
    step: Step | None = None
    try:
        player = Player(subject, run.transcript.loading)
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
        if run.part.section.kind == "main" and run.mode != "later":
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


def transcripts() -> list[Path]:
    """Every transcript, in order."""
    return sorted(VECTORS.glob("*/*.txt"))
