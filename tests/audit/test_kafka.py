"""`__consumer_offsets` of Apache Kafka, followed: what brokers write that a log of rota does not have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession
from pyspark.sql.functions import timestamp_millis

from harness.brokers import KAFKA, KAFKA_JVM, free_port
from harness.raw import (
    NONE,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
    Connection,
    compact,
    frame,
    i32,
    varint,
)
from rota.audit.audit import Wanted
from rota.audit.decoding import decode, register
from rota.audit.follow.advancing import SKIPPED
from rota.audit.follow.broker import Broker
from rota.audit.follow.query import Skipped, Told, batch_of, started
from rota.audit.follow.tail import LostError, Position, Tail
from rota.audit.live import audit_broker
from rota.audit.logs import OFFSETS, OFFSETS_TOPIC
from rota.audit.verdict import Verdict
from rota.groups.cluster import Cluster
from rota.groups.fetching import ClusterFeed
from tests.audit.fake_feed import read_all
from tests.audit.test_follow import WITHIN_S, Kept
from tests.clients.eventually import eventually

pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

STARTS_MAX = 3
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.compression.codec": "2",
}
ORDERS = TopicPartition("orders", 0)


class Kafka(NamedTuple):
    """A running broker."""

    servers: str
    admin: Any

    def feed(self) -> ClusterFeed:
        return ClusterFeed(self.cluster(), OFFSETS_TOPIC)

    def cluster(self) -> Cluster:
        return Cluster(self.servers, {}, 10_000)

    def commit(self, group: str, *offsets: int) -> None:
        consumer = KafkaConsumer(bootstrap_servers=self.servers, group_id=group, enable_auto_commit=False)
        consumer.assign([ORDERS])
        for offset in offsets:
            consumer.commit({ORDERS: OffsetAndMetadata(offset, "", -1)})
        consumer.close()

    def producer(self) -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=str(uuid.uuid4()))
        producer.init_transactions()
        return producer

    def ask(self, request: bytes) -> bytes:
        """What follows throttling time and the error, which must be none."""
        host, _, port = self.servers.rpartition(":")
        with Connection((host, int(port))) as connection:
            answer = connection.ask(request)
        answer.take(1 + 4)
        assert answer.i16() == NONE, answer.data
        return answer.data


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    folder = tmp_path_factory.mktemp("broker")
    for number in range(STARTS_MAX):  # another process may take a port that was free
        port, place = free_port(), folder / str(number)
        pairs = [f"{name}={value}" for name, value in SETTINGS.items()]
        command = [sys.executable, str(KAFKA), "start", str(port), str(place), *pairs]
        if subprocess.run(command, check=False, env=KAFKA_JVM | os.environ, stdout=subprocess.DEVNULL).returncode == 0:
            break
    else:
        raise RuntimeError(f"Apache Kafka did not start in {STARTS_MAX} tries: see {folder}")
    servers = f"127.0.0.1:{port}"
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics({"orders": {"num_partitions": 1, "replication_factor": 1}})
        found = Kafka(servers, admin)
        found.commit("first", 1)  # from here on there is the topic of group records
        yield found
    finally:
        admin.close()
        subprocess.run([sys.executable, str(KAFKA), "stop", str(place)], check=True)


class Following:
    """Rows of one group, and what the fold finds about it."""

    def __init__(self, kafka: Kafka, group: str) -> None:
        self.tail = Tail(kafka.servers, kafka.feed())
        self.group = group
        self.kept: dict[int, Kept] = {}
        self.found: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.other: Counter[str] = Counter()
        """Kinds of rows about no group."""
        self.at = Position()
        self.new()

    def new(self) -> list[dict[str, Any]]:
        """The rows of the group that came since the last time."""
        rows, self.at = read_all(self.tail, self.at)
        for partition in sorted(set(rows["partition"].to_pylist())):
            of_partition = rows.filter(pa.compute.equal(rows["partition"], partition))
            kept = self.kept.setdefault(partition, Kept())
            for found in kept.fold(OFFSETS, batch_of(tuple(row.values()) for row in of_partition.to_pylist())):
                if found.name == SKIPPED:
                    self.skipped[found.witness] += found.generation or 0
                elif found.group == self.group:
                    self.found[found.name] += 1
        self.other.update(row["kind"] for row in rows.to_pylist() if row["group"] is None)
        return [row for row in rows.to_pylist() if row["group"] == self.group]

    def close(self) -> None:
        self.tail.feed.close()


@pytest.fixture
def following(kafka: Kafka) -> Iterator[Callable[[str], Following]]:
    opened: list[Following] = []

    def follow(group: str) -> Following:
        opened.append(Following(kafka, group))
        return opened[-1]

    yield follow
    for one in opened:
        one.close()


def committed(rows: list[dict[str, Any]]) -> list[int | None]:
    assert {row["kind"] for row in rows} <= {"offset"}
    return [row["committed"] for row in rows]


def test_offsets_of_a_transaction_count_once_it_is_committed(
    kafka: Kafka, following: Callable[[str], Following]
) -> None:
    seen = following("transactional")
    producer = kafka.producer()

    def transaction(offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(offset, "", -1)}, "transactional")

    transaction(5)
    producer.commit_transaction()
    transaction(9)
    producer.abort_transaction()
    transaction(7)
    # The transaction is open: what comes behind it waits, too.
    kafka.commit("transactional-other", 1)
    rows = seen.new()
    producer.commit_transaction()
    producer.close()

    def came() -> bool:
        rows.extend(seen.new())
        return len(rows) > 1

    before = committed(rows)
    eventually(came, WITHIN_S, "the markers")
    assert (before, committed(rows)) == ([5], [5, 7])
    # A marker is no record that compaction took, and an aborted offset is none that went back.
    assert (seen.found, seen.other) == (Counter(), Counter())


def test_tombstones_end_what_was_known(kafka: Kafka, following: Callable[[str], Following]) -> None:
    seen = following("mortal")
    kafka.commit("mortal", 8)
    kafka.admin.delete_group_offsets("mortal", [ORDERS])
    kafka.commit("mortal", 3)
    assert committed(seen.new()) == [8, None, 3]
    kafka.admin.delete_groups(["mortal"])
    rows = seen.new()
    assert [(row["kind"], row["generation"], row["committed"]) for row in rows][:1] == [("offset", None, None)]
    kafka.commit("mortal", 1)
    assert committed(seen.new()) == [1]
    assert seen.found == Counter()
    kafka.commit("mortal", 0)
    seen.new()
    assert seen.found == Counter({"offset went back": 1})


def names(*found: str) -> bytes:
    return varint(len(found) + 1) + b"".join(map(compact, found))


def shared(group: str, member: str, epoch: int) -> bytes:
    """A ShareGroupHeartbeat."""
    body = compact(group) + compact(member) + i32(epoch) + compact(None) + names("orders")
    return frame(SHARE_GROUP_HEARTBEAT, 1, body + b"\0")


def streaming(group: str, member: str) -> bytes:
    """A StreamsGroupHeartbeat of a new member whose topology has one subtopology with one source."""
    none, null = varint(1), varint(0)
    sub = compact("0") + names("orders") + names() + none + names() + none + none + b"\0"
    topology = b"\x01" + i32(0) + varint(2) + sub + b"\0"
    body = compact(group) + compact(member) + i32(0) + i32(0) + compact(None) + compact(None) + i32(60_000)
    body += topology + none * 3 + compact("process") + b"\xff" + none + null * 2 + b"\0"
    return frame(STREAMS_GROUP_HEARTBEAT, 0, body + b"\0")


def test_records_of_share_and_streams_groups_are_known_counted_and_not_checked(
    kafka: Kafka, following: Callable[[str], Following]
) -> None:
    sharing, streams = following("sharing"), following("streaming")
    member = str(uuid.uuid4())
    kafka.ask(shared("sharing", member, 0))
    kafka.ask(streaming("streaming", member))
    kafka.ask(shared("sharing", member, -1))
    for seen, about in ((sharing, "share group"), (streams, "streams group")):
        rows = seen.new()
        assert {(row["kind"], row["note"]) for row in rows} == {("other", about)}
        assert seen.skipped[about] >= len(rows) > 1
        assert seen.found == Counter()
        assert "unknown" not in seen.skipped
    with kafka.cluster() as cluster:
        found = audit_broker(cluster, kafka.servers, Wanted([]), lambda _: None)
    # A broker writes some of them after its answer.
    assert all(found.skipped[about] >= count for about, count in streams.skipped.items())
    assert set(found.skipped) == {"share group", "streams group"}
    assert {"sharing", "streaming"}.isdisjoint(found.group_ids)
    assert found.exit_code == 0


def offsets_topic(kafka: Kafka, settings: dict[str, str]) -> None:
    kafka.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC, settings)])


def test_compaction_under_ones_feet_is_noticed_and_no_alarm(
    kafka: Kafka, following: Callable[[str], Following]
) -> None:
    group = "compacted"
    kafka.commit(group, 9)
    seen, early = following(group), Tail(kafka.servers, kafka.feed())
    planned = early.reach(Position())
    offsets_topic(kafka, {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"})
    kafka.admin.delete_group_offsets(group, [ORDERS])
    last = 0

    def cleaned() -> bool:
        # Each commit ends a segment that is old enough; the cleaner does not touch the last one.
        nonlocal last
        last += 1
        kafka.commit(group, last)
        rows, _ = read_all(Tail(kafka.servers, early.feed))
        return committed([row for row in rows.to_pylist() if row["group"] == group])[0] not in {9, None}

    eventually(cleaned, WITHIN_S, "the cleaner has taken the first commit and its tombstone")
    # What other tests write stays.
    offsets_topic(kafka, {"min.compaction.lag.ms": "86400000"})
    # What was planned before is read as far as it is still there.
    again = Tail(kafka.servers, early.feed)
    for chunk in again.chunks(Position(), planned):
        for batch in chunk.rows():
            rows = [row for row in batch.to_pylist() if row["kind"] != "compacted"]
            assert all(row["offset"] < planned.following[chunk.partition][0] for row in rows)
    committed(seen.new())
    assert seen.other["compacted"] > 0
    # The tombstone is gone: that the offset is smaller than before its group's end is no finding.
    assert seen.found == Counter()
    early.feed.close()


def told_by(spark: SparkSession, broker: Broker, checkpoint: Path) -> list[Told]:
    told: list[Told] = []
    query = started(spark, broker, checkpoint, told.append, once=True)
    try:
        assert query.awaitTermination(WITHIN_S)
    finally:
        query.stop()
    return told


def test_a_restart_goes_on_where_it_stopped_and_says_nothing_twice(
    kafka: Kafka, spark: SparkSession, tmp_path: Path
) -> None:
    group, broker = "restarted", Broker(kafka.servers, "", str(tmp_path / "said"))
    told: list[Told] = []
    for offsets in ([5, 4], [3, 9, 2]):
        kafka.commit(group, *offsets)
        told += told_by(spark, broker, tmp_path / "checkpoint")
    verdicts = [one for one in told if isinstance(one, Verdict) and one.group == group]
    assert [one.witness for one in verdicts] == [f"orders-0: {two}" for two in ("4 after 5", "3 after 4", "2 after 9")]
    assert {one.log for one in verdicts} == {kafka.servers}
    skipped = Counter({one.about: one.records for one in told if isinstance(one, Skipped)})
    assert set(skipped) <= {"share group", "streams group"}
    assert not (tmp_path / "said").exists()


def plain(value: Any) -> Any:
    """Spark's bytes as Arrow's."""
    return bytes(value) if isinstance(value, bytearray) else value


def test_a_table_and_sql_decode_what_a_reader_of_the_topic_gets(kafka: Kafka, spark: SparkSession) -> None:
    kafka.ask(shared("sharing-in-sql", str(uuid.uuid4()), 0))
    consumer = KafkaConsumer(bootstrap_servers=kafka.servers, isolation_level="read_committed")
    partitions = [TopicPartition(OFFSETS_TOPIC, partition) for partition in range(2)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends, records = consumer.end_offsets(partitions), list[Any]()
    while any(consumer.position(at) < ends[at] for at in partitions):
        for at, polled in consumer.poll(timeout_ms=500).items():
            read = [one for one in polled if one.offset < ends[at]]
            records += [(at.partition, one.offset, one.timestamp, one.key, one.value) for one in read]
    consumer.close()
    columns = "partition int, offset bigint, at bigint, key binary, value binary"
    given = spark.createDataFrame(records, columns).withColumn("timestamp", timestamp_millis("at"))
    given.createOrReplaceTempView("records")
    register(spark)
    by_sql = spark.sql("SELECT partition, inline(rota_decode(key, value, offset, timestamp)) FROM records")

    tail = Tail(kafka.servers, kafka.feed())
    followed, _ = read_all(tail, goal={at.partition: end for at, end in ends.items()})
    tail.feed.close()
    chosen = [name for name in followed.column_names if name not in {"source", "log", "note"}]
    expected = Counter(
        tuple(row[name] for name in chosen) for row in followed.to_pylist() if row["kind"] != "compacted"
    )
    assert len({row["kind"] for row in followed.to_pylist()} & {"offset", "other"}) == 2
    for rows in (decode(given), by_sql):
        assert Counter(tuple(map(plain, row)) for row in rows.select(*chosen).collect()) == expected


def test_a_topic_that_is_created_anew_ends_following(kafka: Kafka) -> None:
    """The last one: it takes the records of the others away."""
    tail = Tail(kafka.servers, kafka.feed())
    _, end = read_all(tail)
    kafka.admin.delete_topics([OFFSETS_TOPIC])
    eventually(lambda: tail.feed.topic() is None, WITHIN_S, "the topic is gone")

    def is_there() -> bool:
        kafka.commit("anew", 1)
        return tail.feed.topic() is not None

    eventually(is_there, WITHIN_S, "the topic is there again")
    with pytest.raises(LostError, match=f"created anew.*{end.topic}.*another --checkpoint directory"):
        tail.reach(end)
    tail.feed.close()
