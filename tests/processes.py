"""The processes that tests start: they get the usual signals, and none outlives the test that started it.

pytest may run below a shell that ignores SIGINT or SIGHUP (a script's background job, `nohup`). Children inherit
that. A test that fails half way may not reach the line that ends its process. `tests/conftest.py` calls these
functions around every test, so that a test need not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 2.0
KILLED_WITHIN_S = 10.0
# Started once, by a library or by `harness`, and kept for later tests; each ends with this process.
KEPT = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "org.apache.spark.deploy",
    "harness/kafka/Tools.java",
)


def prepare() -> None:
    """Give children the default SIGINT and SIGHUP, and become the parent of children's children that lose theirs."""
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A handler, so that pytest itself still outlives its terminal; children do not inherit handlers.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children() -> set[int]:
    """The processes whose parent is this one and that have not ended."""
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, listed.read_text().split()))
    return {pid for pid in found if not _has_ended(pid)}


def end_all_but(kept: set[int]) -> list[str]:
    """End the children that are not in `kept`, and theirs. Returns the command lines of those that had to be killed.

    A child that is about to end has `GRACE_S` seconds for it.
    """

    def left() -> set[int]:
        return {pid for pid in children() - kept if not any(mark in _words(pid) for mark in KEPT)}

    deadline = time.monotonic() + GRACE_S
    for pid in left():
        _wait(pid, deadline - time.monotonic())
    killed = []
    while remaining := left():
        for pid in remaining:
            killed.append(_words(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _wait(pid, KILLED_WITHIN_S)
    return killed


def _wait(pid: int, seconds: float) -> None:
    """Wait for the end of a child without collecting its exit code, which belongs to its parent."""
    with contextlib.suppress(ProcessLookupError):
        end = os.pidfd_open(pid)
        try:
            select.select([end], [], [], max(0.0, seconds))
        finally:
            os.close(end)
