"""Ends processes of the demo if the demo itself was killed. `python -m rota.demo.guard`.

It takes lines on stdin: `+PID` a process began, `-PID` it has ended. When stdin ends, it kills those that are left.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from rota import system


def main() -> None:
    """Follow the lines until their end."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # both are the demo's to handle
    running: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        (running.add if line.startswith("+") else running.discard)(pid)
    for pid in running:
        with suppress(ProcessLookupError):
            system.kill(pid)


if __name__ == "__main__":
    main()
