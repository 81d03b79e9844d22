"""kill -9 of a server in each phase of transactions: after a restart a committed transaction is whole, with its
offsets, and one that was aborted, or still open, shows nothing. `make kill` does 500 rounds.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from harness.brokers import free_port
from tests.clients.reading import committed, consumer, read

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("ROTA_KILLS", "6"))
SEED = int(os.environ.get("ROTA_SEED", "1"))
# On a busy machine.
ROUND_S = 60
WITHIN_S = 60
# A client that waits for a killed server gives up.
GONE_WITHIN_S = 3
TOPIC, SOURCE, GROUP, ID = "sink", "source", "workers", "pay"
PARTITIONS = 2
# After which of its steps a transaction loses its server; "ending" is while the end is on its way.
PHASES = ["begin", "ending", "produced", "ended", "offsets", "ending"]

SERVER = """
import contextlib, sys, threading
import rota
with rota.Server(sys.argv[2], data=sys.argv[1], settings={"group.initial.rebalance.delay.ms": 0}) as server:
    for topic, partitions in (("sink", 2), ("source", 1)):
        with contextlib.suppress(rota.RotaError):  # It is there since an earlier start.
            server.create_topic(topic, partitions)
    print("ready", flush=True)
    threading.Event().wait()
"""


@contextmanager
def served(directory: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """A server process that has said that it is ready."""
    command = [sys.executable, "-c", SERVER, str(directory), f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WITHIN_S)


class Work:
    """What one producer wrote: the values and the offset of every transaction that it ended, and of the last one."""

    def __init__(self, port: int) -> None:
        self.bootstrap = f"127.0.0.1:{port}"
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.offset = -1
        self.open: list[str] = []
        """The values of a transaction whose end was not acknowledged."""
        self.open_offset = -1
        self.decided = False
        """Whether that end was asked for, as a commit."""

    def producer(self) -> Producer:
        # The client does not wait for a server that does not come back.
        settings = {"transactional.id": ID, "message.timeout.ms": 2_000, "socket.timeout.ms": 2_000}
        made = Producer({"bootstrap.servers": self.bootstrap} | settings)
        made.init_transactions(WITHIN_S)
        return made

    def transact(
        self, number: int, commits: bool, after: str, kill: subprocess.Popen[str], chance: random.Random
    ) -> None:
        """Begins, fills and ends a transaction; the server is killed after one of the steps."""

        def step(name: str) -> None:
            if name == after:
                kill.kill()

        producer, asker = self.producer(), consumer(self.bootstrap, GROUP)
        self.open = [f"{number}-{each}" for each in range(6)]
        self.open_offset, self.decided = number + 1, False
        producer.begin_transaction()
        step("begin")
        for at, value in enumerate(self.open):
            producer.produce(TOPIC, value=value, partition=at % PARTITIONS)
        if producer.flush(WITHIN_S) != 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        step("produced")
        offsets = [TopicPartition(SOURCE, 0, self.open_offset)]
        producer.send_offsets_to_transaction(offsets, asker.consumer_group_metadata(), GONE_WITHIN_S)
        step("offsets")
        if after == "ending":
            threading.Timer(chance.uniform(0.0, 0.02), kill.kill).start()
        if commits:
            self.decided = True
            producer.commit_transaction(GONE_WITHIN_S)
            self.committed += self.open
            self.offset = self.open_offset
        else:
            producer.abort_transaction(GONE_WITHIN_S)
            self.aborted += self.open
        self.open = []
        step("ended")
        asker.close()

    def group_offset(self) -> int:
        return max(committed(self.bootstrap, GROUP, SOURCE), -1)

    def check(self) -> None:
        """Compares what readers see with what was promised."""
        # A new producer ends what was open: after it nothing is undecided.
        self.producer()
        values = read(self.bootstrap, TOPIC, PARTITIONS)
        assert len(values) == len(set(values)), f"a message is there twice: {sorted(values)}"
        assert not set(values) & set(self.aborted), "a message of an aborted transaction is there"
        if self.open:
            seen = set(values) & set(self.open)
            if self.decided and seen:
                # The commit was carried out, and its answer was lost with the server.
                self.committed += self.open
                self.offset = self.open_offset
            else:
                assert not seen, f"a transaction that was not committed shows {sorted(seen)}"
                self.aborted += self.open
            self.open = []
        assert sorted(values) == sorted(self.committed)
        assert self.group_offset() == self.offset


@pytest.mark.timeout(max(1_200, ROUNDS * ROUND_S))
def test_a_killed_server_keeps_transactions_whole(tmp_path: Path) -> None:
    chance, port = random.Random(SEED), free_port()
    work = Work(port)
    survived = 0
    for number in range(ROUNDS):
        phase = PHASES[(number + SEED) % len(PHASES)]
        with served(tmp_path / "data", port) as process:
            try:
                work.transact(number, chance.random() < 0.7, phase, process, chance)
                survived += 1
            except KafkaException as gone:
                print(f"round {number}, {phase}: {gone}")
        with served(tmp_path / "data", port):
            work.check()
    print(json.dumps({"rounds": ROUNDS, "acknowledged": survived, "committed": len(work.committed)}))
    assert work.committed, "no transaction was committed"
