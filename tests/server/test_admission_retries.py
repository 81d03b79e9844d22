"""A Produce of the second protocol that comes while the transaction before is being ended (docs/transactions.md §6)."""

from __future__ import annotations

import threading
import time

import rota
from rota.codec import Fields
from rota.conform.batches import batch
from rota.conform.broker import Broker
from rota.conform.wire import Connection

TOPIC, ID = "sink", "pay"
CONCURRENT_TRANSACTIONS = 51
NOT_YET = {14, 15, 16}
WITHIN_S = 30
ROUNDS_MAX, RELEASED_AFTER_S = 20, 0.03
# A millisecond of each clock is cut off.
WAITED_S = 0.098


def produce(connection: Connection, producer: tuple[int, int]) -> int:
    """The error code of one batch."""
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch(*producer, 0)}]}]
    asked = {"transactional_id": ID, "acks": -1, "timeout_ms": 5_000, "topic_data": data}
    code: int = connection.ask("Produce", 12, asked)["responses"][0]["partition_responses"][0]["error_code"]
    return code


def begun(connection: Connection) -> tuple[int, int]:
    """A producer with an open transaction."""
    asked = {"transactional_id": ID, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    while (told := connection.ask("InitProducerId", 4, asked))["error_code"] in NOT_YET:
        pass
    producer = told["producer_id"], told["producer_epoch"]
    assert produce(connection, producer) == 0
    return producer


def ended(connection: Connection, producer: tuple[int, int]) -> tuple[int, int]:
    asked = {"transactional_id": ID, "producer_id": producer[0], "producer_epoch": producer[1], "is_commit": True}
    told: Fields = connection.ask("EndTxn", 5, asked)
    assert told["error_code"] == 0, told
    return told["producer_id"], told["producer_epoch"]


def test_it_waits_before_it_is_refused() -> None:
    with rota.Server() as server:
        server.create_topic(TOPIC)
        connection = Broker((server.host, server.port)).connect(WITHIN_S)
        server.faults.hold_markers()
        producer = ended(connection, begun(connection))
        asked_at = time.monotonic()
        assert produce(connection, producer) == CONCURRENT_TRANSACTIONS
        assert time.monotonic() - asked_at >= WAITED_S
        server.faults.release_markers()
        assert produce(connection, producer) == 0
        connection.close()


def test_it_is_answered_when_the_transaction_before_has_ended() -> None:
    with rota.Server() as server:
        server.create_topic(TOPIC)
        connection = Broker((server.host, server.port)).connect(WITHIN_S)
        producer = begun(connection)
        for _ in range(ROUNDS_MAX):
            server.faults.hold_markers()
            producer = ended(connection, producer)
            releasing = threading.Timer(RELEASED_AFTER_S, server.faults.release_markers)
            releasing.start()
            code = produce(connection, producer)
            releasing.join()
            if code == 0:
                break
            # On a busy machine the markers may come too late.
            assert code == CONCURRENT_TRANSACTIONS
            assert produce(connection, producer) == 0
        else:
            raise AssertionError(f"refused {ROUNDS_MAX} times")
        connection.close()
