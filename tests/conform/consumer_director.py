"""Makes up sessions of the newer protocol, step by step, from what a broker answered so far."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

NEWER = ("m1", "m2", "m3", "m4")
CLASSIC = ("a", "b")
STEPS = (8, 26)
BEATEN = re.compile(r"^(m\d)'*< NONE epoch=(-?\d+)(?: interval=\S+)?(?: assignment=(\S+))?$")
LOST = re.compile(r"^(m\d)'*< (?:FENCED_MEMBER_EPOCH|UNKNOWN_MEMBER_ID|GROUP_ID_NOT_FOUND)")
JOINED = re.compile(r"^([ab])'*< NONE generation=(\d+) protocol=\S+ leader=(\S+) ")
SYNCED = re.compile(r"^([ab])'*< NONE protocol=\S+ assignment=\[(\S+)\]")
#: None matches the internal topic of offsets, which the core alone does not have.
PATTERNS = ("fo+", "ba[rz]", "o.e", ".*[eor]", "(foo)(bar)?", "f|b.*", "(", "[^os]+", "")


@dataclass
class Member:
    """What the last answers said to a member of the newer protocol."""

    epoch: int = 0
    previous: int = 0
    has: str = "none"
    is_in: bool = False


@dataclass
class Classic:
    """What the last answers said to a classic member."""

    has: str = "none"
    is_in: bool = False
    instance: str = ""


@dataclass
class Plan:
    """What a session is about; each is drawn once."""

    rng: random.Random
    converts: bool = False
    static: bool = False
    patterns: bool = False
    topics: bool = False
    timers: bool = False
    interval: bool = False
    subscriptions: tuple[str, ...] = ("foo",)
    assignors: tuple[str, ...] = ("",)

    @classmethod
    def drawn(cls, rng: random.Random) -> Plan:
        """Any."""
        chance = rng.random
        plan = cls(rng, chance() < 0.45, chance() < 0.3)
        plan.patterns = not plan.converts and chance() < 0.2
        plan.topics, plan.timers, plan.interval = chance() < 0.15, chance() < 0.1, chance() < 0.12
        one = (("foo",), ("foo", "none"), ("foo,bar",), ("foo", "foo,bar"), ("foo", "bar", "foo,bar", "none", "zoo"))
        plan.subscriptions = rng.choices(one, (40, 10, 15, 15, 20))[0]
        is_even = len(plan.subscriptions) == 1
        plan.assignors = rng.choices(
            (("",), (" assignor=range",), (" assignor=uniform", "", " assignor=range")),
            (40, 45, 15) if is_even and not plan.converts else (8, 87, 5),
        )[0]
        return plan


@dataclass
class Director:
    """One session in the making. `next` gives a step, `heard` takes the answers."""

    plan: Plan
    left: int = 0
    members: dict[str, Member] = field(default_factory=lambda: {name: Member() for name in NEWER})
    classic: dict[str, Classic] = field(default_factory=lambda: {name: Classic() for name in CLASSIC})
    queue: list[str] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=lambda: {"foo": 12, "bar": 12})

    def __post_init__(self) -> None:
        self.left = self.rng.randint(*STEPS)
        self.queue = [self.topics_step(), *self.settings(), *self.declared()]
        if self.plan.converts and self.rng.random() < 0.6:
            self.queue += self.classic_beginning()
        elif self.rng.random() < 0.7:
            joins = [self.join(name) for name in NEWER[: self.rng.randint(1, 3)]]
            self.queue += joins

    @property
    def rng(self) -> random.Random:
        return self.plan.rng

    def topics_step(self) -> str:
        return "topics " + " ".join(f"{name}:{count}" for name, count in self.topics.items())

    def settings(self) -> list[str]:
        """The group's own settings."""
        words = ["consumer.session.timeout.ms=1500 consumer.heartbeat.interval.ms=500"] if self.plan.timers else []
        words += ["consumer.assignment.interval.ms=1000"] if self.plan.interval else []
        return [f"settings {' '.join(words)}"] if words else []

    def declared(self) -> list[str]:
        """What classic members offer."""
        if not self.plan.converts:
            return []
        return [f"member {name} range:[{self.classic_names()}|none] session=6s rebalance=8s" for name in CLASSIC]

    def classic_names(self) -> str:
        names = self.rng.choice(self.plan.subscriptions)
        return "foo" if names in ("none", "zoo") else names.replace(",", "+")

    def classic_beginning(self) -> list[str]:
        """A stable classic group of one or two, or one on its way."""
        if self.plan.static and self.rng.random() < 0.5:
            self.classic["a"].instance = " instance=ia"
        word = self.classic["a"].instance
        one = [f"a JoinGroup{word}"] if word else ["a JoinGroup", "a JoinGroup"]
        one.append(f"a SyncGroup{word} plan=a:[foo:0-11]")
        two = ["b JoinGroup", "b JoinGroup", f"a' Heartbeat{word}", f"a JoinGroup{word}"]
        two += [f"a SyncGroup{word} plan=a:[foo:0-5],b:[foo:6-11]", "b SyncGroup"]
        return self.rng.choice((one, one, one + two, one + two, one + two[: self.rng.randint(1, 5)]))

    def next(self) -> str | None:
        """A step; None at the end."""
        if self.queue:
            return self.queue.pop(0)
        if self.left <= 0:
            return None
        self.left -= 1
        return self.deed()

    def deed(self) -> str:
        """Any step that the session is about."""
        rng, plan = self.rng, self.plan
        chance = rng.random()
        if plan.topics and chance < 0.12:
            return self.change_topics()
        if plan.timers and chance < 0.25:
            return rng.choice(("+600ms", "+600ms", "+1000ms", "+1800ms"))
        if plan.interval and chance < 0.15:
            return "+1200ms"
        if plan.converts and rng.random() < 0.5:
            return self.classic_deed()
        if rng.random() < 0.14:
            return self.aside()
        return self.newer_deed(rng.choice(NEWER[: 2 if plan.converts and rng.random() < 0.8 else 4]))

    def newer_deed(self, name: str) -> str:
        """What a member of the newer protocol does."""
        rng, member = self.rng, self.members[name]
        if not member.is_in:
            return self.join(name) if rng.random() < 0.9 else self.odd(name)
        choice = rng.choices(("beat", "change", "full", "leave", "rejoin", "odd", "offsets"), (56, 9, 7, 8, 4, 8, 8))[0]
        if choice == "beat":
            return f"{name} beat{self.epoch(member)}{self.owns(member)}{self.instance(name)}"
        if choice == "full":
            names = rng.choice(self.plan.subscriptions)
            words = f"names={names} rebalance={self.rebalance()} owns={member.has}"
            return f"{name} beat{self.epoch(member)} {words}{self.instance(name)}"
        if choice == "change":
            return f"{name} beat {self.changed()}{rng.choice(('', self.owns(member)))}{self.instance(name)}"
        if choice == "leave":
            epoch = rng.choice((-1, -2)) if self.instance(name) else rng.choice((-1, -1, -1, -2))
            return f"{name} beat epoch={epoch}{self.instance(name)}"
        if choice == "rejoin":
            return self.join(name)
        return self.odd(name) if choice == "odd" else self.offsets(name, member)

    def join(self, name: str) -> str:
        """A join with everything that it may say."""
        rng, plan = self.rng, self.plan
        names = rng.choice(plan.subscriptions)
        pattern = ""
        if plan.patterns and rng.random() < 0.6:
            pattern = f" pattern={rng.choice(PATTERNS) or chr(34) * 2}"
            names = rng.choice((names, "null", "null"))
        words = rng.choice(plan.assignors) + pattern + self.instance(name, joins=True)
        words += f" rebalance={self.rebalance()}" if plan.timers else ""
        words += rng.choices(
            ("", " rack=r1", " v=0" if not pattern else "", " owns=null", " owns=foo:0"), (86, 5, 5, 2, 2)
        )[0]
        return f"{name} beat join {names}{words}"

    def instance(self, name: str, *, joins: bool = False) -> str:
        """Its instance id in sessions with static members; sometimes another's."""
        if not self.plan.static or name == "m4":
            return ""
        if joins and self.rng.random() < 0.15:
            return f" instance=i{self.rng.randint(1, 3)}"
        owner = {"m1": "i1", "m2": "i2", "m3": "i1"}[name]
        return f" instance={owner}"

    def rebalance(self) -> str:
        return self.rng.choice(("1s", "60s")) if self.plan.timers else self.rng.choice(("60s", "60s", "45s"))

    def epoch(self, member: Member) -> str:
        """Mostly the current one, which goes without saying."""
        kinds = ("", f" epoch={member.previous}", f" epoch={member.epoch + 1}", f" epoch={max(1, member.previous - 1)}")
        return self.rng.choices(kinds, (84, 9, 3, 4))[0]

    def owns(self, member: Member) -> str:
        """A report of partitions, or none."""
        kinds = ("", f" owns={member.has}", " owns=none", " owns=foo:0", " owns=foo:0-11", " owns=bar:3")
        return self.rng.choices(kinds, (40, 42, 6, 4, 4, 4))[0]

    def changed(self) -> str:
        """A change of what the member wants."""
        names = f"names={self.rng.choice((*self.plan.subscriptions, 'foo,bar'))}"
        kinds = [
            names,
            names,
            names,
            "rack=r2",
            "rebalance=30s",
            *(word.strip() for word in self.plan.assignors if word),
        ]
        if self.plan.patterns:
            kinds += [f"pattern={self.rng.choice(PATTERNS) or chr(34) * 2}"] * 4
        return self.rng.choice(kinds)

    def odd(self, name: str) -> str:
        """Requests that are refused, or should be."""
        return self.rng.choice((
            "x beat epoch=1", "x beat epoch=-1", "x beat epoch=-2 instance=i1", f"{name} beat epoch=-3",
            "x beat join null",
            f"{name} beat epoch=2 owns=none", f"{name} beat epoch=9 owns=none", f"{name} beat epoch=-1 instance=i9",
            f"{name} beat epoch=-2", f"{name} beat epoch=1 assignor=nope", f"{name} beat epoch=3 instance=i2",
            'x beat epoch=1 id=""', f"{name} beat epoch=0 names=foo rebalance=60s", "x beat join foo group=\"\"",
        ))  # fmt: skip

    def offsets(self, name: str, member: Member) -> str:
        """A commit or a fetch with an epoch."""
        epoch = self.rng.choice((member.epoch, member.epoch, member.previous, member.epoch + 1, 0, -1))
        places = self.rng.choice(self.places())
        if self.rng.random() < 0.4:
            return f"{name} OffsetFetch id={name} epoch={epoch} {places}"
        commits = " ".join(f"{place}={self.rng.randint(1, 9)}" for place in places.split())
        word = self.rng.choices(("", " v=8", self.instance(name)), (80, 8, 12))[0]
        return f"{name} OffsetCommit id={name} generation={epoch} {commits}{word}"

    def places(self) -> tuple[str, ...]:
        """Partitions of topics that exist: a front end refuses others."""
        foo = ("foo/0", "foo/1", "foo/11", "foo/0 foo/6") if "foo" in self.topics else ()
        return foo + (("bar/0",) if "bar" in self.topics else ()) or ("one/0",)

    def aside(self) -> str:
        """Requests that come from outside the group."""
        places = self.rng.choice(self.places())
        commit = f"{places.split()[0]}=3"
        return self.rng.choice((
            "l ListGroups", "l ListGroups", "l ListGroups types=consumer", "l ListGroups types=Classic",
            "l ListGroups states=stable", "l ListGroups states=RECONCILING,empty", "l DeleteGroup",
            "l DescribeGroup v=5", "l DescribeGroup v=6", f"l OffsetDelete {places}", f"l OffsetDelete {places}",
            "o OffsetFetch foo/0 foo/1 bar/0",
            f'o OffsetCommit id="" generation=-1 {commit}', f"o OffsetCommit id=m1 generation=-1 {commit}",
            "l LeaveGroup members=m1", "l LeaveGroup members=x", 'l LeaveGroup members=""/i1',
            "l LeaveGroup members=m2/i1,m3",
        ))  # fmt: skip

    def change_topics(self) -> str:
        """One topic appears, grows, goes or comes again."""
        name = self.rng.choice(("foo", "bar", "one", "one"))
        if name not in self.topics:
            self.topics[name] = 12
        elif self.rng.random() < 0.5 and self.topics[name] == 12:
            self.topics[name] = 24
        else:
            del self.topics[name]
        if not self.topics:
            self.topics["foo"] = 12
        return self.topics_step()

    def classic_deed(self) -> str:
        """What a classic member does."""
        rng = self.rng
        name = rng.choice(CLASSIC)
        member = self.classic[name]
        word = member.instance or (f" instance=i{name}" if self.plan.static and rng.random() < 0.2 else "")
        if not member.is_in:
            return f"{name} JoinGroup{word}"
        kinds = (
            f"{name} Heartbeat{word}",
            f"{name} JoinGroup{word}",
            f"{name} JoinGroup{word} protocols=range:[{self.classic_names()}|{member.has}]",
            f"{name} SyncGroup{word}",
            f"{name} SyncGroup{word} plan=a:[foo:0-5],b:[foo:6-11]",
            f"{name} LeaveGroup",
            f"{name} LeaveGroup members=/{word.rpartition('=')[2]}" if word else f"{name} Heartbeat generation=1",
            f"{name} OffsetCommit{word} {self.places()[0].split()[0]}=5",
            f"{name} OffsetFetch foo/0",
            f"{name}' Heartbeat{word} generation=9",
            f"{name} JoinGroup protocols=other:[foo|none]",
            f"{name} JoinGroup id=q{word}",
            f"m1 beat join foo id=m1 assignor=range instance=i{name}",
            "l DescribeGroup v=5",
        )
        return rng.choices(kinds, (26, 12, 14, 22, 3, 4, 3, 3, 2, 2, 1, 1, 2, 5))[0]

    def heard(self, lines: list[str]) -> None:
        """Learn from the answers."""
        for line in lines:
            if told := BEATEN.match(line):
                member, epoch = self.members.get(told[1]), int(told[2])
                if member is None:
                    continue
                member.is_in = epoch >= 0
                member.previous, member.epoch = (member.epoch, epoch) if epoch >= 0 else (0, 0)
                member.has = "none" if epoch < 0 else told[3] or member.has
            elif told := LOST.match(line):
                self.members.get(told[1], Member()).is_in = False
            elif told := JOINED.match(line):
                self.classic[told[1]].is_in = True
                self.queue.insert(0, self.follow(told[1], told[3]))
            elif told := SYNCED.match(line):
                self.classic[told[1]].has = told[2]
            elif line.startswith(("a< UNKNOWN_MEMBER_ID", "b< UNKNOWN_MEMBER_ID")):
                self.classic[line[0]].is_in = False

    def follow(self, name: str, leader: str) -> str:
        """Mostly the SyncGroup that belongs to a JoinGroup; a leader has a plan."""
        word = self.classic[name].instance
        both = self.classic["a"].is_in and self.classic["b"].is_in
        plan = " plan=a:[foo:0-5],b:[foo:6-11]" if both else f" plan={name}:[foo:0-11]"
        return f"{name} SyncGroup{word}{plan if leader.strip('$').startswith(name) else ''}"
