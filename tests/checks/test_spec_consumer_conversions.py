"""Conversions of the Python model, between both protocols, are actions of the specification.

A conversion is one step of a random run: the group before it, what happens, the group after it. Each group is a version
of the specification, and what an action makes of the first has to be the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rota import model
from rota.check.differential import volume
from rota.check.differential.cells import Reached
from rota.check.differential.walks import CONVERSION
from rota.model.consumer import conversion, embedded, removal
from rota.model.consumer.data import ConsumerWrite, Downgrade, Group, Member, holder
from rota.model.state import Group as ClassicGroup
from rota.specs.protocols import protocols
from tests.checks.following_consumer import Followed, Unlike

SPEC = protocols()["consumer"].spec
RUNS = 200
GROUP = "g"


class Conversions(Followed):
    """The specification, in a state that the model was in."""

    def __init__(self, state: model.State, version: Mapping[str, Any]) -> None:
        super().__init__(SPEC, 0)
        self.state = state
        for name, cells in version.items():
            self.structure.rigid[name] = {(0, *at): value for at, value in cells.items()}
        known = {p for name in ("assigned", "pending", "target") for _, p in version[name]}
        places = {(topic.topic_id, at) for topic in state.topics.values() for at in range(topic.partitions)}
        self.structure.know("Partition", sorted(places | known))
        self.structure.know("Member", [at[0] for at in version["member"]])
        self.structure.know("Instance", [at[1] for at in version["instance"]])
        self.structure.know("Epoch", {*version["group_epoch"].values(), *version["epoch"].values()})

    def is_classic(self, group: ClassicGroup, fenced: set[str]) -> None:
        """The version in memory is this classic group, and these members are fenced."""
        s, v = self.structure, self.structure.now
        wanted, ids = classic_version(group, self.state.topics), {t.topic_id for t in self.state.topics.values()}
        relations = ("member", "assigned", "instance")
        found = {name: {at[1:] for at in s.relation(name) if at[0] == v} for name in relations}
        found["assigned"] = {at for at in found["assigned"] if at[1][0] in ids}  # topics that are gone have no name
        same: dict[str, tuple[Any, Any]] = {name: (found[name], set(wanted[name])) for name in relations}
        same["fenced"] = ({m for m in s.domains["Member"] if s.fenced(v, m)}, fenced)
        same["generation"] = (s.group_epoch(v), group.generation)
        wrong = {name: pair for name, pair in same.items() if pair[0] != pair[1]}
        if wrong:
            raise Unlike(f"version {v} differs from the model: {wrong}")


def version_of(kind: str, epochs: tuple[int, int], members: Iterable[Member]) -> dict[str, dict[tuple[Any, ...], Any]]:
    """What a version says of a group."""
    each = list(members)
    held = [(m.member_id, p, epoch) for m in each for p, epoch in {**m.assigned, **m.revoking}.items()]
    states = {"STABLE": "Stable", "UNREVOKED_PARTITIONS": "Unrevoked", "UNRELEASED_PARTITIONS": "Unreleased"}
    return {
        "kind": {(): kind},
        "group_epoch": {(): epochs[0]},
        "target_epoch": {(): epochs[1]},
        "member": {(m.member_id,): True for m in each},
        "classic": {(m.member_id,): True for m in each if m.classic},
        "epoch": {(m.member_id,): m.epoch for m in each},
        "previous": {(m.member_id,): max(m.previous, 0) for m in each},
        "state": {(m.member_id,): states[m.state] for m in each},
        "assigned": {(m.member_id, p): True for m in each for p in m.assigned},
        "pending": {(m.member_id, p): True for m in each for p in m.revoking},
        "target": {(m.member_id, p): True for m in each for p in m.target or ()},
        "granted_at": {(name, p): epoch for name, p, epoch in held},
        "instance": {(m.member_id, m.instance_id): True for m in each if m.instance_id is not None},
        "mapped": {(p,): True for _, p, _ in held},
        "mapped_epoch": {(p,): epoch for _, p, epoch in held},
    }


def classic_version(group: ClassicGroup, topics: Mapping[str, model.Topic]) -> dict[str, dict[tuple[Any, ...], Any]]:
    """The same of a classic group: members, with what they are assigned."""
    members = []
    for each in group.members:
        known = [(topics[name].topic_id, at) for name, at in embedded.assigned(each.assignment) if name in topics]
        one = Member(each.member_id, each.instance_id, epoch=group.generation, previous=group.generation)
        members.append(replace(one, assigned=dict.fromkeys(known, group.generation)))
    version = version_of("Classic", (group.generation, group.generation), members)
    return version | {"classic": version["member"]}


class Steps(Reached):
    """The conversions of runs: how often each action was what the model did, and what the specification leaves out."""

    def __init__(self) -> None:
        super().__init__("conversion")
        self.taken = Counter[str]()
        self.left_out = Counter[str]()
        self.unlike: list[str] = []

    def note(self, before: model.State, event: model.Event, after: model.State, effects: Any) -> None:
        del effects  # the answers are followed in test_spec_consumer_refinement.py
        try:
            self.look(before, event, after)
        except Unlike as unlike:
            self.unlike.append(str(unlike))

    def look(self, before: model.State, event: model.Event, after: model.State) -> None:
        """What one event converts."""
        request = event.request if isinstance(event, model.Submit) else None
        if isinstance(request, model.ConsumerGroupHeartbeat):
            self.upgrades(before, request.group_id, after)
        for flying in after.appends:
            what = flying.what
            if flying not in before.appends and isinstance(what, ConsumerWrite) and what.downgrade:
                if what.downgrade.gone:
                    self.downgrades(after, flying.group_id, what.downgrade)
                elif isinstance(request, model.JoinGroup):
                    self.replaces(before, request, after, what.downgrade)

    def upgrades(self, before: model.State, group_id: str, after: model.State) -> None:
        """A join converts a classic group; what it does besides is followed in test_spec_consumer_refinement.py."""
        classic = before.groups.get(group_id)
        if classic is None or group_id in before.consumers or group_id not in after.consumers:
            return
        if not classic.members:
            self.empties(classic, after)
            return
        group = conversion.upgraded(before, classic)
        assert isinstance(group, Group)
        reports = any(each.revoking for each in group.members.values())
        reports |= any(group.members[each.member_id].assigned and not each.assignment for each in classic.members)
        if reports:
            self.left_out["upgrade: members report more than they are assigned (departure D21)"] += 1
            return
        state = replace(after, consumers={GROUP: group})
        world = Conversions(state, classic_version(classic, before.topics))
        world.opened("upgrade", {"subscribed": world.subscriptions(group)})
        world.compare()
        self.taken["upgrade"] += 1

    def empties(self, classic: ClassicGroup, after: model.State) -> None:
        """A classic group without members becomes a new one."""
        if classic.state != "Empty":
            self.left_out["upgrade: no members, but not Empty"] += 1
            return
        world = Conversions(replace(after, consumers={GROUP: Group(GROUP)}), classic_version(classic, {}))
        world.act("upgrade: empty group")
        world.compare()
        self.taken["upgrade: empty group"] += 1

    def downgrades(self, state: model.State, group_id: str, downgrade: Downgrade) -> None:
        """Members are removed, and classic ones are left."""
        group = state.consumers[group_id]
        if all(group.members[each].classic for each in downgrade.gone):
            self.left_out["downgrade: a group that was too large is without a consumer already"] += 1
            return
        world = Conversions(state, version_of("Consumer", (group.epoch, group.target_epoch), group.members.values()))
        world.act("downgrade", gone=lambda m: m in downgrade.gone)
        old = {each.member_id for each in group.members.values() if each.epoch != group.epoch}
        world.is_classic(downgrade.group, old - set(downgrade.gone))
        self.taken["downgrade"] += 1

    def replaces(self, before: model.State, r: model.JoinGroup, after: model.State, downgrade: Downgrade) -> None:
        """A static classic member replaces the last consumer member."""
        group, settled = before.consumers[r.group_id or ""], after.consumers[r.group_id or ""]
        if (group.epoch, group.target_epoch) != (settled.epoch, settled.target_epoch):
            self.left_out["downgrade: replacement: the newcomer subscribes to something else"] += 1
            return
        old, new = holder(group, r.instance_id), holder(settled, r.instance_id)
        assert old is not None
        assert new is not None
        if old.held != new.held:
            self.left_out["downgrade: replacement: the newcomer is reconciled at once"] += 1
            return
        world = Conversions(before, version_of("Consumer", (group.epoch, group.target_epoch), group.members.values()))
        world.structure.know("Member", [new.member_id])
        world.act("downgrade: replacement", old=old.member_id, new=new.member_id, i=r.instance_id)
        late = {each.member_id for each in group.members.values() if each.epoch != group.epoch}
        world.is_classic(downgrade.group, late - {old.member_id})
        self.taken["downgrade: replacement"] += 1


def follow(runs: int) -> Steps:
    """So many runs."""
    steps = Steps()
    for seed in range(runs):
        volume.run(seed, walk=CONVERSION, reached=steps)
    return steps


def test_the_specification_accepts_conversions_of_the_model() -> None:
    steps = follow(RUNS)
    assert steps.unlike == []
    print(f"{steps.taken.total()} conversions accepted {dict(steps.taken)}, left out {dict(steps.left_out)}")
    assert set(steps.taken) == {"upgrade", "upgrade: empty group", "downgrade", "downgrade: replacement"}
    assert steps.taken.total() > 150
    assert steps.left_out.total() < steps.taken.total() / 4


@pytest.mark.parametrize("bug", ["loses what members have", "gives members their targets", "bumps the generation"])
def test_a_model_that_converts_otherwise_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka gives them their targets, and does not rebalance after a load (departure D24)."""
    upgraded, downgraded = conversion.upgraded, conversion.downgraded

    def spoilt_up(s: model.State, classic: ClassicGroup) -> Any:
        group = upgraded(s, classic)
        if isinstance(group, tuple) or bug != "loses what members have":
            return group
        bare = {name: replace(each, assigned={}, target=frozenset()) for name, each in group.members.items()}
        return replace(group, members=bare)

    def spoilt_down(group: Group, gone: Any, s: model.State, is_stable: bool = False) -> ClassicGroup | None:
        classic = downgraded(group, gone, s, is_stable or bug == "gives members their targets")
        return replace(classic, generation=classic.generation + 1) if classic and bug[0] == "b" else classic

    monkeypatch.setattr(conversion, "upgraded", spoilt_up)
    monkeypatch.setattr(removal, "downgraded", spoilt_down)
    assert follow(RUNS // 2).unlike
