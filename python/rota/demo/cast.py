"""The consumers of the demo as its main process sees them: a process each, a pipe to it and a pipe from it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rota.demo.evidence import Acknowledged, Ended, Evidence, Ownership, Partition, Resumed, told

LEAVE_WITHIN_S = 10.0


def now_ms() -> float:
    """The clock that all processes of the demo share."""
    return time.monotonic() * 1000


@dataclass
class Actor:
    """One consumer: its process, and the last it said about itself."""

    name: str
    process: subprocess.Popen[str]
    topics: frozenset[str]
    status: str = "joining"
    owned: frozenset[Partition] = frozenset()
    heard_ms: float = 0.0
    """When it last said what it owns."""
    commits: int = 0
    generation: int | None = None
    member_id: str = ""
    complaints: list[str] = field(default_factory=list)
    """The last lines of its stderr."""

    @property
    def running(self) -> bool:
        """Whether it is meant to be a member now."""
        return self.status in {"joining", "member"}

    def order(self, *words: str) -> None:
        """Tell it something; a process that has ended does not mind."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(" ".join(words) + "\n")
            self.process.stdin.flush()


class Cast:
    """All consumers of one run. What they say becomes evidence, and news for the viewer."""

    def __init__(
        self,
        config: dict[str, Any],
        short: dict[str, str],
        evidence: Evidence,
        tell: Callable[[str, str], None],
        leave_within_s: float = LEAVE_WITHIN_S,
    ) -> None:
        """`config` is for every consumer's client; `short` has the script's name of a topic by the broker's."""
        self.actors: dict[str, Actor] = {}
        self.short = short
        self._config = config
        self._evidence = evidence
        self._tell = tell
        self._leave_within_s = leave_within_s
        self._threads: list[threading.Thread] = []

    def running(self) -> list[Actor]:
        """The consumers that are meant to be members now."""
        return [actor for actor in self.actors.values() if actor.running]

    def start(self, name: str, topics: frozenset[str]) -> None:
        """Start a consumer in a process of its own."""
        order = {"config": {**self._config, "client.id": name}, "topics": sorted(topics)}
        process = subprocess.Popen(
            [sys.executable, "-m", "rota.demo.consumer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        actor = self.actors[name] = Actor(name, process, topics)
        # Not as an argument: other users of the machine can read those, and there may be a password.
        actor.order(json.dumps(order))
        for listen in (self._listen, self._overhear):
            thread = threading.Thread(target=listen, args=(actor,), name=f"{listen.__name__}-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def leave(self, name: str) -> None:
        """Tell a consumer to leave, and wait for the end of its process."""
        actor = self.actors[name]
        actor.status = "leaving"
        actor.order("leave")
        try:
            actor.process.wait(self._leave_within_s)
            actor.status = "left"
        except subprocess.TimeoutExpired:
            actor.process.kill()
            actor.process.wait()
            actor.status = "stuck"
        self._ended(actor)

    def kill(self, name: str) -> None:
        """End a consumer's process with SIGKILL: it sends no message."""
        actor = self.actors[name]
        actor.status = "killed"
        actor.process.kill()
        actor.process.wait()
        self._ended(actor)

    def subscribe(self, name: str, topics: frozenset[str]) -> None:
        """Tell a consumer to switch to these topics."""
        actor = self.actors[name]
        actor.topics = topics
        actor.order("subscribe", *sorted(topics))

    def accidents(self) -> list[str]:
        """Consumers that ended, or would not end, other than the script says."""
        found = []
        for actor in self.actors.values():
            code = actor.process.poll()
            if actor.running and code is not None:
                why = actor.complaints[-1] if actor.complaints else "it said nothing"
                found.append(f"{actor.name}'s process ended by itself with code {code}: {why}")
            elif actor.status == "left" and code:
                why = actor.complaints[-1] if actor.complaints else "it said nothing"
                found.append(f"{actor.name} was asked to leave and ended with code {code}: {why}")
            elif actor.status == "stuck":
                found.append(f"{actor.name} was asked to leave and had not done so after {self._leave_within_s:.0f} s")
        return found

    def compact(self, partitions: frozenset[Partition]) -> str:
        """Partitions as a person writes them: `orders 0-2 5, payments 1`."""
        indexes: dict[str, list[int]] = {}
        for partition in sorted(partitions):
            indexes.setdefault(self.short[partition.topic], []).append(partition.number)
        return ", ".join(f"{topic} {_ranges(numbers)}" for topic, numbers in indexes.items()) or "nothing"

    def close(self) -> None:
        """End what still runs, and hear out what it said."""
        alive = [actor for actor in self.actors.values() if actor.process.poll() is None]
        for actor in alive:
            actor.order("leave")
        for actor in alive:
            try:
                actor.process.wait(2)
            except subprocess.TimeoutExpired:
                actor.process.kill()
                actor.process.wait()
        for thread in self._threads:
            thread.join(5)
        for actor in self.actors.values():
            for pipe in (actor.process.stdin, actor.process.stdout, actor.process.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def _ended(self, actor: Actor) -> None:
        actor.owned = frozenset()
        actor.heard_ms = now_ms()
        self._evidence.endings.append(Ended(actor.name, actor.heard_ms))

    def _listen(self, actor: Actor) -> None:
        assert actor.process.stdout is not None
        for text in actor.process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # a line that SIGKILL cut short
            self._hear(actor, line)

    def _overhear(self, actor: Actor) -> None:
        assert actor.process.stderr is not None
        for text in actor.process.stderr:
            actor.complaints = [*actor.complaints[-19:], text.rstrip()]

    def _hear(self, actor: Actor, line: dict[str, Any]) -> None:
        match told(actor.name, line):
            case Ownership() as ownership:
                self._evidence.ownerships.append(ownership)
                if actor.running:
                    actor.status = "member"
                    actor.owned = ownership.partitions
                actor.heard_ms = ownership.at_ms
                actor.generation = ownership.generation
                actor.member_id = line.get("member_id", "")
                self._tell(actor.name, f"{line['kind']}: owns {self.compact(ownership.partitions)}")
            case Acknowledged() as commit:
                self._evidence.commits.append(commit)
                actor.commits += 1
            case Resumed() as resumed:
                self._evidence.resumptions.append(resumed)
            case None if line["kind"] in {"refused", "trouble"}:
                what = "a commit met a rebalance and was refused" if line["kind"] == "refused" else "the client says"
                self._tell(actor.name, f"{what}: {line['text']}")


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers, neighbours joined: `0-2 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
