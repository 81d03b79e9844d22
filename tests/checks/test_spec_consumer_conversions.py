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
from rota.model.consumer import classic as classic_requests
from rota.model.consumer import conversion, embedded, heartbeat, removal
from rota.model.consumer import records as log
from rota.model.consumer.data import ConsumerWrite, Downgrade, Group, Member, holder
from rota.model.log import group_record
from rota.model.records import GroupRecord
from rota.model.state import Group as ClassicGroup
from rota.model.state import InFlight
from rota.specs.protocols import protocols
from tests.checks.consumer_world import Asked
from tests.checks.following_consumer import Followed, Outside, Unlike

SPEC = protocols()["consumer"].spec
RUNS = 200
GROUP = "g"
#: What `rota.specs.consumer.conversion` says that it leaves out.
LEFT_OUT = {
    "upgrade: no members and no generation yet, but not Empty",
    "upgrade: members report more than they are assigned (departure D21)",
}


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

    def find(self, before: Group | None, r: Any) -> None:
        """The member of the join may be a classic one (docs/consumer-protocol.md §16.3)."""
        group = before or Group(r.group_id)
        static = holder(group, r.instance_id)
        known = static or group.members.get(r.member_id)
        if known is None or not known.classic:
            super().find(group, r)
        elif r.instance_id is not None and not static:
            self.act("join: becomes static", m=r.member_id, i=r.instance_id)
        elif known.member_id == r.member_id and not static:
            self.act("join: changes over", m=r.member_id, reported=lambda _: False, reports=True, joins=True)
        else:
            self.act("join: replaces a classic member", old=known.member_id, new=r.member_id, i=r.instance_id)

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


def folded(group: Group | None, records: Iterable[Any]) -> Group | None:
    """What records of the newer protocol make of a group."""
    for record in records:
        group = log.fold(group, record)
    return group


def ends_in(group: Group | None, records: tuple[Any, ...], classic: ClassicGroup) -> None:
    """The records end the group, and then write this classic one."""
    left, last = folded(group, records[:-1]), records[-1]
    if left is not None or last != group_record(classic):
        raise Unlike(f"{records} do not make this group of {group}: {classic}")


class Steps(Reached):
    """The conversions of runs: how often each action was what the model did, and what the specification leaves out."""

    def __init__(self) -> None:
        super().__init__("conversion")
        self.taken = Counter[str]()
        self.left_out = Counter[str]()
        self.unlike: list[str] = []

    def note(self, before: model.State, event: model.Event, after: model.State, effects: Any) -> None:
        del effects  # an answer waits for its append
        try:
            self.look(before, event, after)
        except Unlike as unlike:
            self.unlike.append(str(unlike))

    def look(self, before: model.State, event: model.Event, after: model.State) -> None:
        """What one event converts."""
        request = event.request if isinstance(event, model.Submit) else None
        known = {flying.append_id for flying in before.appends}
        for flying in after.appends:
            what = flying.what
            if flying.append_id in known or not isinstance(what, ConsumerWrite):
                continue
            if isinstance(request, model.ConsumerGroupHeartbeat) and flying.group_id not in before.consumers:
                self.upgrades(before, request, after, flying)
            elif what.downgrade:
                ends_in(what.before, flying.records, what.downgrade.group)
                if what.downgrade.gone:
                    self.downgrades(after, flying.group_id, what.downgrade)
                elif isinstance(request, model.JoinGroup):
                    self.replaces(before, request, after, what.downgrade)

    def upgrades(
        self, before: model.State, r: model.ConsumerGroupHeartbeat, after: model.State, flying: InFlight
    ) -> None:
        """A join converts a classic group: to what the model has written of it. From there the join goes on."""
        classic, group, what = before.groups.get(r.group_id), after.consumers[r.group_id], flying.what
        if classic is None or not isinstance(what, ConsumerWrite):
            return
        end, *rest = flying.records
        if end != GroupRecord(r.group_id, None):
            raise Unlike(f"the records do not begin with the end of the classic group: {flying.records}")
        # type 5, 7 and 8 of each member; 3 and 6 of the group
        size = 3 * len(classic.members) + 2 if classic.state != "Empty" else 0
        first, last = folded(None, rest[:size]) or Group(r.group_id), folded(None, rest)
        if size and tuple(rest[:size]) != conversion.upgrade_records(first):
            raise Unlike(f"these are not the records of an upgrade: {rest[:size]}")
        if last is None or replace(last, is_stale=group.is_stale) != group:
            raise Unlike(f"the records give {last}, the model has {group}")
        if size and not classic.members and classic.generation == 0:
            self.left_out["upgrade: no members and no generation yet, but not Empty"] += 1
            return
        reports = any(each.revoking for each in first.members.values())
        reports |= any(first.members[each.member_id].assigned and not each.assignment for each in classic.members)
        if reports:
            self.left_out["upgrade: members report more than they are assigned (departure D21)"] += 1
            return
        name = "upgrade" if size else "upgrade: empty group"
        world = Conversions(replace(after, consumers={GROUP: first}), classic_version(classic, before.topics))
        world.opened(name, {"subscribed": world.subscriptions(first)})
        world.compare()
        world.state = replace(after, consumers={GROUP: group})
        answer = next(each for each in what.answers if isinstance(each, model.ConsumerHeartbeatAnswer))
        self.taken[name] += 1
        try:
            world.request(first, Asked(replace(r, member_id=answer.member_id or ""), first), [])
        except Outside as outside:
            self.left_out[f"join: {outside}"] += 1

    def downgrades(self, state: model.State, group_id: str, downgrade: Downgrade) -> None:
        """Members are removed, and classic ones are left."""
        group = state.consumers[group_id]
        world = Conversions(state, version_of("Consumer", (group.epoch, group.target_epoch), group.members.values()))
        world.act("downgrade", gone=lambda m: m in downgrade.gone)
        old = {each.member_id for each in group.members.values() if each.epoch != group.epoch}
        world.is_classic(downgrade.group, old - set(downgrade.gone))
        self.taken["downgrade"] += 1

    def replaces(self, before: model.State, r: model.JoinGroup, after: model.State, downgrade: Downgrade) -> None:
        """A static classic member replaces the last consumer member."""
        group, settled = before.consumers[r.group_id or ""], after.consumers[r.group_id or ""]
        old, new = holder(group, r.instance_id), holder(settled, r.instance_id)
        assert old is not None
        assert new is not None
        version = version_of("Consumer", (group.epoch, group.target_epoch), group.members.values())
        world = Conversions(replace(after, consumers={GROUP: settled}), version)
        world.structure.know("Member", [new.member_id])
        swap = {"old": old.member_id, "new": new.member_id, "i": r.instance_id}
        late = {each.member_id for each in settled.members.values() if each.epoch != settled.epoch}
        if (group.epoch, group.target_epoch, old.held) == (settled.epoch, settled.target_epoch, new.held):
            world.act("downgrade: replacement", **swap)
            world.is_classic(downgrade.group, late - {new.member_id})
            self.taken["downgrade: replacement"] += 1
            return
        # The newcomer subscribes to something else, or is reconciled: its request goes on, and then converts the group.
        world.structure.know("Epoch", (settled.epoch, settled.target_epoch))
        told = embedded.subscription(r.protocols[0][1])
        owned = {(after.topics[name].topic_id, at) for name, at in told.owned if name in after.topics}
        world.act("classic join: replaces", reported=lambda p: p in owned, **swap)
        world.update(group, settled, model.ConsumerGroupHeartbeat(GROUP, new.member_id, 0, r.instance_id))
        world.rows(gives=False)
        world.act("downgrade", gone=lambda _: False)
        world.is_classic(downgrade.group, late)
        self.taken["downgrade: replacement, and more"] += 1


def follow(runs: int) -> Steps:
    """So many runs, up to the first that the specification does not accept."""
    steps = Steps()
    for seed in range(runs):
        volume.run(seed, walk=CONVERSION, reached=steps)
        if steps.unlike:
            break
    return steps


def test_the_specification_accepts_conversions_of_the_model() -> None:
    steps = follow(RUNS)
    assert steps.unlike == []
    print(f"{steps.taken.total()} conversions accepted {dict(steps.taken)}, left out {dict(steps.left_out)}")
    replacements = {"downgrade: replacement", "downgrade: replacement, and more"}
    assert set(steps.taken) == {"upgrade", "upgrade: empty group", "downgrade", *replacements}
    assert steps.taken.total() > 150
    assert set(steps.left_out) <= LEFT_OUT
    assert steps.left_out.total() < steps.taken.total() / 40


@pytest.mark.parametrize("bug", ["loses what members have", "bumps the generation"])
def test_an_upgrade_to_another_group_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upgraded = conversion.upgraded

    def spoilt(s: model.State, classic: ClassicGroup) -> Any:
        group = upgraded(s, classic)
        if isinstance(group, tuple):
            return group
        return bare(group) if bug[0] == "l" else replace(group, epoch=group.epoch + 1, target_epoch=group.epoch + 1)

    monkeypatch.setattr(heartbeat, "upgraded", spoilt)
    assert follow(RUNS).unlike


@pytest.mark.parametrize(
    "bug", ["writes nothing of members", "serves them without partitions", "ends no classic group"]
)
def test_an_upgrade_that_is_written_otherwise_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group that is made is right: the records are not, or the join goes on from another one."""
    served, records = heartbeat._served, conversion.upgrade_records

    def spoilt(s: model.State, ticket: int, r: Any, group: Group, *first: Any, **former: Any) -> model.State:
        group = bare(group) if former and bug[0] == "s" else group
        return served(s, ticket, r, group, *(first[1:] if former and bug[0] == "e" else first), **former)

    monkeypatch.setattr(heartbeat, "_served", spoilt)
    if bug[0] == "w":
        monkeypatch.setattr(heartbeat, "upgrade_records", lambda group: records(bare(group)))
    assert follow(RUNS).unlike


def bare(group: Group) -> Group:
    """Return the group with members that have no partitions and no target."""
    members = {name: replace(each, assigned={}, target=frozenset()) for name, each in group.members.items()}
    return replace(group, members=members)


@pytest.mark.parametrize("bug", ["gives members their targets", "bumps the generation"])
def test_a_downgrade_to_another_group_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka gives them their targets, and does not rebalance after a load (departure D24)."""
    downgraded = conversion.downgraded

    def spoilt(group: Group, gone: Any, s: model.State, is_stable: bool = False) -> ClassicGroup | None:
        classic = downgraded(group, gone, s, is_stable or bug == "gives members their targets")
        return replace(classic, generation=classic.generation + 1) if classic and bug[0] == "b" else classic

    monkeypatch.setattr(removal, "downgraded", spoilt)
    assert follow(RUNS).unlike


@pytest.mark.parametrize("bug", ["loses what members have", "bumps the generation", "writes another group"])
def test_a_replacement_that_gives_another_group_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    downgraded = conversion.downgraded

    def spoilt(group: Group, *rest: Any) -> ClassicGroup | None:
        classic = downgraded(group, *rest)
        if classic is None or bug[0] == "w":
            return classic
        if bug[0] == "b":
            return replace(classic, generation=classic.generation + 1)
        return replace(classic, members=tuple(replace(each, assignment=b"") for each in classic.members))

    monkeypatch.setattr(classic_requests, "downgraded", spoilt)
    if bug[0] == "w":
        monkeypatch.setattr(
            classic_requests, "group_record", lambda group: group_record(replace(group, leader="another"))
        )
    assert follow(RUNS).unlike
