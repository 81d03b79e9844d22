"""`--command-config`: one properties file of a Kafka client, for every command that connects to a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.client_properties import ClientSecurity, PropertyError, pairs
from rota.security import Login
from tests.refusals import wait_for_refusal

WITHIN_S = 100
USER, PASSWORD = "ana", 'c=o,r"re\\ct'
SETTINGS = {"group.initial.rebalance.delay.ms": 200, "group.min.session.timeout.ms": 1_000}


@pytest.fixture(scope="module")
def authority() -> rota.Authority:
    return rota.Authority()


@pytest.fixture(scope="module")
def server(authority: rota.Authority) -> Iterator[rota.Server]:
    with rota.Server(tls=authority.tls(), sasl="SCRAM-SHA-512", users={USER: PASSWORD}, settings=SETTINGS) as server:
        yield server
        assert server.panics == 0


@pytest.fixture
def file(tmp_path: Path, server: rota.Server, authority: rota.Authority) -> Path:
    """The properties of a Java client, with its CA in a file."""
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.certificate)
    properties = server.client_config("java") | {"ssl.truststore.location": str(ca)}
    del properties["ssl.truststore.certificates"]
    return written(tmp_path / "client.properties", properties)


def written(path: Path, properties: dict[str, Any]) -> Path:
    lines = [f"{name}={value}".replace("\\", "\\\\").replace("\n", "\\n") for name, value in properties.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rota", *arguments],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_conform_plays_its_rows_over_tls_with_a_password(server: rota.Server, file: Path) -> None:
    at = ("--bootstrap-server", server.bootstrap_servers)
    # Rows without times: other programs may need this machine, too.
    only = ("--only", "fields/*", "--json")
    ended = run("conform", *at, *only, "--command-config", str(file))
    assert ended.returncode == 0, ended.stderr
    played = [row for row in json.loads(ended.stdout)["rows"] if row["verdict"] != "left out"]
    assert len(played) > 20
    assert server.refused_connections() == []
    assert PASSWORD not in ended.stdout + ended.stderr
    ended = run("conform", *at, *only)
    assert (ended.returncode, ended.stdout) == (5, "")
    assert "the broker wants TLS: give --command-config FILE" in ended.stderr
    wait_for_refusal(server, "sent no TLS handshake")


@pytest.mark.clients
@pytest.mark.slow
def test_the_demo_passes_over_tls_with_a_password(server: rota.Server, file: Path) -> None:
    at = ("--bootstrap-server", server.bootstrap_servers, "--command-config", str(file))
    ended = run("demo", "--json", "--duration", "0", *at)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["ok"] is True


def test_a_wrong_password_is_named_and_not_shown(server: rota.Server, file: Path) -> None:
    file.write_text(file.read_text().replace("username=", 'password="guessed" username="ana" x='))
    text = file.read_text()
    file.write_text(text[: text.index(" x=")] + ";\n" + text[text.index("\n", text.index(" x=")) + 1 :])
    ended = run("conform", "--bootstrap-server", server.bootstrap_servers, "--command-config", str(file))
    assert ended.returncode == 5
    assert "Authentication failed" in ended.stderr
    assert "guessed" not in ended.stderr
    wait_for_refusal(server, "failed to authenticate")


@pytest.mark.parametrize("command", ["conform", "demo"])
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("security.protocol=TLS", "client.properties:1: security.protocol is `TLS`: give one of PLAINTEXT"),
        ("securty.protocol=SSL", "did you mean `security.protocol`?"),
        ("sasl.kerberos.service.name=kafka", "there is no setting `sasl.kerberos.service.name`"),
        ("security.protocol=SASL_SSL", "`SASL_SSL`, which needs sasl.mechanism"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism is `GSSAPI`: give one of PLAIN, SCRAM"),
        ("ssl.truststore.type=JKS", "ssl.truststore.type is `JKS`: only PEM files can be read"),
        ("security.protocol=SSL\nssl.truststore.location=/no/such/ca.pem", "/no/such/ca.pem`: No such file"),
        ("security.protocol=SSL\nssl.keystore.location=/no/such/own.pem", "/no/such/own.pem`: No such file"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_connects(
    tmp_path: Path, command: str, line: str, says: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")
    ended = run(command, "--bootstrap-server", "127.0.0.1:1", "--command-config", str(file))
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert says in ended.stderr


def test_a_file_is_for_a_broker_of_its_own(tmp_path: Path) -> None:
    ended = run("demo", "--command-config", str(tmp_path / "client.properties"))
    assert ended.returncode == 2
    assert "--command-config needs --bootstrap-server" in ended.stderr
    ended = run("conform", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(tmp_path / "missing"))
    assert ended.returncode == 2
    assert "--command-config" in ended.stderr
    assert "No such file" in ended.stderr


def test_settings_of_clients_that_are_no_security_are_passed_over() -> None:
    found = ClientSecurity.of({"group.id": "g", "request.timeout.ms": "5", "bootstrap.servers": "h:1"})
    assert found == ClientSecurity()
    assert ClientSecurity.given({"group.id": "g"}) is None


def test_librdkafka_gets_paths_and_texts(authority: rota.Authority, tmp_path: Path) -> None:
    issued = authority.issue(name="ana")
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'PlainLoginModule required username="ana" password="a\\"b";',
        "ssl.truststore.certificates": authority.certificate,
        "ssl.keystore.certificate.chain": issued.certificate,
        "ssl.keystore.key": issued.key,
        "ssl.endpoint.identification.algorithm": "",
    }
    assert ClientSecurity.of(properties).librdkafka() == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": authority.certificate,
        "ssl.certificate.pem": issued.certificate,
        "ssl.key.pem": issued.key,
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ana",
        "sasl.password": 'a"b',
    }
    store = tmp_path / "own.pem"
    store.write_text(issued.key + issued.certificate)
    found = ClientSecurity.of({"security.protocol": "SSL", "ssl.keystore.location": str(store)}).librdkafka()
    assert (found["ssl.certificate.location"], found["ssl.key.location"]) == (str(store), str(store))


def test_a_file_is_read_as_it_was_written(file: Path) -> None:
    found = {name: value for _, name, value in pairs(file.read_text())}
    login = ClientSecurity.of(found).login
    assert login == Login("SCRAM-SHA-512", USER, PASSWORD)
    with pytest.raises(PropertyError, match=r"needs sasl\.jaas\.config"):
        ClientSecurity.of({name: value for name, value in found.items() if name != "sasl.jaas.config"})


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "my token"
    file.write_text("a.b.c\n")
    return file


def test_conform_and_groups_read_a_token_from_a_file(token_file: Path, tmp_path: Path) -> None:
    with rota.Server(sasl="OAUTHBEARER") as server:
        config = tmp_path / "client.properties"
        properties = server.client_config("java", token=token_file)
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        at = ("--bootstrap-server", server.bootstrap_servers, "--command-config", str(config))
        played = ("conform", "--only", "fields/*", "--json")
        ended = run(*played, *at)
        assert (ended.returncode, ended.stdout) == (5, "")
        assert "invalid_token" in ended.stderr
        assert "a.b.c" not in ended.stderr
        token_file.write_text(server.token("ana"))
        ended = run(*played, *at)
        assert ended.returncode == 0, ended.stderr
        ended = run("groups", "--list", *at)
        assert (ended.returncode, ended.stdout.split()[0]) == (0, "GROUP"), ended.stderr


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://issuer.test/token", "rota asks no server for tokens; write a token to a file"),
        ("file://host/token", "rota asks no server for tokens"),
        ("file:///no/such/token", "No such file"),
    ],
)
def test_a_token_that_is_not_in_a_file_is_refused(url: str, says: str) -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(PropertyError, match=r"needs sasl\.oauthbearer\.token\.endpoint\.url"):
        ClientSecurity.of(properties)
    with pytest.raises(PropertyError, match=says):
        ClientSecurity.of(properties | {"sasl.oauthbearer.token.endpoint.url": url})


def test_the_demo_refuses_tokens(token_file: Path) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    found = ClientSecurity.of(properties | {"sasl.oauthbearer.token.endpoint.url": token_file.as_uri()})
    with pytest.raises(PropertyError, match="take passwords only"):
        found.librdkafka()
