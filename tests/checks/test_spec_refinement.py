"""Steps of the Python model, and of the core beside it, are actions of the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from rota import model
from rota.check.differential.steps import Ask, Crash, End, Loaded, Pass, Step
from rota.specs import jobs
from rota.specs.logic import Term
from tests.checks.following import Follower, Unlike, sampled
from tests.checks.test_differential import BOTH_REPLACED_AT_ONCE, JOIN, PAIR

pytestmark = pytest.mark.xdist_group("followed")  # what was followed is made once
SPEC = jobs.specification()
RUNS = 360
STEPS = 40
CONFIGS: tuple[dict[str, int], ...] = (
    {"group.initial.rebalance.delay.ms": 0},
    {},
    {"group.initial.rebalance.delay.ms": 0, "group.max.size": 2},
)
AGAIN = Ask(7, "b''", PAIR[1])
DIRECTED: dict[str, list[Step]] = {
    "the first record of two fails": [*BOTH_REPLACED_AT_ONCE, End(0, "REQUEST_TIMED_OUT"), End(0, None), End(0, None)],
    "the first record of two is slow": [
        *BOTH_REPLACED_AT_ONCE[:-1],
        Pass(1_000, True),
        BOTH_REPLACED_AT_ONCE[-1],
        Pass(4_000, True),
        End(0, None),
        End(0, None),
    ],
    "replaced twice in a row": [*BOTH_REPLACED_AT_ONCE[:-1], AGAIN, End(0, None), End(0, None)],
    "replaced twice in a row, and the first record fails": [
        *BOTH_REPLACED_AT_ONCE[:-1],
        AGAIN,
        End(0, "REQUEST_TIMED_OUT"),
        End(0, "REQUEST_TIMED_OUT"),
    ],
    "replaced three times, and two fall before the log says anything": [
        *BOTH_REPLACED_AT_ONCE[:-1],
        AGAIN,
        Pass(5_000, True),
        Ask(8, "b'", PAIR[1]),
        End(0, None),
        End(0, None),
        End(0, "REQUEST_TIMED_OUT"),
        End(0, None),
        End(0, None),
    ],
    "a deletion that fails": [
        Ask(1, "a", replace(JOIN, protocols=())),
        End(0, None),
        Ask(2, "a", model.DeleteGroup("g")),
        End(0, "REQUEST_TIMED_OUT"),
    ],
    "offsets without members": [
        Ask(1, "a", model.OffsetCommit("g", (("t", 0, 5, -1, ""),))),
        End(0, None),
        Crash(0),
        Loaded(),
    ],
}
# Actions that no run here shows, and why; tests/checks/test_spec_replay.py has a run of each.
NOT_FOLLOWED = {
    "creation durable late, held phase ends: empties": "two slow creations, and everybody gone in between: too rare",
    "pending expires Preparing: holds": "a pending id expires while the group's first record is slow: too rare",
    "expire Preparing: holds": "a parked newcomer expires (300 s) before a record ends, which takes 5 s at most",
}


@pytest.fixture(scope="module")
def followed() -> Counter[str]:
    """How often each action was what the model did; `steps` counts the triples."""
    found = Counter[str]()
    for seed in range(RUNS):
        run = sampled(SPEC, CONFIGS[seed % len(CONFIGS)], seed, STEPS)
        found.update([*run.taken, *([f"outside: {run.outside}"] if run.outside else [])])
        found["steps"] += run.followed
    for steps in DIRECTED.values():
        run = Follower(SPEC, {})
        for step in steps:
            run.play(step)
        found.update(run.taken)
    run = Follower(SPEC, {"group.initial.rebalance.delay.ms": 0})
    for step in BOTH_REPLACED_AT_ONCE[:-2]:
        run.play(step)
    run.config["group.max.size"] = 1
    run.settings = replace(run.settings, group_max_size=1)
    for step in (Crash(0), Loaded()):
        run.play(step)
    found.update(run.taken)
    return found


def test_the_specification_accepts_what_the_model_does(followed: Counter[str]) -> None:
    print(f"{followed['steps']} triples accepted")
    print({name: count for name, count in followed.items() if name.startswith("outside")})
    assert followed["steps"] > 5_000


def test_every_action_is_something_that_the_model_does(followed: Counter[str]) -> None:
    assert set(SPEC.actions) - set(followed) == set(NOT_FOLLOWED)


def without_sessions(state: model.State) -> model.State:
    """No member has a session timer."""
    return replace(state, timers=tuple(timer for timer in state.timers if timer.kind != "Session"))


def a_generation_behind(state: model.State) -> model.State:
    """A round has the generation of the one before."""
    behind = {key: replace(each, generation=max(each.generation - 1, 0)) for key, each in state.groups.items()}
    return replace(state, groups=behind)


@pytest.mark.parametrize("bug", [without_sessions, a_generation_behind])
def test_a_model_that_does_something_else_is_noticed(
    bug: Callable[[model.State], model.State], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planted is in the states that the specification is shown."""
    real = Follower._compare
    monkeypatch.setattr(Follower, "_compare", lambda self, state: real(self, bug(state)))
    run = Follower(SPEC, {})
    with pytest.raises(Unlike, match="differs"):
        play(run, BOTH_REPLACED_AT_ONCE)


def play(run: Follower, steps: list[Step]) -> None:
    """These steps, one by one."""
    for step in steps:
        run.play(step)


def test_an_answer_that_the_specification_does_not_give_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SPEC.actions["plan durable"]

    def silent(s: Term, a: Term) -> None:
        told.body(s, a)
        s.clear("told_asg")

    monkeypatch.setitem(SPEC.actions, told.name, replace(told, body=silent))
    with pytest.raises(Unlike, match="told_asg"):
        play(Follower(SPEC, {}), BOTH_REPLACED_AT_ONCE)
