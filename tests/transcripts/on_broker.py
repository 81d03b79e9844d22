"""Transcripts on a broker, in real time: what of them can be seen from outside, each append stored at once.

A broker keeps its log to itself, so `stored` and what is logged is left out, and what a `stored` shows belongs to the
step before it. Answers to different connections have no order, and neither have the members of a list.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rota.transcript.cast import duration_ms
from rota.transcript.player import Player
from rota.transcript.text import Step, parse
from tests.transcripts import runner
from tests.transcripts.runner import Run
from tests.transcripts.wire_subject import ABSENT, Address, Broker, WireSubject

#: Steps that only the owner of a log, or of a server, can do.
UNSEEN = {"refused", "forget", "unload", "replay", "loaded"}
#: What only a subject that lives here can show.
NOT_SHOWN = {"stored", "explain"}
DEFAULT_CONFIG = {"group.initial.rebalance.delay.ms": "3000"}
WAIT_S_MAX = 100
TRIES = 3
#: A step that ends so shortly before something that is to happen ends this much earlier, and the step in which it
#: happens makes up for that: a broker's clock is not ours.
EXACT_MS = 10
EARLIER_MS = 600

DEPARTURES_PAGE = Path(__file__).parents[2] / "docs" / "departures.md"
LEADER = re.compile(r" protocol=\S+| leader=\S+| members=\S+")
CHOICE = "choice of 21"
EARLY = re.compile(r"^@\S+ ")
#: `rebalance=0ms` ends a sync phase at once, and here every request takes time.
IN_NO_TIME = "rebalance=0ms"
#: docs/departures.md: answers that Kafka 4.4.0 does not give, wherever they are met.
SILENT = {
    "D1": re.compile(r"^\S+< NOT_COORDINATOR( member=\S+)?$"),
    "D2": re.compile(r"^\S+< UNKNOWN_MEMBER_ID$"),
}


@dataclass(frozen=True)
class Played:
    """One transcript: why it was not played, or the first step at which the broker says something else."""

    path: Path
    skipped: str = ""
    step: str = ""
    expected: tuple[str, ...] = ()
    actual: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether nothing explains what it says."""
        return self.expected != self.actual and not self.departures


@dataclass
class Moment:
    """One step to play, and every answer that is expected by its end."""

    step: Step
    expected: list[str]


def play_all(
    files: list[Path], address: Address, config: dict[str, str], workers: int = 24, wait_s_max: int = WAIT_S_MAX
) -> Iterator[Played]:
    """Each file on the broker at `address`, which has the settings `config`; several at a time, for they mostly wait.

    A file that waits for longer than `wait_s_max` is left out.
    """
    home = Broker(address)
    own = threading.local()

    def play_file(path: Path) -> Played:
        run = next(runner.runs(parse(path)))
        reason = why_not(run, config, wait_s_max)
        if reason:
            return Played(path, skipped=reason)
        if not hasattr(own, "broker"):
            own.broker = Broker(address, topics=home.topics)
        for _ in range(TRIES):  # a machine under load may be late: what differs is played again
            played = play(run, own.broker)
            if not played.differs:
                break
        return played

    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(play_file, sorted(files, key=_wait_ms, reverse=True))
    home.close()


def why_not(run: Run, config: dict[str, str], wait_s_max: int) -> str:
    """What a broker from outside cannot be brought to do; nothing if it can."""
    words = {step.text.split()[0] for step in _steps(run)}
    if DEFAULT_CONFIG | run.config != DEFAULT_CONFIG | config:
        return "other settings"
    if run.transcript.loading or words & UNSEEN:
        return "loads, unloads or fails"
    if any("ids=" in step.text for step in _steps(run)):
        return "topic ids of its own"
    if any("group=null" in step.text for step in _steps(run)):
        return "null where the wire has none"
    if any(IN_NO_TIME in step.text for step in _steps(run)):
        return "happens in no time"
    if _wait_ms(run.transcript.path) > wait_s_max * 1_000:
        return "takes too long"
    return ""


def play(run: Run, broker: Broker) -> Played:
    """Step by step, up to the first at which Kafka says something else."""
    subject = WireSubject(broker)
    player = Player(subject, run.transcript.loading)
    path = run.transcript.path
    met: set[str] = set()
    try:
        for section, played in ((part, list(moments(part.steps))) for part in (run.given, run.part) if part):
            if section is run.part and run.given:
                player.cast.rebase()
            for moment in played:
                expected = tuple(sorted(map(canonical, moment.expected)))
                subject.expected = len(expected)
                actual = tuple(sorted(map(canonical, player.play(moment.step))))
                missing, unexpected = differences(expected, actual)
                silent = kept_silent(missing) if not unexpected else set()
                met |= silent
                if unexpected or (missing and not silent):
                    where = f"{moment.step.line}: {moment.step.text}"
                    reasons = open_choice(missing, unexpected) or departures_of(path)
                    return Played(path, "", where, tuple(missing), tuple(unexpected), reasons)
    except Exception as error:  # belongs into the report, with its file
        return Played(path, step="error", actual=(f"{type(error).__name__}: {error}",))
    finally:
        subject.close()
    return Played(path, departures=tuple(sorted(met)))


def _steps(run: Run) -> list[Step]:
    return [step for part in (run.given, run.part) if part for step in part.steps]


def _wait_ms(path: Path) -> int:
    steps = _steps(next(runner.runs(parse(path))))
    return sum(duration_ms(step.text[1:]) for step in steps if step.text.startswith("+"))


def moments(steps: list[Step]) -> Iterator[Moment]:
    """What can be played, with what is expected of it and of the `stored` behind it."""
    found: list[Moment] = []
    for step in steps:
        word = step.text.split()[0]
        if word not in NOT_SHOWN:
            expected: list[str] = []
            if found and word.startswith("+") and found[-1].step.text.startswith("+"):  # nobody looks in between
                before = found.pop()
                expected = before.expected
                span_ms = duration_ms(before.step.text[1:]) + duration_ms(word[1:])
                step = Step(step.line, f"+{span_ms}ms", effects=step.effects)
            found.append(Moment(step, expected))
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


def canonical(line: str) -> str:
    """Without the moment of an answer, and with members in an order of their own."""
    words = EARLY.sub("", line).split(" ")
    described = sorted(word for word in words if word.startswith("$") and word.count(":") > 1)
    others = [word for word in words if word not in described]
    lists = [_sorted_members(word) if word.startswith("members=") else word for word in others]
    return " ".join(lists + described)


def _sorted_members(word: str) -> str:
    return "members=" + ",".join(sorted(word.removeprefix("members=").split(",")))


def departures_of(path: Path) -> tuple[str, ...]:
    """The departures whose transcript this is."""
    found = []
    for section in DEPARTURES_PAGE.read_text().split("\n## ")[1:]:
        name = section.split()[0]
        if re.fullmatch(r"D\d+", name) and f"/{path.parent.name}/{path.name}" in section:
            found.append(name)
    return tuple(found)


def differences(expected: Iterable[str], actual: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of each what the other has not; a field that the version of an answer has not may have any value."""
    missing, unexpected = list(expected), []
    for line in actual:
        pattern = re.compile(re.escape(line).replace(re.escape(ABSENT), "[^/ ]+"))
        match = next((other for other in missing if pattern.fullmatch(other)), None)
        if match is None:
            unexpected.append(line)
        else:
            missing.remove(match)
    return missing, unexpected


def open_choice(missing: list[str], unexpected: list[str]) -> tuple[str, ...]:
    """Whether all the difference is who leads, and so who is told the members: where the old leader is gone, Kafka
    takes anybody (docs/protocol.md §21)."""
    others = [sorted(LEADER.sub("", line) for line in lines) for lines in (missing, unexpected)]
    return (CHOICE,) if others[0] == others[1] else ()


def kept_silent(missing: list[str]) -> set[str]:
    """The departures by which Kafka gives none of these answers; none if one of them should have come."""
    names = [{name for name, pattern in SILENT.items() if pattern.match(line)} for line in missing]
    return set().union(*names) if all(names) else set()
