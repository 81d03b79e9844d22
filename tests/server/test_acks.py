"""What Produce answers, and what it does not."""

from __future__ import annotations

from harness.raw import Connection, Reader

from .messages import NONE, UNKNOWN_TOPIC_OR_PARTITION, batch, fetch, fetched, produce, produced

CORRUPT_MESSAGE, INVALID_REQUIRED_ACKS, INVALID_RECORD = 2, 21, 87


def test_with_acks_0_nothing_is_answered_but_the_record_is_there(connection: Connection) -> None:
    connection.send(produce(0, batch(b"unheard"), acks=0))
    connection.send(produce(0, batch(b"heard"), correlation=8))
    answer = Reader(connection.receive())
    assert answer.i32() == 8
    assert produced(answer) == (NONE, 1)
    (only,) = fetched(connection.ask(fetch(0)))
    assert b"unheard" in only.records


def test_with_acks_0_an_error_closes_the_connection(connection: Connection) -> None:
    connection.send(produce(9, batch(b"nowhere"), acks=0))
    assert connection.ends()


def test_each_refusal_has_kafkas_code_and_the_connection_goes_on(connection: Connection) -> None:
    good = batch(b"value")
    refused = {
        UNKNOWN_TOPIC_OR_PARTITION: produce(2, good),
        INVALID_REQUIRED_ACKS: produce(0, good, acks=2),
        INVALID_RECORD: produce(0, good + good),
        CORRUPT_MESSAGE: produce(0, good[:-2] + b"X" + good[-1:]),
    }
    for expected, request in refused.items():
        assert produced(connection.ask(request)) == (expected, -1)
    assert produced(connection.ask(produce(0, good))) == (NONE, 0)
