"""Clients of the demo that are no members: one produces, one asks the coordinator about the group."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from rota._rota import RotaError
from rota.demo.cast import now_ms
from rota.demo.evidence import Partition, Snapshot

PRODUCE_EVERY_S = 0.01
DESCRIBE_EVERY_S = 0.15
ANSWER_WITHIN_S = 10.0
REACH_WITHIN_S = 4.0
ASK_AGAIN_S = 0.2
# What goes wrong is known from the answers; the client's own log would only write into the picture.
QUIET = {"log_level": 0}
# The admin client's names of the states, as the protocol writes them.
STATES = {
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": "Dead",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}


class UnreachableError(RotaError):
    """No broker answers at an address."""


class Feed:
    """Produces to every partition in turn until it is stopped."""

    def __init__(self, broker: dict[str, Any], topics: dict[str, int]) -> None:
        """`broker` has the settings of clients of the broker."""
        self.stored = 0
        self.failed: str | None = None
        self._producer = Producer({**QUIET, **broker, "client.id": "feed", "linger.ms": 5})
        self._partitions = [Partition(topic, index) for topic, count in topics.items() for index in range(count)]
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Produce no more, and wait for the answers that are due."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(ANSWER_WITHIN_S)

    def _run(self) -> None:
        for number in itertools.count():
            if self._enough.wait(PRODUCE_EVERY_S):
                break
            topic, index = self._partitions[number % len(self._partitions)]
            self._producer.produce(topic, partition=index, value=str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(0)
        unanswered = self._producer.flush(ANSWER_WITHIN_S)
        if unanswered:
            self.failed = f"{unanswered} messages were never acknowledged"

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.stored += 1
        else:
            self.failed = str(error)


def remove(admin: AdminClient, topics: Iterable[str], group: str, session_ms: int) -> None:
    """Delete topics and a group of killed members, as far as the broker lets us."""
    for deleted in admin.delete_topics(list(topics)).values():
        with suppress(KafkaException, TimeoutError):
            deleted.result(ANSWER_WITHIN_S)
    # The coordinator keeps a consumer that was killed until its session ends, and the group until then.
    deadline_ms = now_ms() + 2 * session_ms
    while not _removed_group(admin, group) and now_ms() < deadline_ms:
        time.sleep(ASK_AGAIN_S)


def _removed_group(admin: AdminClient, group: str) -> bool:
    """Whether asking again is of no use: the group is gone, or will not go."""
    try:
        admin.delete_consumer_groups([group])[group].result(ANSWER_WITHIN_S)
    except KafkaException as refusal:
        return bool(refusal.args[0].code() != KafkaError.NON_EMPTY_GROUP)
    except TimeoutError:
        return True
    return True


class Observer:
    """Asks the coordinator to describe the group, over and over, as any admin client can."""

    def __init__(self, broker: dict[str, Any], group: str, seen: Callable[[Snapshot], None], session_ms: int) -> None:
        """`broker` has the settings of clients; `session_ms` is how long the group may keep a killed member."""
        self._bootstrap_servers = broker["bootstrap.servers"]
        self._session_ms = session_ms
        self._admin = AdminClient({**QUIET, **broker, "client.id": "observer"})
        self.group = group
        self._seen = seen
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(ANSWER_WITHIN_S)

    def reach(self) -> None:
        """Ask whether there is a broker at all. Raises UnreachableError if nothing answers."""
        try:
            self._admin.list_topics(timeout=REACH_WITHIN_S)
        except KafkaException as error:
            raise UnreachableError(
                f"nothing answers at {self._bootstrap_servers}: is a broker running there?"
            ) from error

    def create(self, topics: dict[str, int]) -> None:
        """Create topics (name to number of partitions). Raises KafkaException or TimeoutError if that fails."""
        wanted = [NewTopic(name, count, 1) for name, count in topics.items()]
        for created in self._admin.create_topics(wanted, request_timeout=ANSWER_WITHIN_S).values():
            created.result(ANSWER_WITHIN_S * 2)

    def remove(self, topics: dict[str, int]) -> None:
        """Delete these topics and the group, as far as the broker lets us."""
        remove(self._admin, topics, self.group, self._session_ms)

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets, as a client that is no member reads them."""
        asked = [ConsumerGroupTopicPartitions(self.group)]
        answers = self._admin.list_consumer_group_offsets(asked, require_stable=False)
        found = answers[self.group].result(ANSWER_WITHIN_S).topic_partitions
        return {Partition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _run(self) -> None:
        while not self._enough.wait(DESCRIBE_EVERY_S):
            # Taken before the question: what the consumers said earlier than this, the answer knows.
            asked_ms = now_ms()
            snapshot = self.describe(asked_ms)
            if snapshot is not None:
                self._seen(snapshot)

    def describe(self, asked_ms: float) -> Snapshot | None:
        """The group; None: it does not exist yet, or the broker is busy. The verdict says if something is missing."""
        try:
            answers = self._admin.describe_consumer_groups([self.group], request_timeout=ANSWER_WITHIN_S)
            return _snapshot(asked_ms, answers[self.group].result(ANSWER_WITHIN_S))
        except (KafkaException, TimeoutError):
            return None

    def pause(self) -> None:
        """Wait before a question is asked again."""
        time.sleep(ASK_AGAIN_S)


def _snapshot(asked_ms: float, described: Any) -> Snapshot:
    owners = {
        member.member_id: frozenset(
            Partition(each.topic, each.partition)
            for each in (member.assignment.topic_partitions if member.assignment else ())
        )
        for member in described.members
    }
    name = described.state.name
    return Snapshot(asked_ms, STATES.get(name, name), owners)
