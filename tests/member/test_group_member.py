"""`rota.aio.GroupMember` on a real broker."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.aio import GroupMember, connection
from rota.assign import Members, Partition, Partitions
from rota.member import Offset, Send
from tests.journaled import journaled

from .conftest import SETTINGS, WITHIN_S, Listener, settled
from .test_machine import COORDINATOR, assigned, joined

QUICK: dict[str, Any] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300, "retry_backoff_ms": 20}
NEWER: dict[str, Any] = {"group_protocol": "consumer", "retry_backoff_ms": 20}
both_protocols = pytest.mark.parametrize("quick", [QUICK, NEWER], ids=["classic", "consumer"])


async def create(bootstrap: str, topic: str, partitions: int) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()


@pytest.mark.parametrize(
    "settings",
    [
        *(QUICK | {"strategies": [strategy]} for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky")),
        *(NEWER | {"remote_assignor": assignor} for assignor in (None, "range", "uniform")),
    ],
    ids=["range", "roundrobin", "sticky", "cooperative-sticky", "remote", "remote range", "remote uniform"],
)
async def test_two_members_share_and_one_inherits(bootstrap: str, group: str, settings: dict[str, Any]) -> None:
    await create(bootstrap, group, 4)
    async with GroupMember(bootstrap, group, [group], **settings) as first:
        one = Listener(first)
        await settled(one, partitions=4)
        async with GroupMember(bootstrap, group, [group], **settings) as second:
            other = Listener(second)
            await settled(one, other, partitions=4, evenly=True)
        await other.end()
        await settled(one, partitions=4)
    await one.end()


@both_protocols
async def test_commits_are_found_again_and_those_of_outsiders_are_refused(
    bootstrap: str, group: str, quick: dict[str, Any]
) -> None:
    await create(bootstrap, group, 2)
    async with GroupMember(bootstrap, group, [group], **quick) as member:
        listener = Listener(member)
        await settled(listener, partitions=2)
        await member.commit({(group, 0): 7})
        found = await member.committed([(group, 0), (group, 1)])
        assert found == {(group, 0): rota.member.Offset(7), (group, 1): None}
    async with GroupMember(bootstrap, f"{group}-other", [group], **quick) as outsider:
        with pytest.raises(rota.MemberError) as refused:
            await outsider.commit({(group, 0): 8})
        assert refused.value.kind in ("CommitFailed", "RebalanceInProgress")


@both_protocols
async def test_positions_are_committed_on_close(bootstrap: str, group: str, quick: dict[str, Any]) -> None:
    await create(bootstrap, group, 1)
    async with GroupMember(bootstrap, group, [group], auto_commit_interval_ms=60_000, **quick) as member:
        await settled(Listener(member), partitions=1)
        member.position((group, 0), 42)
    async with GroupMember(bootstrap, group, [group], **quick) as member:
        await settled(Listener(member), partitions=1)
        assert await member.committed([(group, 0)]) == {(group, 0): rota.member.Offset(42)}


@both_protocols
async def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, group: str, quick: dict[str, Any]
) -> None:
    await create(bootstrap, group, 4)
    async with GroupMember(bootstrap, group, [group], instance_id="a", **quick) as first:
        one = Listener(first)
        async with GroupMember(bootstrap, group, [group], instance_id="b", **quick) as second:
            await settled(one, Listener(second), partitions=4)
            generation, held = first.member.generation, second.partitions
        async with GroupMember(bootstrap, group, [group], instance_id="b", **quick) as again:
            await settled(one, Listener(again), partitions=4)
            assert again.partitions == held
        assert first.member.generation == generation


async def test_the_older_of_two_with_one_instance_id_is_told(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 1)
    async with GroupMember(bootstrap, group, [group], instance_id="a", **QUICK) as older:
        one = Listener(older)
        await settled(one, partitions=1)
        async with GroupMember(bootstrap, group, [group], instance_id="a", **QUICK) as newer:
            await settled(Listener(newer), partitions=1)
            await one.until(lambda: one.error is not None)
        assert isinstance(one.error, rota.MemberError)
        assert one.error.error == rota.protocol.ErrorCode.FENCED_INSTANCE_ID


@both_protocols
async def test_a_body_that_takes_too_long_loses_its_partitions(
    bootstrap: str, group: str, quick: dict[str, Any]
) -> None:
    await create(bootstrap, group, 2)
    async with GroupMember(bootstrap, group, [group], max_poll_interval_ms=500, **quick) as member:
        changes = member.assignments()
        # A coordinator may hear of a new topic after it has assigned nothing.
        while len(member.partitions) < 2:
            assert (await anext(changes)).kind == "assigned"
        async with asyncio.timeout(20):
            while member.member.state != "Unjoined":
                await asyncio.sleep(0.05)
        lost = await anext(changes)
        assert (lost.kind, len(lost.partitions)) == ("lost", 2)
        assert (await anext(changes)).kind == "assigned"


class Greedy:
    """Gives the first member everything."""

    name = "greedy"
    cooperative = False

    def __init__(self, skips: int = 0) -> None:
        self.skips = skips
        self.told: list[tuple[list[Partition], int]] = []

    def assign(self, members: Members, partitions: Partitions) -> Mapping[str, Sequence[Partition]]:
        everything = [(topic, index) for topic, count in partitions.items() for index in range(count)]
        return {min(members): everything[self.skips :]}

    def on_assignment(self, assigned: Sequence[Partition], generation: int) -> None:
        self.told.append((list(assigned), generation))


def told_what_it_holds(assignor: Greedy, member: GroupMember) -> bool:
    """Whether the assignor's last assignment is the member's current one; it is called when the change is read."""
    return assignor.told[-1:] == [(member.partitions, member.member.generation)]


async def test_an_assignor_of_ones_own_divides(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 3)
    assignors = Greedy(), Greedy()
    async with (
        GroupMember(bootstrap, group, [group], assignor=assignors[0], **QUICK) as first,
        GroupMember(bootstrap, group, [group], assignor=assignors[1], **QUICK) as second,
    ):
        listeners = Listener(first), Listener(second)
        await settled(*listeners, partitions=3)
        assert sorted(len(member.partitions) for member in (first, second)) == [0, 3]
        for listener, assignor in zip(listeners, assignors, strict=True):
            await listener.until(partial(told_what_it_holds, assignor, listener.member))


async def test_a_plan_that_forgets_a_partition_is_not_handed_in(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 3)
    async with GroupMember(bootstrap, group, [group], assignor=Greedy(skips=1), **QUICK) as member:
        listener = Listener(member)
        await listener.until(lambda: listener.error is not None)
        assert isinstance(listener.error, rota.MemberError)
        assert listener.error.kind == "Plan"
        assert "no member got partition 0" in str(listener.error)


async def test_a_pattern_follows_new_topics(bootstrap: str, group: str) -> None:
    await create(bootstrap, f"{group}.a", 1)
    async with GroupMember(bootstrap, group, pattern=f"{group}\\..*", metadata_max_age_ms=200, **QUICK) as member:
        listener = Listener(member)
        await settled(listener, partitions=1)
        await create(bootstrap, f"{group}.b", 2)
        await settled(listener, partitions=3)


@both_protocols
async def test_a_close_in_the_midst_of_a_join_ends(bootstrap: str, group: str, quick: dict[str, Any]) -> None:
    await create(bootstrap, group, 1)
    member = GroupMember(bootstrap, group, [group], **quick)
    await member.start()
    async with asyncio.timeout(20):
        await member.close()


@both_protocols
async def test_members_follow_their_coordinator_to_another_node(
    group: str, tmp_path: Path, quick: dict[str, Any]
) -> None:
    with journaled(tmp_path / "journal", settings=SETTINGS, nodes=3) as server:
        server.create_topic(group, partitions=4)
        bootstrap = server.bootstrap_servers
        async with (
            GroupMember(bootstrap, group, [group], **quick) as first,
            GroupMember(bootstrap, group, [group], **quick) as second,
        ):
            listeners = Listener(first), Listener(second)
            await settled(*listeners, partitions=4)
            partition = server.partition_of(group)
            for node in (1, 2, 3):
                before = first.member.generation
                await asyncio.to_thread(server.move_partition, partition, node)
                await first.commit({(group, 0): node})
                await settled(*listeners, partitions=4)
                coordinator = first.member.coordinator
                assert coordinator is not None
                assert coordinator[0] == node
                assert first.member.generation == before, "a move is no rebalance"


async def test_a_member_that_closes_holds_no_partitions() -> None:
    answers: dict[str, dict[str, Any]] = {
        "FindCoordinator": COORDINATOR | {"port": 1},
        "JoinGroup": joined(),
        "SyncGroup": assigned(("t", [0, 1])),
        "Heartbeat": {"error_code": 0},
        "LeaveGroup": {"error_code": 0},
    }
    held: dict[str, list[Partition]] = {}

    def answer(send: Send) -> dict[str, Any]:
        held[send.api] = member.partitions
        return answers[send.api]

    member = GroupMember("127.0.0.1:1", "g", ["t"], answer_here=answer, **QUICK)
    async with asyncio.timeout(WITHIN_S), member:
        await anext(member.assignments())
        assert member.partitions == [("t", 0), ("t", 1)]
    assert held["LeaveGroup"] == member.partitions == []


async def test_after_a_close_nothing_waits() -> None:
    member = GroupMember("127.0.0.1:1", "g", ["t"])
    await member.start()
    await member.close()
    async with asyncio.timeout(10):
        for call in (member.commit({("t", 0): 1}), member.committed([("t", 0)])):
            with pytest.raises(rota.MemberError, match="the member was closed first") as refused:
                await call
            assert refused.value.kind == "Closed"
        for _ in range(2):
            assert not [change async for change in member.assignments()]


@pytest.fixture
async def silent() -> AsyncIterator[tuple[str, list[int]]]:
    """A broker that answers nothing, and how many connections it has had."""
    count = [0]

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count[0] += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}", count


async def test_a_member_whose_close_timed_out_connects_no_more(silent: tuple[str, list[int]]) -> None:
    bootstrap, count = silent
    member = GroupMember(bootstrap, "g", ["t"], auto_commit_interval_ms=100, close_timeout_ms=100, retry_backoff_ms=1)
    await member.start()
    listening = asyncio.create_task(anext(member.assignments(), None))
    commit = asyncio.create_task(member.commit({("t", 0): 1}))
    async with asyncio.timeout(WITHIN_S):
        await member.close()
        assert await listening is None
        with pytest.raises(rota.MemberError, match="closed"):
            await commit
    driver, before = member._driver, count[0]
    assert driver is not None
    driver.take(member.member.advance(driver.now_ms() + 100_000))
    assert (driver._timer, driver._connections, count[0]) == (None, {}, before)


async def test_a_close_that_is_cancelled_ends_the_iteration(silent: tuple[str, list[int]]) -> None:
    member = GroupMember(silent[0], "g", ["t"], close_timeout_ms=60_000)
    await member.start()
    fetch = asyncio.create_task(member.committed([("t", 0)]))
    listening = asyncio.create_task(anext(member.assignments(), None))
    await asyncio.sleep(0)
    closing = asyncio.create_task(member.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with asyncio.timeout(WITHIN_S):
        assert await listening is None
        with pytest.raises(rota.MemberError, match="closed"):
            await fetch


async def test_an_iteration_that_is_cancelled_begins_the_time_without_a_poll(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 1)
    async with GroupMember(bootstrap, group, [group], max_poll_interval_ms=6_000, **QUICK) as member:
        assert (await anext(member.assignments())).kind == "assigned"
        listening = asyncio.create_task(anext(member.assignments()))
        await asyncio.sleep(0)
        listening.cancel()
        async with asyncio.timeout(WITHIN_S):
            while member.member.state == "Stable":
                await asyncio.sleep(0.05)


async def test_a_commit_that_is_refused_leaves_no_call_behind() -> None:
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    member = GroupMember("127.0.0.1:1", "g", ["t"])
    await member.start()
    with pytest.raises(OverflowError):
        await member.commit({("t", 2**40): 1})
    await member.close()
    del member
    gc.collect()
    assert not unhandled


async def test_a_revocation_of_many_partitions_does_not_hold_up_the_loop() -> None:
    """It takes minutes if the time for one partition grows with their number."""
    count = 50_000
    answers: dict[str, dict[str, Any]] = {
        "FindCoordinator": COORDINATOR | {"port": 1},
        "JoinGroup": joined(),
        "SyncGroup": assigned(("t", list(range(count)))),
        "Heartbeat": {"error_code": int(rota.protocol.ErrorCode.REBALANCE_IN_PROGRESS)},
        "LeaveGroup": {"error_code": 0},
    }
    changes = []
    async with asyncio.timeout(WITHIN_S):
        async with GroupMember(
            "127.0.0.1:1", "g", ["t"], answer_here=lambda send: answers[send.api], **QUICK
        ) as member:
            async for change in member.assignments():
                changes.append((change.kind, len(change.partitions), len(member.partitions)))
                if change.kind == "revoked":
                    break
    assert changes == [("assigned", count, count), ("revoked", count, 0)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"client_id": "x" * 40_000}, "client_id has 40000 bytes: give at most 32767"),
        ({"client_id": "é" * 20_000}, "client_id has 40000 bytes: give at most 32767"),
        ({"client_id": "x\ud800"}, r"client_id is 'x\ud800': '\ud800' cannot be encoded as UTF-8"),
        ({"client_id": None}, "client_id is None: give a str"),
        ({"group_id": "x" * 40_000}, "group_id has 40000 bytes: give at most 32767"),
        ({"group_id": 5}, "group_id is 5: give a str"),
        ({"instance_id": "x" * 40_000}, "instance_id has 40000 bytes: give at most 32767"),
        ({"instance_id": 5}, "instance_id is 5: give a str"),
        ({"rack": "\ud800"}, r"rack is '\ud800': '\ud800' cannot be encoded as UTF-8"),
    ],
)
def test_texts_that_no_request_can_have_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        GroupMember(**{"bootstrap_servers": "a:1", "group_id": "g", "topics": ["t"]} | given)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("offset", "says"),
    [
        (-1, "the offset of ('t', 0) is -1: give 0 to 9223372036854775807"),
        (Offset(2**63), "the offset of ('t', 0) is 9223372036854775808: give 0 to 9223372036854775807"),
        (Offset(5, leader_epoch=-2), "leader_epoch of ('t', 0) is -2: give -1 to 2147483647"),
        (Offset(5, metadata="x" * 50_000), "metadata of ('t', 0) has 50000 bytes: give at most 32767"),
    ],
)
async def test_offsets_that_no_request_can_have_are_refused(offset: int | Offset, says: str) -> None:
    async with GroupMember("127.0.0.1:1", "g", ["t"]) as member:
        with pytest.raises(ValueError, match="^" + re.escape(says)):
            await member.commit({("t", 0): offset})
        with pytest.raises(ValueError, match="^" + re.escape(says)):
            member.position(("t", 0), offset)


@pytest.mark.parametrize("function", ["write_request", "read_answer"])
async def test_an_unexpected_error_of_a_connection_is_its_loss_and_reported(
    bootstrap: str, group: str, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    original = getattr(connection, function)

    def fail(api: Any, *arguments: Any) -> Any:
        if api.name == "Metadata":
            raise RuntimeError("unexpected")
        return original(api, *arguments)

    monkeypatch.setattr(connection, function, fail)
    async with GroupMember(bootstrap, group, [group], **QUICK) as member:
        listening = asyncio.create_task(anext(member.assignments()))
        async with asyncio.timeout(WITHIN_S):
            while not member.last_loss:
                await asyncio.sleep(0.01)
        assert member.last_loss == f"{bootstrap}: RuntimeError: unexpected"
        assert str(reported[0]["exception"]) == "unexpected"
        listening.cancel()


@pytest.mark.parametrize("bootstrap_servers", ["", "localhost", "localhost:x", ":9092", "a:1,b", "a:70000"])
def test_addresses_that_are_none_are_refused(bootstrap_servers: str) -> None:
    with pytest.raises(ValueError, match="is no address of a broker: give HOST:PORT"):
        GroupMember(bootstrap_servers, "g", ["t"])


def test_topics_and_pattern_are_alternatives() -> None:
    with pytest.raises(ValueError, match="one of them"):
        GroupMember("a:1", "g")
    with pytest.raises(ValueError, match="one of them"):
        GroupMember("a:1", "g", ["t"], pattern="t")
    with pytest.raises(ValueError, match="give a list of names"):
        GroupMember("a:1", "g", "topic")
