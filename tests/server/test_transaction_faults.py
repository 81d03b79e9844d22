"""Transactions that their producers do not end: aborted, by time or by a test, fenced, not visible yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

import rota
from tests.clients.eventually import eventually
from tests.clients.reading import committed, consumer, read

WITHIN_S = 60
TIMEOUT_MS = 5_000
TOPIC, GROUP, ID = "sink", "workers", "pay"


@pytest.fixture(params=[1, 3], ids=["one node", "three nodes"])
def server(request: pytest.FixtureRequest) -> Iterator[rota.Server]:
    with rota.Server(clock=rota.VirtualClock(), nodes=request.param) as running:
        running.create_topic(TOPIC, 1)
        yield running


def producer(server: rota.Server, transactional_id: str = ID) -> Producer:
    settings = {"bootstrap.servers": server.bootstrap_servers, "transaction.timeout.ms": TIMEOUT_MS}
    made = Producer(settings | {"transactional.id": transactional_id})
    made.init_transactions(WITHIN_S)
    return made


def begun(server: rota.Server, value: str) -> Producer:
    """A producer with an open transaction: a message, and offset 7 of the group."""
    made = producer(server)
    made.begin_transaction()
    made.produce(TOPIC, value.encode())
    assert made.flush(WITHIN_S) == 0
    worker = consumer(server.bootstrap_servers, GROUP)
    worker.subscribe([TOPIC])
    made.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 7)], worker.consumer_group_metadata(), WITHIN_S)
    worker.close()
    return made


def produce_plainly(server: rota.Server, value: str) -> None:
    made = Producer({"bootstrap.servers": server.bootstrap_servers})
    made.produce(TOPIC, value.encode(), partition=0)
    assert made.flush(WITHIN_S) == 0


def shows(server: rota.Server, *values: str) -> None:
    eventually(lambda: read(server.bootstrap_servers, TOPIC, 1) == list(values), WITHIN_S, f"readers see {values}")


def refusal(made: Producer) -> KafkaError:
    """Why the producer cannot commit."""
    with pytest.raises(KafkaException) as refused:
        made.commit_transaction(WITHIN_S)
    error: KafkaError = refused.value.args[0]
    return error


def test_a_virtual_clock_ends_the_time_of_a_transaction(server: rota.Server) -> None:
    made = begun(server, "never")
    produce_plainly(server, "behind")
    assert server.clock is not None
    server.clock.advance(TIMEOUT_MS)
    assert read(server.bootstrap_servers, TOPIC, 1) == []
    server.clock.advance(1)
    shows(server, "behind")
    assert committed(server.bootstrap_servers, GROUP, TOPIC) < 0
    assert refusal(made).fatal()


def test_an_aborted_transaction_shows_nothing_and_its_producer_is_fenced(server: rota.Server) -> None:
    made = begun(server, "never")
    produce_plainly(server, "behind")
    assert server.transactions()[ID].state == "Ongoing"
    shows(server)
    server.faults.abort_transaction(ID)
    shows(server, "behind")
    assert committed(server.bootstrap_servers, GROUP, TOPIC) < 0
    assert refusal(made).fatal()
    eventually(lambda: server.transactions()[ID].state == "CompleteAbort", WITHIN_S, "the abort is complete")


def test_a_fenced_producer_cannot_go_on_and_the_next_one_can(server: rota.Server) -> None:
    first = begun(server, "never")
    epoch = server.transactions()[ID].producer_epoch
    server.faults.fence_producer(ID)
    told = server.transactions()[ID]
    assert (told.state, told.producer_epoch) == ("Empty", epoch + 2)
    server.faults.fence_producer(ID)
    assert server.transactions()[ID].producer_epoch == epoch + 3
    assert refusal(first).code() == KafkaError._FENCED
    second = begun(server, "always")
    second.commit_transaction(WITHIN_S)
    shows(server, "always")
    assert committed(server.bootstrap_servers, GROUP, TOPIC) == 7


def test_what_is_committed_shows_when_its_markers_are_written(server: rota.Server) -> None:
    server.faults.hold_markers()
    made = begun(server, "held")
    made.commit_transaction(WITHIN_S)
    assert server.transactions()[ID].state == "PrepareCommit"
    shows(server)
    with pytest.raises(rota.RotaError, match="`pay` has no open transaction: its state is PrepareCommit"):
        server.faults.abort_transaction(ID)
    assert server.faults.release_markers() == 2
    shows(server, "held")
    assert committed(server.bootstrap_servers, GROUP, TOPIC) == 7
    assert server.faults.release_markers() == 0


def test_a_reset_writes_held_markers(server: rota.Server) -> None:
    server.faults.hold_markers()
    begun(server, "held").commit_transaction(WITHIN_S)
    server.faults.reset()
    shows(server, "held")


def test_an_unknown_id_is_named_with_the_nearest(server: rota.Server) -> None:
    producer(server, "payments")
    for control in (server.faults.abort_transaction, server.faults.fence_producer):
        with pytest.raises(rota.NotFoundError, match=r"no transactional id `paymnets`.*payments") as refused:
            control("paymnets")
        assert refused.value.what == "transactional id"


def test_a_producer_whose_markers_are_held_cannot_be_fenced(
    server: rota.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.faults.FENCED_WITHIN_S", 0.1)
    server.faults.hold_markers()
    begun(server, "held")
    with pytest.raises(TimeoutError, match=r"call release_markers\(\) if markers are held"):
        server.faults.fence_producer(ID)
