"""`rota user`: the users file, and a server that admits those in it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

import rota
import rota.user
from rota import exits
from rota.cli import app

from .test_serve import serving


def user(*words: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, ["user", *words], input=typed)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    assert user("add", str(path), "ana", typed="secret\n").exit_code == 0
    return path


def test_a_file_is_private_and_has_no_password(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = file.read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["ana", "SCRAM-SHA-256"], ["ana", "SCRAM-SHA-512"]]
    assert "secret" not in file.read_text()


def test_a_user_is_changed_listed_and_removed(file: Path, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("other\nsecond line\n")
    before = file.read_text()
    assert user("add", str(file), "bob", "--password-file", str(password)).exit_code == 0
    assert user("add", str(file), "ana", typed="changed\n").exit_code == 0
    assert file.read_text() != before
    assert len(file.read_text().splitlines()) == 4
    listed = user("list", str(file), "--json")
    mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert json.loads(listed.stdout) == {"bob": mechanisms, "ana": mechanisms}
    assert user("remove", str(file), "bob").exit_code == 0
    assert json.loads(user("list", str(file), "--json").stdout) == {"ana": mechanisms}
    with rota.Server(users=file) as server:
        config = server.client_config("librdkafka", user="ana", password="changed")  # noqa: S106
        assert list(AdminClient(config).list_topics(timeout=30).topics) == ["__consumer_offsets"]


def test_a_new_password_is_not_called_a_new_user(file: Path) -> None:
    told = [user("add", str(file), name, typed="x\n").stdout for name in ("ana", "bob")]
    assert told == [f"changed the password of ana in {file}\n", f"added bob to {file}\n"]
    told = [user("add", str(file), name, "--json", typed="x\n").stdout for name in ("ana", "eve")]
    assert [json.loads(line) for line in told] == [
        {"changed": "ana", "file": str(file)},
        {"added": "eve", "file": str(file)},
    ]


def test_the_mode_of_a_file_and_a_link_to_it_stay(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert user("add", str(link), "bob", typed="x\n").exit_code == 0
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert set(json.loads(user("list", str(file), "--json").stdout)) == {"ana", "bob"}


@pytest.mark.parametrize("words", [("add", "{file}", "eve"), ("remove", "{file}", "ana")])
def test_what_is_no_file_is_refused_before_it_is_read(tmp_path: Path, words: tuple[str, ...]) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # A writer, so that a command that reads ends, too.
    writer = os.open(fifo, os.O_RDWR)
    os.write(writer, b"# no user\n")
    command = [sys.executable, "-m", "rota", "user", *(word.format(file=fifo) for word in words)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate("secret\n", timeout=60)
    except subprocess.TimeoutExpired:
        said = "it reads the FIFO"
    finally:
        process.kill()
        os.close(writer)
    assert said == f"rota: `{fifo}` is no file: give a regular file\n"
    assert process.wait() == exits.MISUSED
    assert fifo.is_fifo()


def test_a_user_removed_while_a_password_is_typed_stays_removed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(_name: str, _file: Path | None) -> str:
        file.write_text("# ana was removed\n")
        return "x"

    monkeypatch.setattr("rota.user.password_of", typed)
    assert user("add", str(file), "bob").exit_code == 0
    assert list(json.loads(user("list", str(file), "--json").stdout)) == ["bob"]


@pytest.mark.parametrize("words", [("add", "{file}", "bob"), ("add", "{link}", "bob"), ("remove", "{file}", "ana")])
def test_no_other_command_changes_the_file_between_reading_and_replacing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    found: list[tuple[str, bool]] = []

    def watched(name: str) -> None:
        before = getattr(rota.user, name)

        def call(*values: Any, **options: Any) -> Any:
            found.append((name, is_locked(tmp_path)))
            return before(*values, **options)

        monkeypatch.setattr(rota.user, name, call)

    link = tmp_path / "links" / "users"
    link.parent.mkdir()
    link.symlink_to(file)
    watched("lines_of")
    watched("replace")
    assert user(*(word.format(file=file, link=link) for word in words), typed="x\n").exit_code == 0
    assert found[-2:] == [("lines_of", True), ("replace", True)]
    assert not is_locked(tmp_path)
    assert sorted(tmp_path.iterdir()) == [link.parent, file]


def is_locked(directory: Path) -> bool:
    """Whether another command would wait for this directory."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def test_comments_stay(file: Path) -> None:
    file.write_text("# the users\n\n" + file.read_text())
    assert user("add", str(file), "bob", typed="x\n").exit_code == 0
    assert file.read_text().startswith("# the users\n\n")


@pytest.mark.parametrize(
    ("words", "typed", "code", "says"),
    [
        (("add", "{file}", "a b"), "x\n", 2, "printable ASCII"),
        (("add", "{file}", "eve"), "\n", 2, "the password of eve is empty"),
        (("add", "{file}", "eve", "--password-file", "missing"), "", 2, "--password-file is `missing`"),
        (("remove", "{file}", "eve"), "", 3, "has no user `eve`"),
        (("list", "missing"), "", 2, "there is no file `missing`"),
        (("add", "missing/users", "eve"), "x\n", 2, "cannot write `missing/users`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_changes_nothing(
    file: Path, words: tuple[str, ...], typed: str, code: int, says: str
) -> None:
    before = file.read_text()
    done = user(*(word.format(file=file) for word in words), typed=typed)
    assert (done.exit_code, done.stderr.count("\n")) == (code, 1)
    assert says in done.stderr
    assert file.read_text() == before


def test_a_server_admits_the_users_of_its_file(file: Path) -> None:
    with serving("--users", str(file)) as (_, first_line):
        assert " with SASL (in memory" in first_line
        port = first_line.partition("127.0.0.1:")[2].split()[0]
        config: dict[str, str | int | float | bool] = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ana",
            "sasl.password": "secret",
        }
        assert list(AdminClient(config).list_topics(timeout=30).topics) == ["__consumer_offsets"]


@pytest.mark.parametrize(
    "words", [("add", "{file}", "eve"), ("list", "{file}"), ("remove", "{file}", "security.protocol=SSL")]
)
def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# of a client\nsecurity.protocol=SSL\n")
    done = user(*(word.format(file=file) for word in words), typed="x\n")
    assert done.exit_code == exits.MISUSED
    assert done.stderr == (
        f"rota: `{file}` is no users file: line 2: expected a name, SCRAM-SHA-256 or SCRAM-SHA-512, and a credential\n"
    )
    assert file.read_text() == "# of a client\nsecurity.protocol=SSL\n"
