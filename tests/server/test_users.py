"""Clients change the users of a running server: in its file or in memory, at every node, and in no output."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import signal
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin as librdkafka
import pytest

import rota
from harness.raw import Connection, Reader, blob, frame, string
from rota import codec
from rota.sasl import AuthenticationError, authentication
from rota.security import Login
from tests.acls.asking import APIS, Asker
from tests.clients.eventually import eventually
from tests.commands.test_serve import serving

PASSWORD, NEW = "correct-horse-battery", "staple-of-the-day"  # of a server of this test only
SALT = b"salt-of-the-test"
WITHIN_S = 60
SHA_256, SHA_512 = 1, 2
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}
SETTINGS: dict[str, str | int] = {"connection.failed.authentication.delay.ms": 0}
MECHANISMS = ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]


def salted(password: str, mechanism: int, iterations: int = 4_096) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), SALT, iterations)


def upsertion(name: str, password: str, mechanism: int = SHA_512, iterations: int = 4_096) -> dict[str, Any]:
    credential = {"iterations": iterations, "salt": SALT, "salted_password": salted(password, mechanism, iterations)}
    return {"name": name, "mechanism": mechanism} | credential


def alter(server: rota.Server, *changes: dict[str, Any], user: str = "ana") -> dict[str, int]:
    """The error of each user."""
    upsertions = [change for change in changes if "salt" in change]
    deletions = [change for change in changes if "salt" not in change]
    with Asker((server.host, server.port), user, PASSWORD) as asker:
        answer = asker.ask("AlterUserScramCredentials", 0, {"deletions": deletions, "upsertions": upsertions})
    return {result["user"]: result["error_code"] for result in answer["results"]}


def logs_in(address: tuple[str, int], login: Login) -> bool:
    with Connection(address, WITHIN_S) as connection:
        frames = authentication(login, "test")
        try:
            request = next(frames)
            while True:
                connection.send(blob(request))
                request = frames.send(connection.receive())
        except StopIteration:
            return True
        except AuthenticationError:
            return False


def may(server: rota.Server, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> list[bool]:
    """Whether a user may log in, at each node."""
    addresses = [(host, int(port)) for host, _, port in (node.rpartition(":") for node in server.nodes().values())]
    return [logs_in(address, Login(mechanism, user, password)) for address in addresses]


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users"
    file.write_text("# users\n" + "\n".join(rota._rota.user_lines("ana", PASSWORD)) + "\n")
    file.chmod(0o640)
    return file


def test_a_change_is_in_the_file_and_counts_at_every_node(users: Path) -> None:
    with rota.Server(sasl=MECHANISMS, users=users, settings=SETTINGS, nodes=2) as server:
        assert alter(server, upsertion("bob", NEW), upsertion("cleo", NEW, SHA_256, 16_384)) == {"bob": 0, "cleo": 0}
        assert may(server, "bob", NEW) == [True, True]
        assert may(server, "cleo", NEW, "SCRAM-SHA-256") == [True, True]
        assert may(server, "cleo", NEW, "PLAIN") == [True, True]
        assert may(server, "bob", PASSWORD) == [False, False]
        lines = users.read_text().splitlines()
        assert lines[0] == "# users"
        assert [line.split()[:2] for line in lines[1:]] == [
            ["ana", "SCRAM-SHA-256"],
            ["ana", "SCRAM-SHA-512"],
            ["bob", "SCRAM-SHA-512"],
            ["cleo", "SCRAM-SHA-256"],
        ]
        assert stat.S_IMODE(users.stat().st_mode) == 0o640
        assert alter(server, upsertion("bob", PASSWORD), {"name": "cleo", "mechanism": SHA_256}) == {
            "bob": 0,
            "cleo": 0,
        }
        assert may(server, "bob", NEW) + may(server, "cleo", NEW, "PLAIN") == [False] * 4
        assert server.panics == 0
    with rota.Server(sasl=MECHANISMS, users=users, settings=SETTINGS) as server:
        assert may(server, "bob", PASSWORD) == [True]
        assert may(server, "cleo", NEW, "PLAIN") == [False]


def test_the_server_does_not_read_again_what_it_wrote_and_sees_what_others_write(users: Path) -> None:
    with rota.Server(sasl=MECHANISMS, users=users, settings=SETTINGS) as server:
        assert alter(server, upsertion("bob", NEW)) == {"bob": 0}
        with users.open("a") as file:
            file.write("\n".join(rota._rota.user_lines("dora", PASSWORD)) + "\n")
        # A change of the server is made in the file as it is, not as it was read.
        assert alter(server, upsertion("cleo", NEW)) == {"cleo": 0}
        assert may(server, "dora", PASSWORD) == [True]
        with users.open("a") as file:
            file.write("\n".join(rota._rota.user_lines("emil", PASSWORD)) + "\n")
        eventually(lambda: may(server, "emil", PASSWORD) == [True], WITHIN_S, "the watcher reads the file")
        assert [line for _, line in server._inner.take_reloads()] == [f"read again: `{users}`"]


def test_a_file_that_cannot_be_replaced_leaves_the_users(users: Path) -> None:
    with rota.Server(sasl=MECHANISMS, users=users, settings=SETTINGS) as server:
        kept = users.read_text()
        users.write_text(f"ana SCRAM-SHA-256 {PASSWORD}\n")
        with Asker((server.host, server.port), "ana", PASSWORD) as asker:
            fields = {"deletions": [], "upsertions": [upsertion("bob", NEW), upsertion("cleo", NEW, iterations=1)]}
            answer = asker.ask("AlterUserScramCredentials", 0, fields)
        bob, cleo = answer["results"]
        assert (bob["user"], bob["error_code"]) == ("bob", 56)
        assert bob["error_message"] == (
            "the users file cannot be read, so it stays: line 1: the credential is malformed; "
            "`rota user add` writes such lines"
        )
        assert (cleo["user"], cleo["error_code"], cleo["error_message"]) == ("cleo", 93, "Too few iterations")
        assert PASSWORD in users.read_text()
        assert may(server, "bob", NEW) == [False]
        users.write_text(kept)
        assert alter(server, upsertion("bob", NEW)) == {"bob": 0}
        assert may(server, "bob", NEW) == [True]


def test_a_server_without_users_has_none_to_change() -> None:
    with rota.Server() as server, Connection((server.host, server.port), WITHIN_S) as connection:

        def ask(name: str, fields: dict[str, Any]) -> dict[str, Any]:
            connection.send(blob(codec.write_request(APIS[name], 0, 1, "test", fields)))
            return codec.read_answer(APIS[name], 0, connection.receive())[1]

        fields = {"deletions": [], "upsertions": [upsertion("bob", NEW)]}
        (altered,) = ask("AlterUserScramCredentials", fields)["results"]
        assert (altered["error_code"], altered["error_message"]) == (
            54,
            "The server has no users: start it with --users.",
        )
        assert ask("DescribeUserScramCredentials", {"users": None})["results"] == []
        (described,) = ask("DescribeUserScramCredentials", {"users": [{"name": "bob"}]})["results"]
        assert described["error_code"] == 91


@pytest.fixture
def server() -> Iterator[rota.Server]:
    with rota.Server(sasl=MECHANISMS, users={"ana": PASSWORD}, settings=SETTINGS) as server:
        yield server
        assert server.panics == 0


def test_connections_go_on_when_their_user_changes(server: rota.Server) -> None:
    with Asker((server.host, server.port), "ana", PASSWORD) as asker:
        fields = {"deletions": [], "upsertions": [upsertion("ana", NEW, SHA_256)]}
        for _ in range(2):
            assert asker.ask("AlterUserScramCredentials", 0, fields)["results"][0]["error_code"] == 0
        assert may(server, "ana", PASSWORD, "PLAIN") == [False]
        assert may(server, "ana", NEW, "PLAIN") == [True]
        # The credential of the other mechanism is still that of before.
        assert may(server, "ana", PASSWORD) == [True]


def test_librdkafka_sets_describes_and_deletes_users(server: rota.Server) -> None:
    admin = librdkafka.AdminClient(server.client_config("librdkafka"))
    sha_512 = librdkafka.ScramMechanism.SCRAM_SHA_512
    info = librdkafka.ScramCredentialInfo(sha_512, 8_192)
    alterations = [
        librdkafka.UserScramCredentialUpsertion("bob", info, NEW.encode()),
        librdkafka.UserScramCredentialDeletion("eve", sha_512),
    ]
    results = admin.alter_user_scram_credentials(alterations, request_timeout=WITHIN_S)
    assert results["bob"].result() is None
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        results["eve"].result()
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.RESOURCE_NOT_FOUND
    asked = admin.describe_user_scram_credentials(["bob"], request_timeout=WITHIN_S)
    assert isinstance(asked, dict)
    described = asked["bob"].result()
    assert [(info.mechanism, info.iterations) for info in described.scram_credential_infos] == [(sha_512, 8_192)]
    bob = librdkafka.AdminClient(server.client_config("librdkafka", user="bob", password=NEW))
    assert bob.list_topics(timeout=WITHIN_S).brokers
    gone = admin.alter_user_scram_credentials(
        [librdkafka.UserScramCredentialDeletion("bob", sha_512)], request_timeout=WITHIN_S
    )
    assert gone["bob"].result() is None
    assert may(server, "bob", NEW) == [False]


@pytest.mark.parametrize("is_text", [True, False])
def test_secrets_of_changed_users_are_nowhere(tmp_path: Path, users: Path, is_text: bool) -> None:
    text, lines = io.StringIO(), list[str]()
    said: list[str] = []
    trace: Any = text if is_text else lambda event: lines.append(repr(event))
    with rota.Server(
        sasl=MECHANISMS, users=users, trace=trace, data=tmp_path / "data", journal=True, settings=SETTINGS
    ) as server:
        good, wrong = upsertion("bob", NEW), upsertion("cleo", NEW, SHA_256)
        said.append(repr(alter(server, good, wrong | {"iterations": 1}, upsertion("d", NEW), upsertion("d", NEW))))
        with Asker((server.host, server.port), "ana", PASSWORD) as asker:
            said.append(repr(asker.ask("DescribeUserScramCredentials", 0, {"users": None})))
            asker.connection.send(frame(51, 0, b"\0" + blob(salted(NEW, SHA_512))))
            with pytest.raises(Exception):  # noqa: B017, PT011  the answer is a closed connection
                asker.connection.receive()
        for mechanism in MECHANISMS:
            for password in (NEW, PASSWORD):
                may(server, "bob", password, mechanism)
        with Connection((server.host, server.port), WITHIN_S) as connection:
            connection.send(frame(17, 1, string("PLAIN")))
            Reader(connection.receive())
        said += [*server.refused_connections(), repr(server), repr(server.settings()), repr(server.health())]
    said += [text.getvalue(), *lines]
    assert any("AlterUserScramCredentials" in line for line in said)
    written = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert written
    assert not shown(users, said, written)
    assert not any(secret in users.read_text() for secret in (PASSWORD, NEW, *derived()))


def derived() -> list[str]:
    """What PBKDF2 makes of the new password, as texts."""
    keys = [salted(NEW, mechanism) for mechanism in HASHES]
    return [shape for key in keys for shape in (key.hex(), base64.b64encode(key).decode(), repr(key)[2:-1])]


def shown(users: Path, said: Iterable[str], written: Iterable[bytes]) -> list[str]:
    """The secrets that are in texts or files."""
    keys = [part for line in users.read_text().splitlines()[1:] for part in line.split()[2].split(":")[2:]]
    assert len(keys) > 2
    text, data = "\n".join(said), b"".join(written)
    secrets = [PASSWORD, NEW, *keys, *derived()]
    found = [secret for secret in secrets if secret in text or secret.encode() in data]
    return found + [str(key) for key in (salted(NEW, mechanism) for mechanism in HASHES) if key in data]


def test_secrets_of_changed_users_are_in_no_output_of_the_command(tmp_path: Path, users: Path) -> None:
    data, acls = tmp_path / "data", tmp_path / "acls"
    acls.write_text("ALLOW User:ana * ALL CLUSTER LITERAL kafka-cluster\n")
    options = ["--users", str(users), "--sasl", ",".join(MECHANISMS), "--acls", str(acls), "--data", str(data)]
    options += ["--trace", "--journal", "--set", "connection.failed.authentication.delay.ms=0"]
    with serving(*options) as (process, first_line):
        found = re.search(r"on ([\d.]+):(\d+)", first_line)
        assert found, first_line
        address = (found[1], int(found[2]))
        fields = {"deletions": [], "upsertions": [upsertion("bob", NEW), upsertion("cleo", NEW, iterations=1)]}
        for user, password, codes in (("ana", PASSWORD, [0, 93]), ("bob", NEW, [31, 31])):
            with Asker(address, user, password) as asker:
                answer = asker.ask("AlterUserScramCredentials", 0, fields)
                assert [result["error_code"] for result in answer["results"]] == codes
        for mechanism in MECHANISMS:
            assert not logs_in(address, Login(mechanism, "bob", PASSWORD))
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=WITHIN_S)
    assert any("AlterUserScramCredentials" in text for text in said)
    assert any("failed to authenticate" in text for text in said)
    assert any("User:bob is Denied operation = ALTER" in text for text in said)
    written = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
    assert written
    assert not shown(users, [first_line, *said], written)
