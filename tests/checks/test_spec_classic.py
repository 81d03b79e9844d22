"""The classic protocol is proved, nothing in it is vacuous, and every planted bug is found."""

import json
from importlib.resources import files

import pytest

from rota.specs import jobs, necessity
from rota.specs.arithmetic_bugs import ARITHMETIC_BUGS, ArithmeticBug
from rota.specs.claims import claims
from rota.specs.obligations import Step, run_of
from rota.specs.planting import MUTANTS
from rota.specs.protocols import protocols
from rota.specs.runs import RUNS, SIZES
from tests.checks.planting import one_of_each

PROTOCOL = protocols()["classic"]
SPEC = PROTOCOL.spec
KILLED = PROTOCOL.killed
# One bug for every third invariant. `make long` tries all, as `rota check proofs` does.
PLANTED = one_of_each([mutant.name for mutant in MUTANTS], lambda name: KILLED[name][0], every=3)
PLANTED_ARITHMETIC = one_of_each(ARITHMETIC_BUGS, lambda bug: KILLED[bug.name][0])


def unmet(job: str) -> list[str]:
    """What a job did not prove."""
    return [
        f"{result['verdict']}: {result['kind']} {result['claim']}\n{result['shown']}"
        for result in jobs.run_job(job)
        if result["verdict"] not in ("proved", "framed")
    ]


@pytest.mark.proof
def test_the_initial_state_has_every_invariant() -> None:
    assert not unmet("classic init")


@pytest.mark.proof
@pytest.mark.parametrize("action", SPEC.actions)
def test_an_event_can_happen_and_keeps_every_invariant(action: str) -> None:
    assert not unmet(f"classic: {action}")


@pytest.mark.slow
def test_quantifiers_alternate_in_the_order_of_the_sorts() -> None:
    seen: set[str] = set()  # axioms and invariants are the same before every action
    for action in SPEC.actions.values():
        step = Step.of(SPEC, action)
        goals = [step.goal(prop) for prop in SPEC.properties.values()]
        denied = [goal if isinstance(goal, bool) else ~goal for goal in goals]
        new = [part for name, part in step.assumed.items() if name not in seen or name.startswith("requirement")]
        assert SPEC.misordered([*new, *denied]) == []
        seen |= set(step.assumed)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_from_the_initial_state(run: str) -> None:
    found = run_of(SPEC, RUNS[run], SIZES)
    assert found is not None
    assert [event.split(". ", 1)[1].split("(")[0] for event in found.lines()] == RUNS[run]


def test_every_event_happens_in_a_run() -> None:
    assert {action for run in RUNS.values() for action in run} == set(SPEC.actions)


def test_a_run_that_cannot_be_is_refused() -> None:
    assert run_of(SPEC, ["create group and join", "initial timer: completes"], SIZES) is None


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    [result] = jobs.run_job(f"mutant: {bug}")
    assert result["breaks"], f"no invariant notices: {bug}"
    main = [name for name in result["breaks"] if not SPEC.properties[name].auxiliary]
    assert sorted(main) == [name for name in KILLED[bug] if not SPEC.properties[name].auxiliary]
    assert "\nbroken " in result["shown"]


@pytest.mark.parametrize("bug", PLANTED_ARITHMETIC, ids=lambda bug: bug.name)
def test_a_planted_arithmetic_bug_is_found(bug: ArithmeticBug) -> None:
    # `rota check proofs` also shows that each bug leaves the other claims of the wheel true.
    found = bug.breaks(KILLED[bug.name])
    assert sorted(found) == KILLED[bug.name]
    assert all(found.values())


def test_there_are_enough_bugs_with_names_of_their_own() -> None:
    names = [*(bug.name for bug in MUTANTS), *(bug.name for bug in ARITHMETIC_BUGS)]
    assert len(set(names)) == len(names)
    assert len(MUTANTS) >= 50
    assert set(KILLED) == set(names)


def test_every_invariant_is_the_only_one_to_notice_some_bug() -> None:
    alone = {broken[0] for broken in KILLED.values() if len(broken) == 1}
    assert {prop.name for prop in SPEC.properties.values() if not prop.auxiliary} <= alone


def test_every_claim_notices_some_bug() -> None:
    assert set(claims()) <= {name for broken in KILLED.values() for name in broken}


@pytest.mark.proof
@pytest.mark.parametrize("job", [job for job in jobs.names() if job.startswith("necessity: ")])
def test_without_an_auxiliary_invariant_something_breaks(job: str) -> None:
    assert not unmet(job)


def test_every_auxiliary_invariant_is_needed() -> None:
    found = necessity.witnesses(PROTOCOL)
    assert list(found) == [prop.name for prop in SPEC.properties.values() if prop.auxiliary]
    assert all(witness.breaks != name for name, witness in found.items())


def test_the_ids_are_those_of_the_vocabulary() -> None:
    vocabulary = (files("rota.specs") / "vocabulary.toml").read_text(encoding="utf-8")
    for prop in SPEC.properties.values():
        if not prop.auxiliary:
            assert f'id = "{prop.name.split(":")[0]}"' in vocabulary
            assert prop.source.startswith("docs/protocol.md §")
            assert prop.says


def test_the_results_are_plain_data() -> None:
    results = jobs.run_job("classic: heartbeat")
    assert json.loads(json.dumps(results)) == results
