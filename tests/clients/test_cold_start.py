"""kafka-python where the coordinator refuses connections; and the program that starts it cold again and again."""

from __future__ import annotations

import contextlib
import logging

import pytest
from kafka import KafkaConsumer

import rota

from . import cold_start
from .conftest import SETTINGS
from .eventually import eventually
from .forwarding import Forwarding

WITHIN_S = 60
BOOTSTRAP_AND_NODE = 2
"""The connections that kafka-python makes before that to the coordinator."""

pytestmark = [pytest.mark.only_on_rota, pytest.mark.clients]


class Lookups(logging.Handler):
    """Counts the lookups of the coordinator since the last connection that failed."""

    def __init__(self) -> None:
        super().__init__()
        self.since_refused = 0
        self.refused = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("Connection failed"):
            self.refused += 1
            self.since_refused = 0
        elif record.msg.startswith("Sending group coordinator request"):
            self.since_refused += 1


def test_kafka_python_looks_up_a_coordinator_that_refuses_connections_without_a_pause_until_it_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups = Lookups()
    for name in ("kafka.coordinator", "kafka.net.manager"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.DEBUG)
        monkeypatch.setattr(logging.getLogger(name), "handlers", [lookups])
    port = Forwarding()
    with contextlib.closing(port), rota.Server(settings=SETTINGS, advertise=port.address) as server:
        server.create_topic("orders")
        port.serve((server.host, server.port), BOOTSTRAP_AND_NODE)
        consumer = KafkaConsumer(
            "orders", group_id="readers", bootstrap_servers=port.address, reconnect_backoff_max_ms=1_000
        )
        with contextlib.closing(consumer):

            def spins() -> bool:
                consumer.poll(timeout_ms=100)
                # With its `retry_backoff_ms` of 100 between lookups there would be 12 in the longest backoff.
                return lookups.refused > 0 and lookups.since_refused > 24

            eventually(spins, WITHIN_S, "it looks up the coordinator without a pause")
            assert server.groups() == []

            port.serve_again((server.host, server.port))
            server.wait_until_stable("readers", members=1, poll=lambda: consumer.poll(timeout_ms=100))


def test_a_consumer_that_starts_without_bytecode_joins_reads_commits_and_leaves() -> None:
    started = cold_start.start(None, "cold", limit_s=10 * WITHIN_S)
    assert started.result == "done", started.report


def test_a_start_that_takes_longer_than_its_limit_counts_as_hung() -> None:
    started = cold_start.start(None, "cold", limit_s=0.0)
    [heads, figures] = cold_start.table("here", [started])
    assert started.result == "hung"
    assert dict(zip(heads.split(), figures.split(), strict=False))["hung"] == "1"
