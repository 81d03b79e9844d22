"""One run of the demo: sets the stage, plays the script, asks for the verdict."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import KafkaException

from rota import NotFoundError
from rota.demo.cast import LEAVE_WITHIN_S, Cast, now_ms
from rota.demo.evidence import Checkpoint, Evidence, Snapshot
from rota.demo.script import STEPS, TOPICS, Step
from rota.demo.verdict import Verdict, checkpoint_faults, judge
from rota.demo.witness import Feed, Observer

if TYPE_CHECKING:
    from rota import Explanation
    from rota.server import Server

SESSION_MS = 6_000
REDRAW_EVERY_S = 0.1


@dataclass(frozen=True)
class News:
    """One line of what happened, `at_s` seconds after the start."""

    at_s: float
    who: str
    text: str


@dataclass(frozen=True)
class Settings:
    """What a person can choose."""

    duration_s: float = 30.0
    assignor: str = "cooperative-sticky"
    bootstrap_servers: str | None = None
    """An existing broker to run against; None starts a rota server for the run."""
    etcd: str | None = None
    """The path of etcd, for a run over several servers."""
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What librdkafka needs for TLS and SASL."""


class Audience(Protocol):
    """The observer; called from the main thread only."""

    def look(self, stage: Stage) -> None:
        """Something may have changed."""


@dataclass
class Result:
    """How the run went. `failures` is empty if everything that the demo promises was seen to hold."""

    failures: list[str]
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all was well."""
        return not self.failures


class Stage:
    """Everything that exists during one run."""

    settle_within_s = 30.0
    leave_within_s = LEAVE_WITHIN_S
    sessions_may_end = False
    """Whether a live member's session may end by what the script does to the servers."""

    def __init__(
        self,
        settings: Settings,
        server: Server | None,
        audience: Audience,
        *,
        steps: Sequence[Step] = STEPS,
        session_ms: int = SESSION_MS,
    ) -> None:
        """`server` is the rota server that the run uses; None if it uses another broker."""
        run = "" if server is not None else f"rota-demo-{uuid.uuid4().hex[:8]}-"
        self.settings = settings
        self.server = server
        self.steps = steps
        self.bootstrap_servers = server.bootstrap_servers if server is not None else str(settings.bootstrap_servers)
        self.group = f"{run}roster"
        self.names = {topic: f"{run}{topic}" for topic in TOPICS}
        self.topics = {self.names[topic]: count for topic, count in TOPICS.items()}
        self.evidence = Evidence()
        self.news: deque[News] = deque()
        self.step = "setting the stage"
        self.explanation: Explanation | None = None
        self.causes: dict[tuple[int, str, str], str] = {}
        self.began_ms = now_ms()
        self._audience = audience
        self._changed = threading.Event()
        broker = {"bootstrap.servers": self.bootstrap_servers, **settings.security}
        config = {
            **broker,
            "group.id": self.group,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": settings.assignor,
        }
        short = {name: topic for topic, name in self.names.items()}
        self.cast = Cast(config, short, self.evidence, self.tell, self.leave_within_s)
        self.feed = Feed(broker, self.topics)
        self.observer = Observer(broker, self.group, self._seen, session_ms)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return (now_ms() - self.began_ms) / 1000

    @property
    def broker(self) -> str:
        """What the consumers share their partitions with."""
        return "rota" if self.server is not None else self.bootstrap_servers

    @property
    def snapshot(self) -> Snapshot | None:
        """The last description of the group."""
        return self.evidence.snapshots[-1] if self.evidence.snapshots else None

    def tell(self, who: str, text: str) -> None:
        """Add a line to the news; any thread may."""
        self.news.append(News(self.elapsed_s, who, text))
        self._changed.set()

    @property
    def doing(self) -> str:
        """What the coordinator does, or what there is beside the consumers."""
        return str(self.explanation) if self.explanation else ""

    def prepare(self) -> None:
        """Make everything ready for the first consumer."""
        if self.server is None:
            self.observer.reach()
        self.observer.create(self.topics)

    def clear(self) -> None:
        """Leave nothing behind on a broker of the user."""
        if self.server is None:
            self.observer.remove(self.topics)

    def accidents(self) -> list[str]:
        """Processes that ended other than the script says."""
        return self.cast.accidents()

    def play(self) -> Result:
        """Play the whole script, and leave nothing behind on a broker of the user.

        Raises rota.RotaError if no broker answers, KafkaException or TimeoutError if it will not create the topics.
        """
        self.prepare()
        try:
            failures = self._perform()
        finally:
            self.clear()
        if self.feed.failed:
            failures.append(f"producing failed: {self.feed.failed}")
        titles = [step.title for step in self.steps]
        verdict = judge(self.evidence, self.topics, titles, sessions_may_end=self.sessions_may_end)
        failures += verdict.failures
        self.step = "done" if not failures else "failed"
        for overlap in verdict.lost_late:
            self.tell("script", f"its session had ended, and the first learned of it late: {overlap}")
        self._look()
        return Result(failures, self._summary(failures, verdict))

    def _perform(self) -> list[str]:
        failures: list[str] = []
        try:
            self.feed.start()
            self.observer.start()
            self._play_steps()
            self.step = "everybody leaves"
            for actor in self.cast.running():
                self.cast.leave(actor.name)
                self._look()
            failures += self.accidents()
        finally:
            self.feed.stop()
            self.observer.stop()
            self.cast.close()
        self.step = "reading the commits back"
        try:
            self.evidence.committed = self.observer.committed()
        except (KafkaException, TimeoutError) as error:
            failures.append(f"the commits could not be read back: {error}")
        return failures

    def _play_steps(self) -> None:
        beat_s = self.settings.duration_s / (len(self.steps) + 1)
        for number, step in enumerate(self.steps):
            self._wait(beat_s * number)
            self.step = step.title
            self.tell("script", step.title)
            if not self._settles(step):
                return
        self._wait(self.settings.duration_s)

    def _settles(self, step: Step) -> bool:
        """Let one thing happen and wait until the group has settled; records the checkpoint, settled or not."""
        acted_ms = began_ms = now_ms()
        step.act(self.cast, self.names)
        deadline_ms = now_ms() + self.settle_within_s * 1000
        settled = is_over = False
        while not settled and now_ms() < deadline_ms and not self.accidents():
            self._wait_for_news()
            if not is_over:
                # What the coordinator says counts from here on.
                is_over, began_ms = step.is_over(), now_ms()
                continue
            checkpoint = self._checkpoint(step)
            described = checkpoint.by_coordinator
            heard_ms = max((actor.heard_ms for actor in self.cast.actors.values()), default=began_ms)
            settled = (
                described is not None
                and described.at_ms > max(began_ms, heard_ms)
                and not any(checkpoint_faults(checkpoint, self.topics))
            )
        if not settled:
            checkpoint = self._checkpoint(step)
        self.evidence.checkpoints.append(checkpoint)
        took_s = (now_ms() - acted_ms) / 1000
        self.tell("script", f"settled after {took_s:.1f} s" if settled else f"not settled after {took_s:.1f} s")
        return settled

    def _checkpoint(self, step: Step) -> Checkpoint:
        running = self.cast.running()
        return Checkpoint(
            step.title,
            {actor.name: actor.topics for actor in running},
            {actor.name: actor.owned for actor in running},
            self.snapshot,
        )

    def _seen(self, snapshot: Snapshot) -> None:
        """The observer's thread: the coordinator was asked, and a rota server says why as well."""
        self.evidence.snapshots.append(snapshot)
        if self.server is not None:
            try:
                self.explanation = self.server.explain(self.group)
            except NotFoundError:
                self.explanation = None
            for rebalance in self.explanation.rebalances if self.explanation else ():
                key = (rebalance.began_ms, rebalance.cause, rebalance.member_id)
                if key not in self.causes:
                    self.tell("rota", f"rebalance {rebalance}")
                self.causes[key] = str(rebalance)
        self._changed.set()

    def _wait(self, until_s: float) -> None:
        """Let the group run on until so many seconds after the start."""
        while self.elapsed_s < until_s and not self.accidents():
            self._wait_for_news()

    def _wait_for_news(self) -> None:
        self._changed.wait(REDRAW_EVERY_S)
        self._changed.clear()
        self._look()

    def _look(self) -> None:
        self._audience.look(self)

    def _summary(self, failures: list[str], verdict: Verdict) -> dict[str, Any]:
        return {
            "ok": not failures,
            "failures": failures,
            "broker": self.broker,
            "assignor": self.settings.assignor,
            "duration_s": round(self.elapsed_s, 1),
            "members": {actor.name: actor.status for actor in self.cast.actors.values()},
            "partitions": sum(self.topics.values()),
            "generations": list(verdict.generations),
            "rebalances": list(self.causes.values()),
            "lost_late": list(verdict.lost_late),
            "stable_descriptions": verdict.stable_snapshots,
            "messages_stored": self.feed.stored,
            "commits_acknowledged": len(self.evidence.commits),
            "committed": {str(partition): offset for partition, offset in sorted(self.evidence.committed.items())},
        }
