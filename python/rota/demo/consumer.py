"""One consumer of the demo, in a process of its own so that it can be killed. `python -m rota.demo.consumer`.

It reports on stdout, one JSON object a line, and takes orders on stdin, one a line: `subscribe TOPIC ...`, `leave`.
The end of stdin means leave, so that no consumer outlives the demo; one that cannot leave, because its broker is gone
as well, ends all the same.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, Message, TopicPartition

COMMIT_EVERY_MS = 400
LEAVE_WITHIN_S = 5.0
# The client says which generation it joined only in its debug log.
GENERATION = re.compile(r"JoinGroup response: GenerationId (\d+)")


def now_ms() -> float:
    """The clock that all processes of the demo share."""
    return time.monotonic() * 1000


def say(kind: str, **fields: Any) -> None:
    """Report one thing that happened. If the parent is gone, stdin has ended too, which ends this process."""
    with suppress(BrokenPipeError):
        print(json.dumps({"kind": kind, "at_ms": now_ms(), **fields}), flush=True)


class Generations(logging.Handler):
    """Reads the generation out of the client's debug log."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.current: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the generation of the last JoinGroup that succeeded."""
        if found := GENERATION.search(record.getMessage()):
            self.current = int(found[1])


class Witness:
    """A consumer that polls, commits what it read, and reports each assignment, commit and first read."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.generations = Generations()
        logger = logging.getLogger("rota.demo.client")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self.generations)
        self.cooperative = config["partition.assignment.strategy"].startswith("cooperative")
        self.consumer = Consumer(
            {**config, "enable.auto.commit": False, "auto.offset.reset": "earliest", "debug": "cgrp"}, logger=logger
        )
        self.since_ms: dict[tuple[str, int], float] = {}  # what it owns, and since when
        self.position: dict[tuple[str, int], int] = {}  # the next offset to read
        self.committed: dict[tuple[str, int], int] = {}

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to exactly these topics from now on."""
        self.consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        say("subscribed", topics=topics)

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """The client's callback: these are ours now (cooperative: these too)."""
        if not self.cooperative:
            self.forget(list(self.since_ms))
        for partition in partitions:
            self.since_ms[partition.topic, partition.partition] = now_ms()
        self.say_owned("assigned")

    def revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """The client's callback: commit what was read of these, then let go of them."""
        self.commit()
        self.forget([(partition.topic, partition.partition) for partition in partitions])
        self.say_owned("revoked")

    def lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """The client's callback: these went to others already, nothing may be committed."""
        self.forget([(partition.topic, partition.partition) for partition in partitions])
        self.say_owned("lost")

    def forget(self, partitions: list[tuple[str, int]]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            for known in (self.since_ms, self.position, self.committed):
                known.pop(partition, None)

    def say_owned(self, kind: str) -> None:
        """Report all that is owned now."""
        say(kind, owned=sorted(self.since_ms), generation=self.generations.current, member_id=self.consumer.memberid())

    def read(self, message: Message) -> None:
        """Take in one message."""
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                say("trouble", text=str(error))
            if error.code() == KafkaError.NOT_COORDINATOR:
                self.ask_again()
            return
        topic, index, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None, "a message without an error has a topic"
        assert index is not None, "and a partition"
        assert offset is not None, "and an offset"
        if (topic, index) not in self.since_ms:
            return
        if (topic, index) not in self.position:
            say("resumed", position=[topic, index, offset], since_ms=self.since_ms[topic, index])
        self.position[topic, index] = offset + 1

    def ask_again(self) -> None:
        """Let the client ask once more where to begin.

        It does not by itself if the coordinator moved before it answered: it reads nothing of these partitions, and the
        next rebalance never ends for it (librdkafka issue 5586).
        """
        waiting = [TopicPartition(*partition) for partition in self.since_ms if partition not in self.position]
        if waiting and self.cooperative:
            self.consumer.incremental_unassign(waiting)
            self.consumer.incremental_assign(waiting)
        elif waiting:
            at = {partition: self.position.get(partition, OFFSET_STORED) for partition in self.since_ms}
            self.consumer.assign([TopicPartition(*partition, offset) for partition, offset in at.items()])

    def commit(self) -> None:
        """Commit what was read since the last time, and report what the coordinator acknowledged."""
        unsaved = [
            TopicPartition(topic, index, offset)
            for (topic, index), offset in self.position.items()
            if self.committed.get((topic, index)) != offset
        ]
        if not unsaved:
            return
        try:
            answers = self.consumer.commit(offsets=unsaved, asynchronous=False)
        except KafkaException as refusal:
            # A commit that meets a rebalance is refused; the next owner reads these messages again.
            say("refused", text=refusal.args[0].name())
            return
        for answer in answers or ():
            if answer.error is not None:
                say("refused", text=answer.error.name())
                continue
            self.committed[answer.topic, answer.partition] = answer.offset
            say("committed", position=[answer.topic, answer.partition, answer.offset])

    def run(self, orders: SimpleQueue[list[str]]) -> None:
        """Poll and commit until told to leave."""
        commit_due_ms = now_ms() + COMMIT_EVERY_MS
        while True:
            try:
                order, *words = orders.get_nowait()
            except Empty:
                order, words = "", []
            if order == "leave":
                break
            if order == "subscribe":
                self.subscribe(words)
            message = self.consumer.poll(0.1)
            if message is not None:
                self.read(message)
            if now_ms() >= commit_due_ms:
                self.commit()
                commit_due_ms = now_ms() + COMMIT_EVERY_MS
        self.consumer.close()  # runs `revoked`, and sends LeaveGroup
        say("left")


def listen(orders: SimpleQueue[list[str]]) -> None:
    """Turn stdin into orders; its end is the order to leave, and soon the end of this process."""
    for line in sys.stdin:
        orders.put(line.split())
    orders.put(["leave"])
    # A commit, or the good-bye itself, waits for a broker; if that is gone, no process would end this one.
    threading.Event().wait(LEAVE_WITHIN_S)
    os._exit(1)


def main() -> None:
    """Run one consumer as the first line on stdin says: {"config": {...}, "topics": [...]}."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # both are the demo's to handle: it tells its consumers to leave
    order = json.loads(sys.stdin.readline())
    orders: SimpleQueue[list[str]] = SimpleQueue()
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    code = 0
    try:
        witness = Witness(order["config"])
        witness.subscribe(order["topics"])
        witness.run(orders)
    except BaseException:
        code = 1
        with suppress(BrokenPipeError):
            traceback.print_exc()
    # Not by returning: the client's destructor may wait for a broker that is gone, when no thread can end us any more.
    os._exit(code)


if __name__ == "__main__":
    main()
