"""DeleteRecords: which records of a partition are gone, and what readers are answered then. Each row has topics of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rota.codec import Fields
from rota.conform.batches import batch
from rota.conform.probes.committed import PLAIN, Partition, on_own_topic
from rota.conform.probes.talk import probe
from rota.conform.rows import Row
from rota.conform.subject import error_name

VERSIONS = (0, 1, 2)
HIGH_WATERMARK = -1
OFFSET_OUT_OF_RANGE = 1
PLAIN_RECORDS = 0


def _delete(on: Partition, offset: int, version: int = 2, topic: str = "", index: int = 0) -> None:
    """Evidence: the answer to DeleteRecords."""
    topics = [{"name": topic or on.topic, "partitions": [{"partition_index": index, "offset": offset}]}]
    told = on.ask("DeleteRecords", version, {"topics": topics, "timeout_ms": 5_000})["topics"]
    parts = [
        f"{error_name(part['error_code'])} {part['low_watermark']}" for each in told for part in each["partitions"]
    ]
    where = on.talk.named(topic or on.topic)
    on.talk.show(f"DeleteRecords v{version} of {where}-{index} below {offset}", *parts)


def _look(on: Partition, *offsets: int) -> None:
    """Evidence: the ends of the partition, and what is read from these offsets."""
    for isolation in (0, 1):
        # Kafka answers "newest" with offsets that are deleted, too.
        times = {says: what for says, what in on.times().items() if says != "newest"}
        ends = [f"{says}: {on.offset(7, what, isolation)['offset']}" for says, what in times.items()]
        lines = [f"from {at}: {on.shown(on.fetch(12, at, isolation))}" for at in offsets]
        on.talk.show(f"readers of isolation level {isolation}", *ends, *lines)


def _plain(on: Partition) -> None:
    for _ in range(5):
        on.write()
    for version in VERSIONS:
        _delete(on, version + 1, version)
    _look(on, 2, 3)
    for offset in (3, 1, 0, -2, 6):
        _delete(on, offset)
    _delete(on, 1, index=99)
    _delete(on, 1, topic=f"{on.topic}-nosuch")
    _delete(on, 1, topic="__consumer_offsets")
    _delete(on, 5)
    _look(on, 4, 5)
    on.write()
    _delete(on, HIGH_WATERMARK)
    _look(on, 5, 6)
    on.write()
    _look(on, 6)


def _within_a_batch(on: Partition) -> None:
    """A batch whose first records are gone is read whole."""
    records = batch(*PLAIN, -1, PLAIN_RECORDS, 4, on.records_ms)
    part = {"name": on.topic, "partition_data": [{"index": 0, "records": records}]}
    on.ask("Produce", 9, {"acks": -1, "timeout_ms": 5_000, "topic_data": [part]})
    on.write()
    _delete(on, 2)
    _look(on, 1, 2, 3)


def _in_a_transaction(on: Partition) -> None:
    """Records of an open transaction can be deleted; its marker comes later."""
    of = on.producer("x")
    on.write()
    on.add_and_write(of)
    on.write()
    _delete(on, 2)
    _look(on, 1, 2)
    _delete(on, HIGH_WATERMARK)
    _look(on, 3)
    of.end(3, of.producer, is_commit=False)
    of.described()
    _look(on, 3)
    on.write()
    _look(on, 3)


def _by_policy(on: Partition) -> None:
    """Whether records may be deleted, by the topic's cleanup.policy."""
    for at, policy in enumerate(("compact", "compact,delete", "delete")):
        name = f"{on.topic}-{at}"
        configs = [{"name": "cleanup.policy", "value": policy}]
        on.create_topic(name, configs)
        _delete(on, 0, topic=name)
        _delete(on, 1, topic=name)
        on.delete_topic(name)


def _asked_twice(on: Partition) -> None:
    """A partition, and a topic, named twice in a request."""
    on.write()
    on.write()
    parts = [{"partition_index": 0, "offset": offset} for offset in (1, 2)]
    plans: dict[str, list[Fields]] = {
        "a partition twice": [{"name": on.topic, "partitions": parts}],
        "a topic twice": [{"name": on.topic, "partitions": [part]} for part in parts],
    }
    for says, topics in plans.items():
        told = on.ask("DeleteRecords", 2, {"topics": topics, "timeout_ms": 5_000})["topics"]
        found = [
            f"{part['partition_index']} {error_name(part['error_code'])} {part['low_watermark']}"
            for each in told
            for part in each["partitions"]
        ]
        on.talk.show(f"DeleteRecords v2 of {says}", *found)


SESSIONS: dict[str, tuple[str, Callable[[Partition], None]]] = {
    "plain": ("records are deleted up to an offset", _plain),
    "within-a-batch": ("some records of a batch are deleted", _within_a_batch),
    "in-a-transaction": ("records of an open transaction are deleted", _in_a_transaction),
    "by-policy": ("records of topics that are compacted", _by_policy),
    "asked-twice": ("one partition is named twice", _asked_twice),
}


def rows() -> Iterator[Row]:
    """A row for each session."""
    for name, (says, plan) in SESSIONS.items():
        yield probe(f"deletions/{name}", says, "17.4", partial(on_own_topic, plan=plan), needs_topics=True)
