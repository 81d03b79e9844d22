"""How a command ends. CONTRIBUTING.md has the table of exit codes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

FAILED = 1
"""It failed, or what was checked is not as it should be."""
MISUSED = 2
"""An option, a value or a file is wrong; nothing was done."""
NOT_FOUND = 3
"""A group, member, topic, partition or journal that was named is not there."""
IN_USE = 4
"""The group has members."""
UNREACHABLE = 5
"""No server answered."""
INTERRUPTED = 130
"""SIGINT."""


def reason_of(error: Exception) -> str:
    """What is wrong with a file, without the number of the system's error; the text of any other error."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"`{error.filename}`: {error.strerror}"
    return str(error)


def installs(extra: str) -> str:
    """How to install an extra of rota, which no package index has."""
    return f"pip install '.[{extra}]' in a checkout of rota, or 'rota-….whl[{extra}]' with the path of a wheel"


def on_stderr(line: str) -> None:
    """The line, if there is a stderr: `print` would take stdout for one that is closed."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """What is wrong, as one line on stderr."""
    on_stderr(f"rota: {message}")


def fail(code: int, message: str) -> NoReturn:
    """End with one line on stderr: what was wrong, with what value, what to do."""
    complain(" ".join(message.split()))
    raise SystemExit(code)


def existing_directory(path: Path, option: str | None = None) -> None:
    """End with exit code 2 unless the path, the value of an option if one is named, is a directory."""
    if path.is_dir():
        return
    given = f"`{path}`" if option is None else f"{option} is `{path}`"
    fail(MISUSED, f"{given}: {'it is a file, give a directory' if path.exists() else 'there is no such directory'}")
