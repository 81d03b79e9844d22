"""Random sessions of the newer protocol, and of groups that change their protocol, at a broker and at another side.

Sessions are made up step by step from what the broker answers (consumer_director.py). After each step both sides show
the group. Where they part, a departure of docs/departures.md explains it by name, or it is a finding: its session is
played again, and shrunk to the steps without which the sides do not part.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from rota.conform.evidence import Difference, compare
from rota.conform.said import FAULT, Said
from tests.conform.consumer_director import Director, Plan
from tests.conform.consumer_plans import departure
from tests.conform.consumer_sides import LOOK, AtBroker, AtCore, Side, Stage, in_order, shown

#: One side may be slower; what one has said the other is given this long to say.
SAME_WITHIN_S = 1.0
#: how long a broker may take to show what it has acknowledged
COMMITTED_MS = 50
SHRUNK_WITHIN_S = 90.0
#: Longer sessions are not played to their end: timers that no step names would fire.
SESSION_S = 40.0
QUIET = ("topics", "settings", "member", "resolve")
OPENED = re.compile(r"^(topics|settings|member) ")


@dataclass
class Finding:
    """Steps on which two sides part, and how."""

    seed: str
    steps: tuple[str, ...]
    difference: Difference

    def __str__(self) -> str:
        told = [f"  - {line}" for line in self.difference.missing]
        told += [f"  + {line}" for line in self.difference.unexpected]
        return "\n".join([f"seed {self.seed}", *self.steps, f"at {self.difference.step}:", *told])


@dataclass
class Tally:
    """What a run has played and found."""

    sessions: int = 0
    requests: int = 0
    cut_short: int = 0
    #: parted once, and not again
    once: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        named = ", ".join(f"{name} {count}" for name, count in sorted(self.explained.items())) or "none"
        return (
            f"{self.sessions} sessions, {self.requests} requests on both sides; sessions that ended at a departure: "
            f"{named}; at topics in another order: {self.cut_short}; differed once and not again: {self.once}; "
            f"unexplained: {len(self.findings)}"
        )


Opened = tuple[AtBroker, Side]
#: Opens a session on both sides, with the group's settings.
Open = Callable[[tuple[str, ...]], Opened]


def with_core(stage: Stage, policy: str, more: dict[str, str] | None = None) -> Open:
    """A broker and the core."""

    def opened(settings: tuple[str, ...]) -> Opened:
        theirs = AtBroker(stage, settings)
        return theirs, AtCore(policy, theirs, more or {})

    return opened


def with_broker(one: Stage, other: Stage) -> Open:
    """Two brokers."""
    return lambda settings: (AtBroker(one, settings), AtBroker(other, settings))


@contextmanager
def session(opened: Open, settings: tuple[str, ...]) -> Iterator[Opened]:
    """Both sides, closed at the end."""
    with ExitStack() as stack:
        sides = opened(settings)
        for side in sides:
            stack.callback(side.close)
        yield sides


@dataclass
class Played:
    """A session that was played, and the first difference."""

    steps: list[str]
    requests: int = 0
    difference: Difference | None = None
    cut_short: bool = False


def play(opened: Open, steps: Sequence[str] | Director) -> Played:
    """Play steps, or those that a director makes up, to the first difference or the end."""
    queue = [] if isinstance(steps, Director) else list(steps)
    known = steps.queue if isinstance(steps, Director) else queue
    settings = tuple(step for step in known if step.startswith("settings "))
    played = Played([])
    until = time.monotonic() + SESSION_S
    with session(opened, settings) as (theirs, ours):
        while time.monotonic() < until:
            step = steps.next() if isinstance(steps, Director) else (queue.pop(0) if queue else None)
            if step is None:
                break
            if any(step.split()[0] in waiting(side) for side in (theirs, ours)):
                continue
            played.steps.append(step)
            lines = both(played, step, theirs, ours)
            if isinstance(steps, Director):
                steps.heard(lines)
            played.cut_short = step.startswith("topics ") and not alike(theirs, ours)
            if played.difference is not None or played.cut_short:
                break
    return played


def waiting(side: Side) -> set[str]:
    """Connections that wait for an answer."""
    return {connection for connection, _ in side.player.tickets.values()}


def alike(*sides: Side) -> bool:
    """Whether the topics are in the same order, in which they are named at the beginning, on every broker."""
    brokers = [side for side in sides if isinstance(side, AtBroker)]
    orders = []
    for side in brokers:
        ids = {name: side.subject.ids[name] for name in side.subject.sizes}
        names = sorted(ids, key=lambda name, ids=ids, side=side: side.stage.order(ids[name]))  # type: ignore[misc]
        if not in_order([ids[name] for name in names], side.stage.order):
            return False
        orders.append(names)
    return all(order == orders[0] for order in orders)


def both(played: Played, step: str, theirs: Side, ours: Side) -> list[str]:
    """One step on both sides, and a look at the group; the broker's answers."""
    told = theirs.play(step)
    said = ours.play(step)
    if any(line.startswith(f"{FAULT}WireError") for line in told):  # a step that makes no sense without an earlier one
        return told
    played.requests += step.split()[0] not in QUIET and not step.startswith("+")
    difference = settled(step, told, said, theirs, ours)
    if " beat " in step and any("pattern=" in each for each in played.steps):
        theirs.play("resolve")
    looks: tuple[list[str], list[str]] = ([], [])
    if step.split()[0] not in QUIET:
        looks = (theirs.play(LOOK), ours.play(LOOK))
        played.requests += 1
    late, other = ([line for line in lines if not line.startswith("d<")] for lines in looks)
    seen = [[line for line in lines if line.startswith("d<")] for lines in looks]
    if difference is None and late != other:
        difference = settled(f"{step}, and then", [*told, *late], [*said, *other], theirs, ours)
    if difference is None and shown(LOOK, seen[0]) != shown(LOOK, seen[1]):
        theirs.play(f"+{COMMITTED_MS}ms")
        ours.play(f"+{COMMITTED_MS}ms")
        seen = [side.play(LOOK) for side in (theirs, ours)]
    if difference is None and shown(LOOK, seen[0]) != shown(LOOK, seen[1]):
        difference = Difference(f"{step}, and a look", (*shown(LOOK, seen[0]),), (*shown(LOOK, seen[1]),))
    if difference is not None and not difference.reasons:
        name = departure(played.steps, difference, shown(LOOK, seen[0]), shown(LOOK, seen[1]))
        if name:
            difference = Difference(difference.step, difference.missing, difference.unexpected, (name,))
    played.difference = difference
    return [*told, *late]


def settled(step: str, told: list[str], said: list[str], theirs: Side, ours: Side) -> Difference | None:
    """Where the answers part, after the slower side had its time."""
    until = time.monotonic() + SAME_WITHIN_S
    while True:
        lines = [Said(step, tuple(shown(step, each))) for each in (told, said)]
        difference = compare(lines[:1], lines[1:])
        if difference is None or (difference.reasons and not difference.missing and not difference.unexpected):
            return None
        if difference.reasons or time.monotonic() > until or any(line.startswith(FAULT) for line in said):
            return difference
        told += theirs.play("+0ms")
        said += ours.play("+0ms")


def shrunk(opened: Open, steps: Sequence[str], difference: Difference) -> tuple[list[str], Difference]:
    """Fewer steps on which the sides part, by leaving out halves, quarters, and so on to single steps."""
    until = time.monotonic() + SHRUNK_WITHIN_S
    best, found = list(steps), difference
    size = max(1, len(best) // 2)
    while time.monotonic() < until:
        at, before = 1, len(best)
        while at < len(best) and time.monotonic() < until:
            fewer = best[:at] + best[at + size :]
            again = play(opened, fewer)
            if again.difference is not None and not again.difference.reasons:
                best, found = again.steps, again.difference
            else:
                at += size
        if size == 1 and len(best) == before:
            break
        size = max(1, size // 2)
    return best, found


def search(
    opened: Open,
    within_s: float,
    seed: int = 0,
    *,
    findings_max: int = 1,
    told: Callable[[str], None] = print,
    drawn: Callable[[random.Random], Plan] = Plan.drawn,
) -> Tally:
    """Play sessions for so long, or until so many are found on which the sides part; those are shrunk beyond that
    time."""
    tally = Tally()
    until = time.monotonic() + within_s
    number = 0
    while time.monotonic() < until and len(tally.findings) < findings_max:
        name = f"{seed}.{number}"
        number += 1
        played = play(opened, Director(drawn(random.Random(name))))
        tally.sessions += 1
        tally.requests += played.requests
        tally.cut_short += played.cut_short
        difference = played.difference
        if difference is None:
            continue
        if difference.reasons:
            tally.explained.update(difference.reasons)
            continue
        again = play(opened, played.steps)  # a busy machine is late once
        if again.difference is None or again.difference.reasons:
            tally.once += 1
            continue
        finding = Finding(name, *_fixed(shrunk(opened, again.steps, again.difference)))
        tally.findings.append(finding)
        told(f"{finding}\n")
    return tally


def _fixed(found: tuple[list[str], Difference]) -> tuple[tuple[str, ...], Difference]:
    return tuple(found[0]), found[1]
