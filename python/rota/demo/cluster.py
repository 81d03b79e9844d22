"""`rota demo --cluster`: what happens to the servers, the members of etcd and the consumers, in which order.

Messages are with the server that leads their partition and end with it. Server 1 leads all of them and is not killed,
so that the consumers always have something to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from rota.demo.asking import ClusterObserver
from rota.demo.cast import Cast
from rota.demo.fleet import PARTITIONS, Fleet
from rota.demo.script import Step, is_killed, leaves
from rota.demo.stage import Audience, Result, Settings, Stage

if TYPE_CHECKING:
    from rota.cluster.looking import Image

NAMES = ("ana", "ben", "cleo", "dan", "eva", "finn", "gus", "hana")
SESSION_MS = 10_000
"""Longer than a takeover: a member keeps its partitions meanwhile."""
LEADER = 1
"""The server that leads the topics."""
TARGET = 2
"""The server to which things happen."""


def offsets_partition(group: str) -> int:
    """The partition of `__consumer_offsets` that has a group: Kafka takes Java's hash of its name."""
    code = 0
    for unit in memoryview(group.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return abs(signed) % PARTITIONS if signed != -(1 << 31) else 0


def join(names: Iterable[str]) -> Step:
    """Several consumers start."""
    several = list(names)

    def act(cast: Cast, topics: dict[str, str]) -> None:
        for name in several:
            cast.start(name, frozenset(topics.values()))

    return Step(f"{', '.join(several[:-1])} and {several[-1]} join", act)


class Script:
    """The steps over a fleet. Each is over when the cluster shows that it is."""

    partition = 0
    """Of `__consumer_offsets`, with the group."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._target = fleet.servers[TARGET]

    def steps(self) -> list[Step]:
        """The whole script."""
        return [
            join(NAMES[:4]),
            join(NAMES[4:]),
            self._step(f"the coordinator is moved to server {TARGET}", self._move, self._is_at_target),
            self._step(f"server {TARGET}, the coordinator, is killed", self._kill, self._is_elsewhere),
            self._step(f"server {TARGET} starts again", self._start, self._is_at_target),
            self._step(f"server {TARGET} is paused until another one is the coordinator", self._pause, self._resume),
            is_killed("cleo"),
            self._step("the leader of etcd is killed", self._kill_leader, self._has_new_leader),
            self._step(f"server {TARGET} is drained", self._drain, self._owns_nothing),
            self._step("server 3 is stopped and starts again", self._restart, self._is_back),
            leaves("dan"),
        ]

    def _step(self, title: str, act: Callable[[], None], is_over: Callable[[Image], bool]) -> Step:
        def over() -> bool:
            found = self._fleet.image()
            return found is not None and is_over(found)

        return Step(title, lambda _cast, _names: act(), over)

    def _owner(self, found: Image) -> int | None:
        row = found.partitions[self.partition]
        return row.owner if row.is_held else None

    def _is_at_target(self, found: Image) -> bool:
        return self._owner(found) == TARGET

    def _is_elsewhere(self, found: Image) -> bool:
        return self._owner(found) not in (None, TARGET)

    def _move(self) -> None:
        self._fleet.operator().pin(self.partition, TARGET)

    def _kill(self) -> None:
        self._fleet.kill(self._target)

    def _start(self) -> None:
        self._fleet.start(self._target)

    def _pause(self) -> None:
        self._fleet.pause(self._target)

    def _resume(self, found: Image) -> bool:
        if self._target.status == "paused" and self._is_elsewhere(found):
            self._fleet.resume(self._target)
        # It joins again, and the partition is placed on it.
        return self._target.status == "running" and self._is_at_target(found)

    def _kill_leader(self) -> None:
        leader = self._fleet.etcd_leader()
        if leader is not None:
            self._fleet.kill(leader)

    def _has_new_leader(self, _: Image) -> bool:
        return self._fleet.etcd_leader() is not None and any(each.status == "killed" for each in self._fleet.etcd)

    def _drain(self) -> None:
        for member in self._fleet.etcd:
            if member.child is None:
                self._fleet.start(member)
        self._fleet.operator().drain(TARGET)

    def _owns_nothing(self, found: Image) -> bool:
        return found.owned()[TARGET] == 0 and self._is_elsewhere(found)

    def _restart(self) -> None:
        third = self._fleet.servers[3]
        self._fleet.stop(third)
        self._fleet.start(third)

    def _is_back(self, found: Image) -> bool:
        return found.nodes[3].state == "serving" and self._is_elsewhere(found)


class ClusterStage(Stage):
    """A run over a fleet."""

    settle_within_s = 60.0
    """On a slow machine a takeover outlasts the sessions of members, which then join anew."""
    leave_within_s = 30.0
    """A member commits before it leaves, which waits for a takeover."""
    sessions_may_end = True

    def __init__(self, settings: Settings, fleet: Fleet, audience: Audience) -> None:
        """The processes of the fleet are started by `prepare`."""
        settings = replace(settings, bootstrap_servers=fleet.bootstrap_servers)
        script = Script(fleet)
        super().__init__(settings, None, audience, steps=script.steps(), session_ms=SESSION_MS)
        script.partition = offsets_partition(self.group)
        broker = {"bootstrap.servers": self.bootstrap_servers}
        self.observer = ClusterObserver(fleet.addresses, broker, self.group, self._seen, SESSION_MS)
        self._fleet = fleet

    @property
    def broker(self) -> str:
        """Three servers."""
        return "three servers of rota, three members of etcd"

    @property
    def doing(self) -> str:
        """What the processes are."""
        return " · ".join(f"{process.name} {process.status}" for process in self._fleet.processes())

    def prepare(self) -> None:
        """Start everything: the topics are created while server 1 is alone, so that it leads them."""
        for process in self._fleet.etcd:
            self._fleet.start(process)
        self._fleet.start(self._fleet.servers[LEADER])
        self._fleet.wait_for_owner(LEADER)
        self.tell("script", "three members of etcd and server 1 run; server 1 leads the topics and is not killed")
        self.observer.create(self.topics)
        for node_id, process in self._fleet.servers.items():
            if node_id != LEADER:
                self._fleet.start(process)
                self._fleet.wait_for_node(node_id)

    def clear(self) -> None:
        """Everything ends with the fleet."""

    def accidents(self) -> list[str]:
        """Also of servers and members of etcd."""
        return [*super().accidents(), *self._fleet.accidents()]


def play(settings: Settings, etcd: str, audience: Audience) -> Result:
    """Play the whole script over a new fleet. Raises rota.RotaError if it does not start."""
    with Fleet(etcd) as fleet:
        return ClusterStage(settings, fleet, audience).play()
