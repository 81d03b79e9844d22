"""State x request x identity as rows: a state of the group, reached the shortest way, and what one request brings about
in it. One row per cell."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rota.conform.broker import NotServedError, Visit
from rota.conform.columns import Column, columns
from rota.conform.evidence import said
from rota.conform.rows import Known, Row, expected
from rota.conform.said import Evidence, Said
from rota.conform.subject import WireSubject
from rota.conform.wire import WireError
from rota.transcript.cast import StepError
from rota.transcript.player import Player
from rota.transcript.text import Step

CELLS = Path(__file__).parent / "cells"
ROW = re.compile(r"^(?P<column>[^|]+?) +\| (?P<section>[^|]+?) +\| (?P<effects>.*)$")
PLACE = re.compile(r"\{([^}]+)\}")
#: States that nothing but a partition's log brings about.
UNREACHABLE = {"loading", "unloaded"}
DELAY = "group.initial.rebalance.delay.ms"
LONG_S = (2.5, 3.5)
#: Who waits at the end of a step waits for the broker's timers, or for others.
STILL_S = 0.1


@dataclass(frozen=True)
class Cell:
    """What a request brings about: `effects` are the lines of a transcript, and `x waits` if it is parked."""

    column: str
    section: str
    effects: str


@dataclass
class State:
    """One file: how the state is reached, who is who in it, and its cells.

    `has` names who fills the places of a column: leader, follower, pending, static, static-follower, replaced, and
    `G`, the state's generation, which is relative to the newest answered one (`G`) or a number.
    """

    path: Path
    header: list[str]
    title: str
    state: str
    has: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    loading: bool = False
    #: the connections that have no answer yet once the state is reached
    waits: tuple[str, ...] = ()
    steps: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file name without suffix."""
        return self.path.stem

    def step_of(self, column: Column) -> str | None:
        """The step of a column in this state; None if the state lacks one of its members."""
        generation = self.has.get("G", "0")
        places = self.has | {"G": generation, "G-1": shift(generation, -1), "G+1": shift(generation, 1)}
        places["plan"] = ",".join(places[role] for role in ("leader", "follower") if role in places)
        wanted = PLACE.findall(column.step)
        if not all(place in places for place in wanted):
            return None
        return PLACE.sub(lambda match: places[match[1]], column.step)

    def steps_of(self) -> list[tuple[Column, str]]:
        """Every column that this state has, with its step."""
        found = ((column, self.step_of(column)) for column in columns())
        return [(column, step) for column, step in found if step is not None]

    def render(self) -> str:
        """The file again."""
        width = max(len(cell.column) for cell in self.cells)
        rows = [f"{cell.column:{width}} | {cell.section:7} | {cell.effects}" for cell in self.cells]
        return "\n".join([*self.header, "---", *self.steps, "---", *rows]) + "\n"


def shift(generation: str, by: int) -> str:
    """`G` and 1 are `G+1`; `0` and 1 are `1`."""
    return f"G{by:+d}" if generation == "G" else str(int(generation) + by)


def read(path: Path) -> State:
    """A file of cells."""
    header, steps, rows = [part.strip("\n").split("\n") for part in re.split(r"^---$", path.read_text(), flags=re.M)]
    state = State(path, header, header[0].removeprefix("# "), "")
    for line in header[1:]:
        key, _, rest = line.partition(" ")
        pairs = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        match key:
            case "state":
                state.state = rest
            case "has":
                state.has |= pairs
            case "config":
                state.config |= pairs
            case "waits":
                state.waits = tuple(rest.split())
            case "start":
                state.loading = rest == "loading"
            case _:
                raise ValueError(f"{path.name}: `{key}` means nothing in a header")
    state.steps = [step for step in steps if step]
    for row in filter(None, rows):
        match_ = ROW.match(row)
        if match_ is None:
            raise ValueError(f"{path.name}: `{row}` is no cell: expected REQUEST | SECTION | EFFECTS")
        state.cells.append(Cell(match_["column"], match_["section"], match_["effects"]))
    return state


def states() -> list[State]:
    """Every state, by name."""
    return [read(path) for path in sorted(CELLS.glob("*.txt"))]


def shown(effects: list[str], step: str) -> str:
    """The effects in one line; a sender without an answer `waits`."""
    connection = step.split()[0]
    waits = [] if any(line.startswith(f"{connection}< ") for line in effects) else [f"{connection} waits"]
    return " ; ".join(effects + waits)


def rows() -> Iterator[Row]:
    """Every cell."""
    for state in states():
        for cell, (column, step) in zip(state.cells, state.steps_of(), strict=True):
            yield _row(state, cell, column, step)


def _row(state: State, cell: Cell, column: Column, step: str) -> Row:
    core = [Said(step, tuple(line for line in cell.effects.split(" ; ") if not line.startswith("log ")))]
    return Row(
        id=f"matrix/{state.name}/{column.name}",
        says=f"{column.name}; {state.title}",
        section=cell.section,
        perform=lambda visit, known: play(state, step, visit, known or core),
        delay_s=LONG_S if state.config.get(DELAY) == "3000" else (0.0, 3.5),
        settings=frozenset((name, value) for name, value in state.config.items() if name != DELAY),
        needs_topics="Offset" in step or any("Offset" in before for before in state.steps),
        left_out="nothing from outside brings this state about" if state.name in UNREACHABLE else "",
    )


def play(state: State, step: str, visit: Visit, known: Known) -> Evidence:
    """What the last step brings about; what leads to it is shown only if it fails."""
    subject = WireSubject(visit)
    before = "at the beginning"
    try:
        player = subject.player(loading=state.loading)
        for before in state.steps:
            if before != "stored":  # a broker's log is its own
                _let_answer(player, before.split()[0], subject)
                player.play(Step(0, before))
        _let_settle(player, state, subject)
        player.cast.rebase()
        before = step
        subject.expected = expected(known, 0) or 0
        with visit.alone(step):
            effects = player.play(Step(0, step))
        subject.expected -= len(effects)
        effects += player.play(Step(0, "+0ms"))
        return [said(step, shown(effects, step).split(" ; "))]
    except (WireError, NotServedError, StepError) as error:
        return [visit.fault(before, error)]
    finally:
        subject.close()


def _let_settle(player: Player, state: State, subject: WireSubject) -> None:
    """Wait until only requests with a reason are parked."""
    until = time.monotonic() + subject.expected_within_s
    while time.monotonic() < until and {connection for connection, _ in player.tickets.values()} - set(state.waits):
        player.play(Step(0, "+0ms"))


def _let_answer(player: Player, word: str, subject: WireSubject) -> None:
    """Until the connection that is about to speak has its answer; at `+0ms` until the initial delay is over."""
    is_pause = word.startswith("+")
    within_s = STILL_S if is_pause else subject.expected_within_s
    until = time.monotonic() + within_s + 2 * (subject.visit.broker.delay_s or 0.0)
    while time.monotonic() < until:
        waiting = [connection for connection, _ in player.tickets.values()]
        if not (waiting if is_pause else word in waiting):
            return
        player.play(Step(0, "+0ms"))
