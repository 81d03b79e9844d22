"""`--http` and `--control` with TLS, tokens and client certificates: who is admitted, and how others are refused."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rota
from rota import control
from rota.cli import app
from rota.http import listen, listener
from rota.http.tls import Files
from rota.security import Certificate

from .asking import SETTINGS, WITHIN_S, until

TOKEN, OTHER = "of the readers", "of the controls"
EVERYWHERE = "0.0.0.0:0"


@pytest.fixture(scope="module")
def authority() -> rota.Authority:
    return rota.Authority()


@pytest.fixture(scope="module")
def server(authority: rota.Authority) -> Iterator[rota.Server]:
    """A server that asks its clients for certificates, and shows itself to those with one or with a token."""
    tls = authority.tls(client_auth="required")
    with rota.Server(settings=SETTINGS, tls=tls, http="https://:0", http_token=TOKEN) as server:
        yield server


def context_of(authority: rota.Authority, client: Certificate | None = None, tmp_path: Path | None = None) -> Any:
    context = ssl.create_default_context(cadata=authority.certificate)
    if client is not None and tmp_path is not None:
        (tmp_path / "client.pem").write_text(client.certificate + client.key)
        context.load_cert_chain(tmp_path / "client.pem")
    return context


def ask(address: str | None, path: str, context: ssl.SSLContext | None, **headers: str) -> tuple[int, Any, Any]:
    """Status, headers and JSON of an answer."""
    where = str(address).removeprefix("https://")
    connection = (
        HTTPConnection(where, timeout=WITHIN_S)
        if context is None
        else HTTPSConnection(where, timeout=WITHIN_S, context=context)
    )
    with closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.msg, json.loads(answer.read())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_or_a_certificate_is_enough(server: rota.Server, authority: rota.Authority, tmp_path: Path) -> None:
    known = context_of(authority, authority.issue(name="ana"), tmp_path)
    unknown = context_of(authority)
    assert str(server.http_address).startswith("https://127.0.0.1:")
    assert ask(server.http_address, "/groups", known)[0] == 200
    assert ask(server.http_address, "/groups", unknown, **bearer(TOKEN))[0] == 200
    as_password = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
    assert ask(server.http_address, "/groups", unknown, Authorization=f"Basic {as_password}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("of the reader"),
        bearer(""),
        {"Authorization": "Basic !"},
        {"Authorization": "Basic \u00e9"},
        {"Authorization": f"Digest {TOKEN}"},
    ],
)
def test_others_are_told_what_to_do(server: rota.Server, authority: rota.Authority, headers: dict[str, str]) -> None:
    for path in ("/groups", "/metrics", "/", "/nothing", "/groups/orders"):
        status, said, told = ask(server.http_address, path, context_of(authority), **headers)
        assert (status, told["error"]) == (401, "Unauthorized"), path
        assert told["message"] == (
            "send the header `Authorization: Bearer TOKEN` with the token of the server, or connect with a client "
            "certificate of one of its --tls-client-ca"
        )
        assert said["WWW-Authenticate"] == 'Basic realm="rota"'


def test_a_probe_without_a_token_gets_the_status_and_nothing_else(
    server: rota.Server, authority: rota.Authority
) -> None:
    assert ask(server.http_address, "/healthz", context_of(authority))[::2] == (200, {"status": "ok"})
    assert ask(server.http_address, "/readyz", context_of(authority))[::2] == (200, {"status": "ready"})
    assert set(ask(server.http_address, "/readyz", context_of(authority), **bearer(TOKEN))[2]) > {"status"}


def test_a_certificate_of_another_authority_is_refused(
    server: rota.Server, authority: rota.Authority, tmp_path: Path
) -> None:
    for client in (rota.Authority().issue(name="eve"), authority.issue(name="ana", expired=True)):
        with pytest.raises(OSError):  # noqa: PT011 - the alert, or a closed connection
            ask(server.http_address, "/groups", context_of(authority, client, tmp_path), **bearer(TOKEN))


def test_http_at_an_address_with_tls_is_answered_with_what_to_do(server: rota.Server) -> None:
    status, _, told = ask(server.http_address, "/groups", None)
    assert (status, told) == (400, {"error": "NeedsTls", "message": "this address has TLS: ask for https://"})


def test_silent_and_broken_handshakes_end_and_give_back_their_places(
    server: rota.Server, authority: rota.Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
    host, _, port = str(server.http_address).removeprefix("https://").rpartition(":")
    before = threading.active_count()
    hello = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"
    for sent in (b"", hello, hello[:7], b"\x16" * 4_000, b"\x15\x03\x03\x00\x02\x02\x00"):
        with socket.create_connection((host, int(port)), timeout=WITHIN_S) as client:
            client.sendall(sent)
            try:
                while client.recv(4_096):
                    pass
            except ConnectionResetError:
                pass
    until(lambda: threading.active_count() == before, "the threads end with their connections")
    assert ask(server.http_address, "/groups", context_of(authority), **bearer(TOKEN))[0] == 200


def test_handshakes_count_as_connections(authority: rota.Authority) -> None:
    with rota.Server(tls=authority.tls(), http="https://:0") as server:
        host, _, port = str(server.http_address).removeprefix("https://").rpartition(":")
        before = threading.active_count()
        silent = [
            socket.create_connection((host, int(port)), timeout=WITHIN_S) for _ in range(listener.CONNECTIONS_MAX)
        ]
        until(lambda: threading.active_count() == before + len(silent), "a thread for each connection")
        with socket.create_connection((host, int(port)), timeout=WITHIN_S) as one_more:
            assert one_more.recv(1) == b""
        for client in silent:
            client.close()
        until(lambda: threading.active_count() == before, "the threads end with their connections")
        assert ask(server.http_address, "/groups", context_of(authority))[0] == 200


def test_the_certificate_is_read_again_with_that_of_the_listeners(authority: rota.Authority, tmp_path: Path) -> None:
    store = tmp_path / "server.pem"

    def write(hosts: list[str]) -> None:
        issued = authority.issue(*hosts)
        store.write_text(issued.certificate + issued.key)

    write(["127.0.0.1"])
    context = context_of(authority)
    with rota.Server(settings={"ssl.keystore.location": str(store)}, http="https://:0") as server:
        assert ask(server.http_address, "/groups", context)[0] == 200
        write(["elsewhere.test"])
        server.reload()
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            ask(server.http_address, "/groups", context)
        store.write_text("no certificate")
        with pytest.raises(ValueError, match="has no"):
            server.reload()
        write(["127.0.0.1"])
        server.reload()
        assert ask(server.http_address, "/groups", context)[0] == 200
        health = server.health()
        assert health is not None
        assert list(health.reload_errors) == []


def test_other_machines_are_admitted_only_if_that_was_asked_for(authority: rota.Authority) -> None:
    with pytest.raises(ValueError, match="can be reached from other machines: give an HTTP token"):
        rota.Server(http=EVERYWHERE)
    with pytest.raises(ValueError, match="can be reached from other machines"):
        rota.Server(http=f"https://{EVERYWHERE}", tls=authority.tls())
    with pytest.raises(ValueError, match="which needs a certificate: give --tls-cert"):
        rota.Server(http=f"https://{EVERYWHERE}", http_token=TOKEN)
    with pytest.raises(ValueError, match="the HTTP token has to be printable ASCII"):
        rota.Server(http=EVERYWHERE, http_token="a\n")  # noqa: S106 - of a test
    for admitted in ({"http_token": TOKEN}, {"allow_anonymous_http": True}):
        rota.Server(http=EVERYWHERE, **admitted).stop()
    rota.Server(http=f"https://{EVERYWHERE}", tls=authority.tls(client_auth="requested")).stop()


def test_a_wrong_certificate_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    store = tmp_path / "server.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ValueError, match="is a Java keystore, expected PEM; convert it: keytool"):
        listen("https://:0", files=Files(str(store), str(store), None, "none"))


def test_controls_have_the_certificate_and_the_token(
    server: rota.Server, authority: rota.Authority, tmp_path: Path
) -> None:
    with closing(control.serve(server, f"https://{EVERYWHERE}", OTHER)) as listening:
        port = listening.address.rpartition(":")[2]
        address = f"https://127.0.0.1:{port}"
        trusting = server.client_config("java")
        assert control.Client(address, OTHER, security=trusting).clock()["now_ms"] is None
        known = server.client_config("java", authority.issue(name="ana"))
        assert control.Client(address, security=known).clock()["now_ms"] is None
        (tmp_path / "ca.pem").write_text(authority.certificate)
        (tmp_path / "client.properties").write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n"
        )
        assert control.Client(address, OTHER, security=tmp_path / "client.properties").clock()["now_ms"] is None
        for wrong, name in (
            (control.Client(address, security=trusting), "Unauthorized"),
            # A browser may not send it by itself.
            (control.Client(address, TOKEN, security=trusting), "Unauthorized"),
            (control.Client(address, OTHER), "NotTrusted"),
            (control.Client(f"127.0.0.1:{port}", OTHER), "NeedsTls"),
        ):
            with pytest.raises(control.ControlError) as refused:
                wrong.clock()
            assert refused.value.name == name, str(refused.value)


def test_a_body_of_a_client_that_is_not_admitted_is_not_read(server: rota.Server) -> None:
    with closing(control.serve(server, "127.0.0.1:0", OTHER)) as listening:
        host, _, port = listening.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=WITHIN_S) as client:
            client.sendall(b"POST /control/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n")
            assert client.makefile("rb").readline() == b"HTTP/1.1 401 Unauthorized\r\n"


@pytest.mark.parametrize("words", [["why", "orders"], ["top", "--count", "1"]])
def test_commands_take_the_token_and_the_properties_of_a_client(
    server: rota.Server, authority: rota.Authority, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "ca.pem").write_text(authority.certificate)
    issued = authority.issue(name="ana")
    (tmp_path / "ana.pem").write_text(issued.certificate + issued.key)
    ca = f"security.protocol=SASL_PLAINTEXT\nssl.truststore.location={tmp_path / 'ca.pem'}\n"
    sasl = "sasl.mechanism=PLAIN\nsasl.jaas.config=x required username=ana password=b;\n"
    (tmp_path / "ca.properties").write_text(ca + sasl)
    (tmp_path / "ana.properties").write_text(ca + sasl + f"ssl.keystore.location={tmp_path / 'ana.pem'}\n")
    (tmp_path / "wrong.properties").write_text(f"ssl.truststore.location={tmp_path / 'none.pem'}\n")
    address = str(server.http_address)

    def ended(http: str, *more: str, **variables: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*words, "--http", http, *more], env=variables)
        return result.exit_code, result.stderr

    def with_file(name: str) -> list[str]:
        return ["--command-config", str(tmp_path / f"{name}.properties")]

    # The group does not exist: the server answers.
    answered = 3 if "why" in words else 0
    assert ended(address, *with_file("ca"), "--http-token", TOKEN)[0] == answered
    assert ended(address, *with_file("ca"), ROTA_HTTP_TOKEN=TOKEN)[0] == answered
    assert ended(address, *with_file("ana"))[0] == answered
    code, said = ended(address, "--http-token", TOKEN)
    assert code == 5
    assert said.startswith(f"rota: the certificate of {address} is refused: ")
    assert said.endswith("; give its CA (ssl.truststore.location), and a host that it names\n")
    code, said = ended(address.removeprefix("https://"), "--http-token", TOKEN)
    assert (code, said) == (2, f"rota: {address.removeprefix('https://')} has TLS: give {address}\n")
    code, said = ended(address, *with_file("ca"))
    assert (code, said.partition(": give")[0]) == (2, f"rota: {address} requires a token")
    code, said = ended(address, *with_file("wrong"))
    assert (code, "none.pem" in said) == (2, True)


def test_commands_say_if_an_address_has_no_tls() -> None:
    with rota.Server(http=":0") as server:
        address = f"https://{server.http_address}"
        result = CliRunner().invoke(app, ["why", "orders", "--http", address])
    assert (result.exit_code, result.stderr) == (
        5,
        f"rota: {address} does not speak TLS: give the address without https://\n",
    )
