"""Brokers that close, talk nonsense or say nothing: a member recovers, or stops with a named error; it never hangs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.aio import GroupMember
from rota.member import Send
from tests.journaled import check_complete, violations_in

from .conftest import SETTINGS, WITHIN_S, Listener, settled

QUICK: dict[str, Any] = {
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 300,
    "retry_backoff_ms": 10,
    "request_timeout_ms": 500,
    # What a join waits for beyond it is five seconds; a broker that cuts an answer is noticed at once.
    "max_poll_interval_ms": 5_000,
}

# The broker decides the session and the heartbeats.
NEWER: dict[str, Any] = {
    "group_protocol": "consumer",
    "retry_backoff_ms": 10,
    "request_timeout_ms": 500,
    "max_poll_interval_ms": 5_000,
}

# Each of some hundred brokers has a journal, of few files.
ONE_PARTITION: dict[str, Any] = SETTINGS | {"offsets.topic.num.partitions": 1}

Spoil = Callable[[int, int, bytes], bytes | None]
"""From the number of a connection, how much has passed, and the next bytes: what passes instead; None: it is cut."""


class BadBroker:
    """Stands before a good broker, coordinator connections included, and spoils what that says. The journal of the good
    one is audited at its end."""

    def __init__(self, spoil: Spoil, violations: frozenset[str] = frozenset()) -> None:
        self.spoil = spoil
        self.possible = violations
        self.violations: set[str] = set()
        """The wrong actions of members that a broker's answers caused; only those that were named."""
        self.connections = 0
        self.passed = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[int, bytes], bytes | None]
    ) -> None:
        passed = 0
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(65_536):
                    changed = change(passed, data)
                    if changed is None:
                        break
                    passed += len(data)
                    writer.write(changed)
                    await writer.drain()
        finally:
            writer.close()

    def _change(self, number: int, passed: int, data: bytes) -> bytes | None:
        self.passed = max(self.passed, passed + len(data))
        return self.spoil(number, passed, data)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection(*self.good)
        for pump in (
            self._pump(reader, there_writer, lambda _, data: data),
            self._pump(there_reader, writer, lambda passed, data: self._change(number, passed, data)),
        ):
            task = asyncio.create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @contextlib.asynccontextmanager
    async def before(self, group: str) -> AsyncIterator[str]:
        """Its address; the server behind it advertises that, and has a topic of the group's name."""
        front = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        address = "{}:{}".format(*front.sockets[0].getsockname()[:2])
        # Files are written and read when it begins and ends; meanwhile the members in this loop have to be heard.
        place = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="rota-bad-")
        journal = Path(place.name) / "journal"
        server = await asyncio.to_thread(rota.Server, settings=ONE_PARTITION, advertise=address, journal=journal)
        server.create_topic(group, partitions=2)
        self.good = (server.host, server.port)
        try:
            yield address
        finally:
            front.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.to_thread(self._audit, server, journal)
            await asyncio.to_thread(place.cleanup)

    def _audit(self, server: rota.Server, journal: Path) -> None:
        server.stop()
        check_complete(server)
        found = violations_in(journal)
        self.violations = {each.name for each in found}
        assert self.violations <= self.possible, "\n".join(map(str, found))


async def get_in(address: str, group: str, settings: dict[str, Any] = QUICK) -> None:
    async with GroupMember(address, group, [group], **settings) as member:
        await settled(Listener(member), partitions=2)


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        pytest.param(QUICK, 1, marks=pytest.mark.long, id="classic, at every byte"),
        pytest.param(QUICK, 4, id="classic"),
        pytest.param(NEWER, 4, id="consumer"),
    ],
)
async def test_a_broker_that_cuts_at_any_byte_does_not_keep_a_member_out(
    group: str, settings: dict[str, Any], step: int
) -> None:
    good = BadBroker(lambda _, __, data: data)
    async with good.before(group) as address:
        await get_in(address, group, settings)
    assert good.passed > 100, "there is something to cut"

    async def cut(at: int) -> int:
        bad = BadBroker(lambda number, passed, data: data if number > 1 or passed + len(data) <= at else None)
        async with bad.before(group) as address:
            await get_in(address, group, settings)
        return bad.connections

    limit = asyncio.Semaphore(16)

    async def one(at: int) -> int:
        async with limit:
            return await cut(at)

    connections = await asyncio.gather(*(one(at) for at in range(0, good.passed, step)))
    # Beyond the end of the shorter of the two connections only the longer one is cut, beyond that none.
    assert sum(count > 2 for count in connections) > len(connections) * 0.75


def flipped(at: int) -> Spoil:
    """One byte of the first two connections is another."""

    def spoil(number: int, passed: int, data: bytes) -> bytes:
        if number > 1 or not passed <= at < passed + len(data):
            return data
        changed = bytearray(data)
        changed[at - passed] ^= 0x55
        return bytes(changed)

    return spoil


@pytest.mark.parametrize(("settings", "step"), [(QUICK, 3), (NEWER, 4)], ids=["classic", "consumer"])
async def test_a_broker_that_says_one_byte_wrong_does_not_make_a_member_hang(
    group: str, settings: dict[str, Any], step: int
) -> None:
    """The wrong byte may say anything, a refusal, another coordinator, another topic: whatever it is, the member is in
    a group again soon, or says what is wrong."""
    good = BadBroker(lambda _, __, data: data)
    async with good.before(group) as address:
        await get_in(address, group, settings)
    limit = asyncio.Semaphore(16)
    # The topic to which a member subscribes may be another one in the leader's metadata.
    bad = {at: BadBroker(flipped(at), frozenset({"not subscribed"})) for at in range(0, good.passed, step)}

    async def one(at: int) -> str:
        async with (
            limit,
            bad[at].before(group) as address,
            GroupMember(address, group, [group], **settings) as member,
        ):
            listener = Listener(member)
            try:
                async with asyncio.timeout(WITHIN_S):
                    while member.member.state != "Stable" and listener.error is None:
                        await asyncio.sleep(0.01)
            except TimeoutError:
                return f"byte {at}: {member.member!r}, {member.last_loss}"
            return ""

    hung = await asyncio.gather(*map(one, bad))
    assert not [each for each in hung if each]
    if settings is NEWER:
        # No leader reads the broker's topics.
        assert not any(broker.violations for broker in bad.values())
        return
    misled = [at for at, broker in bad.items() if broker.violations]
    assert misled, "the audit sees the assignments of such a leader"
    assert misled[-1] - misled[0] < len(group), "only a byte in the name of the topic leads to them"


@pytest.mark.parametrize(
    "said",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01", b"\xff\xff\xff\xff", b""],
    ids=["http", "a frame of 2 GB", "a frame of a byte", "a negative length", "nothing"],
)
async def test_what_is_no_broker_is_left_alone_until_it_is_one(group: str, said: bytes) -> None:
    bad = BadBroker(lambda number, _, data: said if number < 3 else data)
    async with bad.before(group) as address:
        await get_in(address, group)
    assert bad.connections > 3


async def test_answers_in_another_order_are_not_taken_for_each_other(group: str) -> None:
    def other_id(number: int, passed: int, data: bytes) -> bytes:
        # The second answer of the first connection: the first is that to ApiVersions.
        return data[:7] + b"\x63" + data[8:] if number == 0 and passed else data

    bad = BadBroker(other_id)
    async with bad.before(group) as address, GroupMember(address, group, [group], **QUICK) as member:
        await settled(Listener(member), partitions=2)
        assert "an answer with id 99, 1 was expected" in member.last_loss


async def test_where_nobody_listens_a_member_waits_and_a_close_does_not(group: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with asyncio.timeout(10):
        async with GroupMember(f"127.0.0.1:{port}", group, [group], **QUICK) as member:
            while not member.last_loss:
                await asyncio.sleep(0.01)
            assert f"127.0.0.1:{port}" in member.last_loss
            with pytest.raises(rota.MemberError, match="out of the group"):
                await member.commit({(group, 0): 1})


LONG_LABEL = "x" * 64


@pytest.mark.parametrize("host", ["my..host", LONG_LABEL, "."])
async def test_a_bootstrap_host_that_cannot_be_one_is_tried_again_and_named(host: str) -> None:
    """The next address has its turn."""
    async with asyncio.timeout(WITHIN_S):
        async with GroupMember(f"{host}:9092,127.0.0.1:1", "g", ["t"], **QUICK) as member:
            for part in (host, "127.0.0.1:1", host):
                while not member.last_loss.startswith(part):
                    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("host", "port"),
    [("my..host", 9092), (LONG_LABEL, 9092), ("127.0.0.1", 99_999), ("127.0.0.1", -1), ("127.0.0.1", 65_536)],
)
async def test_a_coordinator_whose_address_cannot_be_one_is_looked_for_again(host: str, port: int) -> None:
    finds = 0

    def answer_here(send: Send) -> dict[str, Any] | None:
        nonlocal finds
        finds += 1
        return {"error_code": 0, "node_id": 1, "host": host, "port": port} if send.api == "FindCoordinator" else None

    async with asyncio.timeout(WITHIN_S):
        async with GroupMember("127.0.0.1:1", "g", ["t"], answer_here=answer_here, **QUICK) as member:
            while finds < 5:
                await asyncio.sleep(0.01)
            assert member.last_loss.startswith(f"{host}:{port}: ")


async def test_a_number_that_is_too_large_for_its_field_is_named() -> None:
    def answer_here(send: Send) -> dict[str, Any] | None:
        if send.api != "Metadata":
            return None
        partitions = [{"partition_index": -(2**40), "replica_nodes": [1]}]
        topics = [{"error_code": 0, "name": "t", "partitions": partitions}]
        return {"brokers": [{"node_id": 1, "rack": "r"}], "topics": topics}

    async with asyncio.timeout(WITHIN_S):
        async with GroupMember("127.0.0.1:1", "g", pattern="t", answer_here=answer_here, **QUICK) as member:
            while not member.last_loss.startswith("Metadata: "):
                await asyncio.sleep(0.01)


async def test_a_broker_that_hangs_is_given_up_after_the_request_timeout(group: str) -> None:
    hung: list[int] = []

    def hang(number: int, passed: int, data: bytes) -> bytes:
        if number == 0 and passed:
            hung.append(passed)
            return b""
        return data

    bad = BadBroker(hang)
    async with bad.before(group) as address:
        await get_in(address, group)
    assert hung
    assert bad.connections > 2
