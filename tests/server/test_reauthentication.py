"""Clients authenticate again (KIP-368): the answers of each state, as recorded from Kafka 4.4."""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

import rota
from harness.raw import (
    API_VERSIONS,
    LIST_GROUPS,
    ClosedError,
    Connection,
    Reader,
    blob,
    frame,
    heartbeat,
    join,
    string,
    sync,
)
from rota import codec
from tests.acls.asking import APIS
from tests.clients.eventually import eventually
from tests.refusals import wait_for_refusal

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
ILLEGAL_STATE, FAILED = 34, 58
MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]
LIFETIME_MS, WITHIN_S = 3_000, 60
ANA, BOB = b"\0ana\0ana-secret", b"\0bob\0bob-secret"
SETTINGS: dict[str, str | int] = {
    "connections.max.reauth.ms": LIFETIME_MS,
    "connection.failed.authentication.delay.ms": 0,
}
USERS = {"ana": "ana-secret", "bob": "bob-secret"}


@pytest.fixture
def clock() -> rota.VirtualClock:
    return rota.VirtualClock()


@pytest.fixture
def server(clock: rota.VirtualClock) -> Iterator[rota.Server]:
    with rota.Server(sasl=MECHANISMS, users=USERS, settings=SETTINGS, clock=clock) as server:
        yield server
        assert server.panics == 0


@pytest.fixture
def ana(server: rota.Server) -> Iterator[Connection]:
    """A connection of ana, authenticated with PLAIN."""
    with Connection((server.host, server.port), WITHIN_S) as connection:
        assert handshake(connection) == (0, MECHANISMS)
        assert authenticate(connection, ANA) == (0, "", LIFETIME_MS)
        yield connection


def handshake(connection: Connection, mechanism: str = "PLAIN", version: int = 1) -> tuple[int, list[str]]:
    connection.send(frame(SASL_HANDSHAKE, version, string(mechanism)))
    reader = Reader(connection.receive()[4:])
    return reader.i16(), [reader.string() or "" for _ in range(reader.i32())]


def authenticate(connection: Connection, token: bytes, version: int = 1) -> tuple[int, str | None, int]:
    connection.send(frame(SASL_AUTHENTICATE, version, blob(token)))
    reader = Reader(connection.receive()[4:])
    error, message, _ = reader.i16(), reader.string(), reader.blob()
    return error, message, reader.i64() if version else 0


def delete(connection: Connection, user: str, mechanism: int) -> None:
    api = APIS["AlterUserScramCredentials"]
    fields = {"deletions": [{"name": user, "mechanism": mechanism}], "upsertions": []}
    connection.send(blob(codec.write_request(api, 0, 1, "test", fields)))
    (result,) = codec.read_answer(api, 0, connection.receive())[1]["results"]
    assert result["error_code"] == 0


def lists_groups(connection: Connection) -> int:
    connection.send(frame(LIST_GROUPS, 0))
    return Reader(connection.receive()[4:]).i16()


def is_closed(connection: Connection) -> bool:
    with pytest.raises((ClosedError, ConnectionError)):
        connection.receive()
    return True


def test_a_client_authenticates_again_at_most_once_a_second(ana: Connection, clock: rota.VirtualClock) -> None:
    assert handshake(ana)[0] == 0
    assert authenticate(ana, ANA) == (0, "", LIFETIME_MS)
    assert lists_groups(ana) == 0
    # The second within a second is refused, and the connection goes on.
    assert handshake(ana) == (ILLEGAL_STATE, [])
    assert lists_groups(ana) == 0
    clock.advance(1_000)
    assert handshake(ana)[0] == 0
    assert authenticate(ana, ANA) == (0, "", LIFETIME_MS)
    clock.advance(LIFETIME_MS)
    assert lists_groups(ana) == 0


def test_without_a_handshake_a_token_is_illegal(ana: Connection) -> None:
    said = "SaslAuthenticate request received after successful authentication"
    assert authenticate(ana, ANA) == (ILLEGAL_STATE, said, 0)
    assert lists_groups(ana) == 0


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (BOB, "Cannot change principals during re-authentication from User.ana: User.bob"),
        (b"\0ana\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_another_user_or_a_wrong_password_is_refused_and_closes(ana: Connection, token: bytes, message: str) -> None:
    assert handshake(ana)[0] == 0
    assert authenticate(ana, token) == (FAILED, message, 0)
    assert is_closed(ana)


@pytest.mark.parametrize("mechanism", ["NOPE", "", "SCRAM-SHA-512"])
def test_a_mechanism_that_is_not_enabled_closes_without_an_answer(ana: Connection, mechanism: str) -> None:
    ana.send(frame(SASL_HANDSHAKE, 1, string(mechanism)))
    assert is_closed(ana)


def test_another_mechanism_is_answered_and_its_token_closes(ana: Connection) -> None:
    assert handshake(ana, "SCRAM-SHA-256") == (0, MECHANISMS)
    ana.send(frame(SASL_AUTHENTICATE, 1, blob(b"n,,n=ana,r=abc")))
    assert is_closed(ana)


@pytest.mark.parametrize(
    "request_bytes",
    [frame(LIST_GROUPS, 0), frame(API_VERSIONS, 0), frame(SASL_HANDSHAKE, 1, string("PLAIN"))],
    ids=["ListGroups", "ApiVersions", "SaslHandshake"],
)
def test_another_request_instead_of_a_token_is_illegal_and_closes(
    server: rota.Server, ana: Connection, request_bytes: bytes
) -> None:
    assert handshake(ana)[0] == 0
    # What is pipelined behind gets no answer.
    ana.send(request_bytes + frame(LIST_GROUPS, 0))
    assert Reader(ana.receive()[4:]).i16() == ILLEGAL_STATE
    assert is_closed(ana)
    (line,) = server.refused_connections()
    assert "sent another request in the middle of a re-authentication" in line


@pytest.mark.parametrize(
    "request_bytes",
    [
        frame(LIST_GROUPS, 0),
        frame(API_VERSIONS, 0),
        heartbeat("g", "m", 1),
        frame(SASL_AUTHENTICATE, 1, blob(ANA)),
    ],
    ids=["ListGroups", "ApiVersions", "Heartbeat", "SaslAuthenticate"],
)
def test_after_the_session_any_other_request_closes(
    server: rota.Server, ana: Connection, clock: rota.VirtualClock, request_bytes: bytes
) -> None:
    clock.advance(LIFETIME_MS)
    assert lists_groups(ana) == 0
    clock.advance(1)
    ana.send(request_bytes)
    assert is_closed(ana)
    (line,) = server.refused_connections()
    assert "did not authenticate again within connections.max.reauth.ms" in line


def test_after_the_session_a_client_may_still_authenticate_again(ana: Connection, clock: rota.VirtualClock) -> None:
    clock.advance(10 * LIFETIME_MS)
    assert handshake(ana) == (0, MECHANISMS)
    clock.advance(10 * LIFETIME_MS)
    assert authenticate(ana, ANA) == (0, "", LIFETIME_MS)
    assert lists_groups(ana) == 0


def test_a_client_that_is_not_told_has_a_session_too(server: rota.Server, clock: rota.VirtualClock) -> None:
    with Connection((server.host, server.port), WITHIN_S) as connection:
        handshake(connection)
        assert authenticate(connection, ANA, version=0) == (0, "", 0)
        assert lists_groups(connection) == 0
        clock.advance(LIFETIME_MS + 1)
        connection.send(frame(LIST_GROUPS, 0))
        assert is_closed(connection)


def test_a_user_who_was_removed_cannot_authenticate_again(server: rota.Server, ana: Connection) -> None:
    assert handshake(ana)[0] == 0
    assert authenticate(ana, ANA)[0] == 0
    with Connection((server.host, server.port), WITHIN_S) as bob:
        handshake(bob)
        assert authenticate(bob, BOB)[0] == 0
        for mechanism in (1, 2):
            delete(ana, "bob", mechanism)
        assert lists_groups(bob) == 0
        assert handshake(bob)[0] == 0
        assert authenticate(bob, BOB)[0] == FAILED
        assert is_closed(bob)


def test_heartbeats_on_the_fast_path_end_with_the_session() -> None:
    # The fast path takes heartbeats in real time only.
    settings = SETTINGS | {"connections.max.reauth.ms": 1_000, "group.initial.rebalance.delay.ms": 0}
    with (
        rota.Server(sasl="PLAIN", users=USERS, settings=settings) as server,
        Connection((server.host, server.port), WITHIN_S) as connection,
    ):
        handshake(connection)
        assert authenticate(connection, ANA) == (0, "", 1_000)
        until = time.monotonic() + WITHIN_S

        def beat_on() -> None:
            connection.send(join("g"))
            reader = Reader(connection.receive()[4:])
            assert (reader.i16(), reader.i32()) == (0, 1)
            _, member = reader.string(), reader.string()
            connection.send(sync("g", member or "", 1, {}))
            connection.receive()
            while time.monotonic() < until:
                connection.send(heartbeat("g", member or "", 1) * 3)
                for _ in range(3):
                    connection.receive()

        with pytest.raises((ClosedError, ConnectionError)):
            beat_on()
        wait_for_refusal(server, "did not authenticate again")


def test_librdkafka_authenticates_again_by_itself() -> None:
    settings: dict[str, str | int] = {"connections.max.reauth.ms": 2_000, "group.initial.rebalance.delay.ms": 0}
    with rota.Server(sasl="SCRAM-SHA-256", users=USERS, settings=settings) as server:
        server.create_topic("orders")
        config = {"group.id": "g", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 200}
        worker = confluent_kafka.Consumer(server.client_config("librdkafka") | config)
        worker.subscribe(["orders"])
        server.wait_until_stable("g", members=1, poll=lambda: worker.poll(0.1))

        def again() -> bool:
            worker.poll(0.1)
            return server._inner.reauthentications >= 4

        eventually(again, WITHIN_S, "four re-authentications")
        server.produce("orders", ["1"])
        (message,) = worker.consume(1, timeout=WITHIN_S)
        assert message.value() == b"1"
        assert not any("did not authenticate again" in line for line in server.refused_connections())
        worker.close()
