"""How far a long command is, on stderr: one line that is overwritten on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rota.exits import complain

EVERY_S = 10.0
"""Between two lines, as in the log of a CI system."""
CLEARED_LINE = "\r\x1b[K"


@contextmanager
def shown() -> Iterator[Callable[[str], None]]:
    """Takes what is under way: `with shown() as say: say("2 of 9 worlds")`. At the end a terminal's line is cleared."""
    if not sys.stderr.isatty():
        with Lines() as lines:
            yield lines
        return
    try:
        yield _overwrite
    finally:
        _overwrite("")


def _overwrite(text: str) -> None:
    """Replaces the line of a terminal."""
    sys.stderr.write(f"{CLEARED_LINE}{text}")
    sys.stderr.flush()


class Lines:
    """Prints the latest text every `EVERY_S` within its `with` block: `with Lines() as say: say("2 of 9 worlds")`."""

    def __init__(self) -> None:
        self._text = ""
        self._began_s = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._print, args=(EVERY_S,), name="progress", daemon=True)

    def __call__(self, text: str) -> None:
        """How far it is; empty: nothing to say."""
        self._text = text

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _print(self, every_s: float) -> None:
        while not self._over.wait(every_s):
            if self._text:
                complain(f"{self._text} (after {time.monotonic() - self._began_s:.0f} s)")
