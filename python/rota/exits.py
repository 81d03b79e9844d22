"""How a command ends. CONTRIBUTING.md has the table of exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

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
    """The line, if there is a stderr that takes it: without one a server goes on, and a command ends as it would."""
    # `print` would take stdout for one that is closed.
    if sys.stderr is None:
        return
    # Its reader may have ended, or its disk may be full.
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """What is wrong, as one line on stderr. It may have names in it that clients chose."""
    # Here, because a server that has nothing to complain of does without it.
    from rota.why.words import printable

    on_stderr(f"rota: {printable(message)}")


def fail(code: int, message: str) -> NoReturn:
    """End with one line on stderr: what was wrong, with what value, what to do."""
    complain(" ".join(message.split()))
    raise SystemExit(code)


def no_directory(path: Path, option: str | None = None) -> str | None:
    """What is wrong with a path, the value of an option if one is named, that is no directory. None: it is one."""
    if path.is_dir():
        return None
    given = f"`{path}`" if option is None else f"{option} is `{path}`"
    return f"{given}: {'it is a file, give a directory' if path.exists() else 'there is no such directory'}"


def file_to_write(path: Path, option: str) -> None:
    """End with exit code 2, before the work begins, if no file can be written at the path that is an option's value."""
    # Of a symbolic link, the file that it names is written.
    parent = Path(os.path.realpath(path)).parent
    try:
        existing_directory(parent, f"the directory of {option}")
        if path.is_dir():
            fail(MISUSED, f"{option} is `{path}`: it is a directory, give a file")
        if not os.access(path if path.exists() else parent, os.W_OK):
            fail(MISUSED, f"{option} is `{path}`: this user may not write there, give another file")
    except OSError as error:
        not_written(path, option, error)


def not_written(path: Path, option: str, error: OSError) -> NoReturn:
    """End with exit code 2: the file that an option names cannot be written."""
    fail(MISUSED, f"{option} is `{path}`: {error.strerror or error}")


def file_to_replace(path: Path) -> None:
    """End with exit code 2, before anything is read, if the path leads to what a file must not take the place of."""
    if wrong := no_file(path):
        fail(MISUSED, wrong)


def no_file(path: Path) -> str | None:
    """What is wrong with a path that leads to a directory, a device, a FIFO or a socket. None: a file is or can be
    there."""
    try:
        return f"`{path}` is no file: give a regular file" if path.exists() and not path.is_file() else None
    except OSError as error:
        return f"`{path}`: {error.strerror}"


def existing_directory(path: Path, option: str | None = None) -> None:
    """End with exit code 2 unless the path, the value of an option if one is named, is a directory."""
    if wrong := no_directory(path, option):
        fail(MISUSED, wrong)
