"""What depends on the operating system: processes, signals and CPU time, the cores they run on, and owners of files.

No other module calls what only some systems have (`tests/checks/test_platforms.py`).
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue


class Flag:
    """What a signal handler may set while the main thread waits for it.

    `threading.Event` would wait there for a lock that its own `wait` holds.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and end the wait."""
        self._is_set = True
        self._wakes.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for so many seconds at most. Returns whether it is."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=timeout)
        return self._is_set


def is_running(pid: int) -> bool:
    """Whether there is a process with this number; on Windows, where signal 0 is Ctrl-C, any number may be one."""
    if pid <= 0:
        return False
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def kill(pid: int) -> None:
    """End a process at once. Raises OSError if it has ended, or is another user's."""
    # Windows has no SIGKILL; there any number that is no console event ends the process.
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def pause(pid: int) -> None:
    """Stop a process with SIGSTOP; it does not notice. Raises OSError if it has ended."""
    os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """Let a paused process go on. Raises OSError if it has ended."""
    os.kill(pid, signal.SIGCONT)


def on_hangup(call: Callable[[], object]) -> None:
    """Call this at each SIGHUP, in the main thread, where the system has that signal."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: call())


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs. None are known where there is no /proc."""
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in listed.read_text(encoding="ascii").split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def cpu_s(pid: int) -> float | None:
    """CPU seconds that all threads of a process have used; None where there is no /proc, or no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cores() -> list[int]:
    """The cores that this process may use; empty where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def pin(pid: int, cores: Sequence[int]) -> None:
    """Keep a process, or this one with 0, on these cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, cores)


def keep_owner_and_mode(handle: int, before: os.stat_result) -> None:
    """Give an open file the owner, group and mode of another one, where files have them. Raises OSError."""
    if hasattr(os, "fchown"):
        now = os.fstat(handle)
        if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            os.fchown(handle, before.st_uid, before.st_gid)
        os.fchmod(handle, stat.S_IMODE(before.st_mode))


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Within, no other process is within a `locked` of this directory: it waits. Nothing is left in the directory.

    Windows, some network filesystems and a directory that cannot be read have no such lock, so nothing waits there.
    """
    try:
        import fcntl

        handle = os.open(directory, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # Ends the lock, too.
        os.close(handle)
