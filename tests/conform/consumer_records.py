"""What sessions of the newer protocol write to `__consumer_offsets`, in Apache Kafka 4.4.0 and in rota.

    python -m tests.conform.consumer_records record    starts a broker for each policy and limits, plays every session,
                                                       keeps its records
    python -m tests.conform.consumer_records           plays them on a rota server and prints what differs

Keys and values are read from the segments and compared byte by byte, in order. Both servers have the same topic ids, so
that metadata hashes must be equal, too. These alone may differ, and are written as constants (`masked`): ids that a
server makes up, which have the same length on both; times; the version in record 16 (docs/consumer-protocol.md §15.2).
The order is open of records of several members in one step, of topics and partitions in a value, and of members in the
record of a classic group (docs/consumer-protocol.md §14.2 and §21), and so is which of several members leads a group
that became classic.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kafka.record import MemoryRecords

import rota
from rota.conform.consumer import ConsumerWire
from rota.conform.wire import Address
from rota.transcript.player import Player
from rota.transcript.subject import Effect
from rota.transcript.text import Step
from tests.conform import consumer_kafka, conversion, conversion_kafka
from tests.conform.consumer_kafka import TRIES, Session, set_up
from tests.conform.consumer_sides import HASHED, UUID_TEXT, ChangingWire, ascending, in_order
from tests.conform.conversion_kafka import OWN_SETTINGS, POLICY
from tests.conform.systems import kafka_in

RECORDING = Path(__file__).parent / "consumer-records-4.4.0.json"
SETTINGS = {**OWN_SETTINGS, "offsets.topic.num.partitions": "1"}
SEGMENT = Path("__consumer_offsets-0", "00000000000000000000.log")
TOPICS = {"foo": 6, "bar": 3, "one": 1, "grows": 2, "goes": 2}
WORKERS = 8
#: of a batch: its offset and its length come first, and the length counts what follows it
BATCH_HEAD = 12
OFFSET_KINDS, CLASSIC_GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN = (0, 1), 2, 5, 6, 7, 8, 16
INTERVAL = "consumer.assignment.interval.ms"
IMMEDIATE = f"settings {INTERVAL}=0"
BEGIN = ("topics foo:6 bar:3 one:1", IMMEDIATE)
#: Kafka's coordinator learns of a topic's change a moment after those who ask for metadata.
LATER = "+1s"
#: Besides the sessions whose answers are recorded.
OTHERS = {
    "deletions": (
        *BEGIN, "m1 beat join foo,bar", "m1 OffsetCommit id=m1 generation=2 foo/0=1 foo/5=2 bar/0=3",
        "m1 beat names=foo owns=foo:0-5", "l OffsetDelete bar/0", "m1 beat epoch=-1", "l OffsetDelete foo/0",
        "l DeleteGroup", "d look", "m1 beat join foo",
    ),
    "racks-and-assignors": (
        *BEGIN, "m1 beat join foo rack=r1 assignor=range", "m2 beat join foo assignor=range rebalance=45s",
        "m1 beat rack=r2", "m1 beat owns=foo:0-2", "m2 beat assignor=uniform", "m1 beat assignor=uniform", "m2 beat",
        "m1 beat names=none", "m1 beat owns=none",
    ),
    "a-static-member-for-good": (
        *BEGIN, "m1 beat join foo instance=i1", "m2 beat join foo instance=i2", "m1 beat instance=i1",
        "m1 beat owns=foo:0-2 instance=i1", "m2 beat instance=i2", "m1 beat epoch=-2 instance=i1",
        "m1 beat epoch=-1 instance=i1", "m2 beat instance=i2",
    ),
    "a-topic-grows": (
        "topics grows:2", IMMEDIATE, "m1 beat join grows", "m2 beat join grows", "m1 beat owns=grows:0", "m2 beat",
        "topics grows:4", LATER, "m1 beat", "m2 beat", "m1 beat epoch=-1", "m2 beat",
    ),
    "a-topic-goes": (
        "topics foo:6 goes:2", IMMEDIATE, "m1 beat join foo,goes", "m2 beat join goes",
        "m1 OffsetCommit id=m1 generation=2 foo/0=1 goes/0=2", "topics foo:6", LATER, "m1 beat", "m1 beat owns=foo:0-5",
        "m2 beat", "m2 beat owns=none", "m1 beat",
    ),
}  # fmt: skip
#: Sessions that answer otherwise, and so make other records, and why; they are left out.
EXPLAINED = {name: f"docs/departures.md {departure}" for name, departure in consumer_kafka.EXPLAINED.items()}
# The other answers of D22 and D24 are those of Heartbeats and DescribeGroups, which write nothing.
EXPLAINED |= {
    name: f"docs/departures.md {one}" for name, one in conversion_kafka.EXPLAINED.items() if one not in ("D22", "D24")
}
# Members whose ids a server makes up are in the order of their ids in Kafka, so that its plans differ between runs.
TOO_LARGE = "bidirectional/too-large-for-a-{}-group"
EXPLAINED |= {TOO_LARGE.format(kind): "docs/departures.md D16" for kind in ("classic", "consumer")}
EXPLAINED["bidirectional/too-large-and-all-at-rest"] = "docs/departures.md D16"
EXPLAINED["bidirectional/offsets-expire"] = "it takes two minutes; records of expired offsets are tombstones"
#: Steps that make other records: session, step, and why.
EXPLAINED_STEPS = {
    ("bidirectional/offsets-stay", "b JoinGroup"): "docs/departures.md D19",
    ("R01-checks-of-the-request", "m beat join none"): "docs/departures.md D20",
}

Record = tuple[bytes, bytes | None]
"""Key and value; no value is a tombstone."""


Broker = tuple[tuple[str, str], ...]
"""The settings of a broker besides `SETTINGS`."""


def sessions() -> dict[str, tuple[Broker, Session]]:
    """By name: the transcripts, `OTHERS`, and the conversions under each policy, with the broker that each needs."""
    usual: Broker = ((POLICY, conversion.USUAL),)
    found = [(usual, each) for each in consumer_kafka.sessions() if "/" not in each.name]
    found += [(usual, Session(name, steps)) for name, steps in OTHERS.items()]
    for each in conversion.conversions():
        found.append((((POLICY, each.policy), *each.limits), Session(each.name, each.steps)))
    return {each.name: (broker, each) for broker, each in found if each.name not in EXPLAINED}


def waits_for_interval(session: Session) -> bool:
    """Whether time between two of its steps can make the next target due, in a second by default."""
    return not any(INTERVAL in step for step in session.steps)


def brokers() -> dict[Broker, dict[str, Session]]:
    """The sessions of each broker."""
    found: dict[Broker, dict[str, Session]] = {}
    for name, (broker, session) in sessions().items():
        found.setdefault(broker, {})[name] = session
    return found


@dataclass
class Segment:
    """A segment that grows."""

    path: Path
    read_to: int = 0

    def news(self) -> list[Record]:
        """The records of the batches that are whole and have not been read."""
        found: list[Record] = []
        with self.path.open("rb") as file:
            file.seek(self.read_to)
            data = file.read()
        at = 0
        while len(data) - at > BATCH_HEAD:
            end = at + BATCH_HEAD + struct.unpack_from(">i", data, at + 8)[0]
            if end > len(data):
                break
            batch = MemoryRecords(data[at:end]).next_batch()
            found += [(each.key, each.value) for each in batch]
            at = end
        self.read_to += at
        return found


def kind_of(key: bytes) -> int:
    """The type of a record."""
    return int(struct.unpack_from(">h", key)[0])


def group_of(key: bytes) -> str:
    """Its group, the first field of every type of key."""
    (length,) = struct.unpack_from(">h", key, 2)
    return key[4 : 4 + length].decode()


def nullable_string(data: bytes, at: int) -> int:
    """Where the field behind it begins."""
    length = int(struct.unpack_from(">h", data, at)[0])
    return at + 2 + max(length, 0)


def times_of(kind: int, value: bytes) -> tuple[int, ...]:
    """Where a value of version 4 (offsets), 3 (classic groups) or 0 has an int64 that is a time."""
    if kind in OFFSET_KINDS:
        return (14 + value[14],)  # behind a compact string, which is short in all sessions
    if kind == CLASSIC_GROUP:
        return (behind_head(value),)
    if kind == TARGET_EPOCH:
        return (9,) if value[6] else ()
    return (len(value) - 9,) if kind == PATTERN else ()


def before_leader(value: bytes) -> int:
    """Where type, generation and protocol of a classic group end."""
    return nullable_string(value, nullable_string(value, 2) + 4)


def behind_head(value: bytes) -> int:
    """Where its leader ends, too."""
    return nullable_string(value, before_leader(value))


def has_leader(value: bytes) -> bool:
    """Whether the record of a classic group has one."""
    leader_at = before_leader(value)
    return value[leader_at : leader_at + 2] != b"\xff\xff"


def members_of(value: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Where the members of a classic group begin, each without its assignment and the assignment, and what follows."""
    begin = at = behind_head(value) + 8 + 4
    members = []
    for _ in range(int(struct.unpack_from(">i", value, begin - 4)[0])):
        assignment_at = at
        for _ in ("member id", "instance id", "client id", "host"):
            assignment_at = nullable_string(value, assignment_at)
        assignment_at += 4 + 4
        assignment_at += 4 + int(struct.unpack_from(">i", value, assignment_at)[0])
        end = assignment_at + 4 + int(struct.unpack_from(">i", value, assignment_at)[0])
        members.append((value[at:assignment_at], value[assignment_at:end]))
        at = end
    return begin, members, value[at:]


def with_sorted_members(value: bytes) -> bytes:
    """The record of a classic group, with its members in the order of their ids. Of several, any may lead."""
    begin, told, rest = members_of(value)
    members = [member + assignment for member, assignment in told]
    head = value[:begin]
    if len(members) > 1 and has_leader(value):
        leader_at = before_leader(value)
        leader = head[leader_at + 2 : begin - 12]
        assert any(member[2:].startswith(leader) for member in members), value.hex()
        head = head[:leader_at] + b"\0\1*" + head[begin - 12 :]
    return head + b"".join(sorted(members)) + rest


def without_plan(value: bytes) -> bytes:
    """The record of a classic group, without its leader and the members' assignments."""
    begin, members, rest = members_of(value)
    return value[: before_leader(value)] + value[begin - 12 : begin] + b"".join(each for each, _ in members) + rest


def as_expected(record: Record, expected: Sequence[Record]) -> Record:
    """Kafka's record, if ours is that of a group that becomes classic and is to rebalance: it has no leader, and other
    assignments (docs/departures.md D24).
    """
    key, value = record
    if kind_of(key) != CLASSIC_GROUP or value is None or behind_head(value) + 12 == len(value) or has_leader(value):
        return record
    same = (each for each in expected if each[0] == key and each[1] and without_plan(each[1]) == without_plan(value))
    return next(same, record)


def with_sorted_topics(value: bytes, at: int, arrays: int) -> bytes:
    """A value with arrays of topics and partitions, from this offset on, in ascending order. Sizes fit in one byte."""
    told = value[:at]
    for _ in range(arrays):
        topics = []
        count, at = value[at] - 1, at + 1
        for _ in range(count):
            topic_id, partitions, at = value[at : at + 16], value[at + 16] - 1, at + 17
            numbers = struct.unpack_from(f">{partitions}i", value, at)
            at += 4 * partitions
            if value[at] == 0:  # no tags
                epochs, at = None, at + 1
            else:  # tag 0, its length, and as many epochs
                epochs = struct.unpack_from(f">{partitions}i", value, at + 4)
                assert value[at : at + 4] == bytes((1, 0, 1 + 4 * partitions, 1 + partitions)), value.hex()
                at += 4 + 4 * partitions
            order = sorted(range(partitions), key=numbers.__getitem__)
            text = topic_id + bytes((partitions + 1,)) + struct.pack(f">{partitions}i", *(numbers[i] for i in order))
            if epochs is not None:
                text += bytes((1, 0, 1 + 4 * partitions, 1 + partitions))
                text += struct.pack(f">{partitions}i", *(epochs[i] for i in order))
            topics.append(text if epochs is not None else text + b"\0")
        told += bytes((count + 1,)) + b"".join(sorted(topics))
    return told + value[at:]


def sorted_inside(kind: int, value: bytes) -> bytes:
    """The value, with everything in ascending order whose order is open."""
    if kind == CLASSIC_GROUP:
        return with_sorted_members(value)
    if kind == TARGET:
        return with_sorted_topics(value, 2, 1)
    return with_sorted_topics(value, 2 + 4 + 4 + 1, 2) if kind == CURRENT else value


def masked(record: Record, names: Mapping[str, str]) -> Record:
    """The record with names in the place of ids that the server made up, and 1 in the place of times; 0 and -1 stay."""
    key, value = record
    if value is not None:
        for at in times_of(kind_of(key), value):
            (time_ms,) = struct.unpack_from(">q", value, at)
            value = value[:at] + struct.pack(">q", min(time_ms, 1)) + value[at + 8 :]
        if kind_of(key) == PATTERN:
            value = value[:-17] + struct.pack(">q", 0) + value[-9:]
    for member_id, name in names.items():
        old, new = member_id.encode(), name.ljust(len(member_id), "_").encode()
        key = key.replace(old, new)
        value = None if value is None else value.replace(old, new)
    return key, None if value is None else sorted_inside(kind_of(key), value)


def order_of(records: Sequence[Record]) -> tuple[list[tuple[int, bool]], dict[bytes, list[Record]]]:
    """What the order of the records of one step has to be the same in: the kinds in order, and the records of each
    member, or of the group, in order."""
    kinds = [(kind_of(key), value is None) for key, value in records]
    by_owner: dict[bytes, list[Record]] = {}
    for key, value in records:
        by_owner.setdefault(key[2:], []).append((key, value))
    return kinds, by_owner


Steps = list[tuple[str, list[Record]]]
"""The steps of a session, and what each has written."""


@dataclass
class Played:
    """A session that was played, and the names of the ids that the server made up."""

    steps: Steps = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def learn(self, key: bytes) -> None:
        """Name the member of a record if its id was made up for a request that named none."""
        if kind_of(key) == MEMBER and UUID_TEXT.match(member_id := key[6 + len(group_of(key)) :].decode()):
            self.names.setdefault(member_id, f"?{len(self.names)}")

    def shown(self) -> Steps:
        """With masked records."""
        return [(step, [masked(each, self.names) for each in new]) for step, new in self.steps]


class PatientWire(ChangingWire):
    """A broker that several sessions keep busy."""

    parked_s = 2.0

    def topics_changed(self, topics: list[tuple[str, int]], now_ms: int) -> list[Effect]:
        """Let the topics grow, and delete those that the session has named before."""
        if grown := [(name, count) for name, count in topics if name in self.ids and count > TOPICS[name]]:
            self.grow(grown)
        if gone := self.ids.keys() - dict(topics).keys():
            self.delete(gone)
        return super().topics_changed(topics, now_ms)


class TimedWire(PatientWire):
    """A server whose time is a test's, so that no pause of the machine passes for time between two steps."""

    def __init__(self, address: Address, prefix: str, clock: rota.VirtualClock) -> None:
        super().__init__(address, prefix)
        self.clock = clock

    def advance(self, now_ms: int) -> list[Effect]:
        """No request of the newer protocol waits: there is nothing to collect."""
        span_ms, self.now_ms = now_ms - self.now_ms, now_ms
        self.clock.advance(span_ms)
        return []


def play(subject: PatientWire, session: Session, segment: Segment) -> Played:
    """One session, on a group whose name begins with the subject's prefix."""
    prefix = subject.prefix
    player = Player(subject, loading=False)
    player.cast.any_ids = True
    told = Played(names=player.cast.names)
    try:
        for at, step in enumerate(session.steps):
            player.play(Step(at, step))
            new = [each for each in segment.news() if group_of(each[0]).startswith(prefix)]
            told.steps.append((step, new))
            for key, _ in new:
                told.learn(key)
    finally:
        subject.close()
    return told


def play_all(address: Address, data: Path, wanted: Mapping[str, Session]) -> dict[str, Played]:
    """Sessions, several at a time, each in a group that has its name."""
    by_prefix = {f"{name}:": session for name, session in wanted.items()}
    set_up(address, by_prefix)

    def one(prefix: str) -> Played:
        return play(PatientWire(address, prefix), by_prefix[prefix], Segment(data / SEGMENT))

    with ThreadPoolExecutor(WORKERS) as workers:
        return dict(zip(wanted, workers.map(one, by_prefix), strict=True))


def make_topics(address: Address) -> dict[str, uuid.UUID]:
    """Topics whose ids are in ascending order, and in Kafka's order, as sessions name them."""
    subject = ConsumerWire(address, "order-")
    try:
        subject.topics_changed(list(TOPICS.items()), 0)
        for _ in range(TRIES):
            pair = [subject.ids["foo"], subject.ids["bar"]]
            if in_order(pair, HASHED) and in_order(pair, ascending):
                return dict(subject.ids)
            subject.recreate([("foo", TOPICS["foo"]), ("bar", TOPICS["bar"])])
    finally:
        subject.close()
    raise SystemExit(f"no order of topic ids was right in {TRIES} tries; try again")


@dataclass
class Recording:
    """What a broker wrote: topic ids, and the masked records of each session by step."""

    topics: dict[str, uuid.UUID]
    rows: dict[str, Steps]

    def dump(self) -> str:
        """As JSON, a line for each session."""
        topics = {name: str(topic_id) for name, topic_id in self.topics.items()}
        lines = [f'{{"topics": {json.dumps(topics)}, "rows": {{']
        for at, (name, steps) in enumerate(sorted(self.rows.items())):
            told = [[step, [text_of(each) for each in new]] for step, new in steps]
            lines.append(f"{json.dumps(name)}: {json.dumps(told)}{',' if at < len(self.rows) - 1 else ''}")
        return "\n".join([*lines, "}}"]) + "\n"


def text_of(record: Record) -> str:
    """Key and value in hexadecimal digits, `-` for a tombstone."""
    key, value = record
    return f"{key.hex()} {'-' if value is None else value.hex()}"


def record_in(text: str) -> Record:
    """What `text_of` has written."""
    key, value = text.split()
    return bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)


def recorded() -> Recording:
    """The recording in the tree."""
    told = json.loads(RECORDING.read_text(encoding="utf-8"))
    rows = {
        name: [(step, [record_in(each) for each in new]) for step, new in steps] for name, steps in told["rows"].items()
    }
    return Recording({name: uuid.UUID(text) for name, text in told["topics"].items()}, rows)


def record() -> Recording:
    """What Apache Kafka writes."""
    with tempfile.TemporaryDirectory(prefix="rota-kafka-") as folder:
        topics: dict[str, uuid.UUID] = {}
        rows: dict[str, Steps] = {}
        for broker, wanted in brokers().items():
            with kafka_in(folder, SETTINGS | dict(broker)) as text:
                host, _, port = text.rpartition(":")
                address = (host, int(port))
                topics = topics or make_topics(address)
                played = play_all(address, Path(folder, "log"), wanted)
                rows |= {name: each.shown() for name, each in played.items()}
    return Recording(topics, rows)


def make_directory(data: Path, topics: Mapping[str, uuid.UUID]) -> None:
    """A data directory of rota with empty topics of these ids."""
    with rota.Server(settings=SETTINGS, data=data):
        pass
    for name, topic_id in topics.items():
        text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        for partition in range(TOPICS[name]):
            folder = data / f"{name}-{partition}"
            folder.mkdir()
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}")


def on_rota(data: Path, topics: Mapping[str, uuid.UUID]) -> dict[str, Played]:
    """What rota writes, in a directory that does not exist yet."""
    make_directory(data, topics)
    told: dict[str, Played] = {}
    for broker, wanted in brokers().items():
        timed = {name: session for name, session in wanted.items() if waits_for_interval(session)}
        with rota.Server(settings=SETTINGS | dict(broker), data=data) as server:
            told |= play_all((server.host, server.port), data, {n: s for n, s in wanted.items() if n not in timed})
        clock = rota.VirtualClock()
        with rota.Server(settings=SETTINGS | dict(broker), data=data, clock=clock) as server:
            for name, session in timed.items():
                subject = TimedWire((server.host, server.port), f"{name}:", clock)
                told[name] = play(subject, session, Segment(data / SEGMENT))
    return told


def differences(
    name: str, theirs: Steps, ours: Played, explained: Mapping[tuple[str, str], str] = EXPLAINED_STEPS
) -> list[str]:
    """The first step whose records differ, as lines; none at steps that are explained. A record may come with a later
    step than it did in the recording: rota's are taken as many at a time as Kafka has written."""
    if [step for step, _ in theirs] != [step for step, _ in ours.steps]:
        return ["its steps are not those of the recording; record it again"]
    written = [masked(each, ours.names) for _, new in ours.steps for each in new]
    for (step, expected), (_, own) in zip(theirs, ours.steps, strict=True):
        is_explained = (name, step) in explained
        found = written[: len(own if is_explained else expected)]
        del written[: len(found)]
        found = [as_expected(each, expected) for each in found]
        if not is_explained and order_of(found) != order_of(expected):
            missing = [f"  - {text_of(each)}" for each in expected if each not in found]
            added = [f"  + {text_of(each)}" for each in found if each not in expected]
            return [step, *(missing + added or ["  the same records in another order"])]
    return ["at the end", *(f"  + {text_of(each)}" for each in written)] if written else []


def all_differences(told: Recording, ours: Mapping[str, Played]) -> dict[str, list[str]]:
    """Of each session that differs."""
    found = {name: differences(name, told.rows.get(name, []), played) for name, played in ours.items()}
    return {name: lines for name, lines in found.items() if lines}


def main(arguments: list[str]) -> int:
    """Exit code 1 if something differs."""
    if arguments[:1] == ["record"]:
        RECORDING.write_text(record().dump(), encoding="utf-8")
    told = recorded()
    with tempfile.TemporaryDirectory(prefix="rota-records-") as folder:
        ours = on_rota(Path(folder, "data"), told.topics)
    wrong = all_differences(told, ours)
    for name, lines in wrong.items():
        print("\n".join([f"{name}: {lines[0]}", *lines[1:]]))
    count = sum(len(new) for steps in told.rows.values() for _, new in steps)
    print(f"{len(ours)} sessions, {count} records, {len(wrong)} sessions differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
