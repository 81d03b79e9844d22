"""A server in a network of its own, as a container has one: clients outside reach it, directly and by a mapped port."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.journaled import check_directory

from .eventually import eventually
from .forwarding import Forwarding

WITHIN_S = 30
PORT = 9092
#: Of a range that is for tests of networks (RFC 2544); each pytest process has its own.
NETWORK = f"198.18.{os.getpid() % 256}"
OUTSIDE, INSIDE = f"{NETWORK}.1", f"{NETWORK}.2"


def ip(*words: str) -> None:
    """`ip WORDS`; raises CalledProcessError with what it said."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextmanager
def namespace() -> Iterator[str]:
    """A network namespace with a cable to this one. Skips the test where that is not allowed."""
    name = f"rota{os.getpid()}"
    outer, inner = f"{name}o", f"{name}i"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces need root and iproute2: {getattr(error, 'stderr', '') or error}")
    try:
        ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        ip("address", "add", f"{OUTSIDE}/30", "dev", outer)
        ip("link", "set", outer, "up")
        ip("-n", name, "address", "add", f"{INSIDE}/30", "dev", inner)
        ip("-n", name, "link", "set", inner, "up")
        yield name
    finally:
        ip("netns", "del", name)  # and with it the cable


@contextmanager
def serving(inside: str, journal: Path, *more: str) -> Iterator[None]:
    """`rota serve` for everybody, in the namespace; at its end its journal is audited."""
    rota = [sys.executable, "-m", "rota", "serve", "--listen", f"PLAINTEXT://0.0.0.0:{PORT}", *more]
    rota += ["--journal-dir", str(journal), "--set", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(["ip", "netns", "exec", inside, *rota], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert "ready on" in server.stdout.readline()
            yield
        finally:
            server.terminate()
    check_directory(journal)


def told(bootstrap: str) -> list[str]:
    """Where clients are sent to."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    brokers = admin.list_topics(timeout=WITHIN_S).brokers.values()
    return [f"{broker.host}:{broker.port}" for broker in brokers]


def work(bootstrap: str, topic: str) -> int:
    """Produce, consume, commit and leave; the offset that the group has committed then."""
    client = {"bootstrap.servers": bootstrap, "log_level": 0}
    producer = Producer(client)
    producer.produce(topic, b"hello")
    assert producer.flush(WITHIN_S) == 0
    group = client | {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(group)
    consumer.subscribe([topic])
    message = eventually(lambda: consumer.poll(0.1), WITHIN_S, "the message")
    assert message is not None
    assert (message.error(), message.value()) == (None, b"hello")
    consumer.commit(asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], WITHIN_S)
    consumer.close()
    return committed.offset


@pytest.mark.clients
def test_clients_outside_reach_a_server_in_a_network_of_its_own_without_any_setting(tmp_path: Path) -> None:
    with namespace() as inside, serving(inside, tmp_path):
        assert told(f"{INSIDE}:{PORT}") == [f"{INSIDE}:{PORT}"]
        assert work(f"{INSIDE}:{PORT}", "direct") == 1


@pytest.mark.clients
def test_clients_behind_a_mapped_port_are_sent_through_it_if_that_is_advertised(tmp_path: Path) -> None:
    mapped = contextlib.closing(Forwarding())
    with mapped as port, namespace() as inside, serving(inside, tmp_path, "--advertise", port.address):
        port.serve((INSIDE, PORT))
        assert told(port.address) == [port.address]
        before = port.accepted
        assert work(port.address, "mapped") == 1
        assert port.accepted >= before + 4, "each client once as bootstrap and once as node 1"
