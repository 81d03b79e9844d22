"""`rota.aio.GroupMember` with `group_protocol="consumer"`: what only the newer protocol has (docs/consumer-protocol.md
§22)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.aio import GroupMember, Roster
from rota.member import Closed, MemberSettings, Offset, Revoke, Send
from rota.protocol import ErrorCode
from tests.journaled import journaled

from .conftest import SETTINGS, WITHIN_S, Listener, settled
from .test_automatic_commits import Group, committed, revoked
from .test_group_member import NEWER, QUICK, Greedy, create


@pytest.fixture
def server(tmp_path: Path) -> Iterator[rota.Server]:
    with journaled(tmp_path / "journal", settings=SETTINGS) as running:
        yield running


async def all_held(*listeners: Listener, partitions: int) -> None:
    """Waits until members of both protocols hold so many partitions together, each once and each member some."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            shares = [listener.member.partitions for listener in listeners]
            held = [partition for share in shares for partition in share]
            if all(shares) and len(held) == len(set(held)) == partitions:
                return
            waits = [asyncio.ensure_future(listener.until(lambda: True)) for listener in listeners]
            # A change of any of them may be the last one.
            _, late = await asyncio.wait(waits, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            for wait in late:
                wait.cancel()


async def raised(member: GroupMember) -> rota.MemberError:
    """The first error of a member."""
    listener = Listener(member)
    await listener.until(lambda: listener.error is not None)
    assert isinstance(listener.error, rota.MemberError)
    return listener.error


async def test_only_what_moves_is_revoked(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 4)
    async with GroupMember(bootstrap, group, [group], **NEWER) as first:
        one = Listener(first)
        await settled(one, partitions=4)
        async with GroupMember(bootstrap, group, [group], **NEWER) as second:
            other = Listener(second)
            await settled(one, other, partitions=4, evenly=True)
            changes = [(change.kind, change.partitions) for change in one.changes if change.partitions]
            assert [kind for kind, _ in changes] == ["assigned", "revoked"]
            assert changes[1][1] == second.partitions


async def test_a_member_that_dies_is_replaced_after_its_session(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 4)
    async with GroupMember(bootstrap, group, [group], **NEWER) as survivor:
        one = Listener(survivor)
        async with GroupMember(bootstrap, group, [group], leave_on_close=False, **NEWER) as victim:
            await settled(one, Listener(victim), partitions=4, evenly=True)
        await settled(one, partitions=4)


async def test_a_second_process_with_the_instance_id_is_refused_until_the_first_leaves(
    bootstrap: str, group: str
) -> None:
    await create(bootstrap, group, 1)
    async with GroupMember(bootstrap, group, [group], instance_id="a", **NEWER) as older:
        await settled(Listener(older), partitions=1)
        async with GroupMember(bootstrap, group, [group], instance_id="a", **NEWER) as newer:
            error = await raised(newer)
            assert error.error == ErrorCode.UNRELEASED_INSTANCE_ID
            assert "is owned by" in str(error)
            await older.close()
            await settled(Listener(newer), partitions=1)


async def test_a_fenced_member_loses_its_partitions_and_comes_back(server: rota.Server, group: str) -> None:
    server.create_topic(group, partitions=2)
    async with GroupMember(server.bootstrap_servers, group, [group], **NEWER) as member:
        listener = Listener(member)
        await settled(listener, partitions=2)
        member_id = member.member.member_id
        await asyncio.to_thread(server.expire, member_id, group)
        await listener.until(lambda: [change.kind for change in listener.changes if change.partitions][1:2] == ["lost"])
        await settled(listener, partitions=2)
        assert member.member.member_id == member_id


async def test_the_coordinator_matches_a_pattern(bootstrap: str, group: str) -> None:
    for topic, partitions in ((f"{group}.a", 1), (f"{group}.b", 2), (f"{group}-c", 4)):
        await create(bootstrap, topic, partitions)
    async with GroupMember(bootstrap, group, pattern=rf"\Q{group}\E\..*", **NEWER) as member:
        await settled(Listener(member), partitions=3)


async def test_a_pattern_that_the_coordinator_cannot_read_is_raised(bootstrap: str, group: str) -> None:
    async with GroupMember(bootstrap, group, pattern="(", **NEWER) as member:
        error = await raised(member)
        assert error.error == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "is not a valid regular expression" in str(error)


async def test_an_assignor_that_the_coordinator_does_not_have_is_raised(bootstrap: str, group: str) -> None:
    async with GroupMember(bootstrap, group, [group], remote_assignor="fair", **NEWER) as member:
        error = await raised(member)
        assert (error.kind, error.error) == ("Answer", ErrorCode.UNSUPPORTED_ASSIGNOR)
        assert "Supported assignors: uniform, range" in str(error)


async def test_a_broker_without_the_protocol_is_named(group: str) -> None:
    settings = SETTINGS | {"group.coordinator.rebalance.protocols": "classic"}
    with rota.Server(settings=settings) as server:
        async with GroupMember(server.bootstrap_servers, group, [group], **NEWER) as member:
            error = await raised(member)
            assert error.error == ErrorCode.UNSUPPORTED_VERSION
            assert "use group_protocol `classic`" in str(error)


async def test_members_of_both_protocols_share_a_group(bootstrap: str, group: str) -> None:
    await create(bootstrap, group, 6)
    async with contextlib.AsyncExitStack() as stack:
        members = []
        for settings in (QUICK, NEWER, QUICK | {"strategies": ["cooperative-sticky", "range"]}):
            member = await stack.enter_async_context(GroupMember(bootstrap, group, [group], **settings))
            members.append(Listener(member))
            await all_held(*members, partitions=6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"session_timeout_ms": 6_000},
            "session_timeout_ms is 6000: with group_protocol `consumer` the broker decides",
        ),
        ({"heartbeat_interval_ms": 300}, r"change `consumer\.heartbeat\.interval\.ms` of the group"),
        ({"strategies": ["range"]}, "the coordinator assigns; leave them out, or give remote_assignor"),
        ({"remote_assignor": ""}, "remote_assignor is empty"),
        ({"group_protocol": "newer"}, 'group_protocol is "newer": give classic or consumer'),
        ({"group_protocol": "classic", "remote_assignor": "range"}, "with group_protocol `classic` a member assigns"),
    ],
)
def test_settings_of_the_other_protocol_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rota.Member("readers", MemberSettings(**({"group_protocol": "consumer"} | settings)))


def test_an_assignor_and_a_roster_need_the_classic_protocol() -> None:
    with pytest.raises(ValueError, match="give `classic`, or no assignor"):
        GroupMember("a:1", "g", ["t"], assignor=Greedy(), group_protocol="consumer")
    with pytest.raises(ValueError, match="give `classic`, or no assignor"):
        Roster("a:1", "g", 1, group_protocol="consumer")


def test_only_members_of_the_classic_protocol_start_a_rebalance() -> None:
    member = rota.Member("readers", MemberSettings(group_protocol="consumer"))
    with pytest.raises(ValueError, match="rejoin needs group_protocol `classic`"):
        member.rejoin(0, "because")
    with pytest.raises(ValueError, match="user_data needs group_protocol `classic`"):
        member.user_data(0, "range", b"")


def test_a_close_while_the_application_gives_up_its_subscription_ends_the_member() -> None:
    group = Group("consumer")
    assert group.member.unsubscribe(10) == [Revoke([("t", 0), ("t", 1)])]
    assert not group.member.close(20)
    [leave] = group.member.done(30)
    assert isinstance(leave, Send)
    assert (leave.api, leave.fields["member_epoch"]) == ("ConsumerGroupHeartbeat", -1)
    left = {"error_code": 0, "member_epoch": -1, "heartbeat_interval_ms": 0, "assignment": None}
    assert group.member.answered(40, leave.request, leave.api, left) == [Closed()]


def test_many_partitions_that_are_revoked_are_committed() -> None:
    """It takes minutes if the time for one partition grows with their number."""
    count = 20_000
    group = Group("consumer", partitions=count)
    group.advance(200)
    assert len(revoked(group.rebalances(210, range(0)))) == count
    effects = group.member.commit(220, 1, {("t", index): Offset(5) for index in range(count)})
    [offsets] = committed(effects)
    assert len(offsets) == count


def test_equal_seeds_give_equal_member_ids() -> None:
    ids = [rota.Member("g", MemberSettings(group_protocol="consumer", seed=seed)).member_id for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 22
