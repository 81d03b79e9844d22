"""aiokafka, driven over standard input and output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError, for_code

from .lines import FailedError, Offsets, Ownership, Partition, Request, callback, event, protected, serve

Result = TypeVar("Result")

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
REBALANCE_TIMEOUT_MS = 60_000
LOOP = asyncio.new_event_loop()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """The client's background tasks run while the loop does: a member's `turn` keeps it going nearly always."""
    return LOOP.run_until_complete(work)


def config(request: Request) -> dict[str, Any]:
    return protected("aiokafka", request) | {"client_id": request.get("client_id", "aiokafka-tools")}


def explain(thrown: Exception) -> FailedError:
    if isinstance(thrown, KafkaError):
        code = getattr(thrown, "errno", None)  # only what a broker answered has one
        return FailedError(type(thrown).__name__, code or -1, not thrown.retriable, str(thrown))
    return FailedError(type(thrown).__name__, -1, True, str(thrown))


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    async def on_partitions_assigned(self, assigned: Iterable[Partition]) -> None:
        callback("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Partition]) -> None:
        callback("revoked", revoked)


class Member:
    def __init__(self, request: Request) -> None:
        self._ownership = Ownership()
        self._poll_ms: int = request["poll_ms"]
        self._read: dict[Any, int] = {}
        self._consumer = run(self._join(request))

    @staticmethod
    async def _join(request: Request) -> Any:
        consumer = AIOKafkaConsumer(
            group_id=request["group"],
            group_instance_id=request["instance_id"],
            session_timeout_ms=request["session_timeout_ms"],
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            heartbeat_interval_ms=request["heartbeat_interval_ms"],
            metadata_max_age_ms=request["metadata_max_age_ms"],
            partition_assignment_strategy=[ASSIGNORS[request["assignor"]]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **config(request),
        )
        if request.get("pattern"):
            consumer.subscribe(pattern=request["pattern"], listener=Listener())
        else:
            consumer.subscribe(topics=request["topics"], listener=Listener())
        await consumer.start()
        return consumer

    def turn(self) -> None:
        for partition, messages in run(self._consumer.getmany(timeout_ms=self._poll_ms)).items():
            for message in messages:
                self._read[partition] = message.offset + 1
                event(
                    "message",
                    topic=message.topic,
                    partition=message.partition,
                    offset=message.offset,
                    value=message.value.decode(),
                )
        self._ownership.tell(self._consumer.assignment())

    def commit(self, offsets: Offsets | None) -> Offsets:
        if offsets is None:
            owned = self._consumer.assignment()
            offsets = [(p.topic, p.partition, offset) for p, offset in self._read.items() if p in owned]
        run(self._consumer.commit({TopicPartition(topic, p): offset for topic, p, offset in offsets}))
        return offsets

    def close(self) -> None:
        run(self._consumer.stop())


async def produce(request: Request) -> list[int]:
    compression = request.get("compression", "none")
    producer = AIOKafkaProducer(
        compression_type=None if compression == "none" else compression,
        enable_idempotence=request.get("idempotent", False),
        **config(request),
    )
    await producer.start()
    try:
        timestamps = request.get("timestamps_ms") or [None] * len(request["values"])
        sent = [
            await producer.send(
                request["topic"], value.encode(), partition=request["partition"], timestamp_ms=timestamp_ms
            )
            for value, timestamp_ms in zip(request["values"], timestamps, strict=True)
        ]
        return [(await one).offset for one in sent]
    finally:
        await producer.stop()


async def transact(request: Request) -> None:
    producer = AIOKafkaProducer(transactional_id=request["transactional_id"], **config(request))
    try:
        async with asyncio.timeout(request["within_ms"] / 1000):
            await producer.start()
            for offset, value in enumerate((b"committed", b"aborted"), start=1):
                await producer.begin_transaction()
                await producer.send_and_wait(request["topic"], value, partition=0)
                offsets = {TopicPartition(request["topic"], 0): offset}
                await producer.send_offsets_to_transaction(offsets, request["group"])
                if value == b"committed":
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
    finally:
        await producer.stop()


async def fetch(request: Request) -> list[dict[str, Any]]:
    consumer = AIOKafkaConsumer(enable_auto_commit=False, **config(request))
    await consumer.start()
    try:
        partition = TopicPartition(request["topic"], request["partition"])
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        messages: list[dict[str, Any]] = []
        deadline = time.monotonic() + request["within_ms"] / 1000
        while len(messages) < request["count"] and time.monotonic() < deadline:
            fetched = (await consumer.getmany(timeout_ms=200)).get(partition, [])
            messages.extend(
                {"offset": m.offset, "value": m.value.decode(), "timestamp_ms": m.timestamp} for m in fetched
            )
        return messages
    finally:
        await consumer.stop()


async def offsets_for_times(request: Request) -> list[int | None]:
    consumer = AIOKafkaConsumer(enable_auto_commit=False, **config(request))
    await consumer.start()
    try:
        partition = TopicPartition(request["topic"], request["partition"])
        found: list[int | None] = []
        for timestamp_ms in request["timestamps_ms"]:
            answer = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            found.append(None if answer is None else answer.offset)
        return found
    finally:
        await consumer.stop()


async def describe(request: Request) -> dict[str, Any]:
    admin = AIOKafkaAdminClient(**config(request))
    await admin.start()
    try:
        (answer,) = await admin.describe_consumer_groups([request["group"]])
    finally:
        await admin.close()
    error_code, _, state, _, protocol, members, *_ = answer.groups[0]
    if error_code:
        raise for_code(error_code)()
    described = []
    for member_id, client_id, host, _, assignment in (member[:5] for member in members):
        owned = ConsumerProtocolMemberAssignment.decode(assignment).assignment if assignment else []
        described.append(
            {
                "member_id": member_id,
                "client_id": client_id,
                "host": host,
                "owned": [[topic, partition] for topic, partitions in owned for partition in partitions],
            }
        )
    return {"state": state, "protocol": protocol, "members": described}


async def list_groups(request: Request) -> list[dict[str, Any]]:
    admin = AIOKafkaAdminClient(**config(request))
    await admin.start()
    try:
        return [{"group": group[0], "state": None} for group in await admin.list_consumer_groups()]
    finally:
        await admin.close()


def on_loop(tool: Callable[[Request], Coroutine[Any, Any, Any]]) -> Callable[[Request], Any]:
    return lambda request: run(tool(request))


if __name__ == "__main__":
    tools = {
        "produce": on_loop(produce),
        "transact": on_loop(transact),
        "fetch": on_loop(fetch),
        "offsets_for_times": on_loop(offsets_for_times),
        "describe": on_loop(describe),
        "list": on_loop(list_groups),
    }
    asyncio.set_event_loop(LOOP)
    serve(Member, tools, explain)
