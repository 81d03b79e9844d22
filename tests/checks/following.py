"""Follows the Python model with the specification: every step of the model must be actions that the specification has.

Runs are those of `rota.check.differential`. What happens inside one event of the model (a timer, the end of an append,
a request that waited) is a step of its own. For each, candidates are tried: an action, with parameters that the step
shows, must accept the structure and give the one that the model's next state abstracts to, and tell what was answered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota import model
from rota.check.differential.generators import MAKERS, Maker
from rota.check.differential.lockstep import Lockstep
from rota.check.differential.steps import Ask, Crash, DeleteTopics, HandOver, Loaded, LoadFails, Step
from rota.check.differential.volume import Seeded
from rota.model.state import Replacement, State
from rota.specs.logic import Spec
from rota.specs.structures import Rejected, Structure, take

STEPS = sys.modules["rota.model.step"]
GROUP = "g"
JOINS = ("create", "hand out", "join Empty", "join Preparing", "join later", "rejoin", "replace ", "refuse for room")
TIMERS = {
    "Session": ("expire",),
    "Pending": ("pending expires",),
    "InitialDelay": ("initial timer",),
    "Join": ("join timer",),
    "Sync": ("sync timer",),
    "Cleaner": ("delete",),
    "Append": ("creation overdue", "plan overdue", "replacement overdue", "commit or delete overdue"),
}
REQUESTS = {
    "JoinGroup": JOINS,
    "SyncGroup": ("sync parks", "sync of", "sync in"),
    "Heartbeat": ("heartbeat",),
    "LeaveGroup": ("leave",),
    "OffsetCommit": ("commit", "simple commit"),
    "DeleteGroup": ("delete",),
}
ENDS = ("creation", "plan", "replacement", "commit durable", "delete", "append ends", "emptied record failed")
REFUSALS = {
    "FENCED_INSTANCE_ID": "refuse: fenced",
    "UNKNOWN_MEMBER_ID": "refuse: unknown",
    "ILLEGAL_GENERATION": "refuse: generation",
    "REBALANCE_IN_PROGRESS": "refuse: sync or commit while rebalancing",
}


class Unlike(AssertionError):  # noqa: N818 - it is what is looked for
    """A step of the model that the specification does not have."""


class Outside(Exception):  # noqa: N818
    """Something that the specification leaves out on purpose: the run is followed no further."""


@dataclass(frozen=True)
class Happened:
    """A step inside an event: what, before and after."""

    kind: str
    what: Any
    before: State
    after: State
    error: str | None = None

    @property
    def effects(self) -> tuple[model.Effect, ...]:
        """What it brought about."""
        return self.after.effects[len(self.before.effects) :]


class Follower(Lockstep):
    """Core and model, and the specification behind them."""

    def __init__(self, spec: Spec, config: Mapping[str, int]) -> None:
        self.spec = spec
        self.outside: str | None = None
        self.steps, self.depth = list[Happened](), 0
        self.begun: State | None = None
        self.followed = 0
        self.taken = list[str]()
        rigid: dict[str, Any] = {
            "zero": 0,
            "first_epoch": 1,
            "nothing": b"",
            "no_later": lambda a, b: None not in (a, b) and a <= b,
            "not_above": lambda a, b: a <= b,
            "not_after": lambda a, b: a <= b,
        }
        self.structure = Structure(spec, rigid, {"asg": b"", "rec_asg": b""})
        self.structure.know("Epoch", (1,))
        self.structure.know("Generation", (0,))
        self.structure.know("Bytes", (b"",))
        spec.init(self.structure)
        self.spoken = dict[tuple[int, int], dict[tuple[str, int], Any]]()
        super().__init__(config)

    # ---- what happens inside an event

    def _both(self, core_effects: list[Any], event: model.Event) -> None:
        before = self.state
        self.steps.clear()
        with _watched(self):
            super()._both(core_effects, event)
        if isinstance(event, model.Loaded):
            self._loaded()
        elif isinstance(event, model.Unload):
            self._act("unload")
        elif isinstance(event, model.Submit) and before.phase != "Active":
            self._act("refuse: not the coordinator")
        for happened in tuple(self.steps):
            self._follow(happened)

    def _reload(self, kept: int) -> None:
        for append in self.in_flight[:kept]:
            self._store(append)
        if self.structure.serving:
            self._act("crash")
        self._settle()
        super()._reload(0)
        self.structure.know("Epoch", (self.epoch,))
        self._act("fence", e=self.epoch)

    def _settle(self) -> None:
        """The log takes what is in it, in order, and loses the rest."""
        for append in sorted(self.structure.relation("open")):
            if append[0] in self.log:
                self._lands(append[0])
            else:
                self._act("log loses an append", a=append[0])

    def _lands(self, append: tuple[int, int]) -> None:
        kind = self.structure.kind(append)
        names = {"Commit": "log takes a commit", "Tombstone": "log takes tombstones"}
        self._act(names.get(kind, "log takes a group record"), a=append)

    def _act(self, name: str, **params: Any) -> None:
        try:
            self.structure = take(self.structure, self.spec.actions[name], params)
        except Rejected as rejected:
            raise Unlike(f"`{name}` {params} is rejected: {rejected}") from None
        self.taken.append(name)

    def _loaded(self) -> None:
        group = self.state.groups.get(GROUP)
        if self.structure.serving:  # the first coordinator: nothing was ever written
            return
        if group is None:
            self._act("load nothing")
        elif group.members:
            name = "load Stable" if group.state == "Stable" else "load, too many members"
            newest = self.structure.newest
            heir = next(m for (m,) in self.structure.tuples(["Member"]) if self.structure.rec_leader(newest, m))
            self._act(name, heir=heir)
        elif self.structure.log_group:
            self._act("load Empty")
        else:
            self._act("load offsets only", p=next(iter(group.offsets)))
        self._compare(self.state)

    # ---- one step

    def _follow(self, happened: Happened) -> None:
        if not self._concerns(happened):
            return
        _leave_out(happened)
        self._learn(happened)
        start = self.structure
        if happened.kind == "end":
            append = (self.epoch, happened.what.append_id)
            if start.open(append):
                if happened.error is None:
                    self._lands(append)
                else:
                    self._act("log loses an append", a=append)
        reasons = []
        params = self._params(happened)
        middle = self.structure
        for names in self._candidates(happened):
            self.structure = middle
            try:
                for name, more in names:
                    given = {**params, **more}
                    action = self.spec.actions[name]
                    if not all(word in given for word in action.params):
                        raise Rejected("a parameter is not there")
                    self.structure = take(self.structure, action, given)
                self._sessions_of_parked()
                self._compare(happened.after)
                self._compare_answers(middle, happened)
            except (Rejected, Unlike) as reason:
                reasons.append(f"{' + '.join(name for name, _ in names)}: {reason}")
                continue
            self.taken += [name for name, _ in names]
            self.followed += 1
            return
        self.structure = start
        shown = [line for line in reasons if "differs" in line or "told" in line] or reasons
        what = getattr(happened.what, "request", happened.what)
        raise Unlike(f"{happened.kind} {what} {happened.error or ''}\n" + "\n".join(shown))

    def _concerns(self, happened: Happened) -> bool:
        what = happened.what
        if happened.kind == "request":
            return bool(getattr(what.request, "group_id", None) == GROUP)
        if happened.kind == "timer":
            kind, group_id, name = what
            flying = [f for f in happened.before.appends if str(f.append_id) == name] if kind == "Append" else []
            cleans = kind == "Cleaner" and any(isinstance(e, model.Append) and _ours(e) for e in happened.effects)
            return cleans or bool(group_id == GROUP and kind in TIMERS) or any(_about(f) for f in flying)
        return _about(what)

    def _sessions_of_parked(self) -> None:
        """The model has no session timers of parked members; here one fires and is forgotten."""
        s = self.structure
        for (m,) in s.relation("session"):
            if (s.parked_join(m) or s.parked_sync(m)) and not s.fresh(m):
                self._act("session of a parked member", m=m)

    # ---- parameters and candidates

    def _learn(self, happened: Happened) -> None:
        """Elements that came up, and what is fixed about them."""
        s = self.structure
        members: dict[str, str | None] = {}
        for state in (happened.before, happened.after):
            group = state.groups.get(GROUP)
            if group:
                members |= dict.fromkeys(group.pending)
                members |= {each.member_id: each.instance_id for each in group.members}
                s.know("Generation", (group.generation,))
                s.know("Protocol", (group.protocol_name,) if group.protocol_name else ())
                s.know("Bytes", (each.assignment for each in group.members))
        for effect in happened.effects:
            if isinstance(effect, model.JoinAnswer) and effect.error == "MEMBER_ID_REQUIRED":
                members[effect.member_id] = None
            for record in effect.records if isinstance(effect, model.Append) and _ours(effect) else ():
                append = (self.epoch, effect.append_id if isinstance(effect, model.Append) else 0)
                s.know("Append", (append,))
                if isinstance(record, model.GroupRecord) and record.group_id == GROUP:
                    for each in record.value.members if record.value else ():
                        s.know("Bytes", (each.assignment,))
                        s.say("rec_asg", append, each.member_id, value=each.assignment)
                elif isinstance(record, model.OffsetRecord) and record.group_id == GROUP and record.value:
                    s.know("Partition", ((record.topic, record.partition),))
                    s.say("part", append, (record.topic, record.partition))
                    request = getattr(happened.what, "request", None)
                    s.say("sent_gen", append, value=getattr(request, "generation", None))
        asked: Any = getattr(happened.what, "request", None)
        fenced = any(getattr(each, "error", "") == "FENCED_INSTANCE_ID" for each in happened.effects)
        if fenced and (named := getattr(asked, "member_id", "")):  # it may never have been handed out
            members.setdefault(named, asked.instance_id)
        for member_id, instance_id in members.items():
            if (member_id,) not in set(s.tuples(["Member"])):
                instance = f"{member_id} alone" if instance_id is None else f"={instance_id}"
                s.know("Member", (member_id,))
                s.know("Instance", (instance,))
                s.say("of", member_id, instance)
                if instance_id is not None:
                    s.say("static", member_id)

    def _params(self, happened: Happened) -> dict[str, Any]:
        """What the step shows of the parameters of actions."""
        given: dict[str, Any] = {}
        before, after = (state.groups.get(GROUP) for state in (happened.before, happened.after))
        new = [
            (self.epoch, each.append_id) for each in happened.effects if isinstance(each, model.Append) and _ours(each)
        ]
        if self.structure.owed and len(new) > 1:
            self._act("emptied record written again", a=new.pop(0))
        if after:
            given |= {"g": after.generation, "heir2": after.leader, "p": after.protocol_name}
        ids = [each.member_id for each in before.members] if before else []
        leaving = self._leaving(happened)
        left = [each for each in ids if each not in leaving]
        leader = before.leader if before else None
        given |= {"leaving": lambda m: m in leaving, "left": bool(left)}
        given["heir"] = leader if leader in left or not left else left[0]
        if happened.kind == "end":
            given["a"] = (self.epoch, happened.what.append_id)
            given |= {"b": new[0], "e": new[0]} if new else {}
        elif happened.kind == "timer" and happened.what[0] == "Append":
            given["a"] = (self.epoch, int(happened.what[2]))
            given |= {"b": new[0], "e": new[0]} if new else {}
        elif new:
            given |= {"a": new[0], "e": new[-1]}
        given |= self._who(happened, before)
        if "m" in given:
            given["i"] = next(
                (i for (i,) in self.structure.tuples(["Instance"]) if self.structure.of(given["m"], i)), ""
            )
            owing = [each.member_id for each in before.members if each.owes_sync] if before else []
            given["last"] = not [each for each in owing if each != given["m"]]
        return given

    def _leaving(self, happened: Happened) -> set[str]:
        if happened.kind == "timer":
            kind, _, name = happened.what
            if kind == "Sync":
                return {m for (m,) in self.structure.relation("to_sync")}
            return {name} if kind == "Session" else set()
        request = getattr(happened.what, "request", None)
        if isinstance(request, model.LeaveGroup):
            gone: set[str] = set()
            for effect in happened.effects:
                for each in effect.members if isinstance(effect, model.LeaveAnswer) else ():
                    held = [m for (i, m) in self.structure.relation("holder") if i == f"={each.instance_id}"]
                    gone |= {each.member_id or (held[0] if held else "")} if each.error == "NONE" else set()
            return gone
        return {request.member_id} if isinstance(request, model.JoinGroup) else set()

    def _who(self, happened: Happened, before: Any) -> dict[str, Any]:
        known = {m for (m,) in self.structure.relation("minted")}
        fresh = [m for (m,) in self.structure.tuples(["Member"]) if m not in known]
        if happened.kind == "timer":
            return {"m": happened.what[2]} if happened.what[0] in ("Session", "Pending") else self._replaced(happened)
        if happened.kind == "end":
            return self._replaced(happened) | {"p": self._partition(happened)}
        request = happened.what.request
        if not isinstance(request, model.JoinGroup):
            return {"m": request.member_id} if hasattr(request, "member_id") else {}
        m = request.member_id or (fresh[-1] if fresh else "")
        found = {"m": m, "new": m} if m else {}
        if request.instance_id is not None and not request.member_id and before:
            held = [each.member_id for each in before.members if each.instance_id == request.instance_id]
            found |= {"old": held[0]} if held else {}
            waits = [(b, first) for (b, first, new) in self.structure.relation("replacing") if [new] == held]
            found |= {"b": waits[0][0], "first": waits[0][1]} if waits else {}
        return found

    def _partition(self, happened: Happened) -> Any:
        append, s = (self.epoch, happened.what.append_id), self.structure
        parts = [p for (p,) in s.tuples(["Partition"]) if s.part(append, p)]
        group = happened.after.groups.get(GROUP)
        return parts[0] if parts else group.protocol_name if group else None

    def _replaced(self, happened: Happened) -> dict[str, Any]:
        number = int(happened.what[2]) if happened.kind == "timer" and happened.what[0] == "Append" else None
        if happened.kind == "end":
            number = happened.what.append_id
        append, s = (self.epoch, number), self.structure
        waiting = {b: (first, new) for (b, first, new) in s.relation("replacing")}
        of = {m: i for (m,) in s.tuples(["Member"]) for (i,) in s.tuples(["Instance"]) if s.of(m, i)}
        for mid in [m for (a, m) in s.relation("fenced") if a == append]:
            b, first, new = next((b, *pair) for b, pair in waiting.items() if of[pair[1]] == of[mid])
            return {"mid": mid, "b": b, "first": first, "new": new, "i": of[mid]}
        if append not in waiting:
            return {}
        old, new = waiting[append]
        versions = [
            each.join.version
            for each in (happened.before.groups[GROUP].members if GROUP in happened.before.groups else ())
            if each.member_id == new and each.join
        ]
        return {"old": old, "new": new, "i": of[old], "v9": bool(versions and versions[0] >= 9)}

    def _candidates(self, happened: Happened) -> Iterator[list[tuple[str, dict[str, Any]]]]:
        """Actions that may be what happened, simple ones first; the last resort is that nothing did."""
        if happened.kind == "request":
            request = happened.what.request
            error = next((getattr(e, "error", "") for e in happened.effects if not isinstance(e, model.Append)), "")
            if error in REFUSALS and isinstance(request, model.SyncGroup | model.Heartbeat | model.OffsetCommit):
                more = {"g": request.generation, "i": f"={request.instance_id}"}
                self.structure.know("Generation", (request.generation,))
                yield [(REFUSALS[error], more)]
            if isinstance(request, model.OffsetFetch):
                told = [
                    (each.topic, each.partition)
                    for effect in happened.effects
                    if isinstance(effect, model.FetchAnswer)
                    for each in effect.partitions
                    if each.offset >= 0
                ]
                yield [("fetch", {"p": place}) for place in told]
            prefixes = REQUESTS.get(type(request).__name__, ())
        elif happened.kind == "timer":
            prefixes = TIMERS[happened.what[0]]
        else:
            prefixes = ENDS
        for name in self.spec.actions:
            if name.startswith(prefixes):
                yield [(name, {})]
        yield []

    # ---- comparing

    def _compare(self, state: State) -> None:
        for name, wanted in abstracted(state, self.epoch).items():
            symbol, s = self.spec.variables[name], self.structure
            if name == "asg":
                found: Any = {(m, s.asg(m)) for (m,) in s.relation("member")}
            elif name == "session":
                hidden = {(m,) for (m,) in s.relation("parked_join") | s.relation("parked_sync") if not s.fresh(m)}
                found = s.relation("session") - hidden
            else:
                found = s.relation(name) if symbol.args else getattr(s, name)
            if found != wanted:
                raise Unlike(f"{name} differs: {found} here, {wanted} in the model")

    def _compare_answers(self, before: Structure, happened: Happened) -> None:
        """Success answers are what the ghosts newly say, and the other way round."""
        s, said = self.structure, Said()
        for effect in happened.effects:
            if isinstance(effect, model.JoinAnswer) and effect.error == "NONE":
                said.join(effect)
            elif isinstance(effect, model.SyncAnswer) and effect.error == "NONE":
                said.assignments.add(effect.assignment)
        for name, answers in said.told.items():
            there = s.relation(name)
            if not answers <= there or not there - before.relation(name) <= answers:
                raise Unlike(f"{name}: {there - before.relation(name)} here, {answers} in the model")
        told = {x for (*_, x) in s.relation("told_asg") - before.relation("told_asg")}
        if not said.assignments <= {x for (*_, x) in s.relation("told_asg")} or not told <= said.assignments:
            raise Unlike(f"told_asg: {told} here, {said.assignments} in the model")


class Said:
    """What success answers told their receivers, by the ghosts' names."""

    def __init__(self) -> None:
        names = ("told_join", "told_names", "told_proto", "told_leader", "told_list")
        self.told: dict[str, set[tuple[Any, ...]]] = {name: set() for name in names}
        self.assignments = set[bytes]()

    def join(self, answer: model.JoinAnswer) -> None:
        """A success answer of JoinGroup."""
        generation, member_id = answer.generation, answer.member_id
        self.told["told_join"].add((member_id,))
        self.told["told_names"].add((generation, answer.leader))
        self.told["told_proto"].add((generation, answer.protocol_name))
        if answer.leader == member_id:
            self.told["told_leader"].add((generation, member_id))
        if answer.members:
            self.told["told_list"].add((generation, member_id))


def _leave_out(happened: Happened) -> None:
    """What docs/generated/proved.md says is not followed: the run ends here."""
    group = happened.before.groups.get(GROUP)
    if group and group.deleting is not None and happened.kind == "request":
        raise Outside("a request to a group whose end is on its way")
    if happened.kind == "end" and group and group.held and not isinstance(happened.what.records[0], model.GroupRecord):
        raise Outside("a commit of an earlier life lets a join phase go")
    for effect in happened.effects:
        if isinstance(effect, model.Append) and _ours(effect):
            records = [each for each in effect.records if each.group_id == GROUP]
            if all(isinstance(each, model.OffsetRecord) and each.value is None for each in records):
                raise Outside("offsets that expire alone")
            if records[-1].value is None and group and group.creating is not None:
                raise Outside("a deletion while the creation is on its way")
    if any(_about_members(each) for each in happened.after.unwritten):
        raise Outside("the record of a group that was written again, and failed")


def _about_members(record: model.Record) -> bool:
    return isinstance(record, model.GroupRecord) and record.value is not None and bool(record.value.members)


def _ours(append: model.Append) -> bool:
    return any(record.group_id == GROUP for record in append.records)


def _about(flying: Any) -> bool:
    return any(record.group_id == GROUP for record in flying.records)


def abstracted(s: State, epoch: int) -> dict[str, Any]:
    """What the specification says of a state of the model. Parked members have no session timers there."""
    group = s.groups.get(GROUP) if s.phase == "Active" else None
    own = [t for t in s.timers if t.group_id == GROUP]
    timed = {(t.kind, t.name) for t in s.timers}
    found: dict[str, Any] = {
        "st": group.state if group else "Dead",
        "serving": s.phase == "Active",
        "unheard": {((epoch, f.append_id),) for f in s.appends if _about(f)},
    }
    members = group.members if group else ()
    found["member"] = {(m.member_id,) for m in members}
    tests: dict[str, Callable[[Any], bool]] = {
        "parked_join": lambda m: m.join is not None,
        "parked_sync": lambda m: m.sync is not None,
        "to_sync": lambda m: m.owes_sync,
        "fresh": lambda m: m.is_new,
        "newcomer": lambda m: m.replacing is not None and m.join is not None,
        "t_record": lambda m: ("Append", str(m.replacing)) in timed,
    }
    for name, test in tests.items():
        found[name] = {(m.member_id,) for m in members if test(m)}
    found["replacing"] = {
        ((epoch, f.append_id), f.what.old.member_id, m.member_id)
        for m in members
        for f in s.appends
        if isinstance(f.what, Replacement) and f.append_id == m.replacing and m.join
    }
    found["holder"] = {(f"={m.instance_id}", m.member_id) for m in members if m.instance_id is not None}
    found["asg"] = {(m.member_id, m.assignment) for m in members}
    found["pending"] = {(m,) for m in group.pending} if group else set()
    found["session"] = {(t.name,) for t in own if t.kind == "Session"}
    found["pending_timer"] = {(t.name,) for t in own if t.kind == "Pending"}
    for name, kind in (("t_initial", "InitialDelay"), ("t_join", "Join"), ("t_sync", "Sync")):
        found[name] = any(t.kind == kind for t in own)
    if group:
        found |= {"gen": group.generation, "has_leader": group.leader is not None}
        found |= {"leader": group.leader} if group.leader else {}
        found |= {"has_proto": group.protocol_name is not None, "held": group.held, "rooted": group.durable}
        found |= {"creating": group.creating is not None, "planning": group.plan is not None}
        found |= {"proto": group.protocol_name} if group.protocol_name else {}
        found |= {"t_plan": group.plan is not None, "deleting": group.deleting is not None}
        found["has_shown"] = {(place,) for place in group.offsets}
    return found


class _watched:  # noqa: N801 - a word of `with`
    """While the model makes a step, what happens inside it is written down."""

    NAMES = ("_handle", "_fire", "_logged", "deletion_failed", "_end")

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.real = {name: getattr(STEPS, name) for name in self.NAMES}

    def __enter__(self) -> None:
        for name in self.NAMES:
            setattr(STEPS, name, self._watching(name))

    def __exit__(self, *_: object) -> None:
        for name, function in self.real.items():
            setattr(STEPS, name, function)

    def _watching(self, name: str) -> Any:
        me, real = self.follower, self.real[name]

        def watching(s: State, what: Any, *more: Any) -> State:
            if me.depth == 0 and name in ("_logged", "deletion_failed"):
                me.begun = s
            me.depth += 1
            after: State = real(s, what, *more)
            me.depth -= 1
            if me.depth == 0 and name in ("_handle", "_fire", "_end"):
                before = me.begun if name == "_end" and me.begun is not None else s
                kind = {"_handle": "request", "_fire": "timer", "_end": "end"}[name]
                seen = (what, *more) if name == "_fire" else what
                me.steps.append(Happened(kind, seen, before, after, more[0] if name == "_end" else None))
                me.begun = None
            return after

        return watching


def sampled(spec: Spec, config: Mapping[str, int], seed: int, length: int) -> Follower:
    """One followed run."""
    choices = Seeded(seed)
    follower = Follower(spec, config)
    maker = Maker(follower, choices)
    makers = [each for each, weight in MAKERS.items() for _ in range(weight)]
    try:
        for _ in range(length):
            step: Step = Loaded()
            if follower.state.phase != "Loading" or choices.index(3):
                step = makers[choices.index(len(makers))](maker)
            if _covered(follower, step):
                follower.play(step)
    except Outside as left:
        follower.outside = str(left)
    return follower


def _covered(follower: Follower, step: Step) -> bool:
    """Whether the specification speaks of this step at all."""
    if isinstance(step, Ask):
        return getattr(step.request, "group_id", None) == GROUP and not isinstance(step.request, model.OffsetDelete)
    if isinstance(step, Crash | HandOver):
        return follower.state.phase == "Active"
    return not isinstance(step, DeleteTopics | LoadFails)
