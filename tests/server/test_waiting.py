"""A fetch waits for data of its own partitions, for its time, or for the end of its topic."""

from __future__ import annotations

from harness.raw import Connection, Reader

from .messages import (
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
    Fetched,
    batch,
    delete_topic,
    deleted,
    fetch,
    fetched,
    produce,
    produced,
)

Address = tuple[str, int]
FOREVER_MS = 100_000
SILENCE_S = 0.3


def append(connection: Connection, partition: int, value: bytes) -> None:
    error, _ = produced(connection.ask(produce(partition, batch(value))))
    assert error == NONE


def answer_of(consumer: Connection) -> list[Fetched]:
    """What comes for a fetch that has been sent."""
    answer = Reader(consumer.receive())
    assert answer.i32() == 7
    return fetched(answer)


def test_a_fetch_waits_until_its_own_partition_has_data(address: Address, connection: Connection) -> None:
    with Connection(address) as consumer:
        consumer.send(fetch(0, max_wait_ms=FOREVER_MS))
        append(connection, 1, b"for another")
        assert consumer.is_silent(SILENCE_S)
        append(connection, 0, b"for us")
        (only,) = answer_of(consumer)
        assert (only.partition, only.error, only.high_watermark) == (0, NONE, 1)
        assert b"for us" in only.records


def test_every_fetch_that_waits_for_a_partition_is_answered(address: Address, connection: Connection) -> None:
    consumers = [Connection(address) for _ in range(5)]
    for consumer in consumers:
        consumer.send(fetch(0, 1, max_wait_ms=FOREVER_MS))
    append(connection, 1, b"for all")
    for consumer in consumers:
        empty, full = answer_of(consumer)
        assert (empty.records, full.partition) == (b"", 1)
        assert b"for all" in full.records
        consumer.close()


def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for(address: Address, connection: Connection) -> None:
    one = len(batch(b"12345"))
    with Connection(address) as consumer:
        consumer.send(fetch(0, max_wait_ms=FOREVER_MS, min_bytes=2 * one))
        append(connection, 0, b"12345")
        assert consumer.is_silent(SILENCE_S)
        append(connection, 0, b"67890")
        (only,) = answer_of(consumer)
        assert len(only.records) == 2 * one


def test_a_fetch_whose_time_is_up_is_answered_with_nothing(connection: Connection) -> None:
    (only,) = fetched(connection.ask(fetch(0, max_wait_ms=50)))
    assert (only.error, only.records) == (NONE, b"")


def test_deleting_a_topic_ends_the_waiting_for_it(address: Address, connection: Connection) -> None:
    with Connection(address) as consumer:
        consumer.send(fetch(0, max_wait_ms=FOREVER_MS))
        assert consumer.is_silent(SILENCE_S)
        assert deleted(connection.ask(delete_topic("t"))) == NONE
        (only,) = answer_of(consumer)
        assert (only.error, only.records) == (UNKNOWN_TOPIC_OR_PARTITION, b"")


def test_a_fetcher_that_goes_away_leaves_the_others_waiting(address: Address, connection: Connection) -> None:
    with Connection(address) as stays:
        with Connection(address) as goes:
            for consumer in (stays, goes):
                consumer.send(fetch(0, max_wait_ms=FOREVER_MS))
            assert goes.is_silent(SILENCE_S)
        append(connection, 0, b"after")
        (only,) = answer_of(stays)
        assert b"after" in only.records
