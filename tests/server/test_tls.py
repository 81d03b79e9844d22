"""TLS at the socket: handshakes that are wrong, slow or cut off, plaintext in the wrong place, and bytes in both
directions beyond what a socket takes at once."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rota
from harness.raw import API_VERSIONS, DESCRIBE_CONFIGS, ClosedError, Connection, Reader, frame, i16, i32, string
from rota.security import client_config
from tests.refusals import wait_for_refusal

WITHIN_S = 30
KEY_BYTES = "PRIVATE KEY"


@pytest.fixture(scope="module")
def server() -> Iterator[rota.Server]:
    with rota.Server(tls=True) as server:
        yield server
        assert server.panics == 0


def context_of(server: rota.Server) -> ssl.SSLContext:
    context = server.client_config("aiokafka")["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


def connected(server: rota.Server, context: ssl.SSLContext | None = None) -> Connection:
    """A raw connection after its TLS handshake."""
    connection = Connection((server.host, server.port), WITHIN_S)
    context = context or context_of(server)
    connection.socket = context.wrap_socket(connection.socket, server_hostname=server.host)
    return connection


def asks_versions(connection: Connection) -> bool:
    connection.send(frame(API_VERSIONS, 0))
    return Reader(connection.receive()[4:]).i16() == 0


def end_of(sock: socket.socket) -> bytes:
    """What comes until the server closes."""
    sock.settimeout(WITHIN_S)
    got = b""
    try:
        while data := sock.recv(4_096):
            got += data
    except ConnectionResetError:
        pass
    return got


def client_hello() -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


HELLO = client_hello()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_work_and_sessions_are_resumed(server: rota.Server, version: ssl.TLSVersion) -> None:
    context = context_of(server)
    context.minimum_version = context.maximum_version = version
    with connected(server, context) as connection:
        assert asks_versions(connection)
        assert isinstance(connection.socket, ssl.SSLSocket)
        session = connection.socket.session
    again = context.wrap_socket(
        socket.create_connection((server.host, server.port)), server_hostname=server.host, session=session
    )
    with again:
        assert again.session_reused


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_an_older_version_of_tls_is_refused(server: rota.Server) -> None:
    context = context_of(server)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connected(server, context)
    wait_for_refusal(server, "has no TLS version or cipher in common")


def test_more_than_a_socket_takes_goes_both_ways(server: rota.Server) -> None:
    count = 20_000
    with connected(server) as connection:
        # The answers fill the socket long before the client reads the first one.
        connection.socket.settimeout(WITHIN_S)
        sent = frame(API_VERSIONS, 0) * count
        writer = memoryview(sent)
        received = bytearray()
        answer = None
        connection.socket.setblocking(False)
        while answer is None or len(received) < len(answer) * count:
            if writer:
                try:
                    writer = writer[connection.socket.send(writer[:65_536]) :]
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    pass
                else:
                    continue
            connection.socket.setblocking(True)
            connection.socket.settimeout(WITHIN_S)
            received += connection.socket.recv(65_536)
            connection.socket.setblocking(False)
            if answer is None and len(received) >= 4:
                answer = received[: 4 + int.from_bytes(received[:4], "big")]
        assert received == answer * count


def test_a_client_that_closes_its_side_gets_the_rest_of_its_answers(server: rota.Server) -> None:
    with connected(server) as connection:
        connection.send(frame(API_VERSIONS, 0) * 10)
        assert isinstance(connection.socket, ssl.SSLSocket)
        raw = connection.socket
        # Only the TCP side: a client that ends without the closing message of TLS.
        socket.socket.shutdown(raw, socket.SHUT_WR)
        answers = [connection.receive() for _ in range(10)]
        assert len(set(answers)) == 1
        with pytest.raises((ClosedError, ssl.SSLError, ConnectionError)):
            connection.receive()


def test_plaintext_on_a_tls_listener_is_closed_with_an_alert_and_a_line(server: rota.Server) -> None:
    server.refused_connections()
    with rota.Server(tls=True) as own, Connection((own.host, own.port)) as connection:
        connection.send(frame(API_VERSIONS, 0))
        assert end_of(connection.socket)[:2] in (b"", b"\x15\x03")
        wait_for_refusal(own, "sent no TLS handshake to a TLS listener: set security.protocol=SSL")


def test_tls_on_a_plaintext_listener_is_closed_without_a_byte_and_with_a_line() -> None:
    with rota.Server() as own, Connection((own.host, own.port)) as connection:
        connection.send(HELLO)
        assert end_of(connection.socket) == b""
        wait_for_refusal(own, "sent a TLS handshake to a listener without TLS: set security.protocol=PLAINTEXT")


def test_a_client_in_a_loop_leaves_one_line() -> None:
    with rota.Server() as own:
        for _ in range(5):
            with Connection((own.host, own.port)) as connection:
                connection.send(HELLO)
                end_of(connection.socket)
        assert len(own.refused_connections()) == 1


def test_a_silent_client_counts_as_a_connection_until_its_time_is_over() -> None:
    with rota.Server(tls=True, settings={"max.connections": 1}) as own:
        with Connection((own.host, own.port), WITHIN_S) as slow:
            # Some bytes do not give it more time.
            slow.send(HELLO[:20])
            with Connection((own.host, own.port), WITHIN_S) as other:
                assert end_of(other.socket) == b""
            end_of(slow.socket)
        wait_for_refusal(own, "did not complete the TLS handshake within 10 s")
        with connected(own) as connection:
            assert asks_versions(connection)


@pytest.mark.parametrize("length", [0, 1, 4, 5, 6, 9, 43, len(HELLO) - 1])
def test_a_handshake_that_is_cut_off_is_forgotten(server: rota.Server, length: int) -> None:
    with Connection((server.host, server.port)) as connection:
        connection.send(HELLO[:length])
    with connected(server) as connection:
        assert asks_versions(connection)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, len(HELLO) - 1), st.integers(0, 255)), max_size=8),
    tail=st.binary(max_size=64),
)
@example(changes=[], tail=b"")
@example(changes=[(0, 23)], tail=b"")
@example(changes=[(3, 255), (4, 255)], tail=b"\0" * 64)
def test_any_bytes_instead_of_a_handshake_end_that_connection_only(
    server: rota.Server, changes: list[tuple[int, int]], tail: bytes
) -> None:
    hello = bytearray(HELLO)
    for at, value in changes:
        hello[at] = value
    with Connection((server.host, server.port)) as connection:
        connection.send(bytes(hello) + tail)
        connection.socket.shutdown(socket.SHUT_WR)
        end_of(connection.socket)
    assert server.panics == 0
    server.check_running()


def tls_of(tmp_path: Path, cert: str | bytes | None, key: str | bytes | None) -> rota.Tls:
    """Files with these contents; None: the file does not exist."""
    for name, content in (("cert.pem", cert), ("key.pem", key)):
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return rota.Tls(tmp_path / "cert.pem", tmp_path / "key.pem")


ISSUED = rota.Authority().issue("localhost")
JKS = b"\xfe\xed\xfe\xed\0\0\0\2"


@pytest.mark.parametrize(
    ("cert", "key", "names", "says"),
    [
        (None, ISSUED.key, "cert.pem", "cannot read"),
        (ISSUED.certificate, None, "key.pem", "cannot read"),
        ("", ISSUED.key, "cert.pem", "has no certificate"),
        (ISSUED.certificate, ISSUED.certificate, "key.pem", "has no private key"),
        (ISSUED.certificate, rota.Authority().issue("localhost").key, "key.pem", "does not belong to"),
        (JKS, ISSUED.key, "cert.pem", "keytool -importkeystore -srckeystore"),
        (b"\x30\x82\x01\x02", ISSUED.key, "cert.pem", "openssl pkcs12 -in"),
        (ISSUED.certificate, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "key.pem", "openssl pkey -in"),
        (ISSUED.certificate, "-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----\n", "key.pem", "not valid PEM"),
    ],
    ids=["no cert", "no key", "empty", "not a key", "other key", "JKS", "PKCS#12", "encrypted", "malformed"],
)
def test_a_wrong_file_is_named_with_what_is_wrong_and_what_to_do(
    tmp_path: Path, cert: str | bytes | None, key: str | bytes | None, names: str, says: str
) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        rota.Server(tls=tls_of(tmp_path, cert, key))
    assert str(tmp_path / names) in str(raised.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ssl.keystore.type": "JKS"}, "expected `PEM`: convert a Java keystore"),
        ({"ssl.client.auth": "maybe"}, "expected `none`, `requested` or `required`"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(rota.ConfigError, match=says):
        rota.Server(settings=given)


def test_kafkas_settings_start_tls_and_keep_the_key_to_themselves(tmp_path: Path) -> None:
    authority = rota.Authority()
    issued = authority.issue("localhost", "127.0.0.1")
    store, trusted = tmp_path / "server.pem", tmp_path / "ca.pem"
    store.write_text(issued.key + issued.certificate)
    trusted.write_text(authority.certificate)
    inline = {"ssl.keystore.certificate.chain": issued.certificate, "ssl.keystore.key": issued.key}
    files = {"ssl.keystore.location": str(store)}
    client_ca = {"ssl.truststore.location": str(trusted), "ssl.client.auth": "required"}
    client = authority.issue(name="ana")
    for store_settings in (inline, files):
        with rota.Server(settings=store_settings | client_ca) as own:
            config = client_config("aiokafka", own.bootstrap_servers, tls=True, ca=authority.certificate, client=client)
            assert own.has_tls
            with connected(own, config["ssl_context"]) as connection:
                # DescribeConfigs v1 of broker 1, all settings, with their synonyms.
                connection.send(frame(DESCRIBE_CONFIGS, 1, i32(1) + b"\4" + string("1") + i32(-1) + b"\1"))
                answer = connection.receive()
            assert b"ssl.keystore.key" in answer
            assert KEY_BYTES.encode() not in answer
            assert KEY_BYTES not in repr(own.settings())
            assert i16(0) in answer


def test_a_node_that_was_restarted_still_has_tls() -> None:
    with rota.Server(tls=True, nodes=2) as own:
        own.faults.stop_node(1)
        own.faults.start_node(1)
        with connected(own) as connection:
            assert asks_versions(connection)


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("librdkafka", {"bootstrap.servers", "security.protocol", "ssl.ca.pem"}),
        ("confluent-kafka", {"bootstrap.servers", "security.protocol", "ssl.ca.pem"}),
        ("kafka-python", {"bootstrap_servers", "security_protocol", "ssl_context"}),
        ("aiokafka", {"bootstrap_servers", "security_protocol", "ssl_context"}),
        ("java", {"bootstrap.servers", "security.protocol", "ssl.truststore.type", "ssl.truststore.certificates"}),
    ],
)
def test_each_family_has_its_own_names(server: rota.Server, family: str, names: set[str]) -> None:
    assert server.client_config(family).keys() == names
    with rota.Server() as plaintext:
        assert plaintext.client_config(family).keys() == {min(names)}


def test_an_unknown_family_is_refused_with_the_known_ones(server: rota.Server) -> None:
    with pytest.raises(ValueError, match='"librdkafka", "kafka-python", "aiokafka", "java", "confluent-kafka"'):
        server.client_config("ruby")


@pytest.mark.parametrize("wrong", ["server.pem", 1, Path("server.pem")])
def test_tls_is_true_or_settings(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"give True, or a rota\.Tls"):
        rota.Server(tls=wrong)


def test_the_certificate_names_what_clients_connect_to() -> None:
    with rota.Server(tls=True, advertise="kafka.example:9093") as own:
        assert own.unnamed_host() is None
    with rota.Server(tls=rota.Authority().tls("other.example"), advertise="kafka.example:9093") as own:
        assert own.unnamed_host() == "kafka.example"
    with rota.Server(advertise="kafka.example:9093") as own:
        assert own.unnamed_host() is None
