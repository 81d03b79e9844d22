"""Follows the Python model of the newer protocol with its specification: what the model does must be actions that the
specification has, with the group that they make, and with the answers that they give.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rota import model
from rota.model.consumer.data import IS_AWAY, Group, holder, subscribed
from rota.specs.logic import Spec
from rota.specs.structures import Rejected, Structure, take
from tests.checks.consumer_world import Asked, World

STATES = {"STABLE": "Stable", "UNREVOKED_PARTITIONS": "Unrevoked", "UNRELEASED_PARTITIONS": "Unreleased"}
RECONCILIATIONS = ("unchanged", "cut", "cut, acknowledged", "revoke", "settle")
ORDER = {"not_above": lambda a, b: a <= b, "not_after": lambda a, b: a <= b}
Content = dict[str, Any]


class Unlike(AssertionError):  # noqa: N818 - it is what is looked for
    """Something that the model does and the specification does not."""


class Outside(Exception):  # noqa: N818
    """Something that is not followed: the run ends."""


class Followed(World):
    """The model's world, and the specification behind it."""

    def __init__(self, spec: Spec, interval_ms: int) -> None:
        self.spec = spec
        self.taken = Counter[str]()
        self.batches: dict[int, tuple[int, int]] = {}  # append id: the versions before and after it
        self.waits: dict[str, tuple[int, int]] = {}  # by member: ticket, and the version on which its answer depends
        defaults = {"epoch": 0, "previous": 0, "state": "Stable", "granted_at": 0, "mapped_epoch": 0, "told_epoch": -2}
        rigid: dict[str, Any] = {"away": -2, "zero": 0, "one": 1, **ORDER}
        self.structure = Structure(spec, rigid, defaults | {"now": 0, "root": 0})
        self.structure.know("Version", (0,))
        self.structure.know("Epoch", (-2, 0, 1))
        spec.init(self.structure)
        self.following = False
        super().__init__(interval_ms)
        self.following = True
        self.structure.know("Partition", [(t.topic_id, index) for t in self.topics for index in range(t.partitions)])

    # ---- actions

    def act(self, name: str, **params: Any) -> None:
        """One action of the specification."""
        self.structure = self.tried(self.structure, name, params)
        self.taken[name] += 1

    def tried(self, before: Structure, name: str, params: Content) -> Structure:
        """The structure after an action, which may need the next version."""
        action = self.spec.actions[name]
        if "v" in action.params and "v" not in params:
            version = len(before.domains["Version"])
            before = before.copy()
            before.know("Version", (version,))
            params = {"v": version, **params}
        try:
            return take(before, action, params)
        except Rejected as rejected:
            raise Unlike(f"`{name}` {params} is rejected: {rejected}") from None

    def opened(self, name: str, content: Content, **params: Any) -> None:
        """An action whose version says what it likes about these symbols."""
        version = len(self.structure.domains["Version"])
        for symbol, tuples in content.items():
            self.structure.rigid[symbol] = self.structure.rigid[symbol] | {(version, *at): True for at in tuples}
        self.act(name, **params)

    # ---- events

    def happens(self, event: model.Event) -> list[Any]:
        if not self.following:
            return super().happens(event)
        before = self.group
        known = set(self.in_flight)
        asked = self.asked.get(event.ticket) if isinstance(event, model.Submit) else None
        if isinstance(event, model.Appended) and event.error is None:
            self.lands(event.append_id)
        elif isinstance(event, model.Appended):
            self.falls(event.append_id)
        start = self.structure.now
        effects = super().happens(event)
        if asked is not None and isinstance(asked.request, model.ConsumerGroupHeartbeat):
            self.request(before, asked, effects)
        elif isinstance(event, model.Advance):
            self.removals(before)
        made = set(self.in_flight) - known
        if len(made) > 1:
            raise Outside("several timers in one event write several batches")
        if made or self.structure.now != start:
            self.batch(made, start)
        for effect in effects:
            if isinstance(effect, model.ConsumerHeartbeatAnswer) and effect.error == "NONE":
                self.answered_with(effect)
        self.compare()
        return effects

    def crash(self, kept: Any = None) -> None:
        self.batches.clear()
        self.waits.clear()
        was, self.following = self.following, False
        super().crash(kept)
        self.following = was
        if was:
            self.act("crash")
            self.compare()

    def lands(self, append_id: int) -> None:
        """The log takes the versions of a batch."""
        _, last = self.batches.pop(append_id, (0, self.structure.root))
        self.take_up_to(last)

    def batch(self, made: set[int], start: int) -> None:
        """The versions of an event are one batch. If they say what was there before, the model writes nothing: they
        belong to the batch before.
        """
        if made:
            self.batches[min(made)] = (start, self.structure.now)
        elif self.batches:
            newest = max(self.batches)
            self.batches[newest] = (self.batches[newest][0], self.structure.now)
        else:
            self.take_up_to(self.structure.now)

    def take_up_to(self, last: int) -> None:
        """The log takes versions, one by one."""
        while self.structure.root < last:
            root = self.structure.root
            self.act("log takes a version", v=min(v for (v,) in self.structure.relation("live") if v > root))

    def falls(self, append_id: int) -> None:
        """The log refuses a batch."""
        first, last = self.batches.pop(append_id, (0, 0))
        if first != last and self.structure.live(last):
            self.act("log refuses", v=first)

    def removals(self, before: Group | None) -> None:
        """Timers remove members."""
        after = self.group
        if before is None or after is None:
            return
        gone = set(before.members) - set(after.members)
        if gone:
            self.structure.know("Epoch", (after.epoch,))
            self.act("remove", gone=lambda m: m in gone, x=after.epoch, left=bool(after.members))

    # ---- requests

    def request(self, before: Group | None, asked: Asked, effects: list[Any]) -> None:
        """A heartbeat, step by step."""
        r, after = asked.request, self.group
        ticket = self.tickets
        refused = [
            each
            for each in effects
            if isinstance(each, model.ConsumerHeartbeatAnswer) and each.ticket == ticket and each.error != "NONE"
        ]
        if refused or after is None:
            return
        self.structure.know("Member", (r.member_id,))
        self.structure.know("Instance", [] if r.instance_id is None else (r.instance_id,))
        self.structure.know("Epoch", (after.epoch, after.target_epoch))
        if r.member_epoch < 0:
            self.leaves(before, after, r)
        else:
            self.find(before, r)
            self.update(before, after, r)
            self.reconcile(after, r)
        self.waits[r.member_id] = (ticket, self.structure.now)

    def leaves(self, before: Group | None, after: Group, r: Any) -> None:
        """-1 and -2."""
        assert before is not None
        if r.member_epoch == IS_AWAY:
            self.act("away", m=r.member_id, i=before.members[r.member_id].instance_id)
        else:
            self.act("leave", gone=lambda m: m == r.member_id, x=after.epoch, left=bool(after.members))

    def find(self, before: Group | None, r: Any) -> None:
        """Find or create the member."""
        if before is None:
            self.act("join: create the group")
        group = before or Group(r.group_id)
        static, member = holder(group, r.instance_id), group.members.get(r.member_id)
        owned = r.topic_partitions
        named = {"m": r.member_id, "i": r.instance_id}
        if r.member_epoch > 0:
            known = static or member
            assert known is not None
            reported = {"reported": lambda p: p in (owned or ()), "r": r.member_epoch, "m": r.member_id}
            if r.member_epoch == known.epoch:
                self.act("heartbeat", reports=owned is not None, **reported)
            else:
                self.act("heartbeat: previous epoch", **reported)
        elif r.instance_id is None:
            self.act("join: new member" if member is None else "join: known member", m=r.member_id)
        elif static is None:
            self.act("join: new static member" if member is None else "join: becomes static", **named)
        elif static.member_id == r.member_id:
            self.act("join: returns", **named)
        else:
            self.act("join: replaces", old=static.member_id, new=r.member_id, i=r.instance_id)

    def update(self, before: Group | None, after: Group, r: Any) -> None:
        """Subscription and target."""
        epoch, target = (before.epoch, before.target_epoch) if before else (1, 1)
        if after.epoch > epoch:
            old = before.members.get(r.member_id) if before else None
            static = holder(before, r.instance_id) if before else None
            known = static or old
            names = known.names if known else frozenset()
            changed = after.members[r.member_id].names != names
            self.opened("input changes", {"subscribed": self.subscriptions(after)}, x=after.epoch, changed=changed)
        else:
            self.act("nothing changes")
        if after.target_epoch > target:
            targets = [(name, p) for name, each in after.members.items() for p in each.target or ()]
            self.opened("target computed", {"target": targets})
        else:
            self.act("target stays")

    def subscriptions(self, group: Group) -> list[tuple[str, tuple[int, int]]]:
        """Who is subscribed to what."""
        return [
            (name, (topic.topic_id, index))
            for name, member in group.members.items()
            for topic in subscribed(group, member, self.state.topics)
            for index in range(topic.partitions)
        ]

    def reconcile(self, after: Group, r: Any) -> None:
        """The answer gives the assignment if it is asked for, or changed."""
        now = self.structure.now
        had = {p for p in self.structure.domains["Partition"] if self.structure.assigned(now, r.member_id, p)}
        full = r.rebalance_timeout_ms != -1 and r.topic_partitions is not None and r.subscribed_topic_names is not None
        self.rows(r.member_epoch == 0 or full or had != set(after.members[r.member_id].assigned))

    def rows(self, gives: bool) -> None:
        """One of them must give what the model has."""
        reasons, start = [], self.structure
        for name in RECONCILIATIONS:
            for lacks in (False, True) if name == "settle" else (False,):
                more = {"lacks": lacks} if name == "settle" else {}
                try:
                    self.structure = self.tried(start, name, {"gives": gives, **more})
                    self.compare()
                except Unlike as reason:
                    reasons.append(str(reason))
                    continue
                self.taken[name] += 1
                return
        raise Unlike("\n".join(reasons))

    # ---- comparisons

    def answered_with(self, answer: Any) -> None:
        """The answer says what the version says on which it depends; one that was superseded is not looked at."""
        ticket, version = self.waits.get(answer.member_id, (0, 0))
        if ticket != answer.ticket or not self.structure.waits(version, answer.member_id):
            return
        given = self.structure.waiting(version, answer.member_id)
        assigned = {
            p for p in self.structure.domains["Partition"] if self.structure.assigned(version, answer.member_id, p)
        }
        if (answer.assignment is not None) != given or (given and set(answer.assignment) != assigned):
            raise Unlike(f"the answer {answer} is not that of version {version}: {given} {assigned}")
        if answer.member_epoch != self.structure.epoch(version, answer.member_id):
            raise Unlike(f"the answer {answer} has another epoch")
        self.act("answer", u=version, m=answer.member_id)

    def compare(self) -> None:
        """The version in memory is the model's group."""
        s, group = self.structure, self.group
        v = s.now
        if group is None:
            members: set[str] = {m for (m,) in s.tuples(["Member"]) if s.member(v, m)}
            if members:
                raise Unlike(f"members of no group: {members}")
            return
        same = {
            "group_epoch": (s.group_epoch(v), group.epoch),
            "target_epoch": (s.target_epoch(v), group.target_epoch),
            "members": ({m for (m,) in s.tuples(["Member"]) if s.member(v, m)}, set(group.members)),
        }
        for name, each in group.members.items():
            places = s.domains["Partition"]
            held = {**each.assigned, **each.revoking}
            same |= {
                f"epoch of {name}": (s.epoch(v, name), each.epoch),
                f"previous of {name}": (s.previous(v, name), max(each.previous, 0)),
                f"state of {name}": (s.state(v, name), STATES[each.state]),
                f"assigned of {name}": ({p for p in places if s.assigned(v, name, p)}, set(each.assigned)),
                f"pending of {name}": ({p for p in places if s.pending(v, name, p)}, set(each.revoking)),
                f"target of {name}": ({p for p in places if s.target(v, name, p)}, set(each.target or ())),
                f"granted of {name}": ({p: s.granted_at(v, name, p) for p in held}, held),
                f"instance of {name}": (
                    [i for (i,) in s.tuples(["Instance"]) if s.instance(v, name, i)],
                    [] if each.instance_id is None else [each.instance_id],
                ),
            }
        wrong = {name: pair for name, pair in same.items() if pair[0] != pair[1]}
        if wrong:
            raise Unlike(f"version {v} differs from the model: {wrong}")
