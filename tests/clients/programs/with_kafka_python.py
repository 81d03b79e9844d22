"""kafka-python, driven over standard input and output."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from .lines import FailedError, Offsets, Ownership, Partition, Request, callback, event, protected, serve

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
RESULT_TIMEOUT_S = 10


def config(request: Request) -> dict[str, Any]:
    return protected("kafka-python", request) | {"client_id": request.get("client_id", "kafka-python-tools")}


def explain(thrown: Exception) -> FailedError:
    if isinstance(thrown, KafkaError):
        return FailedError(type(thrown).__name__, thrown.errno or -1, not thrown.retriable, str(thrown))
    return FailedError(type(thrown).__name__, -1, True, str(thrown))


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[Partition]) -> None:
        callback("assigned", assigned)
        self._member.tell_owned()  # the poll that called this may go on for long

    def on_partitions_revoked(self, revoked: Iterable[Partition]) -> None:
        callback("revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[Partition]) -> None:
        callback("lost", lost)


class Member:
    def __init__(self, request: Request) -> None:
        self._ownership = Ownership()
        self._poll_ms: int = request["poll_ms"]
        self._read: dict[Any, int] = {}
        self._consumer = KafkaConsumer(
            group_id=request["group"],
            group_instance_id=request["instance_id"],
            session_timeout_ms=request["session_timeout_ms"],
            heartbeat_interval_ms=request["heartbeat_interval_ms"],
            metadata_max_age_ms=request["metadata_max_age_ms"],
            partition_assignment_strategy=[ASSIGNORS[request["assignor"]]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            **config(request),
        )
        if request.get("pattern"):
            self._consumer.subscribe(pattern=request["pattern"], listener=Listener(self))
        else:
            self._consumer.subscribe(topics=request["topics"], listener=Listener(self))

    def turn(self) -> None:
        for partition, messages in self._consumer.poll(timeout_ms=self._poll_ms).items():
            for message in messages:
                self._read[partition] = message.offset + 1
                event(
                    "message",
                    topic=message.topic,
                    partition=message.partition,
                    offset=message.offset,
                    value=message.value.decode(),
                )
        self.tell_owned()

    def tell_owned(self) -> None:
        self._ownership.tell(self._consumer.assignment())

    def commit(self, offsets: Offsets | None) -> Offsets:
        if offsets is None:
            owned = self._consumer.assignment()
            offsets = [(p.topic, p.partition, offset) for p, offset in self._read.items() if p in owned]
        self._consumer.commit(
            {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for topic, p, offset in offsets}
        )
        return offsets

    def close(self) -> None:
        self._consumer.close()


def produce(request: Request) -> list[int]:
    compression = request.get("compression", "none")
    producer = KafkaProducer(
        compression_type=None if compression == "none" else compression,
        enable_idempotence=request.get("idempotent", False),
        **config(request),
    )
    timestamps = request.get("timestamps_ms") or [None] * len(request["values"])
    sent = [
        producer.send(request["topic"], value.encode(), partition=request["partition"], timestamp_ms=timestamp_ms)
        for value, timestamp_ms in zip(request["values"], timestamps, strict=True)
    ]
    offsets = [one.get(timeout=RESULT_TIMEOUT_S).offset for one in sent]
    producer.close()
    return offsets


def transact(request: Request) -> None:
    producer = KafkaProducer(
        transactional_id=request["transactional_id"], max_block_ms=request["within_ms"], **config(request)
    )
    producer.init_transactions()
    for offset, value in enumerate((b"committed", b"aborted"), start=1):
        producer.begin_transaction()
        producer.send(request["topic"], value, partition=0).get(timeout=RESULT_TIMEOUT_S)
        offsets = {TopicPartition(request["topic"], 0): OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, request["group"])
        if value == b"committed":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()


def fetch(request: Request) -> list[dict[str, Any]]:
    consumer = KafkaConsumer(enable_auto_commit=False, **config(request))
    partition = TopicPartition(request["topic"], request["partition"])
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + request["within_ms"] / 1000
    while len(messages) < request["count"] and time.monotonic() < deadline:
        fetched = consumer.poll(timeout_ms=200).get(partition, [])
        messages.extend({"offset": m.offset, "value": m.value.decode(), "timestamp_ms": m.timestamp} for m in fetched)
    consumer.close()
    return messages


def offsets_for_times(request: Request) -> list[int | None]:
    consumer = KafkaConsumer(enable_auto_commit=False, **config(request))
    partition = TopicPartition(request["topic"], request["partition"])
    found: list[int | None] = []
    for timestamp_ms in request["timestamps_ms"]:
        answer = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        found.append(None if answer is None else answer.offset)
    consumer.close()
    return found


def describe(request: Request) -> dict[str, Any]:
    admin = KafkaAdminClient(**config(request))
    try:
        found = admin.describe_groups([request["group"]])[request["group"]]
    finally:
        admin.close()
    if found["error"]:
        raise FailedError("DescribeGroups", -1, True, found["error"])
    return {
        "state": found["group_state"],
        "protocol": found["protocol_data"],
        "members": [
            {
                "member_id": member["member_id"],
                "client_id": member["client_id"],
                "host": member["client_host"],
                "owned": [
                    [topic["topic"], partition]
                    for topic in (member["member_assignment"] or {"assigned_partitions": []})["assigned_partitions"]
                    for partition in topic["partitions"]
                ],
            }
            for member in found["members"]
        ],
    }


def list_groups(request: Request) -> list[dict[str, Any]]:
    admin = KafkaAdminClient(**config(request))
    try:
        return [{"group": group["group_id"], "state": group.get("group_state")} for group in admin.list_groups()]
    finally:
        admin.close()


def tidy(request: Request) -> dict[str, Any]:
    """Sets, reads and deletes an offset of a group without members, then deletes the group."""
    group, partition = request["group"], TopicPartition(request["topic"], 0)
    admin = KafkaAdminClient(**config(request))
    try:
        admin.alter_group_offsets(group, {partition: OffsetAndMetadata(41, "", -1)})
        offset = admin.list_group_offsets(group)[group][partition].offset
        admin.delete_group_offsets(group, [partition])
        offsets_left = len(admin.list_group_offsets(group)[group])
        refused = admin.delete_groups([group + "-nobody"])[group + "-nobody"]
        admin.alter_group_offsets(group, {partition: OffsetAndMetadata(41, "", -1)})
        admin.delete_groups([group])
        left = [listed["group_id"] for listed in admin.list_groups()]
    finally:
        admin.close()
    return {"offset": offset, "offsets_left": offsets_left, "refused": refused, "left": group in left}


def cluster(request: Request) -> dict[str, Any]:
    topic = request["topic"]
    admin = KafkaAdminClient(**config(request))
    try:
        found = admin.describe_cluster()
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        configs = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    finally:
        admin.close()
    return {
        "nodes": [f"{broker['host']}:{broker['port']}" for broker in found["brokers"]],
        "cleanup_policy": configs["cleanup.policy"]["value"],
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
