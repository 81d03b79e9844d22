"""Topics that come and go, and the offsets that were committed for them."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import rota
from harness.raw import Connection

from .messages import batch, produce, produced

PATIENCE_S = 20


def admin(server: rota.Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap_servers})


def committed(client: AdminClient, group: str) -> dict[tuple[str, int], int]:
    (future,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = future.result(PATIENCE_S).topic_partitions
    return {(offset.topic, offset.partition): offset.offset for offset in found}


def test_the_offsets_of_a_deleted_topic_go_with_it(rota_server: rota.Server) -> None:
    client = admin(rota_server)
    client.create_topics([NewTopic("stays", 1, 1)])["stays"].result(PATIENCE_S)
    offsets = [TopicPartition("t", 1, 5), TopicPartition("stays", 0, 6)]
    alter = client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("g", offsets)])
    assert all(offset.error is None for offset in alter["g"].result(PATIENCE_S).topic_partitions)
    assert committed(client, "g") == {("t", 1): 5, ("stays", 0): 6}
    client.delete_topics(["t"])["t"].result(PATIENCE_S)
    assert committed(client, "g") == {("stays", 0): 6}
    client.create_topics([NewTopic("t", 2, 1)])["t"].result(PATIENCE_S)
    assert committed(client, "g") == {("stays", 0): 6}


def test_a_topic_grows_and_its_records_stay(rota_server: rota.Server, connection: Connection) -> None:
    client = admin(rota_server)
    assert produced(connection.ask(produce(1, batch(b"before")))) == (0, 0)
    assert produced(connection.ask(produce(2, batch(b"too early")))) == (3, -1)
    client.create_partitions([NewPartitions("t", 3)])["t"].result(PATIENCE_S)
    assert produced(connection.ask(produce(2, batch(b"after")))) == (0, 0)
    assert produced(connection.ask(produce(1, batch(b"after")))) == (0, 1)
    assert len(client.list_topics("t", PATIENCE_S).topics["t"].partitions) == 3


def test_committed_offsets_are_an_internal_topic_that_is_listed_and_kept(rota_server: rota.Server) -> None:
    client = admin(rota_server)
    listed = client.list_topics(timeout=PATIENCE_S).topics
    assert {name: len(topic.partitions) for name, topic in listed.items()} == {"__consumer_offsets": 50, "t": 2}
    refusal = client.delete_topics(["__consumer_offsets"])["__consumer_offsets"].exception(PATIENCE_S)
    assert refusal is not None
    assert refusal.args[0].name() == "TOPIC_EXCEPTION"
