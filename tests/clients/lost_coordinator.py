"""`python -m tests.clients.lost_coordinator [CLIENT ...]`: whether a transactional producer goes on when the broker
that coordinates the group of its offsets is killed, on Apache Kafka 4.4.0.

Of two brokers, the first coordinates transactions, and takes the group over from the second, which is killed while a
producer commits transactions with offsets. A client goes on, or stands still in `send_offsets_to_transaction`. Needs a
JDK and Maven.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import kafka as kafka_python
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Place

from rota.conform.broker import Broker
from tests.clients.eventually import eventually
from tests.conform.prepared import WITHIN_S, Kafka, is_found

TOPIC, GROUP, ID = "sink", "workers", "pay"
MORE, PATIENCE_S, AFTERWARDS_S = 5, 45.0, 15.0


class Work:
    """Transactions that a client has committed."""

    def __init__(self, client: Callable[[str, Work], None], bootstrap: str) -> None:
        self.count = 0
        threading.Thread(target=client, args=(bootstrap, self), daemon=True).start()

    def goes_on(self, within_s: float) -> float | None:
        """Seconds until it has committed some more; None: it has not."""
        began, wanted = time.monotonic(), self.count + MORE
        with suppress(AssertionError):
            eventually(lambda: self.count >= wanted, within_s, "it goes on")
            return time.monotonic() - began
        return None


def with_librdkafka(bootstrap: str, work: Work) -> None:
    """Aborts what fails, and goes on."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": ID, "log_level": 0})
    producer.init_transactions(WITHIN_S)
    group = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}).consumer_group_metadata()
    while True:
        try:
            producer.begin_transaction()
            producer.produce(TOPIC, b"v", partition=0)
            producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, work.count)], group, 10)
            producer.commit_transaction(10)
            work.count += 1
        except KafkaException:
            producer.abort_transaction(10)


def with_kafka_python(bootstrap: str, work: Work) -> None:
    """As long as no call raises."""
    producer = kafka_python.KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=ID)
    producer.init_transactions()
    while True:
        producer.begin_transaction()
        producer.send(TOPIC, b"v", partition=0)
        producer.send_offsets_to_transaction({Place(TOPIC, 0): OffsetAndMetadata(work.count, "", -1)}, GROUP)
        producer.commit_transaction()
        work.count += 1


CLIENTS = {"librdkafka": with_librdkafka, "kafka-python": with_kafka_python}


def prepare(brokers: Kafka) -> None:
    """The first broker coordinates transactions; the second the groups, and the first after it."""
    brokers.begin(0)
    broker = Broker(("127.0.0.1", brokers.ports[0]))
    broker.contact()
    connection = broker.connect(WITHIN_S)
    eventually(lambda: is_found(connection, 1), WITHIN_S, "transactions are coordinated")
    connection.close()
    brokers.begin(1)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{brokers.ports[0]}"})
    eventually(lambda: len(admin.list_topics(timeout=5).brokers) == 2, WITHIN_S, "both brokers are there")
    groups = NewTopic("__consumer_offsets", 1, replica_assignment=[[2, 1]], config={"cleanup.policy": "compact"})
    for made in admin.create_topics([groups, NewTopic(TOPIC, 1, replica_assignment=[[1]])]).values():
        made.result()


def main() -> None:
    """Print what each client does."""
    for name in sys.argv[1:] or CLIENTS:
        with tempfile.TemporaryDirectory(prefix="rota-kafka-", ignore_cleanup_errors=True) as folder:
            brokers = Kafka(Path(folder), {"offsets.topic.num.partitions": "1"})
            try:
                prepare(brokers)
                work = Work(CLIENTS[name], ",".join(f"127.0.0.1:{port}" for port in brokers.ports))
                assert work.goes_on(WITHIN_S) is not None
                brokers.end(1, "kill")
                after_s = work.goes_on(PATIENCE_S)
                told = f"stood still for {PATIENCE_S:g} s" if after_s is None else f"went on after {after_s:.1f} s"
                if after_s is None:
                    brokers.begin(1)
                    told += ", and went on" if work.goes_on(AFTERWARDS_S) else ", and when the broker was back"
                print(f"{name}: {told}", flush=True)
            finally:
                for at in (1, 0):
                    if (brokers.folder / f"k{at}" / "broker.pid").exists():
                        brokers.end(at, "kill")


if __name__ == "__main__":
    main()
