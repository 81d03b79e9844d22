"""Exactly once on three servers over an engine, while those that coordinate the transactions are killed, paused and
drained.

Workers copy numbered inputs in transactions: consume, produce, send offsets, commit. Messages are in the memory of the
server that leads their partition, so that one is spared; every other one coordinates transactions and groups.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka as librdkafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rota
from harness import postgres
from rota.cluster import EngineAccess
from rota.cluster.looking import image
from tests.clients.eventually import eventually
from tests.server.cluster_on_engines import TRANSACTION_PARTITIONS, TTL_MS, Fleet

INPUTS, OUTPUTS, GROUP = "inputs", "outputs", "copiers"
WORKERS = 3
WITHIN_S = 90.0
BATCH = 20
STILL_S = 20.0
FAULTS = ("kill", "pause", "drain", "kill")
INPUTS_MIN = 100
LOGINS = {"ana": "correct-horse", "rota": "battery-staple"}  # of servers of this test only


class Scene:
    """The fleet, and which partitions the server leads that is spared."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in fleet.ports)
        self.client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **fleet.client}
        operator = eventually(self._operator, WITHIN_S, "there is a cluster", fleet.logs)
        assert operator is not None
        self.operator = operator
        eventually(lambda: len(set(self.owners())) == 3, WITHIN_S, "each server coordinates transactions", fleet.logs)
        self.admin = AdminClient(self.client)
        for topic in (INPUTS, OUTPUTS):
            eventually(partial(self._make, topic), WITHIN_S, f"{topic} is there", fleet.logs)
        leaders = image(self.operator).topics
        inputs, outputs = leaders[INPUTS] or [], leaders[OUTPUTS] or []
        self.spared = inputs[0]
        #: Of inputs and of outputs, for each worker.
        self.partitions = list(
            zip(*([at for at, node in enumerate(of) if node == self.spared] for of in (inputs, outputs)), strict=True)
        )

    def _operator(self) -> rota._rota.EngineOperator | None:
        with suppress(rota.NotFoundError):
            return rota._rota.EngineOperator(self.fleet.engine, EngineAccess().arguments(), 1_000)
        return None

    def _make(self, topic: str) -> bool:
        with suppress(librdkafka.KafkaException):
            self.admin.create_topics([NewTopic(topic, 3 * WORKERS, 1)])[topic].result(10)
        return topic in image(self.operator).topics

    def owners(self) -> list[int | None]:
        """The owners of the partitions of `__transaction_state`."""
        rows = image(self.operator).transactions
        return [row.owner if row.is_held else None for row in rows]

    def coordinators(self) -> list[int | None]:
        """Who coordinates each worker's transactional id."""
        return self.owners()[:WORKERS]

    def victim(self) -> int:
        """A server that coordinates a worker's transactions and is not spared."""

        def look() -> list[int]:
            return [node for node in self.coordinators() if node is not None and node != self.spared]

        return eventually(look, WITHIN_S, "a server that may be killed coordinates", lambda: repr(self.coordinators()))[
            0
        ]


def name(number: int) -> str:
    """A transactional id that no other worker shares a partition with."""
    names = (f"copier-{at}" for at in itertools.count())
    return next(each for each in names if rota._rota.partition_for(each, TRANSACTION_PARTITIONS) == number)


class Worker:
    """Copies the inputs of one partition, whatever happens, until `stopping` is set.

    librdkafka 2.16.0 can wait for ever in send_offsets_to_transaction if its group's coordinator leaves the metadata.
    A worker that stands still is replaced, and its transactional id fences the one before.
    """

    def __init__(self, scene: Scene, number: int) -> None:
        self.scene, self.number = scene, number
        self.source, self.target = scene.partitions[number]
        self.copied = self.replaced = 0
        self.stopping = threading.Event()
        self.moved_at = time.monotonic()
        self.begin()

    def begin(self) -> None:
        self.stopping.set()
        self.stopping = threading.Event()
        self.moved_at = time.monotonic()
        threading.Thread(target=self.run, args=(self.stopping,), daemon=True).start()

    def watch(self) -> None:
        if time.monotonic() - self.moved_at > STILL_S:
            self.replaced += 1
            self.begin()

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with suppress(librdkafka.KafkaException), self.client() as (producer, consumer):
                while not stopping.is_set():
                    self.copy(producer, consumer)

    @contextmanager
    def client(self) -> Iterator[tuple[librdkafka.Producer, librdkafka.Consumer]]:
        common = self.scene.client
        producer = librdkafka.Producer(
            {**common, "transactional.id": name(self.number), "transaction.timeout.ms": 10_000}
        )
        producer.init_transactions(10)
        consumer = librdkafka.Consumer(
            {
                **common,
                "group.id": f"{GROUP}-{self.number}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            committed = consumer.committed([librdkafka.TopicPartition(INPUTS, self.source)], 10)[0]
            consumer.assign([librdkafka.TopicPartition(INPUTS, self.source, max(committed.offset, 0))])
            yield producer, consumer
        finally:
            consumer.close()

    def copy(self, producer: librdkafka.Producer, consumer: librdkafka.Consumer) -> None:
        messages = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
        if messages:
            producer.begin_transaction()
            for message in messages:
                producer.produce(OUTPUTS, message.value(), partition=self.target)
            after = librdkafka.TopicPartition(INPUTS, self.source, (messages[-1].offset() or 0) + 1)
            # An error of unknown outcome: a new producer ends what is open, and begins at the committed offset.
            producer.send_offsets_to_transaction([after], consumer.consumer_group_metadata(), 10)
            producer.commit_transaction(10)
            self.copied += len(messages)
            self.moved_at = time.monotonic()


class Feeder:
    """Writes numbered inputs into the partitions of all workers."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.count = scene, 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        producer = librdkafka.Producer({**self.scene.client, "enable.idempotence": True})
        while not self.stopping.wait(0.02):
            for source, _ in self.scene.partitions:
                producer.produce(INPUTS, str(self.count).encode(), partition=source)
            self.count += 1
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0


def strike(scene: Scene, fault: str) -> None:
    """One fault of the server that coordinates, which is over when this returns."""
    victim = scene.victim()
    process, ttl_s = scene.fleet.servers[victim - 1], TTL_MS / 1_000
    match fault:
        case "kill":
            process.kill()
            time.sleep(2 * ttl_s)
            process.start()
        case "pause":
            process.signal(signal.SIGSTOP)
            time.sleep(3 * ttl_s)
            process.signal(signal.SIGCONT)
        case "drain":
            scene.fleet.operate("drain", str(victim))
            scene.fleet.operate("undrain", str(victim))


def outputs(scene: Scene, target: int) -> list[int]:
    """What a reader of committed records sees, in order."""
    reader = librdkafka.Consumer(
        {
            **scene.client,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.assign([librdkafka.TopicPartition(OUTPUTS, target, 0)])
    found = []
    try:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            message = reader.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(int(message.value() or b""))
            elif error.code() == librdkafka.KafkaError._PARTITION_EOF:
                return found
    finally:
        reader.close()
    raise AssertionError(f"the end of {OUTPUTS}-{target} is not reached")


def copied_once(fleet: Fleet, faults: Sequence[str], inputs: int) -> None:
    """Workers copy while these faults happen, and at least so many inputs of each: a reader counts every input once."""
    scene = Scene(fleet)
    feeder = Feeder(scene)
    feeder.thread.start()
    workers = [Worker(scene, number) for number in range(WORKERS)]

    def all_copied(wanted: list[int]) -> bool:
        for worker in workers:
            worker.watch()
        return all(worker.copied >= count for worker, count in zip(workers, wanted, strict=True))

    try:
        for fault in faults:
            wanted = [worker.copied + 1 for worker in workers]
            strike(scene, fault)
            eventually(partial(all_copied, wanted), WITHIN_S, f"all workers copy after {fault}", fleet.logs)
        eventually(lambda: feeder.count > inputs, WITHIN_S, "there are inputs")
    finally:
        feeder.stopping.set()
        feeder.thread.join()
    try:
        # A commit without an answer may be one.
        eventually(
            lambda: all_copied([feeder.count] * WORKERS) or _seen(scene, feeder.count),
            WITHIN_S,
            "all is copied",
            fleet.logs,
        )
    finally:
        for worker in workers:
            worker.stopping.set()
    for _, target in scene.partitions:
        assert Counter(outputs(scene, target)) == Counter(range(feeder.count))
    print(f"{feeder.count} inputs of each of {WORKERS} workers, replaced {[each.replaced for each in workers]}")


pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("cluster-on-etcd")]
needs_etcd = pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)")


@needs_etcd
def test_every_input_counts_once_whatever_happens_to_the_coordinators(tmp_path: Path) -> None:
    with Fleet(tmp_path, "etcd") as fleet:
        copied_once(fleet, FAULTS, INPUTS_MIN)


@pytest.mark.skipif(not postgres.is_installed(), reason="PostgreSQL is not installed (Debian: postgresql)")
def test_so_it_is_on_postgresql_with_reads_that_trust_no_clock(tmp_path: Path) -> None:
    with Fleet(tmp_path, "postgresql", options=["--reads", "fenced"]) as fleet:
        copied_once(fleet, ["kill", "drain"], INPUTS_MIN)


def secured(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Options of servers that have a listener with TLS and users only, and what clients need."""
    authority = rota.Authority()
    server = authority.issue("127.0.0.1")
    files = {
        "ca.pem": authority.certificate,
        "server.pem": server.certificate + server.key,
        "users": "".join(f"{line}\n" for user in LOGINS.items() for line in rota._rota.user_lines(*user)),
        "password": LOGINS["rota"],
        "acls": "".join(f"ALLOW User:ana * ALL {kind} LITERAL *\n" for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID"))
        + "ALLOW User:rota * CLUSTER_ACTION CLUSTER LITERAL kafka-cluster\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    options = ["--tls-cert", "server.pem", "--users", "users", "--acls", "acls", "--peer-ca", "ca.pem"]
    options += ["--peer-password-file", "password"]
    options = [word if word.startswith("--") else str(folder / word) for word in options] + ["--peer-user", "rota"]
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ana", "sasl.password": LOGINS["ana"]}
    return options, {"security.protocol": "SASL_SSL", "ssl.ca.pem": authority.certificate, **login}


@needs_etcd
def test_so_it_is_with_servers_that_have_tls_and_users_only(tmp_path: Path) -> None:
    options, client = secured(tmp_path)
    with Fleet(tmp_path, "etcd", protocol="SASL_SSL", options=options, client=client) as fleet:
        copied_once(fleet, ["kill"], INPUTS_MIN)
        assert "transactions wait for" not in fleet.logs()


def _seen(scene: Scene, count: int) -> bool:
    """Whether all outputs are there: a commit whose answer was lost is not counted by its worker."""
    return all(len(outputs(scene, target)) >= count for _, target in scene.partitions)
