"""Real clients without some rights: the errors that they raise, also in the midst of reading."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.errors
import pytest

import rota
from tests.clients.eventually import eventually

WITHIN_S = 60
GROUP, TOPIC = "shipping", "orders"
ALLOWED = [f"ALLOW User:ana * READ TOPIC LITERAL {TOPIC}", f"ALLOW User:ana * READ GROUP LITERAL {GROUP}"]
DENIED_TOPIC = f"DENY User:ana * READ TOPIC LITERAL {TOPIC}"
DENIED_GROUP = f"DENY User:ana * READ GROUP LITERAL {GROUP}"
pytestmark = pytest.mark.clients


@pytest.fixture
def server() -> Iterator[rota.Server]:
    settings: dict[str, str | int] = {"super.users": "User:admin", "group.initial.rebalance.delay.ms": 0}
    users = {"ana": "secret", "admin": "secret"}
    with rota.Server(sasl="SCRAM-SHA-256", users=users, acls=ALLOWED, settings=settings) as server:
        server.create_topic(TOPIC)
        server.produce(TOPIC, ["1"])
        yield server
        assert server.panics == 0


@pytest.mark.parametrize(
    ("denied", "code"),
    [
        (DENIED_TOPIC, confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED),
        (DENIED_GROUP, confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED),
    ],
)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_is_denied_a_topic_or_a_group_while_it_reads(
    server: rota.Server, protocol: str, denied: str, code: int
) -> None:
    config = {"group.protocol": protocol} | ({"heartbeat.interval.ms": 100} if protocol == "classic" else {})
    own = {"group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(server.client_config("librdkafka") | own | config)
    consumer.subscribe([TOPIC])
    message: Any = eventually(lambda: consumer.poll(0.1), WITHIN_S, "the first message")
    assert message.value() == b"1", message.error()
    server.set_acls([*ALLOWED, denied])
    if denied == DENIED_GROUP:
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            consumer.commit(asynchronous=False)
        assert raised.value.args[0].code() == code
    else:
        failed: Any = eventually(lambda: consumer.poll(0.1), WITHIN_S, "an error")
        assert failed.error() is not None
        assert failed.error().code() == code
    assert any("Principal = User:ana is Denied operation = READ" in line for line in server.denied_requests())
    consumer.close()


def test_librdkafka_sees_only_topics_that_it_may_describe(server: rota.Server) -> None:
    server.create_topic("secret")
    admin = confluent_kafka.admin.AdminClient(server.client_config("librdkafka"))
    assert list(admin.list_topics(timeout=WITHIN_S).topics) == [TOPIC]
    for hidden in ("secret", "missing"):
        error = admin.list_topics(hidden, timeout=WITHIN_S).topics[hidden].error
        assert error is not None
        assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_librdkafka_may_not_write(server: rota.Server) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(server.client_config("librdkafka"))
    producer.produce(TOPIC, "2", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WITHIN_S) == 0
    assert [error.code() for error in errors] == [confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_librdkafka_manages_acls(server: rota.Server) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient(server.client_config("librdkafka", user="admin"))
    new = AclBinding(
        ResourceType.TOPIC,
        "pay",
        ResourcePatternType.PREFIXED,
        "User:bob",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for created in admin.create_acls([new]).values():
        created.result(WITHIN_S)
    assert "ALLOW User:bob * WRITE TOPIC PREFIXED pay" in server.acls()
    every = AclBindingFilter(
        ResourceType.TOPIC,
        "payments",
        ResourcePatternType.MATCH,
        None,  # type: ignore[arg-type]  # any principal
        None,  # type: ignore[arg-type]  # any host
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(every).result(WITHIN_S) == [new]
    assert [deleted.result(WITHIN_S) for deleted in admin.delete_acls([every]).values()] == [[new]]
    assert sorted(server.acls()) == sorted(ALLOWED)
    plain = AdminClient(server.client_config("librdkafka", user="ana"))
    for asked in (plain.create_acls([new]), plain.delete_acls([every])):
        with pytest.raises(confluent_kafka.KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            [future.result(WITHIN_S) for future in asked.values()]


def test_kafka_python_raises_for_a_topic_and_a_group(server: rota.Server) -> None:
    config = server.client_config("kafka-python") | {"group_id": GROUP, "auto_offset_reset": "earliest"}
    consumer = kafka.KafkaConsumer(TOPIC, **config)
    found = eventually(lambda: consumer.poll(timeout_ms=100), WITHIN_S, "the first message")
    assert [message.value for messages in found.values() for message in messages] == [b"1"]
    server.set_acls([*ALLOWED, DENIED_GROUP])
    with pytest.raises(kafka.errors.GroupAuthorizationFailedError):
        consumer.commit()
    server.set_acls([*ALLOWED, DENIED_TOPIC])
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        eventually(lambda: consumer.poll(timeout_ms=100), WITHIN_S, "an error")
    server.set_acls(ALLOWED)
    consumer.close()


def test_aiokafka_raises_for_a_topic_and_a_group(server: rota.Server) -> None:
    async def read() -> None:
        config = server.client_config("aiokafka") | {"group_id": GROUP, "auto_offset_reset": "earliest"}
        consumer = aiokafka.AIOKafkaConsumer(TOPIC, **config)
        await consumer.start()
        try:
            assert (await asyncio.wait_for(consumer.getone(), WITHIN_S)).value == b"1"
            server.set_acls([*ALLOWED, DENIED_GROUP])
            with pytest.raises(aiokafka.errors.GroupAuthorizationFailedError):
                await consumer.commit()
            server.set_acls([*ALLOWED, DENIED_TOPIC])
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
                await asyncio.wait_for(consumer.getone(), WITHIN_S)
            server.set_acls(ALLOWED)
        finally:
            await consumer.stop()

    asyncio.run(read())
