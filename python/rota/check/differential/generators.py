"""Which step comes next. Raw steps can be anything; directed ones look at the model's state for what is interesting
now: retries, stale generations, pending ids, clashes of instance ids, superseded requests, and what moves a group on.

A step is made from choices, each one of `n`: Hypothesis draws them where it may have to shrink, a seeded generator
where volume counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from rota import model
from rota.check.differential.steps import Ask, Crash, DeleteTopics, End, HandOver, Loaded, LoadFails, Pass, Step
from rota.model import Group, Member

T = TypeVar("T")


class Choices(Protocol):
    """Where choices come from."""

    def index(self, count: int) -> int:
        """A number below `count`; 0 is the simplest."""


class Both(Protocol):
    """What a step may be chosen by: the model's state, which ids were handed out, and the appends without an end."""

    state: model.State
    now_ms: int
    minted: dict[int, str]
    in_flight: list[model.Append]


ACTORS = ("a", "b", "c", "d")
GROUPS = ("g", "g", "g", "g", "h", "h", "", None)
CONFIGS: tuple[dict[str, int], ...] = (
    {"group.initial.rebalance.delay.ms": 0},
    {},
    {"group.initial.rebalance.delay.ms": 0, "group.max.size": 2},
    {"group.initial.rebalance.delay.ms": 0, "group.max.size": 3, "offsets.commit.timeout.ms": 20_000},
    {"group.max.size": 1, "group.max.pending.members": 2},
    {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 7_000,
    },
    {"offset.metadata.max.bytes": 3, "group.initial.rebalance.delay.ms": 500},
)
SUBSCRIPTIONS = {
    "t": bytes.fromhex("0000 00000001 0001 74 ffffffff"),
    "tu": bytes.fromhex("0001 00000002 0001 74 0001 75 ffffffff 00000000"),
    "v": bytes.fromhex("0003 00000001 0001 76 ffffffff 00000000 ffffffff ffff"),
}
LISTS: tuple[Callable[[str], tuple[tuple[str, bytes], ...]], ...] = (
    lambda who: (("range", f"S{who}".encode()),),
    lambda who: (("range", f"S{who}".encode()), ("sticky", b"T")),
    lambda who: (("sticky", b"T"), ("range", f"S{who}".encode())),
    lambda _: (("range", SUBSCRIPTIONS["t"]),),
    lambda _: (("range", SUBSCRIPTIONS["tu"]), ("roundrobin", SUBSCRIPTIONS["v"])),
    lambda _: (("roundrobin", SUBSCRIPTIONS["v"]), ("cooperative-sticky", b"T"), ("range", b"S2")),
    lambda _: (("cooperative-sticky", b"T"), ("range", b"S2"), ("roundrobin", SUBSCRIPTIONS["v"])),
    lambda _: (("range", bytes.fromhex("0001 00000001 0001 74 ffffffff 00000001")),),
    lambda _: (("range", bytes.fromhex("ffff 00000001 0001 75 ffffffff")),),
    lambda _: (("range", bytes.fromhex("0000 00000000 ffffffff")),),
    lambda _: (("range", bytes.fromhex("0000 ffffffff ffffffff")),),
    lambda _: (("range", b"S1"), ("range", b"S2")),
    lambda _: (("roundrobin", b"R"),),
    lambda _: (),
)
SESSIONS_MS = (10_000, 6_000, 30_000, 1_800_000, 5_999, 1_800_001)
REBALANCES_MS = (60_000, 5_000, 1_000, 0, 12_000, -1, 2_147_483_647)
#: In a rebalance timeout of 24 days the cleaner is due every few seconds.
STOPS_WITHIN_MS = 3_600_000
JOIN_VERSIONS = (9, 3, 4, 8, 0, 5, 1, 7)
ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "KAFKA_STORAGE_ERROR",
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "NETWORK_EXCEPTION",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "INVALID_TIMESTAMP",
)
SPANS_MS = (0, 1, 999, 5_000, 9_999, 3_000, 30_000, 300_000, 2_000_000)
METADATA = (None, "", "m", "moo", "m" * 4, "\U0001f600" * 2, "x" * 4_097)


class Picker:
    """Chooses among options."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices

    def pick(self, options: Sequence[T]) -> T:
        """One of them; the first is the simplest."""
        return options[self.choices.index(len(options))]

    def usual(self, options: Sequence[T]) -> T:
        """The first of them in about half of all cases."""
        return self.pick((*(options[0] for _ in options), *options))


class Chooser(Picker, ABC):
    """Makes the steps of one run that every protocol of groups has: time, the ends of appends, crashes."""

    def __init__(self, lockstep: Both, choices: Choices) -> None:
        super().__init__(choices)
        self.lockstep = lockstep
        self.ticket = 0

    # ---- choosing

    def name(self, member_id: str) -> str:
        """The id as steps write it."""
        tickets = [ticket for ticket, minted in self.lockstep.minted.items() if minted == member_id]
        return f"@{tickets[0]}" if tickets else member_id

    def any_id(self) -> str:
        """None, one that was handed out at any time, or one that never was."""
        options = ["", *(f"@{ticket}" for ticket in list(self.lockstep.minted)[-8:]), "nobody-1"]
        return self.pick(options)

    def ask(self, actor: str, request: model.Request) -> Ask:
        self.ticket += 1
        return Ask(self.ticket, actor, request)

    @abstractmethod
    def onward(self) -> Step:
        """What the groups need next."""

    # ---- time and the log

    def to_deadline(self) -> Step:
        """To a deadline, or a little before or after it."""
        deadlines = sorted({timer.deadline_ms for timer in self.lockstep.state.timers})
        left_ms = [at_ms - self.lockstep.now_ms for at_ms in deadlines if at_ms >= self.lockstep.now_ms]
        if not left_ms:
            return Pass(self.pick(SPANS_MS), True)
        span_ms = self.pick(left_ms[:3]) + self.pick((0, -1, 1))
        stops = self.pick((True, False))
        return Pass(max(span_ms, 0), stops and span_ms <= STOPS_WITHIN_MS)

    def some_time(self) -> Step:
        return Pass(self.pick(SPANS_MS), self.pick((True, False)))

    def end_well(self) -> Step:
        return End(self.pick((0, 0, 0, -1)), None) if self.lockstep.in_flight else self.onward()

    def end_badly(self) -> Step:
        return End(self.pick((0, 0, -1)), self.pick(ERRORS)) if self.lockstep.in_flight else self.onward()

    def end_of_service(self) -> Step:
        """A crash, a handover, or a log that cannot be read."""
        if self.lockstep.state.phase == "Loading":
            return LoadFails()
        kept = self.pick((0, 1, 2))
        steps: tuple[Step, ...] = (Crash(kept), HandOver(kept))
        return self.pick(steps)


class Maker(Chooser):
    """Makes steps with the classic protocol."""

    def group(self) -> Group | None:
        """One that exists."""
        groups = [group for _, group in sorted(self.lockstep.state.groups.items())]
        return self.pick(groups) if groups else None

    def instance(self) -> str | None:
        return self.pick((None, None, "a", "b", ""))

    # ---- raw requests

    def raw_join(self) -> Step:
        actor, instance_id = self.pick(ACTORS), self.instance()
        member_id = self.usual(("", self.any_id()))
        return self._join(actor, self.pick(GROUPS), member_id, instance_id)

    def _join(self, actor: str, group_id: str | None, member_id: str, instance_id: str | None) -> Ask:
        return self.ask(
            actor,
            model.JoinGroup(
                group_id,
                member_id,
                self.usual(LISTS)(actor),
                self.usual(("consumer", "consumer", "connect", "")),
                self.usual(SESSIONS_MS),
                self.usual(REBALANCES_MS),
                actor,
                instance_id=instance_id,
                version=self.usual(JOIN_VERSIONS),
            ),
        )

    def raw_sync(self) -> Step:
        version = self.pick((5, 3, 0))
        plan = tuple((self.any_id(), f"X{number}".encode()) for number in range(self.pick((0, 1, 3))))
        named = (None, None) if version < 5 and self.pick((True, False)) else ("consumer", "range")
        kind, name = self.usual((named, ("consumer", "sticky"), ("connect", "range"), ("consumer", None)))
        return self.ask(
            self.pick(ACTORS),
            model.SyncGroup(
                self.pick(GROUPS), self.any_id(), self._generation(), plan, kind, name, self.instance(), version
            ),
        )

    def _generation(self) -> int:
        known = {group.generation for group in self.lockstep.state.groups.values()}
        return self.pick((*sorted(known), *sorted(each - 1 for each in known), *(each + 1 for each in known), -1, 0))

    def raw_heartbeat(self) -> Step:
        request = model.Heartbeat(self.pick(GROUPS), self.any_id(), self._generation(), self.instance())
        return self.ask(self.pick(ACTORS), request)

    def raw_leave(self) -> Step:
        version = self.pick((5, 2, 3, 0))
        count = 1 if version <= 2 else self.pick((1, 2, 3, 0))
        members = tuple((self.any_id(), None if version <= 2 else self.instance()) for _ in range(count))
        return self.ask(self.pick(ACTORS), model.LeaveGroup(self.pick(GROUPS), members, version))

    def raw_commit(self) -> Step:
        version = self.pick((9, 8, 5, 3))
        outside = self.pick((True, False))
        return self.ask(
            self.pick(ACTORS),
            model.OffsetCommit(
                self.pick(GROUPS),
                self._offsets(version),
                "" if outside else self.any_id(),
                -1 if outside else self._generation(),
                None if outside else self.instance(),
                self.pick((None, -1, 1_000, 0, -7, 2**63 - 1)) if version <= 4 else None,
                self.pick(((), (("t", 77),))),
                version,
            ),
        )

    def _offsets(self, version: int) -> tuple[tuple[str, int, int, int, str | None], ...]:
        def one() -> tuple[str, int, int, int, str | None]:
            epoch = self.pick((-1, 4)) if version >= 6 else -1
            return (self.pick(("t", "u")), self.pick((0, 1)), self.pick((5, 0, -3, 2**62)), epoch, self.usual(METADATA))

        return tuple(one() for _ in range(self.usual((1, 2, 3, 0))))

    def raw_fetch(self) -> Step:
        places = self.pick((None, (("t", 0),), (("t", 0), ("t", 1), ("t", 0)), (("u", 1), ("t", 9)), ()))
        ids = self.usual(((), (("t", 77),), (("t", 5),))) if places else ()
        request = model.OffsetFetch(self.pick(GROUPS), places, self.pick((False, True)), ids)
        return self.ask(self.pick(ACTORS), request)

    def raw_deletion(self) -> Step:
        group_id = self.pick(GROUPS)
        if self.pick((True, False)):
            return self.ask("admin", model.DeleteGroup(group_id))
        places = self.pick(((("t", 0),), (("t", 1), ("u", 0), ("t", 0), ("t", 0)), (("v", 0),), ()))
        return self.ask("admin", model.OffsetDelete(group_id, places))

    def raw_admin(self) -> Step:
        if self.pick((True, False)):
            return self.ask("admin", model.DescribeGroup(self.pick(GROUPS), self.pick((6, 5, 0))))
        states: tuple[tuple[str, ...], ...] = ((), ("stable",), (" PreparingRebalance ", "EMPTY"), ("nonsense",), ("",))
        types: tuple[tuple[str, ...], ...] = ((), ("Classic",), ("consumer",), (" classic ",))
        return self.ask("admin", model.ListGroups(self.pick(states), self.pick(types)))

    # ---- directed requests

    def _member(self, group: Group) -> Member | None:
        return self.pick(group.members) if group.members else None

    def newcomer(self) -> Step:
        """A member that nothing speaks against, static or not; or the use of a pending id."""
        group = self.group()
        actor = self.pick(ACTORS)
        if group and group.pending and self.pick((True, False)):
            return self._plain_join(group, self.pick(group.pending))
        instance_id = self.pick((None, None, None, actor))
        version = self.pick((9, 3))
        request = model.JoinGroup(
            group.group_id if group and group.group_id else "g",
            "",
            LISTS[self.pick((0, 0, 0, 1))](actor),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=self.pick((60_000, 5_000)),
            client_id=actor,
            instance_id=instance_id,
            version=version,
        )
        return self.ask(actor, request)

    def _plain_join(self, group: Group, member_id: str, instance_id: str | None = None) -> Ask:
        actor = member_id[0]
        member = next((member for member in group.members if member.member_id == member_id), None)
        protocols = member.protocols if member and self.pick((True, True, False)) else LISTS[self.pick((0, 1))](actor)
        request = model.JoinGroup(
            group.group_id,
            self.name(member_id),
            protocols,
            group.protocol_type or "consumer",
            member.session_timeout_ms if member else 10_000,
            member.rebalance_timeout_ms if member else 60_000,
            actor,
            instance_id=instance_id,
        )
        return self.ask(actor, request)

    def rejoin(self) -> Step:
        """A member joins again: a retry if it is parked, the start of something if it is not."""
        group = self.group()
        member = self._member(group) if group else None
        if group is None or member is None:
            return self.newcomer()
        return self._plain_join(group, member.member_id, self.pick((member.instance_id, member.instance_id, None)))

    def restart(self) -> Step:
        """A static member comes back without its id."""
        group = self.group()
        members = [member for member in group.members if member.instance_id is not None] if group else []
        if group is None or not members:
            return self.newcomer()
        member = self.pick(members)
        protocols = self.pick((member.protocols, member.protocols, LISTS[1]("z"), LISTS[2]("z")))
        request = model.JoinGroup(
            group.group_id,
            "",
            protocols,
            group.protocol_type or "consumer",
            self.pick((10_000, 30_000, 6_000)),
            self.pick((60_000, 5_000)),
            "z",
            instance_id=member.instance_id,
            version=self.pick((9, 8)),
        )
        return self.ask("z", request)

    def onward(self) -> Step:
        """What the group needs next: a rejoin, a SyncGroup with a plan, the end of an append, time."""
        group, phase = self.group(), self.lockstep.state.phase
        if phase != "Active":
            return Loaded() if phase == "Loading" else Crash(0)
        if group is None:
            return self.newcomer()
        if self.lockstep.in_flight:
            return End(0, None)
        if group.state == "PreparingRebalance":
            absent = [member for member in group.members if not member.join]
            if absent:
                member = self.pick(absent)
                return self._plain_join(group, member.member_id, member.instance_id)
            return self._plain_join(group, self.pick(group.pending)) if group.pending else self.to_deadline()
        if group.state == "CompletingRebalance":
            owing = [member for member in group.members if not member.sync] or list(group.members)
            return self._good_sync(group, self.pick(owing))
        return self.newcomer() if group.state == "Empty" else self.rejoin()

    def _good_sync(self, group: Group, member: Member) -> Step:
        plan: list[tuple[str, bytes]] = []
        if member.member_id == group.leader or self.pick((False, True)):
            plan = [(self.name(each.member_id), f"X{number}".encode()) for number, each in enumerate(group.members)]
            extra = self.pick(("", "twice", "stranger", "short"))
            if extra == "twice":
                plan += [(plan[0][0], b"again")]
            elif extra == "stranger":
                plan += [("nobody-1", b"lost")]
            elif extra == "short":
                plan = plan[1:]
        request = model.SyncGroup(
            group.group_id,
            self.name(member.member_id),
            group.generation,
            tuple(plan),
            group.protocol_type,
            group.protocol_name,
            self.pick((None, member.instance_id)),
        )
        return self.ask(member.member_id[:1] or "z", request)

    def member_speaks(self) -> Step:
        """A heartbeat, SyncGroup, leave or commit of a member, right or a little wrong."""
        group = self.group()
        member = self._member(group) if group else None
        if group is None or member is None:
            return self.newcomer()
        name, actor = self.name(member.member_id), member.member_id[:1] or "z"
        generation = group.generation + self.usual((0, -1, 1))
        instance_id = self.usual((member.instance_id, None, "b"))
        kind = self.pick(("heartbeat", "commit", "sync", "leave", "evict"))
        if kind == "heartbeat":
            return self.ask(actor, model.Heartbeat(group.group_id, name, generation, instance_id))
        if kind == "commit":
            offsets = self._offsets(9)
            return self.ask(actor, model.OffsetCommit(group.group_id, offsets, name, generation, instance_id))
        if kind == "sync":
            return self._good_sync(group, member)
        leaver = (name, instance_id) if kind == "leave" else ("", member.instance_id)
        leavers: list[tuple[str, str | None]] = [leaver]
        if len(group.pending) > 0 and self.pick((False, True)):
            leavers.append((self.name(group.pending[0]), None))
        return self.ask(actor, model.LeaveGroup(group.group_id, tuple(leavers)))

    def pending_leaves(self) -> Step:
        group = self.group()
        if group is None or not group.pending:
            return self.newcomer()
        return self.ask("a", model.LeaveGroup(group.group_id, ((self.name(self.pick(group.pending)), None),)))

    def catastrophe(self) -> Step:
        if self.lockstep.state.phase == "Loading":
            return LoadFails()
        kept = self.pick((0, 1, 2))
        steps: tuple[Step, ...] = (Crash(kept), HandOver(kept), DeleteTopics(("t",)), DeleteTopics(("u", "t")))
        return self.pick(steps)


# What a run is made of: a step's maker, as often as it should come.
MAKERS: dict[Callable[[Maker], Step], int] = {
    Maker.onward: 8,
    Maker.newcomer: 4,
    Maker.rejoin: 3,
    Maker.restart: 3,
    Maker.member_speaks: 6,
    Maker.pending_leaves: 1,
    Maker.raw_join: 2,
    Maker.raw_sync: 1,
    Maker.raw_heartbeat: 1,
    Maker.raw_leave: 1,
    Maker.raw_commit: 2,
    Maker.raw_fetch: 2,
    Maker.raw_admin: 2,
    Maker.raw_deletion: 2,
    Maker.to_deadline: 5,
    Maker.some_time: 2,
    Maker.end_well: 5,
    Maker.end_badly: 2,
    Maker.catastrophe: 1,
}
