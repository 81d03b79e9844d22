"""Values that no command takes, wherever they are given: numbers that are too large, empty paths, broken names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rota import exits
from rota.addresses import parsed
from rota.cli import app

NOT_UTF8 = b"a\xff"
ENGINE = "--engine etcd://127.0.0.1:1"
WITHIN_S = 60


@pytest.mark.parametrize(
    ("words", "option", "most"),
    [
        ("simulate", "--seed", 2**64 - 1),
        ("check", "--seed", 2**63 - 1),
        ("check", "--steps", 2**63 - 1),
        ("check exploration", "--states", 2**63 - 1),
        ("log dump data", "--from-offset", 2**63 - 1),
        ("log dump data", "--to-offset", 2**63 - 1),
        ("log dump data", "--partition", 2**31 - 1),
        (f"cluster import data {ENGINE}", "--leader", 2**31 - 1),
    ],
)
def test_a_number_that_is_too_large_is_refused(words: str, option: str, most: int) -> None:
    ended = CliRunner().invoke(app, [*words.split(), option, str(most + 1)])
    assert ended.exit_code == exits.MISUSED, ended.output
    assert ended.stderr.startswith(f"rota: {option} is `{most + 1}`: give a whole number from "), ended.stderr
    assert ended.stderr.endswith(f" to {most}\n"), ended.stderr


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        ("cluster move 0", "NODE"),
        ("cluster move --node", "PARTITION"),
        ("cluster unpin", "PARTITION"),
        ("cluster drain", "NODE"),
        ("cluster undrain", "NODE"),
        ("cluster forget", "NODE"),
    ],
)
def test_a_node_or_partition_that_no_cluster_has_is_refused(words: str, argument: str) -> None:
    behind = ["1"] if words.endswith("--node") else []
    command = [*words.removesuffix(" --node").split(), str(2**31), *behind, *ENGINE.split()]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == exits.MISUSED, ended.output
    assert ended.stderr == f"rota: {argument} is `{2**31}`: give a whole number from 0 to {2**31 - 1}\n"


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


@pytest.mark.parametrize("words", ["state g --from", f"cluster import {ENGINE}"])
def test_a_directory_without_logs_is_a_wrong_call(words: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, [*words.split(), str(tmp_path)])
    assert (ended.exit_code, ended.stdout) == (exits.MISUSED, ""), ended.output
    assert f"`{tmp_path}`" in ended.stderr


def test_what_cannot_be_encoded_is_one_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from rota import __main__ as process

    monkeypatch.setattr(process, "command", lambda _words: "a\udcff".encode())
    with pytest.raises(SystemExit) as ending:
        process.run()
    assert (ending.value.code, capfd.readouterr().err) == (exits.MISUSED, "rota: `a\\xff` is not UTF-8\n")


@pytest.mark.parametrize("host", ["a..b", ".a", f"{'a' * 64}.test", "b\u00fccher..test", f"{chr(252) * 64}.test"])
@pytest.mark.parametrize("words", ["why g --http", "groups list --bootstrap-server", "conform --bootstrap-server"])
def test_a_host_that_no_system_looks_up_is_refused(words: str, host: str) -> None:
    option = words.split()[-1]
    ended = CliRunner().invoke(app, [*words.split(), f"{host}:9092"])
    assert ended.exit_code == exits.MISUSED, ended.output
    assert ended.stderr.startswith(f"rota: {option} is `{host}:9092`: `{host}` is no name of a host: give HOST:PORT")


@pytest.mark.parametrize("host", ["", "a", "a.b.", "b\u00fccher.test", f"{'a' * 63}.test", "[::1]", "a_b.test"])
def test_a_host_that_can_be_looked_up_is_taken(host: str) -> None:
    assert parsed(f"{host}:9092") == f"{host or '127.0.0.1'}:9092"


def test_options_of_an_audit_that_would_have_no_effect_are_refused(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["audit", str(tmp_path), "--command-config", "missing"])
    says = "--command-config needs --bootstrap-server: it says how to connect to a broker"
    assert (ended.exit_code, ended.stderr) == (exits.MISUSED, f"rota: {says}\n")


def test_a_meta_properties_that_is_a_directory_is_an_error_in_json(tmp_path: Path) -> None:
    (tmp_path / "data" / "meta.properties").mkdir(parents=True)
    words = ["cluster", "import", str(tmp_path / "data"), *ENGINE.split(), "--json"]
    ended = CliRunner().invoke(app, words)
    assert json.loads(ended.stderr)["error"] in ("Failed", "Misused"), ended.output
    assert "meta.properties" in ended.stderr
