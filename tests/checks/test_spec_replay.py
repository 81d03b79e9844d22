"""Every action of the specification happens on the core, as Z3's run says that it can."""

from __future__ import annotations

from functools import cache

import pytest

from rota.specs import jobs
from rota.specs.obligations import run_of
from rota.specs.runs import RUNS, SIZES
from tests.checks.replaying import Player, silent

pytestmark = pytest.mark.xdist_group("replayed")  # each run is played once
SPEC = jobs.specification()
SLOW = {"group.initial.rebalance.delay.ms": 600_000, "rebalance": 700_000}
# Runs in which something outlasts the usual times, or does not.
TIMES = {
    "id first": SLOW,
    "refused first": SLOW,
    "no member is left at the end of the delay": SLOW,
    "an undurable phase by all": SLOW,
    "an undurable phase by expiry": SLOW,
    "only an absent static member": {"rebalance": 5_000},
}


@cache
def replayed(name: str) -> tuple[str, ...]:
    """The actions that the specification has seen while the core played a run."""
    run = run_of(SPEC, RUNS[name], SIZES)
    assert run is not None
    return tuple(Player(SPEC, run, TIMES.get(name, {})).play())


@pytest.mark.parametrize("name", RUNS)
def test_the_core_does_what_a_run_says(name: str) -> None:
    seen = [action for action in replayed(name) if not silent(action)]
    assert seen == [action for action in RUNS[name] if not silent(action)]


def test_every_action_is_replayed() -> None:
    seen = {action for name in RUNS for action in replayed(name)}
    assert seen == set(SPEC.actions)


def test_a_core_that_does_something_else_is_noticed() -> None:
    """A run is played with times in which something else comes first."""
    run = run_of(SPEC, RUNS["id first"], SIZES)
    assert run is not None
    seen = [action for action in Player(SPEC, run, {}).play() if not silent(action)]
    assert seen != [action for action in RUNS["id first"] if not silent(action)]
