"""OAUTHBEARER at the socket: what tokens admit, and for how long."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from harness.raw import LIST_GROUPS, ClosedError, Connection, Reader, blob, frame, string
from tests.clients.eventually import eventually

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
FAILED = 58
INVALID = b'{"status":"invalid_token"}'
ISSUER, AUDIENCE = "https://issuer.test", "kafka"
WITHIN_S = 30
SETTINGS: dict[str, str | int] = {
    "connection.failed.authentication.delay.ms": 0,
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
}
REAUTHENTICATION_MS = 60_000


def issuer() -> rota.TokenIssuer:
    return rota.TokenIssuer(issuer=ISSUER, audience=AUDIENCE)


@pytest.fixture
def clock() -> rota.VirtualClock:
    return rota.VirtualClock()


@pytest.fixture
def server(clock: rota.VirtualClock) -> Iterator[rota.Server]:
    with rota.Server(sasl="OAUTHBEARER", tokens=issuer(), settings=SETTINGS, clock=clock) as server:
        yield server
        assert server.panics == 0


@pytest.fixture
def connection(server: rota.Server) -> Iterator[Connection]:
    with Connection((server.host, server.port), WITHIN_S) as connection:
        yield connection


def handshake(connection: Connection) -> tuple[int, list[str]]:
    connection.send(frame(SASL_HANDSHAKE, 1, string("OAUTHBEARER")))
    reader = Reader(connection.receive()[4:])
    return reader.i16(), [reader.string() or "" for _ in range(reader.i32())]


def send(connection: Connection, message: bytes) -> tuple[int, str | None, bytes, int]:
    """Error, message, bytes and lifetime of the answer to SaslAuthenticate."""
    connection.send(frame(SASL_AUTHENTICATE, 1, blob(message)))
    reader = Reader(connection.receive()[4:])
    return reader.i16(), reader.string(), reader.blob() or b"", reader.i64()


def bearing(token: str, *pairs: str) -> bytes:
    return "\x01".join(["n,,", f"auth=Bearer {token}", *pairs, "", ""]).encode()


def lifetime(connection: Connection, token: str) -> int:
    """The lifetime of the session of a client that is admitted."""
    assert handshake(connection)[0] == 0
    error, message, answer, lifetime_ms = send(connection, bearing(token))
    assert (error, message, answer) == (0, "", b"")
    return lifetime_ms


def is_closed(connection: Connection) -> bool:
    try:
        connection.receive()
    except (ClosedError, ConnectionError):
        return True
    return False


def lists_groups(connection: Connection) -> int:
    connection.send(frame(LIST_GROUPS, 0))
    return Reader(connection.receive()[4:]).i16()


def refused(server: rota.Server, token: str) -> str:
    """The line about a token that is not valid."""
    with Connection((server.host, server.port), WITHIN_S) as connection:
        assert handshake(connection) == (0, ["OAUTHBEARER"])
        assert send(connection, bearing(token)) == (0, "", INVALID, 0)
        assert send(connection, b"\x01") == (FAILED, INVALID.decode(), b"", 0)
        assert is_closed(connection)
    (line,) = eventually(server.refused_connections, WITHIN_S, "a line")
    return line


def unsecured(**claims: Any) -> str:
    header, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    )
    return f"{header}.{body}."


def test_a_token_admits_its_principal(server: rota.Server, connection: Connection) -> None:
    assert handshake(connection) == (0, ["OAUTHBEARER"])
    assert send(connection, bearing(server.token("ana"), "traceId=1", "other=a b"))[:3] == (0, "", b"")
    assert lists_groups(connection) == 0


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ({"lifetime_s": -60}, "that has expired"),
        ({"claims": {"iss": "https://other.test"}}, "of another issuer"),
        ({"claims": {"aud": "payments"}}, "for another audience"),
        ({"claims": {"aud": None}}, "for another audience"),
        ({"claims": {"sub": None}}, "that names no principal"),
        ({"claims": {"iat": None}}, "without `exp` or `iat`"),
        ({"claims": {"exp": None}}, "without `exp` or `iat`"),
        ({"claims": {"nbf": 1 << 40, "exp": 1 << 41}}, "that is not valid yet"),
    ],
    ids=str,
)
def test_a_token_with_wrong_claims_is_refused_and_the_reason_is_on_stderr(
    server: rota.Server, token: dict[str, Any], reason: str
) -> None:
    assert f"127.0.0.1 sent a token {reason}" in refused(server, server.token("ana", **token))


def test_a_token_of_another_issuers_key_is_refused(server: rota.Server) -> None:
    # It has the same key id.
    assert "whose signature is wrong" in refused(server, issuer().token("ana"))


def test_an_unsecured_token_is_refused(server: rota.Server) -> None:
    claims = {"sub": "ana", "iss": ISSUER, "aud": AUDIENCE, "exp": 1 << 40}
    assert "without a signature" in refused(server, unsecured(**claims))


def test_an_unsecured_token_is_accepted_with_a_switch() -> None:
    with (
        rota.Server(sasl="OAUTHBEARER", allow_unsecured_tokens=True) as server,
        Connection((server.host, server.port), WITHIN_S) as connection,
    ):
        assert lifetime(connection, unsecured(sub="ana", exp=1 << 40)) > 0
        assert lists_groups(connection) == 0


def test_another_token_may_follow_one_that_is_refused(server: rota.Server, connection: Connection) -> None:
    assert handshake(connection)[0] == 0
    assert send(connection, bearing("a.b.c"))[2] == INVALID
    assert send(connection, bearing(server.token("ana")))[:3] == (0, "", b"")
    assert lists_groups(connection) == 0


@pytest.mark.parametrize("message", [b"", b"\x01", b"n,,", b"\0ana\0secret", b"n,,\x01auth=Basic abc\x01\x01"])
def test_what_is_not_a_message_of_oauthbearer_fails_at_once(connection: Connection, message: bytes) -> None:
    assert handshake(connection)[0] == 0
    reason = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
    assert send(connection, message) == (FAILED, reason, b"", 0)
    assert is_closed(connection)


def test_a_session_ends_with_the_token_or_before(clock: rota.VirtualClock) -> None:
    settings = SETTINGS | {"connections.max.reauth.ms": REAUTHENTICATION_MS}
    with rota.Server(sasl="OAUTHBEARER", tokens=issuer(), settings=settings, clock=clock) as server:
        for lifetime_s in (10, 3_600):
            with Connection((server.host, server.port), WITHIN_S) as connection:
                left_ms = lifetime(connection, server.token("ana", lifetime_s=lifetime_s))
                # `exp` is in whole seconds.
                whole_ms = min(lifetime_s * 1_000, REAUTHENTICATION_MS)
                assert left_ms == REAUTHENTICATION_MS if lifetime_s == 3_600 else whole_ms - 1_000 < left_ms <= whole_ms
                clock.advance(left_ms)
                assert lists_groups(connection) == 0
                clock.advance(1)
                connection.send(frame(LIST_GROUPS, 0))
                assert is_closed(connection)


def test_a_session_ends_with_the_token_without_the_setting(
    server: rota.Server, connection: Connection, clock: rota.VirtualClock
) -> None:
    left_ms = lifetime(connection, server.token("ana", lifetime_s=30))
    assert 29_000 < left_ms <= 30_000
    clock.advance(left_ms + 1)
    connection.send(frame(LIST_GROUPS, 0))
    assert is_closed(connection)
    assert "or the time of its token" in server.refused_connections()[0]


def test_another_token_prolongs_the_session_of_the_same_principal_only(
    server: rota.Server, connection: Connection, clock: rota.VirtualClock
) -> None:
    first_ms = lifetime(connection, server.token("ana", lifetime_s=30))
    clock.advance(first_ms - 1)
    assert lifetime(connection, server.token("ana", lifetime_s=30)) > 29_000
    clock.advance(2_000)
    assert lists_groups(connection) == 0
    assert handshake(connection)[0] == 0
    changed = "Cannot change principals during re-authentication from User.ana: User.bob"
    assert send(connection, bearing(server.token("bob"))) == (FAILED, changed, b"", 0)
    assert is_closed(connection)


def test_a_rotated_key_counts_for_new_connections(server: rota.Server) -> None:
    issuer, before = server.issuer, server.token("ana")
    assert issuer is not None
    issuer.rotate()
    assert "signed by a key that the server does not know" in refused(server, before)
    issuer.rotate(keep_old=True)
    with Connection((server.host, server.port), WITHIN_S) as connection:
        assert lifetime(connection, server.token("ana")) > 0


def test_keys_in_a_file_are_read_again(tmp_path: Path) -> None:
    keys, tokens = tmp_path / "my keys.json", rota.TokenIssuer()
    settings = {"sasl.oauthbearer.jwks.endpoint.url": tokens.write_jwks(keys)}
    with rota.Server(sasl="OAUTHBEARER", settings=settings) as server:
        assert server.issuer is None

        def admits() -> bool:
            with Connection((server.host, server.port), WITHIN_S) as connection:
                handshake(connection)
                return send(connection, bearing(tokens.token("ana")))[2] == b""

        assert admits()
        keys.write_text("secret", "utf-8")
        with pytest.raises(ValueError, match="it is not a JSON web key set"):
            server.reload()
        health = server.health()
        assert health is not None
        assert "keys.json` before is still used" in health.reload_errors[0]
        assert "secret" not in health.reload_errors[0]
        assert admits()
        tokens.rotate()
        server.reload()
        assert admits()
        tokens.rotate()
        eventually(admits, WITHIN_S, "the new key counts")


def test_keys_are_written_through_a_link_and_into_no_device(tmp_path: Path) -> None:
    keys, link, fifo = tmp_path / "keys.json", tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(keys)
    os.mkfifo(fifo)
    tokens = rota.TokenIssuer()
    tokens.write_jwks(link)
    tokens.rotate()
    assert link.is_symlink()
    assert keys.read_text("utf-8") == tokens.jwks
    with pytest.raises(ValueError, match="is no file: give a regular file"):
        tokens.write_jwks(fifo)
    assert fifo.is_fifo()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"url": "file:///nowhere/keys.json"}, "cannot read the file"),
        ({"url": "http://issuer.test/keys"}, "use https://"),
        ({"url": "keys.json"}, "give a URL"),
    ],
)
def test_a_url_that_cannot_be_is_refused_at_the_start(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        rota.Server(sasl="OAUTHBEARER", settings={"sasl.oauthbearer.jwks.endpoint.url": settings["url"]})


def test_settings_of_tokens_without_the_mechanism_are_refused(tmp_path: Path) -> None:
    url = rota.TokenIssuer().write_jwks(tmp_path / "keys.json")
    with pytest.raises(ValueError, match="is for tokens: give --sasl OAUTHBEARER"):
        rota.Server(settings={"sasl.oauthbearer.jwks.endpoint.url": url})
    with pytest.raises(ValueError, match="is for tokens: give --sasl OAUTHBEARER"):
        rota.Server(users={"ana": "secret"}, allow_unsecured_tokens=True)
    with pytest.raises(ValueError, match="sasl has no OAUTHBEARER"):
        rota.Server(sasl="PLAIN", users={"ana": "secret"}, tokens=rota.TokenIssuer())
    settings = {"sasl.oauthbearer.jwks.endpoint.url": url}
    with pytest.raises(ValueError, match=r"endpoint\.url` is set, too"):
        rota.Server(sasl="OAUTHBEARER", tokens=rota.TokenIssuer(), settings=settings)


def test_tokens_and_passwords_side_by_side() -> None:
    with rota.Server(sasl=["OAUTHBEARER", "PLAIN"], users={"ana": "ana-secret"}) as server:
        with Connection((server.host, server.port), WITHIN_S) as connection:
            assert handshake(connection) == (0, ["PLAIN", "OAUTHBEARER"])
        with Connection((server.host, server.port), WITHIN_S) as connection:
            assert lifetime(connection, server.token("ana")) > 0
            connection.send(frame(SASL_HANDSHAKE, 1, string("PLAIN")))
            assert Reader(connection.receive()[4:]).i16() == 0
            connection.send(frame(SASL_AUTHENTICATE, 1, blob(b"\0ana\0ana-secret")))
            assert is_closed(connection)


def test_acls_are_of_the_principal_in_the_token() -> None:
    acls = ["ALLOW User:ana * DESCRIBE CLUSTER LITERAL kafka-cluster"]
    settings = {"sasl.oauthbearer.sub.claim.name": "azp"}
    with rota.Server(sasl="OAUTHBEARER", acls=acls, settings=settings) as server:
        with Connection((server.host, server.port), WITHIN_S) as connection:
            assert lifetime(connection, server.token("other", claims={"azp": "ana"})) > 0
            assert lists_groups(connection) == 0
        assert server.denied_requests() == []


def test_tokens_are_in_no_output(tmp_path: Path) -> None:
    written = io.StringIO()
    data = tmp_path / "data"
    with rota.Server(sasl="OAUTHBEARER", trace=written, data=data, journal=True) as server:
        good, bad = server.token("ana"), server.token("ana", lifetime_s=-3_600)
        with Connection((server.host, server.port), WITHIN_S) as connection:
            assert lifetime(connection, good) > 0
            assert lists_groups(connection) == 0
        shown = [refused(server, bad), repr(server.issuer), repr(server), str(server.settings())]
    files = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
    everything = b"".join(files) + "".join([*shown, written.getvalue()]).encode()
    assert "ListGroups" in written.getvalue()
    assert len(files) > 1
    for token in (good, bad):
        for part in token.split(".")[1:]:
            assert part.encode() not in everything
