"""Commands whose stdin or stderr is closed, or takes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rota import exits

ROTA = [sys.executable, "-m", "rota"]
WITHIN_S = 60
NO_STDERR = ["2>&-", "2>/dev/full"]


def run(redirection: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


@pytest.mark.parametrize("stderr", NO_STDERR)
@pytest.mark.parametrize("words", ["serve --nothing", "user list nothing", "simulate --until-ms 1", "check --list"])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(words: str, stderr: str) -> None:
    ended, usual = run(stderr, *ROTA, *words.split()), run("", *ROTA, *words.split())
    assert ended.returncode == usual.returncode, ended
    assert (ended.stdout == "") == (usual.stdout == ""), ended


@pytest.mark.parametrize("stderr", NO_STDERR)
def test_a_server_goes_on_whose_stderr_takes_nothing(stderr: str) -> None:
    command = [*ROTA, "serve", "--listen", "127.0.0.1:0", "--log-format", "json"]
    server = subprocess.Popen(["/bin/sh", "-c", f'exec "$@" {stderr}', "sh", *command], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        assert b" ready on " in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait(WITHIN_S) == 0
    finally:
        server.kill()
        server.communicate()


def test_a_second_ctrl_c_ends_a_command_whose_stderr_takes_nothing() -> None:
    script = """
import os, signal, threading
from rota import interrupts

interrupts.watch()
signal.signal(signal.SIGINT, lambda *_: None)
os.kill(os.getpid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGINT)
threading.Event().wait()
"""
    assert run("2>/dev/full", sys.executable, "-c", script).returncode == exits.INTERRUPTED


def test_a_closed_stdin_is_an_empty_one(tmp_path: Path) -> None:
    words = ["user", "add", str(tmp_path / "users"), "ana"]
    closed, empty = run("<&-", *ROTA, *words), run("</dev/null", *ROTA, *words)
    assert (closed.returncode, closed.stdout, closed.stderr) == (empty.returncode, empty.stdout, empty.stderr)
    assert closed.returncode == exits.MISUSED


def test_what_a_command_opens_takes_no_number_of_a_stream_that_is_closed() -> None:
    script = """
import os, sys
from rota import __main__

__main__.fill_what_is_closed()
print([os.get_inheritable(number) for number in range(3)], sys.stdin.fileno(), sys.stderr.fileno())
"""
    assert run("<&- 2>&-", sys.executable, "-c", script).stdout == "[True, True, True] 0 2\n"
