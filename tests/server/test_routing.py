"""Every node says who has what, and refuses what it has not (docs/protocol.md §3, §12.2, §19)."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rota
from harness import peer
from harness.peer import LOAD_IN_PROGRESS, NOT_COORDINATOR, NOT_LEADER_OR_FOLLOWER, Nodes
from harness.raw import NONE, Reader, frame, i32, i64, string
from tests.server.messages import batch, delete_topic, deleted, fetch, fetched, produce, produced

GROUPS = [f"g{i}" for i in range(20)]
LIST_OFFSETS = 2


def leaders(server: rota.Server, topic: str) -> dict[int, int]:
    """The leader of each partition, by the metadata."""
    found = AdminClient({"bootstrap.servers": server.bootstrap_servers}).list_topics(topic, 10).topics[topic]
    return {index: partition.leader for index, partition in found.partitions.items()}


def list_offsets(partition: int) -> bytes:
    """A ListOffsets v1 for the end of a partition of `t`."""
    return frame(LIST_OFFSETS, 1, i32(-1) + i32(1) + string("t") + i32(1) + i32(partition) + i64(-1))


def list_error(answer: Reader) -> int:
    answer.i32(), answer.string(), answer.i32(), answer.i32()
    return answer.i16()


def test_groups_are_spread_over_all_nodes_and_every_node_knows_where_each_is(three: rota.Server, nodes: Nodes) -> None:
    owners = {group: nodes.owner(group) for group in GROUPS}
    assert set(owners.values()) == {1, 2, 3}
    assert owners == {group: three.owner(three.partition_of(group)) for group in GROUPS}
    for node in three.nodes():
        _, named, address = peer.found(nodes[node].ask(peer.find("g0")))
        assert address == three.nodes()[named]


def test_a_node_refuses_everything_about_a_group_of_another_node(nodes: Nodes) -> None:
    owner = nodes.owner("g0")
    other = nodes[owner % 3 + 1]
    assert peer.joined(other.ask(peer.join("g0"))).error == NOT_COORDINATOR
    assert peer.synced(other.ask(peer.sync("g0", 1, "m", {})))[0] == NOT_COORDINATOR
    assert peer.beaten(other.ask(peer.heartbeat("g0", 1, "m"))) == NOT_COORDINATOR
    assert peer.committed(other.ask(peer.commit("g0", {0: 1}))) == {NOT_COORDINATOR}
    assert peer.fetched(other.ask(peer.fetch("g0", [0])))[0] == NOT_COORDINATOR
    assert peer.committed(nodes[owner].ask(peer.commit("g0", {0: 1}))) == {NONE}


def test_each_node_lists_its_own_groups(nodes: Nodes) -> None:
    for group in GROUPS:
        assert peer.committed(nodes.at(group).ask(peer.commit(group, {0: 1}))) == {NONE}
    for node, connection in nodes.connections.items():
        assert sorted(peer.listed(connection.ask(peer.LIST))) == sorted(g for g in GROUPS if nodes.owner(g) == node)
    assert nodes.server.groups() == sorted(GROUPS)


def test_an_admin_client_that_knows_one_node_sees_the_groups_of_all(three: rota.Server, nodes: Nodes) -> None:
    for group in GROUPS:
        assert peer.committed(nodes.at(group).ask(peer.commit(group, {0: 1}))) == {NONE}
    admin = AdminClient({"bootstrap.servers": three.nodes()[2]})
    seen = admin.list_consumer_groups().result(10)
    assert seen.errors == []
    assert sorted(group.group_id for group in seen.valid) == sorted(GROUPS)
    for group, described in admin.describe_consumer_groups(GROUPS).items():
        found = described.result(10)
        assert (found.group_id, found.coordinator.id) == (group, nodes.owner(group))


def test_data_lives_where_the_metadata_says_and_nowhere_else(three: rota.Server, nodes: Nodes) -> None:
    three.create_topic("t", 3)
    led = leaders(three, "t")
    assert set(led.values()) == {1, 2, 3}
    for index, leader in led.items():
        for node, connection in nodes.connections.items():
            expected = NONE if node == leader else NOT_LEADER_OR_FOLLOWER
            assert produced(connection.ask(produce(index, batch(b"one"))))[0] == expected
            assert fetched(connection.ask(fetch(index, max_wait_ms=0)))[0].error == expected
            assert list_error(connection.ask(list_offsets(index))) == expected


def test_what_one_node_does_to_topics_the_others_know_at_once(three: rota.Server) -> None:
    admin = [AdminClient({"bootstrap.servers": address}) for address in three.nodes().values()]
    for i in range(10):
        name = f"made-{i}"
        admin[i % 3].create_topics([NewTopic(name, 4, 1)])[name].result(10)
        for each in admin:
            assert len(each.list_topics(name, 10).topics[name].partitions) == 4


def test_offsets_of_a_topic_that_another_node_deleted_are_gone(nodes: Nodes) -> None:
    nodes.server.create_topic("t", 1)
    for group in GROUPS:
        assert peer.committed(nodes.at(group).ask(peer.commit(group, {0: 7}, topic="t"))) == {NONE}
    assert deleted(nodes[2].ask(delete_topic("t"))) == NONE
    for group in GROUPS:
        assert peer.fetched(nodes.at(group).ask(peer.fetch(group, [0], topic="t"))) == (NONE, {0: -1})


def test_a_fetch_that_waits_at_one_node_ends_when_another_deletes_its_topic(three: rota.Server, nodes: Nodes) -> None:
    three.create_topic("t", 1)
    leader = leaders(three, "t")[0]
    waiting = nodes[leader]
    waiting.send(fetch(0, max_wait_ms=100_000))
    assert waiting.is_silent(0.2)
    assert deleted(nodes[leader % 3 + 1].ask(delete_topic("t"))) == NONE
    assert waiting.receive()


def on_consecutive_ports(nodes: int, advertise: str) -> rota.Server:
    """A server on the first consecutive ports that are free, below those that the system gives out."""
    for first in range(20_000, 30_000, nodes):
        try:
            return rota.Server(f"127.0.0.1:{first}", nodes=nodes, advertise=advertise)
        except OSError:
            pass
    raise AssertionError("no port is free")


def test_nodes_listen_and_are_advertised_on_consecutive_ports() -> None:
    with on_consecutive_ports(3, "localhost:9000") as server:
        assert server.nodes() == {node: f"127.0.0.1:{server.port + node - 1}" for node in (1, 2, 3)}
        assert server.bootstrap_servers == ",".join(server.nodes().values())
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        brokers = admin.list_topics(timeout=10).brokers
        assert {node: f"{broker.host}:{broker.port}" for node, broker in brokers.items()} == {
            node: f"localhost:{9000 + node - 1}" for node in (1, 2, 3)
        }


def test_nodes_need_all_of_their_ports_and_the_one_in_use_is_named() -> None:
    with on_consecutive_ports(2, "localhost:9000") as server:
        before, taken = f"127.0.0.1:{server.port - 1}", f"127.0.0.1:{server.port}"
        with pytest.raises(OSError, match=f"{taken} is in use"):
            rota.Server(before, nodes=2)


@pytest.mark.parametrize("nodes", [0, -1, 1001])
def test_a_number_of_nodes_that_cannot_be_is_refused(nodes: int) -> None:
    with pytest.raises(ValueError, match=f"nodes is {nodes}: give 1 to 1000"):
        rota.Server(nodes=nodes)


def test_ports_that_do_not_suffice_are_refused() -> None:
    with pytest.raises(ValueError, match="3 nodes need the ports from 65534 on"):
        rota.Server("127.0.0.1:65534", nodes=3)


@pytest.mark.parametrize(("partition", "node"), [(50, 1), (-1, 1), (0, 0), (0, 4), (0, 2**31)])
def test_only_what_is_there_can_be_moved(three: rota.Server, partition: int, node: int) -> None:
    with pytest.raises(ValueError, match=r"no partition 50|partition is -1|no node [04]|node is 2147483648"):
        three.move_partition(partition, node)
    assert three.owner(0) == 1


def test_a_partition_that_is_loading_says_so_and_the_others_go_on(three: rota.Server, nodes: Nodes) -> None:
    member = peer.Member(nodes, "g0")
    assert peer.committed(nodes.at("g0").ask(peer.commit("g0", {0: 5}, member.generation, member.id))) == {NONE}
    before = nodes.owner("g0")
    three.hold_loads()
    after = nodes[nodes.move("g0")]
    assert peer.beaten(nodes[before].ask(peer.heartbeat("g0", 1, member.id))) == NOT_COORDINATOR
    assert peer.joined(after.ask(peer.join("g0"))).error == LOAD_IN_PROGRESS
    assert member.sync({})[0] == LOAD_IN_PROGRESS
    assert member.commit({0: 6}) == {LOAD_IN_PROGRESS}
    assert peer.fetched(after.ask(peer.fetch("g0", [0])))[0] == LOAD_IN_PROGRESS
    assert member.heartbeat() == NONE  # §3
    elsewhere = next(group for group in GROUPS if three.partition_of(group) != three.partition_of("g0"))
    assert peer.Member(nodes, elsewhere).heartbeat() == NONE
    assert three.release_loads() == 1
    assert member.heartbeat() == NONE
    assert peer.fetched(after.ask(peer.fetch("g0", [0]))) == (NONE, {0: 5})
