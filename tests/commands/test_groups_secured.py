"""`rota groups` on an Apache Kafka that asks for passwords and certificates, with the files that Kafka's tool takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from harness.brokers import KAFKA, KAFKA_JVM, free_port
from tests.conform.systems import STARTS_MAX

from .groups_scene import Ended, Scene, rota_groups
from .kafkas_tool import said

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("secured-kafka")]

LOGIN = "org.apache.kafka.common.security.{module}LoginModule required"
PLAIN, SCRAM = LOGIN.format(module="plain.Plain"), LOGIN.format(module="scram.Scram")
USER, PASSWORD = "ana", "a secret; with = and #"
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate of 127.0.0.1, with its key before it, as Java wants it in PEM."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "this test makes its certificates with openssl"
    file, key = folder / f"{name}.pem", folder / f"{name}.key"
    subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, "-keyout", key, "-out", file)
    subprocess.run([openssl, *map(str, request)], check=True, capture_output=True)
    file.write_text(key.read_text() + file.read_text())
    return file


@dataclass(frozen=True)
class Secured:
    """A broker: where it listens without and with protection, and the certificates of it and of a client."""

    plain: str
    by_protocol: dict[str, str]
    server: Path
    client: Path

    def properties(self, protocol: str, mechanism: str = "PLAIN", password: str = PASSWORD) -> str:
        """A file of Kafka's clients."""
        lines = [f"security.protocol={protocol}"]
        if "SASL" in protocol:
            module = SCRAM if mechanism.startswith("SCRAM") else PLAIN
            lines += [f"sasl.mechanism={mechanism}"]
            lines += [f'sasl.jaas.config={module} \\\n    username="{USER}" password="{password}";']
        if "SSL" in protocol:
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.server}"]
        if protocol == "SSL":
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.client}"]
        return "\n".join(lines) + "\n"


def settings(plain: int, ports: dict[str, int], server: Path, client: Path) -> dict[str, str]:
    """Of a broker with a listener for each protocol; SSL asks for the client's certificate."""
    told = {"PLAINTEXT": plain, **ports}
    advertised = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in told.items())
    secured = {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
        for listener in ("sasl_plaintext", "sasl_ssl")
        for mechanism, login in (("plain", f'{PLAIN} user_{USER}="{PASSWORD}";'), ("scram-sha-256", f"{SCRAM};"))
    }
    return {
        "listeners": f"{advertised},CONTROLLER://127.0.0.1:{plain + 1}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in told) + ",CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        **secured,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(client),
        "listener.name.ssl.ssl.client.auth": "required",
    }


def started(folder: Path, server: Path, client: Path) -> tuple[Secured, Path]:
    """A broker with these certificates, and its directory."""
    for number in range(STARTS_MAX):  # another process may take a port that was free
        plain, ports = free_port(), {protocol: free_port() for protocol in PROTOCOLS}
        pairs = [f"{name}={value}" for name, value in settings(plain, ports, server, client).items()]
        place = folder / f"broker-{number}"
        command = [sys.executable, str(KAFKA), "start", str(plain), str(place), *pairs]
        environment = KAFKA_JVM | os.environ
        if subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL).returncode == 0:
            by_protocol = {protocol: f"127.0.0.1:{port}" for protocol, port in ports.items()}
            return Secured(f"127.0.0.1:{plain}", by_protocol, server, client), place
    raise RuntimeError(f"Apache Kafka did not start in {STARTS_MAX} tries: see {folder}")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    absent = [command for command in ("java", "mvn", "openssl") if shutil.which(command) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    folder = tmp_path_factory.mktemp("secured")
    broker, place = started(folder, certificate(folder, "server"), certificate(folder, "client"))
    try:
        admin = KafkaAdminClient(bootstrap_servers=broker.plain)
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_256, PASSWORD, iterations=4_096)]
        )
        admin.close()
        yield broker
    finally:
        subprocess.run([sys.executable, KAFKA, "stop", place], check=True)


@pytest.fixture
def scene(secured: Secured) -> Iterator[Scene]:
    scene = Scene(secured.plain)
    yield scene
    scene.end()


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SASL_PLAINTEXT", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-256"), ("SSL", "")],
)
def test_a_group_is_described_and_changed_with_the_file_that_kafkas_tool_takes(
    secured: Secured, scene: Scene, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    topic = scene.topic(4)
    scene.commit(topic, {0: 1})
    file = tmp_path / "client.properties"
    file.write_text(secured.properties(protocol, mechanism))
    at = ("--bootstrap-server", secured.by_protocol[protocol], "--command-config", file)
    theirs = [line.split() for line in said(*at, "--describe", "--group", scene.group) if scene.group in line]
    described = rota_groups(*at, "--describe", "--group", scene.group, "--json")
    assert described.code == 0, described.err
    [[row]] = [group["offsets"] for group in described.json]
    assert [str(row[name]) for name in ("partition", "offset", "log_end_offset", "lag")] == theirs[0][2:6]
    assert row["lag_s"] == 20.0, "the message is fetched by a consumer with the same settings"
    moved = rota_groups("reset-offsets", *at, scene.group, "--topic", topic, "--to-latest", "--execute")
    assert moved.code == 0, moved.err
    assert scene.committed(topic) == {0: 4}


def refused(broker: str, text: str, tmp_path: Path) -> Ended:
    """What comes of a file that the broker does not take."""
    file = tmp_path / "client.properties"
    file.write_text(text)
    return rota_groups("list", "--bootstrap-server", broker, "--command-config", file, "--timeout", "3000", "--json")


@pytest.mark.parametrize(("protocol", "mechanism"), [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256")])
def test_a_wrong_password_is_one_named_error(secured: Secured, tmp_path: Path, protocol: str, mechanism: str) -> None:
    ended = refused(secured.by_protocol[protocol], secured.properties(protocol, mechanism, "guessed"), tmp_path)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (5, "", 1)
    assert "unreachable" in ended.err
    assert "guessed" not in ended.err


def test_a_client_without_a_certificate_or_without_tls_is_one_named_error(secured: Secured, tmp_path: Path) -> None:
    whole = secured.properties("SSL").splitlines(keepends=True)
    without = "".join(line for line in whole if "keystore" not in line)
    for text in (without, "security.protocol=PLAINTEXT\n"):
        ended = refused(secured.by_protocol["SSL"], text, tmp_path)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (5, "", 1), ended.err
        assert "unreachable" in ended.err
