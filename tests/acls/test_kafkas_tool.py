"""Kafka's own tools, `kafka-acls` and `kafka-configs`, manage ACLs and users of a server, as a user with a password."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rota
from harness import kafka_tools

WITHIN_S = 120
ACLS, CONFIGS = "org.apache.kafka.tools.AclCommand", "kafka.admin.ConfigCommand"
PASSWORD = "staple-of-the-day"  # noqa: S105  of a server of this test only
pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("kafka-tools")]


@pytest.fixture
def server() -> Iterator[rota.Server]:
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    users, settings = {"admin": "secret", "ana": "secret"}, {"super.users": "User:admin"}
    with rota.Server(sasl="SCRAM-SHA-512", users=users, acls=[], settings=settings) as server:
        yield server


@pytest.fixture
def tool(server: rota.Server, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(user: str, *options: str, of: str = ACLS, password: str | None = None) -> subprocess.CompletedProcess[str]:
        file = tmp_path / f"{user}.properties"
        config = server.client_config("java", user=user, password=password)
        address = config.pop("bootstrap.servers")
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        words = [of, "--bootstrap-server", address, "--command-config", str(file), *options]
        return kafka_tools.run(*words, within_s=WITHIN_S)

    return run


def test_kafka_acls_adds_lists_and_removes(
    server: rota.Server, tool: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    rights = ["--allow-principal", "User:ana", "--consumer", "--topic", "orders", "--group", "shipping"]
    added = tool("admin", "--add", *rights)
    assert added.returncode == 0, added.stdout + added.stderr
    assert sorted(server.acls()) == [
        "ALLOW User:ana * DESCRIBE TOPIC LITERAL orders",
        "ALLOW User:ana * READ GROUP LITERAL shipping",
        "ALLOW User:ana * READ TOPIC LITERAL orders",
    ]
    prefix = ["--deny-principal", "User:bob", "--operation", "Write", "--topic", "pay"]
    denied = tool("admin", "--add", *prefix, "--resource-pattern-type", "prefixed")
    assert denied.returncode == 0, denied.stdout + denied.stderr
    assert "DENY User:bob * WRITE TOPIC PREFIXED pay" in server.acls()
    listed = tool("admin", "--list", "--topic", "payments", "--resource-pattern-type", "match")
    assert "(principal=User:bob, host=*, operation=WRITE, permissionType=DENY)" in listed.stdout, listed.stderr
    removed = tool("admin", "--remove", "--force", *rights)
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert server.acls() == ["DENY User:bob * WRITE TOPIC PREFIXED pay"]
    refused = tool("ana", "--list")
    assert "ClusterAuthorizationException" in refused.stdout + refused.stderr


def test_kafka_configs_sets_and_deletes_users(
    server: rota.Server, tool: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    bob = ["--alter", "--entity-type", "users", "--entity-name", "bob"]
    credential = f"SCRAM-SHA-512=[iterations=8192,password={PASSWORD}]"
    added = tool("admin", *bob, "--add-config", credential, of=CONFIGS)
    assert added.returncode == 0, added.stdout + added.stderr
    assert "Completed updating config for user bob." in added.stdout
    # Who may log in may ask.
    refused = tool("bob", *bob, "--add-config", credential, of=CONFIGS, password=PASSWORD)
    assert "ClusterAuthorizationException" in refused.stdout + refused.stderr
    described = tool("admin", "--describe", *bob[1:], of=CONFIGS)
    assert described.returncode == 0, described.stdout + described.stderr
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=8192" in described.stdout
    removed = tool("admin", *bob, "--delete-config", "SCRAM-SHA-512", of=CONFIGS)
    assert removed.returncode == 0, removed.stdout + removed.stderr
    unknown = tool("admin", *bob, "--delete-config", "SCRAM-SHA-512", of=CONFIGS)
    assert "Attempt to delete a user credential that does not exist" in unknown.stdout + unknown.stderr
    assert "User:bob is Denied operation = ALTER" in server.denied_requests()[0]
