"""Which step comes next with the newer protocol: raw heartbeats can be anything; directed ones look at the state of the
model for what moves a reconciliation on, and for what is almost right.
"""

from __future__ import annotations

from collections.abc import Callable

from rota import model
from rota.check.differential.generators import Chooser
from rota.check.differential.steps import Ask, ChangeTopics, Crash, End, Loaded, Settings, Step
from rota.model.consumer.data import IS_AWAY, LEAVES, UNRELEASED, UNREVOKED, Group, Member, Partition

SWITCH = {"group.coordinator.rebalance.protocols": "classic,consumer"}
CONFIGS: tuple[dict[str, int | str], ...] = tuple(
    SWITCH | more
    for more in (
        {"group.consumer.assignment.interval.ms": 0},
        {},
        {"group.consumer.assignment.interval.ms": 0, "group.consumer.max.size": 2},
        {"group.consumer.assignment.interval.ms": 0, "offsets.commit.timeout.ms": 60_000},
        {
            "group.consumer.assignment.interval.ms": 0,
            "offsets.retention.minutes": 1,
            "offsets.retention.check.interval.ms": 7_000,
        },
        {"group.consumer.heartbeat.interval.ms": 6_000, "group.consumer.max.size": 3},
    )
)
OPENING: tuple[Step, ...] = (ChangeTopics((("foo", 3), ("bar", 2), ("one", 1))),)
TOPICS = (
    (("foo", 3), ("bar", 2), ("one", 1)),
    (("foo", 4), ("bar", 2), ("one", 1)),
    (("foo", 4), ("bar", 3), ("one", 1)),
    (("bar", 2), ("one", 1)),
    (("foo", 3), ("bar", 2), ("new", 2)),
    (),
)
MEMBERS = ("m1", "m2", "m3", "m4")
INSTANCES = ("i1", "i2")
GROUPS = ("g", "g", "g", "g", "h", "")
NAMES: tuple[tuple[str, ...] | None, ...] = (
    ("foo",),
    ("bar", "foo"),
    ("bar",),
    ("foo", "one"),
    (),
    ("foo", "foo", "bar"),
    ("absent",),
    ("new", "foo"),
)
ASSIGNORS = (None, None, None, "uniform", "range", "range", "nope", "")
REBALANCES_MS = (60_000, 5_000, 20_000, 0, -5, 2_147_483_647)
SETTINGS = (
    ("consumer.session.timeout.ms", 50_000),
    ("consumer.heartbeat.interval.ms", 7_000),
    ("consumer.assignment.interval.ms", 0),
    ("consumer.assignment.interval.ms", 4_000),
)
COMMIT_VERSIONS = (9, 9, 9, 10, 8)


class ConsumerMaker(Chooser):
    """Makes steps with the newer protocol."""

    # ---- choosing

    def group(self) -> Group | None:
        """One that exists."""
        groups = [group for _, group in sorted(self.lockstep.state.consumers.items())]
        return self.pick(groups) if groups else None

    def member(self, group: Group | None) -> Member | None:
        return self.pick(tuple(group.members.values())) if group and group.members else None

    def who(self) -> tuple[Group, Member] | None:
        """A member, if there is one."""
        group = self.group()
        member = self.member(group)
        return (group, member) if group and member else None

    def free_id(self, group: Group | None) -> str:
        """A member id that the group does not know."""
        known = group.members if group else {}
        return next((each for each in (*MEMBERS, "m5", "m6", "m7") if each not in known), "m8")

    def any_member_id(self) -> str:
        return self.pick((*MEMBERS, "", *(f"@{ticket}" for ticket in list(self.lockstep.minted)[-2:])))

    def partitions(self) -> tuple[Partition, ...]:
        """Some, of topics that exist, existed, or never did."""
        topic_id, count = self.pick((1, 2, 3, 4, 9)), self.pick((0, 1, 2, 4))
        return tuple((topic_id, index) for index in range(count))

    def owned(self, member: Member) -> tuple[Partition, ...] | None:
        """What a member reports: nothing, what it was given, more, or less."""
        assigned, revoking = tuple(sorted(member.assigned)), tuple(sorted(member.revoking))
        return self.pick(
            (
                None,
                assigned,
                assigned,
                (*assigned, *revoking),
                (),
                assigned[1:],
                (*assigned, (1, 0)),
                revoking[:1],
                (*assigned, *assigned),
                self.partitions(),
            )
        )

    def epoch(self, member: Member) -> int:
        """The member's, or one that is stale, ahead, or special."""
        near = (member.previous, member.epoch - 1, member.epoch + 1, 0, IS_AWAY, LEAVES, -3)
        return self.usual((member.epoch, *near))

    # ---- heartbeats

    def beat(
        self, group_id: str, member: Member, epoch: int, owned: tuple[Partition, ...] | None, **more: object
    ) -> Ask:
        """A heartbeat of this member, with its instance id."""
        fields = {"instance_id": member.instance_id, "client_id": member.client_id or "c", **more}
        request = model.ConsumerGroupHeartbeat(
            group_id,
            self.name(member.member_id),
            epoch,
            topic_partitions=owned,
            **fields,  # type: ignore[arg-type]
        )
        return self.ask(member.member_id[:2], request)

    def join(self, group_id: str, member_id: str, instance_id: str | None, version: int = 1) -> Ask:
        request = model.ConsumerGroupHeartbeat(
            group_id,
            member_id,
            0,
            instance_id=instance_id,
            rack_id=self.usual((None, "r1", "")),
            rebalance_timeout_ms=self.usual(REBALANCES_MS),
            subscribed_topic_names=self.usual(NAMES),
            server_assignor=self.usual(ASSIGNORS),
            topic_partitions=(),
            client_id="c",
            version=version,
        )
        return self.ask(member_id[:2] or "m0", request)

    def newcomer(self) -> Step:
        """A member that nothing speaks against, static or not."""
        group = self.group()
        group_id = group.group_id if group else "g"
        taken = {member.instance_id for member in group.members.values()} if group else set()
        free = [instance for instance in INSTANCES if instance not in taken]
        instance_id = self.pick((None, None, *free))
        version = self.usual((1, 0))
        member_id = "" if version == 0 and self.pick((True, False)) else self.free_id(group)
        return self.join(group_id, member_id, instance_id, version)

    def rejoin(self) -> Step:
        """A member that was fenced, or has lost its answer, begins again; with its own instance id, or another."""
        found = self.who()
        if found is None:
            return self.newcomer()
        group, member = found
        instance_id = self.usual((member.instance_id, None, *INSTANCES))
        return self.join(group.group_id, self.name(member.member_id), instance_id)

    def replacement(self) -> Step:
        """A static member that is away returns, with a new id or its own; or another one goes away."""
        found = self.who()
        statics = [each for each in found[0].members.values() if each.instance_id] if found else []
        if found is None or not statics:
            return self.join(found[0].group_id if found else "g", self.free_id(found and found[0]), "i1")
        away = [each for each in statics if each.epoch == IS_AWAY]
        if not away:
            return self.beat(found[0].group_id, self.pick(statics), IS_AWAY, None)
        member = self.pick(away)
        member_id = self.pick((self.free_id(found[0]), self.free_id(found[0]), self.name(member.member_id)))
        return self.join(found[0].group_id, member_id, member.instance_id)

    def speaks(self) -> Step:
        """A heartbeat of a member, right or a little wrong."""
        found = self.who()
        if found is None:
            return self.newcomer()
        group, member = found
        more: dict[str, object] = {}
        if self.pick((False, False, True)):
            more["subscribed_topic_names"] = self.pick(NAMES)
        if self.pick((False, False, False, True)):
            more["server_assignor"] = self.pick(ASSIGNORS)
        if self.pick((False, False, True)):
            more["rebalance_timeout_ms"] = self.pick(REBALANCES_MS)
        if self.pick((False, False, False, False, False, True)):
            more |= {"rack_id": self.pick(("r1", "r2", " ")), "client_id": "c2"}
        if self.pick((False, False, False, False, False, True)):
            more["instance_id"] = self.pick((None, *INSTANCES, ""))
        return self.beat(group.group_id, member, self.epoch(member), self.owned(member), **more)

    def lost_answer(self) -> Step:
        """A member has not heard of its newest epoch: it says its last heartbeat again."""
        found = self.who()
        if found is None:
            return self.newcomer()
        group, member = found
        owned = tuple(sorted(member.assigned))
        return self.beat(group.group_id, member, member.previous, self.pick((owned, owned[1:], (), None)))

    def onward(self) -> Step:
        """What a group needs next: the end of an append, an acknowledgment, a heartbeat, a new member."""
        phase = self.lockstep.state.phase
        if phase != "Active":
            return Loaded() if phase == "Loading" else Crash(0)
        if self.lockstep.in_flight:
            return End(0, None)
        group = self.group()
        if group is None or not group.members:
            return self.newcomer()
        members = list(group.members.values())
        revoking = [member for member in members if member.state == UNREVOKED]
        behind = [member for member in members if member.epoch != group.epoch and member.epoch != IS_AWAY]
        waiting = [member for member in members if member.state == UNRELEASED]
        if revoking:
            member = self.pick(revoking)
            return self.beat(group.group_id, member, member.epoch, tuple(sorted(member.assigned)))
        if behind or waiting:
            member = self.pick(behind or waiting)
            return self.beat(group.group_id, member, max(member.epoch, 0), None)
        return self.newcomer() if len(members) < len(MEMBERS) else self.leaves()

    def leaves(self) -> Step:
        found = self.who()
        if found is None:
            return self.newcomer()
        group, member = found
        return self.beat(group.group_id, member, self.pick((LEAVES, LEAVES, IS_AWAY)), None)

    def raw_beat(self) -> Step:
        """Any field can be anything."""
        request = model.ConsumerGroupHeartbeat(
            self.pick(GROUPS),
            self.any_member_id(),
            self.pick((0, 1, 2, 3, 5, LEAVES, IS_AWAY, -3)),
            self.usual((None, *INSTANCES, " ")),
            self.usual((None, "r1", "")),
            self.pick((-1, *REBALANCES_MS)),
            self.pick((None, *NAMES)),
            None,
            self.usual(ASSIGNORS),
            self.pick((None, (), self.partitions())),
            "c",
            "/127.0.0.1",
            self.pick((1, 0)),
        )
        return self.ask("raw", request)

    # ---- offsets and groups

    def places(self) -> tuple[tuple[str, int], ...]:
        return self.pick(((("foo", 0),), (("bar", 1),), (("foo", 0), ("bar", 0)), (("foo", 1), ("absent", 0)), ()))

    def commits(self) -> Step:
        """By a member with an epoch that fits or not, or from outside."""
        found = self.who()
        offsets = tuple((topic, index, self.pick((5, 7)), -1, None) for topic, index in self.places())
        version = self.pick(COMMIT_VERSIONS)
        if found is None or self.pick((False, False, False, True)):
            return self.ask("admin", model.OffsetCommit(self.pick(GROUPS), offsets, "", -1, version=version))
        group, member = found
        names = {topic.topic_id: topic.name for topic in self.lockstep.state.topics.values()}
        mine = tuple((names.get(at, "gone"), index, 9, -1, None) for at, index in sorted(member.held))
        epoch = self.pick((member.epoch, member.epoch, member.previous, *member.assigned.values(), self.epoch(member)))
        told = self.pick((offsets, mine[:1] or offsets, mine or offsets))
        name = self.usual((self.name(member.member_id), "nobody", ""))
        return self.ask(member.member_id[:2], model.OffsetCommit(group.group_id, told, name, epoch, version=version))

    def fetches(self) -> Step:
        found = self.who()
        places = self.pick((None, self.places()))
        stable = self.pick((False, True))
        if found is None or self.pick((False, True)):
            return self.ask("admin", model.OffsetFetch(self.pick(GROUPS), places, stable))
        group, member = found
        name = self.usual((self.name(member.member_id), "nobody", None))
        fetch = model.OffsetFetch(group.group_id, places, stable, (), name, self.epoch(member))
        return self.ask(member.member_id[:2], fetch)

    def administers(self) -> Step:
        """Descriptions and lists, deletions of groups and of offsets."""
        group_id = self.pick(GROUPS)
        kind = self.pick(("describe", "describe", "list", "classic", "delete", "delete", "offsets"))
        if kind == "describe":
            return self.ask("admin", model.ConsumerGroupDescribe(group_id))
        if kind == "list":
            states: tuple[tuple[str, ...], ...] = ((), ("stable", "Assigning"), (" RECONCILING",), ("Empty",))
            types: tuple[tuple[str, ...], ...] = ((), ("consumer",), ("Classic",))
            return self.ask("admin", model.ListGroups(self.pick(states), self.pick(types)))
        if kind == "classic":
            return self.ask("admin", model.DescribeGroup(group_id, self.pick((6, 5))))
        if kind == "delete":
            return self.ask("admin", model.DeleteGroup(group_id))
        return self.ask("admin", model.OffsetDelete(group_id, self.places()))

    def empties(self) -> Step:
        """What makes a group Empty and then ends it."""
        found = self.who()
        if found is None:
            return self.ask("admin", model.DeleteGroup("g"))
        group, member = found
        return self.beat(group.group_id, member, LEAVES, None)

    # ---- the cluster

    def metadata_changes(self) -> Step:
        """Topics are made, grow, go, and come again."""
        return ChangeTopics(self.pick(TOPICS))

    def settings_change(self) -> Step:
        return Settings("g", self.pick(((), *((each,) for each in SETTINGS))))


MAKERS: dict[Callable[[ConsumerMaker], Step], int] = {
    ConsumerMaker.onward: 12,
    ConsumerMaker.newcomer: 3,
    ConsumerMaker.rejoin: 2,
    ConsumerMaker.replacement: 3,
    ConsumerMaker.speaks: 7,
    ConsumerMaker.lost_answer: 2,
    ConsumerMaker.leaves: 1,
    ConsumerMaker.raw_beat: 2,
    ConsumerMaker.commits: 3,
    ConsumerMaker.fetches: 2,
    ConsumerMaker.administers: 2,
    ConsumerMaker.empties: 1,
    ConsumerMaker.metadata_changes: 2,
    ConsumerMaker.settings_change: 1,
    ConsumerMaker.to_deadline: 3,
    ConsumerMaker.some_time: 2,
    ConsumerMaker.end_well: 6,
    ConsumerMaker.end_badly: 2,
    ConsumerMaker.end_of_service: 1,
}
