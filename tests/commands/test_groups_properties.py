"""Kafka's properties files, and a server behind TLS."""

from __future__ import annotations

import contextlib
import gc
import shutil
import socket
import ssl
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

import rota
from rota import exits
from rota.groups import properties
from rota.groups.errors import GroupsError

from .groups_scene import rota_groups

KNOWN = KafkaAdminClient.DEFAULT_CONFIG
JOINED_WITHIN_S = 10.0


def test_a_file_of_kafkas_clients_is_read(tmp_path: Path) -> None:
    file, ca = tmp_path / "client.properties", tmp_path / "ca.pem"
    ca.touch()
    file.write_text(
        "# a comment\n! another\n\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism : SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="ana" password="p=w\\u0064;";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={ca}\n"
        "ssl.endpoint.identification.algorithm=\n"
        "request.timeout.ms 1500\n"
        "group.id=whatever\n"
    )
    assert properties.read_config(file, KNOWN) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ana",
        "sasl_plain_password": "p=wd;",
        "ssl_cafile": str(ca),
        "ssl_check_hostname": False,
        "request_timeout_ms": 1500,
    }


@pytest.mark.parametrize("quoted", ["'p \"w;'", '"p \\"w;"', "'p \\\"w;'"])
def test_a_password_is_in_quotation_marks_of_either_kind(quoted: str) -> None:
    login = f"PlainLoginModule required username='ana' password={quoted};"
    assert properties.setting("", "sasl.jaas.config", login, KNOWN) == {
        "sasl_plain_username": "ana",
        "sasl_plain_password": 'p "w;',
    }


def test_what_is_for_the_java_clients_only_has_no_effect_and_sizes_of_buffers_are_numbers() -> None:
    assert properties.setting("", "metric.reporters", "org.example.Reporter", KNOWN) == {}
    assert properties.setting("", "receive.buffer.bytes", "65536", KNOWN) == {"receive_buffer_bytes": 65536}


@pytest.mark.parametrize("error", [AssertionError, TypeError, ValueError])
def test_settings_that_the_library_refuses_are_a_wrong_call(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_settings: object) -> None:
        raise error("a reason")

    monkeypatch.setattr("rota.groups.reaching.KafkaAdminClient", refuse)
    ended = rota_groups("list", "--bootstrap-server", "127.0.0.1:1")
    says = "rota: the client library refuses the properties: a reason\n"
    assert (ended.code, ended.out, ended.err) == (exits.MISUSED, "", says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sasl.mechanisms=PLAIN", "no setting `sasl.mechanisms`: did you mean `sasl.mechanism`?"),
        ("security.protocol=SASLSSL", "security.protocol is `SASLSSL`: give one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("security_protocol=TLS", "security.protocol is `TLS`: give one of"),
        ("ssl.truststore.location=nope.pem", "ssl.truststore.location is `nope.pem`: No such file or directory"),
        ("request.timeout.ms=soon", "request.timeout.ms is `soon`: give a whole number"),
        ("ssl.check.hostname=perhaps", "ssl.check.hostname is `perhaps`: give true or false"),
        ("ssl.truststore.type=JKS", "ssl.truststore.type is `JKS`: only PEM files can be read"),
        ("ssl.keystore.location=/etc/client.jks", "`/etc/client.jks` is no PEM file"),
        ("api.version=abc", "api.version is no text for the client library: leave it out"),
        ("kafka.client=foo", "kafka.client is no text for the client library: leave it out"),
        ("socket.options=x", "socket.options is no text for the client library: leave it out"),
        ("ssl.context=x", "ssl.context is no text for the client library: leave it out"),
        ("send.buffer.bytes=large", "send.buffer.bytes is `large`: give a whole number"),
        ("sasl.jaas.config=Krb5LoginModule required;", "sasl.jaas.config has no username and password"),
    ],
)
def test_a_line_that_cannot_be_is_named_by_its_number(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# first\n{line}\n")
    with pytest.raises(GroupsError) as raised:
        properties.read_config(file, KNOWN)
    assert str(raised.value).startswith(f"{file}:2: ")
    assert says in str(raised.value)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 with its key, in one file."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "this test makes its certificate with openssl"
    file, key = tmp_path / "server.pem", tmp_path / "server.key"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, "-keyout", key, "-out", file)
    subprocess.run([openssl, *request], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


@contextmanager
def behind_tls(listener: socket.socket, certificate: Path, port: int) -> Iterator[None]:
    """What comes to the listener by TLS goes to a port of this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def begin(work: Callable[..., None], *arguments: socket.socket) -> None:
        threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        threads[-1].start()

    def shut(end: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is shut already
            end.shutdown(socket.SHUT_RDWR)

    def carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        shut(sink)  # which ends the other direction, too

    def accept() -> None:
        while True:
            try:
                plain = listener.accept()[0]
            except OSError:
                return
            try:
                client = context.wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                continue
            server = socket.create_connection(("127.0.0.1", port))
            opened.extend((client, server))
            begin(carry, client, server)
            begin(carry, server, client)

    begin(accept)
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        threads[0].join(JOINED_WITHIN_S)
        for end in opened:
            shut(end)
        for thread in threads:
            thread.join(JOINED_WITHIN_S)
        for end in opened:
            end.close()


def test_a_server_behind_tls_is_reached_with_its_certificate_only(certificate: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        with rota.Server(advertise=where) as server, behind_tls(listener, certificate, server.port):
            file = tmp_path / "client.properties"
            file.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificate}\n")
            reached = rota_groups("list", "--bootstrap-server", where, "--command-config", file, "--json")
            assert (reached.code, reached.out) == (0, "[]\n"), reached.err
            tls = ("--command-property", "security.protocol=SSL", "--timeout", "1000")
            assert rota_groups("list", "--bootstrap-server", where, *tls).code == 5
            with warnings.catch_warnings():
                # kafka-python leaves the socket of a failed handshake to the collector; no other test shall meet it.
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
