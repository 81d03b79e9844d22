"""franz-go and kafkajs at every listener and with every mechanism, with right and with wrong settings."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rota
from harness.go import UnreachableError, built
from tests.clients.eventually import eventually
from tests.docs.test_any_language import EXAMPLES, installed, needs

pytestmark = pytest.mark.clients
HERE = Path(__file__).parent
WITHIN_S = 120
TIMEOUT_MS = 60_000
USER, PASSWORD = "ana", "correct=horse,battery"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOPIC, FORBIDDEN = "orders", "secrets"
NAMES = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SETTINGS: dict[str, str | int] = {
    "listeners": ",".join(f"{name}://127.0.0.1:0" for name in NAMES),
    "group.initial.rebalance.delay.ms": 0,
}
ACLS = [
    *(f"ALLOW User:* * {operation} TOPIC LITERAL {TOPIC}" for operation in ("READ", "WRITE")),
    "ALLOW User:* * READ GROUP PREFIXED g-",
]
ADMITTED = [
    *(("PLAINTEXT", ""), ("SSL", "")),
    *((name, mechanism) for name in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
]


class Wrong(NamedTuple):
    """Settings with which a client is not served, what the server says, and what both clients say."""

    listener: str
    mechanism: str
    changes: dict[str, str]
    line: str
    says: tuple[str, str]


PASSWORD_SAID = "Invalid username or password"  # noqa: S105 - a message
SCRAM_SAID = "invalid credentials with SASL mechanism"
UNTRUSTED = ("unknown authority", "self-signed certificate")
# fmt: off
WRONG = {
    "password-plain": Wrong("SASL_SSL", "PLAIN", {"password": "x"}, "failed to authenticate", (PASSWORD_SAID,) * 2),
    "user-plain": Wrong("SASL_PLAINTEXT", "PLAIN", {"user": "eve"}, "failed to authenticate", (PASSWORD_SAID,) * 2),
    "password-256": Wrong("SASL_SSL", "SCRAM-SHA-256", {"password": "x"}, "failed to authenticate", (SCRAM_SAID,) * 2),
    "user-512": Wrong("SASL_PLAINTEXT", "SCRAM-SHA-512", {"user": "eve"}, "failed to authenticate", (SCRAM_SAID,) * 2),
    "token": Wrong("SASL_SSL", "OAUTHBEARER", {"token": "expired"}, "a token that has expired", ("", "")),
    "ca": Wrong("SSL", "", {"ca": "other"}, "server's certificate", UNTRUSTED),
    "ca-sasl": Wrong("SASL_SSL", "PLAIN", {"ca": "other"}, "server's certificate", UNTRUSTED),
    "topic": Wrong("SASL_SSL", "SCRAM-SHA-512", {"topic": FORBIDDEN}, "is Denied operation = ", ("not authorized", "authorized")),  # noqa: E501
    "group": Wrong("PLAINTEXT", "", {"group": "other"}, "is Denied operation = ", ("not authorized", "coordinator")),
}
# fmt: on


@pytest.fixture(scope="module")
def authority() -> rota.Authority:
    return rota.Authority()


@pytest.fixture
def server(authority: rota.Authority) -> Iterator[rota.Server]:
    """A server with all listeners and mechanisms. Each test has its own: a server says a thing once in ten seconds."""
    with rota.Server(
        tls=authority.tls(), sasl=list(MECHANISMS), users={USER: PASSWORD}, acls=ACLS, settings=SETTINGS
    ) as server:
        for topic in (TOPIC, FORBIDDEN):
            server.create_topic(topic)
        yield server
        assert server.panics == 0


@pytest.fixture(scope="module", params=["franz-go", "kafkajs"])
def program(request: pytest.FixtureRequest) -> list[str]:
    """The command of a client."""
    if request.param == "franz-go":
        needs("go")
        try:
            return [str(built(HERE / "go", "client-go-secure", "./secure"))]
        except UnreachableError as error:
            pytest.skip(str(error))
    needs("node", "npm")
    place = installed(EXAMPLES / "node")
    shutil.copy(HERE / "node" / "secure.js", place)
    return ["node", str(place / "secure.js")]


def ended(program: list[str], settings: dict[str, Any]) -> str:
    """What the client says is wrong; "" if it has read its message."""
    done = subprocess.run(program, input=json.dumps(settings), capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["error"])


def settings_of(server: rota.Server, authority: rota.Authority, listener: str, mechanism: str) -> dict[str, Any]:
    return {
        "bootstrap": server.listeners()[listener].bootstrap_servers,
        "ca": authority.certificate if listener.endswith("SSL") else "",
        "mechanism": mechanism,
        "user": USER,
        "password": PASSWORD,
        "token": server.token(USER),
        "topic": TOPIC,
        "group": f"g-{listener}-{mechanism}",
        "timeout_ms": TIMEOUT_MS,
    }


@pytest.mark.parametrize(("listener", "mechanism"), ADMITTED)
def test_a_client_writes_and_reads(
    server: rota.Server, authority: rota.Authority, program: list[str], listener: str, mechanism: str
) -> None:
    assert ended(program, settings_of(server, authority, listener, mechanism)) == ""
    assert server.refused_connections() == []


@pytest.mark.parametrize("case", WRONG)
def test_a_client_with_wrong_settings_is_refused_and_both_sides_say_why(
    server: rota.Server, authority: rota.Authority, program: list[str], case: str
) -> None:
    wrong = WRONG[case]
    server.refused_connections(), server.denied_requests()
    replaced = {"expired": server.token(USER, lifetime_s=-600), "other": rota.Authority().certificate}
    settings = settings_of(server, authority, wrong.listener, wrong.mechanism)
    settings |= {
        name: replaced.get(value, value) if name in ("ca", "token") else value for name, value in wrong.changes.items()
    }
    error = ended(program, settings | {"timeout_ms": 5_000})
    said = wrong.says[program[0] == "node"]
    assert error != ""
    assert said.lower() in error.lower(), error
    lines: list[str] = []

    def found() -> bool:
        # The client may see the error before the server writes its line.
        lines.extend([*server.refused_connections(), *server.denied_requests()])
        return any(wrong.line in line for line in lines)

    eventually(found, WITHIN_S, f"a line with {wrong.line!r}", lambda: "\n".join(lines))
