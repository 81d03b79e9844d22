"""Whatever hostile clients do takes a bounded part of a server's memory, and a healthy client never notices.

The bounds are those of docs/limits.md, "What hostile clients can take".
"""

from __future__ import annotations

from contextlib import closing

import pytest

from harness.hostile_sessions import MEMBERS, SESSIONS, Session, allow_files
from harness.process import a_server_process
from harness.raw import (
    DESCRIBE_GROUPS,
    NONE,
    REBALANCE_IN_PROGRESS,
    Connection,
    Member,
    Reader,
    frame,
    i32,
    join,
    string,
    sync,
)

from .bystander import a_healthy_client


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_an_attack_takes_bounded_memory_and_a_healthy_client_does_not_notice(session: Session) -> None:
    allow_files(MEMBERS + 2_000)
    with a_server_process() as server, a_healthy_client(server.address):
        before = server.resident_bytes()
        with closing(session.attack(server.address)) as attack:
            for _ in range(session.rounds):
                done = next(attack)
            grown = server.resident_bytes() - before
        print(f"{session.attack.__name__}: {grown / 2**20:.1f} of {session.bytes_max / 2**20:.1f} MiB", end=", ")
        print(f"{done} {session.unit}")
        assert done > 0
        assert grown < session.bytes_max


def members_of(connection: Connection, group: str) -> int:
    """How many members a description shows."""
    described = connection.ask(frame(DESCRIBE_GROUPS, 0, i32(1) + string(group)))
    assert (described.i32(), described.i16(), described.string()) == (1, NONE, group)
    described.string(), described.string(), described.string()
    return described.i32()


def test_a_group_of_ten_thousand_members_is_joined_by_all_of_them_at_once() -> None:
    allow_files(MEMBERS + 2_000)
    with a_server_process() as server, a_healthy_client(server.address), Member(server.address, "big") as leader:
        before = server.resident_bytes()
        for _ in range(MEMBERS - 1):
            # They are gone before they are answered, and are members all the same.
            with Connection(server.address) as connection:
                connection.send(join("big"))
        assert leader.heartbeat() == REBALANCE_IN_PROGRESS
        with Connection(server.address) as other:
            while members_of(other, "big") < MEMBERS:
                assert leader.heartbeat() == REBALANCE_IN_PROGRESS
        leader.connection.send(join("big", leader.member_id))
        joined = Reader(leader.connection.receive())
        assert (joined.i32(), joined.i16(), joined.i32()) == (7, NONE, 2)
        assert [joined.string() for _ in range(3)] == ["range", leader.member_id, leader.member_id]
        members = {joined.string(): joined.blob() for _ in range(joined.i32())}
        assert len(members) == MEMBERS
        leader.generation = 2
        # With longer plans the group's record would be above `message.max.bytes`, and the generation would fail.
        plan = {str(member): b"plan" for member in members}
        synced = leader.connection.ask(sync("big", leader.member_id, leader.generation, plan))
        assert (synced.i16(), synced.blob()) == (NONE, b"plan")
        assert leader.heartbeat() == NONE
        assert server.resident_bytes() - before < MEMBERS * 16 * 1024
