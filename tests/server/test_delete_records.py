"""DeleteRecords: what is deleted is gone for readers, and stays so when the server starts again or is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rota

WITHIN_S = 60
TOPIC = "t"
SETTINGS: dict[str, str | int | bool] = {"offsets.topic.segment.bytes": 4_096}
BIG = "x" * 500
KILLED = """
import os, signal, sys
import rota
from confluent_kafka import TopicPartition
from tests.server.test_delete_records import delete, produce
server = rota.Server(data=sys.argv[1])
server.create_topic("t", 1)
produce(server, 8)
print(delete(server, 5), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["memory", "data"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rota.Server]:
    data = None if request.param == "memory" else tmp_path / "data"
    with rota.Server(data=data) as running:
        running.create_topic(TOPIC, 1)
        yield running


def produce(server: rota.Server, count: int, value: str = "v") -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "batch.num.messages": 1})
    for _ in range(count):
        producer.produce(TOPIC, value=value, partition=0)
        assert producer.flush(WITHIN_S) == 0


def delete(server: rota.Server, offset: int, topic: str = TOPIC) -> int:
    """The low watermark after records below an offset are deleted."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    (future,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    return int(future.result(WITHIN_S).low_watermark)


def reader(server: rota.Server) -> Consumer:
    return Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "readers"})


def ends(server: rota.Server) -> tuple[int, int]:
    asker = reader(server)
    found = asker.get_watermark_offsets(TopicPartition(TOPIC, 0), WITHIN_S)
    asker.close()
    assert found is not None
    return found


def first_read(server: rota.Server, offset: int) -> int:
    """The offset of the first message that a consumer gets that begins at an offset."""
    asker = reader(server)
    asker.assign([TopicPartition(TOPIC, 0, offset)])
    message = asker.poll(WITHIN_S)
    asker.close()
    assert message is not None
    assert message.error() is None, message.error()
    found = message.offset()
    assert found is not None
    return found


def segments(data: Path) -> list[str]:
    return sorted(path.name for path in (data / f"{TOPIC}-0").glob("*.log"))


def test_readers_begin_after_what_was_deleted(server: rota.Server) -> None:
    produce(server, 5)
    assert delete(server, 3) == 3
    assert ends(server) == (3, 5)
    assert first_read(server, 3) == 3
    assert delete(server, 1) == 3, "a low watermark never falls"
    assert delete(server, -1) == 5
    assert ends(server) == (5, 5)
    produce(server, 1)
    assert first_read(server, 5) == 5


def test_offsets_beyond_the_end_and_topics_that_are_kept_are_refused(server: rota.Server) -> None:
    produce(server, 1)
    compacted = "compacted"
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(compacted, 1, config={"cleanup.policy": "compact"})])[compacted].result(WITHIN_S)
    for topic, error in ((TOPIC, KafkaError.OFFSET_OUT_OF_RANGE), (compacted, KafkaError.POLICY_VIOLATION)):
        with pytest.raises(KafkaException) as refused:
            delete(server, 2, topic)
        assert refused.value.args[0].code() == error
    assert ends(server) == (0, 1)


def test_what_was_deleted_is_gone_after_a_restart_and_whole_segments_are_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data, settings=SETTINGS) as server:
        server.create_topic(TOPIC, 1)
        produce(server, 40, BIG)
        before = segments(data)
        assert len(before) > 4
        assert delete(server, 30) == 30
    with rota.Server(data=data, settings=SETTINGS) as server:
        assert ends(server) == (30, 40)
        assert first_read(server, 30) == 30
        assert delete(server, 40) == 40
        produce(server, 1)
    with rota.Server(data=data, settings=SETTINGS) as server:
        assert ends(server) == (40, 41)
        assert len(segments(data)) < len(before)


def test_a_topic_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data) as server:
        server.create_topic(TOPIC, 1)
        produce(server, 3)
        assert delete(server, 3) == 3
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.delete_topics([TOPIC])[TOPIC].result(WITHIN_S)
    with rota.Server(data=data) as server:
        server.create_topic(TOPIC, 1)
        produce(server, 2)
        assert ends(server) == (0, 2)


def test_a_killed_server_keeps_what_it_has_answered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-c", KILLED, str(data)]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, capture_output=True, text=True)
    assert killed.stdout == "5\n", killed.stderr
    with rota.Server(data=data) as server:
        assert ends(server) == (5, 8)


def test_a_damaged_file_of_first_offsets_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data) as server:
        server.create_topic(TOPIC, 1)
        produce(server, 2)
        delete(server, 1)
    file = data / "rota.starts"
    file.write_text(file.read_text().replace(" 1\n", " 2\n"))
    with pytest.raises(OSError, match=r"`rota.starts` that cannot be read: its checksum is wrong; restore it"):
        rota.Server(data=data)
    file.unlink()
    with rota.Server(data=data) as server:
        assert ends(server)[1] == 2


def test_messages_that_were_deleted_are_not_returned(server: rota.Server) -> None:
    # One batch.
    server.produce(TOPIC, [str(at).encode() for at in range(5)])
    assert delete(server, 3) == 3
    assert [message.offset for message in server.messages(TOPIC)] == [3, 4]
