"""T1 to T4 of transactions are proved, every event happens in a run, every invariant is needed, and every planted bug
is found.
"""

from __future__ import annotations

import pytest

from rota.specs import jobs, necessity
from rota.specs.logic import And, Not, State, Term
from rota.specs.obligations import Step, run_of
from rota.specs.planting import with_bug
from rota.specs.protocols import protocols
from tests.checks.planting import one_of_each

PROTOCOL = protocols()["transactions"]
SPEC = PROTOCOL.spec
MAIN = {prop.name for prop in SPEC.properties.values() if not prop.auxiliary}
# One bug for every third property. `make long` tries all, as `rota check proofs` does.
PLANTED = one_of_each([bug.name for bug in PROTOCOL.bugs], lambda name: PROTOCOL.killed[name][0], every=3)
OPENED = ["start", "begin", "add", "send"]
DECIDED = ["end", "store", "learn"]
ENDED = ["mark", "write", "complete", "hear"]
#: From the initial state, by the first protocol unless leave is granted.
RUNS = {
    "first protocol": [*OPENED, "append verified", *DECIDED, *ENDED, "fetch"],
    "second protocol": [*OPENED, "grant", "append granted", *DECIDED, *ENDED, "fetch"],
    "more data": [*OPENED, "append verified", "send", "append more", *DECIDED, *ENDED],
    "refused data, and an abort": [*OPENED, "refuse", "abort", "store", "learn", "mark", "miss", "mark", "write"],
    "a decision in the log that seemed to fail": [
        *OPENED,
        "append verified",
        "end",
        "store",
        "fail",
        "recover",
        "mark",
    ],
    "a crash before the decision": [*OPENED, "append verified", "end", "crash", "end", "store", "learn", "mark"],
}
#: A bug, and the events by which it breaks T3 in full.
HOLE = ["start", "begin", "add", "send", "end", "store", "learn", "mark", "write", "complete",
        "begin", "add", "append verified", "end", "store", "learn", "mark", "write", "fetch"]  # fmt: skip


def unmet(job: str) -> list[str]:
    """What a job did not prove."""
    rows = jobs.run_job(job)
    return [f"{row['kind']} {row['claim']}" for row in rows if row["verdict"] not in ("proved", "framed")]


@pytest.mark.proof
@pytest.mark.parametrize("job", ["transactions init", *(f"transactions: {action}" for action in SPEC.actions)])
def test_an_event_can_happen_and_keeps_every_invariant(job: str) -> None:
    assert unmet(job) == []


def test_every_auxiliary_invariant_is_needed() -> None:
    auxiliary = {prop.name for prop in SPEC.properties.values() if prop.auxiliary}
    witnesses = necessity.witnesses(PROTOCOL)
    assert witnesses.keys() == auxiliary
    for event, sizes in sorted({(witness.event, witness.sizes) for witness in witnesses.values()}):
        assert unmet(f"transactions necessity: {sizes}: {event}") == []


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    [result] = jobs.run_job(f"transactions mutant: {bug}")
    assert result["breaks"], f"no invariant notices: {bug}"
    assert MAIN & set(result["breaks"]) == MAIN & set(PROTOCOL.killed[bug])


def test_every_promise_is_the_only_one_to_notice_some_bug() -> None:
    alone = {broken[0] for broken in PROTOCOL.killed.values() if len(broken) == 1}
    assert alone >= MAIN
    assert len(PROTOCOL.killed) == len(PROTOCOL.bugs) >= 25


@pytest.mark.parametrize("run", RUNS)
def test_a_run_from_the_initial_state(run: str) -> None:
    assert run_of(SPEC, RUNS[run], PROTOCOL.sizes) is not None


def test_every_event_happens_in_a_run() -> None:
    assert {event for run in RUNS.values() for event in run} == set(SPEC.actions)


def test_a_run_that_cannot_be_is_refused() -> None:
    assert run_of(SPEC, [*OPENED, "append verified", "fetch"], PROTOCOL.sizes) is None


def test_late_data_of_the_first_protocol_is_read_although_its_transaction_was_aborted() -> None:
    """The known hole, from the initial state; it needs a client that does not wait for its answers."""
    (bug,) = [bug for bug in PROTOCOL.bugs if bug.name == "late data of the first protocol"]

    def torn(s: State) -> Term:
        return s.some("Batch", lambda b: And(s.seen(b), Not(s.commits(s.txn(b)))))

    assert run_of(with_bug(SPEC, bug), HOLE, PROTOCOL.sizes, torn) is not None
    assert run_of(SPEC, HOLE, PROTOCOL.sizes, torn) is None


def test_quantifiers_alternate_in_the_order_of_the_sorts() -> None:
    for action in SPEC.actions.values():
        step = Step.of(SPEC, action)
        goals = [step.goal(prop) for prop in SPEC.properties.values()]
        denied = [goal if isinstance(goal, bool) else ~goal for goal in goals]
        assert SPEC.misordered([*step.assumed.values(), *denied]) == [], action.name
