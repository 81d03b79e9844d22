"""Java's stderr: without what it prints each time, or nothing of it until something fails."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

CHATTER = (
    b"WARNING: Using incubator modules",
    b"WARNING: package sun.security.action not in java.base",
    b"Starting Streaming TransformWithStateInPandas",
    b"Streaming TransformWithStateInPandas Python worker",
)
"""How the lines begin that are left out."""
KEPT_LINES = 100
"""The last lines of a Java that is quiet, for when it fails."""

LOG_SETTINGS = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
"""
"""Of log4j: errors only. What Spark warns of at each start is about the machine, not about the logs.

Without a level of its own for the gateway Spark sets back the root's, and says so.
"""


def log_option(directory: Path) -> str:
    """The option of Java that makes it log so; the file is in this directory and must stay until Java has started."""
    file = directory / "log4j2.properties"
    file.write_text(LOG_SETTINGS, encoding="utf-8")
    return f"-Dlog4j2.configurationFile={file.as_uri()}"


class Said:
    """What processes write to stderr, as it comes or only on demand."""

    def __init__(self, stderr: int, *, is_quiet: bool) -> None:
        self._stderr = stderr
        self._is_quiet = is_quiet
        self._kept: deque[bytes] = deque(maxlen=KEPT_LINES)

    def line(self, line: bytes) -> None:
        """A line that was written."""
        if not line.strip() or line.startswith(CHATTER):
            return
        if self._is_quiet:
            self._kept.append(line)
        else:
            os.write(self._stderr, line + b"\n")

    def show(self) -> None:
        """Print the last lines that were kept back."""
        self._is_quiet = False
        while self._kept:
            self.line(self._kept.popleft())


def _forward(source: int, said: Said) -> None:
    with open(source, "rb", buffering=0) as lines:
        rest = b""
        while block := lines.read(65_536):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                said.line(line)
        said.line(rest)


@contextlib.contextmanager
def without_chatter(*, is_quiet: bool = False) -> Iterator[Said]:
    """Processes that are started meanwhile write to stderr without `CHATTER`, for as long as they run; with `is_quiet`
    nothing until `show` of what this gives."""
    kept = os.dup(2)
    try:
        said = _redirected(kept, is_quiet=is_quiet)
    except BaseException:
        os.close(kept)
        raise
    try:
        yield said
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _redirected(kept: int, *, is_quiet: bool) -> Said:
    """Puts a pipe in the place of stderr, and starts the thread that reads it; `kept` is stderr as it was. The thread
    closes its end of the pipe when all writers are gone."""
    opened: list[int] = []
    try:
        opened.append(os.dup(kept))
        source, target = os.pipe()
        opened += [source, target]
        said = Said(opened[0], is_quiet=is_quiet)
        reader = threading.Thread(target=_forward, args=(source, said), name="rota-stderr", daemon=True)
        reader.start()
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise
    os.dup2(target, 2)
    os.close(target)
    return said
