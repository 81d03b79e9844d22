"""Patterns of consumer groups match only topics that may be described, as in Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import rota
from tests.acls.patterns import RECORDED, USERS, played
from tests.journaled import journaled

PASSWORDS = {user: f"{user}-secret" for user in USERS}


def test_the_rights_are_of_the_member_that_has_the_pattern_resolved(tmp_path: Path) -> None:
    clock = rota.VirtualClock()
    settings = {"super.users": "User:admin"}
    with journaled(
        tmp_path / "journal", sasl="PLAIN", users=PASSWORDS, acls=[], settings=settings, clock=clock
    ) as server:
        told = played((server.host, server.port), PASSWORDS, clock.advance)
        assert server.panics == 0
        # A pattern names no topic, so nothing was denied that the members have asked for.
        assert server.denied_requests() == []
    assert told == json.loads(RECORDED.read_text("utf-8"))
