"""A plain command line of `rota serve` is parsed without Typer, with the same result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from rota.cli import app
from rota.config.options import OPTIONS
from rota.serve.command import told_by
from rota.serve.words import plain

PLAIN = [
    "",
    "--listen 127.0.0.1:0",
    "--listen=127.0.0.1:0 --json",
    "--listen 127.0.0.1:0 --listen 127.0.0.1:9",
    "--advertise kafka.test:9092 --nodes 3 --http :9644",
    "--http https://0.0.0.0:9644 --http-token secret --allow-anonymous-http",
    "--data ./data/ --durability os --take-over --journal",
    "--no-take-over --journal --no-journal --trace",
    "--journal-dir there/ --journal-retention-bytes 7 --journal-retention-ms=0008",
    "--tls-cert ./server.pem --tls-key=server.key --tls-client-ca ca.pem",
    "--users users --sasl SCRAM-SHA-512,PLAIN --allow-plaintext-passwords",
    "--acls ./acls --users users",
    "--sasl OAUTHBEARER --allow-unsecured-tokens --jwks-ca ./ca.pem",
    "--engine etcd://h1:2379,h2:2379/rota --node-id 1 --ttl-ms=9000 --reads fenced",
    "--engine etcds://h1:2379/rota --engine-ca ca.pem --engine-cert own.pem --engine-key ./own.key",
    "--engine etcds://h1:2379/rota --engine-ca ca.pem --engine-user rota --engine-password-file there",
    "--engine e --peer-ca ./ca.pem --peer-cert ./own.pem --peer-key own.key",
    "--engine e --peer-user rota --peer-password-file ./there",
    "--set a=1 --set=b=2=3 --set a=4",
    "--config {file} --log-format json --nodes 4",
    "--config={file} --set group.max.size=30",
    "--control :9645 --control-token=secret --virtual-clock",
]
TYPERS = [
    "--help",
    "--version",
    "extra",
    "-- extra",
    "--list 127.0.0.1:0",
    "--listen",
    "--listen=",
    "--listen --json",
    "--nodes 0",
    "--nodes 1_0",
    "--nodes -1",
    "--durability never",
    "--log-format xml",
    "--json=true",
    "--trace=true",
    "--no-listen 127.0.0.1:0",
    "--no-nodes 1",
    "--unknown",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rota.toml"
    path.write_text("[server]\nnodes = 2\ndata = 'kept'\n[kafka]\ngroup.max.size = 10\n")
    return path


def by_typer(words: list[str]) -> Any:
    commands: Any = typer.main.get_command(app)
    context = commands.commands["serve"].make_context("rota serve", words)
    told = told_by(context, context.params["pairs"], context.params["config"])
    return told.options, told.settings, context.params["as_json"]


@pytest.mark.parametrize("environment", [{}, {"ROTA_NODES": "5", "ROTA_TRACE": "true"}, {"ROTA_CONFIG": "{file}"}])
@pytest.mark.parametrize("line", PLAIN)
def test_the_same_comes_of_a_plain_line_as_of_typer(
    line: str, environment: dict[str, str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(file=file))
    words = line.format(file=file).split()
    asked = plain(words)
    assert asked is not None
    assert (asked.told.options, asked.told.settings, asked.as_json) == by_typer(words)


@pytest.mark.parametrize("line", TYPERS)
def test_what_is_not_plain_is_left_to_typer(line: str) -> None:
    assert plain(line.split()) is None


def test_every_option_has_a_plain_line() -> None:
    assert all(any(option.flag in line for line in PLAIN) for option in OPTIONS.values())


def test_what_a_plain_line_gets_wrong_is_said_as_typer_would_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("--set a", "--config missing.toml"):
        with pytest.raises(SystemExit) as ended:
            plain(line.split())
        said = capsys.readouterr().err
        with pytest.raises(SystemExit):
            by_typer(line.split())
        assert (ended.value.code, said) == (2, capsys.readouterr().err)
        assert said.startswith("rota: ")


def test_a_plain_server_starts_without_typer() -> None:
    def imports(*words: str) -> tuple[int, set[str]]:
        command = [sys.executable, "-X", "importtime", *words]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        return ended.returncode, {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}

    # What a machine's own start of Python brings is not rota's.
    _, before = imports("-c", "")
    code, imported = imports("-m", "rota", "serve", "--set", "none.such=1")
    imported -= before
    assert code == 2
    assert "rota.serve.running" in imported
    assert not imported & {"typer", "pydantic", "inspect", "dataclasses", "rota.cli", "rota.member"}
