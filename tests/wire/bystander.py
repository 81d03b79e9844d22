"""A client that must not notice what others do, and what the process holds meanwhile."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.raw import NONE, Member

PATIENCE_S = 60


@contextmanager
def a_healthy_client(address: tuple[str, int]) -> Iterator[None]:
    """A member that sends heartbeats all the while; each of them must be answered NONE, before and after."""
    beats, stop, failure = threading.Semaphore(0), threading.Event(), list[BaseException]()

    def beat() -> None:
        try:
            with Member(address, "healthy") as member:
                while not stop.is_set():
                    assert member.heartbeat() == NONE
                    beats.release()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=beat)
    thread.start()
    assert beats.acquire(timeout=PATIENCE_S)
    try:
        yield
        while beats.acquire(blocking=False):
            pass
        assert beats.acquire(timeout=PATIENCE_S)
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not failure


def resident_bytes() -> int:
    """Of this process, the server's threads included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
