"""Plays runs of the specification on the core: what Z3 says can happen, happens.

A run of `rota.specs.runs` is a list of actions, and Z3 finds who does what. Here each action becomes the event that it
is about: a request, the end of an append, time. Core, model and specification take it together (`Follower`), and what
the specification has seen must be the actions of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rota import model
from rota.check.differential.steps import Ask, Crash, End, HandOver, Loaded, Pass, Step
from rota.specs.logic import Action, Spec
from rota.specs.obligations import Run
from tests.checks.following import GROUP, Follower

BOTH = (("range", b"S"), ("sticky", b"T"))
NEVER_MS = 1_800_000
SOON_MS = 10_000
TOO_SLOW_MS = 5_000
DEFAULTS = {"group.initial.rebalance.delay.ms": 1_000, "offsets.commit.timeout.ms": 3_000_000}
# Actions that are no event of their own: the log decides when an append ends, a fence is part of a crash, a member that
# is parked has no timer, and what is owed is written with the next record.
SILENT = ("log ", "fence", "session of a parked member", "emptied record written again")
# Which timer an action is, and whose: the group's, a member's, or an append's.
TIMERS = {
    "join timer": ("Join", ""),
    "initial timer": ("InitialDelay", ""),
    "sync timer": ("Sync", ""),
    "expire": ("Session", "m"),
    "pending expires": ("Pending", "m"),
    "creation overdue": ("Append", "a"),
    "plan overdue": ("Append", "a"),
    "replacement overdue": ("Append", "a"),
    "commit or delete overdue": ("Append", "a"),
}
ENDED = ("durable", "failed", "append ends")


def silent(name: str) -> bool:
    """Whether the action is no event of its own."""
    return name.startswith(SILENT)


def matching(table: Mapping[str, Any], name: str) -> Any:
    """The entry whose key the name begins with."""
    return next((value for key, value in table.items() if name.startswith(key)), None)


class Player:
    """Plays one run. `times` are the group's and members' times where the run needs others than usual."""

    def __init__(self, spec: Spec, run: Run, times: Mapping[str, int]) -> None:
        self.run = run
        self.names = [action.name for action, _ in run.taken]
        slow = {"offsets.commit.timeout.ms": TOO_SLOW_MS} if any("overdue" in name for name in self.names) else {}
        config = {name: value for name, value in times.items() if "." in name}
        self.rebalance_ms = times.get("rebalance", 100_000)
        self.both = Follower(spec, {**DEFAULTS, **slow, **config})
        self.tickets = 0
        self.ids = dict[str, str]()
        self.lists = dict[str, tuple[tuple[str, bytes], ...]]()
        self.appends = dict[str, int]()
        self.durable = {
            given["a"]
            for action, params in run.taken
            if action.name.startswith("log takes")
            for given in [self._given(action, params)]
        }
        self.expiring = {
            self._given(action, params)["m"]
            for action, params in run.taken
            if action.name.startswith(("expire", "pending expires"))
        }

    def play(self) -> list[str]:
        """Play all of it; gives the actions that the specification has seen."""
        self.both.taken.clear()
        for place, (action, params) in enumerate(self.run.taken):
            given = self._given(action, params)
            if silent(action.name):
                continue
            if "load, too many members" in self.names[place : place + 3]:
                self.both.config["group.max.size"] = 1
                self.both.settings = replace(self.both.settings, group_max_size=1)
            before = self.both.state.append_ids
            self.both.play(Pass(1, True))  # so that nothing is armed at the same time
            self.both.play(self._step(action.name, given, place))
            self._appended(action, given, before)
        return self.both.taken

    # ---- who and what

    def _given(self, action: Action, params: list[Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for (name, kind), value in zip(action.params.items(), params, strict=True):
            if kind.endswith("?"):
                given[name] = [
                    self.run.word(each)
                    for each in self.run.context.elements[kind[:-1]]
                    if self.run.word(value(each)) == "True"
                ]
            else:
                given[name] = self.run.word(value)
        return given

    def _appended(self, action: Action, given: dict[str, Any], before: int) -> None:
        """The appends that the step made are those that the action names and that were not there."""
        new = range(before, self.both.state.append_ids)
        names = [
            given[name] for name, kind in action.params.items() if kind == "Append" and given[name] not in self.appends
        ]
        self.appends |= dict(zip(names, new, strict=False))

    def _says(self, name: str, *elements: str) -> bool:
        """What the run says of the rigid relation."""
        symbol = self.both.spec.rigid[name]
        at = [
            next(each for each in self.run.context.elements[sort] if self.run.word(each) == element)
            for sort, element in zip(symbol.args, elements, strict=True)
        ]
        return self.run.word(self.run.context.symbols[name](*at)) == "True"

    def _instance(self, m: str) -> str | None:
        if not self._says("static", m):
            return None
        words = [self.run.word(each) for each in self.run.context.elements["Instance"]]
        return next(word for word in words if self._says("of", m, word))

    @property
    def _group(self) -> model.Group:
        return self.both.state.groups[GROUP]

    # ---- steps

    def _step(self, name: str, given: dict[str, Any], place: int) -> Step:
        timer = matching(TIMERS, name)
        if timer:
            kind, whose = timer
            return self._until(kind, whose, given)
        if any(word in name for word in ENDED) and not name.startswith("create"):
            index = [each.append_id for each in self.both.in_flight].index(self.appends[given["a"]])
            return End(index, None if given["a"] in self.durable else "NOT_LEADER_OR_FOLLOWER")
        if name in ("crash", "unload"):
            ids = {number: element for element, number in self.appends.items()}
            fates = [ids.get(each.append_id) in self.durable for each in self.both.in_flight]
            kept = fates.index(False) if False in fates else len(fates)
            return Crash(kept) if name == "crash" else HandOver(kept)
        if name.startswith("load"):
            return Loaded()
        self.tickets += 1
        return Ask(self.tickets, given.get("m", "x"), self._request(name, given, place))

    def _until(self, kind: str, whose: str, given: dict[str, Any]) -> Pass:
        name = ""
        if kind == "Append":
            name = str(self.appends[given[whose]])
        elif whose:
            name = self.both.minted[int(self.ids[given[whose]][1:])]
        timer = next(each for each in self.both.state.timers if each.kind == kind and each.name == name)
        return Pass(timer.deadline_ms - self.both.now_ms, True)

    def _request(self, name: str, given: dict[str, Any], place: int) -> model.Request:
        if name == "create group and refuse":
            return model.JoinGroup(GROUP, "", (), instance_id="x")
        if name.endswith("hand out an id"):
            return self._join(given["m"], version=9)
        if name.startswith("replace"):
            return self._replace(name, given, place)
        if name.startswith("rejoin changed"):
            self.lists[given["m"]] = (("range", f"S{place}".encode()), BOTH[1])
            return self._join(given["m"])
        if name.startswith(("create", "join", "rejoin", "refuse for room")):
            return self._join(given["m"])
        if name.startswith("leave"):
            return model.LeaveGroup(GROUP, tuple((self.ids[m], self._instance(m)) for m in given["leaving"]))
        if name.startswith("sync"):
            return self._sync(given["m"])
        if name == "heartbeat":
            return model.Heartbeat(GROUP, self.ids[given["m"]], self._group.generation, self._instance(given["m"]))
        if name.startswith("refuse"):
            return self._refused(name, given)
        if name == "commit":
            member = (self.ids[given["m"]], self._group.generation, self._instance(given["m"]))
            return model.OffsetCommit(GROUP, (("t", 0, 5, -1, ""),), *member)
        if name == "simple commit":
            return model.OffsetCommit(GROUP, (("t", 0, 5, -1, ""),))
        return model.OffsetFetch(GROUP, (("t", 0),), False) if name == "fetch" else model.DeleteGroup(GROUP)

    def _join(self, m: str, version: int | None = None, instance: str | None = None) -> model.JoinGroup:
        member_id = self.ids.setdefault(m, f"@{self.tickets}") if instance is None else ""
        if member_id == f"@{self.tickets}":
            member_id = ""
        instance = instance or self._instance(m)
        if version is None:
            version = 3 if instance is None and not member_id else 9
        return model.JoinGroup(
            GROUP,
            member_id,
            self.lists.get(m, BOTH),
            session_timeout_ms=SOON_MS if m in self.expiring else NEVER_MS,
            rebalance_timeout_ms=self.rebalance_ms,
            client_id="c",
            instance_id=instance,
            version=version,
        )

    def _replace(self, name: str, given: dict[str, Any], place: int) -> model.JoinGroup:
        """Which version the newcomer speaks is seen when it is answered."""
        old, new = given["old"], given["new"]
        self.lists[new] = self.lists.get(old, BOTH) if "rebalance" not in name else BOTH[1:]
        later = [
            self._given(action, params)
            for action, params in self.run.taken[place:]
            if action.name == "replacement durable"
        ]
        old_version = any(each["new"] == new and each["v9"] == "False" for each in later)
        self.ids[new] = f"@{self.tickets}"
        return self._join(new, version=8 if old_version else 9, instance=self._instance(old))

    def _sync(self, m: str) -> model.SyncGroup:
        group = self._group
        plan = tuple((each.member_id, f"X{place}".encode()) for place, each in enumerate(group.members))
        return model.SyncGroup(
            GROUP, self.ids[m], group.generation, plan, "consumer", group.protocol_name, self._instance(m)
        )

    def _refused(self, name: str, given: dict[str, Any]) -> model.Request:
        generation = self._group.generation if GROUP in self.both.state.groups else 0
        if name == "refuse: fenced":
            return model.Heartbeat(GROUP, self.ids.get(given["m"], "never-1"), generation, given["i"])
        if name == "refuse: generation":
            return model.Heartbeat(GROUP, self.ids[given["m"]], generation + 1)
        if name == "refuse: sync or commit while rebalancing":
            return self._sync(given["m"])
        return model.Heartbeat(GROUP, "never-1", generation)
