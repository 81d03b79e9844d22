"""What a test asks a server for instead of polling: stable groups, committed offsets, topics and messages."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import rota
from rota.clock import VirtualClock
from tests.clients.eventually import eventually

GROUP = "shipping"
WITHIN_S = 30
SETTINGS = {"group.initial.rebalance.delay.ms": 0}

pytestmark = pytest.mark.clients


@contextlib.contextmanager
def a_consumer(server: rota.Server, **settings: object) -> Iterator[Consumer]:
    """A consumer of `orders` that was not polled."""
    with contextlib.closing(
        Consumer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
                "log_level": 0,
                **settings,
            }
        )
    ) as consumer:
        consumer.subscribe(["orders"])
        yield consumer

        # librdkafka may wait for ever if it is closed between the end of a rebalance and its next poll.
        def may_be_closed() -> bool:
            consumer.poll(0.02)
            is_member = GROUP in server.groups() and consumer.memberid() in server.members(GROUP)
            return bool(consumer.assignment()) or not is_member

        eventually(may_be_closed, WITHIN_S, "the consumer has its assignment or is no member")


@pytest.fixture(params=[1, 3], ids=["one-node", "three-nodes"])
def server(request: pytest.FixtureRequest) -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS, nodes=request.param) as server:
        server.create_topic("orders", partitions=2)
        yield server


@pytest.fixture(params=["memory", "disk"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rota.Server]:
    """A server of two nodes, in memory and on disk."""
    with rota.Server(nodes=2, data=tmp_path / "data" if request.param == "disk" else None) as server:
        server.create_topic("orders", partitions=2)
        yield server


def test_a_group_is_waited_for_until_it_is_stable_with_its_members(server: rota.Server) -> None:
    with a_consumer(server) as first:
        with a_consumer(server) as second:
            found = server.wait_until_stable(GROUP, members=2, poll=lambda: (first.poll(0.02), second.poll(0.02)))
            assert (found.group_id, found.state) == (GROUP, "Stable")
            assert len(server.members(GROUP)) == 2
        server.wait_until_stable(GROUP, members=1, poll=lambda: first.poll(0.02))
    assert server.wait_until_stable(GROUP, members=0).state == "Empty"


def test_a_group_that_changes_during_the_wait_ends_it(server: rota.Server) -> None:
    with a_consumer(server) as consumer:
        before = server.wait_until_stable(GROUP)
        [member] = server.members(GROUP)
        server.expire(member)
        after = server.wait_until_stable(GROUP, members=1, poll=lambda: consumer.poll(0.02))
        assert after.generation > before.generation


async def test_the_event_loop_goes_on_while_a_group_is_awaited(server: rota.Server) -> None:
    waiting = asyncio.create_task(server.wait_until_stable_async(GROUP, members=1))
    turns = 0
    while not waiting.done() and turns < 3:
        await asyncio.sleep(0)
        turns += 1
    assert turns == 3
    with a_consumer(server):
        assert (await waiting).state == "Stable"


async def test_a_wait_that_is_cancelled_ends(server: rota.Server) -> None:
    waiting = asyncio.create_task(server.wait_until_stable_async(GROUP, timeout=3_600))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_wait_in_vain_says_which_groups_there_are(server: rota.Server) -> None:
    with pytest.raises(TimeoutError, match=r"`shopping` did not become Stable within 0 s: .* the groups are: none"):
        server.wait_until_stable("shopping", timeout=0)
    with a_consumer(server):
        server.wait_until_stable(GROUP)
        with pytest.raises(TimeoutError, match=r"there is no such group; the groups are: `shipping`"):
            server.wait_until_stable("shopping", timeout=0)


async def test_a_wait_without_poll_for_a_group_that_is_not_there_says_who_has_to_be_polled(server: rota.Server) -> None:
    """A client of this thread that joins only while it is polled never joins during such a wait."""
    hint = "kafka-python and Java join only while they are polled: in Python pass poll=lambda: consumer.poll(50)"
    with pytest.raises(TimeoutError, match=re.escape(hint)):
        server.wait_until_stable("shopping", timeout=0)
    with pytest.raises(TimeoutError, match=r"the groups are: none$"):
        server.wait_until_stable("shopping", timeout=0, poll=lambda: None)
    with pytest.raises(TimeoutError, match=r"the groups are: none$"):
        await server.wait_until_stable_async("shopping", timeout=0)


def test_a_wait_in_vain_says_why_the_group_is_not_stable() -> None:
    with rota.Server(settings=SETTINGS) as server, contextlib.ExitStack() as ends:
        server.create_topic("orders")
        gone = ends.enter_context(a_consumer(server))
        server.wait_until_stable(GROUP, members=1)
        with pytest.raises(TimeoutError, match=r"Stable with 2 members within 0 s: it has 1 member; Stable for "):
            server.wait_until_stable(GROUP, members=2, timeout=0)
        with server.pause(gone.memberid()):
            server.rebalance(GROUP)
            with pytest.raises(TimeoutError, match=r"PreparingRebalance .*: waiting for .* to rejoin"):
                server.wait_until_stable(GROUP, timeout=0)


def test_an_initial_delay_on_a_virtual_clock_is_named_at_once() -> None:
    clock = VirtualClock()
    with rota.Server(clock=clock) as server:
        server.create_topic("orders")
        with a_consumer(server):
            with pytest.raises(
                TimeoutError, match=r"initial delay, which ends in 3,000 ms: call clock.advance\(3_000\)"
            ):
                server.wait_until_stable(GROUP)
            clock.advance(3_000)
            assert server.wait_until_stable(GROUP).state == "Stable"


def test_a_member_whose_client_is_gone_is_named_with_the_time_to_advance() -> None:
    clock = VirtualClock()
    settings = {**SETTINGS, "group.min.session.timeout.ms": 1_000}
    with rota.Server(clock=clock, settings=settings) as server, contextlib.ExitStack() as ends:
        server.create_topic("orders")
        missing = ends.enter_context(a_consumer(server, **{"session.timeout.ms": 10_000}))
        server.wait_until_stable(GROUP, members=1)
        member = missing.memberid()
        ends.enter_context(server.pause(member))
        server.rebalance(GROUP)
        # The limit of the test is below this timeout.
        with pytest.raises(TimeoutError) as stuck:
            server.wait_until_stable(GROUP, timeout=3_600)
        assert f"the group waits for {member}" in str(stuck.value)
        assert "ends in 10,000 ms: call clock.advance(10_000)" in str(stuck.value)
        clock.advance(10_000)
        assert server.wait_until_stable(GROUP, members=0).state == "Empty"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"members": "two"}, TypeError, "members is 'two': give how many members"),
        ({"members": -1}, ValueError, "members is -1"),
        ({"timeout": -1}, ValueError, "timeout is -1: give seconds"),
        ({"timeout": float("nan")}, ValueError, "timeout is nan: give seconds"),
    ],
)
def test_a_wait_that_cannot_be_is_refused(
    server: rota.Server, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        server.wait_until_stable(GROUP, **arguments)  # type: ignore[arg-type]


def test_what_a_server_produces_is_consumed_and_what_a_client_produces_is_seen(kept: rota.Server) -> None:
    assert kept.produce("orders", ["one", b"two", None]) == [0, 1, 2]
    assert kept.produce("orders", ["three"], keys=["k"], partition=1) == [0]
    client = Producer({"bootstrap.servers": kept.bootstrap_servers, "compression.type": "gzip"})
    for number in range(20):
        client.produce("orders", f"{number}".encode() * 50, partition=1)
    client.flush()
    with contextlib.closing(Consumer({"bootstrap.servers": kept.bootstrap_servers, "group.id": "g"})) as consumer:
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert [message.value() for message in consumer.consume(3, timeout=30)] == [b"one", b"two", None]
    found = kept.messages("orders")
    assert [(message.partition, message.offset) for message in found] == [(0, at) for at in range(3)] + [
        (1, at) for at in range(21)
    ]
    assert [message.value for message in found[:4]] == [b"one", b"two", None, b"three"]
    assert found[3].key == b"k"
    assert found[-1].value == b"19" * 50
    now_ms = time.time() * 1_000
    assert all(abs(message.timestamp_ms - now_ms) < 3_600_000 for message in found)


def test_many_messages_are_appended_in_batches_that_the_topic_takes(kept: rota.Server) -> None:
    values = [gzip.compress(f"{number}".encode()) * 1_000 for number in range(100)]
    assert kept.produce("orders", values) == list(range(100))
    assert [message.value for message in kept.messages("orders")] == values
    assert kept.produce("orders", []) == []


def test_messages_behind_those_that_retention_dropped_are_read() -> None:
    with rota.Server(settings={"log.retention.bytes": 4_000}) as small:
        small.create_topic("orders")
        for number in range(10):
            small.produce("orders", [f"{number}" * 1_000])
        found = small.messages("orders")
        assert 0 < found[0].offset < found[-1].offset == 9


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ("one", TypeError, "values is 'one': give a list of them"),
        ([1], TypeError, "values has 1 in it: give str, bytes or None"),
        (["x" * 2_000_000], rota.RotaError, "MESSAGE_TOO_LARGE: the batch has .* bytes, the limit is"),
    ],
)
def test_a_message_that_cannot_be_is_refused(
    server: rota.Server, values: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        server.produce("orders", values)  # type: ignore[arg-type]


def test_every_message_has_one_key_or_none_has(server: rota.Server) -> None:
    with pytest.raises(ValueError, match="keys has 1, and values has 2: give one key for each value"):
        server.produce("orders", ["a", "b"], keys=["k"])


def test_partitions_are_added(server: rota.Server) -> None:
    assert server.add_partitions("orders", 3) == 5
    assert server.produce("orders", ["last"], partition=4) == [0]
    with pytest.raises(rota.RotaError, match="cannot add partitions to topic `orders`: INVALID_PARTITIONS"):
        server.add_partitions("orders", 2_000_000_000)
    with pytest.raises(ValueError, match="count is 0"):
        server.add_partitions("orders", 0)


def test_a_topic_or_partition_that_is_not_there_is_an_error_that_names_the_nearest(server: rota.Server) -> None:
    for ask in (
        lambda: server.produce("order", ["x"]),
        lambda: server.messages("order"),
        lambda: server.add_partitions("order", 1),
    ):
        with pytest.raises(rota.NotFoundError, match="there is no topic `order`; the nearest one is `orders`") as found:
            ask()
        assert found.value.what == "topic"
    with pytest.raises(rota.NotFoundError, match="topic `orders` has no partition 2: give 0 to 1") as found:
        server.produce("orders", ["x"], partition=2)
    assert found.value.what == "partition"


def test_committed_offsets_are_told_by_partition(server: rota.Server) -> None:
    with a_consumer(server) as consumer:
        server.wait_until_stable(GROUP)
        assert server.committed(GROUP) == {}
        consumer.commit(offsets=[TopicPartition("orders", 1, 7), TopicPartition("orders", 0, 3)], asynchronous=False)
        assert server.committed(GROUP) == {("orders", 0): 3, ("orders", 1): 7}
    with pytest.raises(
        rota.NotFoundError, match="there is no group `shopping`; the nearest one is `shipping`"
    ) as found:
        server.committed("shopping")
    assert found.value.what == "group"
    assert isinstance(found.value, ValueError)
