"""Topics with `cleanup.policy=compact` take records with keys only. The answers are those of Apache Kafka 4.4."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rota
from harness.raw import Connection, varint
from rota import codec
from rota.conform.batches import crc32c

WITHIN_S = 60
NONE, INVALID_RECORD = 0, 87
GZIP = 1


@pytest.fixture(params=["memory", "data"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rota.Server]:
    data = None if request.param == "memory" else tmp_path / "data"
    with rota.Server(data=data) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        policies = {"compacted": "compact", "both": "compact,delete", "deleted": "delete"}
        topics = [NewTopic(topic, 3, config={"cleanup.policy": policy}) for topic, policy in policies.items()]
        for created in admin.create_topics(topics).values():
            created.result(WITHIN_S)
        yield running
        assert running.panics == 0


def zigzag(number: int) -> bytes:
    return varint(number << 1 ^ number >> 63)


def batch(*keys: bytes | None, compression: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch of a record for each key."""
    return wrap(b"".join(record(at, key) for at, key in enumerate(keys)), len(keys), compression, producer)


def record(at: int, key: bytes | None, value: bytes = b"v") -> bytes:
    fields = b"\0\0" + zigzag(at) + zigzag(-1 if key is None else len(key)) + (key or b"")
    fields += zigzag(len(value)) + value + b"\0"
    return zigzag(len(fields)) + fields


def wrap(records: bytes, count: int, compression: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch whose header states `count` records."""
    if compression == GZIP:
        records = gzip.compress(records)
    head = struct.pack(">hiqqqhii", compression, count - 1, 1_000, 1_000, *producer, count)
    summed = head + records
    return struct.pack(">qiibI", 0, 9 + len(summed), -1, 2, crc32c(summed)) + summed


def produce(server: rota.Server, topic: str, records: bytes, version: int = 9) -> dict[str, Any]:
    """The answer of the partition."""
    [partition] = produce_all(server, topic, [records], version)
    return partition


def produce_all(server: rota.Server, topic: str, batches: list[bytes], version: int = 9) -> list[dict[str, Any]]:
    """The answers of the partitions, from 0 on, each with its batch."""
    api = codec.apis()["Produce"]
    partitions = [{"index": index, "records": records} for index, records in enumerate(batches)]
    data = [{"name": topic, "partition_data": partitions}]
    request = codec.write_request(api, version, 1, "test", {"acks": -1, "timeout_ms": 5_000, "topic_data": data})
    with Connection((server.host, server.port), timeout=WITHIN_S) as connection:
        connection.send(len(request).to_bytes(4, "big") + request)
        [answered] = codec.read_answer(api, version, connection.receive())[1]["responses"]
    return [dict(partition) for partition in answered["partition_responses"]]


def refused(topic: str, shown: list[int], count: int) -> str:
    error = f"message='Compacted topic cannot accept message without key in topic partition {topic}-0'"
    errors = ", ".join(f"RecordError(batchIndex={at}, {error})" for at in shown)
    return (
        f"One or more records have been rejected due to {count} record errors in total, and only showing the first"
        f" three errors at most: [{errors}]"
    )


@pytest.mark.parametrize("topic", ["compacted", "both"])
@pytest.mark.parametrize("compression", [0, GZIP])
def test_a_batch_with_a_record_without_a_key_is_refused_with_its_records(
    server: rota.Server, topic: str, compression: int
) -> None:
    answer = produce(server, topic, batch(b"k", None, b"", None, compression=compression))
    message = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
    assert (answer["error_code"], answer["base_offset"], answer["log_start_offset"]) == (INVALID_RECORD, -1, 0)
    assert answer["record_errors"] == [{"batch_index": at, "message": message} for at in (1, 3)]
    assert answer["error_message"] == refused(topic, [1, 3], 2)
    # Nothing was stored, and an empty key is a key.
    stored = produce(server, topic, batch(b"k", b"", compression=compression))
    assert (stored["error_code"], stored["base_offset"], stored["record_errors"]) == (NONE, 0, [])


@pytest.mark.parametrize("version", [3, 7, 8])
def test_earlier_versions_have_the_error_alone(server: rota.Server, version: int) -> None:
    answer = produce(server, "compacted", batch(None), version)
    assert answer["error_code"] == INVALID_RECORD
    assert ("record_errors" in answer) == (version >= 8)


def test_a_refused_batch_leaves_the_sequence_of_its_producer(server: rota.Server) -> None:
    assert produce(server, "compacted", batch(None, producer=(7, 0, 0)))["error_code"] == INVALID_RECORD
    assert produce(server, "compacted", batch(b"k", producer=(7, 0, 0)))["error_code"] == NONE


def test_a_topic_that_is_not_compacted_takes_records_without_keys(server: rota.Server) -> None:
    assert produce(server, "deleted", batch(None, b"k"))["error_code"] == NONE


def test_the_answer_names_a_thousand_records_at_most(server: rota.Server) -> None:
    answer = produce(server, "compacted", batch(*[None] * 1_200))
    assert [error["batch_index"] for error in answer["record_errors"]] == list(range(1_000))
    assert answer["error_message"] == refused("compacted", [0, 1, 2], 1_200)


def test_the_partitions_of_an_answer_share_the_thousand_records(server: rota.Server) -> None:
    batches = [batch(*[None] * count) for count in (600, 600, 5)]
    answers = produce_all(server, "compacted", batches)
    assert [len(answer["record_errors"]) for answer in answers] == [600, 400, 0]
    last = refused("compacted", [0, 1, 2], 5).replace("partition compacted-0", "partition compacted-2")
    assert answers[2]["error_message"] == last
    assert [answer["log_start_offset"] for answer in answers] == [0, 0, 0]


def test_a_request_opens_so_many_decompressed_bytes(server: rota.Server) -> None:
    large = wrap(record(0, b"k", bytes(50 << 20)), 1, GZIP)
    answers = produce_all(server, "compacted", [large] * 3)
    assert [answer["error_code"] for answer in answers] == [NONE, NONE, INVALID_RECORD]
    assert "decompressed" in answers[2]["error_message"]
    # The next request opens as many.
    assert produce(server, "compacted", large)["error_code"] == NONE
    # What was read of a broken batch is not known, so no later one is opened. One that is not compressed is no matter.
    broken = wrap(b"no gzip", 1)
    broken = broken[:21] + b"\0\1" + broken[23:]
    broken = broken[:17] + struct.pack(">I", crc32c(broken[21:])) + broken[21:]
    answers = produce_all(server, "compacted", [broken, batch(b"k", compression=GZIP), batch(b"k")])
    assert [answer["error_code"] for answer in answers] == [INVALID_RECORD, INVALID_RECORD, NONE]


@pytest.mark.parametrize(
    "records",
    [record(0, b"k") + record(1, None), record(1, b"k"), record(0, b"k") + b"\0"],
    ids=["more records than stated", "another offset", "more bytes"],
)
def test_what_a_compressed_batch_has_is_what_it_states(server: rota.Server, records: bytes) -> None:
    assert produce(server, "compacted", wrap(records, 1, GZIP))["error_code"] == INVALID_RECORD


def test_a_batch_that_cannot_be_decompressed_is_refused(server: rota.Server) -> None:
    broken = batch(b"k", compression=GZIP)
    summed = broken[21:61] + b"no gzip"
    records = broken[:8] + struct.pack(">iibI", 9 + len(summed), -1, 2, crc32c(summed)) + summed
    assert produce(server, "compacted", records)["error_code"] == INVALID_RECORD
    assert produce(server, "deleted", records)["error_code"] == NONE, "there it is not opened"


def test_a_client_learns_which_messages_were_refused_and_why(server: rota.Server) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for key in (None, "k"):
        producer.produce("compacted", key=key, value="v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(WITHIN_S) == 0
    refusal, none = errors
    assert refusal is not None
    assert refusal.code() == KafkaError.INVALID_RECORD
    assert none is None
