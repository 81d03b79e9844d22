"""Which step comes next where both protocols meet: classic members in groups of both kinds, joins that convert a group,
and removals that convert it back. The steps of consumer members are those of `ConsumerMaker`.
"""

from __future__ import annotations

from collections.abc import Callable

from rota import model
from rota.check.differential.consumer_generators import OPENING, SWITCH, ConsumerMaker
from rota.check.differential.steps import ChangeTopics, Pass, Step
from rota.model.consumer import data as newer
from rota.model.consumer.data import Partition
from rota.model.consumer.write import JOIN, SYNC
from rota.model.state import Group, Member

__all__ = ["CONFIGS", "MAKERS", "OPENING", "ConversionMaker"]

BASE: dict[str, int | str] = SWITCH | {
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}
POLICY = "group.consumer.migration.policy"
MORE: tuple[dict[str, int | str], ...] = (
    {POLICY: "bidirectional"},
    {POLICY: "bidirectional", "group.consumer.max.size": 2, "group.max.size": 3},
    {POLICY: "bidirectional", "group.max.size": 1, "offsets.commit.timeout.ms": 60_000},
    {POLICY: "bidirectional", "group.consumer.assignment.interval.ms": 1_000},
    {POLICY: "upgrade"},
    {POLICY: "downgrade"},
    {POLICY: "disabled"},
    {
        POLICY: "bidirectional",
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 7_000,
    },
)
CONFIGS: tuple[dict[str, int | str], ...] = tuple(BASE | more for more in MORE)
TOPICS: tuple[tuple[tuple[str, int], ...], ...] = (
    (("foo", 3), ("bar", 2), ("one", 1)),
    (("foo", 4), ("bar", 2)),
    (("bar", 2),),
)
CLIENTS = ("a", "b", "d")
INSTANCES = ("i1", "i2")
SESSIONS_MS = (10_000, 10_000, 6_000, 30_000)
REBALANCES_MS = (60_000, 5_000, 20_000, 0, -1, 2_147_483_647)


def subscription(topics: tuple[str, ...], owned: tuple[tuple[str, int], ...] | None, rack: str | None = None) -> bytes:
    """A subscription of the embedded protocol: version 0 without owned partitions, 1 with them, 3 with a rack."""
    version = 0 if owned is None else 3 if rack else 1
    octets = version.to_bytes(2) + len(topics).to_bytes(4) + b"".join(map(_text, topics)) + b"\xff\xff\xff\xff"
    if owned is not None:
        octets += _partitions(owned)
    if rack:
        octets += b"\xff\xff\xff\xff" + _text(rack)
    return octets


def assignment(owned: tuple[tuple[str, int], ...]) -> bytes:
    """What a leader gives a member."""
    return (1).to_bytes(2) + _partitions(owned) + b"\xff\xff\xff\xff"


def _text(text: str) -> bytes:
    return len(text.encode()).to_bytes(2) + text.encode()


def _partitions(owned: tuple[tuple[str, int], ...]) -> bytes:
    topics = sorted({name for name, _ in owned})
    octets = len(topics).to_bytes(4)
    for topic in topics:
        mine = [index for name, index in owned if name == topic]
        octets += _text(topic) + len(mine).to_bytes(4) + b"".join(index.to_bytes(4) for index in mine)
    return octets


PLAIN = subscription(("foo",), ())
MALFORMED = (
    b"",
    b"Sx",
    PLAIN[:-2],
    b"\xff\xff\x00\x00",
    b"\x00\x07" + subscription(("foo",), ())[2:],
)
TOPIC_LISTS = (("foo",), ("foo",), ("bar", "foo"), ("bar",), (), ("absent", "foo"), ("foo", "foo"))


class ConversionMaker(ConsumerMaker):
    """Makes steps with both protocols."""

    # ---- choosing

    def old_group(self) -> Group | None:
        """A classic group with a type or members."""
        state = self.lockstep.state
        groups = [each for name, each in sorted(state.groups.items()) if name not in state.consumers]
        return self.pick(groups) if groups else None

    def classic_member(self) -> tuple[newer.Group, newer.Member] | None:
        """A classic member of a consumer group."""
        found = [
            (group, member)
            for _, group in sorted(self.lockstep.state.consumers.items())
            for member in group.members.values()
            if member.classic
        ]
        return self.pick(found) if found else None

    def named(self, held: tuple[Partition, ...]) -> tuple[tuple[str, int], ...]:
        """Partitions by the names that their topics have."""
        names = {topic.topic_id: topic.name for topic in self.lockstep.state.topics.values()}
        return tuple((names[topic_id], index) for topic_id, index in held if topic_id in names)

    def offers(self, owned: tuple[tuple[str, int], ...] | None = ()) -> tuple[tuple[str, bytes], ...]:
        """What a classic member offers: usually `range`, with a subscription that can be read."""
        metadata = subscription(self.pick(TOPIC_LISTS), owned, self.usual((None, "r1")))
        kind = self.usual(("range", "range", "two", "other", "malformed", "twice", "none"))
        if kind == "two":
            return (("roundrobin", subscription(("bar",), ())), ("range", metadata))
        if kind == "other":
            return (("sticky", metadata),)
        if kind == "malformed":
            return (("range", self.pick(MALFORMED)),)
        if kind == "twice":
            return (("range", metadata), ("range", b"again"))
        return () if kind == "none" else (("range", metadata),)

    def old_join(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        protocols: tuple[tuple[str, bytes], ...],
        version: int | None = None,
    ) -> Step:
        request = model.JoinGroup(
            group_id,
            member_id,
            protocols,
            self.usual(("consumer", "consumer", "consumer", "connect")),
            self.pick(SESSIONS_MS),
            self.usual(REBALANCES_MS),
            self.pick(CLIENTS),
            instance_id=instance_id,
            version=version or self.usual((9, 3, 5, 0)),
        )
        return self.ask(member_id[:2] or "n", request)

    # ---- classic members

    def old_newcomer(self) -> Step:
        """A classic newcomer, without an id, with one that was given or one that never was; static or not."""
        groups = {*self.lockstep.state.groups, *self.lockstep.state.consumers} or {"g"}
        group_id = self.pick(("g", "g", sorted(groups)[0], "h"))
        classic = self.lockstep.state.groups.get(group_id)
        pending = [self.name(each) for each in classic.pending] if classic else []
        known = [f"@{ticket}" for ticket in list(self.lockstep.minted)[-4:]]
        member_id = self.pick(("", *(pending or ("",)), *(known or ("",)), "q"))
        instance_id = None if member_id else self.pick((None, None, *INSTANCES))
        return self.old_join(group_id, member_id, instance_id, self.offers())

    def old_rejoin(self) -> Step:
        """A classic member of a consumer group joins again, and reports what it owns, or something else."""
        found = self.classic_member()
        if found is None:
            return self.old_onward()
        group, member = found
        assert member.classic is not None
        assigned, revoking = tuple(sorted(member.assigned)), tuple(sorted(member.revoking))
        owned = self.pick((assigned, assigned, (*assigned, *revoking), (), None, assigned[1:], (*assigned, (1, 0))))
        topics = self.usual((tuple(sorted(member.names)), *TOPIC_LISTS))
        metadata = subscription(topics, None if owned is None else self.named(owned))
        protocols = ((member.classic.protocols[0][0], metadata),)
        member_id = self.usual((self.name(member.member_id), ""))
        instance_id = self.usual((member.instance_id, None, *INSTANCES))
        return self.old_join(group.group_id, member_id, instance_id, self.usual((protocols, self.offers())))

    def old_speaks(self) -> Step:
        """SyncGroup or Heartbeat of a classic member of a consumer group, right or a little wrong."""
        found = self.classic_member()
        if found is None:
            return self.old_onward()
        group, member = found
        assert member.classic is not None
        name = self.usual((self.name(member.member_id), "nobody", self.free_id(group)))
        generation = member.epoch + self.usual((0, -1, 1))
        instance_id = self.usual((member.instance_id, None, *INSTANCES))
        if self.pick((True, False)):
            return self.ask("h", model.Heartbeat(group.group_id, name, generation, instance_id))
        kind, protocol = self.usual(
            (("consumer", member.classic.protocols[0][0]), ("connect", "range"), ("consumer", "sticky"), (None, None))
        )
        version = 3 if kind is None else 5
        request = model.SyncGroup(group.group_id, name, generation, (), kind, protocol, instance_id, version)
        return self.ask("s", request)

    def old_leaves(self) -> Step:
        """LeaveGroup of members of either protocol, one or several, by id or instance id."""
        found = self.who()
        if found is None:
            return self.old_newcomer()
        group, _ = found
        members = list(group.members.values())
        leavers: list[tuple[str, str | None]] = []
        for _ in range(self.pick((1, 1, 2, 3))):
            member = self.pick(members)
            one = (self.name(member.member_id), self.usual((None, member.instance_id, "i1")))
            leavers.append(self.usual((one, ("", member.instance_id), ("nobody", None))))
        return self.ask("l", model.LeaveGroup(group.group_id, tuple(leavers), self.usual((5, 2))))

    def changes_over(self) -> Step:
        """A member goes on under the other protocol: with its own id, or as a new one with its instance id."""
        found = self.who()
        if found is None:
            return self.upgrade()
        group, member = found
        name = self.name(member.member_id)
        if member.classic:
            ids = (name, self.free_id(group)) if member.instance_id else (name,)
            if self.pick((True, False)):
                return self.join(group.group_id, self.pick(ids), member.instance_id)
            return self.beat(group.group_id, member, member.epoch, self.owned(member))
        member_id = "" if member.instance_id else name
        owned = self.named(tuple(sorted(member.assigned)))
        metadata = subscription(tuple(sorted(member.names)), owned)
        protocols = self.usual(((("range", metadata),), self.offers(owned)))
        return self.old_join(group.group_id, member_id, member.instance_id, protocols)

    # ---- classic groups

    def upgrade(self) -> Step:
        """A consumer member joins a classic group, with an instance id of it or without."""
        group = self.old_group()
        if group is None:
            return self.old_newcomer()
        instances = [each.instance_id for each in group.members if each.instance_id]
        names = [self.name(each.member_id) for each in group.members]
        member_id = self.pick((*("m1", "m2", "m3"), *names))
        return self.join(group.group_id, member_id, self.pick((None, None, *instances, "i2")))

    def old_onward(self) -> Step:
        """What a classic group needs next: a rejoin, a SyncGroup with a plan, time."""
        group = self.old_group()
        if group is None or not (group.members or group.pending):
            return self.old_newcomer()
        if group.state == "PreparingRebalance":
            absent = [member for member in group.members if not member.join]
            if absent:
                member = self.pick(absent)
                protocols = self.usual((member.protocols, self.offers()))
                return self.old_join(group.group_id, self.name(member.member_id), member.instance_id, protocols, 9)
            if group.pending:
                return self.old_join(group.group_id, self.name(self.pick(group.pending)), None, self.offers(), 9)
            return self.to_deadline()
        if group.state == "CompletingRebalance":
            owing = [member for member in group.members if not member.sync] or list(group.members)
            return self.plan(group, self.pick(owing))
        return self.upgrade()

    def plan(self, group: Group, member: Member) -> Step:
        """A SyncGroup; the leader's has every partition of a topic, dealt out, or nonsense."""
        plan: list[tuple[str, bytes]] = []
        if member.member_id == group.leader:
            topics = self.lockstep.state.topics.values()
            places = [(topic.name, index) for topic in topics for index in range(topic.partitions)]
            count = len(group.members)
            for at, each in enumerate(group.members):
                mine = tuple(places[at::count])
                given = self.usual((assignment(mine), assignment(()), b"", b"Xa", assignment((("absent", 0), *mine))))
                twice = assignment(tuple(places[:2]))
                plan.append((self.name(each.member_id), self.usual((given, given, twice))))
        request = model.SyncGroup(
            group.group_id,
            self.name(member.member_id),
            group.generation,
            tuple(plan),
            group.protocol_type,
            group.protocol_name,
            member.instance_id,
        )
        return self.ask("p", request)

    def old_member_speaks(self) -> Step:
        """A heartbeat, leave, commit or SyncGroup of a member of a classic group."""
        group = self.old_group()
        if group is None or not group.members:
            return self.old_newcomer()
        member = self.pick(group.members)
        name, generation = self.name(member.member_id), group.generation + self.usual((0, -1, 1))
        kind = self.pick(("heartbeat", "leave", "commit", "sync", "restart"))
        if kind == "heartbeat":
            return self.ask("h", model.Heartbeat(group.group_id, name, generation, member.instance_id))
        if kind == "leave":
            return self.ask("l", model.LeaveGroup(group.group_id, ((name, None),)))
        if kind == "commit":
            offsets = (("foo", 0, 7, -1, None),)
            return self.ask("c", model.OffsetCommit(group.group_id, offsets, name, generation))
        if kind == "restart" and member.instance_id:
            return self.old_join(group.group_id, "", member.instance_id, self.usual((member.protocols, self.offers())))
        return self.plan(group, member)

    def not_in_time(self) -> Step:
        """A classic member does not do what it owes, but is heard."""
        state = self.lockstep.state
        left_ms = [timer.deadline_ms - self.lockstep.now_ms for timer in state.timers if timer.kind in (JOIN, SYNC)]
        owed_ms = [span_ms for span_ms in left_ms if 0 <= span_ms <= max(REBALANCES_MS[:3])]
        return Pass(self.pick(owed_ms), self.pick((True, False))) if owed_ms else self.old_speaks()

    def loses_topics(self) -> Step:
        """The cluster has other topics."""
        return ChangeTopics(self.pick(TOPICS))


MAKERS: dict[Callable[[ConversionMaker], Step], int] = {
    ConversionMaker.old_newcomer: 5,
    ConversionMaker.old_onward: 10,
    ConversionMaker.upgrade: 5,
    ConversionMaker.old_rejoin: 5,
    ConversionMaker.old_speaks: 5,
    ConversionMaker.old_leaves: 2,
    ConversionMaker.not_in_time: 2,
    ConversionMaker.old_member_speaks: 3,
    ConversionMaker.changes_over: 4,
    ConversionMaker.onward: 6,
    ConversionMaker.newcomer: 2,
    ConversionMaker.rejoin: 1,
    ConversionMaker.replacement: 2,
    ConversionMaker.speaks: 3,
    ConversionMaker.lost_answer: 1,
    ConversionMaker.leaves: 3,
    ConversionMaker.commits: 2,
    ConversionMaker.fetches: 1,
    ConversionMaker.administers: 2,
    ConversionMaker.loses_topics: 1,
    ConversionMaker.settings_change: 1,
    ConversionMaker.to_deadline: 4,
    ConversionMaker.some_time: 1,
    ConversionMaker.end_well: 8,
    ConversionMaker.end_badly: 2,
    ConversionMaker.end_of_service: 1,
}
