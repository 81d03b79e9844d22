"""A group whose offsets an open transaction holds back: what HTTP and `rota why` say, until it is ended."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

import rota
from rota.cli import app

from .asking import GROUP, SETTINGS, WITHIN_S, shown, until

pytestmark = pytest.mark.clients
HELD = "transaction pay-7, open for 41.0 s, holds back offsets of t 1 and 2, and is aborted in 19.0 s"


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_transaction_that_holds_offsets_back_is_named_until_its_end(nodes: int) -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, nodes=nodes, clock=clock, http=":0") as server:
        server.create_topic("t", partitions=3)
        config = {"bootstrap.servers": server.bootstrap_servers}
        producer = Producer(config | {"transactional.id": "pay-7", "transaction.timeout.ms": 60_000})
        producer.init_transactions(WITHIN_S)
        member = Consumer(config | {"group.id": GROUP})
        member.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
        assert shown(server, f"/groups/{GROUP}", "group")["transactions"] == []
        producer.begin_transaction()
        offsets = [TopicPartition("t", partition, 5) for partition in (1, 2)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), WITHIN_S)
        clock.advance(41_000)
        group = shown(server, f"/groups/{GROUP}", "group")
        (held,) = group["transactions"]
        assert held.pop("producer_id") >= 0
        assert held == {
            "transactional_id": "pay-7",
            "state": "Ongoing",
            "open_for_ms": 41_000,
            "aborted_in_ms": 19_000,
            "partitions": {"t": [1, 2]},
            "coordinator": None,
        }
        assert group["why"]["sentence"].endswith(f"; {HELD}")
        assert server.http_address is not None
        told = CliRunner().invoke(app, ["why", GROUP, "--http", server.http_address])
        assert (told.exit_code, HELD in told.stdout) == (0, True), told.output
        producer.abort_transaction(WITHIN_S)
        until(lambda: not shown(server, f"/groups/{GROUP}", "group")["transactions"], "the transaction is aborted")
        member.close()
