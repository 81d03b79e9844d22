"""Ctrl-C ends every long command soon, with its exit code and without a process left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import pytest

import rota
from rota import exits, interrupts
from tests.clients.eventually import eventually

AT_WORK_WITHIN_S = 120.0
ENDS_WITHIN_S = 60.0
"""A guard against hanging: how long an end takes is printed, not asserted."""
BUSY_CPU_S = 2.0
"""CPU time that a command has used once it does more than start."""
SETTINGS = {"group.initial.rebalance.delay.ms": 200}


class Started:
    """A command that runs, on a terminal of its own."""

    def __init__(self, words: list[str], directory: Path) -> None:
        terminal, its_end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota", *words], cwd=directory, stdin=its_end, stdout=its_end, stderr=its_end
        )
        os.close(its_end)
        self._terminal = terminal
        self.printed = b""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._terminal, 4096)
            except OSError:
                # Nobody writes to it any more.
                return
            self.printed += some

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def cpu_s(self) -> float:
        return _cpu_s(self.process.pid)

    def children(self) -> list[int]:
        return interrupts.descendants(self.process.pid)

    def close(self) -> None:
        for pid in [*self.children(), self.process.pid]:
            if not self.has_ended() or pid != self.process.pid:
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(ENDS_WITHIN_S)
        os.close(self._terminal)


class Place(NamedTuple):
    """What commands work on."""

    server: rota.Server
    directory: Path


def busy(_: Place, started: Started) -> bool:
    return started.cpu_s() >= BUSY_CPU_S


def has_children(_: Place, started: Started) -> bool:
    return bool(started.children())


def has_busy_children(_: Place, started: Started) -> bool:
    """Python processes that are starting are no work yet."""
    return sum(map(_cpu_s, started.children())) >= BUSY_CPU_S


def has_printed(_: Place, started: Started) -> bool:
    return started.printed.count(b"\n") >= 2


def has_said(_: Place, started: Started) -> bool:
    return bool(started.printed)


def has_java(_: Place, started: Started) -> bool:
    return any("java" in _words(pid) for pid in started.children())


def has_groups(place: Place, _: Started) -> bool:
    return bool(place.server.groups())


def has_written(place: Place, _: Started) -> bool:
    return any(path.stat().st_size for path in (place.directory / "worlds").rglob("*.log"))


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # It has ended.
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


class Case(NamedTuple):
    """A command, how to see that it is at work, and the exit codes that its help allows after Ctrl-C."""

    words: str
    is_at_work: Callable[[Place, Started], bool]
    codes: tuple[int, ...] = (exits.INTERRUPTED,)


CASES = [
    Case("conform --bootstrap-server {kafka} --jobs 16", has_groups),
    Case("check differential --jobs 2", has_busy_children),
    Case("check exploration --jobs 2", busy),
    Case("check simulation --jobs 2", busy),
    Case("check proofs --jobs 2", has_busy_children),
    Case("simulate --seeds 0..1000000 --jobs 2", busy),
    Case("simulate --seeds 0..1000000 --journal worlds", has_written),
    Case("bench serve --seconds 60", has_children),
    Case("bench join --members 2000", has_children),
    Case("bench heartbeat --members 1000000", busy),
    Case("bench floors --dir . --seconds 60", has_said),
    Case("demo --duration 60", has_printed),
    Case("top --http {http}", has_printed, (0, exits.INTERRUPTED)),
    Case("groups watch g --bootstrap-server {kafka}", has_printed, (0, exits.INTERRUPTED)),
    Case("serve --listen 127.0.0.1:0", lambda _, started: b" ready on " in started.printed, (0,)),
    Case(
        "serve --listen 127.0.0.1:0 --data data --journal --http 127.0.0.1:0",
        lambda _, started: b" ready on " in started.printed,
        (0,),
    ),
    Case("audit journal", has_java),
    Case("audit journal --follow", has_java, (0, exits.INTERRUPTED)),
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t", partitions=2)
        yield Place(server, tmp_path)


def command_of(case: Case, place: Place) -> list[str]:
    root = Path(__file__).parents[2]
    named = {"kafka": place.server.bootstrap_servers, "http": place.server.http_address, "root": root}
    return [word.format(**named) for word in case.words.split()]


def prepare(case: Case, place: Place) -> None:
    if "journal --" in case.words or case.words.endswith("audit journal"):
        with rota.Server(journal=place.directory / "journal") as server:
            server.create_topic("t")
    if case.words.startswith("groups"):
        from confluent_kafka import TopicPartition

        from tests.http.asking import commit

        commit(place.server, "g", TopicPartition("t", 0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.words.split(" --")[0] + f" {at}" for at, case in enumerate(CASES)])
def test_ctrl_c_ends_it(case: Case, place: Place) -> None:
    prepare(case, place)
    started = Started(command_of(case, place), place.directory)
    try:
        eventually(lambda: started.has_ended() or case.is_at_work(place, started), AT_WORK_WITHIN_S, "it is at work")
        assert not started.has_ended(), f"it ended before: {started.printed.decode()}"
        children = started.children()
        began = time.monotonic()
        started.process.send_signal(signal.SIGINT)
        code = started.process.wait(ENDS_WITHIN_S)
        print(f"{case.words}: {time.monotonic() - began:.2f} s, exit code {code}")
        assert code in case.codes, started.printed.decode()
        assert b"Traceback" not in started.printed, started.printed.decode()
        eventually(lambda: not any(_words(child) for child in children), ENDS_WITHIN_S, "no child is left")
    finally:
        started.close()


def test_every_command_that_may_run_for_long_is_tried() -> None:
    from rota.cli import COMMANDS

    short = {"assign", "why", "state", "settings", "config", "log", "plant"}
    assert {case.words.split()[0] for case in CASES} == set(COMMANDS) - short


def test_an_error_of_the_work_is_raised_and_no_other_job_begins() -> None:
    begun, was_raised, has_ended = [], Event(), Event()

    def work(job: int) -> int:
        begun.append(job)
        if job == 1:
            raise ValueError(job)
        if job == 2:
            was_raised.wait(ENDS_WITHIN_S)
            has_ended.set()
        return job

    with pytest.raises(ValueError, match="1"):
        list(interrupts.completed(work, range(1000), 1))
    was_raised.set()
    assert has_ended.wait(ENDS_WITHIN_S)
    assert begun == [0, 1, 2]


def test_the_work_is_done_once_for_every_job() -> None:
    assert sorted(interrupts.completed(lambda job: job * 2, range(100), 7)) == list(range(0, 200, 2))
    assert list(interrupts.completed(lambda job: job, [], 7)) == []
