"""The groups as a real broker described them, and as rota describes the same directory: `make kafka-directory`.

The broker of `benches/kafka` is killed while members are in their groups. `python -m tests.log.record_kafka FILE` also
keeps an archive for `test_kafkas_directory.py`: the directory's partitions as `log/`, the answers as `told.json`.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rota
from harness.brokers import KAFKA, free_port
from harness.peer import host_port
from harness.raw import NONE, OFFSET_DELETE, Connection, frame, i32, string
from tests.log.groups_told import Told, differences, told

ROOT = Path(__file__).resolve().parents[2]
TOPIC, PARTITIONS, MESSAGES = "orders", 4, 60
GROUPS = ["members", "statics", "left", "commits", "deleted", "forgotten", "newer"]
WITHIN_S = 60
SESSION_MS = 300_000
BROKER = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.compression.codec": "1",
    "log.index.size.max.bytes": "4096",
    "offsets.topic.segment.bytes": "1048576",
    "group.max.session.timeout.ms": "1800000",
}


def consumer(address: str, group: str, **settings: str | int | bool) -> Consumer:
    base: dict[str, str | int | bool] = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "max.poll.interval.ms": SESSION_MS,
        "log_level": 0,
    }
    if settings.get("group.protocol") == "consumer":
        del base["session.timeout.ms"]
    made = Consumer(base | settings)
    made.subscribe([TOPIC])
    return made


def settle(consumers: list[Consumer]) -> None:
    """Until every one has partitions and all partitions have one."""
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        for each in consumers:
            each.poll(0.1)
        owned = [{at.partition for at in each.assignment()} for each in consumers]
        if all(owned) and sum(map(len, owned)) == PARTITIONS:
            return
    raise AssertionError("the group did not settle")


def commit(each: Consumer, offset: int, metadata: str = "") -> None:
    at = [TopicPartition(TOPIC, owned.partition, offset, metadata) for owned in each.assignment()]
    each.commit(offsets=at, asynchronous=False)


def play(address: str, newer: bool = True) -> list[Consumer]:
    """The groups' life, one of the newer protocol among them; gives the members that are there at the end."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WITHIN_S)
    producer = Producer({"bootstrap.servers": address, "compression.type": "zstd", "log_level": 0})
    for number in range(MESSAGES):
        producer.produce(TOPIC, b"message %d" % number, key=b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    members = [consumer(address, "members", **{"client.id": f"member-{at}"}) for at in range(2)]
    statics = [consumer(address, "statics", **{"group.instance.id": f"instance-{at}"}) for at in range(2)]
    others = [consumer(address, "newer", **{"group.protocol": "consumer"})] if newer else []
    left = [consumer(address, "left")]
    for crew in filter(None, (members, statics, others, left)):
        settle(crew)
        for offset in (3, 7):
            for each in crew:
                commit(each, offset, f"until {offset}")
    left[0].close()
    for group in ("commits", "deleted", "forgotten"):
        simple = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
        for offset in (1, 5):
            at = [TopicPartition(TOPIC, partition, offset) for partition in range(PARTITIONS)]
            simple.commit(offsets=at, asynchronous=False)
        simple.close()
    admin.delete_consumer_groups(["deleted"])["deleted"].result(WITHIN_S)
    with Connection(host_port(address)) as connection:
        body = string("forgotten") + i32(1) + string(TOPIC) + i32(2) + i32(0) + i32(1)
        assert connection.ask(frame(OFFSET_DELETE, 0, body)).i16() == NONE
    return [*members, *statics, *others]


def record(place: Path) -> Told:
    """Plays on a broker whose directory is `place/log`, asks it, and kills it."""
    port = free_port()
    settings = [f"{key}={value}" for key, value in BROKER.items()]
    subprocess.run([KAFKA, "start", str(port), str(place), *settings], check=True, stdout=subprocess.DEVNULL)
    try:
        # They are not closed before the kill: that would take them out of their groups.
        members = play(f"127.0.0.1:{port}")
        answers = told(("127.0.0.1", port), GROUPS)
    finally:
        subprocess.run([KAFKA, "kill", str(place)], check=True)
    for member in members:
        member.close()
    return answers


def pack(archive: str, place: Path, answers: Told) -> None:
    with tarfile.open(archive, "w:xz") as out:
        text = json.dumps(answers, indent=1).encode()
        entry = tarfile.TarInfo("told.json")
        entry.size = len(text)
        out.addfile(entry, io.BytesIO(text))
        out.add(place / "log", "log", filter=lambda entry: None if "__cluster_metadata" in entry.name else entry)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        answers = record(place)
        if sys.argv[1:]:
            pack(sys.argv[1], place, answers)
        with rota.Server(data=place / "log") as server:
            found = differences(answers, told((server.host, server.port), GROUPS))
        sys.exit("\n".join(found) or None)


if __name__ == "__main__":
    main()
