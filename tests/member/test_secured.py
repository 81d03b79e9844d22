"""`rota.aio` over TLS and with SASL, by the properties of a Kafka client."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.aio import GroupMember, Roster
from rota.client_properties import ClientSecurity
from rota.member import Failed, MemberError
from rota.sasl import AuthenticationError, authentication
from rota.security import Login

WITHIN_S = 60.0
LISTENERS: dict[str, str | int | bool] = {
    "listeners": "PLAIN://127.0.0.1:0,TLS://127.0.0.1:0,BOTH://127.0.0.1:0,PASS://127.0.0.1:0",
    "listener.security.protocol.map": "PLAIN:PLAINTEXT,TLS:SSL,BOTH:SASL_SSL,PASS:SASL_PLAINTEXT",
    "group.initial.rebalance.delay.ms": 0,
}
USERS = {"ana": "secret", "b,=b": "pass=word,"}


async def assigned(member: GroupMember) -> list[Any]:
    """The partitions of the first change."""
    async for change in member.assignments():
        return change.all
    return []


async def until(look: Callable[[], bool], member: GroupMember) -> None:
    """Waits for a condition, while the member runs."""
    reading = asyncio.ensure_future(assigned(member))
    try:
        async with asyncio.timeout(WITHIN_S):
            while not look():
                await asyncio.sleep(0.02)
    finally:
        reading.cancel()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", list(USERS))
def test_members_on_all_listeners_share_a_group(mechanism: str, user: str, tmp_path: Path) -> None:
    async def joined(server: rota.Server, listener: str) -> list[Any]:
        config = server.client_config("java", listener=listener, user=user if listener in ("BOTH", "PASS") else None)
        security: Any = config
        if listener == "BOTH":
            security = tmp_path / "client.properties"
            lines = [f"{name}={value}".replace("\n", "\\n") for name, value in config.items()]
            security.write_text("\n".join(lines))
        async with GroupMember(config["bootstrap.servers"], f"g-{listener}", ["orders"], security=security) as member:
            async with asyncio.timeout(WITHIN_S):
                partitions = await assigned(member)
            await member.commit({("orders", 0): 7})
            return partitions

    with rota.Server(settings=LISTENERS, tls=True, sasl=mechanism, users=USERS) as server:
        server.create_topic("orders", partitions=2)
        for listener in server.listeners():
            assert asyncio.run(joined(server, listener)) == [("orders", 0), ("orders", 1)]
        assert server.refused_connections() == []


def test_a_roster_takes_them_too() -> None:
    async def led(server: rota.Server) -> list[int]:
        config = server.client_config("java")
        async with Roster(server.bootstrap_servers, "leaders", 1, security=config) as roster:
            async with asyncio.timeout(WITHIN_S):
                async for shift in roster.shifts():
                    return list(shift.shards)
        return []

    with rota.Server(tls=True, users=USERS, settings={"group.initial.rebalance.delay.ms": 0}) as server:
        assert asyncio.run(led(server)) == [0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sasl.jaas.config": 'x required username="ana" password="no";'}, "Authentication failed"),
        ({"ssl.truststore.certificates": rota.Authority().certificate}, "certificate verify failed"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "the broker refuses SCRAM-SHA-256 (error 33); it has SCRAM-SHA-512"),
        ({"security.protocol": "PLAINTEXT"}, "the broker wants TLS: give security"),
    ],
)
def test_a_connection_that_is_refused_says_why(change: dict[str, str], says: str) -> None:
    async def tried(server: rota.Server) -> str:
        config = server.client_config("java") | change
        member = GroupMember(server.bootstrap_servers, "g", ["orders"], security=config, close_timeout_ms=100)
        async with member:
            await until(lambda: says in member.last_loss, member)
        return member.last_loss

    with rota.Server(tls=True, sasl="SCRAM-SHA-512", users=USERS) as server:
        assert says in asyncio.run(tried(server))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sasl.jaas.config": 'x required username="ana" password="no";'}, "Authentication failed"),
        ({"ssl.truststore.certificates": rota.Authority().certificate}, "certificate verify failed"),
    ],
)
def test_a_member_that_is_refused_raises_it_each_time_it_is_waited_for(change: dict[str, str], says: str) -> None:
    async def tried(server: rota.Server) -> None:
        config = server.client_config("java") | change
        async with GroupMember(
            server.bootstrap_servers, "g", ["orders"], security=config, close_timeout_ms=100
        ) as member:
            for _ in range(2):
                with pytest.raises(rota.MemberError, match=says) as refused:
                    async with asyncio.timeout(WITHIN_S):
                        await assigned(member)
                assert refused.value.kind == "Authentication"
                assert "no address" not in str(refused.value)

    with rota.Server(tls=True, sasl="SCRAM-SHA-512", users=USERS) as server:
        asyncio.run(tried(server))


@pytest.mark.parametrize(
    ("certificate", "says"),
    [
        (None, "ALERT_.*CERTIFICATE.*: give the client's certificate, ssl.keystore.location"),
        (rota.Authority().issue(name="ana"), "ALERT_.*(CERTIFICATE|UNKNOWN_CA|DECRYPT_ERROR)"),
    ],
    ids=["none", "of another CA"],
)
def test_a_member_whose_certificate_is_refused_raises_it(certificate: rota.Certificate | None, says: str) -> None:
    async def tried(server: rota.Server) -> None:
        config = server.client_config("java", certificate)
        async with GroupMember(
            server.bootstrap_servers, "g", ["orders"], security=config, close_timeout_ms=100
        ) as member:
            with pytest.raises(rota.MemberError, match=says) as refused:
                async with asyncio.timeout(WITHIN_S):
                    await assigned(member)
            assert refused.value.kind == "Authentication"

    with rota.Server(tls=rota.Authority().tls(client_auth="required")) as server:
        asyncio.run(tried(server))


@contextlib.contextmanager
def shaking_hands(context: ssl.SSLContext) -> Iterator[int]:
    """A port whose connections have a handshake and nothing else. asyncio would not send the alert."""

    class Shaking(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError), context.wrap_socket(self.request, server_side=True) as connection:
                connection.recv(1)

    with socketserver.TCPServer(("127.0.0.1", 0), Shaking) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (
            ssl.TLSVersion.TLSv1_2,
            "ALERT_HANDSHAKE_FAILURE.*: if the broker wants a client's certificate, give ssl.keystore",
        ),
        (ssl.TLSVersion.TLSv1_3, "ALERT_.*CERTIFICATE.*: give the client's certificate, ssl.keystore.location"),
    ],
    ids=["TLS 1.2", "TLS 1.3"],
)
def test_a_member_without_a_certificate_is_refused_by_openssl(
    version: ssl.TLSVersion, says: str, tmp_path: Path
) -> None:
    authority = rota.Authority()
    issued = authority.issue("127.0.0.1")
    (tmp_path / "broker.pem").write_text(issued.key + issued.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(tmp_path / "broker.pem")
    context.load_verify_locations(cadata=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED

    async def tried(port: int) -> None:
        security = {"security.protocol": "SSL", "ssl.truststore.certificates": authority.certificate}
        member = GroupMember(f"127.0.0.1:{port}", "g", ["orders"], security=security, close_timeout_ms=100)
        async with member:
            with pytest.raises(rota.MemberError, match=says) as refused:
                async with asyncio.timeout(WITHIN_S):
                    await assigned(member)
            assert refused.value.kind == "Authentication"

    with shaking_hands(context) as port:
        asyncio.run(tried(port))


def test_a_certificate_that_is_missing_is_an_error_at_once(tmp_path: Path) -> None:
    authority = rota.Authority()
    issued = authority.issue(name="ana")
    store = tmp_path / "ana.pem"
    properties = {"security.protocol": "SSL", "ssl.keystore.location": str(store)}
    missing = re.escape(f"ssl.keystore.location is `{store}`: No such file")
    with pytest.raises(ValueError, match=missing):
        GroupMember("127.0.0.1:1", "g", ["orders"], security=properties)
    store.write_text(issued.key + issued.certificate)
    read = ClientSecurity.of(properties)
    GroupMember("127.0.0.1:1", "g", ["orders"], security=read)
    store.unlink()
    with pytest.raises(ValueError, match=missing):
        GroupMember("127.0.0.1:1", "g", ["orders"], security=read)
    alone = {"security.protocol": "SSL", "ssl.keystore.key": issued.key}
    with pytest.raises(ValueError, match=r"security: ssl.keystore.key is given, and no certificate: give ssl.keystore"):
        GroupMember("127.0.0.1:1", "g", ["orders"], security=alone)
    for unused in ({"security.protocol": "PLAINTEXT"}, {"ssl.keystore.key": ""}):
        GroupMember("127.0.0.1:1", "g", ["orders"], security=alone | unused)


def test_a_member_that_was_refused_joins_once_its_user_is_admitted() -> None:
    async def joined(server: rota.Server) -> list[Any]:
        config = server.client_config("java", user="eve", password="later")  # noqa: S106
        async with GroupMember(server.bootstrap_servers, "g", ["orders"], security=config) as member:
            with pytest.raises(rota.MemberError, match="Authentication failed"):
                await assigned(member)
            server.set_users({"eve": "later"})
            while True:
                # One refusal may have come before the user did.
                with contextlib.suppress(rota.MemberError):
                    async with asyncio.timeout(WITHIN_S):
                        return await assigned(member)

    with rota.Server(sasl="SCRAM-SHA-512", users=USERS, settings={"group.initial.rebalance.delay.ms": 0}) as server:
        server.create_topic("orders", partitions=2)
        assert asyncio.run(joined(server)) == [("orders", 0), ("orders", 1)]


def test_refusals_that_are_not_waited_for_do_not_add_up() -> None:
    async def noticed() -> list[str]:
        member = GroupMember("127.0.0.1:1", "g", ["orders"])
        for why in ("first", "second"):
            member._hear(Failed(MemberError("Authentication", None, why)))
        noticed = [member._news.get_nowait() for _ in range(member._news.qsize())]
        return [str(notice.error) for notice in noticed if isinstance(notice, Failed)]

    assert asyncio.run(noticed()) == ["first"]


def test_what_cannot_be_is_refused_at_once(tmp_path: Path) -> None:
    def made(security: Any) -> GroupMember:
        return GroupMember("127.0.0.1:9092", "g", ["orders"], security=security)

    with pytest.raises(TypeError, match="security is 5: give properties"):
        made(5)
    with pytest.raises(ValueError, match=r"security: security\.protocol is `TLS`"):
        made({"security.protocol": "TLS"})
    with pytest.raises(ValueError, match="No such file"):
        made(tmp_path / "missing")


def test_a_broker_that_does_not_know_the_password_is_not_trusted() -> None:
    def answered(body: bytes, correlation_id: int) -> bytes:
        return correlation_id.to_bytes(4, "big") + body

    frames = authentication(Login("SCRAM-SHA-256", "ana", "secret"), "c")
    next(frames)
    first = frames.send(answered(b"\0\0\0\0\0\0", 1))
    nonce = first.rpartition(b"r=")[2].decode()

    def authenticate(message: bytes, correlation_id: int) -> bytes:
        return answered(b"\0\0\xff\xff" + len(message).to_bytes(4, "big") + message + b"\0" * 8, correlation_id)

    frames.send(authenticate(f"r={nonce}x,s=c2FsdA==,i=4096".encode(), 2))
    with pytest.raises(AuthenticationError, match="does not know the user's password"):
        frames.send(authenticate(b"v=AAAA", 3))


@pytest.mark.parametrize(
    "message", [b"", b"r=x", b"r=other,s=c2FsdA==,i=4096", b"r={},s=c2FsdA==,i=99999999", b"r={},s=!,i=1", b"\xff"]
)
def test_an_answer_that_is_no_scram_is_an_error(message: bytes) -> None:
    frames = authentication(Login("SCRAM-SHA-512", "ana", "secret"), "c")
    next(frames)
    nonce = frames.send(b"\0\0\0\1\0\0\0\0\0\0").rpartition(b"r=")[2]
    message = message.replace(b"{}", nonce)
    with pytest.raises(AuthenticationError):
        frames.send(b"\0\0\0\2\0\0\xff\xff" + len(message).to_bytes(4, "big") + message + b"\0" * 8)
