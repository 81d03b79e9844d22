"""Servers of PostgreSQL on loopback. PostgreSQL refuses to run as root, so root runs it as the user `postgres`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.brokers import free_port
from harness.small_disk import SmallDisk

USER = "postgres"
READY_WITHIN_S = 60.0
SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=16MB", "max_connections=100")
INITIALIZED = ("--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8", "--locale", "C")
TABLES_MB, WAL_MB = 96, 64
SMALL_SETTINGS = ("min_wal_size=2MB", "max_wal_size=16MB", "wal_keep_size=16MB")
"""The log has room beside them, until something fills it."""


def programs() -> Path | None:
    """The directory of initdb: Debian has it beside the PATH."""
    packaged = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(packaged, key=lambda path: int(path.parts[-3]), default=None)
    found = newest or shutil.which("initdb")
    return None if found is None else Path(found).parent


def is_installed() -> bool:
    """Whether tests can start PostgreSQL (Debian: postgresql)."""
    return programs() is not None


def program(name: str, *words: str) -> list[str]:
    """The command of a program, as a user that may run it."""
    folder = programs()
    assert folder is not None
    as_user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--"] if os.geteuid() == 0 else []
    return [*as_user, str(folder / name), *words]


def run(command: Sequence[str]) -> None:
    """Run a program to its end."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert ended.returncode == 0, ended.stderr


@functools.cache
def initialized() -> Path:
    """A directory that initdb has made. A copy of it takes a tenth of the time."""
    folder = Path(tempfile.mkdtemp(prefix="rota-postgres-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    run(program("initdb", *INITIALIZED, "-D", str(folder / "data")))
    return folder / "data"


class Postgres:
    """One server, which ends with its `with` block."""

    def __init__(
        self,
        settings: Sequence[str] = (),
        name: str = "p",
        follows: Postgres | None = None,
        by: int | None = None,
        on_small_disks: bool = False,
    ) -> None:
        """`follows`: it is a copy of that server, which replicates to it under its name; `by`: over another port.

        `on_small_disks`: tables and write-ahead log each have a small file system.
        """
        self.port, self.name = free_port(), name
        # The directories of pytest are not those of another user.
        self._folder = tempfile.TemporaryDirectory(prefix="rota-postgres-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
        self._kept = contextlib.ExitStack()
        self.tables = self._disk("tables", TABLES_MB) if on_small_disks else None
        self.wal = self._disk("wal", WAL_MB) if on_small_disks else None
        self._data = (self.tables.place if self.tables else self.folder) / "data"
        self._wal_data = self.wal.place / "wal" if self.wal else None
        self._made = False
        self._follows = follows
        self._by = by or (follows.port if follows is not None else None)
        small = SMALL_SETTINGS if on_small_disks else ()
        flags = [word for setting in (*SETTINGS, *small, *settings) for word in ("-c", setting)]
        self._command = program("postgres", "-p", str(self.port), "-D", str(self._data), *flags)
        self.running: subprocess.Popen[bytes] | None = None

    def _disk(self, name: str, megabytes: int) -> SmallDisk:
        place = self.folder / name
        place.mkdir()
        disk = self._kept.enter_context(SmallDisk(place, megabytes))
        shutil.chown(place, USER, USER)
        return disk

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"

    def said(self) -> str:
        """All of it so far."""
        return self.log.read_text(errors="replace")

    def is_ended(self) -> bool:
        """Whether it ended by itself, and has to be started."""
        return self.running is None or self.running.poll() is not None

    def url(self, schema: str = "rota") -> str:
        """What `--engine` takes."""
        return f"postgres://{USER}@127.0.0.1:{self.port}/postgres?schema={schema}"

    def _make(self) -> None:
        if self._follows is not None:
            of = f"host=127.0.0.1 port={self._by} user={USER} application_name={self.name}"
            words = ["--write-recovery-conf", "--checkpoint", "fast", "--no-sync", "-d", of]
            command = program("pg_basebackup", *words, *self._places())
        elif self.wal is not None:
            command = program("initdb", *INITIALIZED, "--wal-segsize", "1", *self._places())
        else:
            command = ["cp", "-a", str(initialized()), str(self._data)]
        run(command)

    def _places(self) -> list[str]:
        """Where initdb and pg_basebackup put it."""
        return ["-D", str(self._data), *(["--waldir", str(self._wal_data)] if self._wal_data else [])]

    def begin(self) -> None:
        """Start it."""
        if not self._made:
            self._make()
            self._made = True
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", process_group=0
            )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.begin()
        deadline = time.monotonic() + READY_WITHIN_S
        ready = program("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
        while subprocess.run(ready, check=False, cwd="/").returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError(self.said()[-2_000:])
            time.sleep(0.05)

    def promote(self) -> None:
        """Make a copy a server that takes writes, and wait until it is one."""
        assert self.sql("SELECT pg_promote()") == "t", self.said()[-2_000:]

    def follow(self, primary: Postgres, by: int) -> None:
        """Become a copy of that server, which is reached over another port, whatever this one had."""
        assert self.running is None
        shutil.rmtree(self._data)
        if self._wal_data is not None:
            shutil.rmtree(self._wal_data)
        self._follows, self._by, self._made = primary, by, False
        self.start()

    def signal(self, number: int) -> None:
        """Send a signal to the server and all its sessions."""
        if self.running is not None and self.running.poll() is None:
            leader = self.running.pid
            children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
            for pid in [*map(int, children), leader]:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue

    def kill(self) -> None:
        """End it as a crash does: its sessions end with it, or they would keep its memory."""
        if self.running is not None:
            self.signal(signal.SIGCONT)
            self.running.send_signal(signal.SIGQUIT)
            self.running.wait()
            self.running = None

    def sql(self, statement: str) -> str:
        """What psql prints of a statement."""
        ended = self.try_sql(statement)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def try_sql(self, statement: str) -> subprocess.CompletedProcess[str]:
        """Psql, ended, whatever the server said to a statement."""
        at = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        command = program("psql", *at, "-X", "-A", "-t", "-c", statement)
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")

    def wait_for(self, standby: Postgres) -> None:
        """Commit only what this copy has, too, and wait until it follows."""
        self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{standby.name}'")
        self.sql("SELECT pg_reload_conf()")
        deadline = time.monotonic() + READY_WITHIN_S
        while self.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1":
            if time.monotonic() > deadline:
                raise AssertionError(self.said()[-2_000:])
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, and delete what it has."""
        self.kill()
        self._kept.close()
        self._folder.cleanup()
