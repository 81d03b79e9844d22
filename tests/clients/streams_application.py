"""An application of Kafka Streams with `exactly_once_v2` that copies its inputs and counts them by word. Readers of
committed messages have to find each input copied once, and each count once."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

import rota
from harness import java

from .eventually import eventually
from .family import HERE, JAVA, JAVA_FLAGS, need
from .reading import read
from .scene import Scene

WITHIN_S = 120
COUNTED_WITHIN_S = 240
"""A busy machine starves Streams: a transaction of more than 10 s is aborted, and its inputs come again."""
PARTITIONS = 2
WORDS = ("tea", "milk", "sugar")
INPUTS = 2_000
"""In one go: more than an instance processes between two commits."""

QUIETER = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]


def _java(jars: Path, options: list[str]) -> list[str]:
    path = ["-cp", f"{jars}/streams.jar:{jars}/lib/*", "rota.streams.Count"]
    return ["java", *JAVA_FLAGS, *options, *QUIETER, *path]


def _run_once(jars: Path) -> None:
    """Lets an instance begin and end, for the archive of its classes."""
    topics = ["inputs", "copies", "counts"]
    with rota.Server() as server, tempfile.TemporaryDirectory() as state:
        for topic in topics:
            server.create_topic(topic, PARTITIONS)
        command = [*_java(jars, java.archived(jars)), server.bootstrap_servers, "once", state, *topics]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            assert program.stderr is not None
            assert any("-> RUNNING" in line for line in program.stderr)
            program.communicate(timeout=WITHIN_S)


class Instance:
    """One instance of the application, in a process of its own."""

    def __init__(self, name: str, bootstrap: str, application: str, room: Path, topics: list[str]) -> None:
        self.name, self.log = name, room / f"{name}.log"
        jars = java.built(HERE / "streams", "clients-streams", _run_once)
        command = [*_java(jars, java.classes(jars)), bootstrap, application, str(room / name), *topics]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> int:
        """Ends it; its exit code."""
        self._process.communicate(timeout=WITHIN_S)
        return self._process.returncode

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process.poll() is not None

    def story(self) -> str:
        """The end of its log."""
        return f"{self.name}: {''.join(self.log.read_text(errors='replace').splitlines(keepends=True)[-40:])}"


class Application:
    """The application, its topics, and what it was given."""

    def __init__(self, scene: Scene, room: Path) -> None:
        self._bootstrap, self._name, self._room = scene.bootstrap, scene.name, room
        self._topics = [scene.topic(PARTITIONS, suffix) for suffix in ("-inputs", "-copies", "-counts")]
        self._inputs: list[str] = []
        self._producer = Producer({"bootstrap.servers": scene.bootstrap, "enable.idempotence": True})
        self.instances: dict[str, Instance] = {}

    def start(self, name: str) -> None:
        """An instance. One that was killed finds the state that it had."""
        self.instances[name] = Instance(name, self._bootstrap, self._name, self._room, self._topics)

    def kill(self, name: str) -> None:
        """Kills an instance and starts it again."""
        self.instances[name].kill()
        self.start(name)

    def stop(self) -> None:
        """Kills what runs."""
        for instance in self.instances.values():
            instance.kill()

    def give(self) -> None:
        """More inputs."""
        for number in range(len(self._inputs), len(self._inputs) + INPUTS):
            self._inputs.append(f"{WORDS[number % len(WORDS)]}-{number}")
            self._producer.produce(self._topics[0], value=self._inputs[-1], partition=number % PARTITIONS)
            self._producer.poll(0)
        assert self._producer.flush(WITHIN_S) == 0

    def copies(self, isolation: str = "read_committed") -> list[str]:
        return read(self._bootstrap, self._topics[1], PARTITIONS, isolation)

    def counts(self) -> list[str]:
        return read(self._bootstrap, self._topics[2], PARTITIONS)

    def is_at_work(self) -> None:
        """Waits until some of the newest inputs are copied."""
        before = len(self._inputs) - INPUTS + self.hidden()
        self._until(lambda: len(self.copies("read_uncommitted")) > before, "a new input is copied")

    def is_done(self) -> None:
        """Waits until every input is copied and counted, and checks that each is so once."""
        total = len(self._inputs)
        self._until(
            lambda: len(self.copies()) >= total and len(self.counts()) >= total,
            "all inputs are counted",
            COUNTED_WITHIN_S,
        )
        assert self.copies() == sorted(f"{each}, copied" for each in self._inputs)
        given = Counter(each.partition("-")[0] for each in self._inputs)
        assert self.counts() == sorted(f"{word}={n}" for word, count in given.items() for n in range(1, count + 1))

    def hidden(self) -> int:
        """The copies that are not committed. Once all is done, killed instances wrote them."""
        return len(self.copies("read_uncommitted")) - len(self.copies())

    def _until(self, look: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        def seen() -> bool:
            ended = [instance for instance in self.instances.values() if instance.has_ended]
            assert not ended, f"an instance ended\n{self.story()}"
            return look()

        eventually(seen, within_s, what, self.story)

    def story(self) -> str:
        return "\n".join(instance.story() for instance in self.instances.values())


@contextmanager
def running(scene: Scene, room: Path) -> Iterator[Application]:
    """An application with two instances. They end well."""
    need(JAVA)
    application = Application(scene, room)
    try:
        application.give()
        for name in ("ana", "ben"):
            application.start(name)
        application.is_done()
        yield application
        codes = {name: instance.close() for name, instance in application.instances.items()}
        assert set(codes.values()) == {0}, f"{codes}\n{application.story()}"
    finally:
        application.stop()
