"""Topics, messages, offsets and members for a test of `rota groups`, and its commands."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from rota.cli import app

WITHIN_S = 30
# An hour ago: a broker deletes messages that are older than its retention.
BASE_MS = int(time.time() - 3_600) * 1_000
LATE = datetime.fromtimestamp(BASE_MS / 1_000 + 5, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
"""5 s after the first message of `Scene.topic`, in UTC."""
NUMBERS = itertools.count()
NOT_YET = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def rota_groups(*arguments: object) -> Ended:
    """`rota groups ...`, within this process."""
    ended = CliRunner().invoke(app, ["groups", *map(str, arguments)])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Ended(ended.exit_code, ended.stdout, ended.stderr)


class Scene:
    """One broker; names that no other test uses."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.group = self.name("group")
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._members: list[Consumer] = []

    @staticmethod
    def name(kind: str) -> str:
        return f"{kind}-{os.getpid()}-{time.time_ns()}-{next(NUMBERS)}"

    def run(self, command: str, *arguments: object) -> Ended:
        return rota_groups(command, "--bootstrap-server", self.bootstrap, *arguments)

    def topic(self, *messages: int) -> str:
        """A topic with so many messages in each partition; the n-th is n * 10 s after the first."""
        topic = self.name("topic")
        [made] = self._admin.create_topics([NewTopic(topic, len(messages), 1)]).values()
        made.result(WITHIN_S)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for partition, count in enumerate(messages):
            for number in range(count):
                producer.produce(topic, b"m", partition=partition, timestamp=BASE_MS + number * 10_000)
        assert producer.flush(WITHIN_S) == 0
        return topic

    def commit(self, topic: str, offsets: Mapping[int, int], metadata: str = "", group: str | None = None) -> None:
        """Committed by a member that leaves: the group is Empty then."""
        told = [TopicPartition(topic, partition, offset, metadata) for partition, offset in offsets.items()]
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group or self.group})

        def is_taken() -> bool:
            try:
                return all(one.error is None for one in consumer.commit(offsets=told, asynchronous=False))
            except KafkaException as error:
                # A broker makes the topic of its offsets when it is asked for the first time.
                if error.args[0].code() not in NOT_YET:
                    raise
                return False

        self.until(is_taken)
        consumer.close()

    def committed(self, topic: str, group: str | None = None) -> dict[int, int]:
        """The committed offsets, asked for by another client."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group or self.group})
        partitions = self._admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
        found = consumer.committed([TopicPartition(topic, index) for index in partitions], timeout=WITHIN_S)
        consumer.close()
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def subscriber(self, topic: str, **settings: object) -> Consumer:
        """A consumer that joins while it is polled."""
        told = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "enable.auto.commit": False}
        consumer = Consumer(told | {name.replace("_", "."): value for name, value in settings.items()})
        self._members.append(consumer)
        consumer.subscribe([topic])
        return consumer

    def member(self, topic: str, **settings: object) -> Consumer:
        """A consumer that has joined and has partitions. It polls no more: its client heartbeats by itself."""
        consumer = self.subscriber(topic, **settings)
        self.until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
        return consumer

    def pair(self, topic: str) -> None:
        """Clients `ana` and `ben` share a topic of one partition, so that one of them has none."""
        members = [self.subscriber(topic, client_id=name) for name in ("ana", "ben")]

        def is_settled() -> bool:
            for member in members:
                member.poll(0.05)
            described = self.run("describe", self.group, "--json")
            if described.code != 0:
                return False
            [group] = described.json
            owned = sorted(len(member["assignment"]) for member in group["members"])
            return (group["state"], owned) == ("Stable", [0, 1])

        self.until(is_settled)

    @staticmethod
    def until(condition: Any) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come to be"

    def leave(self, consumers: Iterable[Consumer]) -> None:
        for consumer in list(consumers):
            consumer.close()
            self._members.remove(consumer)

    def end(self) -> None:
        self.leave(self._members)
