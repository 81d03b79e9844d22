"""Thousands of moves under a raw client: what was acknowledged is there, what was refused is not, and a member stays a
member (S28)."""

from __future__ import annotations

import random
import threading

import pytest

import rota
from harness import peer
from harness.peer import LOAD_IN_PROGRESS, NOT_COORDINATOR, Committed, Member, Nodes, host_port
from harness.raw import NONE, Connection, Reader

GROUPS = ("a", "b", "c", "d")
MOVES = 4_000
REFUSED = {NOT_COORDINATOR, LOAD_IN_PROGRESS, 15}  # 15: what a failed append becomes


class Schedule:
    """One seeded run: every step is a request, a fault or a move, and the model is what has to be there after it."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self.nodes = nodes
        self.random = random.Random(seed)
        self.members = [Member(nodes, group) for group in GROUPS]
        self.kept: dict[str, Committed] = {group: {} for group in GROUPS}
        self.next_offset = 0
        self.counts = {"moves": 0, "acknowledged": 0, "refused": 0}

    def offsets(self) -> Committed:
        self.next_offset += 1
        return dict.fromkeys(self.random.sample(range(6), 2), self.next_offset)

    def count(self, member: Member, offsets: Committed, errors: set[int]) -> None:
        if errors == {NONE}:
            self.kept[member.group] |= offsets
            self.counts["acknowledged"] += 1
        else:
            assert errors <= REFUSED, f"{errors} for a commit of {member.group}"
            self.counts["refused"] += 1

    def move(self, member: Member) -> None:
        to = self.random.choice(list(self.nodes.connections))
        self.nodes.server.move_partition(self.nodes.server.partition_of(member.group), to)
        self.counts["moves"] += 1

    def commit(self, member: Member) -> None:
        offsets = self.offsets()
        self.count(member, offsets, member.commit(offsets))

    def commit_that_fails(self, member: Member) -> None:
        self.nodes.server.fail_appends("NOT_ENOUGH_REPLICAS")
        self.commit(member)

    def commit_across_a_move(self, member: Member) -> None:
        """Sent before the move, which may come before the request does; its append is held across it."""
        server, offsets = self.nodes.server, self.offsets()
        server.hold_appends()
        connection = self.nodes.at(member.group)
        connection.send(peer.commit(member.group, offsets, member.generation, member.id))
        self.move(member)
        server.release_appends()
        answer = Reader(connection.receive())
        assert answer.i32() == 7
        self.count(member, offsets, peer.committed(answer))

    def check(self, member: Member) -> None:
        assert member.heartbeat() == NONE
        fetch = peer.fetch(member.group, list(range(6)))
        expected = {partition: self.kept[member.group].get(partition, -1) for partition in range(6)}
        assert peer.fetched(self.nodes.at(member.group).ask(fetch)) == (NONE, expected)

    def run(self, moves: int) -> None:
        steps = [self.commit, self.commit_across_a_move, self.commit_that_fails, self.move, self.move, self.check]
        while self.counts["moves"] < moves:
            self.random.choice(steps)(self.random.choice(self.members))
        for member in self.members:
            self.check(member)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_thousands_of_moves_lose_nothing_and_add_nothing(nodes: Nodes, seed: int) -> None:
    schedule = Schedule(nodes, seed)
    schedule.run(MOVES)
    assert min(schedule.counts.values()) > MOVES // 10, schedule.counts


class Committer(threading.Thread):
    """Commits one offset after the other for one group, looking for its coordinator as clients do."""

    def __init__(self, server: rota.Server, group: str) -> None:
        super().__init__()
        self.addresses = server.nodes()
        self.group = group
        self.acknowledged = 0
        self.refused = 0
        self.ended = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            connections = {node: Connection(host_port(address)) for node, address in self.addresses.items()}
            with connections[1], connections[2], connections[3]:
                self.commit_all(connections)
        except BaseException as error:
            self.failed = error

    def commit_all(self, connections: dict[int, Connection]) -> None:
        node = 1
        while not self.ended.is_set():
            offset = self.acknowledged + 1
            errors = peer.committed(connections[node].ask(peer.commit(self.group, {0: offset})))
            if errors == {NONE}:
                self.acknowledged = offset
            else:
                assert errors <= REFUSED, f"{errors} for a commit of {self.group}"
                self.refused += 1
                _, node, _ = peer.found(connections[node].ask(peer.find(self.group)))
            error, offsets = peer.fetched(connections[node].ask(peer.fetch(self.group, [0])))
            assert error in {NONE, *REFUSED}
            assert error != NONE or offsets == {0: self.acknowledged or -1}


def test_commits_that_are_acknowledged_while_partitions_move_are_there_afterwards(three: rota.Server) -> None:
    committers = [Committer(three, group) for group in ("a", "b")]
    chance = random.Random(7)
    for committer in committers:
        committer.start()
    try:
        for _ in range(MOVES):
            three.move_partition(three.partition_of(chance.choice("ab")), chance.randint(1, 3))
    finally:
        for committer in committers:
            committer.ended.set()
            committer.join()
    with Nodes(three) as nodes:
        for committer in committers:
            assert committer.failed is None
            assert committer.acknowledged > 100
            assert committer.refused > 0
            fetched = nodes.at(committer.group).ask(peer.fetch(committer.group, [0]))
            assert peer.fetched(fetched) == (NONE, {0: committer.acknowledged})
