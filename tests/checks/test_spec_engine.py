"""The engine's protocol is proved, every event can happen, and every planted bug is found."""

from __future__ import annotations

import pytest

from rota.specs.engine import BUGS, SIZES, engine
from rota.specs.obligations import Step, initiation, possible, prove
from rota.specs.planting import Mutant, killers

SPEC = engine()


def test_the_initial_state_has_every_invariant() -> None:
    assert [result for result in initiation(SPEC) if not result.good] == []


@pytest.mark.proof
@pytest.mark.parametrize("action", SPEC.actions)
def test_an_event_keeps_every_promise(action: str) -> None:
    step = Step.of(SPEC, SPEC.actions[action])
    assert [result for result in prove(step, SPEC.properties.values()) if not result.good] == []


@pytest.mark.parametrize("action", SPEC.actions)
def test_an_event_can_happen(action: str) -> None:
    assert possible(Step.of(SPEC, SPEC.actions[action], sizes=SIZES)).good


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    assert killers(SPEC, bug, SIZES)


def test_quantifiers_alternate_in_the_order_of_the_sorts() -> None:
    for action in SPEC.actions.values():
        step = Step.of(SPEC, action)
        goals = [step.goal(prop) for prop in SPEC.properties.values()]
        denied = [goal if isinstance(goal, bool) else ~goal for goal in goals]
        assert SPEC.misordered([*step.assumed.values(), *denied]) == [], action.name
