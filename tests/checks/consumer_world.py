"""A small cluster around the model of the newer protocol: clients, a log that is slow or refuses, crashes; and what has
to hold after every event (docs/consumer-protocol.md; the names C1 to C13 are those of the properties below).

- C1: a partition is held (assigned or pending revocation) by at most one member.
- C2: no two clients use one partition. A client uses it from the answer that grants it until its own request without
  it, its leave, or its removal.
- C3: T <= G, and e <= T for live members; G and T never fall during a group's life.
- C4: a member's epoch falls only to 0 of a static newcomer, -1 or -2.
- C5: what is granted was free, and nothing is granted to a member that still has something to give up.
- C6: a member gives up what is pending revocation only by a report without it, or by going away.
- C7: a new target is disjoint, and covers every partition of the topics that its members are subscribed to.
- C8: an answer has an assignment iff the request was full or the assigned set changed.
- C9: no answer before the records of its own request and of earlier ones of the group are durable.
- C10: instance ids and static members are one to one.
- C11: a commit by an older epoch is stored only if no partition has a newer assignment epoch.
- C12: a refused request changes nothing.
- C13: loading the durable records, compacted or not, gives the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from rota import model
from rota.model.consumer.data import UNREVOKED, Group, subscribed
from rota.model.consumer.records import ConsumerRecord, key_of

GROUP = "g"
TOPICS = {"foo": 3, "bar": 2, "one": 1}
REBALANCE_MS = 20_000
#: What a refused or slow append is answered with: the request itself was accepted.
OF_THE_LOG = ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
Partition = tuple[int, int]


@dataclass
class Client:
    """What a client believes: its epoch, what it uses, whether it has to report that, its subscription."""

    name: str
    instance_id: str | None = None
    epoch: int = 0
    uses: frozenset[Partition] = frozenset()
    reports: bool = True
    names: tuple[str, ...] = ("foo",)


@dataclass
class Asked:
    """A request without an answer, and what there was before it."""

    request: Any
    before: Group | None
    after: Group | None = None
    appends: set[int] = field(default_factory=set)
    is_lost: bool = False


class World:
    """One group, and everybody around it. Every verb is one event; `check` follows each."""

    def __init__(self, interval_ms: int) -> None:
        self.now_ms = 0
        self.tickets = 0
        self.log: list[ConsumerRecord] = []
        self.in_flight: dict[int, tuple[Any, ...]] = {}
        self.asked: dict[int, Asked] = {}
        self.clients: dict[str, Client] = {}
        #: what each member was granted by an answer and has not given up (C2)
        self.granted: dict[str, frozenset[Partition]] = {}
        self.answered = 0
        self.topics = tuple(model.Topic(name, at, count) for at, (name, count) in enumerate(TOPICS.items(), 1))
        self.settings = (("consumer.assignment.interval.ms", interval_ms),)
        self.state = model.State()
        self._begin()

    def _begin(self) -> None:
        self.state = model.State()
        for event in (model.TopicsChanged(self.topics), model.GroupSettings(GROUP, self.settings)):
            self.state, _ = model.step(self.state, self.now_ms, event)

    @property
    def group(self) -> Group | None:
        """As it is in memory."""
        return self.state.consumers.get(GROUP)

    def happens(self, event: model.Event) -> list[Any]:
        """One event, checked."""
        before = self.group
        self.state, effects = model.step(self.state, self.now_ms, event)
        made = [effect for effect in effects if isinstance(effect, model.Append)]
        for append in made:
            self.in_flight[append.append_id] = append.records
        if isinstance(event, model.Submit):
            asked = self.asked[event.ticket]
            asked.after = self.group
            # of its own and of earlier requests
            asked.appends = set(self.in_flight)
            self.moved(before, asked.request)
        elif not (isinstance(event, model.Appended) and event.error):  # then the group goes back to what it was
            self.moved(before, None)
        for effect in effects:
            if not isinstance(effect, model.Append):
                self.answer(effect)
        self.check()
        return list(effects)

    # ---- events

    def beat(self, client: Client, *, is_lost: bool = False, **fields: Any) -> None:
        """A client's heartbeat; its answer may be lost."""
        owned = tuple(sorted(client.uses)) if client.reports or client.epoch == 0 else None
        joins = client.epoch == 0
        asked: dict[str, Any] = {
            "member_epoch": client.epoch,
            "instance_id": client.instance_id,
            "rebalance_timeout_ms": REBALANCE_MS if joins else -1,
            "subscribed_topic_names": client.names if joins else None,
            "topic_partitions": () if joins else owned,
        }
        request = model.ConsumerGroupHeartbeat(GROUP, client.name, **asked | fields)
        self.send(request, is_lost=is_lost)

    def send(self, request: model.Request, *, is_lost: bool = False) -> None:
        """Any request."""
        self.tickets += 1
        self.asked[self.tickets] = Asked(request, self.group, is_lost=is_lost)
        if isinstance(request, model.ConsumerGroupHeartbeat) and request.topic_partitions is not None:
            kept = self.granted.get(request.member_id, frozenset()) & set(request.topic_partitions)
            self.granted[request.member_id] = kept
        self.happens(model.Submit(self.tickets, request, f"{self.tickets:036}"))

    def answer(self, answer: Any) -> None:
        """An answer goes out: C8, C9, C12; its client reads it unless it is lost."""
        asked = self.asked.pop(answer.ticket)
        self.answered += 1
        if not isinstance(answer, model.ConsumerHeartbeatAnswer):
            return
        r = asked.request
        if answer.error != "NONE":
            if answer.error not in OF_THE_LOG:
                assert asked.before == asked.after, f"C12: {answer.error} changed the group"
            self.refused(r, answer, asked)
            return
        assert not asked.appends & set(self.in_flight), f"C9: answered before {asked.appends & set(self.in_flight)}"
        if r.member_epoch < 0:
            self.granted.pop(r.member_id, None)
            return
        self.is_news(r, answer, asked)
        if answer.assignment is not None:
            others = [(name, held) for name, held in self.granted.items() if name != answer.member_id]
            for name, held in others:
                assert not held & set(answer.assignment), f"C2: {name} still uses {held & set(answer.assignment)}"
            name = r.member_id
            self.granted[name] = self.granted.get(name, frozenset()) | set(answer.assignment)
        client = self.clients.get(r.member_id)
        if client and not asked.is_lost:
            client.reports = answer.assignment is not None
            client.uses = client.uses if answer.assignment is None else frozenset(answer.assignment)
            client.epoch = answer.member_epoch

    def is_news(self, r: Any, answer: Any, asked: Asked) -> None:
        """C8."""
        assert asked.after is not None
        old = asked.before.members.get(answer.member_id) if asked.before else None
        had = set(old.assigned) if old else set()
        names = r.subscribed_topic_names is not None or r.subscribed_topic_regex is not None
        is_full = r.member_epoch == 0 or (r.rebalance_timeout_ms != -1 and r.topic_partitions is not None and names)
        has = set(asked.after.members[answer.member_id].assigned)
        assert (answer.assignment is not None) == (is_full or had != has), "C8"

    def refused(self, r: Any, answer: Any, asked: Asked) -> None:
        """A fenced client gives everything up and joins again; it does not hear of it if the answer is lost."""
        client = self.clients.get(r.member_id)
        if client and not asked.is_lost and answer.error in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            client.epoch, client.uses, client.reports = 0, frozenset(), True
            self.granted.pop(client.name, None)

    def end_append(self, error: str | None = None) -> None:
        """The oldest append ends. The log that refuses one refuses those behind it, as a log that is fenced does."""
        for append_id in sorted(self.in_flight)[: None if error else 1]:
            records = self.in_flight.pop(append_id)
            if error is None:
                self.log += [record for record in records if isinstance(record, ConsumerRecord)]
            self.happens(model.Appended(append_id, error))

    def pass_time(self, span_ms: int) -> None:
        """Time passes, with a stop at each deadline."""
        target_ms = self.now_ms + span_ms
        while (deadline := model.next_deadline(self.state)) is not None and deadline <= target_ms:
            self.now_ms = max(self.now_ms, deadline)
            self.happens(model.Advance())
        self.now_ms = target_ms
        self.happens(model.Advance())

    def crash(self, kept: list[ConsumerRecord] | None = None) -> None:
        """The coordinator is gone, and another one reads the log. Appends in flight get no completion."""
        self.in_flight.clear()
        self.asked.clear()
        self._begin()
        for record in self.log if kept is None else kept:
            self.state, _ = model.step(self.state, self.now_ms, model.Replay(record))
        self.state, _ = model.step(self.state, self.now_ms, model.Loaded())
        self.check()

    # ---- properties

    def moved(self, before: Group | None, request: Any) -> None:
        """C3 to C7 between two states; C13 against the log once nothing is on its way."""
        after = self.group
        if before is None or after is None:
            return
        assert before.epoch <= after.epoch, "C3"
        assert before.target_epoch <= after.target_epoch, "C3"
        for name, member in after.members.items():
            old = before.members.get(name)
            is_away = isinstance(request, model.ConsumerGroupHeartbeat) and request.member_epoch < 0
            if old and old.epoch >= 0:
                assert member.epoch >= old.epoch or (is_away and member.epoch == -2), f"C4: {name}"
            self.granted_freely(before, name, after, request)
        if after.target_epoch != before.target_epoch and after.members:
            self.target_is_whole(after)
        for name in set(self.granted) - set(after.members):
            # removed: it does not know yet, and cannot commit (C11); a leaver knows
            self.granted.pop(name)

    def granted_freely(self, before: Group, name: str, after: Group, request: Any) -> None:
        """C5 and C6 for one member."""
        old, new = before.members.get(name), after.members[name]
        had = frozenset(old.assigned) if old else frozenset()
        fresh = frozenset(new.assigned) - had
        others = [m for m in before.members.values() if m.member_id != name and m.member_id in after.members]
        for other in others:
            assert not fresh & other.held, f"C5: {name} gets {fresh & other.held} of {other.member_id}"
        assert not (fresh and new.revoking), f"C5: {name} gets {fresh} while it gives up {set(new.revoking)}"
        if old and old.state == UNREVOKED and old.revoking and not set(old.revoking) <= set(new.revoking):
            reported = getattr(request, "topic_partitions", None)
            is_away = getattr(request, "member_epoch", 0) < 0
            assert is_away or (reported is not None and not set(reported) & set(old.revoking)), f"C6: {name}"

    def target_is_whole(self, group: Group) -> None:
        """C7."""
        targets = [member.target or frozenset() for member in group.members.values()]
        assert all(not one & two for one, two in combinations(targets, 2)), "C7: two members have one target"
        topics = {t for member in group.members.values() for t in subscribed(group, member, self.state.topics)}
        wanted = {(topic.topic_id, index) for topic in topics for index in range(topic.partitions)}
        assert frozenset[Partition]().union(*targets) == wanted, "C7: the target is not whole"

    def check(self) -> None:
        """C1, C2, C3, C10, and C13 if the log has everything."""
        group = self.group
        if group is not None:
            assert group.target_epoch <= group.epoch, "C3"
            for one, two in combinations(group.members.values(), 2):
                assert not one.held & two.held, f"C1: {one.member_id} and {two.member_id} hold {one.held & two.held}"
            instances = [m.instance_id for m in group.members.values() if m.instance_id is not None]
            assert len(instances) == len(set(instances)), "C10"
            assert all(m.epoch <= group.target_epoch for m in group.members.values()), "C3"
        for (one_name, one_uses), (two_name, two_uses) in combinations(self.granted.items(), 2):
            assert not one_uses & two_uses, f"C2: {one_name} and {two_name} use {one_uses & two_uses}"
        if not self.in_flight:
            assert loaded(self.log) == plain(group), "C13: the log as it is"
            assert loaded(compacted(self.log)) == plain(group), "C13: compacted"


def compacted(log: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """The last record of each key, tombstones included, where it stood."""
    last = {key_of(record): at for at, record in enumerate(log)}
    return [log[at] for at in sorted(last.values())]


def loaded(log: list[ConsumerRecord]) -> Group | None:
    """What a coordinator loads."""
    state = model.State()
    for record in log:
        state, _ = model.step(state, 0, model.Replay(record))
    return plain(state.consumers.get(GROUP))


def plain(group: Group | None) -> Group | None:
    """A group without what no record keeps."""
    return None if group is None else replace(group, is_stale=True)


def states_seen(world: World) -> Iterator[str]:
    """What a test counts, so that no property holds for want of cases."""
    if world.group:
        yield world.group.state
        for member in world.group.members.values():
            yield member.state
            yield "away" if member.epoch == -2 else "here"
