"""kafka-python where the coordinator refuses connections; and the program that starts it cold again and again."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from kafka import KafkaConsumer

import rota

from . import cold_start
from .conftest import SETTINGS
from .eventually import eventually
from .forwarding import Forwarding

WITHIN_S = 60
TIMES_MAX = 2**31 - 1

pytestmark = [pytest.mark.only_on_rota, pytest.mark.clients]


def test_kafka_python_joins_when_the_address_of_its_coordinator_accepts_connections_again() -> None:
    """How often kafka-python looks up the coordinator meanwhile depends on its release and on the machine."""
    answers: list[str] = []

    def note(line: dict[str, Any]) -> None:
        if (line["event"], line["api"]) == ("answer", "FindCoordinator"):
            answers.append(json.dumps(line["fields"]))

    port = Forwarding()
    with contextlib.closing(port), rota.Server(settings=SETTINGS, advertise=port.address, trace=note) as server:
        server.create_topic("orders")
        port.serve((server.host, server.port))
        lookups = server.faults.inject_error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=TIMES_MAX)
        consumer = KafkaConsumer(
            "orders", group_id="readers", bootstrap_servers=port.address, reconnect_backoff_max_ms=1_000
        )
        with contextlib.closing(consumer):

            def answered(error: str) -> int:
                consumer.poll(timeout_ms=100)
                return sum(error in answer for answer in answers)

            # The node's connection is there, so that only the coordinator's is refused.
            eventually(lambda: answered("COORDINATOR_NOT_AVAILABLE"), WITHIN_S, "it asks for the coordinator")
            port.refuse()
            lookups.cancel()
            eventually(lambda: answered("NONE") > 1, WITHIN_S, "it asks again for a coordinator that refuses it")
            assert server.groups() == []

            port.serve((server.host, server.port))
            server.wait_until_stable("readers", members=1, poll=lambda: consumer.poll(timeout_ms=100))


def test_a_consumer_that_starts_without_bytecode_joins_reads_commits_and_leaves() -> None:
    started = cold_start.start(None, "cold", limit_s=10 * WITHIN_S)
    assert started.result == "done", started.report


def test_a_start_that_takes_longer_than_its_limit_counts_as_hung() -> None:
    started = cold_start.start(None, "cold", limit_s=0.0)
    [heads, figures] = cold_start.table("here", [started])
    assert started.result == "hung"
    assert dict(zip(heads.split(), figures.split(), strict=False))["hung"] == "1"
