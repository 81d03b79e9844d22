"""Settings of topics that change: what they do then, and where they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import rota
from tests.clients.eventually import eventually

WITHIN_S = 20
TOPIC = "orders"


def change(server: rota.Server, **settings: str | None) -> None:
    """Change settings of the topic, named with `_` for `.`; None deletes one."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    (answer,) = admin.incremental_alter_configs([resource]).values()
    answer.result(WITHIN_S)


def own(server: rota.Server) -> dict[str, str]:
    """The settings that the topic has itself."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, TOPIC)]).values()
    # 1: a setting of the topic.
    return {name: entry.value for name, entry in answer.result(WITHIN_S).items() if entry.source == 1}


def refusal(server: rota.Server, value: bytes, key: bytes | None = None) -> str | None:
    """Why a message is refused; None: it is stored."""
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0, "message.timeout.ms": 10_000})
    producer.produce(TOPIC, value, key, on_delivery=lambda error, _: told.append(error))
    producer.flush(WITHIN_S)
    (error,) = told
    return None if error is None else str(error.name())


@pytest.mark.parametrize("place", ["memory", "data"])
def test_a_change_holds_from_the_next_message_on(place: str, tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data" if place == "data" else None) as server:
        server.create_topic(TOPIC)
        assert refusal(server, 500 * b"x") is None
        change(server, max_message_bytes="400", cleanup_policy="compact")
        assert refusal(server, 500 * b"x", b"key") == "MSG_SIZE_TOO_LARGE"
        assert refusal(server, b"x") == "INVALID_RECORD"
        assert refusal(server, b"x", b"key") is None
        change(server, max_message_bytes=None, cleanup_policy=None)
        assert refusal(server, 500 * b"x") is None
        assert [len(message.value or b"") for message in server.messages(TOPIC)] == [500, 1, 500]


def test_a_smaller_retention_takes_messages_at_the_next_append(rota_server: rota.Server) -> None:
    rota_server.create_topic(TOPIC)
    for _ in range(5):
        assert refusal(rota_server, 500 * b"x") is None
    change(rota_server, retention_bytes="1000")
    assert refusal(rota_server, b"the last") is None
    kept = rota_server.messages(TOPIC)
    assert len(kept) < 5
    assert kept[-1].value == b"the last"


def test_settings_are_there_after_a_kill(tmp_path: Path) -> None:
    server = rota.Server(data=tmp_path / "data")
    try:
        server.create_topic(TOPIC)
        change(server, retention_ms="1000", max_message_bytes="400")
        change(server, retention_ms=None)
    finally:
        server.kill()
    with rota.Server(data=tmp_path / "data") as server:
        assert own(server) == {"max.message.bytes": "400"}
        assert refusal(server, 500 * b"x") == "MSG_SIZE_TOO_LARGE"


def test_all_servers_of_a_cluster_have_a_change() -> None:
    engine = rota.MemoryEngine()
    with (
        rota.Server(engine=engine, node_id=1, ttl_ms=3_000) as one,
        rota.Server(engine=engine, node_id=2, ttl_ms=3_000) as two,
    ):
        for server in (one, two):
            server.wait_until_ready(WITHIN_S)
        one.create_topic(TOPIC)
        eventually(lambda: TOPIC in two.topics(), WITHIN_S, "the other server has the topic")
        change(two, retention_ms="1000")
        eventually(lambda: own(one) == {"retention.ms": "1000"}, WITHIN_S, "the other server has the setting")
