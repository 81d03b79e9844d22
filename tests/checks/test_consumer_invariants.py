"""The properties C1 to C13 of tests/checks/consumer_world.py, on the model of the newer protocol, whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from rota import model
from rota.model.consumer import heartbeat, reconcile, removal
from rota.model.consumer.data import UNREVOKED, Group
from rota.model.consumer.records import ConsumerRecord
from tests.checks.consumer_world import GROUP, TOPICS, Client, World, states_seen

Removed = tuple[Group, tuple[ConsumerRecord, ...]]

NAMES = st.sampled_from(["m1", "m2", "m3", "s1", "s2"])
INSTANCES = {"s1": "i", "s2": "i"}
TOPIC_LISTS = st.lists(st.sampled_from([*TOPICS, "nowhere"]), unique=True, max_size=3).map(tuple)
SPANS_MS = st.sampled_from([1, 400, 1_000, 5_000, 21_000, 46_000])
PLACES = st.sampled_from([(at, index) for at, count in enumerate(TOPICS.values(), 1) for index in range(count)])
#: Without shrinking: a run that fails is replayed step by step unchanged.
PHASES = (Phase.generate,)
SEEN: Counter[str] = Counter()


class Machine(RuleBasedStateMachine):
    """Obedient clients whose answers may be lost, requests from anybody, a log that is slow, refuses and is read
    again."""

    @initialize(interval_ms=st.sampled_from([0, 1_000]))
    def begin(self, interval_ms: int) -> None:
        self.world = World(interval_ms)
        self.world.crash()

    def client(self, name: str) -> Client:
        return self.world.clients.setdefault(name, Client(name, INSTANCES.get(name)))

    @rule(name=NAMES, lost=st.booleans())
    def a_client_beats(self, name: str, lost: bool) -> None:
        self.world.beat(self.client(name), is_lost=lost)

    @rule(name=NAMES)
    def a_client_beats_and_hears(self, name: str) -> None:
        """The usual case, so that groups get somewhere."""
        self.world.beat(self.client(name))
        while self.world.in_flight:
            self.world.end_append()

    @rule(name=NAMES, names=TOPIC_LISTS)
    def a_client_changes_its_topics(self, name: str, names: tuple[str, ...]) -> None:
        client = self.client(name)
        client.names = names
        self.world.beat(client, subscribed_topic_names=names)

    @rule(name=NAMES, assignor=st.sampled_from(["uniform", "range"]))
    def a_client_names_an_assignor(self, name: str, assignor: str) -> None:
        self.world.beat(self.client(name), server_assignor=assignor)

    @rule(name=NAMES, lost=st.booleans())
    def a_client_leaves(self, name: str, lost: bool) -> None:
        client = self.client(name)
        client.uses, client.epoch, client.reports = frozenset(), 0, True
        self.world.granted.pop(name, None)
        self.world.beat(client, is_lost=lost, member_epoch=-2 if client.instance_id else -1, topic_partitions=None)

    @rule(name=NAMES)
    def a_client_restarts(self, name: str) -> None:
        """It has forgotten everything but its id, and stopped using its partitions."""
        client = self.client(name)
        client.uses, client.epoch, client.reports = frozenset(), 0, True
        self.world.granted.pop(name, None)

    @rule(
        name=NAMES,
        epoch=st.integers(-3, 12),
        owned=st.none() | st.lists(PLACES, unique=True, max_size=4).map(tuple),
    )
    def a_stranger_asks(self, name: str, epoch: int, owned: tuple[tuple[int, int], ...] | None) -> None:
        """With any id and epoch, but not one that a client has: that would be two clients under one name."""
        known = self.world.group.members.get(name) if self.world.group else None
        fits = known is not None and epoch in (known.epoch, known.previous)
        if not fits and epoch > 0:
            self.world.send(model.ConsumerGroupHeartbeat(GROUP, name, epoch, topic_partitions=owned))

    @rule(name=NAMES, generation=st.integers(-2, 12), places=st.lists(PLACES, unique=True, min_size=1, max_size=3))
    def somebody_commits(self, name: str, generation: int, places: list[tuple[int, int]]) -> None:
        topics = list(TOPICS)
        offsets = tuple((topics[at - 1], index, 1, -1, "") for at, index in places)
        ids = tuple((topic, at) for at, topic in enumerate(topics, 1))
        before = self.world.group
        member = before.members.get(name) if before else None
        self.world.tickets += 1
        commit = model.OffsetCommit(GROUP, offsets, name, generation, topic_ids=ids)
        after, effects = model.step(
            self.world.state, self.world.now_ms, model.Submit(self.world.tickets, commit, "0" * 36)
        )
        stored = any(isinstance(effect, model.Append) for effect in effects)
        if member and before:
            held = {**member.assigned, **member.revoking}
            is_older = 0 <= generation < member.epoch
            fits = is_older and all(held.get(place, generation + 1) <= generation for place in places)
            assert stored == (generation == member.epoch or fits), "C11"
        elif before and before.members:
            assert not stored, "C11"
        assert after.consumers == self.world.state.consumers, "C11: a commit changes no group"

    @precondition(lambda self: self.world.in_flight)
    @rule()
    def an_append_is_durable(self) -> None:
        self.world.end_append()

    @precondition(lambda self: self.world.in_flight)
    @rule()
    def an_append_is_refused(self) -> None:
        self.world.end_append("NOT_LEADER_OR_FOLLOWER")

    @rule(span_ms=SPANS_MS)
    def time_passes(self, span_ms: int) -> None:
        self.world.pass_time(span_ms)

    @rule()
    def the_coordinator_moves(self) -> None:
        self.world.crash()

    def teardown(self) -> None:
        SEEN.update(states_seen(self.world))


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_what_has_to_hold_holds() -> None:
    SEEN.clear()
    run(150, 40)
    assert {"Stable", "Reconciling", "Assigning", "Empty", UNREVOKED, "UNRELEASED_PARTITIONS", "away"} <= set(SEEN)


@pytest.mark.parametrize(
    "bug", ["grants-what-is-busy", "null-acknowledges", "keeps-epochs-on-removal", "skips-records"]
)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(bug, monkeypatch)
    with pytest.raises(AssertionError, match=r"C\d"):
        run(300, 50)


def plant(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bug in the model."""
    true_reconcile, true_removed = reconcile.reconcile, removal.removed
    match bug:
        case "grants-what-is-busy":
            monkeypatch.setattr(
                heartbeat, "reconcile", lambda member, given: true_reconcile(member, replace(given, busy=frozenset()))
            )
        case "null-acknowledges":
            monkeypatch.setattr(
                heartbeat,
                "reconcile",
                lambda member, given: true_reconcile(member, replace(given, owned=given.owned or frozenset())),
            )
        case "keeps-epochs-on-removal":

            def removed(group: Group, gone: Sequence[str], s: model.State) -> Removed:
                after, records = true_removed(group, gone, s)
                return replace(after, epoch=group.epoch - 1), records

            monkeypatch.setattr(removal, "removed", removed)
        case "skips-records":

            def shorter(group: Group, gone: Sequence[str], s: model.State) -> Removed:
                after, records = true_removed(group, gone, s)
                return after, records[:-1]

            monkeypatch.setattr(removal, "removed", shorter)
