"""confluent-kafka (librdkafka), driven over standard input and output."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from .lines import DEBUG, GIVE_UP, FailedError, Offsets, Ownership, Request, callback, event, protected, serve

ADMIN_TIMEOUT_S = 10


def config(request: Request) -> dict[str, Any]:
    settings = protected("librdkafka", request) | {"client.id": request.get("client_id", "librdkafka-tools")}
    return settings | ({"debug": "cgrp,protocol"} if DEBUG else {})


def told(error: KafkaError) -> FailedError:
    return FailedError(error.name(), error.code(), error.fatal() or not error.retriable(), error.str())


def tell(error: KafkaError) -> None:
    """An error that the client goes on after, unless it is fatal."""
    event("error", **(told(error).told | {"fatal": error.fatal() or error.code() == KafkaError._FATAL}))


def explain(thrown: Exception) -> FailedError:
    if isinstance(thrown, KafkaException) and isinstance(thrown.args[0], KafkaError):
        return told(thrown.args[0])
    return FailedError(type(thrown).__name__, -1, True, str(thrown))


class Member:
    def __init__(self, request: Request) -> None:
        settings = config(request) | {
            "group.id": request["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": request["metadata_max_age_ms"],
            "error_cb": tell,
        }
        if request["group_protocol"] == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings |= {
                "session.timeout.ms": request["session_timeout_ms"],
                "heartbeat.interval.ms": request["heartbeat_interval_ms"],
                "partition.assignment.strategy": request["assignor"],
            }
        if request["max_poll_interval_ms"] is not None:
            settings["max.poll.interval.ms"] = request["max_poll_interval_ms"]
        if request["instance_id"] is not None:
            settings["group.instance.id"] = request["instance_id"]
        self._read: dict[tuple[str, int], int] = {}
        self._ownership = Ownership()
        self._poll_s = request["poll_ms"] / 1000
        self._keeps_revoked = request["keeps_revoked"]
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [request["pattern"]] if request.get("pattern") else request["topics"],
            on_assign=lambda _, partitions: callback("assigned", partitions),
            on_revoke=self._revoke,
            on_lost=lambda _, partitions: callback("lost", partitions),
        )

    def _revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        callback("revoked", partitions)
        if self._keeps_revoked:
            GIVE_UP.wait()

    def turn(self) -> None:
        message = self._consumer.poll(self._poll_s)
        self._ownership.tell(self._consumer.assignment())
        if message is None:
            return
        error = message.error()
        if error is not None:
            tell(error)
            return
        topic, partition, offset = place(message)
        self._read[topic, partition] = offset + 1
        event("message", topic=topic, partition=partition, offset=offset, value=text(message))

    def commit(self, offsets: Offsets | None) -> Offsets:
        if offsets is None:
            owned = {(p.topic, p.partition) for p in self._consumer.assignment()}
            offsets = [(topic, p, offset) for (topic, p), offset in self._read.items() if (topic, p) in owned]
        done = self._consumer.commit(offsets=[TopicPartition(*offset) for offset in offsets], asynchronous=False)
        for partition in done or []:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return [(p.topic, p.partition, p.offset) for p in done or []]

    def close(self) -> None:
        self._consumer.close()


def place(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def text(message: Message) -> str:
    value = message.value()
    return value.decode() if isinstance(value, bytes) else str(value)


def send(producer: Producer, request: Request) -> list[int]:
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            offsets.append(place(message)[2])

    for i, value in enumerate(request["values"]):
        timestamps = request.get("timestamps_ms")
        extra = {"timestamp": timestamps[i]} if timestamps else {}
        producer.produce(request["topic"], value=value, partition=request["partition"], on_delivery=delivered, **extra)
    producer.flush(ADMIN_TIMEOUT_S)
    return offsets


def produce(request: Request) -> list[int]:
    settings = {
        "compression.type": request.get("compression", "none"),
        "enable.idempotence": request.get("idempotent", False),
    }
    return send(Producer(config(request) | settings), request)


def transact(request: Request) -> None:
    within_s = request["within_ms"] / 1000
    producer = Producer(config(request) | {"transactional.id": request["transactional_id"]})
    producer.init_transactions(within_s)
    consumer = Consumer(config(request) | {"group.id": request["group"]})
    for offset, value in enumerate(("committed", "aborted"), start=1):
        producer.begin_transaction()
        producer.produce(request["topic"], value=value, partition=0)
        offsets = [TopicPartition(request["topic"], 0, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), within_s)
        if value == "committed":
            producer.commit_transaction(within_s)
        else:
            producer.flush(within_s)
            producer.abort_transaction(within_s)
    consumer.close()


def reader(request: Request) -> Consumer:
    return Consumer(config(request) | {"group.id": "not-a-group", "enable.auto.commit": False})


def fetch(request: Request) -> list[dict[str, Any]]:
    consumer = reader(request)
    consumer.assign([TopicPartition(request["topic"], request["partition"], 0)])
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + request["within_ms"] / 1000
    while len(messages) < request["count"] and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        messages.append({"offset": place(message)[2], "value": text(message), "timestamp_ms": message.timestamp()[1]})
    consumer.close()
    return messages


def offsets_for_times(request: Request) -> list[int | None]:
    consumer = reader(request)
    found: list[int | None] = []
    for timestamp_ms in request["timestamps_ms"]:
        asked = [TopicPartition(request["topic"], request["partition"], timestamp_ms)]
        (partition,) = consumer.offsets_for_times(asked, ADMIN_TIMEOUT_S)
        if partition.error is not None:
            raise KafkaException(partition.error)
        found.append(partition.offset if partition.offset >= 0 else None)
    consumer.close()
    return found


def describe(request: Request) -> dict[str, Any]:
    group = request["group"]
    admin = AdminClient(config(request))  # the futures end, unanswered, with the client
    found = admin.describe_consumer_groups([group], request_timeout=ADMIN_TIMEOUT_S)[group].result()
    return {
        "state": found.state.name,
        "protocol": found.partition_assignor,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "owned": [[p.topic, p.partition] for p in member.assignment.topic_partitions],
            }
            for member in found.members
        ],
    }


def list_groups(request: Request) -> list[dict[str, Any]]:
    admin = AdminClient(config(request))
    found = admin.list_consumer_groups(request_timeout=ADMIN_TIMEOUT_S).result()
    for error in found.errors:
        raise KafkaException(error)
    return [{"group": group.group_id, "state": group.state.name} for group in found.valid]


def tidy(request: Request) -> dict[str, Any]:
    """Sets and reads an offset of a group without members, and deletes the group. It cannot delete offsets alone."""
    group, topic = request["group"], request["topic"]
    admin = AdminClient(config(request))
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 41)])
    admin.alter_consumer_group_offsets([wanted])[group].result(ADMIN_TIMEOUT_S)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (found,) = admin.list_consumer_group_offsets([asked])[group].result(ADMIN_TIMEOUT_S).topic_partitions
    refused = admin.delete_consumer_groups([group + "-nobody"])[group + "-nobody"].exception(ADMIN_TIMEOUT_S)
    name = refused.args[0].name() if refused is not None else "deleted"
    admin.delete_consumer_groups([group])[group].result(ADMIN_TIMEOUT_S)
    left = [listed.group_id for listed in admin.list_consumer_groups().result(ADMIN_TIMEOUT_S).valid]
    return {"offset": found.offset, "refused": name, "left": group in left}


def cluster(request: Request) -> dict[str, Any]:
    admin = AdminClient(config(request))
    found = admin.describe_cluster().result(ADMIN_TIMEOUT_S)
    resource = ConfigResource(ResourceType.TOPIC, request["topic"])
    configs = admin.describe_configs([resource])[resource].result(ADMIN_TIMEOUT_S)
    return {
        "nodes": [f"{node.host}:{node.port}" for node in found.nodes],
        "cleanup_policy": configs["cleanup.policy"].value,
    }


if __name__ == "__main__":
    tools = {
        "produce": produce,
        "transact": transact,
        "fetch": fetch,
        "offsets_for_times": offsets_for_times,
        "describe": describe,
        "list": list_groups,
        "tidy": tidy,
        "cluster": cluster,
    }
    serve(Member, tools, explain)
