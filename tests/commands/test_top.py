"""`rota top`: what it draws, and a look at a real server."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.http import listen
from rota.top import view
from tests.clients.eventually import eventually
from tests.http.asking import GROUP, SETTINGS, WITHIN_S, stuck
from tests.http.many import Many


def group(group_id: str, **changed: Any) -> dict[str, Any]:
    known = {
        "group_id": group_id,
        "state": "Stable",
        "generation": 3,
        "in_state_ms": 1_000,
        "member_count": 2,
        "waits": 0,
        "slack": [0] * 9 + [2],
        "why": "Stable for 1.0 s, generation 3; last rebalance: a joined",
    }
    return known | changed


def lines(groups: list[dict[str, Any]], rows: int = 10, fault: str | None = None) -> list[str]:
    console = Console(width=120, highlight=False, force_terminal=False, record=True, file=io.StringIO())
    console.print(view.drawn(groups, view.ordered(groups, "", only_waiting=False), "h:1", rows, fault))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_what_waits_longest_comes_first_then_what_rebalanced_last() -> None:
    groups = [
        group("old", in_state_ms=9_000),
        group("new", in_state_ms=10),
        group("stuck", waits=1, in_state_ms=500),
        group("stuck for long", waits=1, in_state_ms=50_000),
    ]
    names = [one["group_id"] for one in view.ordered(groups, "", only_waiting=False)]
    assert names == ["stuck for long", "stuck", "new", "old"]
    assert [one["group_id"] for one in view.ordered(groups, "long", only_waiting=True)] == ["stuck for long"]


def test_the_screen_has_totals_rows_and_how_many_more_there_are() -> None:
    told = lines([group("a"), group("b", state="Empty", member_count=0), group("c")], rows=2)
    assert told[0] == "rota h:1: 3 groups (1 Empty, 2 Stable), 4 members"
    assert told[2].split() == ["group", "state", "for", "members", "gen", "slack", "why"]
    assert told[3].startswith("a ")
    assert told[3].endswith("last rebalance: a joined")
    assert told[-1] == "and 1 more"
    assert lines([group("a", member_count=1)])[0] == "rota h:1: 1 group (1 Stable), 1 member"
    assert lines([group("a")], fault="nothing answers")[0] == "nothing answers"


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("Stable for 1.0 s, generation 3; last rebalance: a joined", "last rebalance: a joined"),
        ("Stable for 1.0 s or longer, generation 3; it was loaded", "it was loaded"),
        ("Stable for 1.0 s, epoch 7 (target of epoch 6): waiting for a", "(target of epoch 6) waiting for a"),
        ("Stable for 1.0 s: waiting for a to rejoin", "waiting for a to rejoin"),
        ("Stable for 1.0 s, generation 3", ""),
        ("something else", "something else"),
    ],
)
def test_the_reason_comes_first_without_what_has_a_column(why: str, reason: str) -> None:
    assert view.reason(group("a", why=why)) == reason


def test_a_match_that_no_group_has_is_told() -> None:
    console = Console(width=80, highlight=False, force_terminal=False, record=True, file=io.StringIO())
    groups = [group("a"), group("b"), group("c")]
    console.print(view.drawn(groups, view.ordered(groups, "zzz", only_waiting=False), "h:1", 10, match="zzz"))
    assert console.export_text().splitlines()[-1].rstrip() == "none of the 3 groups matches zzz"
    assert "none of the" not in "\n".join(lines(groups))


def test_hostile_names_move_no_cursor_and_are_no_markup() -> None:
    told = "\n".join(lines([group("\x1b[2J[red]x\n")]))
    assert r"\x1b[2J[red]x\n" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("counts", "drawn"), [([0] * 10, " " * 10), ([1, 0, 0, 0, 0, 0, 0, 0, 0, 100], "▂        █"), ([7] * 10, "█" * 10)]
)
def test_slack_is_drawn_in_ten_letters_and_nobody_is_drawn_as_nothing(counts: list[int], drawn: str) -> None:
    assert view.slack(counts).plain == drawn


@pytest.mark.clients
def test_a_look_at_a_real_server_tells_what_is_stuck() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        assert server.http_address is not None
        server.create_topic("t", partitions=3)
        with stuck(server, clock):
            told = CliRunner().invoke(
                app, ["top", "--http", server.http_address, "--count", "1", "--waiting"], env={"COLUMNS": None}
            )
    assert told.exit_code == 0
    (row,) = [line for line in told.stdout.splitlines() if line.startswith(GROUP)]
    # Nothing is cut where there is no terminal.
    assert re.search(r"PreparingRebalance +31\.0 s +2 +\d+ .*[^:] waiting for consumer-3-.* consumer-7-\w+… left$", row)


def test_looks_are_lines_of_json() -> None:
    listener = listen(":0")
    try:
        listener.subject.show(Many(300).as_server(), lambda: None)
        arguments = ["top", "--http", listener.address, "--json", "--interval", "0.2", "--match", "1"]
        told = CliRunner().invoke(app, [*arguments, "--count", "2"])
        assert (told.exit_code, told.stderr) == (0, "")
        looks = [json.loads(line) for line in told.stdout.splitlines()]
        assert len(looks) == 2
        groups = looks[0]["groups"]
        assert len(groups) > 10
        assert all("1" in group["group_id"] and group["why"] for group in groups)
        # Without a terminal and without --count it goes on.
        command = [sys.executable, "-m", "rota", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert [bool(json.loads(process.stdout.readline())["groups"]) for _ in range(3)] == [True] * 3
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=WITHIN_S)
        assert (process.returncode, errors) == (0, "")
    finally:
        listener.close()


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        told = CliRunner().invoke(app, ["top", "--http", f"127.0.0.1:{spare.getsockname()[1]}", "--count", "1"])
    assert told.exit_code == 5
    assert told.stderr.startswith("rota: nothing answers at 127.0.0.1:")


def test_a_dumb_terminal_and_one_without_all_letters_get_lines() -> None:
    listener = listen(":0")
    ours, theirs = pty.openpty()
    try:
        listener.subject.show(Many(20).as_server(), lambda: None)
        ended = subprocess.run(
            [sys.executable, "-m", "rota", "top", "--http", listener.address],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "dumb", "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
            timeout=WITHIN_S,
            check=False,
        )
        shown = os.read(ours, 65_536)
    finally:
        listener.close()
        os.close(ours)
        os.close(theirs)
    assert ended.returncode == 0, shown
    assert b"20 groups" in shown
    assert b"\\u2026" in shown
    assert b"\x1b[?1049h" not in shown


def test_on_a_terminal_it_draws_again_and_again_until_it_is_interrupted() -> None:
    listener = listen(":0")
    ours, theirs = pty.openpty()
    try:
        many = Many(300)
        listener.subject.show(many.as_server(), lambda: None)
        arguments = ["top", "--http", listener.address, "--interval", "0.2"]
        process = subprocess.Popen(
            [sys.executable, "-m", "rota", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "LINES": "30", "COLUMNS": "120"},
        )
        shown = bytearray()

        def asked_thrice() -> bool:
            if select.select([ours], [], [], 0)[0]:
                shown.extend(os.read(ours, 65_536))
            return many.asked >= 3

        eventually(asked_thrice, WITHIN_S, "three looks")
        process.send_signal(signal.SIGINT)
        eventually(lambda: asked_thrice() and process.poll() is not None, WITHIN_S, "the end")
        assert process.returncode == 0
        assert "300 groups" in shown.decode(errors="replace")
        assert "more" in shown.decode(errors="replace")
    finally:
        listener.close()
        os.close(ours)
        os.close(theirs)
