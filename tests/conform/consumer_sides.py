"""Two sides that a random session of the newer protocol is played on: a broker, and another one or the core."""

from __future__ import annotations

import base64
import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import rota
from rota.conform.consumer import ANSWERED_WITHIN_S, ConsumerWire, Partitions
from rota.conform.evidence import EARLY, canonical
from rota.conform.said import FAULT
from rota.conform.wire import Address, WireError
from rota.transcript.cast import MINTED, StepError
from rota.transcript.core_subject import Topics
from rota.transcript.player import Player
from rota.transcript.subject import Effect, Request
from rota.transcript.text import Step
from tests.conform.consumer_kafka import TRIES, Session, buckets, set_up
from tests.conform.conversion_kafka import OWN_SETTINGS, POLICY, ConversionCore, ConversionWire

#: What sessions begin with, and the topics that may appear.
BASE = (("foo", 12), ("bar", 12))
NAMES = ("foo", "bar", "one")
#: Of the broker under test: the target is computed at once where a group's own setting does not say otherwise.
SETTINGS = OWN_SETTINGS | {"group.consumer.assignment.interval.ms": "0"}
PARKED_S = 0.15
#: What the sides show of the group after each step.
LOOK = "d look"
UUID_TEXT = re.compile(r"^[\w-]{22}$")
Order = Callable[[uuid.UUID], tuple[int, ...]]


def ascending(topic_id: uuid.UUID) -> tuple[int, ...]:
    """rota's order of topics."""
    return (topic_id.int,)


#: Kafka's.
HASHED: Order = buckets


class ChangingWire(ConversionWire):
    """One session's group on a broker, whose topics grow and go."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics, and wait until they are gone."""
        listed = [{"name": name, "topic_id": uuid.UUID(int=0)} for name in names]
        self.ask("DeleteTopics", 6, {"topics": listed, "timeout_ms": 10_000})
        self.until(list(names), lambda topic: bool(topic["error_code"]))

    def grow(self, topics: list[tuple[str, int]]) -> None:
        """Give topics more partitions, and wait until they have them."""
        listed = [{"name": name, "count": count, "assignments": None} for name, count in topics]
        self.ask("CreatePartitions", 3, {"topics": listed, "timeout_ms": 10_000, "validate_only": False})
        sizes = dict(topics)
        self.until(list(sizes), lambda topic: len(topic["partitions"]) == sizes[topic["name"]])

    def until(self, names: list[str], is_so: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the metadata of each topic is so."""
        asked = {"topics": [{"name": name} for name in names]}
        until = time.monotonic() + ANSWERED_WITHIN_S
        while not all(is_so(topic) for topic in self.ask("Metadata", 12, asked)["topics"]):
            if self.limits.left_s(until) <= 0:
                raise WireError(f"topics {', '.join(names)} did not change within {ANSWERED_WITHIN_S:g} s")


class RandomWire(ChangingWire):
    """One random session's group on a broker, whose topics come, grow and go."""

    parked_s = PARKED_S

    def __init__(self, address: Address, prefix: str) -> None:
        super().__init__(address, prefix)
        #: partitions of the topics that exist
        self.sizes: dict[str, int] = {}
        self.known: dict[uuid.UUID, str] = {}

    def topics_changed(self, topics: list[tuple[str, int]], now_ms: int) -> list[Effect]:
        """These topics exist from now on, and no others."""
        before, self.sizes = self.sizes, dict(topics)
        gone = [name for name in before if name not in self.sizes]
        grown = [(name, count) for name, count in topics if before.get(name, count) < count]
        if gone:
            self.delete(gone)
        if grown:
            self.grow(grown)
        effects = super().topics_changed(topics, now_ms)
        self.known |= {self.ids[name]: name for name, _ in topics}
        self.await_coordinator()
        return effects

    def await_coordinator(self) -> None:
        """Wait until the coordinator knows the topics that exist: what a member of a group of its own is given."""
        there = dict(self.listing().values())
        until = time.monotonic() + ANSWERED_WITHIN_S
        while self.given() != there:
            if self.limits.left_s(until) <= 0:
                raise WireError(f"the coordinator did not learn its topics within {ANSWERED_WITHIN_S:g} s")

    def given(self) -> dict[uuid.UUID, int]:
        """The partitions of a member that is alone and subscribes to every topic."""
        asked = {"group_id": f"probe-{uuid.uuid4().hex}", "member_id": "probe", "instance_id": None, "rack_id": None}
        leaves = asked | {"member_epoch": -1, "rebalance_timeout_ms": -1, "subscribed_topic_names": None}
        leaves |= {"subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": None}
        joins = leaves | {"member_epoch": 0, "rebalance_timeout_ms": 1_000, "topic_partitions": []}
        told = self.ask("ConsumerGroupHeartbeat", 1, joins | {"subscribed_topic_names": list(NAMES)})
        self.ask("ConsumerGroupHeartbeat", 1, leaves)
        return {each["topic_id"]: len(each["partitions"]) for each in told["assignment"]["topic_partitions"]}

    def by_name(self, topics: list[dict[str, Any]]) -> Partitions:
        """An id may be of a topic that was deleted, in this session or before it."""
        return sorted((self.known.get(each["topic_id"], "?"), sorted(each["partitions"])) for each in topics)

    def listing(self) -> dict[str, tuple[uuid.UUID, int]]:
        """Id and partitions of the topics that exist."""
        asked = {"topics": [{"name": name} for name in NAMES]}
        found = [topic for topic in self.ask("Metadata", 12, asked)["topics"] if not topic["error_code"]]
        return {topic["name"]: (topic["topic_id"], len(topic["partitions"])) for topic in found}


def in_order(ids: Iterable[uuid.UUID], order: Order) -> bool:
    """Whether a broker goes through these topics in this order, in tables of every size."""
    places = [order(topic_id) for topic_id in ids]
    return all(all(a < b for a, b in zip(one, two, strict=True)) for one, two in pairwise(places))


@dataclass
class Stage:
    """A broker whose topics are put back before each session."""

    address: Address
    order: Order

    def reset(self) -> None:
        """The topics of BASE, in the order in which sessions name them: assignors take them in turn."""
        subject = RandomWire(self.address, "stage-")
        try:
            for _ in range(TRIES):
                there = subject.listing()
                wrong = self.wrong(there)
                if not wrong and len(there) == len(BASE):
                    return subject.await_coordinator()
                subject.delete([name for name in there if name in wrong or name not in dict(BASE)])
                ConsumerWire.topics_changed(subject, [each for each in BASE if each[0] in wrong], 0)
        finally:
            subject.close()
        raise SystemExit(f"no order of topic ids was right in {TRIES} tries; try again")

    def wrong(self, there: dict[str, tuple[uuid.UUID, int]]) -> list[str]:
        """The topics of BASE that have to be made."""
        wrong = [name for name, count in BASE if name not in there or there[name][1] != count]
        if wrong or in_order([there[name][0] for name, _ in BASE], self.order):
            return wrong
        first = self.order(there[BASE[0][0]][0])
        return [BASE[0][0]] if len(first) > 1 and first[0] > 1 else [BASE[1][0]]


class Side(Protocol):
    """A session at one of the two."""

    player: Player

    def play(self, text: str) -> list[str]: ...

    def close(self) -> None: ...


def played(player: Player, text: str) -> list[str]:
    """The answers of one step; what a subject cannot do is an answer, too."""
    try:
        lines = player.play(Step(0, text))
    except (StepError, WireError, rota.RotaError, AssertionError) as error:
        return [f"{FAULT}{type(error).__name__}: {error}"]
    return [line for line in lines if "< " in line]


@dataclass
class AtBroker:
    """A session at a broker."""

    stage: Stage
    settings: tuple[str, ...]
    subject: RandomWire = field(init=False)
    player: Player = field(init=False)

    def __post_init__(self) -> None:
        self.stage.reset()
        prefix = f"{uuid.uuid4().hex[:12]}-"
        if self.settings:
            set_up(self.stage.address, {prefix: Session("settings", self.settings)})
        self.subject = RandomWire(self.stage.address, prefix)
        self.player = Player(self.subject, loading=False)
        self.player.cast.any_ids = True

    def play(self, text: str) -> list[str]:
        return played(self.player, text)

    def close(self) -> None:
        self.subject.close()


class PlacedTopics(Topics):
    """Topics whose ids are in the other side's order."""

    def __init__(self, place: Callable[[str], int]) -> None:
        super().__init__()
        self.place = place
        self.latest: dict[str, int] = {}

    def changed(self, topics: list[tuple[str, int]]) -> tuple[list[str], list[tuple[str, int, int]]]:
        before, self.now = self.now, {}
        for name, count in topics:
            if name not in before:
                self.latest[name] = self.place(name)
                self.names[self.latest[name]] = name
            self.now[name] = (self.latest[name], count)
        gone = [name for name in before if name not in self.now]
        return gone, [(name, *at) for name, at in self.now.items() if before.get(name) != at]

    def id_of(self, name: str) -> int:
        return self.latest.get(name, 0)


def bits(member_id: str) -> int | None:
    """The random bits of an id that a broker made up, of either form; None if it is no such id."""
    if minted := MINTED.search(member_id):
        return uuid.UUID(minted[0][1:]).int
    return int.from_bytes(base64.urlsafe_b64decode(f"{member_id}==")) if UUID_TEXT.match(member_id) else None


class RandomCore(ConversionCore):
    """The core, which looks at its patterns when the clock moves."""

    #: of the next member id, instead of the player's: assignors go by ids
    entropy: int | None = None

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        return super().submit(now_ms, ticket, request, entropy if self.entropy is None else self.entropy)

    def resolve_patterns(self, _group_id: str, _now_ms: int) -> list[Effect]:
        return []


@dataclass
class AtCore:
    """A session at the core, whose clock follows that of the session at a broker."""

    policy: str
    broker: AtBroker
    more: dict[str, str] = field(default_factory=dict)
    player: Player = field(init=False)
    subject: RandomCore = field(init=False)
    #: ids that the broker has made up in earlier steps
    seen: set[str] = field(default_factory=set)
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        own = {name: value for name, value in (SETTINGS | self.more).items() if name.startswith("group.")}
        self.subject = RandomCore(own | {POLICY: self.policy})
        self.subject.topics = PlacedTopics(self.place)
        self.player = Player(self.subject, loading=False, at_once=True)
        self.player.cast.any_ids = True

    def place(self, name: str) -> int:
        """An id where the broker has this topic in its order."""
        theirs = self.broker.subject
        return self.broker.stage.order(theirs.ids[name])[-1] * 1_000 + len(theirs.known)

    def play(self, text: str) -> list[str]:
        ids = self.broker.player.cast.actor(text.split()[0]).ids
        self.subject.entropy = bits(ids[-1]) if ids and ids[-1] not in self.seen else None
        self.seen.update(ids)
        lines = played(self.player, text)
        behind_ms = int((time.monotonic() - self.began_s) * 1_000) - self.player.now_ms
        return lines + (played(self.player, f"+{behind_ms}ms") if behind_ms > 0 else [])

    def close(self) -> None:
        """Nothing is kept."""


def shown(text: str, lines: Iterable[str]) -> list[str]:
    """Answers without the moment they came at, in an order of their own; a description as it is."""
    bare = [EARLY.sub("", line) for line in lines]
    return sorted(line if text == LOOK else canonical(line) for line in bare)
