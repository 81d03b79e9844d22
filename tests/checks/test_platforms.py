"""Calls that only some operating systems have are in one module of each language, and the release covers the rest."""

from __future__ import annotations

import re

import pytest

from tests.checks.tidy import ROOT, files, name_of

# The one place for each language.
RUST, PYTHON = "rust/log/src/files/platform.rs", "python/rota/system.py"
# Modules and names that Windows lacks, macOS lacks, or both, and what reads Linux's /proc.
ONLY_SOME_IN_RUST = re.compile(
    r"std::os::|os::(?:unix|linux|windows|fd)\b|\b(?:libc|rustix|nix)::|cfg\((?:unix|windows)"
)
ONLY_SOME_IN_PYTHON = re.compile(
    r"^\s*(?:import|from) (?:fcntl|grp|msvcrt|pty|pwd|resource|termios|winreg)\b"
    r"|\bos\.(?:fork|fchmod|f?chown|get(?:e?uid|e?gid)|kill|killpg|mkfifo|sched_\w+|setsid|sysconf|uname|wait\w*)\b"
    r"|\bsignal\.(?:SIG(?:KILL|HUP|QUIT|USR1|USR2|CHLD|ALRM|PIPE|STOP|CONT)|alarm|pause|pthread_\w+|setitimer|sigwait)\b"
    r"|[\"'](?:/proc|/sys|/dev)/|\bAF_UNIX\b",
    re.MULTILINE,
)


def calls(pattern: re.Pattern[str], text: str) -> list[str]:
    return [match.group().strip() for match in pattern.finditer(text)]


def test_only_one_module_of_the_crates_calls_the_operating_system() -> None:
    found = {
        name: calls(ONLY_SOME_IN_RUST, path.read_text())
        for path in files(".rs", under=["rust"])
        if "/src/" in (name := name_of(path)) and not name.startswith("rust/fuzz/")
    }
    assert {name for name, called in found.items() if called} == {RUST}


def test_only_one_module_of_the_package_calls_the_operating_system() -> None:
    found = {
        name_of(path): calls(ONLY_SOME_IN_PYTHON, path.read_text()) for path in files(".py", under=["python/rota"])
    }
    assert {name for name, called in found.items() if called} == {PYTHON}


@pytest.mark.parametrize(
    "planted",
    [
        "import fcntl",
        "    from resource import getrlimit",
        "os.kill(1, 2)",
        "os.fchown(1, 2, 3)",
        "signal.SIGKILL",
        'Path("/proc/1/fd")',
    ],
)
def test_a_call_of_python_is_noticed(planted: str) -> None:
    assert calls(ONLY_SOME_IN_PYTHON, f"x = 1\n{planted}\n")


@pytest.mark.parametrize(
    "planted", ["use std::os::unix::fs::FileExt as _;", "os::fd::AsRawFd", "rustix::fs::sync()", "#[cfg(unix)]"]
)
def test_a_call_of_rust_is_noticed(planted: str) -> None:
    assert calls(ONLY_SOME_IN_RUST, planted)


def test_every_function_for_unix_has_one_for_windows() -> None:
    text = (ROOT / RUST).read_text()
    signatures = {
        system: set(re.findall(rf"#\[cfg\({system}\)\]\npub (fn \w+)", text)) for system in ("unix", "windows")
    }
    assert signatures["unix"] == signatures["windows"]
    assert signatures["unix"]
