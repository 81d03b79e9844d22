"""The cells as the core computes them, each with the line of docs/protocol.md that explains it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rota.conform.columns import columns
from rota.conform.matrix import Cell, State, shown
from rota.transcript.cast import StepError
from rota.transcript.player import Player
from rota.transcript.runner import SubjectFactory
from rota.transcript.text import Step
from tests.protocol.why import explain


def play(state: State, step: str, subject: SubjectFactory) -> list[str]:
    """The effects of `step` in `state`, and of whatever is due at once."""
    player = Player(subject(state.config), state.loading)
    for before in state.steps:
        player.play(Step(0, before))
    player.cast.rebase()
    effects = player.play(Step(0, step)) + player.play(Step(0, "+0ms"))
    player.finish()
    return effects


def error_in(effects: list[str], step: str) -> str:
    """The error of the answer: the worst of a batch; `parked` if it waits."""
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
