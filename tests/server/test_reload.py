"""Certificates, keys, client CAs and users are read again while the server runs."""

from __future__ import annotations

import json
import os
import ssl
import threading
import urllib.request
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from harness.raw import API_VERSIONS, METADATA, ClosedError, Connection, Reader, frame, i32
from rota._rota import user_lines
from rota.client_properties import ClientSecurity
from rota.conform.wire import Connection as SecureConnection
from rota.conform.wire import Limits, WireError
from rota.security import Certificate
from tests.clients.eventually import eventually
from tests.refusals import wait_for_refusal

WITHIN_S = 60


class Files:
    """The files of a server, with a certificate authority for them and for its clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = rota.Authority()
        self.cert, self.key = directory / "server.pem", directory / "server.key"
        self.ca, self.users = directory / "ca.pem", directory / "users"
        self.rotate()
        self.ca.write_text(self.authority.certificate)
        self.admit(ana="secret", bob="secret")

    def rotate(self) -> str:
        """A new certificate with its key; returns it."""
        issued = self.authority.issue("localhost", "127.0.0.1")
        self.cert.write_text(issued.certificate)
        self.key.write_text(issued.key)
        return issued.certificate

    def admit(self, **users: str) -> None:
        lines = [line for name, password in users.items() for line in user_lines(name, password)]
        self.users.write_text("".join(f"{line}\n" for line in lines))

    def tls(self, client_ca: Path | None = None) -> rota.Tls:
        return rota.Tls(self.cert, self.key, client_ca, ca=self.authority.certificate)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def server(files: Files) -> Iterator[rota.Server]:
    with rota.Server(tls=files.tls(), http=":0") as server:
        yield server
        assert server.panics == 0


def connected(
    server: rota.Server, context: ssl.SSLContext | None = None, session: ssl.SSLSession | None = None
) -> Connection:
    context = context or context_of(server)
    connection = Connection((server.host, server.port), WITHIN_S)
    connection.socket = context.wrap_socket(connection.socket, server_hostname=server.host, session=session)
    return connection


def context_of(server: rota.Server, client: Certificate | None = None) -> ssl.SSLContext:
    context = server.client_config("aiokafka", client)["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


def asks_versions(connection: Connection) -> bool:
    connection.send(frame(API_VERSIONS, 0))
    return Reader(connection.receive()[4:]).i16() == 0


def shown(server: rota.Server) -> bytes | None:
    """The certificate that a new connection gets."""
    with connected(server) as connection:
        assert isinstance(connection.socket, ssl.SSLSocket)
        return connection.socket.getpeercert(binary_form=True)


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem[: pem.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")])


def errors(server: rota.Server) -> list[str]:
    health = server.health()
    assert health is not None
    return list(health.reload_errors)


def test_a_new_certificate_is_for_new_connections_and_others_go_on(files: Files, server: rota.Server) -> None:
    before = shown(server)
    with connected(server) as old:
        assert asks_versions(old)
        after = der(files.rotate())
        server.reload()
        assert before != after
        assert shown(server) == after
        assert asks_versions(old)
    assert errors(server) == []


def test_a_change_is_noticed(files: Files, server: rota.Server) -> None:
    after = der(files.rotate())
    eventually(lambda: shown(server) == after, WITHIN_S, "the new certificate is used")


def test_the_files_of_kafkas_settings_are_read_again(files: Files, tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    store.write_text(files.key.read_text() + files.cert.read_text())
    settings = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(files.ca)}
    with rota.Server(settings=settings) as server:
        context = ssl.create_default_context(cadata=files.authority.certificate)
        after = der(files.rotate())
        store.write_text(files.key.read_text() + files.cert.read_text())
        server.reload()
        with connected(server, context) as connection:
            assert isinstance(connection.socket, ssl.SSLSocket)
            assert connection.socket.getpeercert(binary_form=True) == after


def test_a_file_that_takes_the_place_of_another_is_noticed(files: Files, server: rota.Server, tmp_path: Path) -> None:
    # As in Kubernetes: a link to a directory is replaced.
    issued = files.authority.issue("localhost", "127.0.0.1")
    for path, text in ((files.key, issued.key), (files.cert, issued.certificate)):
        new = tmp_path / f"new-{path.name}"
        new.write_text(text)
        os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        new.replace(path)
    eventually(lambda: shown(server) == der(issued.certificate), WITHIN_S, "the new certificate is used")


def told(server: rota.Server, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{server.http_address}{path}", timeout=WITHIN_S) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_a_wrong_file_keeps_the_certificate_and_shows_until_it_is_right(files: Files, server: rota.Server) -> None:
    before, key = shown(server), files.key.read_text()
    files.key.write_text("nonsense\n")
    eventually(lambda: errors(server), WITHIN_S, "the wrong file is noticed")
    [error] = errors(server)
    assert str(files.key) in error
    assert "is still used: " in error
    assert "nonsense" not in error
    for path in ("/healthz", "/readyz"):
        assert told(server, path)["reload_errors"] == [error]
    assert told(server, "/readyz")["status"] == "ready"
    assert shown(server) == before
    with pytest.raises(ValueError, match="is still used: "):
        server.reload()
    files.key.write_text(key)
    eventually(lambda: not errors(server), WITHIN_S, "the file is right again")
    assert told(server, "/healthz")["reload_errors"] == []
    assert shown(server) == before


@pytest.mark.parametrize("wrong", ["other key", "missing", "empty", "directory"])
def test_every_kind_of_wrong_file_keeps_the_certificate(files: Files, server: rota.Server, wrong: str) -> None:
    before = shown(server)
    if wrong == "other key":
        files.key.write_text(files.authority.issue("localhost").key)
    elif wrong == "empty":
        files.cert.write_text("")
    else:
        files.cert.unlink()
        if wrong == "directory":
            files.cert.mkdir()
    with pytest.raises(ValueError, match="is still used: "):
        server.reload()
    assert shown(server) == before


def test_clients_of_a_ca_that_is_no_longer_trusted_are_refused(files: Files) -> None:
    old, new = rota.Authority(), rota.Authority()
    files.ca.write_text(old.certificate)
    with rota.Server(tls=files.tls(files.ca)) as server:
        context = context_of(server, old.issue(name="ana"))
        with connected(server, context) as connection:
            assert asks_versions(connection)
            assert isinstance(connection.socket, ssl.SSLSocket)
            session = connection.socket.session
            with connected(server, context, session) as again:
                assert asks_versions(again)
                assert isinstance(again.socket, ssl.SSLSocket)
                assert again.socket.session_reused
            files.ca.write_text(new.certificate)
            server.reload()
            assert asks_versions(connection)
        with connected(server, context_of(server, new.issue(name="ana"))) as connection:
            assert asks_versions(connection)
        # Sessions of before are not resumed: they would not be verified again.
        with pytest.raises((OSError, ClosedError)), connected(server, context, session) as connection:
            asks_versions(connection)
        wait_for_refusal(server, "cannot be verified")


def secured(server: rota.Server, user: str, password: str) -> SecureConnection:
    security = ClientSecurity.of(server.client_config("java", user=user, password=password))
    limits = Limits(float("inf"), WITHIN_S)
    return SecureConnection((server.host, server.port), "c", limits, deque(), security=security)


def asks_metadata(connection: SecureConnection) -> bool:
    return bool(connection.ask("Metadata", 1, {"topics": None})["brokers"])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_users_come_and_go_and_their_connections_go_on(files: Files, mechanism: str) -> None:
    with rota.Server(tls=files.tls(), sasl=mechanism, users=files.users) as server:
        bob = secured(server, "bob", "secret")
        assert asks_metadata(bob)
        files.admit(ana="changed", cleo="secret")
        server.reload()
        assert asks_metadata(bob)
        for user, password in (("ana", "changed"), ("cleo", "secret")):
            connection = secured(server, user, password)
            assert asks_metadata(connection)
            connection.close()
        for user, password in (("ana", "secret"), ("bob", "secret")):
            with pytest.raises(WireError, match="no authentication"):
                secured(server, user, password)
        bob.close()


def test_a_wrong_users_file_keeps_the_users(files: Files) -> None:
    with rota.Server(users=files.users) as server:
        files.users.write_text("ana SCRAM-SHA-256 nonsense\n")
        with pytest.raises(ValueError, match="line 1: the credential is malformed"):
            server.reload()
        assert errors(server)[0].startswith(f"what was in `{files.users}` before is still used: users file")
        connection = secured(server, "ana", "secret")
        assert asks_metadata(connection)
        connection.close()
        files.admit(ana="changed")
        eventually(lambda: not errors(server), WITHIN_S, "the file is right again")
        with pytest.raises(WireError, match="no authentication"):
            secured(server, "ana", "secret")


def test_no_client_notices_that_files_are_read_again(files: Files, server: rota.Server) -> None:
    stop, failed, count = threading.Event(), list[Exception](), [0, 0]

    def connect(at: int) -> None:
        while not stop.is_set():
            try:
                with connected(server) as connection:
                    assert asks_versions(connection)
            except Exception as error:
                failed.append(error)
                return
            count[at] += 1

    threads = [threading.Thread(target=connect, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    with connected(server) as old:
        for _ in range(10):
            seen = sum(count)
            eventually(lambda seen=seen: sum(count) > seen + 5 or failed, WITHIN_S, "clients connect")  # type: ignore[misc]
            files.rotate()
            server.reload()
            old.send(frame(METADATA, 0, i32(0)))
            old.receive()
    stop.set()
    for thread in threads:
        thread.join(WITHIN_S)
    assert failed == []


def test_a_server_without_files_has_nothing_to_read_again() -> None:
    with rota.Server(tls=True, users={"ana": "secret"}) as server:
        assert (server.health(), server.reads_files) == (None, False)
        server.reload()


def test_a_test_replaces_the_certificate_and_the_users() -> None:
    authority, other = rota.Authority(), rota.Authority()
    with rota.Server(tls=authority.tls(), sasl="PLAIN", users={"ana": "secret"}, http="https://:0") as server:

        def connects(config: dict[str, Any]) -> bool:
            limits, security = Limits(float("inf"), WITHIN_S), ClientSecurity.of(config)
            try:
                SecureConnection((server.host, server.port), "c", limits, deque(), security=security).close()
            except WireError:
                return False
            return True

        first = server.client_config("java")
        assert connects(first)
        server.set_tls(other.tls())
        assert not connects(first), "the client does not know the new CA"
        assert connects(server.client_config("java"))
        context = ssl.create_default_context(cadata=other.certificate)
        with urllib.request.urlopen(f"{server.http_address}/healthz", timeout=WITHIN_S, context=context) as answer:
            assert answer.status == 200
        server.set_users({"bob": "another"})
        assert not connects(server.client_config("java", user="ana", password="secret"))  # noqa: S106 - of a test
        assert connects(server.client_config("java"))
        with pytest.raises(ValueError, match="has no"):
            server.set_tls(rota.Tls("-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----"))
        assert connects(server.client_config("java"))


def test_what_is_not_there_cannot_be_replaced(files: Files) -> None:
    with rota.Server() as server:
        with pytest.raises(ValueError, match="no certificate to replace"):
            server.set_tls(rota.Authority().tls())
        with pytest.raises(ValueError, match="no users in memory"):
            server.set_users({"ana": "x"})
    with rota.Server(users=files.users) as server, pytest.raises(ValueError, match="change the users file"):
        server.set_users({"ana": "x"})
