"""The newer protocol is proved, nothing in it is vacuous, every planted bug is found, and what is false of it is shown
by events.
"""

import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from rota import model
from rota.audit.matrix import BOTH, MATRIX, REPLAYED, UNKNOWN
from rota.specs import jobs, necessity
from rota.specs.consumer.runs import FALSE, RUNS, sizes
from rota.specs.obligations import Step, run_of
from rota.specs.planting import with_bug
from rota.specs.protocols import protocols
from tests.checks.consumer_world import GROUP, REBALANCE_MS, World
from tests.checks.planting import one_of_each

PROTOCOL = protocols()["consumer"]
SPEC = PROTOCOL.spec
MAIN = [prop.name for prop in SPEC.properties.values() if not prop.auxiliary]
# One bug for every third property. `make long` tries all, as `rota check proofs` does.
PLANTED = one_of_each([mutant.name for mutant in PROTOCOL.bugs], lambda name: PROTOCOL.killed[name][0], every=3)


def unmet(job: str) -> list[str]:
    """What a job did not prove."""
    return [
        f"{result['verdict']}: {result['kind']} {result['claim']}\n{result['shown']}"
        for result in jobs.run_job(job)
        if result["verdict"] not in ("proved", "framed")
    ]


@pytest.mark.proof
def test_the_initial_state_has_every_invariant() -> None:
    assert not unmet("consumer init")


@pytest.mark.proof
@pytest.mark.parametrize("action", SPEC.actions)
def test_an_event_can_happen_and_keeps_every_invariant(action: str) -> None:
    assert not unmet(f"consumer: {action}")


@pytest.mark.slow
def test_quantifiers_alternate_in_the_order_of_the_sorts() -> None:
    seen: set[str] = set()
    for action in SPEC.actions.values():
        step = Step.of(SPEC, action)
        goals = [step.goal(prop) for prop in SPEC.properties.values()]
        denied = [goal if isinstance(goal, bool) else ~goal for goal in goals]
        new = [part for name, part in step.assumed.items() if name not in seen or name.startswith("requirement")]
        assert SPEC.misordered([*new, *denied]) == [], action.name
        seen |= set(step.assumed)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_from_the_initial_state(run: str) -> None:
    found = run_of(SPEC, RUNS[run], sizes(RUNS[run]))
    assert found is not None
    assert [event.split(". ", 1)[1].split("(")[0] for event in found.lines()] == RUNS[run]


def test_every_event_happens_in_a_run() -> None:
    assert {action for run in RUNS.values() for action in run} == set(SPEC.actions)


def test_a_run_that_cannot_be_is_refused() -> None:
    too_early = ["join: create the group", "join: new member", "input changes", "target stays", "settle", "answer"]
    assert run_of(SPEC, too_early, sizes(too_early)) is None


@pytest.mark.parametrize("statement", FALSE)
def test_a_false_statement_has_events_that_show_it(statement: str) -> None:
    vector = FALSE[statement]
    planted = [bug for bug in PROTOCOL.bugs if bug.name == vector.planted]
    spec = with_bug(SPEC, planted[0]) if planted else SPEC
    assert bool(planted) == bool(vector.planted)
    assert run_of(spec, vector.events, sizes(vector.events), vector.ends) is not None


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    [result] = jobs.run_job(f"consumer mutant: {bug}")
    assert result["breaks"], f"no invariant notices: {bug}"
    main = [name for name in result["breaks"] if name in MAIN]
    assert sorted(main) == [name for name in PROTOCOL.killed[bug] if name in MAIN]
    assert "\nbroken " in result["shown"]


def test_there_are_enough_bugs_with_names_of_their_own() -> None:
    names = [bug.name for bug in PROTOCOL.bugs]
    assert len(set(names)) == len(names) >= 60
    assert set(PROTOCOL.killed) == set(names)
    assert not set(names) & set(protocols()["classic"].killed)


def test_every_property_is_the_only_one_to_notice_some_bug() -> None:
    alone = {broken[0] for broken in PROTOCOL.killed.values() if len(broken) == 1}
    assert set(MAIN) <= alone


@pytest.mark.proof
@pytest.mark.parametrize("job", [job for job in jobs.names() if job.startswith("consumer necessity: ")])
def test_without_an_auxiliary_invariant_something_breaks(job: str) -> None:
    assert not unmet(job)


def test_every_auxiliary_invariant_is_needed() -> None:
    found = necessity.witnesses(PROTOCOL)
    assert list(found) == [prop.name for prop in SPEC.properties.values() if prop.auxiliary]
    assert all(witness.breaks != name for name, witness in found.items())


def test_the_ids_are_those_of_the_vocabulary() -> None:
    vocabulary = (files("rota.specs") / "vocabulary.toml").read_text(encoding="utf-8")
    for name in MAIN:
        assert f'id = "{name.split(":")[0]}"' in vocabulary
        assert SPEC.properties[name].source.startswith("docs/consumer-protocol.md §")
        assert SPEC.properties[name].says


def test_no_property_has_a_name_of_the_classic_protocol() -> None:
    assert not set(SPEC.properties) & set(protocols()["classic"].spec.properties)


def test_the_page_says_what_shows_each_id() -> None:
    page = (Path(__file__).parents[2] / "docs" / "checking.md").read_text(encoding="utf-8")
    broken = [{name.split(":")[0] for name in found if name in MAIN} for found in PROTOCOL.killed.values()]
    bugs = Counter(identifier for each in broken for identifier in each)
    said = {BOTH: "replay, query", REPLAYED: "replay", UNKNOWN: "–"}
    rows = re.findall(r"^\| (C\d+) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    wanted = {
        identifier: (str(bugs.get(identifier, "–")), said.get(journal, journal), said.get(log, log))
        for identifier, (journal, _, log) in MATRIX.items()
        if identifier.startswith("C")
    }
    assert {identifier: tuple(rest) for identifier, *rest in rows} == wanted
    assert f"of the {len(PROTOCOL.bugs)} bugs" in page


# ---- what is false, on the model


class Wires:
    """Requests to the model, one by one; each is durable at once. `uses` is the last answer of each client."""

    def __init__(self) -> None:
        self.world = World(interval_ms=0)
        self.world.crash()  # a coordinator loads
        self.uses: dict[str, set[int]] = {}

    def beat(self, name: str, epoch: int, owned: tuple[int, ...] | None = None) -> set[int] | None:
        """A heartbeat or join on topic `bar`, which has partitions 0 and 1: the assignment in the answer."""
        joins = epoch == 0
        bar = next(topic for topic in self.world.topics if topic.name == "bar")
        report = None if owned is None else tuple((bar.topic_id, index) for index in owned)
        self.world.tickets += 1
        request = model.ConsumerGroupHeartbeat(
            GROUP,
            name,
            epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=("bar",) if joins else None,
            topic_partitions=() if joins else report,
        )
        event = model.Submit(self.world.tickets, request, "0" * 36)
        self.world.state, effects = model.step(self.world.state, 0, event)
        for append in [each for each in effects if isinstance(each, model.Append)]:
            self.world.state, more = model.step(self.world.state, 0, model.Appended(append.append_id, None))
            effects = (*effects, *more)
        [answer] = [each for each in effects if isinstance(each, model.ConsumerHeartbeatAnswer)]
        assert answer.error == "NONE"
        return None if answer.assignment is None else {index for _, index in answer.assignment}

    def pending_and_lacking(self) -> int:
        """The sum of partitions that are pending, and of partitions of the target that are not assigned."""
        assert self.world.group is not None
        members = self.world.group.members.values()
        return sum(len(each.revoking) + len(set(each.target or ()) - set(each.assigned)) for each in members)


def test_a_request_after_a_later_one_gives_two_members_one_partition() -> None:
    wires = Wires()
    m1 = wires.beat("m1", 0)
    assert m1 == {0, 1}
    assert wires.beat("m2", 0) == set()
    assert wires.beat("m1", 0) == {0}  # the join that was sent first; m1 does not read this answer
    m2 = wires.beat("m2", 3)
    assert m2 == {1}
    assert m1 & m2


def test_a_late_heartbeat_of_the_same_epoch_does_so_too() -> None:
    wires = Wires()
    wires.beat("m1", 0)
    wires.beat("m2", 0)
    assert wires.beat("m1", 2) == {0}  # 1 has to be given up; m1 still uses it
    assert wires.beat("m1", 2, ()) is None  # sent before m1 got an answer
    assert wires.beat("m2", 3) == {1}


def test_the_unweighted_ranking_rises() -> None:
    wires = Wires()
    wires.beat("m1", 0)
    wires.beat("m2", 0)
    before = wires.pending_and_lacking()
    wires.beat("m1", 2)
    assert wires.pending_and_lacking() > before


def test_a_member_commits_for_a_partition_that_another_has() -> None:
    wires = Wires()
    wires.beat("m1", 0)
    wires.beat("m2", 0)
    wires.beat("m1", 2, (0,))
    assert wires.beat("m2", 3) == {1}
    topic = next(topic for topic in wires.world.topics if topic.name == "bar")
    commit = model.OffsetCommit(GROUP, (("bar", 1, 7, -1, ""),), "m1", 3, topic_ids=(("bar", topic.topic_id),))
    _, effects = model.step(wires.world.state, 0, model.Submit(99, commit, "0" * 36))
    assert any(isinstance(effect, model.Append) for effect in effects)
