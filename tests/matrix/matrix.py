"""The cells: a state of the group, reached the shortest way, and what one request brings about in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rota.transcript.cast import StepError
from rota.transcript.player import Player
from rota.transcript.text import Step
from tests.matrix.requests import Column, columns
from tests.matrix.why import explain
from tests.transcripts.runner import SubjectFactory

CELLS = Path(__file__).parent / "cells"
ROW = re.compile(r"^(?P<column>[^|]+?) +\| (?P<section>[^|]+?) +\| (?P<effects>.*)$")
PLACE = re.compile(r"\{([^}]+)\}")
GENERATIONS = ("G-1", "G", "G+1")


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
    `G`, the state's generation, which is relative to the newest that was told (`G`) or a number.
    """

    path: Path
    header: list[str]
    title: str
    state: str
    has: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    loading: bool = False
    steps: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of its file."""
        return self.path.stem

    def step_of(self, column: Column) -> str | None:
        """The step of a column in this state; None if the state lacks somebody in it."""
        generation = self.has.get("G", "0")
        places = self.has | {"G": generation, "G-1": shift(generation, -1), "G+1": shift(generation, 1)}
        places["plan"] = ",".join(places[who] for who in ("leader", "follower") if who in places)
        wanted = PLACE.findall(column.step)
        if not all(place in places for place in wanted):
            return None
        return PLACE.sub(lambda match: places[match[1]], column.step)

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


def play(state: State, step: str, subject: SubjectFactory) -> list[str]:
    """The effects of `step` in `state`, and of whatever is due at once."""
    player = Player(subject(state.config), state.loading)
    for before in state.steps:
        player.play(Step(0, before))
    player.cast.rebase()
    effects = player.play(Step(0, step)) + player.play(Step(0, "+0ms"))
    player.finish()
    return effects


def shown(effects: list[str], step: str) -> str:
    """The effects in one line; a sender without an answer `waits`."""
    connection = step.split()[0]
    waits = [] if any(line.startswith(f"{connection}< ") for line in effects) else [f"{connection} waits"]
    return " ; ".join(effects + waits)


def error_in(effects: list[str], step: str) -> str:
    """The error that the sender is told: the worst of a batch; `parked` if it waits."""
    own = [line for line in effects if line.startswith(f"{step.split()[0]}< ")]
    if not own:
        return "parked"
    errors = re.findall(r"(?<![A-Za-z_])[A-Z][A-Z_]{3,}(?![a-z])", own[0])
    return next((error for error in errors if error != "NONE"), "NONE")


def compute(state: State, subject: SubjectFactory) -> list[Cell]:
    """Every cell of a state, as the subject answers."""
    cells = []
    for column in columns():
        step = state.step_of(column)
        if step is None:
            continue
        effects = play(state, step, subject)
        section = explain(column.api, column.identity, error_in(effects, step), state.state)
        if section is None:
            raise StepError(f"{state.name}: {column.name} gives {effects}: no rule in why.py explains it")
        cells.append(Cell(column.name, section, shown(effects, step)))
    return cells


def rewrite(state: State, subject: SubjectFactory) -> bool:
    """Writes what happens into the file; true if that changed it."""
    before = state.path.read_text()
    state.cells = compute(state, subject)
    state.path.write_text(state.render())
    return state.path.read_text() != before


def count_by(cells: Mapping[str, list[Cell]], key: Callable[[Cell], str]) -> dict[str, int]:
    """How many cells have each key."""
    counts: dict[str, int] = {}
    for group in cells.values():
        for cell in group:
            counts[key(cell)] = counts.get(key(cell), 0) + 1
    return dict(sorted(counts.items()))
