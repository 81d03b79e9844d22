"""How a command ends. Exit codes: 0 all well, 1 it failed, 2 it was called wrongly, 130 it was interrupted."""

from __future__ import annotations

import sys
from typing import NoReturn

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


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
