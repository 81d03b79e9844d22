"""What readers of a partition see of transactions: Fetch and ListOffsets of both isolation levels while transactions
are open and ended, and WriteTxnMarkers. Each row has a topic of its own.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

from rota.codec import Fields
from rota.conform.batches import CONTROL, TRANSACTIONAL, batch
from rota.conform.probes.talk import Talk, probe
from rota.conform.probes.transactions import TIMED_OUT_WITHIN_S, Producer, Transaction
from rota.conform.rows import Row
from rota.conform.subject import error_name

ISOLATION = ("read_uncommitted", "read_committed")
FETCH_VERSIONS, LIST_VERSIONS = (4, 11, 12), (2, 7)
EARLIEST, LATEST, NEWEST = -2, -1, -3
HEADER, LENGTHS = 61, 12
MARKERS = ("abort marker", "commit marker")
NOT_YET = {3, 5, 6}
PLAIN = (-1, -1)


class Partition:
    """Partition 0 of the row's own topic."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.topic = f"{talk.visit.prefix}own"
        #: producer id -> its name in the row
        self.names: dict[int, str] = {-1: "plain"}
        #: of all records; markers are later. Kafka begins a segment where a marker is later by a week.
        self.records_ms = int(time.time() * 1_000)

    def ask(self, api: str, version: int, values: Fields) -> Fields:
        """In exactly this version."""
        return self.talk.ask("a", api, self.talk.exactly(api, version), values)

    def create_topic(self, name: str, configs: list[Fields]) -> None:
        """Create a topic of one partition, and wait for its leader."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
        asked = {"topics": [topic], "timeout_ms": 5_000}
        self.talk.ask("a", "CreateTopics", self.talk.version("CreateTopics", 5), asked)
        version = self.talk.version("ListOffsets", 5)
        of = Transaction(self.talk)
        of.patiently(lambda: self.offset(version, LATEST, 0, name)["error_code"] not in NOT_YET, TIMED_OUT_WITHIN_S)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        asked = {"topic_names": [name], "timeout_ms": 5_000}
        self.talk.ask("a", "DeleteTopics", self.talk.version("DeleteTopics", 4), asked)

    def producer(self, name: str) -> Transaction:
        """A transactional id of the row with its producer."""
        of = Transaction(self.talk)
        of.id, of.topic = f"{self.talk.visit.prefix}{name}", self.topic
        of.find()
        of.begin()
        self.names[of.producer[0]] = name
        return of

    def write(self, producer: Producer = PLAIN, transactional_id: str | None = None, sequence: int = 0) -> None:
        """One record, outside of transactions without a transactional id."""
        head = (*producer, sequence, TRANSACTIONAL) if transactional_id else (*PLAIN, -1, 0)
        records = batch(*head, 1, self.records_ms)
        part = {"name": self.topic, "partition_data": [{"index": 0, "records": records}]}
        asked = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5_000, "topic_data": [part]}
        told = self.ask("Produce", 9, asked)["responses"][0]["partition_responses"][0]
        who = self.names.get(producer[0], "another")
        self.talk.show(f"Produce of {who}", error_name(told["error_code"]), f"offset {told['base_offset']}")

    def add_and_write(self, of: Transaction, sequence: int = 0) -> None:
        """One record of a transaction by the first protocol."""
        of.add(3, of.producer)
        self.write(of.producer, of.id, sequence)

    def offset(self, version: int, timestamp: int, isolation: int, topic: str = "") -> Fields:
        """The answer of ListOffsets for the partition, or that of another topic."""
        parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
        topics = [{"name": topic or self.topic, "partitions": parts}]
        asked = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
        found: Fields = self.talk.ask("a", "ListOffsets", version, asked)["topics"][0]["partitions"][0]
        return found

    def fetch(self, version: int, offset: int, isolation: int, index: int = 0, topic: str = "") -> Fields:
        """The answer of Fetch for the partition, or another one."""
        part = {"partition": index, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1}
        part |= {"log_start_offset": -1, "partition_max_bytes": 1 << 20}
        topics = [{"topic": topic or self.topic, "partitions": [part]}]
        asked = {"replica_id": -1, "max_bytes": 1 << 20, "isolation_level": isolation, "session_epoch": -1}
        found: Fields = self.ask("Fetch", version, asked | {"topics": topics})["responses"][0]["partitions"][0]
        return found

    def shown(self, told: Fields) -> str:
        """`NONE high watermark 5 stable 1 from 0: 0 plain, 1 x; aborted []`."""
        aborted = told["aborted_transactions"]
        listed = (
            "null"
            if aborted is None
            else ", ".join(f"{self.names.get(each['producer_id'])} from {each['first_offset']}" for each in aborted)
        )
        start = f" start {told['log_start_offset']}" if "log_start_offset" in told else ""
        ends = f"high watermark {told['high_watermark']} stable {told['last_stable_offset']}{start}"
        return f"{error_name(told['error_code'])} {ends}: {self.batches(told['records'] or b'')}; aborted [{listed}]"

    def batches(self, data: bytes) -> str:
        """`0 plain, 1 x, 2 abort marker of x`: the batches with their first offsets."""
        found = []
        while len(data) >= HEADER:
            base, length = struct.unpack_from(">qi", data)
            attributes, producer_id = struct.unpack_from(">h", data, 21)[0], struct.unpack_from(">q", data, 43)[0]
            who = self.names.get(producer_id, "another")
            if attributes & CONTROL:
                # length, attributes, two deltas and the length of the key take a byte each
                who = f"{MARKERS[struct.unpack_from('>h', data, HEADER + 7)[0]]} of {who}"
            found.append(f"{base} {who}")
            data = data[LENGTHS + length :]
        return ", ".join(found) or "nothing"

    def times(self) -> dict[str, int]:
        """What ListOffsets is asked for."""
        by_time = {"of the records": self.records_ms, "after the records": self.records_ms + 1}
        return {"earliest": EARLIEST, "latest": LATEST, "newest": NEWEST, **by_time}

    def time(self, timestamp_ms: int) -> str:
        """A timestamp of an answer."""
        if timestamp_ms in (-1, self.records_ms):
            return "without a time" if timestamp_ms == -1 else "of the records"
        return "of a marker"

    def look(self, step: str, ends_at: int) -> None:
        """Evidence: all answers of Fetch from each offset, and of ListOffsets."""
        for isolation, name in enumerate(ISOLATION):
            for version in LIST_VERSIONS:
                lines = []
                for says, what in self.times().items():
                    if what != NEWEST or version >= LIST_VERSIONS[-1]:
                        told = self.offset(self.talk.exactly("ListOffsets", version), what, isolation)
                        found = f"{error_name(told['error_code'])} {told['offset']} {self.time(told['timestamp'])}"
                        lines.append(f"{says}: {found}")
                self.talk.show(f"ListOffsets v{version} {name}, {step}", *lines)
            for version in FETCH_VERSIONS:
                froms = range(ends_at + 2) if version == FETCH_VERSIONS[-1] else (0,)
                lines = [f"from {at}: {self.shown(self.fetch(version, at, isolation))}" for at in froms]
                self.talk.show(f"Fetch v{version} {name}, {step}", *lines)


def _two_transactions(on: Partition) -> None:
    first, second = on.producer("x"), on.producer("y")
    on.look("nothing is written", 0)
    for version in FETCH_VERSIONS:
        found = [on.fetch(version, 0, isolation, 99) for isolation in (0, 1)]
        found += [on.fetch(version, 0, isolation, topic=f"{on.topic}-nosuch") for isolation in (0, 1)]
        on.talk.show(f"Fetch v{version} of nothing that exists", *map(on.shown, found))
    on.write()
    on.add_and_write(first)
    on.write(first.producer, first.id, 1)
    on.add_and_write(second)
    on.write()
    on.look("two transactions are open", 5)
    first.end(3, first.producer, is_commit=False)
    first.described()
    on.look("the first is aborted", 6)
    second.end(3, second.producer, is_commit=True)
    second.described()
    on.look("the second is committed", 7)


def _three_aborted(on: Partition) -> None:
    """Of one producer twice by the second protocol, around those of another: the order of the list."""
    first, second = on.producer("x"), on.producer("y")
    on.add_and_write(second)
    for _ in range(2):
        on.add_and_write(first)
        ended = first.end(5, first.producer, is_commit=False)
        first.described()
        first.producer = (ended["producer_id"], ended["producer_epoch"])
    on.look("two are aborted, one is open", 5)
    second.end(5, second.producer, is_commit=False)
    second.described()
    on.look("three are aborted", 6)


def _markers(on: Partition) -> None:
    """As a coordinator sends them; none of them belongs to what the coordinator of the id knows."""
    of = on.producer("x")
    # With an epoch that has a predecessor.
    of.begin()
    on.add_and_write(of)
    plans: tuple[tuple[str, int, Fields], ...] = (
        ("of a lower epoch", 2, {"producer_epoch": of.producer[1] - 1}),
        ("of an equal epoch by the second protocol", 2, {}),
        ("of an equal epoch by the first protocol", 2, {"transaction_version": 1}),
        ("repeated", 2, {"transaction_version": 1}),
        ("of an equal epoch in v1", 1, {}),
        ("of the next epoch", 2, {"producer_epoch": of.producer[1] + 1}),
        ("repeated by the second protocol", 2, {"producer_epoch": of.producer[1] + 1}),
        ("of a lower epoch now", 2, {"transaction_version": 1}),
        ("of a lower coordinator epoch", 2, {"producer_epoch": of.producer[1] + 1, "coordinator_epoch": -5}),
        ("of a newer coordinator", 2, {"producer_epoch": of.producer[1] + 1, "coordinator_epoch": 7}),
        ("of the coordinator before", 2, {"producer_epoch": of.producer[1] + 1, "coordinator_epoch": 6}),
        ("of an unknown producer", 2, {"producer_id": of.producer[0] + 1_000_000}),
        ("of a partition that does not exist", 2, {"topics": [{"name": on.topic, "partitions": [99]}]}),
        ("of a topic that does not exist", 2, {"topics": [{"name": f"{on.topic}-nosuch", "partitions": [0]}]}),
    )
    for says, version, changes in plans:
        _marker(on, of.producer, says, version, changes)
    on.talk.show("Fetch v12", on.shown(on.fetch(12, 0, 1)))


def _negative_epoch(on: Partition) -> None:
    """A marker that no batch can carry."""
    _marker(on, on.producer("x").producer, "of a negative epoch", 2, {"producer_epoch": -1})


def _marker(on: Partition, producer: Producer, says: str, version: int, changes: Fields) -> None:
    """Evidence: the answer to WriteTxnMarkers, and the ends of the partition after it."""
    usual: Fields = {"producer_id": producer[0], "producer_epoch": producer[1], "coordinator_epoch": 0}
    usual |= {"is_commit": True, "topics": [{"name": on.topic, "partitions": [0]}], "transaction_version": 2}
    told = on.ask("WriteTxnMarkers", version, {"markers": [usual | changes]})["markers"]
    codes = [
        error_name(part["error_code"]) for each in told for topic in each["topics"] for part in topic["partitions"]
    ]
    end, stable = (on.offset(on.talk.version("ListOffsets", 5), LATEST, isolation)["offset"] for isolation in (0, 1))
    on.talk.show(f"WriteTxnMarkers v{version} {says}", *codes, f"end {end}, stable {stable}")


SESSIONS: dict[str, tuple[str, str, Callable[[Partition], None]]] = {
    "two-transactions": ("readers beside two open transactions that end differently", "10.3", _two_transactions),
    "three-aborted": ("readers of aborted transactions that overlap", "10.3", _three_aborted),
    "marker-of-a-negative-epoch": ("a marker that cannot be written", "10.2", _negative_epoch),
    "markers": ("markers, as coordinators write them", "10.2", _markers),
}


def rows() -> Iterator[Row]:
    """A row for each session."""
    for name, (says, section, plan) in SESSIONS.items():
        whole = f"transactions {section}"
        yield probe(f"transactions/readers/{name}", says, whole, partial(on_own_topic, plan=plan), needs_topics=True)


def on_own_topic(talk: Talk, plan: Callable[[Partition], None]) -> None:
    """Play a session with a topic that is there for so long."""
    on = Partition(talk)
    on.create_topic(on.topic, [])
    try:
        plan(on)
    finally:
        on.delete_topic(on.topic)
