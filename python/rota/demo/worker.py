"""One worker of `rota demo --exactly-once`, in a process of its own: `python -m rota.demo.worker`.

It consumes, produces, sends its offsets to the transaction and commits it. It reports on stdout, one JSON object a
line, and ends when stdin ends. In the phase that its order names it kills itself with SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from rota import system

PHASES = ("before produce", "between produce and offsets", "between offsets and commit", "in EndTxn")
BATCH_MAX = 10
POLL_S = 0.2
WITHIN_S = 20.0


def say(kind: str, **fields: Any) -> None:
    """Report one thing that happened."""
    with suppress(BrokenPipeError):
        print(json.dumps({"kind": kind, **fields}), flush=True)


def die() -> None:
    """End as a crash does."""
    system.kill(os.getpid())


class Worker:
    """Copies inputs to outputs, a transaction for each batch."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.outputs: str = order["outputs"]
        self.dies: str | None = order["dies"]
        self.consumer = Consumer(order["consumer"])
        self.producer = Producer(order["producer"])
        self.producer.init_transactions(WITHIN_S)
        self.consumer.subscribe([order["inputs"]])

    def reaches(self, phase: str) -> None:
        """The point of a transaction at which the worker may have to die."""
        if phase == self.dies:
            say("dies", phase=phase)
            die()

    def work(self) -> None:
        """One transaction, if there is something to do."""
        batch = [each for each in self.consumer.consume(BATCH_MAX, POLL_S) if each.error() is None]
        if not batch:
            return
        self.producer.begin_transaction()
        try:
            self.transact(batch)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            say("aborts", reason=error.args[0].name())
            self.producer.abort_transaction(WITHIN_S)
            self.rewind()

    def transact(self, batch: list[Message]) -> None:
        """Results and offsets become visible together, or not at all."""
        self.reaches(PHASES[0])
        for message in batch:
            self.producer.produce(self.outputs, value=message.value())
        self.producer.flush(WITHIN_S)
        self.reaches(PHASES[1])
        ends = {(each.topic(), each.partition()): (each.offset() or 0) + 1 for each in batch}
        offsets = [TopicPartition(str(topic), partition or 0, end) for (topic, partition), end in ends.items()]
        self.producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata(), WITHIN_S)
        self.reaches(PHASES[2])
        if self.dies == PHASES[3]:
            say("dies", phase=PHASES[3])
            # The request is on its way, or its answer is.
            threading.Timer(0.0, die).start()
        self.producer.commit_transaction(WITHIN_S)
        say("committed", count=len(batch))

    def rewind(self) -> None:
        """Read again what the aborted transaction had read."""
        for each in self.consumer.committed(self.consumer.assignment(), WITHIN_S):
            at = each.offset if each.offset >= 0 else OFFSET_BEGINNING
            self.consumer.seek(TopicPartition(each.topic, each.partition, at))


def main() -> None:
    """Run one worker as the first line on stdin says."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # the demo ends its workers
    order = json.loads(sys.stdin.readline())
    over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    worker = Worker(order)
    say("ready")
    while not over.is_set():
        worker.work()
    worker.consumer.close()


if __name__ == "__main__":
    main()
