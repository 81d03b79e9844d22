"""No process outlives its test, however the test ends, and signals reach a child also below `nohup`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import processes
from tests.checks.tidy import ROOT

PLANTED = """
import signal, subprocess, sys

LONG = [sys.executable, "-c", "import time; time.sle" "ep(600)  # planted-" + "NAME"]


def test_that_fails():
    subprocess.Popen(LONG)
    raise AssertionError("half way")


def test_that_passes():
    subprocess.Popen(LONG, start_new_session=True)


def test_whose_child_left_a_child():
    subprocess.run([sys.executable, "-c", f"import subprocess; subprocess.Popen({LONG!r})"], check=True)


def test_that_ends_its_own():
    for number in (signal.SIGINT, signal.SIGHUP):
        with subprocess.Popen(LONG) as child:
            child.send_signal(number)
            assert child.wait(30) == -number
"""


def test_what_a_test_leaves_behind_is_killed_and_fails_it(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED.replace("NAME", tmp_path.name))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", str(tmp_path)]
    # As a script's background job and `nohup` do it.
    done = subprocess.run(
        ["bash", "-c", 'trap "" INT HUP; "$@"', "bash", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.splitlines()[-1].startswith("1 failed, 3 passed, 3 errors in "), done.stdout
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if f"planted-{tmp_path.name}" in said(path)]


def said(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_child_that_ends_by_itself_is_no_complaint() -> None:
    before = processes.children()
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    assert processes.end_all_but(before) == []
    assert child.wait(30) == 0


def test_children_are_listed_until_they_end() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert child.pid in processes.children()
    assert child.pid not in processes.children()
