"""What a test may make a server do to its groups and members, as real clients see it: on one node and on three."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

import rota
from rota.controls import Control
from rota.faults import Faults
from tests.journaled import journaled

WITHIN_S = 60
GROUP = "readers"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1_000}

pytestmark = pytest.mark.clients


@pytest.fixture(params=[1, 3], ids=["one-node", "three-nodes"])
def nodes(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


@pytest.fixture
def clock() -> rota.VirtualClock:
    return rota.VirtualClock()


@pytest.fixture
def server(nodes: int, clock: rota.VirtualClock, tmp_path: Path) -> Iterator[rota.Server]:
    """On a virtual clock."""
    with journaled(tmp_path / "journal", settings=SETTINGS, nodes=nodes, clock=clock) as server:
        server.create_topic("news", partitions=2)
        yield server


@pytest.fixture
def real_time_server(nodes: int, tmp_path: Path) -> Iterator[rota.Server]:
    with journaled(tmp_path / "journal", settings=SETTINGS, nodes=nodes) as server:
        server.create_topic("news", partitions=2)
        yield server


class Member:
    """A consumer that reports the calls of its callbacks."""

    def __init__(self, server: rota.Server, group: str = GROUP, **settings: Any) -> None:
        self.told: list[str] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "group.id": group,
                "client.id": "ana",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                "log_level": 0,
            }
            | settings
        )
        self.consumer.subscribe(
            ["news"],
            on_assign=lambda *_: self.told.append("assigned"),
            on_revoke=lambda *_: self.told.append("revoked"),
            on_lost=lambda *_: self.told.append("lost"),
        )

    @property
    def id(self) -> str:
        return str(self.consumer.memberid())

    def poll_until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline_s, f"the condition did not come to hold; told {self.told}"
            self.consumer.poll(0.02)

    def poll_until_told(self, *told: str) -> None:
        self.poll_until(lambda: self.told == list(told))

    def commit(self, offset: int) -> None:
        self.consumer.commit(offsets=[TopicPartition("news", 0, offset)], asynchronous=False)


@contextmanager
def a_member(server: rota.Server, group: str = GROUP, **settings: Any) -> Iterator[Member]:
    """A member whose group is Stable."""
    member = Member(server, group, **settings)
    try:
        member.poll_until_told("assigned")
        yield member
    finally:
        member.consumer.close()


def last_rebalance(server: rota.Server) -> rota.coordinator.Rebalance:
    return server.explain(GROUP).rebalances[-1]


def test_the_members_of_a_group_are_named_by_id_and_instance(server: rota.Server) -> None:
    with a_member(server, **{"group.instance.id": "desk-1"}) as member:
        assert server.members(GROUP) == {member.id: "desk-1"}
    with pytest.raises(ValueError, match="there is no group `reader`; the nearest one is `readers`"):
        server.members("reader")


def test_a_member_that_is_made_to_expire_is_told_so_and_comes_back(real_time_server: rota.Server) -> None:
    server = real_time_server
    with a_member(server) as member:
        before = member.id
        server.expire(before)
        assert server.members(GROUP) == {}
        rebalance = last_rebalance(server)
        assert (rebalance.cause, rebalance.member_id) == ("SessionExpired", before)
        member.poll_until_told("assigned", "lost", "assigned")
        assert list(server.members(GROUP)) == [member.id] != [before]


def test_a_static_member_expires_by_its_instance_id_within_its_group(server: rota.Server) -> None:
    with a_member(server, **{"group.instance.id": "desk-1"}):
        with pytest.raises(ValueError, match=r"names a member only within a group: give its group, such as `readers`"):
            server.expire("desk-1")
        server.expire("desk-1", group=GROUP)
        assert server.members(GROUP) == {}


def test_a_member_or_group_that_is_none_is_refused_with_the_nearest_that_is(server: rota.Server) -> None:
    with pytest.raises(ValueError, match="no group has a member `ana-1`; there are none at all"):
        server.expire("ana-1")
    with a_member(server, **{"group.instance.id": "desk-1"}) as member:
        with pytest.raises(ValueError, match=f"no group has a member `{member.id}x`; the nearest one is `{member.id}`"):
            server.expire(member.id + "x")
        with pytest.raises(ValueError, match=r"group `readers` has no member or instance `desk-2`; the nearest one is"):
            server.faults.pause("desk-2", group=GROUP)
        with pytest.raises(ValueError, match="there is no group `writers`; there is only `readers`"):
            server.expire(member.id, group="writers")
        with pytest.raises(ValueError, match="there is no group `writers`"):
            server.rebalance("writers")


def test_every_call_about_a_group_that_is_not_there_raises_the_same_error(server: rota.Server) -> None:
    with a_member(server) as member:
        for ask in (
            server.explain,
            server.members,
            server.rebalance,
            server.committed,
            lambda group: server.expire(member.id, group),
            lambda group: server.pause(member.id, group),
        ):
            with pytest.raises(
                rota.NotFoundError, match=r"^there is no group `typo`; there is only `readers`$"
            ) as refused:
                ask("typo")
            assert refused.value.what == "group"


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda server: server.inject_error("Heartbeat", "FOO"), "the protocol has no error `FOO`; there are "),
        (lambda server: server.fail_appends("FOO"), "the protocol has no error `FOO`; there are "),
        (lambda server: server.inject_error("Foo", "NOT_COORDINATOR"), "is named `Foo`; there are `Produce`, `Fetch`"),
        (lambda server: server.drop_answers("Foo"), "this server has no API `Foo`; there are "),
        (lambda server: server.messages("foo"), "there is no topic `foo`; there "),
        (lambda _: rota.Server(settings={"foo": 1}), "unknown setting `foo`; there are "),
        (lambda _: rota.coordinator.Coordinator({"foo": 1}), "unknown setting `foo`; there are "),
    ],
)
def test_a_name_that_is_like_no_other_gets_no_suggestion(
    server: rota.Server, ask: Callable[[rota.Server], object], says: str
) -> None:
    with pytest.raises((ValueError, rota.RotaError)) as refused:
        ask(server)
    assert says in str(refused.value)
    assert "nearest" not in str(refused.value)


def test_a_group_without_members_cannot_rebalance(server: rota.Server) -> None:
    with a_member(server):
        pass
    with pytest.raises(rota.RotaError, match="group `readers` cannot be made to rebalance: the group has no members"):
        server.rebalance(GROUP)


def test_a_group_rebalances_when_it_is_asked_to_and_everybody_rejoins(real_time_server: rota.Server) -> None:
    server = real_time_server
    with a_member(server) as member:
        before = member.id
        server.rebalance(GROUP)
        member.poll_until_told("assigned", "revoked", "assigned")
        assert member.id == before
        rebalance = last_rebalance(server)
        assert (rebalance.cause, rebalance.from_generation, rebalance.to_generation) == ("Requested", 1, 2)
        assert "a test asked for it" in str(rebalance)


def test_a_commit_is_answered_with_the_injected_error_once(real_time_server: rota.Server) -> None:
    server = real_time_server
    with a_member(server) as member:
        injection = server.faults.inject_error("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
        assert (injection.count, injection.left) == (0, 1)
        with pytest.raises(KafkaException) as refused:
            member.commit(5)
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert (injection.count, injection.left, server.faults.injected()) == (1, 0, 1)
        assert repr(injection) == "Injection(count=1, left=0)"
        member.commit(7)
        committed = member.consumer.committed([TopicPartition("news", 0)], timeout=WITHIN_S)
        assert committed[0].offset == 7


def test_an_injection_for_another_group_or_one_that_was_cancelled_leaves_a_commit_alone(server: rota.Server) -> None:
    with a_member(server) as member:
        other = server.faults.inject_error("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", group="writers")
        cancelled = server.faults.inject_error("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=5)
        cancelled.cancel()
        member.commit(5)
        assert (other.left, cancelled.count, server.faults.injected()) == (1, 0, 0)


def test_a_client_that_is_told_to_look_elsewhere_finds_its_coordinator_again(real_time_server: rota.Server) -> None:
    server = real_time_server
    with a_member(server) as member:
        heartbeats = server.faults.inject_error("Heartbeat", "NOT_COORDINATOR", times=2)
        lookups = server.faults.inject_error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=1, group=GROUP)
        member.poll_until(lambda: heartbeats.left == lookups.left == 0)
        member.commit(3)
        assert member.told == ["assigned"]


@pytest.mark.parametrize("times", [-1, 2**31])
def test_errors_are_injected_so_many_times_as_can_be_counted(server: rota.Server, times: int) -> None:
    with pytest.raises(ValueError, match=f"times is {times}"):
        server.faults.inject_error("Heartbeat", "NOT_COORDINATOR", times)
    with pytest.raises(ValueError, match=f"ms is {times}"):
        server.faults.delay_appends(times)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda server: server.move_partition("0", 1), "partition is '0': give a whole number"),
        (lambda server: server.move_partition(0, "1"), "node is '1': give a whole number"),
        (lambda server: server.owner(0.5), "partition is 0.5: give a whole number"),
        (lambda server: server.create_topic("more", "2"), "partitions is '2': give a whole number"),
        (
            lambda server: server.faults.inject_error("Heartbeat", "NOT_COORDINATOR", None),
            "times is None: give a whole",
        ),
        (lambda server: server.faults.fail_appends("NOT_COORDINATOR", "1"), "times is '1': give a whole number"),
        (lambda server: server.faults.delay_appends(0.3), "ms is 0.3: give a whole number"),
        (lambda server: server.expire(7), "member is 7: give a str"),
        (lambda server: server.faults.pause("m", 7), "group is 7: give a str"),
        (
            lambda server: server.faults.inject_error(12, "NOT_COORDINATOR"),
            "api is 12: give Kafka's name of an API",
        ),
    ],
)
def test_an_argument_of_another_type_is_named(ask: Callable[[Any], Any], says: str) -> None:
    with rota.Server() as server, pytest.raises(TypeError, match=says):
        ask(server)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"nodes": "3"}, "nodes is '3': give a whole number"),
        ({"settings": ["group.max.size"]}, r"settings is \['group.max.size'\]: give a mapping"),
        ({"clock": 5}, "clock is 5: give a rota.VirtualClock"),
        ({"trace": "out.txt"}, "trace is 'out.txt': give a function or a text file"),
    ],
)
def test_a_server_is_not_made_of_an_argument_of_another_type(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        rota.Server(**arguments)


def test_a_paused_member_loses_its_session_on_a_virtual_clock_and_is_told_when_it_is_heard_again(
    server: rota.Server, clock: rota.VirtualClock
) -> None:
    with a_member(server) as member:
        paused = member.id
        clock.advance(45_000)
        assert list(server.members(GROUP)) == [paused]
        with server.faults.pause(paused) as pause:
            assert (pause.group, pause.member_id) == (GROUP, paused)
            clock.advance(45_000)
            assert server.members(GROUP) == {}
            assert last_rebalance(server).cause == "SessionExpired"
            assert member.told == ["assigned"]
        member.poll_until_told("assigned", "lost", "assigned")


def test_a_paused_member_loses_its_session_in_real_time(real_time_server: rota.Server) -> None:
    server = real_time_server
    settings: dict[str, Any] = {"session.timeout.ms": 1_000, "group.instance.id": "desk-1"}
    with (
        a_member(server, **settings) as member,
        server.faults.pause("desk-1", group=GROUP),
    ):
        member.poll_until(lambda: not server.members(GROUP))
        assert last_rebalance(server).cause == "SessionExpired"


def test_what_a_paused_member_sends_is_handled_when_it_is_resumed_and_not_before(server: rota.Server) -> None:
    done: list[KafkaError | None] = []
    settings: dict[str, Any] = {"on_commit": lambda error, _: done.append(error)}
    with a_member(server, **settings) as member, a_member(server, group="others") as other:
        pause = server.faults.pause(member.id)
        member.consumer.commit(offsets=[TopicPartition("news", 0, 9)], asynchronous=True)
        other.commit(1)
        member.consumer.poll(0.5)
        assert done == []
        assert other.consumer.committed([TopicPartition("news", 0)], timeout=WITHIN_S)[0].offset == 1
        pause.resume()
        pause.resume()
        member.poll_until(lambda: bool(done))
        assert done == [None]


def test_a_member_that_was_paused_twice_is_heard_when_both_pauses_have_ended(server: rota.Server) -> None:
    done: list[KafkaError | None] = []
    settings: dict[str, Any] = {"on_commit": lambda error, _: done.append(error)}
    with a_member(server, **settings) as member:
        first, second = server.faults.pause(member.id), server.faults.pause(member.id)
        member.consumer.commit(offsets=[TopicPartition("news", 0, 9)], asynchronous=True)
        first.resume()
        first.resume()
        member.consumer.poll(0.5)
        assert done == []
        second.resume()
        member.poll_until(lambda: bool(done))
        assert done == [None]


def test_a_pause_that_a_reset_has_ended_ends_no_later_one(server: rota.Server) -> None:
    with a_member(server) as member:
        earlier = server.faults.pause(member.id)
        server.faults.reset()
        with server.faults.pause(member.id):
            earlier.resume()
            assert server._inner.silent_members(GROUP) == [member.id]
        assert server._inner.silent_members(GROUP) == []


def test_a_server_stops_although_a_member_is_paused(server: rota.Server) -> None:
    with a_member(server) as member, server.faults.pause(member.id):
        server.stop()


def test_a_commit_on_a_slow_log_is_answered_when_the_clock_says_so(
    server: rota.Server, clock: rota.VirtualClock
) -> None:
    done: list[KafkaError | None] = []
    settings: dict[str, Any] = {"on_commit": lambda error, _: done.append(error)}
    with a_member(server, **settings) as member:
        server.faults.delay_appends(2_000)
        member.consumer.commit(offsets=[TopicPartition("news", 0, 9)], asynchronous=True)
        member.poll_until(lambda: server._inner.load()[1] == 1)
        clock.advance(1_999)
        member.consumer.poll(0.3)
        assert done == []
        clock.advance(1)
        member.poll_until(lambda: bool(done))
        assert done == [None]
        server.faults.delay_appends(0)
        member.commit(10)


def test_a_commit_on_a_slow_log_takes_its_time_in_real_time(real_time_server: rota.Server) -> None:
    server = real_time_server
    with a_member(server) as member:
        server.faults.delay_appends(300)
        began_s = time.monotonic()
        member.commit(9)
        assert time.monotonic() - began_s >= 0.299  # the coordinators' clock counts whole milliseconds


def test_controls_follow_a_group_to_another_node(nodes: int, server: rota.Server, clock: rota.VirtualClock) -> None:
    with a_member(server) as member:
        pause = server.faults.pause(member.id)
        partition = server.partition_of(GROUP)
        server.move_partition(partition, server.owner(partition) % nodes + 1)
        assert list(server.members(GROUP)) == [member.id]
        clock.advance(45_000)
        assert server.members(GROUP) == {}
        pause.resume()
        member.poll_until_told("assigned", "lost", "assigned")
        server.expire(member.id)
        assert server.members(GROUP) == {}


@pytest.mark.parametrize(
    "ask",
    [lambda faults: faults.stop_node(2), lambda faults: faults.delay_answers(5)],
    ids=["stop_node", "delay_answers"],
)
def test_a_server_that_stops_within_a_fault_leaves_the_error_of_the_test(ask: Callable[[Faults], Control]) -> None:
    def fails() -> None:
        with rota.Server(nodes=2) as server, ask(server.faults):
            server.stop()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()


@pytest.mark.parametrize("api", ["Fetch", "ListGroups", "Metadata", "Produce"])
def test_an_injection_for_a_group_into_an_api_without_groups_is_refused(api: str) -> None:
    with rota.Server() as server:
        with pytest.raises(ValueError, match=f"group is 'g': {api} names no group, leave out group"):
            server.faults.inject_error(api, "NOT_COORDINATOR", group="g")
        server.faults.inject_error(api, "NOT_COORDINATOR")
