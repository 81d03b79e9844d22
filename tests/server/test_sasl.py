"""SASL at the socket: the answers of each state, as recorded from Kafka 4.4; and that secrets stay secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from harness.raw import (
    API_VERSIONS,
    LIST_GROUPS,
    METADATA,
    ClosedError,
    Connection,
    Reader,
    blob,
    compact,
    frame,
    i32,
    string,
)

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, UNSUPPORTED_VERSION, INVALID_REQUEST, FAILED = 33, 34, 35, 42, 58
MECHANISMS = ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
PASSWORD = "correct-horse-battery"  # noqa: S105  of a server of this test only
WRONG = "Authentication failed: Invalid username or password"
EXPOSED = "SASL_PLAINTEXT://0.0.0.0:0"
WITHIN_S = 30


@pytest.fixture(scope="module")
def server() -> Iterator[rota.Server]:
    with rota.Server(
        sasl=MECHANISMS,
        users={"ana": PASSWORD, "bob": PASSWORD},
        settings={"connection.failed.authentication.delay.ms": 0},
    ) as server:
        yield server
        assert server.panics == 0


@pytest.fixture
def connection(server: rota.Server) -> Iterator[Connection]:
    with Connection((server.host, server.port), WITHIN_S) as connection:
        yield connection


def handshake(connection: Connection, mechanism: str, version: int = 1) -> tuple[int, list[str]]:
    connection.send(frame(SASL_HANDSHAKE, version, string(mechanism)))
    reader = Reader(connection.receive()[4:])
    return reader.i16(), [reader.string() or "" for _ in range(reader.i32())]


def authenticate(connection: Connection, token: bytes) -> tuple[int, str | None, bytes]:
    connection.send(frame(SASL_AUTHENTICATE, 1, blob(token)))
    reader = Reader(connection.receive()[4:])
    answer = reader.i16(), reader.string(), reader.blob()
    assert reader.i64() == 0
    return answer


def plain(user: str, password: str, authzid: str = "") -> bytes:
    return "\0".join((authzid, user, password)).encode()


def is_closed(connection: Connection) -> bool:
    with pytest.raises((ClosedError, ConnectionError)):
        connection.receive()
    return True


def versions(connection: Connection, version: int = 0) -> int:
    connection.send(frame(API_VERSIONS, version))
    return Reader(connection.receive()[4:]).i16()


def test_api_versions_are_served_once_and_name_the_apis_of_authentication(connection: Connection) -> None:
    connection.send(frame(API_VERSIONS, 0))
    reader = Reader(connection.receive()[4:])
    assert reader.i16() == 0
    served = [(reader.i16(), reader.i16(), reader.i16()) for _ in range(reader.i32())]
    assert {(SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 2)} <= set(served)
    assert served == sorted(served)
    connection.send(frame(API_VERSIONS, 0))
    assert is_closed(connection)


def test_a_version_that_is_not_served_does_not_count(connection: Connection) -> None:
    assert versions(connection, 99) == UNSUPPORTED_VERSION
    assert versions(connection) == 0


def test_a_request_for_versions_that_is_refused_does_not_count(connection: Connection) -> None:
    strange = compact("?") + compact("1.0") + b"\0"
    for _ in range(2):
        connection.send(frame(API_VERSIONS, 3, strange))
        assert Reader(connection.receive()[4:]).i16() == INVALID_REQUEST
    assert versions(connection) == 0
    connection.send(frame(API_VERSIONS, 3, strange))
    assert is_closed(connection)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_known_mechanism_is_answered_with_all(connection: Connection, mechanism: str) -> None:
    assert handshake(connection, mechanism) == (0, MECHANISMS)


@pytest.mark.parametrize("mechanism", ["NOPE", "", "plain"])
def test_an_unknown_mechanism_is_answered_and_closes(connection: Connection, mechanism: str) -> None:
    assert handshake(connection, mechanism) == (UNSUPPORTED_MECHANISM, MECHANISMS)
    assert is_closed(connection)


def test_a_fault_may_delay_the_versions_of_a_client_that_authenticates_afterwards() -> None:
    with rota.Server(sasl="PLAIN", users={"ana": PASSWORD}) as own:
        own.faults.delay_answers(50, api="ApiVersions")
        with Connection((own.host, own.port), WITHIN_S) as connection:
            assert versions(connection) == 0
            handshake(connection, "PLAIN")
            assert authenticate(connection, plain("ana", PASSWORD))[0] == 0
            assert own.refused_connections() == []


def test_tls_on_a_listener_with_sasl_but_without_tls_leaves_one_line() -> None:
    with (
        rota.Server(sasl="PLAIN", users={"ana": PASSWORD}) as own,
        Connection((own.host, own.port), WITHIN_S) as connection,
    ):
        connection.send(b"\x16\x03\x01\x00\x05hello")
        assert is_closed(connection)
        (line,) = own.refused_connections()
        assert "sent a TLS handshake to a listener without TLS" in line


@pytest.mark.parametrize(
    "request_bytes",
    [
        frame(SASL_AUTHENTICATE, 1, blob(plain("ana", PASSWORD))),
        frame(METADATA, 1, i32(-1)),
        frame(LIST_GROUPS, 0),
        frame(SASL_HANDSHAKE, 0, string("PLAIN")),
        frame(9_999, 0),
        struct.pack(">i", 600_000) + b"\0" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["SaslAuthenticate", "Metadata", "ListGroups", "SaslHandshake v0", "unknown key", "too large", "HTTP"],
)
def test_anything_else_before_the_handshake_closes(connection: Connection, request_bytes: bytes) -> None:
    connection.send(request_bytes)
    assert is_closed(connection)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_another_request_instead_of_a_token_is_illegal_and_closes(connection: Connection, mechanism: str) -> None:
    assert handshake(connection, mechanism)[0] == 0
    assert handshake(connection, mechanism) == (ILLEGAL_STATE, [])
    assert is_closed(connection)


def test_the_illegal_state_is_in_the_form_of_the_request(server: rota.Server) -> None:
    for request, at in ((frame(API_VERSIONS, 0), 0), (frame(LIST_GROUPS, 0), 0), (frame(LIST_GROUPS, 1), 4)):
        with Connection((server.host, server.port), WITHIN_S) as connection:
            assert handshake(connection, "PLAIN")[0] == 0
            connection.send(request)
            assert Reader(connection.receive()[4 + at :]).i16() == ILLEGAL_STATE
            assert is_closed(connection)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (plain("ana", "wrong"), WRONG),
        (plain("eve", PASSWORD), WRONG),
        (
            plain("ana", PASSWORD, "bob"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (plain("", PASSWORD), "Authentication failed: username not specified"),
        (plain("ana", ""), "Authentication failed: password not specified"),
        (b"ana", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (plain("ana", PASSWORD) + b"\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_fails_with_kafkas_messages_and_closes(connection: Connection, token: bytes, message: str) -> None:
    assert handshake(connection, "PLAIN")[0] == 0
    # What is pipelined behind gets no answer.
    connection.send(frame(SASL_AUTHENTICATE, 1, blob(token)) + frame(API_VERSIONS, 0))
    reader = Reader(connection.receive()[4:])
    assert (reader.i16(), reader.string()) == (FAILED, message)
    assert is_closed(connection)


def test_an_authenticated_client_may_not_authenticate_again_but_go_on(connection: Connection) -> None:
    assert handshake(connection, "PLAIN")[0] == 0
    assert authenticate(connection, plain("ana", PASSWORD, "ana")) == (0, "", b"")
    assert handshake(connection, "PLAIN") == (ILLEGAL_STATE, [])
    again = authenticate(connection, plain("ana", PASSWORD))
    assert again == (ILLEGAL_STATE, "SaslAuthenticate request received after successful authentication", b"")
    assert versions(connection) == versions(connection) == 0


class Scram:
    """A client's side of SCRAM, by RFC 5802."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.hash, self.password = SCRAM[mechanism], password.encode()
        self.bare = f"n={user},r=client-nonce"
        self.first = f"n,,{self.bare}".encode()

    def hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.hash)

    def last(self, server_first: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        assert fields["r"].startswith("client-nonce")
        assert len(fields["r"]) >= len("client-nonce") + 16
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, base64.b64decode(fields["s"]), int(fields["i"]))
        bare = f"c=biws,r={fields['r']}"
        signed = f"{self.bare},{server_first.decode()},{bare}".encode()
        key = self.hmac(salted, b"Client Key")
        signature = self.hmac(hashlib.new(self.hash, key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        self.verifier = b"v=" + base64.b64encode(self.hmac(self.hmac(salted, b"Server Key"), signed))
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_authenticates_both_sides(connection: Connection, mechanism: str) -> None:
    assert handshake(connection, mechanism)[0] == 0
    scram = Scram(mechanism, "ana", PASSWORD)
    error, _, server_first = authenticate(connection, scram.first)
    assert error == 0
    assert authenticate(connection, scram.last(server_first)) == (0, "", scram.verifier)
    assert versions(connection) == 0


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("user", "password"), [("ana", "wrong"), ("eve", PASSWORD)])
def test_scram_fails_alike_for_a_wrong_password_and_an_unknown_user(
    connection: Connection, mechanism: str, user: str, password: str
) -> None:
    assert handshake(connection, mechanism)[0] == 0
    scram = Scram(mechanism, user, password)
    error, _, server_first = authenticate(connection, scram.first)
    assert error == 0
    said = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    assert authenticate(connection, scram.last(server_first)) == (FAILED, said, b"")
    assert is_closed(connection)


def test_an_unknown_user_always_has_the_same_salt(server: rota.Server) -> None:
    def salt(user: str) -> bytes:
        with Connection((server.host, server.port), WITHIN_S) as connection:
            handshake(connection, "SCRAM-SHA-256")
            return authenticate(connection, f"n,,n={user},r=x".encode())[2].split(b",")[1]

    assert salt("eve") == salt("eve") != salt("eva")
    assert len(salt("eve")) == len(salt("ana"))


def test_a_failure_is_answered_after_the_delay_while_others_are_served() -> None:
    settings = {"connection.failed.authentication.delay.ms": 3_600_000}
    with (
        rota.Server(sasl="PLAIN", users={"ana": PASSWORD}, settings=settings) as own,
        Connection((own.host, own.port), WITHIN_S) as failing,
        Connection((own.host, own.port), WITHIN_S) as other,
    ):
        handshake(failing, "PLAIN")
        failing.send(frame(SASL_AUTHENTICATE, 1, blob(plain("ana", "wrong"))))
        handshake(other, "PLAIN")
        assert authenticate(other, plain("ana", PASSWORD))[0] == 0


def test_secrets_are_nowhere(tmp_path: Path) -> None:
    trace = io.StringIO()
    users = tmp_path / "users"
    users.write_text("\n".join(rota._rota.user_lines("cleo", PASSWORD)))
    stored = users.read_text().split()[2]
    said: list[str] = []
    with rota.Server(
        sasl=MECHANISMS, users=users, trace=trace, data=tmp_path / "data", journal=True,
        settings={"connection.failed.authentication.delay.ms": 0},
    ) as own:  # fmt: skip
        for password in (PASSWORD, PASSWORD + "x"):
            with Connection((own.host, own.port), WITHIN_S) as connection:
                handshake(connection, "PLAIN")
                answer = authenticate(connection, plain("cleo", password))
                said.append(repr(answer))
                if answer[0] == 0:
                    said.append(repr(authenticate(connection, plain("cleo", password))))
                    assert versions(connection) == 0
        said += [*own.refused_connections(), repr(own), repr(own.settings()), repr(own._access)]
    said.append(trace.getvalue())
    written = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert written
    for secret in (PASSWORD, *stored.split(":")[2:]):
        assert not any(secret in text for text in said)
        assert not any(secret.encode() in data for data in written)
    assert PASSWORD not in users.read_text()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"sasl": "PLAIN"}, ValueError, "sasl is given without users"),
        ({"sasl": [], "users": {"ana": "x"}}, ValueError, "sasl names no mechanism"),
        ({"sasl": "GSSAPI", "users": {"ana": "x"}}, ValueError, "no SASL mechanism `GSSAPI`: give one of PLAIN"),
        ({"users": {"a b": "x"}}, ValueError, "printable ASCII"),
        ({"users": {"ana": ""}}, ValueError, "the password of ana is empty"),
        ({"users": "missing"}, OSError, "missing"),
        (
            {"sasl": "PLAIN", "users": {"ana": "x"}, "listen": EXPOSED},
            ValueError,
            "PLAIN without TLS sends passwords over the network",
        ),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        rota.Server(**options)  # type: ignore[arg-type]


def test_plaintext_passwords_are_possible_for_those_who_ask_for_them() -> None:
    with rota.Server(EXPOSED, sasl="PLAIN", users={"ana": "x"}, allow_plaintext_passwords=True) as own:
        assert own.has_sasl


def test_client_config_has_the_user_that_is_asked_for(server: rota.Server) -> None:
    assert server.client_config("librdkafka")["sasl.username"] == "ana"
    bob = server.client_config("kafka-python", user="bob")
    assert (bob["sasl_plain_username"], bob["sasl_plain_password"]) == ("bob", PASSWORD)
    java = server.client_config("java", user="eve", password='a"b')["sasl.jaas.config"]  # noqa: S106
    assert java == ('org.apache.kafka.common.security.plain.PlainLoginModule required username="eve" password="a\\"b";')
    with pytest.raises(ValueError, match="the password of eve is not known"):
        server.client_config("aiokafka", user="eve")
