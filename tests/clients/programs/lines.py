"""Requests in, replies and events out, one JSON object a line: the part that the Python programs share.

Lists the requests in `serve`; README.md describes each. A program's standard output carries nothing else, its
standard error is its log.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from rota.security import Certificate, Login, client_config

Request = dict[str, Any]
Offsets = list[tuple[str, int, int]]

GIVE_UP = threading.Event()
"""Set by the request `give_up`, for which a callback of a member that keeps its partitions waits."""

DEBUG = os.environ.get("ROTA_TEST_DEBUG", "") not in ("", "0")
"""Whether the clients log everything they do (`README.md`)."""


class Partition(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


class GroupConsumer(Protocol):
    """A member of a group; made by the request `consume`."""

    def turn(self) -> None:
        """One poll of at most `poll_ms`; writes what was read and what is owned."""

    def commit(self, offsets: Offsets | None) -> Offsets:
        """Commits the given offsets, or everything read from the partitions it owns; what was committed."""

    def close(self) -> None:
        """Leaves the group."""


class FailedError(Exception):
    """A client's own error, in the terms that every family shares."""

    def __init__(self, name: str, code: int, fatal: bool, text: str) -> None:
        super().__init__(text)
        self.told = {"name": name, "code": code, "fatal": fatal, "text": text}


def protected(family: str, request: Request) -> dict[str, Any]:
    """The broker's addresses and the security of a request, as a client of this family has them."""
    security = dict(request.get("security") or {})
    if security.get("client") is not None:
        security["client"] = Certificate(*security["client"])
    if security.get("login") is not None:
        security["login"] = Login(*security["login"])
    return client_config(family, request["bootstrap"], **security)


_writing = threading.Lock()


def write(line: dict[str, Any]) -> None:
    """Writes one line, with the time (`at_ms`, CLOCK_MONOTONIC) at which it was written."""
    with _writing:
        line["at_ms"] = time.monotonic() * 1000
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def event(kind: str, /, **facts: Any) -> None:
    write({"event": kind, **facts})


def callback(name: str, partitions: Iterable[Partition]) -> None:
    event("callback", name=name, partitions=[[p.topic, p.partition] for p in partitions])


class Ownership:
    """Tells what a member owns, whenever it changed."""

    def __init__(self) -> None:
        self._told: set[tuple[str, int]] = set()

    def tell(self, partitions: Iterable[Partition]) -> None:
        now = {(p.topic, p.partition) for p in partitions}
        if now != self._told:
            self._told = now
            event("owned", partitions=sorted(now))


def _read(requests: queue.Queue[Request]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "give_up":  # The thread that polls is in a callback.
            GIVE_UP.set()
            write({"id": request["id"], "ok": True})
        else:
            requests.put(request)
    os._exit(0)  # the test that drove this program is gone


def serve(
    join: Callable[[Request], GroupConsumer],
    tools: Mapping[str, Callable[[Request], Any]],
    explain: Callable[[Exception], FailedError],
) -> None:
    """Answers requests until `close`; polls the consumer in between."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if DEBUG else logging.WARNING, format="%(asctime)s %(name)s %(message)s"
    )
    requests: queue.Queue[Request] = queue.Queue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    consumer: GroupConsumer | None = None
    failed = False
    while True:
        try:
            request = requests.get(block=consumer is None or failed)
        except queue.Empty:
            assert consumer is not None
            try:
                consumer.turn()
            except Exception as thrown:
                told = (thrown if isinstance(thrown, FailedError) else explain(thrown)).told
                failed = bool(told["fatal"])
                event("error", **told)
            continue
        reply: dict[str, Any] = {"id": request["id"], "ok": True}
        asked = request["do"]
        try:
            if asked == "consume":
                consumer = join(request)
            elif asked == "commit" and consumer is not None:
                reply["offsets"] = consumer.commit(request.get("offsets"))
            elif asked == "close":
                if consumer is not None:
                    consumer.close()
            else:
                reply["result"] = tools[asked](request)
        except Exception as thrown:
            reply |= {"ok": False, "error": (thrown if isinstance(thrown, FailedError) else explain(thrown)).told}
        write(reply)
        if asked == "close":
            os._exit(0)
