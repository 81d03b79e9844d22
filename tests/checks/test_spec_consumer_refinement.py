"""Steps of the Python model of the newer protocol are actions of its specification."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from rota.model.consumer import heartbeat, reconcile
from rota.model.consumer.data import Member
from rota.specs.protocols import protocols
from tests.checks.consumer_world import REBALANCE_MS, Client
from tests.checks.following_consumer import Followed, Outside

pytestmark = pytest.mark.xdist_group("followed consumer")  # what was followed is made once
SPEC = protocols()["consumer"].spec
RUNS, STEPS = 120, 40
NAMES = (("foo",), ("bar", "foo"), ("bar",), ())
SPANS_MS = (100, 1_000, 21_000, 46_000)
# Actions that no run here shows, and why; tests/checks/test_spec_consumer.py has a run of each.
CONVERSION = "no run here has classic members; tests/checks/test_spec_consumer_conversions.py follows conversions"
NO_CHANGE = "changes no group; tests/checks/test_consumer_invariants.py compares it with the rule"
PATTERNS = "no run has patterns"
NOT_FOLLOWED = {
    **dict.fromkeys((name for name in SPEC.actions if "classic" in name), CONVERSION),
    **dict.fromkeys((name for name in SPEC.actions if name.startswith(("upgrade", "downgrade"))), CONVERSION),
    **dict.fromkeys(("join: changes over", "sync"), CONVERSION),
    **dict.fromkeys((name for name in SPEC.actions if name.startswith(("refuse", "commit"))), NO_CHANGE),
    **dict.fromkeys(("metadata changes", "pattern changes"), PATTERNS),
    "delete": "no run deletes a group",
}


def follow(seed: int) -> Counter[str]:
    """A random run: how often each action was what the model did."""
    rng = random.Random(seed)
    world = Followed(SPEC, rng.choice([0, 0, 1_000]))
    world.crash()  # a coordinator loads
    clients = [Client("a"), Client("b"), Client("c"), Client("s1", "i"), Client("s2", "i")]
    world.clients = {client.name: client for client in clients}
    try:
        for _ in range(STEPS):
            step(world, rng, rng.choice(clients))
    except Outside:
        world.taken["outside"] += 1
    return world.taken


def step(world: Followed, rng: random.Random, client: Client) -> None:
    """One event: requests of a client, the end of an append, time, or a crash."""
    join: dict[str, Any] = {"member_epoch": 0, "rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": ()}
    kind = rng.random()
    if kind < 0.62:
        fields: dict[str, Any] = {"subscribed_topic_names": rng.choice(NAMES)} if rng.random() < 0.15 else {}
        world.beat(client, is_lost=rng.random() < 0.15, **fields)
    elif kind < 0.66:
        world.beat(client, **join, subscribed_topic_names=("foo",))
    elif kind < 0.68:
        world.beat(client, **join, subscribed_topic_names=("foo",), instance_id=f"of {client.name}")
    elif kind < 0.76:
        world.beat(client, member_epoch=-2 if client.instance_id and kind >= 0.72 else -1)
        client.epoch, client.uses = 0, frozenset()
    elif kind < 0.9 and world.in_flight:
        world.end_append()
    elif kind < 0.92 and world.in_flight:
        world.end_append("NOT_LEADER_OR_FOLLOWER")
    elif kind < 0.98:
        world.pass_time(rng.choice(SPANS_MS))
    else:
        world.crash()


def follow_all() -> Counter[str]:
    """All runs."""
    return sum((follow(seed) for seed in range(RUNS)), Counter[str]())


@pytest.fixture(scope="module")
def followed() -> Counter[str]:
    """What they showed."""
    return follow_all()


def test_the_specification_accepts_what_the_model_does(followed: Counter[str]) -> None:
    print(f"{followed.total()} actions accepted, {followed['outside']} of {RUNS} runs ended early")
    assert followed.total() > 5_000
    assert followed["outside"] < RUNS / 2


def test_every_action_is_something_that_the_model_does(followed: Counter[str]) -> None:
    assert set(SPEC.actions) - set(followed) == set(NOT_FOLLOWED)


@pytest.mark.parametrize("bug", ["grants what is busy", "acknowledges nothing", "keeps the epoch"])
def test_a_model_that_does_something_else_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = reconcile.reconcile

    def spoilt(member: Member, given: reconcile.Inputs) -> Member:
        if bug == "grants what is busy":
            return real(member, replace(given, busy=frozenset()))
        if bug == "acknowledges nothing":
            return real(member, replace(given, owned=None))
        return replace(real(member, given), epoch=member.epoch)

    monkeypatch.setattr(heartbeat, "reconcile", spoilt)
    with pytest.raises(AssertionError, match=r"rejected|differs|another epoch|^C\d"):
        follow_all()
