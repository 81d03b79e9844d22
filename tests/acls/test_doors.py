"""The table "Who may do what" in docs/security.md: each row is what a server does."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import rota
from harness.builds import ROOT
from harness.raw import API_VERSIONS, LIST_GROUPS, ClosedError, Connection, Reader, frame
from rota import control
from tests.refusals import wait_for_refusal

WITHIN_S = 60
REFUSED_WITHIN_S = 3
PASSWORD, TOKEN = "correct-horse", "let-me-in"
SECRET = "a-topic-that-nobody-else-should-see"  # noqa: S105 - a topic


def table() -> dict[tuple[str, str], str]:
    """What the page says: where and who, and what they may do."""
    lines = (ROOT / "docs" / "security.md").read_text("utf-8").partition("| at | who | may |")[2]
    found, at = {}, ""
    for line in lines.split("\n\n")[0].splitlines()[2:]:
        place, who, may = (cell.strip() for cell in line.split("|")[1:4])
        at = place or at
        found[at, who] = may
    return found


CHECKS: dict[tuple[str, str], Callable[[Path], None]] = {}


def row(at: str, who: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """The check of a row."""

    def remember(check: Callable[[Path], None]) -> Callable[[Path], None]:
        CHECKS[at, who] = check
        return check

    return remember


def uses(config: dict[str, Any], topic: str = SECRET) -> None:
    """The client does what only those may who may do everything."""
    admin = AdminClient(config)
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result(WITHIN_S)
    assert topic in admin.list_topics(timeout=WITHIN_S).topics
    assert admin.list_consumer_groups().result(WITHIN_S).valid == []
    for gone in admin.delete_topics([topic]).values():
        gone.result(WITHIN_S)


def is_refused(config: dict[str, Any]) -> bool:
    try:
        AdminClient(config).list_topics(timeout=REFUSED_WITHIN_S)
    except KafkaException:
        return True
    return False


@contextmanager
def asked(server: rota.Server, *frames: bytes) -> Iterator[Connection]:
    with Connection((server.host, server.port), WITHIN_S) as connection:
        for one in frames:
            connection.send(one)
        yield connection


@row("a listener without TLS", "everyone who reaches it")
def everyone_may_do_everything(_: Path) -> None:
    with rota.Server() as server:
        uses(server.client_config("librdkafka"))


@row("a listener with TLS", "everyone who reaches it")
def everyone_with_tls_may_do_everything(_: Path) -> None:
    with rota.Server(tls=True) as server:
        uses(server.client_config("librdkafka"))
        # A client with another CA does not speak to who is on the way.
        other = server.client_config("librdkafka") | {"ssl.ca.pem": rota.Authority().certificate}
        assert is_refused(other)


@row("any of them, with ACLs", "everyone who is admitted")
def rights_decide(_: Path) -> None:
    acls = ["ALLOW User:ANONYMOUS * DESCRIBE TOPIC LITERAL own"]
    with rota.Server(acls=acls) as server:
        for topic in ("own", SECRET):
            server.create_topic(topic)
        admin = AdminClient(server.client_config("librdkafka"))
        assert set(admin.list_topics(timeout=WITHIN_S).topics) == {"own"}
        assert len(admin.describe_cluster().result(WITHIN_S).nodes) == 1
        [made] = admin.create_topics([NewTopic("new", 1, 1)]).values()
        with pytest.raises(KafkaException):
            made.result(WITHIN_S)


@row("any of them, with ACLs", "super users")
def super_users_may_do_everything(_: Path) -> None:
    with rota.Server(acls=[], settings={"super.users": "User:ANONYMOUS"}) as server:
        uses(server.client_config("librdkafka"))


def with_certificates() -> tuple[rota.Authority, rota.Server]:
    authority = rota.Authority()
    return authority, rota.Server(tls=authority.tls(client_auth="required"))


@row("a listener with TLS and client certificates", "those with a certificate of these CAs")
def a_certificate_admits(_: Path) -> None:
    authority, server = with_certificates()
    with server:
        uses(server.client_config("librdkafka", authority.issue(name="ana")))


@row("a listener with TLS and client certificates", "everyone else who reaches it")
def others_begin_handshakes(_: Path) -> None:
    authority, server = with_certificates()
    with server:
        assert is_refused(server.client_config("librdkafka"))
        assert is_refused(server.client_config("librdkafka", rota.Authority().issue(name="ana")))
        assert is_refused(server.client_config("librdkafka", authority.issue(name="ana", expired=True)))
        wait_for_refusal(server, "")


@row("a listener with SASL", "users of the server, with their passwords")
def users_may_do_everything(_: Path) -> None:
    with rota.Server(sasl="SCRAM-SHA-256", users={"ana": PASSWORD, "bob": PASSWORD}) as server:
        uses(server.client_config("librdkafka"))
        admin = AdminClient(server.client_config("librdkafka"))
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
        changed = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"another")])
        changed["bob"].result(WITHIN_S)
        assert is_refused(server.client_config("librdkafka", user="bob"))
        uses(server.client_config("librdkafka", user="bob", password="another"))  # noqa: S106 - of a test


@row("a listener with SASL", "everyone else who reaches it")
def others_try_passwords(_: Path) -> None:
    with rota.Server(sasl="PLAIN", users={"ana": PASSWORD}) as server:
        assert is_refused(server.client_config("librdkafka", password="guessed"))  # noqa: S106 - of a test
        with asked(server, frame(API_VERSIONS, 0)) as connection:
            assert Reader(connection.receive()[4:]).i16() == 0
        with asked(server, frame(LIST_GROUPS, 0)) as connection, pytest.raises(ClosedError):
            connection.receive()


@row(
    "a listener with SASL and tokens",
    "everyone with a token that the issuer has signed for it, until the token expires",
)
def a_token_admits_its_principal(_: Path) -> None:
    with rota.Server(sasl="OAUTHBEARER", acls=[f"ALLOW User:ana * ALL TOPIC LITERAL {SECRET}"]) as server:
        server.create_topic(SECRET)
        ana, bob = (server.client_config("librdkafka", token=server.token(user)) for user in ("ana", "bob"))
        # The client takes its token when it is polled.
        for config, topics in ((ana, {SECRET}), (bob, set())):
            admin = AdminClient(config)
            admin.poll(0)
            assert set(admin.list_topics(timeout=WITHIN_S).topics) == topics


@row("a listener with SASL and tokens", "everyone else who reaches it")
def other_tokens_are_refused(_: Path) -> None:
    with rota.Server(sasl="OAUTHBEARER") as server:
        for token in (rota.TokenIssuer().token("ana"), server.token("ana", lifetime_s=-600)):
            admin = AdminClient(server.client_config("librdkafka", token=token))
            admin.poll(0)
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=REFUSED_WITHIN_S)
        wait_for_refusal(server, "a token that has expired")
        with asked(server, frame(LIST_GROUPS, 0)) as connection, pytest.raises(ClosedError):
            connection.receive()


@row("`sasl.oauthbearer.jwks.endpoint.url`", "who can change what is there")
def keys_admit_every_principal(place: Path) -> None:
    first, second = rota.TokenIssuer(), rota.TokenIssuer()
    first.write_jwks(place / "keys.json")
    settings = {"sasl.oauthbearer.jwks.endpoint.url": (place / "keys.json").as_uri(), "super.users": "User:admin"}
    with rota.Server(sasl="OAUTHBEARER", acls=[], settings=settings) as server:
        second.write_jwks(place / "keys.json")
        server.reload()
        config = server.client_config("librdkafka", token=second.token("admin"))
        admin = AdminClient(config)
        admin.poll(0)
        [made] = admin.create_topics([NewTopic(SECRET, 1, 1)]).values()
        made.result(WITHIN_S)


def status_of(address: str | None, path: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, Any]:
    base = str(address) if str(address).startswith("https://") else f"http://{address}"
    try:
        opened = urllib.request.urlopen(
            urllib.request.Request(base + path, headers=headers), timeout=WITHIN_S, context=context
        )
        with opened as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@contextmanager
def shown(place: Path) -> Iterator[tuple[rota.Server, ssl.SSLContext, ssl.SSLContext]]:
    """A server with `--http`, and the TLS of a client without and with a certificate."""
    authority = rota.Authority()
    issued = authority.issue(name="ana")
    (place / "ana.pem").write_text(issued.certificate + issued.key)
    known = ssl.create_default_context(cadata=authority.certificate)
    known.load_cert_chain(place / "ana.pem")
    tls = authority.tls(client_auth="requested")
    with rota.Server(tls=tls, http="https://127.0.0.1:0", http_token=TOKEN) as server:
        yield server, ssl.create_default_context(cadata=authority.certificate), known


@row("`--http` with a token or client certificates", "those with one of them")
def readers_read(place: Path) -> None:
    with shown(place) as (server, unknown, known):
        for path in ("/groups", "/healthz"):
            assert status_of(server.http_address, path, known)[0] == 200
            assert status_of(server.http_address, path, unknown, Authorization=f"Bearer {TOKEN}")[0] == 200


@row("`--http` with a token or client certificates", "everyone else who reaches it")
def others_see_the_status(place: Path) -> None:
    with shown(place) as (server, unknown, _):
        assert status_of(server.http_address, "/healthz", unknown) == (200, {"status": "ok"})
        assert status_of(server.http_address, "/readyz", unknown) == (200, {"status": "ready"})
        for path in ("/groups", "/groups/orders", "/metrics", "/", "/schema"):
            assert status_of(server.http_address, path, unknown)[0] == 401, path


@row("`--http` without, on this machine or with `--allow-anonymous-http`", "everyone who reaches it")
def everyone_reads(_: Path) -> None:
    for options in ({"http": "127.0.0.1:0"}, {"http": "0.0.0.0:0", "allow_anonymous_http": True}):
        with rota.Server(**options) as server:
            port = str(server.http_address).rpartition(":")[2]
            assert status_of(f"127.0.0.1:{port}", "/groups")[0] == 200
    with pytest.raises(ValueError, match="can be reached from other machines"):
        rota.Server(http="0.0.0.0:0")


@row("`--control` with a token or client certificates", "those with one of them")
def controllers_control(_: Path) -> None:
    authority = rota.Authority()
    with (
        rota.Server(tls=authority.tls(client_auth="requested")) as server,
        closing(control.serve(server, "https://127.0.0.1:0", TOKEN)) as listening,
    ):
        for token, client in ((TOKEN, None), (None, authority.issue(name="ana"))):
            security = server.client_config("java", client)
            control.Client(listening.address, token, security=security).reset()


@row("`--control` with a token or client certificates", "everyone else who reaches it")
def others_control_nothing(_: Path) -> None:
    with rota.Server() as server, closing(control.serve(server, "127.0.0.1:0", TOKEN)) as listening:
        for path in ("/control/clock", "/healthz", "/groups", "/openapi.json", "/nothing"):
            assert status_of(listening.address, path)[0] == 401, path
        with pytest.raises(control.ControlError, match="requires a token"):
            control.Client(listening.address).create_topic(topic=SECRET)


@row("`--control` without, on this machine", "everyone on this machine")
def everyone_here_controls(_: Path) -> None:
    with rota.Server() as server:
        with closing(control.serve(server)) as listening:
            control.Client(listening.address).create_topic(topic=SECRET)
        with pytest.raises(ValueError, match="can be reached from other machines"):
            control.serve(server, "0.0.0.0:0")


@row("`--http` or `--control` without TLS", "everyone on the way")
def who_is_on_the_way_reads_tokens(_: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as on_the_way:
        address = f"127.0.0.1:{on_the_way.getsockname()[1]}"
        client = control.Client(address, TOKEN, timeout=0.1)
        with pytest.raises(control.ControlError):
            client.clock()
        with on_the_way.accept()[0] as connection:
            assert f"Bearer {TOKEN}".encode() in connection.recv(65_536)


@row("the data directory, the journal", "users of the machine with permission")
def files_have_messages(place: Path) -> None:
    with rota.Server(data=place / "data", journal=True) as server:
        server.create_topic(SECRET)
        server.produce(SECRET, ["a message"])
    files = [file for file in (place / "data").rglob("*") if file.is_file()]
    assert any(b"a message" in file.read_bytes() for file in files)


WRITE_TXN_MARKERS = 27


def marker_error(server: rota.Server) -> int:
    """The answer to WriteTxnMarkers 1, which aborts a transaction of producer 7 in partition 0 of a topic."""
    topic = bytes((len(SECRET) + 1,)) + SECRET.encode() + b"\2" + struct.pack(">i", 0) + b"\0"
    marker = struct.pack(">qh?", 7, 0, False) + b"\2" + topic + struct.pack(">i", 0) + b"\0"
    head = struct.pack(">hhih", WRITE_TXN_MARKERS, 1, 1, -1) + b"\0"
    body = head + b"\2" + marker + b"\0"
    with asked(server, len(body).to_bytes(4, "big") + body) as connection:
        # Partition, error, and the ends of partition, topic, producer and answer.
        return int(struct.unpack_from(">h", connection.receive(), -6)[0])


@row(
    "the listener between the [servers of a cluster](cluster.md#between-the-servers)",
    "those with CLUSTER_ACTION on the cluster; without ACLs everyone who is admitted",
)
def servers_end_transactions(_: Path) -> None:
    allowed = ["ALLOW User:ANONYMOUS * CLUSTER_ACTION CLUSTER LITERAL kafka-cluster"]
    for acls, error in ((None, 0), (allowed, 0), ([], 31)):
        with rota.Server(acls=acls) as server:
            server.create_topic(SECRET)
            assert marker_error(server) == error, acls
            assert [line.split()[7] for line in server.denied_requests()] == ["CLUSTER_ACTION"] * (error == 31)


def test_every_row_has_a_check() -> None:
    assert set(table()) == set(CHECKS)


@pytest.mark.parametrize("at", CHECKS, ids=lambda at: f"{at[0]}: {at[1]}"[:80])
def test_the_row_is_what_a_server_does(at: tuple[str, str], tmp_path: Path) -> None:
    CHECKS[at](tmp_path)
