"""What exists before the commands of a page that name a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rota
from tests.docs.shell import Shell
from tests.http import asking

SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@contextmanager
def stuck(shell: Shell, group: str = "orders", missing: str = "consumer-3", left: str = "consumer-7") -> Iterator[None]:
    """A server on which a group has waited for 31 s for a member that is silent, since another one left."""
    with _waiting(shell, group, missing, left, beats=False):
        yield


@contextmanager
def busy(shell: Shell, group: str = "orders", missing: str = "consumer-3", left: str = "consumer-7") -> Iterator[None]:
    """A server on which a group has waited for 47 s for a member that heartbeats, since another one left."""
    with _waiting(shell, group, missing, left, beats=True):
        yield


@contextmanager
def incident(shell: Shell) -> Iterator[None]:
    """`data`, as it is if the server of `stuck` is killed, with a journal."""
    clock, data = rota.VirtualClock(), shell.work / "data"
    settings = SETTINGS | {"offsets.topic.num.partitions": 1}
    with TemporaryDirectory() as kept:
        live = Path(kept) / "data"
        with rota.Server(settings=settings, clock=clock, data=live, journal=True) as server:
            server.create_topic("t", partitions=3)
            with asking.held_up(server, clock, beats=False):
                # Time that passes is in the journal only with an event.
                asking.commit(server, "billing", TopicPartition("t", 0, 5))
                segments = (live / "journal").rglob
                asking.until(
                    lambda: any(b"billing" in path.read_bytes() for path in segments("*.log")), "the commit's entry"
                )
                copytree(live, data)
    yield


@contextmanager
def damaged(shell: Shell) -> Iterator[None]:
    """`damaged`, a data directory with 20 commits; a byte of the eleventh is not the one that was written."""
    data = shell.work / "damaged"
    with rota.Server(settings=SETTINGS | {"offsets.topic.num.partitions": 1}, data=data) as server:
        server.create_topic("t")
        for offset in range(20):
            asking.commit(server, "billing", TopicPartition("t", 0, offset))
    segment = data / "__consumer_offsets-0" / f"{0:020}.log"
    found = bytearray(segment.read_bytes())
    found[len(found) // 20 * 11 - 1] ^= 1
    segment.write_bytes(found)
    yield


@contextmanager
def _waiting(shell: Shell, group: str, missing: str, left: str, *, beats: bool) -> Iterator[None]:
    clock = rota.VirtualClock()
    with served(shell, clock=clock, http=True) as server:
        server.create_topic("t", partitions=3)
        with asking.held_up(server, clock, group=group, clients=(left, missing, "consumer-1"), beats=beats):
            yield


@contextmanager
def served(shell: Shell, *, clock: rota.VirtualClock | None = None, http: bool = False) -> Iterator[rota.Server]:
    """A server at the addresses of the page, in place of the one that the page started."""
    shell.stop_server()
    http_address = shell.http if http else None
    with rota.Server(shell.kafka, settings=SETTINGS, clock=clock, http=http_address) as server:
        yield server


@contextmanager
def billing(shell: Shell) -> Iterator[None]:
    """A server with the topic `orders`, and a group `billing` whose only member is `ana`."""
    with served(shell) as server:
        server.create_topic("orders", 2)
        _produce(server, "orders", {0: 4, 1: 3})
        ana = _member(server, "billing", "ana", ["orders"])
        asking.settle(server, ana, group="billing")
        ana.commit(offsets=[TopicPartition("orders", 0, 1), TopicPartition("orders", 1, 3)], asynchronous=False)
        yield
        ana.close()


@contextmanager
def left(shell: Shell) -> Iterator[None]:
    """A server with the topic `orders`, and a group `billing` that has offsets and no members."""
    with served(shell) as server:
        server.create_topic("orders", 3)
        _produce(server, "orders", {0: 20, 1: 3, 2: 20})
        offsets = [TopicPartition("orders", partition, at) for partition, at in ((0, 15), (1, 3), (2, 12))]
        asking.commit(server, "billing", *offsets)
        yield


@contextmanager
def pods(shell: Shell) -> Iterator[None]:
    """A server with a group `billing` whose only member is static: `pod-3`."""
    with served(shell) as server:
        server.create_topic("orders", 2)
        member = _member(server, "billing", "ana", ["orders"], **{"group.instance.id": "pod-3"})
        asking.settle(server, member, group="billing")
        yield
        member.close()


@contextmanager
def watched(shell: Shell) -> Iterator[None]:
    """A server with a settled group `orders`, shown over HTTP."""
    with served(shell, http=True) as server:
        server.create_topic("orders", 2)
        member = _member(server, "orders", "ana", ["orders"])
        asking.settle(server, member, group="orders")
        yield
        member.close()


@contextmanager
def payments(shell: Shell) -> Iterator[None]:
    """On the server that the page started, a group `payments` that has committed 20 times."""
    one = Consumer({"bootstrap.servers": shell.kafka, "group.id": "payments", "log_level": 0})
    admin = AdminClient({"bootstrap.servers": shell.kafka, "log_level": 0})
    admin.create_topics([NewTopic("orders", num_partitions=1)])["orders"].result()
    for offset in range(20):
        one.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    one.close()
    yield


def _member(server: rota.Server, group: str, client_id: str, topics: list[str], **settings: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
            **settings,
        }
    )
    made.subscribe(topics)
    return made


def _produce(server: rota.Server, topic: str, counts: dict[int, int]) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
    producer.flush()


SCENES: dict[str, Callable[..., AbstractContextManager[None]]] = {
    scene.__name__: scene for scene in (stuck, busy, billing, left, payments, pods, watched, incident, damaged)
}
