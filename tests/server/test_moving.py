"""A partition goes to another node with all that was acknowledged and nothing else (docs/protocol.md §15)."""

from __future__ import annotations

from pathlib import Path

import pytest

import rota
from harness import peer
from harness.peer import FENCED_INSTANCE_ID, MEMBER_ID_REQUIRED, NOT_COORDINATOR, Member, Nodes
from harness.raw import NONE, UNKNOWN_MEMBER_ID, Connection, Reader
from tests.clients.eventually import until_it_waits
from tests.journaled import journaled
from tests.server.messages import delete_topic, deleted

from .conftest import SETTINGS


def answer_of(connection: Connection) -> Reader:
    """The answer to a request that was sent before."""
    answer = Reader(connection.receive())
    assert answer.i32() == 7
    return answer


def offset_of(nodes: Nodes, group: str = "g", partition: int = 0) -> int:
    error, offsets = peer.fetched(nodes.at(group).ask(peer.fetch(group, [partition])))
    assert error == NONE
    return offsets[partition]


def test_members_generation_and_offsets_are_as_they_were_and_the_old_node_knows_nothing(nodes: Nodes) -> None:
    member = Member(nodes, "g")
    assert member.commit({0: 41}) == {NONE}
    for _ in range(6):
        before = nodes.owner("g")
        assert nodes.move("g") == nodes.owner("g") != before
        assert peer.beaten(nodes[before].ask(peer.heartbeat("g", member.generation, member.id))) == NOT_COORDINATOR
        assert member.heartbeat() == NONE
        assert member.sync({}) == (NONE, b"plan")
        assert offset_of(nodes) == 41
    assert member.commit({0: 42}) == {NONE}
    assert offset_of(nodes) == 42


def test_a_partition_can_be_loaded_anew_at_its_own_node(nodes: Nodes) -> None:
    member = Member(nodes, "g")
    assert member.commit({0: 41}) == {NONE}
    partition, owner = nodes.server.partition_of("g"), nodes.owner("g")
    nodes.server.move_partition(partition, owner)
    assert (nodes.owner("g"), member.heartbeat(), offset_of(nodes)) == (owner, NONE, 41)


def test_a_commit_in_flight_is_refused_and_never_counts(nodes: Nodes) -> None:
    member = Member(nodes, "g")
    assert member.commit({0: 1}) == {NONE}
    nodes.server.faults.hold_appends()
    with nodes.extra("g") as waiting:
        waiting.send(peer.commit("g", {0: 2}, member.generation, member.id))
        until_it_waits(nodes.server)
        nodes.move("g")
        assert peer.committed(answer_of(waiting)) == {NOT_COORDINATOR}
        assert offset_of(nodes) == 1
        assert nodes.server.faults.release_appends() == 1
        assert offset_of(nodes) == 1
        assert waiting.is_silent(0.1)
    assert member.commit({0: 3}) == {NONE}
    nodes.move("g")
    assert offset_of(nodes) == 3


def test_a_commit_to_the_new_node_waits_for_the_same_log_behind_what_was_fenced(nodes: Nodes) -> None:
    member = Member(nodes, "g")
    nodes.server.faults.hold_appends()
    with nodes.extra("g") as old:
        old.send(peer.commit("g", {0: 2}, member.generation, member.id))
        until_it_waits(nodes.server)
        nodes.move("g")
        assert peer.committed(answer_of(old)) == {NOT_COORDINATOR}
    with nodes.extra("g") as new:
        new.send(peer.commit("g", {1: 5}, member.generation, member.id))
        until_it_waits(nodes.server)
        assert new.is_silent(0.1)
        assert nodes.server.faults.release_appends() == 2
        assert peer.committed(answer_of(new)) == {NONE}
    assert (offset_of(nodes), offset_of(nodes, partition=1)) == (-1, 5)


def test_an_append_that_was_in_flight_when_its_partition_came_back_does_not_end_one_of_the_new_incarnation(
    nodes: Nodes,
) -> None:
    nodes.server.faults.hold_appends()
    with nodes.extra("g") as waiting:
        # Each is the first append of its incarnation.
        waiting.send(peer.commit("g", {0: 1}))
        until_it_waits(nodes.server)
        for _ in range(3):
            nodes.move("g")
        assert peer.committed(answer_of(waiting)) == {NOT_COORDINATOR}
        waiting.send(peer.commit("g", {1: 2}))
        until_it_waits(nodes.server)
        assert nodes.server.faults.release_appends() == 2
        assert peer.committed(answer_of(waiting)) == {NONE}
    assert (offset_of(nodes), offset_of(nodes, partition=1)) == (-1, 2)


def test_parked_joins_and_syncs_are_sent_away_and_the_group_forms_at_the_new_node(nodes: Nodes) -> None:
    leader = Member(nodes, "g")
    with nodes.extra("g") as one:
        one.send(peer.join("g", version=3))
        until_it_waits(nodes.server)
        nodes.move("g")
        parked = peer.joined(answer_of(one))
        # It keeps the id that it had been given, but the group that was stored does not know it.
        assert (parked.error, bool(parked.member)) == (NOT_COORDINATOR, True)
        assert peer.joined(nodes.at("g").ask(peer.join("g", parked.member))).error == UNKNOWN_MEMBER_ID

        # Two members in a new generation; the follower's sync waits for the plan.
        with nodes.extra("g") as second:
            second.send(peer.join("g", version=3))
            until_it_waits(nodes.server)
            rejoined = leader.join(leader.id)
            assert rejoined.error == NONE
            assert rejoined.generation == leader.generation + 1
            follower = peer.joined(answer_of(second))
            assert follower.error == NONE
            second.send(peer.sync("g", follower.generation, follower.member, {}))
            until_it_waits(nodes.server)
            nodes.move("g")
            assert peer.synced(answer_of(second)) == (NOT_COORDINATOR, b"")
        # What is stored is the generation before: the follower was never in it.
        assert leader.heartbeat() == NONE
        request = peer.heartbeat("g", follower.generation, follower.member)
        assert peer.beaten(nodes.at("g").ask(request)) == UNKNOWN_MEMBER_ID


def test_a_plan_that_was_not_durable_is_forgotten(nodes: Nodes) -> None:
    member = Member(nodes, "g")
    rejoined = member.join(member.id)
    assert (rejoined.error, rejoined.generation) == (NONE, 2)
    nodes.server.faults.hold_appends()
    with nodes.extra("g") as waiting:
        waiting.send(peer.sync("g", 2, member.id, {member.id: b"lost"}))
        until_it_waits(nodes.server)
        nodes.move("g")
        assert peer.synced(answer_of(waiting)) == (NOT_COORDINATOR, b"")
    assert nodes.server.faults.release_appends() == 1
    assert member.sync({}) == (NONE, b"plan"), "the generation before is what is stored"
    assert member.heartbeat() == NONE


def test_ids_that_no_member_has_joined_with_yet_are_forgotten(nodes: Nodes) -> None:
    given = peer.joined(nodes.at("g").ask(peer.join("g")))
    assert given.error == MEMBER_ID_REQUIRED
    nodes.move("g")
    assert peer.joined(nodes.at("g").ask(peer.join("g", given.member))).error == UNKNOWN_MEMBER_ID
    assert Member(nodes, "g").heartbeat() == NONE


def test_a_static_member_that_was_replaced_stays_fenced(nodes: Nodes) -> None:
    first = Member(nodes, "g", instance="i1")
    second = first.join()
    assert (second.error, second.generation) == (NONE, first.generation), "replaced without a rebalance"
    for _ in range(3):
        nodes.move("g")
        assert first.heartbeat() == FENCED_INSTANCE_ID
        now = peer.heartbeat("g", second.generation, second.member, "i1")
        assert peer.beaten(nodes.at("g").ask(now)) == NONE
        assert peer.synced(nodes.at("g").ask(peer.sync("g", 1, second.member, {}, "i1"))) == (NONE, b"plan")


def test_a_static_replacement_that_was_not_durable_has_not_happened(nodes: Nodes) -> None:
    first = Member(nodes, "g", instance="i1")
    nodes.server.faults.hold_appends()
    with nodes.extra("g") as waiting:
        waiting.send(peer.join("g", instance="i1"))
        until_it_waits(nodes.server)
        nodes.move("g")
        assert peer.joined(answer_of(waiting)).error == NOT_COORDINATOR
    nodes.server.faults.release_appends()
    assert first.heartbeat() == NONE


def test_a_partition_with_many_records_is_loaded_whole(nodes: Nodes) -> None:
    groups = [group for group in (f"many-{i}" for i in range(100_000)) if nodes.server.partition_of(group) == 7][:700]
    connection = nodes.at(groups[0])
    for i, group in enumerate(groups):
        connection.send(peer.commit(group, {0: i, 1: i + 1, 2: i + 2}))
        assert peer.committed(answer_of(connection)) == {NONE}
    for _ in range(2):
        nodes.move(groups[0])
        connection = nodes.at(groups[0])
        for i, group in enumerate(groups):
            assert peer.fetched(connection.ask(peer.fetch(group, [0, 1, 2]))) == (NONE, {0: i, 1: i + 1, 2: i + 2})


def test_offsets_of_a_topic_that_goes_while_the_partition_is_loading_are_gone(nodes: Nodes) -> None:
    assert peer.committed(nodes.at("g").ask(peer.commit("g", {0: 7}))) == {NONE}
    nodes.server.faults.hold_loads()
    nodes.move("g")
    for node in (1, 2, 3):
        expected = NONE if node == 1 else peer.UNKNOWN_TOPIC_OR_PARTITION
        assert deleted(nodes[node].ask(delete_topic("orders"))) == expected
    nodes.server.faults.release_loads()
    assert offset_of(nodes) == -1


def test_a_partition_that_moves_again_while_its_loading_is_held_is_loaded_once_where_it_is_now(nodes: Nodes) -> None:
    assert peer.committed(nodes.at("g").ask(peer.commit("g", {0: 7}))) == {NONE}
    nodes.server.faults.hold_loads()
    nodes.move("g")
    nodes.move("g")
    nodes.move("g")
    assert nodes.server.faults.release_loads() == 1
    assert offset_of(nodes) == 7


def test_every_held_load_ends_although_one_fails(tmp_path: Path) -> None:
    with rota.Server(nodes=3, data=tmp_path, settings=SETTINGS) as server, Nodes(server) as nodes:
        server.create_topic("orders", 6)
        groups = {server.partition_of(f"g-{number}"): f"g-{number}" for number in range(200)}
        for group in groups.values():
            assert peer.committed(nodes.at(group).ask(peer.commit(group, {0: 7}))) == {NONE}
        server.faults.hold_loads()
        for group in groups.values():
            nodes.move(group)
        [segment] = (tmp_path / f"__consumer_offsets-{min(groups)}").glob("*.log")
        written = bytearray(segment.read_bytes())
        written[len(written) // 2] ^= 1
        segment.write_bytes(written)
        with pytest.raises(rota.RotaError):
            server.faults.release_loads()
        assert server._inner.loading() == []
        assert offset_of(nodes, groups[max(groups)]) == 7


def test_whoever_waits_at_any_node_is_answered_when_the_server_stops(three: rota.Server) -> None:
    with Nodes(three) as nodes:
        three.hold_appends()
        groups = {three.owner(three.partition_of(group)): group for group in (f"g{i}" for i in range(20))}
        for node, group in groups.items():
            nodes[node].send(peer.commit(group, {0: 1}))
        until_it_waits(three, 3)
        three.stop()
        for node in groups:
            assert peer.committed(answer_of(nodes[node])) == {NOT_COORDINATOR}


@pytest.fixture
def clock() -> rota.VirtualClock:
    return rota.VirtualClock()


def test_one_clock_moves_the_sessions_of_all_nodes_and_keeps_members_that_were_moved(
    clock: rota.VirtualClock, tmp_path: Path
) -> None:
    journal = journaled(tmp_path / "journal", nodes=3, settings=SETTINGS, clock=clock)
    with journal as server, Nodes(server) as nodes:
        members = [Member(nodes, f"g{i}") for i in range(9)]
        assert {nodes.owner(member.group) for member in members} == {1, 2, 3}
        nodes.move("g0")
        clock.advance(3_600_000)
        assert [member.heartbeat() for member in members] == [NONE] * 9
        lapsing = [members[0].id, members[5].id]
        clock.advance(30_000, expire=lapsing)
        beats = [member.heartbeat() for member in members]
        assert beats == [UNKNOWN_MEMBER_ID if member.id in lapsing else NONE for member in members]


def test_a_session_starts_anew_where_the_partition_is_loaded(clock: rota.VirtualClock, tmp_path: Path) -> None:
    journal = journaled(tmp_path / "journal", nodes=2, settings=SETTINGS, clock=clock)
    with journal as server, Nodes(server) as nodes:
        member = Member(nodes, "g")
        clock.advance(20_000, expire=[member.id])
        nodes.move("g")
        clock.advance(29_999, expire=[member.id])
        assert server.groups() == ["g"]
        assert len(server._member_ids()) == 1
        clock.advance(1, expire=[member.id])
        assert server._member_ids() == set()
