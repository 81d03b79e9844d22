"""Changes of topics at a server of a cluster that cannot make them yet: clients ask again (docs/cluster.md)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

import rota
from harness import kafka_tools
from tests.clients.eventually import eventually

TTL_MS = 3_000
WITHIN_S = 20
NOT_CONTROLLER = 41
TOPICS_TOOL = "org.apache.kafka.tools.TopicCommand"


@contextmanager
def joining(lines: list[dict[str, Any]] | None = None) -> Iterator[tuple[rota.Server, rota.MemoryEngine]]:
    """A server that has a topic in its cluster and does not hear of its engine."""
    engine = rota.MemoryEngine()

    def start(**options: Any) -> rota.Server:
        return rota.Server(engine=engine, node_id=1, ttl_ms=TTL_MS, **options)

    before = start()
    try:
        _joined(before)
        before.create_topic("orders", 1)
    finally:
        before.kill()
    # It waits for half a TTL before it joins: its predecessor may live.
    with start(trace=lines.append if lines is not None else None) as server:
        engine.set_faults(1, silent=True)
        yield server, engine


def _joined(server: rota.Server) -> None:
    def is_ready() -> bool:
        cluster = server.cluster()
        return cluster is not None and cluster.is_ready

    eventually(is_ready, WITHIN_S, "the server has joined")


def _keeps_for_a_second(admin: AdminClient) -> Future[None]:
    """The answer to a change of the topic's settings."""
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
    (answer,) = admin.incremental_alter_configs([resource]).values()
    return answer


def _code(answer: Future[None]) -> int:
    with pytest.raises(KafkaException) as refusal:
        answer.result(timeout=WITHIN_S)
    return int(refusal.value.args[0].code())


def test_a_server_that_has_not_joined_is_not_the_controller() -> None:
    with joining() as (server, engine):
        admin = AdminClient({"bootstrap.servers": f"{server.host}:{server.port}"})
        assert _code(admin.create_topics([NewTopic("new", 1)])["new"]) == NOT_CONTROLLER
        assert _code(admin.create_topics([NewTopic("new", 1)], validate_only=True)["new"]) == NOT_CONTROLLER
        # It does not know that the topic exists, so it does not say that it does not.
        assert _code(admin.delete_topics(["orders"])["orders"]) == NOT_CONTROLLER
        assert _code(admin.create_partitions([NewPartitions("orders", 3)])["orders"]) == NOT_CONTROLLER
        assert _code(_keeps_for_a_second(admin)) == NOT_CONTROLLER
        engine.set_faults(1, silent=False)
        _joined(server)
        admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(timeout=WITHIN_S)
        _keeps_for_a_second(admin).result(timeout=WITHIN_S)
        admin.delete_topics(["orders"])["orders"].result(timeout=WITHIN_S)
        admin.create_topics([NewTopic("new", 1)])["new"].result(timeout=WITHIN_S)


def test_a_server_that_has_lost_the_engine_is_not_the_controller() -> None:
    with joining() as (server, engine):
        engine.set_faults(1, silent=False)
        _joined(server)
        engine.set_faults(1, silent=True)
        admin = AdminClient({"bootstrap.servers": f"{server.host}:{server.port}"})
        assert _code(admin.create_topics([NewTopic("new", 1)])["new"]) == NOT_CONTROLLER
        assert _code(_keeps_for_a_second(admin)) == NOT_CONTROLLER


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.xdist_group("kafka-tools")
def test_kafkas_own_admin_asks_again_until_the_server_has_joined() -> None:
    lines: list[dict[str, Any]] = []
    with joining(lines) as (server, engine), ThreadPoolExecutor(1) as threads:
        address = f"{server.host}:{server.port}"
        options = ("--bootstrap-server", address, "--create", "--topic", "new", "--partitions", 2)
        tool = threads.submit(kafka_tools.run, TOPICS_TOOL, *options)

        def answers() -> int:
            return sum((line["event"], line["api"]) == ("answer", "CreateTopics") for line in lines)

        eventually(lambda: answers() >= 2, 60, "the request was repeated", lambda: repr(lines[-5:]))
        assert not tool.done()
        engine.set_faults(1, silent=False)
        done = tool.result(timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Created topic new." in done.stdout
