"""Clients over TLS and with SASL: each family joins a group, commits and resumes, and is refused otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.security import Login
from tests.journaled import journaled

from .client import Client
from .conftest import SETTINGS
from .eventually import eventually
from .family import FAMILIES, LIBRDKAFKA, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
pytestmark = pytest.mark.clients
USER, PASSWORD = "ana", "correct=horse,battery"  # what SCRAM escapes in names may be in a password
OTHER_HOST = "kafka.example"
REFUSED = "server's certificate"


@pytest.fixture
def protected_scene(tmp_path: Path) -> Iterator[Callable[..., tuple[Scene, rota.Server]]]:
    """A scene on a rota.Server with TLS, whose clients have these arguments of `client_config`."""
    with ExitStack() as ends:

        def begin(options: dict[str, Any], **security: Any) -> tuple[Scene, rota.Server]:
            settings = SETTINGS | options.pop("settings", {})
            server = ends.enter_context(journaled(tmp_path / "journal", settings=settings, **options))
            scene = Scene(server.bootstrap_servers, tmp_path, server, {"tls": server.has_tls, **security})
            ends.callback(scene.close)
            return scene, server

        yield begin


def commits_and_resumes(scene: Scene, family: Family) -> None:
    """A first member reads and commits a part of a topic, and a second one goes on from there."""
    topic = scene.topic(2)
    tools = scene.client(family)
    for partition in (0, 1):
        tools.ask("produce", topic=topic, partition=partition, values=[f"{partition}:{i}" for i in range(20)])
    first, other = (scene.member(family, [topic]) for _ in range(2))
    scene.settles([first, other], partitions_of(topic, 2))
    other.leave()
    scene.settles([first], partitions_of(topic, 2))
    eventually(
        lambda: len(set(first.messages())) == 40, SETTLE_WITHIN_S, "the first member read all of it", first.story
    )
    assert first.commit([(topic, 0, 15), (topic, 1, 20)]) == {0: 15, 1: 20}
    first.leave()
    second = scene.member(family, [topic])
    eventually(lambda: len(second.messages()) >= 5, SETTLE_WITHIN_S, "the second member read the rest", second.story)
    assert sorted(second.messages()) == [(0, i, f"0:{i}") for i in range(15, 20)], second.story()


@every_family
@pytest.mark.scenario("41 commit and resume over TLS")
def test_a_group_commits_and_resumes_over_tls_with_client_certificates(
    protected_scene: Callable[..., tuple[Scene, rota.Server]], family: Family
) -> None:
    authority = rota.Authority()
    scene, server = protected_scene(
        {"tls": authority.tls(client_auth="required")}, ca=authority.certificate, client=authority.issue(name="ana")
    )
    commits_and_resumes(scene, family)
    assert server.refused_connections() == []


# Each mechanism once, over TLS or not. One client has all of them, the others have one.
MECHANISMS = [("SCRAM-SHA-512", True), ("SCRAM-SHA-256", False), ("PLAIN", True)]


@pytest.mark.parametrize(
    ("family", "mechanism", "tls"),
    [
        pytest.param(
            family,
            *mechanism,
            marks=[] if family is LIBRDKAFKA or mechanism == MECHANISMS[0] else [pytest.mark.long],
            id=f"{family.name}-{mechanism[0]}",
        )
        for family in FAMILIES
        for mechanism in MECHANISMS
    ],
)
@pytest.mark.scenario("43 commit and resume with SASL")
def test_a_group_commits_and_resumes_with_sasl(
    protected_scene: Callable[..., tuple[Scene, rota.Server]], family: Family, mechanism: str, tls: bool
) -> None:
    authority = rota.Authority()
    options: dict[str, Any] = {"sasl": mechanism, "users": {USER: PASSWORD}}
    scene, server = protected_scene(
        options | ({"tls": authority.tls()} if tls else {}),
        ca=authority.certificate,
        login=Login(mechanism, USER, PASSWORD),
    )
    commits_and_resumes(scene, family)
    assert server.refused_connections() == []


@every_family
@pytest.mark.scenario("47 commit and resume with no more rights than needed")
def test_a_group_commits_and_resumes_with_the_rights_that_it_needs(
    protected_scene: Callable[..., tuple[Scene, rota.Server]], family: Family
) -> None:
    acls = [f"ALLOW User:{USER} * {what} LITERAL *" for what in ("READ GROUP", "READ TOPIC", "WRITE TOPIC")]
    # The scene creates the topic, and looks at the group.
    acls.append(f"ALLOW User:{USER} * CREATE CLUSTER LITERAL kafka-cluster")
    scene, server = protected_scene(
        {"sasl": "SCRAM-SHA-256", "users": {USER: PASSWORD}, "acls": acls},
        ca=None,
        login=Login("SCRAM-SHA-256", USER, PASSWORD),
    )
    commits_and_resumes(scene, family)
    assert server.denied_requests() == []


AUTHENTICATE_AGAIN = ("java", "kafka-python", "librdkafka")
"""aiokafka connects again instead."""
SESSIONS_WITHIN_S = 90


@every_family
@pytest.mark.scenario("53 sessions that end")
def test_a_member_stays_though_clients_must_authenticate_again(
    protected_scene: Callable[..., tuple[Scene, rota.Server]], family: Family
) -> None:
    settings = {"connections.max.reauth.ms": 3_000}
    scene, server = protected_scene(
        {"sasl": "SCRAM-SHA-512", "users": {USER: PASSWORD}, "settings": settings},
        ca=None,
        login=Login("SCRAM-SHA-512", USER, PASSWORD),
    )
    topic = scene.topic(2)
    member = scene.member(family, [topic])
    scene.settles([member], partitions_of(topic, 2))
    closed: list[str] = []

    def over() -> bool:
        closed.extend(server.refused_connections())
        return server._inner.reauthentications >= 4 if family.name in AUTHENTICATE_AGAIN else bool(closed)

    eventually(over, SESSIONS_WITHIN_S, "sessions of the client have ended", lambda: f"{closed}\n{member.story()}")
    assert closed == [] or family.name not in AUTHENTICATE_AGAIN
    assert all("did not authenticate again" in line for line in closed)
    scene.client(family).ask("produce", topic=topic, partition=0, values=["1"])
    eventually(lambda: (0, 0, "1") in member.messages(), SETTLE_WITHIN_S, "the member reads on", member.story)


@every_family
@pytest.mark.parametrize("mechanism", [mechanism for mechanism, _ in MECHANISMS])
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("eve", PASSWORD)])
@pytest.mark.scenario("44 wrong passwords")
def test_a_client_with_a_wrong_password_or_user_is_refused(
    tmp_path: Path, family: Family, mechanism: str, user: str, password: str
) -> None:
    lines: list[str] = []
    with rota.Server(sasl=mechanism, users={USER: PASSWORD}) as server:

        def told() -> bool:
            lines.extend(server.refused_connections())
            return any("failed to authenticate" in line for line in lines)

        security = {"login": Login(mechanism, user, password)}
        client = Client(family, family.name, server.bootstrap_servers, tmp_path / "client.log", security)
        try:
            client.send("list")
            eventually(told, SETTLE_WITHIN_S, "the server says so", lambda: f"{lines}\n{client.story()}")
        finally:
            client.stop()


def wrong(case: str) -> tuple[rota.Tls, dict[str, Any], str]:
    """A server and a client that cannot connect to each other, and what the server says of it."""
    authority = rota.Authority()
    trusted = {"ca": authority.certificate}
    other = rota.Authority()
    cases: dict[str, tuple[rota.Tls, dict[str, Any], str]] = {
        "other CA": (authority.tls(), {"ca": other.certificate}, REFUSED),
        "other host": (authority.tls(OTHER_HOST), trusted, REFUSED),
        "expired": (authority.tls(expired=True), trusted, REFUSED),
        "no client certificate": (authority.tls(client_auth="required"), trusted, "sent no certificate"),
        "client certificate of another CA": (
            authority.tls(client_auth="required"),
            trusted | {"client": other.issue(name="ana")},
            "sent a certificate that cannot be verified",
        ),
    }
    return cases[case]


@every_family
@pytest.mark.parametrize(
    "case", ["other CA", "other host", "expired", "no client certificate", "client certificate of another CA"]
)
@pytest.mark.scenario("42 wrong certificates")
def test_a_client_with_a_wrong_certificate_is_refused_and_the_server_says_why(
    tmp_path: Path, family: Family, case: str
) -> None:
    tls, security, said = wrong(case)
    lines: list[str] = []
    with rota.Server(tls=tls) as server:

        def told() -> bool:
            lines.extend(server.refused_connections())
            return any(said in line for line in lines)

        client = Client(
            family, family.name, server.bootstrap_servers, tmp_path / "client.log", {"tls": True, **security}
        )
        try:
            client.send("list")
            eventually(told, SETTLE_WITHIN_S, f"the server says: {said}", lambda: f"{lines}\n{client.story()}")
        finally:
            client.stop()
