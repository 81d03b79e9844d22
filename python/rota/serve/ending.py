"""The end of a server by signal, and reports of its health until then."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, TextIO, cast

import rota
from rota.exits import FAILED, INTERRUPTED, fail
from rota.reporting import Report
from rota.server import Server
from rota.system import Flag, on_hangup
from rota.trace import Sink

LIFE_SIGN_SECONDS = 1.0
JOIN_SECONDS = 0.05
"""A server of a cluster is looked at more often until it is a member."""


class Ending:
    """The end of a server by signal: the first SIGINT or SIGTERM stops it, a second SIGINT does not wait for that."""

    def __init__(self, report: Report) -> None:
        self.asked = Flag()
        self._hung_up = False
        self._report = report
        self._said: set[str] = set()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and self.asked.is_set():
            os._exit(INTERRUPTED)
        self.asked.set()

    def reload_on_hangup(self, server: Server) -> None:
        """From now on SIGHUP does not end the process, but has files read again, if the server has some."""

        def hang_up() -> None:
            self._hung_up = True

        if server.reads_files:
            on_hangup(hang_up)

    def joined(self, server: Server) -> bool:
        """Wait until the server is a member of its cluster, if it has one. False: a signal came, or the server ended.

        The server itself says on stderr what it waits for.
        """
        while (cluster := server.cluster()) is not None and cluster.standing != "member":
            if self.asked.wait(JOIN_SECONDS):
                return False
            try:
                self._visit(server)
            except rota.ServerError:
                return False
        return True

    def wait(self, server: Server) -> bool:
        """Wait for the signal. Raises rota.ServerError if a node ends by itself. Gives whether its data was well.

        What happens to the data directory meanwhile is said on stderr, once.
        """
        while not self.asked.wait(LIFE_SIGN_SECONDS):
            self._visit(server)
        self._say(server)
        self._look(server)
        self._say_lost(server)
        return not self._said

    def _visit(self, server: Server) -> None:
        server.check_running()
        self._say(server)
        self._look(server)

    def _look(self, server: Server) -> None:
        """Report rebalances, and refused connections and requests: that a client is misconfigured is no failure."""
        self._report.look(server)
        if self._hung_up:
            self._hung_up = False
            # What is wrong is in the lines below.
            with suppress(ValueError):
                server.reload()
        for is_well, line in server._inner.take_reloads():
            if is_well:
                self._report.event("reload", message=line)
            else:
                self._report.problem("reload", line)
        for line in server.refused_connections():
            self._report.problem("connection", line)
        for line in server.denied_requests():
            self._report.problem("authorizer", line)

    def _say(self, server: Server) -> None:
        health = server.health()
        if health is None:
            return
        now = [] if health.stopped is None else [f"the log has stopped: {health.stopped}"]
        reason = health.failing or health.last_failure
        if reason is not None:
            # Also of a disk that was full for a moment between two looks.
            now.append(f"the log takes no writes: {reason}")
        now += health.refused
        if health.compaction_error is not None:
            now.append(f"a compaction was given up: {health.compaction_error}")
        for line in now:
            self.say_once("data", line)

    def say_once(self, kind: str, line: str) -> None:
        """Report a problem for which the exit code is 1 in the end."""
        if line not in self._said:
            self._said.add(line)
            self._report.problem(kind, line)

    def _say_lost(self, server: Server) -> None:
        journal = server.journal()
        if journal is not None and journal.lost > 0:
            why = "" if journal.error is None else f": {journal.error}"
            self._report.problem("journal", f"{journal.lost} entries of the journal were dropped{why}")

    def follow(self, server: Server) -> None:
        """Wait for the signal, then stop the server. Exit code 1 if it ended by itself, or its data was not well."""
        try:
            is_well = self.wait(server)
        except rota.ServerError as error:
            fail(FAILED, str(error))
        self.stop(server)
        if not is_well:
            raise SystemExit(FAILED)

    def stop(self, server: Server) -> None:
        """Stop the server while signals are still heard."""
        self._report.event("stopping")
        stopping = threading.Thread(target=server.stop, name="stop")
        stopping.start()
        while stopping.is_alive():
            stopping.join(0.1)
        self._report.event("stopped")


class Printer:
    """Prints a trace on stdout, past Python's own buffer: a reader that does not read must not hold up the end."""

    def __init__(self, ending: Ending, *, as_json: bool) -> None:
        self._ending = ending
        self._is_over = False
        self._begun = threading.Event()
        self.sink: Sink = self._object if as_json else cast("TextIO", self)

    def begin(self) -> None:
        """Nothing is printed before this: the first line is the server's own."""
        self._begun.set()

    def _object(self, line: dict[str, Any]) -> None:
        import json

        self.write(json.dumps(line) + "\n")

    def write(self, text: str) -> None:
        """Print. If the reader is gone, the server ends; if stdout takes nothing more, as on a full disk, the trace."""
        self._begun.wait()
        rest = b"" if self._is_over else text.encode()
        try:
            while rest:
                rest = rest[os.write(sys.stdout.fileno(), rest) :]
        except BrokenPipeError:
            self._ending.asked.set()
        except OSError as error:
            self._is_over = True
            self._ending.say_once("trace", f"stdout takes nothing more, and the trace ends: {error.strerror}")

    def flush(self) -> None:
        """Nothing is kept back."""
