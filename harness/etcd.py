"""A member of etcd on loopback, with or without TLS."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.brokers import free_port

READY_WITHIN_S = 60.0


def is_installed() -> bool:
    """Whether tests can start etcd (Debian: etcd-server and etcd-client)."""
    return shutil.which("etcd") is not None and shutil.which("etcdctl") is not None


class Etcd:
    """One member, which ends with its `with` block."""

    def __init__(self, folder: Path, flags: Sequence[str] = (), scheme: str = "http", ctl: Sequence[str] = ()) -> None:
        """`flags` are for etcd, `ctl` for etcdctl."""
        self.port, peer = free_port(), free_port()
        self.folder, self._ctl = folder, list(ctl)
        client, other = f"{scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        self._command = ["etcd", "--name", "m", "--data-dir", str(folder / "m"), "--log-level", "error"]
        self._command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--logger", "zap"]
        self._command += ["--listen-peer-urls", other]
        self._peers = ["--initial-cluster", f"m={other}", "--initial-advertise-peer-urls", other]
        self._command += [*self._peers, *flags]
        self._endpoint = client
        self._running: subprocess.Popen[bytes] | None = None

    def url(self, prefix: str = "rota", scheme: str = "etcd") -> str:
        """What `--engine` takes."""
        return f"{scheme}://127.0.0.1:{self.port}/{prefix}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "etcd.log").open("ab") as log:
            self._running = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_WITHIN_S
        while self._ask("endpoint", "health").returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError((self.folder / "etcd.log").read_text(errors="replace")[-2_000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None

    def restore(self, backup: Path) -> None:
        """Go back to what `etcdctl snapshot save` has saved. It must have ended."""
        data = self.folder / "m"
        shutil.rmtree(data)
        self.control("snapshot", "restore", str(backup), "--name", "m", "--data-dir", str(data), *self._peers)

    def control(self, *words: str) -> str:
        """What `etcdctl` prints."""
        ended = self._ask(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def put(self, key: str, value: bytes) -> None:
        """Write any bytes, past rota."""
        written = self._run("put", key, value=value)
        assert written.returncode == 0, written.stderr.decode()

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        ended = self._run(*words)
        said, errors = ended.stdout.decode(), ended.stderr.decode()
        return subprocess.CompletedProcess(ended.args, ended.returncode, said, errors)

    def _run(self, *words: str, value: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """`etcdctl` with these words, and a value on stdin."""
        command = ["etcdctl", "--endpoints", self._endpoint, *self._ctl, *words]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run(command, input=value, capture_output=True, check=False, env=environment)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
