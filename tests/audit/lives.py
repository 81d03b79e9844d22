"""Groups that live through everything that a fault can be planted into, spoken by raw clients."""

from __future__ import annotations

from typing import Any, Self

import rota
from harness import peer
from harness.raw import JOIN_GROUP, LEAVE_GROUP, NONE, Connection, Reader, blob, frame, i32, string
from rota.conform.consumer import ConsumerWire
from tests.clients.eventually import eventually

SESSION_MS, SHORT_SESSION_MS = 30_000, 1_000
TOPIC = "orders"
PARTITIONS = (0, 1, 2, 3)
REBALANCE_IN_PROGRESS = 27
WITHIN_S = 60


def plan(*partitions: int) -> bytes:
    return rota.protocol.encode_assignment(rota.protocol.Assignment(((TOPIC, partitions),)))


def join(group: str, member: str, instance: str | None, session_ms: int) -> bytes:
    """A JoinGroup of a consumer; v5 has an instance id, v3 needs no round for a member id."""
    version = 3 if instance is None else 5
    body = string(group) + i32(session_ms) + i32(60_000) + string(member)
    body += b"" if instance is None else string(instance)
    subscription = rota.protocol.encode_subscription(rota.protocol.Subscription((TOPIC,)))
    return frame(JOIN_GROUP, version, body + string("consumer") + i32(1) + string("range") + blob(subscription))


class Peer:
    """One member on its own connection; a JoinGroup or SyncGroup may be parked on it."""

    def __init__(self, server: rota.Server, group: str, instance: str | None = None, session_ms: int = SESSION_MS):
        self.group, self.instance, self.session_ms = group, instance, session_ms
        self.member, self.generation = "", -1
        self.connection = Connection((server.host, server.port)).__enter__()

    def told(self) -> Reader:
        """The next answer, from behind its correlation id."""
        answer = Reader(self.connection.receive())
        answer.i32()
        return answer

    def join(self) -> Self:
        self.connection.send(join(self.group, self.member, self.instance, self.session_ms))
        return self

    def joined(self) -> Self:
        answer = peer.joined(self.told())
        assert answer.error == NONE, answer
        self.member, self.generation = answer.member, answer.generation
        return self

    def sync(self, shares: dict[str, bytes] | None = None) -> Self:
        self.connection.send(peer.sync(self.group, self.generation, self.member, shares or {}, self.instance))
        return self

    def synced(self) -> None:
        error, _ = peer.synced(self.told())
        assert error == NONE, error

    def beat(self) -> int:
        beat = peer.heartbeat(self.group, self.generation, self.member, self.instance)
        return peer.beaten(self.connection.ask(beat))

    def commit(self, offset: int) -> None:
        asked = peer.commit(self.group, {0: offset}, self.generation, self.member, TOPIC)
        assert peer.committed(self.connection.ask(asked)) == {NONE}

    def leave(self) -> None:
        self.connection.ask(frame(LEAVE_GROUP, 0, string(self.group) + string(self.member)))

    def close(self) -> None:
        self.connection.__exit__(None, None, None)


def rebalance(leader: Peer, *others: Peer) -> None:
    """The others have a JoinGroup parked; the leader joins, shares the partitions out, and all of them synchronise."""
    leader.join()
    members = [leader, *others]
    for member in members:
        member.joined()
    shares = {member.member: plan(*PARTITIONS[at :: len(members)]) for at, member in enumerate(members)}
    for member in others:
        member.sync()
    leader.sync(shares)
    for member in members:
        member.synced()
        assert member.beat() == NONE


def told_to_rejoin(member: Peer) -> None:
    """Beat until the group rebalances."""
    eventually(lambda: member.beat() == REBALANCE_IN_PROGRESS, WITHIN_S, "a rebalance begins")


def live(server: rota.Server, groups: list[str]) -> None:
    """Each group: one member, two, a static one replaced, one that leaves, one whose session ends, none."""
    replacements, silent = [], []
    for group in groups:
        first, static = Peer(server, group), Peer(server, group, "i1")
        rebalance(first)
        static.join()
        told_to_rejoin(first)
        rebalance(first, static)
        first.commit(5)
        replacement = Peer(server, group, "i1")
        replacement.join().joined()
        assert replacement.beat() == NONE
        first.leave()
        rebalance(replacement)
        replacement.commit(7)
        third = Peer(server, group, session_ms=SHORT_SESSION_MS)
        third.join()
        told_to_rejoin(replacement)
        rebalance(replacement, third)
        replacements.append(replacement)
        silent += [first, static, third]
    for last in replacements:
        told_to_rejoin(last)
        rebalance(last)
        last.leave()
    for member in replacements + silent:
        member.close()


class NewerPeer:
    """One member of the newer protocol. It reports what it was given last."""

    def __init__(self, wire: ConsumerWire, group: str, member: str) -> None:
        self.wire, self.group, self.member = wire, group, member
        self.epoch = 0
        self.owned: list[int] = []

    def beat(self) -> Self:
        joins = self.epoch == 0
        owned = [{"topic_id": self.wire.ids[TOPIC], "partitions": self.owned}] if self.owned else []
        return self.ask(
            self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=owned,
        )

    def ask(self, epoch: int, **fields: Any) -> Self:
        same: dict[str, Any] = {"instance_id": None, "rack_id": None, "rebalance_timeout_ms": -1}
        same |= {"subscribed_topic_names": None, "subscribed_topic_regex": None, "server_assignor": None}
        asked = {"group_id": self.group, "member_id": self.member, "member_epoch": epoch, "topic_partitions": None}
        told = self.wire.ask("ConsumerGroupHeartbeat", 1, asked | same | fields)
        assert told["error_code"] == NONE, told
        self.epoch = told["member_epoch"]
        if told["assignment"] is not None:
            self.owned = [index for topic in told["assignment"]["topic_partitions"] for index in topic["partitions"]]
        return self

    def commit(self, offset: int) -> None:
        places = [{"partition_index": at, "offset": offset, "leader_epoch": -1, "metadata": ""} for at in self.owned]
        topics = [{"name": TOPIC, "partitions": places}]
        asked = {"group_id": self.group, "generation": self.epoch, "member_id": self.member, "instance_id": None}
        told = self.wire.ask("OffsetCommit", 9, asked | {"topics": topics})
        codes = {place["error_code"] for topic in told["topics"] for place in topic["partitions"]}
        assert codes == {NONE}

    def leave(self) -> None:
        self.ask(-1)


def live_newer(server: rota.Server, groups: list[str]) -> None:
    """Each group: one member of the newer protocol, two, one, none."""
    wire = ConsumerWire((server.host, server.port), "")
    wire.topics_changed([(TOPIC, len(PARTITIONS))], 0)
    for group in groups:
        first, second = NewerPeer(wire, group, "m1").beat(), NewerPeer(wire, group, "m2").beat()
        assert (len(first.owned), len(second.owned)) == (4, 0)
        first.beat()
        first.beat()
        second.beat()
        assert (len(first.owned), len(second.owned)) == (2, 2)
        first.commit(5)
        second.commit(5)
        second.leave()
        first.beat()
        assert len(first.owned) == 4
        first.leave()
    wire.close()
