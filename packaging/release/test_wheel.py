"""What a wheel must do on every platform: serve, let a client form a group, and let a test move the clock.

The release workflow runs this file with the wheel, pytest and one client installed. It imports nothing else of rota.
"""

import importlib.util
import subprocess
import sys

import pytest

import rota

GROUP, TOPIC = "shipping", "orders"


def test_the_command_knows_its_version() -> None:
    ended = subprocess.run([sys.executable, "-m", "rota", "--version"], capture_output=True, text=True, check=True)
    assert rota.__version__ in ended.stdout


def test_messages_survive_a_restart(tmp_path) -> None:
    with rota.Server(data=tmp_path / "data") as server:
        server.create_topic(TOPIC)
        server.produce(TOPIC, ["one", "two"])
    with rota.Server(data=tmp_path / "data") as server:
        assert [message.value for message in server.messages(TOPIC)] == [b"one", b"two"]


@pytest.mark.skipif(importlib.util.find_spec("confluent_kafka") is None, reason="confluent-kafka is not installed")
def test_a_worker_joins_again_after_its_session_expired(rota_server, rota_clock) -> None:
    from confluent_kafka import Consumer

    rota_server.create_topic(TOPIC)
    worker = Consumer({"bootstrap.servers": rota_server.bootstrap_servers, "group.id": GROUP})
    worker.subscribe([TOPIC])
    rota_server.wait_until_stable(GROUP, members=1, poll=lambda: worker.poll(0.05))
    rota_clock.advance(45_000, expire=[worker.memberid()])
    rota_server.wait_until_stable(GROUP, members=1, poll=lambda: worker.poll(0.05))
    assert rota_server.explain(GROUP).rebalances[-2].cause == "SessionExpired"
    worker.close()


@pytest.mark.skipif(importlib.util.find_spec("kafka") is None, reason="kafka-python is not installed")
def test_a_consumer_of_kafka_python_reads(rota_server) -> None:
    from kafka import KafkaConsumer

    rota_server.create_topic(TOPIC)
    rota_server.produce(TOPIC, ["one"])
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=rota_server.bootstrap_servers,
        group_id=GROUP,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    try:
        assert next(iter(consumer)).value == b"one"
    finally:
        consumer.close()
