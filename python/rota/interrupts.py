"""Ctrl-C ends a command soon, whatever it is doing.

Python turns SIGINT into KeyboardInterrupt in the main thread, as soon as that runs bytecode. That is too late if the
thread waits for compiled code. It can also end in a deadlock: an interrupt after the taking of a lock and before the
`with` that gives it back leaves the lock held, and `concurrent.futures.wait` takes a lock for each future.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

from rota import system
from rota.exits import INTERRUPTED, complain

Job = TypeVar("Job")
Result = TypeVar("Result")

GRACE_S = 1.5
"""How long a command may tidy up after the first SIGINT."""
PATIENCE_S = 0.5
"""How long jobs that run are waited for when nothing needs their results any more."""
LOOK_S = 0.2
_asked = threading.Event()
_watching = threading.Event()
_lost = threading.Event()
_grace_s = GRACE_S


def watch() -> None:
    """From now on the process and its children end within `GRACE_S` of SIGINT, or at once at a second one.

    Its exit code is then 130.
    Does nothing where SIGINT is ignored, as in the background of a shell without job control.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    _watching.set()
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    sys.unraisablehook = _unraisable
    # For the resource tracker of multiprocessing: it removes the semaphores that `end` leaves, without a warning.
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    threading.Thread(target=_end, args=(heard, told), name="interrupts", daemon=True).start()


def are_watched() -> bool:
    """Whether `watch` is in effect, as in every command but `rota serve`."""
    return _watching.is_set()


def were_asked() -> bool:
    """Whether SIGINT has come since `watch`."""
    return _asked.is_set()


def were_lost() -> bool:
    """Whether SIGINT has come inside a callback of the interpreter, which goes on."""
    return _lost.is_set()


def is_behind(error: BaseException) -> bool:
    """Whether an interrupt caused an error."""
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or is_behind(cause))


def _unraisable(raised: sys.UnraisableHookArgs) -> None:
    """An interrupt inside a callback of the interpreter is lost, and needs no traceback: `_end` ends the process."""
    if issubclass(raised.exc_type, KeyboardInterrupt):
        _lost.set()
    else:
        sys.__unraisablehook__(raised)


def allow(grace_s: float) -> None:
    """Let the process tidy up for `grace_s` after SIGINT, where it would leave something behind on a server."""
    global _grace_s
    _grace_s = grace_s


def _end(heard: socket.socket, _told: socket.socket) -> None:
    while signal.SIGINT not in heard.recv(64):
        pass
    _asked.set()
    heard.settimeout(_grace_s)
    with contextlib.suppress(TimeoutError):
        while signal.SIGINT not in heard.recv(64):
            pass
    complain("interrupted")
    end(INTERRUPTED)


def end(exit_code: int, scratch: Path | None = None) -> NoReturn:
    """End the process and its children at once: no `finally` runs, and output that is not flushed is lost.

    The directory `scratch` is removed once no child writes to it.
    """
    tracker = _tracker()
    for child in system.descendants(os.getpid()):
        # One that has ended meanwhile is none any more.
        with contextlib.suppress(OSError):
            if child != tracker:
                system.kill(child)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(exit_code)


def _tracker() -> int | None:
    """The process of multiprocessing that removes named semaphores once this process has ended, if there is one."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    return None if module is None else module._resource_tracker._pid


def completed(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    threads: int,
    patience_s: float = PATIENCE_S,
    stop: Callable[[], None] = lambda: None,
) -> Generator[Result]:
    """`work` done on every job by so many threads, in the order in which they end. An error of `work` is raised.

    If the generator ends early, also by an interrupt, no other job begins, `stop` is called, and the jobs that run are
    waited for, at most `patience_s`. The threads end with the process.
    """
    todo: SimpleQueue[Job] = SimpleQueue()
    done: SimpleQueue[Result | BaseException] = SimpleQueue()
    left = 0
    for job in jobs:
        todo.put(job)
        left += 1
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            try:
                job = todo.get_nowait()
            except Empty:
                return
            try:
                done.put(work(job))
            except BaseException as error:
                # Raised again by the one who waits.
                done.put(error)

    workers = [threading.Thread(target=run, name=f"worker-{at}", daemon=True) for at in range(min(threads, left))]
    try:
        # An interrupt may come here: under load it takes long to start many threads.
        for worker in workers:
            worker.start()
        while left:
            try:
                result = done.get(timeout=LOOK_S)
            except Empty:
                continue
            left -= 1
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        is_over.set()
        if left:
            stop()
        patient_until = time.monotonic() + patience_s
        for worker in filter(threading.Thread.is_alive, workers):
            worker.join(max(0.0, patient_until - time.monotonic()))
