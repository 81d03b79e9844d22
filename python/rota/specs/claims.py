"""What is proved of the wheel and of assignors, in words and formulas, for `explain.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import z3

from rota.specs import assignors, wheel
from rota.specs.arithmetic_bugs import replaced
from rota.specs.logic import Property, State

LEVEL = wheel.LEVELS - 2  # the level whose formulas are shown: one level is above it
WHEEL = ("level_of", "slot_of", "slot_start", "slots_reached")
ASSIGNORS = ("range_start", "range_length", "turn_load", "next_turn", "next_full", "candidate", "distance")


@dataclass(frozen=True)
class Claim:
    """English, source, and how to make the formula."""

    says: str
    source: str
    formula: Callable[[], str]


def claims() -> dict[str, Claim]:
    """All of them, by id."""
    found = {
        f"wheel: {name}": Claim((claim.__doc__ or "").strip(), "docs/protocol.md §16.1", partial(_of_wheel, claim))
        for name, claim in wheel.CLAIMS.items()
    }
    for name, (says, _) in assignors.arithmetic().items():
        found[name] = Claim(says, "docs/assignors.md", partial(_of_assignors, name))
    for name, prop in assignors.certifier().properties.items():
        found[f"certifier: {name}"] = Claim(prop.says, prop.source, partial(_of_certifier, prop))
    for name, (says, denied) in assignors.composition().items():
        found[name] = Claim(says, "docs/protocol.md §6.4, §18", partial(_of_composition, denied))
    return found


def _of_certifier(prop: Property) -> str:
    return str(prop.holds(State(assignors.certifier())))


def _of_composition(denied: Any) -> str:
    *_, certified, wrong = denied.children()
    return str(z3.Implies(certified, z3.Not(wrong)))


def _of_wheel(claim: wheel.Claim) -> str:
    def named(name: str) -> Callable[..., Any]:
        def call(at: Any, *given: Any) -> Any:
            given = tuple(at.word(each) if isinstance(each, int) else each for each in given)
            return z3.Function(name, *(word.sort() for word in (*given, given[0])))(*given)

        return call

    with replaced(wheel, {name: named(name) for name in WHEEL}):
        shown = str(claim(LEVEL, wheel.words()))
    return "\n".join(
        [shown, f"for levels 0 to {wheel.LEVELS - 1}; shown is level {LEVEL}", *_meanings(wheel, WHEEL, shown)]
    )


def _of_assignors(name: str) -> str:
    def called(word: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            return z3.Function(word, *[z3.IntSort()] * (len(given) + 1))(*given)

        return call

    with replaced(assignors, {word: called(word) for word in ASSIGNORS}):
        shown = str(assignors.arithmetic()[name][1])
    return "\n".join([shown, *_meanings(assignors, ASSIGNORS, shown)])


def _meanings(module: ModuleType, names: tuple[str, ...], shown: str) -> list[str]:
    """What the functions that a formula names are."""
    return [f"{name}: {getattr(module, name).__doc__}" for name in names if f"{name}(" in shown]
