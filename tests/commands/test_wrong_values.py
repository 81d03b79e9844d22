"""Values that no command takes, wherever they are given: numbers that are too large, empty paths, broken names."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rota import exits
from rota.cli import app

NOT_UTF8 = b"a\xff"
ENGINE = "--engine etcd://127.0.0.1:1"
WITHIN_S = 60


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["serve", "--data", ""], "--data"),
        (["serve", "--journal-dir="], "--journal-dir"),
        (["config", "show", "--data", ""], "--data"),
        (["log", "repair", ""], "DIR"),
        (["log", "recover", ""], "DIR"),
        (["log", "dump", ""], "DIR"),
        (["audit", ""], "PATH..."),
        (["audit", "data", "--output", ""], "--output"),
        (["state", "g", "--from", ""], "--from"),
        (["plant", "", "copy"], "SRC"),
        (["cluster", "import", "", *ENGINE.split()], "DIR"),
    ],
)
def test_an_empty_path_is_not_the_working_directory(words: list[str], name: str) -> None:
    ended = CliRunner().invoke(app, words)
    assert (ended.exit_code, ended.stderr) == (exits.MISUSED, f"rota: {name} is ``: give a path\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["groups", "describe", NOT_UTF8, "--bootstrap-server", ":1"], "[GROUP]..."),
        (["groups", "delete", "--group", NOT_UTF8, "--bootstrap-server", ":1"], "--group"),
        (["groups", "remove-member", "g", "--member", "m", "--reason", NOT_UTF8], "--reason"),
        (["why", NOT_UTF8], "GROUP"),
        (["why", NOT_UTF8, "--from", "."], "GROUP"),
        (["state", NOT_UTF8, "--from", "."], "GROUP"),
        (["audit", "--group", NOT_UTF8, "."], "--group"),
    ],
)
def test_a_name_that_is_not_utf8_is_refused(words: list[str | bytes], name: str) -> None:
    command: list[str | bytes] = [sys.executable, "-m", "rota", *words]
    done = subprocess.run(command, capture_output=True, timeout=WITHIN_S, check=False, text=True)
    assert (done.returncode, done.stderr) == (exits.MISUSED, f"rota: {name} is `a\\xff`: it is not UTF-8\n")


def test_a_name_that_is_not_utf8_is_json_where_errors_are() -> None:
    command: list[str | bytes] = [sys.executable, "-m", "rota", "groups", "delete", NOT_UTF8, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=WITHIN_S, check=False)
    told = json.loads(done.stderr)
    assert (done.returncode, told["error"]) == (exits.MISUSED, "misused")
    assert told["message"].endswith("is `a\\xff`: it is not UTF-8")


def test_a_directory_may_have_any_name() -> None:
    command: list[str | bytes] = [sys.executable, "-m", "rota", "log", "dump", NOT_UTF8]
    done = subprocess.run(command, capture_output=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, done.stderr.endswith(b"there is no such directory\n")) == (exits.MISUSED, True)


def test_what_cannot_be_encoded_is_one_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from rota import __main__ as process

    monkeypatch.setattr(process, "command", lambda _words: "a\udcff".encode())
    with pytest.raises(SystemExit) as ending:
        process.run()
    assert (ending.value.code, capfd.readouterr().err) == (exits.MISUSED, "rota: `a\\xff` is not UTF-8\n")
