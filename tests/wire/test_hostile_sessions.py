"""Whatever hostile clients do takes a bounded part of memory, and a healthy client beside them never notices.

The bounds are those of docs/limits.md, "What hostile clients can take".
"""

from __future__ import annotations

from contextlib import closing

import pytest

import rota

from .bystander import a_healthy_client, resident_bytes
from .hostile_sessions import MEMBERS, SESSIONS, Session, allow_files
from .raw import NONE, REBALANCE_IN_PROGRESS, Connection, Member, Reader, heartbeat, join, sync

Address = tuple[str, int]


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_an_attack_takes_bounded_memory_and_a_healthy_client_does_not_notice(
    session: Session, rota_server: rota.Server, address: Address
) -> None:
    with a_healthy_client(address):
        before = resident_bytes()
        with closing(session.attack(address)) as attack:
            for _ in range(session.rounds):
                next(attack)
            grown = resident_bytes() - before
            print(f"{session.attack.__name__}: {grown / 2**20:.1f} of {session.bytes_max / 2**20:.1f} MiB")
            assert grown < session.bytes_max
    assert rota_server.panics == 0


def test_a_group_of_ten_thousand_members_is_joined_by_all_of_them_at_once(
    rota_server: rota.Server, address: Address
) -> None:
    allow_files(MEMBERS + 2_000)
    before = resident_bytes()
    with a_healthy_client(address), Member(address, "big") as leader:
        for _ in range(MEMBERS - 1):
            # They are gone before they are answered, and are members all the same.
            with Connection(address) as connection:
                connection.send(join("big"))
        assert leader.heartbeat() == REBALANCE_IN_PROGRESS
        while len(rota_server._inner.members("big")) < MEMBERS:
            assert leader.heartbeat() == REBALANCE_IN_PROGRESS
        leader.connection.send(join("big", leader.member_id))
        joined = Reader(leader.connection.receive())
        assert (joined.i32(), joined.i16(), joined.i32()) == (7, NONE, 2)
        assert [joined.string() for _ in range(3)] == ["range", leader.member_id, leader.member_id]
        members = {joined.string(): joined.blob() for _ in range(joined.i32())}
        assert len(members) == MEMBERS
        plan = {str(member): b"plan" for member in members}
        # The append of a generation of this size is more than a record may be: that is said, and breaks nothing.
        synced = leader.connection.ask(sync("big", leader.member_id, 2, plan)).i16()
        assert synced == NONE
        assert leader.connection.ask(heartbeat("big", leader.member_id, 2)).i16() == NONE
        assert resident_bytes() - before < MEMBERS * 16 * 1024
    assert rota_server.panics == 0
