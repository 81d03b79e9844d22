"""A raw client of one group that is sent from node to node, and the answers that it reads."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Self

import rota
from harness.raw import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LIST_GROUPS,
    METADATA,
    NONE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    Connection,
    Reader,
    blob,
    frame,
    i32,
    i64,
    string,
)

LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
LEADER_NOT_AVAILABLE, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = 5, 79, 82
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER = 3, 6

Committed = dict[int, int]


class Joined(NamedTuple):
    """The answer to a JoinGroup."""

    error: int
    generation: int
    leader: str
    member: str


def host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def join(
    group: str, member: str = "", instance: str | None = None, version: int = 5, session_ms: int = 30_000
) -> bytes:
    """A JoinGroup; v3 needs no round for a member id, v5 has an instance id."""
    body = string(group) + i32(session_ms) + i32(60_000) + string(member)
    if version >= 5:
        body += string(instance)
    return frame(JOIN_GROUP, version, body + string("consumer") + i32(1) + string("range") + blob(b"metadata"))


def joined(answer: Reader) -> Joined:
    answer.i32()
    error, generation, _ = answer.i16(), answer.i32(), answer.string()
    return Joined(error, generation, answer.string() or "", answer.string() or "")


def sync(group: str, generation: int, member: str, plan: dict[str, bytes], instance: str | None = None) -> bytes:
    """A SyncGroup v3."""
    body = string(group) + i32(generation) + string(member) + string(instance) + i32(len(plan))
    return frame(SYNC_GROUP, 3, body + b"".join(string(owner) + blob(share) for owner, share in plan.items()))


def synced(answer: Reader) -> tuple[int, bytes]:
    answer.i32()
    return answer.i16(), answer.blob()


def heartbeat(group: str, generation: int, member: str, instance: str | None = None) -> bytes:
    """A Heartbeat v3."""
    return frame(HEARTBEAT, 3, string(group) + i32(generation) + string(member) + string(instance))


def beaten(answer: Reader) -> int:
    answer.i32()
    return answer.i16()


def commit(group: str, offsets: Committed, generation: int = -1, member: str = "", topic: str = "orders") -> bytes:
    """An OffsetCommit v7."""
    body = string(group) + i32(generation) + string(member) + string(None) + i32(1) + string(topic) + i32(len(offsets))
    return frame(
        OFFSET_COMMIT, 7, body + b"".join(i32(p) + i64(at) + i32(-1) + string("") for p, at in offsets.items())
    )


def committed(answer: Reader) -> set[int]:
    """The errors of all partitions."""
    answer.i32(), answer.i32(), answer.string()
    return {(answer.i32(), answer.i16())[1] for _ in range(answer.i32())}


def fetch(group: str, partitions: list[int], topic: str = "orders") -> bytes:
    """An OffsetFetch v5."""
    body = string(group) + i32(1) + string(topic) + i32(len(partitions)) + b"".join(map(i32, partitions))
    return frame(OFFSET_FETCH, 5, body)


def fetched(answer: Reader) -> tuple[int, Committed]:
    """The error of the whole, and the offset of each partition."""
    answer.i32()
    offsets: Committed = {}
    for _ in range(answer.i32()):
        answer.string()
        for _ in range(answer.i32()):
            partition, offset = answer.i32(), int.from_bytes(answer.take(8), "big", signed=True)
            answer.i32(), answer.string(), answer.i16()
            offsets[partition] = offset
    return answer.i16(), offsets


def metadata(topic: str | None) -> bytes:
    """A Metadata v1 of a topic, which creates it where that is allowed, or of all."""
    return frame(METADATA, 1, i32(-1) if topic is None else i32(1) + string(topic))


def described(answer: Reader) -> tuple[list[int], dict[str, int]]:
    """Nodes, and the error of each topic."""
    nodes = []
    for _ in range(answer.i32()):
        nodes.append(answer.i32())
        answer.string(), answer.i32(), answer.string()
    answer.i32()
    topics = {}
    for _ in range(answer.i32()):
        error, name = answer.i16(), answer.string()
        topics[name or ""] = error
        answer.i8()
        for _ in range(answer.i32()):
            answer.i16(), answer.i32(), answer.i32()
            for _ in range(2):
                answer.take(4 * answer.i32())
    return nodes, topics


def find(group: str) -> bytes:
    """A FindCoordinator v0."""
    return frame(FIND_COORDINATOR, 0, string(group))


def found(answer: Reader) -> tuple[int, int, str]:
    """Error, node, HOST:PORT."""
    error, node, host = answer.i16(), answer.i32(), answer.string()
    return error, node, f"{host}:{answer.i32()}"


def listed(answer: Reader) -> list[str]:
    """The groups in a ListGroups v0."""
    assert answer.i16() == NONE
    return [(answer.string() or "", answer.string())[0] for _ in range(answer.i32())]


LIST = frame(LIST_GROUPS, 0)


class Nodes:
    """Connections to all nodes of a server."""

    def __init__(self, server: rota.Server) -> None:
        self.server = server
        self.connections = {node: Connection(host_port(address)) for node, address in server.nodes().items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for connection in self.connections.values():
            connection.close()

    def __getitem__(self, node: int) -> Connection:
        return self.connections[node]

    def owner(self, group: str) -> int:
        """The node that coordinates a group, by the word of every node."""
        told = {found(connection.ask(find(group)))[:2] for connection in self.connections.values()}
        assert len(told) == 1, f"the nodes do not agree: {told}"
        error, node = told.pop()
        assert error == NONE
        return node

    def at(self, group: str) -> Connection:
        """The connection to the node that coordinates a group."""
        return self[self.owner(group)]

    def extra(self, group: str) -> Connection:
        """One more connection to that node, for a request that waits."""
        return Connection(host_port(self.server.nodes()[self.owner(group)]))

    def move(self, group: str) -> int:
        """Hands the group's partition to the next node, and says to which."""
        partition = self.server.partition_of(group)
        to = self.server.owner(partition) % len(self.connections) + 1
        self.server.move_partition(partition, to)
        return to


class Member:
    """A member that joins and syncs wherever its group is."""

    def __init__(self, nodes: Nodes, group: str, instance: str | None = None) -> None:
        self.nodes, self.group, self.instance = nodes, group, instance
        answer = self.join()
        if answer.error == MEMBER_ID_REQUIRED:
            answer = self.join(answer.member)
        assert answer.error == NONE
        self.id, self.generation = answer.member, answer.generation
        if answer.leader == self.id:
            assert self.sync({self.id: b"plan"}) == (NONE, b"plan")

    def join(self, member: str = "") -> Joined:
        return joined(self.nodes.at(self.group).ask(join(self.group, member, self.instance)))

    def sync(self, plan: dict[str, bytes]) -> tuple[int, bytes]:
        request = sync(self.group, self.generation, self.id, plan, self.instance)
        return synced(self.nodes.at(self.group).ask(request))

    def heartbeat(self) -> int:
        request = heartbeat(self.group, self.generation, self.id, self.instance)
        return beaten(self.nodes.at(self.group).ask(request))

    def commit(self, offsets: Committed) -> set[int]:
        return committed(self.nodes.at(self.group).ask(commit(self.group, offsets, self.generation, self.id)))
