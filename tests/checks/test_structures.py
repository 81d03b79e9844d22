"""Finite structures do at once what the symbolic state does for each tuple. `replace` of the model."""

from __future__ import annotations

import dataclasses
import random

import pytest

from rota.model.state import State as ModelState
from rota.model.values import replace
from rota.specs.logic import Spec, State
from rota.specs.structures import Structure

PLACES, PEOPLE = ("here", "there"), (1, 2, 3)


def structure() -> Structure:
    """A relation and a flag."""
    spec = Spec("small", ["Place", "Person"])
    spec.symbols(False, "is_at: Place Person\nis_open:")
    made = Structure(spec, {}, {})
    made.know("Place", PLACES)
    made.know("Person", PEOPLE)
    return made


@pytest.mark.parametrize("seed", range(5))
def test_tuples_come_and_go_as_in_any_state(seed: int) -> None:
    chance, quick, slow = random.Random(seed), structure(), structure()
    for _ in range(60):
        # Elements that there are not are in no relation.
        at = (chance.choice([*PLACES, "nowhere"]), chance.choice([*PEOPLE, 4]))
        name = chance.choice(["add", "add", "drop"])
        getattr(quick, name)("is_at", *at)
        getattr(State, name)(slow, "is_at", *at)
        if chance.random() < 0.05:
            quick.clear("is_at", "is_open")
            State.clear(slow, "is_at", "is_open")
        assert quick.relation("is_at") == slow.relation("is_at")
    assert (quick.is_open, slow.is_open) == (False, False)


def test_a_copy_keeps_its_relations() -> None:
    before = structure()
    before.add("is_at", "here", 1)
    after = before.copy()
    after.add("is_at", "there", 2)
    after.drop("is_at", "here", 1)
    assert (before.relation("is_at"), after.relation("is_at")) == ({("here", 1)}, {("there", 2)})


def test_a_value_with_other_fields_is_that_of_dataclasses() -> None:
    before = ModelState()
    after = replace(before, now_ms=7, phase="Loading")
    assert after == dataclasses.replace(before, now_ms=7, phase="Loading")
    assert (before.now_ms, type(after)) == (0, ModelState)
    with pytest.raises(TypeError, match="State has no field no_such"):
        replace(before, no_such=1, now_ms=2)  # type: ignore[call-arg]
