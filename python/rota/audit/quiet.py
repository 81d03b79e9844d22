"""Java's stderr without what it prints each time that it starts."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

CHATTER = (b"WARNING: Using incubator modules", b"WARNING: package sun.security.action not in java.base")
"""How the lines begin that are left out."""

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


def _forward(source: int, target: int) -> None:
    with open(source, "rb", buffering=0) as lines, open(target, "wb", buffering=0) as stderr:
        rest = b""
        while block := lines.read(65_536):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                if not line.startswith(CHATTER):
                    stderr.write(line + b"\n")
        stderr.write(rest)


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Processes that are started meanwhile write to stderr without `CHATTER`, for as long as they run."""
    kept = os.dup(2)
    source, target = os.pipe()
    threading.Thread(target=_forward, args=(source, os.dup(kept)), name="rota-stderr", daemon=True).start()
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
