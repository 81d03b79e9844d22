"""One client program in its own process: requests to it, what it said, and how it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from harness.builds import ROOT
from rota.security import client_config

from .family import Family

Owned = frozenset[tuple[str, int]]

REPLY_WITHIN_S = 45
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ClientError(AssertionError):
    """A request that the client answered with an error of its own."""

    def __init__(self, asked: str, error: dict[str, Any]) -> None:
        super().__init__(f"{asked}: {error['name']} (code {error['code']}): {error['text']}")
        self.error = error


class Client:
    """A client of one family. Times are milliseconds of CLOCK_MONOTONIC."""

    def __init__(
        self, family: Family, name: str, bootstrap: str, log: Path, security: dict[str, Any] | None = None
    ) -> None:
        self.family = family
        self.name = name
        self.log = log
        self.events: list[dict[str, Any]] = []
        self._bootstrap = bootstrap
        self._security = security or {}
        self._properties = client_config("java", bootstrap, **self._security)
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._requests = 0
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                family.command(),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def __repr__(self) -> str:
        return f"<{self.family.name} {self.name}>"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "id" in said:
                self._replies.put(said)
            else:
                self.events.append(said)
        self._replies.put({"ok": False, "error": {"name": "Ended", "code": -1, "fatal": True, "text": self.story()}})

    @property
    def ended(self) -> bool:
        """Whether its process is no more."""
        return self._process.poll() is not None

    def send(self, asked: str, **arguments: Any) -> None:
        """Asks without waiting for the reply (`reply`)."""
        self._requests += 1
        request = {"id": self._requests, "do": asked, "bootstrap": self._bootstrap, "client_id": self.name}
        request |= {"security": self._security, "properties": self._properties} | arguments
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def reply(self, within_s: float = REPLY_WITHIN_S) -> dict[str, Any]:
        """The reply to the last request; an error of the client is in `error`."""
        try:
            return self._replies.get(timeout=within_s)
        except queue.Empty:
            raise AssertionError(f"{self!r} did not reply within {within_s:g} s\n{self.story()}") from None

    def ask(self, asked: str, within_s: float = REPLY_WITHIN_S, **arguments: Any) -> dict[str, Any]:
        """Asks, and waits for the reply. Raises ClientError if the client answers an error."""
        self.send(asked, **arguments)
        reply = self.reply(within_s)
        if not reply["ok"]:
            raise ClientError(f"{self!r} {asked}", reply["error"])
        return reply

    @property
    def owned(self) -> Owned:
        """The partitions that the client said it owns, last."""
        told = [event for event in list(self.events) if event["event"] == "owned"]
        return frozenset((topic, partition) for topic, partition in told[-1]["partitions"]) if told else frozenset()

    def of_kind(self, kind: str, since_ms: float = 0) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == kind and event["at_ms"] >= since_ms]

    def callbacks(self, since_ms: float = 0) -> list[tuple[str, Owned]]:
        """The calls of the rebalance callbacks, in order; calls without partitions are left out."""
        told = [(e["name"], frozenset((t, p) for t, p in e["partitions"])) for e in self.of_kind("callback", since_ms)]
        return [(name, partitions) for name, partitions in told if partitions]

    def messages(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of every message, as read."""
        return [(e["partition"], e["offset"], e["value"]) for e in self.of_kind("message")]

    def commit(self, offsets: list[tuple[str, int, int]] | None = None) -> dict[int, int]:
        """Commits (synchronously); the committed offset of each partition."""
        committed = self.ask("commit", offsets=offsets)["offsets"]
        return {partition: offset for _, partition, offset in committed}

    def leave(self) -> None:
        """Closes the client: it leaves its group and its process ends."""
        self.ask("close")
        self._process.wait(timeout=REPLY_WITHIN_S)

    def kill(self) -> float:
        """SIGKILL: nothing is said to the broker. Returns when (ms)."""
        self._process.kill()
        self._process.wait()
        return time.monotonic() * 1000

    def freeze(self) -> None:
        """SIGSTOP: the client misses everything until `thaw`."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """Processor time used so far, in seconds."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S

    def stop(self) -> None:
        """Ends the process whatever it is doing (also frozen)."""
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # a request that the killed program never read
                    pipe.close()

    def story(self, events: int = 12, lines: int = 15) -> str:
        """What it said last and the end of its log, for a failure's message."""
        told = "\n".join(f"    {json.dumps(event)}" for event in self.events[-events:])
        log = "\n".join(f"    {line}" for line in self.log.read_text(errors="replace").splitlines()[-lines:])
        return f"  {self!r} ({self.log}):\n{told}\n{log}"
