"""Long commands say how far they are where stderr is no terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from rota import progress
from rota.audit import command as audit
from rota.cli import app
from tests.clients.eventually import eventually

WITHIN_S = 30


def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What has come on stderr so far."""
    so_far: list[str] = []

    def text() -> str:
        so_far.append(capsys.readouterr().err)
        return "".join(so_far)

    return text


def test_the_latest_text_is_printed_again_and_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    text = printed(capsys)
    with progress.Lines() as say:
        say("1 of 2")
        eventually(lambda: text().count("rota: 1 of 2 (") > 1, WITHIN_S, "the same line again")
        say("2 of 2")
        eventually(lambda: "rota: 2 of 2 (" in text(), WITHIN_S, "the next text")
    told = text()
    assert {re.sub(r"\d+ s", "0 s", line) for line in told.splitlines()} == {
        "rota: 1 of 2 (after 0 s)",
        "rota: 2 of 2 (after 0 s)",
    }


def test_nothing_is_printed_without_a_text_and_after_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    text = printed(capsys)
    with progress.Lines() as first:
        first("first")
        eventually(lambda: "first" in text(), WITHIN_S, "a line")
    before = text()
    with progress.Lines(), progress.Lines() as second:
        second("second")
        eventually(lambda: "second" in text(), WITHIN_S, "a line of another one")
    after = text().removeprefix(before).splitlines()
    assert [line for line in after if not line.startswith("rota: second (")] == []


def test_a_terminal_shows_the_latest_text_in_one_line_and_nothing_afterwards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.shown() as say:
        say("1 of 2")
        assert capsys.readouterr().err == "\r\x1b[K1 of 2"
        say("2 of 2")
        assert capsys.readouterr().err == "\r\x1b[K2 of 2"
    assert capsys.readouterr().err == "\r\x1b[K"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("simulate --seeds 0..100", r"rota: worlds: [\d,]+/100 \(after \d+ s\)"),
        ("check differential --protocol transactions --steps 3000", r"rota: differential: .+ \(after \d+ s\)"),
        ("bench heartbeat --members 1000 --seconds 0.1 --rounds 3", r"rota: round \d of 3 \(after \d+ s\)"),
    ],
)
def test_a_long_command_says_how_far_it_is(words: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    ended = CliRunner().invoke(app, words.split())
    assert ended.exit_code == 0, ended.output
    lines = ended.stderr.splitlines()
    assert [line for line in lines if re.fullmatch(says, line)], lines
    assert "rota: " not in ended.stdout


def test_the_audit_prints_each_step_on_a_terminal_and_else_the_one_that_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    with audit.progress_on_stderr("starting Spark", shows_all=True) as say:
        say("check: two owners")
        say("")
    assert capsys.readouterr().err == "rota: starting Spark\nrota: check: two owners\n"
    text = printed(capsys)
    with audit.progress_on_stderr("starting Spark", shows_all=False) as say:
        eventually(lambda: "rota: starting Spark (" in text(), WITHIN_S, "the first step")
        say("folding the journals")
        eventually(lambda: "rota: folding the journals (" in text(), WITHIN_S, "the next step")
