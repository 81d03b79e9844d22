"""Three brokers of Apache Kafka that are controllers, too, for `benches.high_availability`. Needs Java 17 and Maven."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benches.cluster import BUSY_S, GROUP, PATIENCE_S, TOPIC, Client
from harness import peer
from harness.brokers import KAFKA, free_port
from harness.raw import NONE, ClosedError, Connection
from rota.demo.fleet import PARTITIONS

SIZE = 3
OFFSETS_TOPIC = "__consumer_offsets"
JVM = {"ROTA_KAFKA_JVM": "-Xmx512m"}
SETTINGS: dict[str, object] = {
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": PARTITIONS,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
}
LOOK_AGAIN_S = 0.2


class KafkaScene:
    """The brokers, with a client. Brokers are named by their places, from 0."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = [free_port() for _ in range(SIZE)]
        self.addresses = [("127.0.0.1", port) for port in self._ports]
        self.client: Client

    @property
    def version(self) -> str:
        """As the jars name it."""
        jars = subprocess.run([KAFKA, "resolve-broker"], check=True, capture_output=True, text=True).stdout.strip()
        (jar,) = Path(jars.removesuffix("/*")).glob("kafka_2.*.jar")
        return "Kafka " + jar.stem.rpartition("-")[2]

    def begin(self, at: int) -> subprocess.Popen[bytes]:
        """Start a broker."""
        voters = ",".join(f"{place + 1}@127.0.0.1:{port + 1}" for place, port in enumerate(self._ports))
        settings = SETTINGS | {"node.id": at + 1, "controller.quorum.voters": voters}
        words = [f"{name}={value}" for name, value in settings.items()]
        command = [str(KAFKA), "start", str(self._ports[at]), str(self._folder / f"k{at}"), *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, env=os.environ | JVM)

    def start(self) -> None:
        """Start all, make the topics, and wait until they are replicated."""
        starting = [self.begin(at) for at in range(SIZE)]
        # All of them: each waits for a majority.
        if sum(each.wait() for each in starting):
            raise RuntimeError(f"a broker did not start: see {self._folder}")
        self._admin = AdminClient({"bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self._ports)})
        rows = [[at % SIZE + 1, (at + 1) % SIZE + 1, (at + 2) % SIZE + 1] for at in range(PARTITIONS)]
        compacted = {"cleanup.policy": "compact", "compression.type": "producer"}
        topics = [
            # All led by the first broker, so that a load needs one address.
            NewTopic(OFFSETS_TOPIC, PARTITIONS, replica_assignment=[[1, 2, 3] for _ in rows], config=compacted),
            NewTopic(TOPIC, PARTITIONS, replica_assignment=rows),
        ]
        for made in self._admin.create_topics(topics).values():
            made.result()
        self.settle()

    def settle(self) -> None:
        """Wait until every replica is in sync."""

        def is_whole() -> bool:
            with suppress(KafkaException):
                names = TopicCollection([OFFSETS_TOPIC])
                (found,) = self._admin.describe_topics(names).values()
                return all(len(partition.isr) == SIZE for partition in found.result().partitions)
            return False

        self._until(is_whole, "every replica is in sync")

    def lead_all(self, at: int) -> None:
        """Make a broker the leader of all partitions of offsets. Only the first one can be."""
        assert at == 0
        self.settle()
        places = [TopicPartition(OFFSETS_TOPIC, number) for number in range(PARTITIONS)]

        def is_led() -> bool:
            with suppress(KafkaException):
                self._admin.elect_leaders(ElectionType.PREFERRED, places).result()
            return self.coordinator() == 0

        self._until(is_led, "the first broker leads")

    def coordinator(self) -> int | None:
        """The broker that coordinates the group; None: no broker says so."""
        for address in self.addresses:
            with suppress(OSError, ClosedError), Connection(address, 1.0) as connection:
                error, node, _ = peer.found(connection.ask(peer.find(GROUP)))
                if error == NONE:
                    return node - 1
        return None

    def pid(self, at: int) -> int:
        """Process id of a broker."""
        return int((self._folder / f"k{at}" / "broker.pid").read_text())

    def pids(self) -> list[int]:
        """Process ids of all brokers."""
        return [self.pid(at) for at in range(SIZE)]

    def stop(self) -> float:
        """The longest pause while the coordinator ends with SIGTERM."""
        at, began_s = self._busy(), time.monotonic()
        subprocess.run([KAFKA, "stop", str(self._folder / f"k{at}")], check=True)
        self.client.first_after(time.monotonic())
        pause_ms = self.client.longest_pause_ms(began_s, time.monotonic())
        self.begin(at).wait()
        return pause_ms

    def kill(self) -> float:
        """From `kill -9` of the coordinator to the first commit."""
        at, took_ms = self._until_a_commit_after(signal.SIGKILL)
        self.begin(at).wait()
        return took_ms

    def pause(self) -> float:
        """From SIGSTOP of the coordinator to the first commit."""
        at, took_ms = self._until_a_commit_after(signal.SIGSTOP)
        os.kill(self.pid(at), signal.SIGCONT)
        return took_ms

    def _until_a_commit_after(self, number: signal.Signals) -> tuple[int, float]:
        """Send the coordinator a signal. Returns the broker, and milliseconds to the first commit."""
        at, began_s = self._busy(), time.monotonic()
        os.kill(self.pid(at), number)
        return at, (self.client.first_after(began_s) - began_s) * 1_000

    def _busy(self) -> int:
        """The coordinator, when all is well and the client has committed for a while."""
        self.lead_all(0)
        self.client.first_after(time.monotonic() + BUSY_S)
        return 0

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")
            threading.Event().wait(LOOK_AGAIN_S)

    def close(self) -> None:
        """End the brokers."""
        for at in range(SIZE):
            with suppress(OSError, ValueError):
                os.kill(self.pid(at), signal.SIGKILL)


@contextmanager
def kafka_scene() -> Iterator[KafkaScene]:
    """Brokers that answer, with a client."""
    with tempfile.TemporaryDirectory(prefix="rota-kafka-", ignore_cleanup_errors=True) as folder:
        scene = KafkaScene(Path(folder))
        try:
            scene.start()
            scene.client = Client(scene.addresses)
            try:
                scene.client.first_after(time.monotonic())
                yield scene
            finally:
                scene.client.close()
        finally:
            scene.close()
