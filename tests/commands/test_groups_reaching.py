"""A broker that `rota groups` cannot ask is named with one cause, found at the first try."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import errors
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.groups.reaching import Bootstrapping, cause

from .groups_scene import Ended, rota_groups

NEVER_MS = 3_600_000
"""A timeout beyond that of the test: what ends before it was not tried again and again."""
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def guarded() -> Iterator[rota.Server]:
    """A server that wants passwords."""
    with rota.Server(sasl="PLAIN", users={"ana": "correct"}) as server:
        yield server


@pytest.fixture(scope="module")
def authority() -> rota.Authority:
    return rota.Authority()


@pytest.fixture(scope="module")
def encrypted(authority: rota.Authority) -> Iterator[rota.Server]:
    """A server that wants TLS."""
    with rota.Server(tls=authority.tls()) as server:
        yield server


def listed(where: str, tmp_path: Path, **properties: str) -> Ended:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()))
    return rota_groups("list", "--bootstrap-server", where, "--command-config", file, "--timeout-ms", NEVER_MS)


def login(password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    jaas = f'{LOGIN} username="ana" password="{password}";'
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_jaas_config": jaas}


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_port_that_is_closed_is_named_at_once_by_every_command_that_asks_a_broker(tmp_path: Path) -> None:
    where = closed_port()
    says = f"rota: {where} refuses connections: no broker listens there\n"
    ended = listed(where, tmp_path)
    assert (ended.code, ended.out, ended.err) == (5, "", says)
    why = CliRunner().invoke(app, ["why", "g", "--bootstrap-server", where, "--timeout-ms", str(NEVER_MS), "--json"])
    assert (why.exit_code, why.stderr, json.loads(why.stdout)["error"]) == (5, says, "ServerDown")


def test_of_several_servers_one_that_answers_is_enough(server: rota.Server, tmp_path: Path) -> None:
    assert listed(f"{closed_port()},{server.bootstrap_servers}", tmp_path).code == 0
    ended = listed("127.0.0.1:1,127.0.0.1:2", tmp_path)
    told = [f"127.0.0.1:{port} refuses connections: no broker listens there" for port in (1, 2)]
    assert (ended.code, ended.err) == (5, f"rota: {'; '.join(told)}\n")


def test_a_wrong_password_and_a_missing_one_are_named(guarded: rota.Server, tmp_path: Path) -> None:
    where = guarded.bootstrap_servers
    assert listed(where, tmp_path, **login("correct")).code == 0
    ended = listed(where, tmp_path, **login("guessed"))
    assert (ended.code, ended.err) == (
        5,
        f"rota: {where} refuses user ana or its password, with sasl.mechanism=PLAIN\n",
    )
    ended = listed(where, tmp_path)
    assert (ended.code, ended.err.startswith(f"rota: {where} wants a user: give security.protocol=SASL_P")) == (5, True)


def test_a_password_for_a_server_without_any_is_named(server: rota.Server, tmp_path: Path) -> None:
    where = server.bootstrap_servers
    ended = listed(where, tmp_path, **login("correct"))
    assert (ended.code, ended.err) == (5, f"rota: {where} takes no passwords: give security.protocol=PLAINTEXT\n")


def test_missing_tls_and_a_certificate_that_is_not_trusted_are_named(encrypted: rota.Server, tmp_path: Path) -> None:
    where = encrypted.bootstrap_servers
    ended = listed(where, tmp_path)
    assert (ended.code, ended.err.startswith(f"rota: {where} ends the connection at once: does it want TLS")) == (
        5,
        True,
    )
    ended = listed(where, tmp_path, security_protocol="SSL")
    assert (ended.code, ended.err.startswith(f"rota: the certificate of {where} is refused: self-signed")) == (5, True)


def test_tls_to_a_server_without_it_is_named(server: rota.Server, tmp_path: Path) -> None:
    where = server.bootstrap_servers
    ended = listed(where, tmp_path, security_protocol="SSL")
    says = f"rota: {where} does not answer in TLS: does it want security.protocol=PLAINTEXT?\n"
    assert (ended.code, ended.err) == (5, says)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_what_listens_and_does_not_answer_is_named_after_the_timeout(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = rota_groups("list", "--bootstrap-server", where, "--timeout-ms", "300", "--command-property",
                            f"security.protocol={protocol}")  # fmt: skip
    assert (ended.code, ended.err.startswith(f"rota: {where} does not answer within 0.")) == (5, True), ended.err


def test_no_thread_is_left_of_a_broker_that_cannot_be_asked(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    listed(closed_port(), tmp_path)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    ("error", "knows_it", "says"),
    [
        (errors.KafkaConnectionError("DNS Resolution failure"), False, "the host name of h:1 cannot be resolved"),
        (errors.KafkaConnectionError("113 EHOSTUNREACH"), False, "h:1 cannot be reached: No route to host"),
        (errors.SaslAuthenticationFailedError("no"), True, "h:1 refuses user ana or its password"),
        (errors.UnsupportedSaslMechanismError("no"), True, "h:1 does not take sasl.mechanism=PLAIN"),
        (errors.InvalidReceiveError("Invalid frame length: 1213486160"), False, "h:1 does not answer as a broker: "),
        (errors.InvalidReceiveError("Invalid frame length: 352518912"), False, "h:1 ends the connection at once"),
        (ConnectionResetError("104 ECONNRESET"), False, "h:1 ends the connection at once"),
        (ValueError("47 bytes"), False, "h:1 does not answer as a broker: 47 bytes"),
    ],
)
def test_an_error_of_the_library_is_told_in_words(error: Exception, knows_it: bool, says: str) -> None:
    settings: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ana",
    }
    assert cause("h:1", error, settings, 1.0, knows_it=knows_it).startswith(says)


def test_the_library_still_asks_for_the_first_connection_where_it_is_replaced() -> None:
    """A release that names it otherwise would silently try again and again."""
    [replaced] = [name for name in vars(Bootstrapping) if name.startswith("_do_")]
    assert callable(getattr(Bootstrapping.__mro__[1], replaced, None))
