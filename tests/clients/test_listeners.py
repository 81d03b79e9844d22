"""Clients on two listeners of one server at once: members of one group, each with its listener's security protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rota
from rota.security import Login
from tests.journaled import journaled

from .conftest import SETTINGS
from .eventually import eventually
from .family import FAMILIES, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

pytestmark = pytest.mark.clients
MECHANISM, USER, PASSWORD = "SCRAM-SHA-512", "ana", "secret"
LISTENERS = {
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://0.0.0.0:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL",
    # By this name a client is at the listener with TLS only: the other one is not on all addresses.
    "advertised.listeners": "EXTERNAL://localhost:0",
}


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[tuple[Scene, Scene, rota.Server]]:
    """The same group behind both listeners of a server with two nodes."""
    authority = rota.Authority()
    options = {"tls": authority.tls("localhost"), "sasl": MECHANISM, "users": {USER: PASSWORD}, "nodes": 2}
    with ExitStack() as ends:
        server = ends.enter_context(journaled(tmp_path / "journal", settings=SETTINGS | LISTENERS, **options))
        inner, outer = server.listeners().values()
        internal = Scene(inner.bootstrap_servers, tmp_path, server)
        ends.callback(internal.close)
        login = Login(MECHANISM, USER, PASSWORD)
        security = {"tls": True, "ca": authority.certificate, "login": login}
        port = outer.nodes[1].rpartition(":")[2]
        external = Scene(f"localhost:{port}", tmp_path, server, security)
        external.group, external.name = internal.group, f"{external.name}-external"
        ends.callback(external.close)
        yield internal, external, server


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.scenario("45 two listeners")
def test_members_on_two_listeners_share_a_group(scenes: tuple[Scene, Scene, rota.Server], family: Family) -> None:
    internal, external, server = scenes
    topic = internal.topic(4)
    tools = external.client(family)
    for partition in range(4):
        tools.ask("produce", topic=topic, partition=partition, values=[f"{partition}:{i}" for i in range(10)])
    members = [internal.member(family, [topic]), external.member(family, [topic])]
    internal.settles(members, partitions_of(topic, 4))

    def read() -> set[tuple[int, int, str]]:
        return {message for member in members for message in member.messages()}

    eventually(lambda: len(read()) == 40, SETTLE_WITHIN_S, "both read all of it together", members[1].story)
    members[0].leave()
    internal.settles(members[1:], partitions_of(topic, 4))
    assert members[1].commit([(topic, 0, 10)]) == {0: 10}
    assert server.refused_connections() == []
