"""Interrupts every long command again and again, at seeded moments, and prints a line for each: `make interrupts`.

A moment is a condition, such as a broker that has groups, and in some rounds a random time after it. In other rounds it
is a random processor time of the command, which may be importing, reading or starting processes then.

A command whose main thread is in compiled code, or in a deadlock, is ended by a thread of `rota.interrupts`. The table
counts these ends as forced, and the program prints the stacks of all threads, which tell the two apart.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import rota
from rota import exits, system
from tests import processes
from tests.clients.eventually import eventually

AT_WORK_WITHIN_S = 120.0
ENDS_WITHIN_S = 60.0
"""A guard against hanging: how long an end takes is printed, not asserted."""
SOON_S = 2.0
BUSY_CPU_S = 1.0
"""CPU time that a command has used once it does more than start."""
LATER_S = 0.5
"""A round interrupts so long after the condition at most."""
SETTINGS = {"group.initial.rebalance.delay.ms": 200}
WORLDS = 90
"""Simulated worlds whose journal is read."""
STACKS = "ended by the thread of rota.interrupts"
LAUNCHER = f"""
import faulthandler, os, sys
main, end = os.getpid(), os._exit
def report_and_end(code):
    if os.getpid() == main:
        os.write(2, b"{STACKS}\\n")
        faulthandler.dump_traceback(2, all_threads=True)
    end(code)
os._exit = report_and_end
from rota.__main__ import run
run()
"""


class Started:
    """A command that runs, on a terminal of its own."""

    def __init__(self, words: list[str], directory: Path) -> None:
        terminal, its_end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *words], cwd=directory, stdin=its_end, stdout=its_end, stderr=its_end
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
                # No process writes to it any more.
                return
            self.printed += some

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def is_watching(self) -> bool:
        """Whether rota handles interrupts already: the interpreter's own start cannot be interrupted cleanly."""
        return len(list(Path(f"/proc/{self.process.pid}/task").glob("*"))) > 1

    def cpu_s(self) -> float:
        return _cpu_s(self.process.pid)

    def children(self) -> list[int]:
        return system.descendants(self.process.pid)

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
    worlds: Path
    """A journal of simulated worlds."""


def busy(_: Place, started: Started) -> bool:
    return started.cpu_s() >= BUSY_CPU_S


def reads(_: Place, started: Started) -> bool:
    """It has started, and may have read a part of its input."""
    return started.is_watching()


def has_children(_: Place, started: Started) -> bool:
    return bool(started.children())


def has_busy_children(_: Place, started: Started) -> bool:
    """Python processes that are starting are no work yet."""
    return sum(map(_cpu_s, started.children())) >= BUSY_CPU_S


def has_printed(_: Place, started: Started) -> bool:
    return started.printed.count(b"\n") >= 2


def has_said(_: Place, started: Started) -> bool:
    return bool(started.printed)


def is_ready(_: Place, started: Started) -> bool:
    return b" ready on " in started.printed


def has_java(_: Place, started: Started) -> bool:
    return any("java" in words_of(pid) for pid in started.children())


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


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


class Case(NamedTuple):
    """A command, how to see that it runs, and the exit codes that its help allows after Ctrl-C."""

    words: str
    is_at_work: Callable[[Place, Started], bool]
    codes: tuple[int, ...] = (exits.INTERRUPTED,)


CASES = [
    Case("conform --bootstrap-server {kafka} --jobs 16", has_groups),
    Case("conform --bootstrap-server {kafka} --against {kafka} --jobs 64", has_groups),
    Case("check --jobs 2", has_busy_children),
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
    Case("serve --listen 127.0.0.1:0", is_ready, (0,)),
    Case("serve --listen 127.0.0.1:0 --data data --journal --http 127.0.0.1:0", is_ready, (0,)),
    Case("audit {worlds}", has_java),
    Case("audit {worlds} --follow", has_java, (0, 1, exits.INTERRUPTED)),
    Case("log replay {worlds}", reads),
    Case("log dump {worlds}", has_said),
    Case("log verify {worlds}", reads),
    Case("plant {worlds} planted", reads),
    Case("state w3-g0 --from {worlds}", reads),
    Case("why w3-g0 --from {worlds}", reads),
    Case("why g --bootstrap-server {kafka} --watch 3600", has_said),
]


def name_of(case: Case) -> str:
    return " ".join(word.strip("{}") for word in case.words.split())


@contextmanager
def scene(directory: Path, worlds: Path) -> Iterator[Place]:
    """A server with topics and a group, and an empty directory."""
    from confluent_kafka import TopicPartition

    from tests.http.asking import commit

    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t", partitions=2)
        commit(server, "g", TopicPartition("t", 0, 0))
        server.wait_until_stable("g", members=0)
        yield Place(server, directory, worlds)


def simulate(directory: Path) -> Path:
    """A journal that takes seconds to read."""
    worlds = directory / "simulated"
    words = ["simulate", "--seeds", f"0..{WORLDS}", "--journal", str(worlds)]
    subprocess.run([sys.executable, "-m", "rota", *words], check=True, stdout=subprocess.DEVNULL)
    return worlds


class End(NamedTuple):
    """How a command ended after one interrupt."""

    seconds: float
    code: int
    printed: str
    moment: str
    left: list[str]
    """Command lines of processes that it left behind."""

    @property
    def is_forced(self) -> bool:
        return STACKS in self.printed

    def is_clean(self, case: Case) -> bool:
        # A shell says 130 of a process that the signal ends while the interpreter shuts down, too.
        code = exits.INTERRUPTED if self.code == -signal.SIGINT else self.code
        return code in case.codes and "Traceback" not in self.printed and not self.left


def interrupt(case: Case, place: Place, seed: int) -> End | None:
    """Start it, send one SIGINT at the moment that the seed gives, and wait for its end. None if it ended before."""
    rng = random.Random(f"{case.words} {seed}")
    is_serving = case.words.startswith("serve")
    kind = rng.choice(["at once", "later"] if is_serving else ["at once", "later", "early"])
    named = {"kafka": place.server.bootstrap_servers, "http": place.server.http_address, "worlds": place.worlds}
    known = set(place.server.groups())
    started = Started([word.format(**named) for word in case.words.split()], place.directory)
    try:
        early_s = rng.uniform(0.0, BUSY_CPU_S)

        def has_come() -> bool:
            if kind == "early":
                is_working = case.is_at_work is not has_groups and case.is_at_work(place, started)
                return started.is_watching() and (started.cpu_s() >= early_s or is_working)
            if case.is_at_work is has_groups:
                return bool(set(place.server.groups()) - known)
            return case.is_at_work(place, started)

        eventually(lambda: started.has_ended() or has_come(), AT_WORK_WITHIN_S, "it runs")
        moment = f"{kind} {early_s:.2f} s" if kind == "early" else kind
        if kind == "later":
            later_s = rng.uniform(0.0, LATER_S)
            moment = f"later {later_s:.2f} s"
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.process.wait(later_s)
        children = started.children()
        if started.has_ended():
            return None
        began = time.monotonic()
        started.process.send_signal(signal.SIGINT)
        try:
            code = started.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        seconds = time.monotonic() - began
        with contextlib.suppress(AssertionError):
            eventually(lambda: not any(map(words_of, children)), ENDS_WITHIN_S, "no child is left")
        left = [words for child in children if (words := words_of(child))]
    finally:
        started.close()
    return End(seconds, code, started.printed.decode(errors="replace"), moment, left)


def table(cases: list[Case], ends: dict[str, list[End]], early: dict[str, int]) -> Iterator[str]:
    """A line for each command."""
    heads = ("times", "clean", "<2 s", "forced", "median s", "max s", "ended before")
    yield f"{'command':52} " + " ".join(f"{head:>{max(6, len(head))}}" for head in heads)
    for case in cases:
        found = ends[case.words]
        took = sorted(end.seconds for end in found) or [0.0]
        counts = (
            len(found),
            sum(end.is_clean(case) for end in found),
            sum(end.seconds <= SOON_S for end in found),
            sum(end.is_forced for end in found),
        )
        figures = [*map(str, counts), f"{took[len(took) // 2]:.2f}", f"{took[-1]:.2f}", str(early[case.words])]
        cells = (f"{figure:>{max(6, len(head))}}" for head, figure in zip(heads, figures, strict=True))
        yield f"{name_of(case)[:52]:52} " + " ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.commands.interrupted", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="interrupts of each command")
    parser.add_argument("--seed", type=int, default=0, help="of the first moment")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only commands that contain it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no interrupt after so long")
    options = parser.parse_args()
    processes.prepare()
    cases = [case for case in CASES if not options.only or any(text in case.words for text in options.only)]
    until = time.monotonic() + options.seconds
    ends: dict[str, list[End]] = {case.words: [] for case in cases}
    early: dict[str, int] = dict.fromkeys(ends, 0)
    failed = 0
    with tempfile.TemporaryDirectory() as room:
        worlds = simulate(Path(room))
        for seed in range(options.seed, options.seed + options.times):
            for case in cases:
                if time.monotonic() > until:
                    break
                with tempfile.TemporaryDirectory(dir=room) as directory, scene(Path(directory), worlds) as place:
                    end = interrupt(case, place, seed)
                if end is None:
                    early[case.words] += 1
                    continue
                ends[case.words].append(end)
                failed += not end.is_clean(case)
                if end.is_forced or not end.is_clean(case) or end.seconds > SOON_S:
                    print(f"{case.words}, seed {seed}, {end.moment}: exit code {end.code} after {end.seconds:.2f} s")
                    print(end.printed, *end.left, sep="\n", flush=True)
    for line in table(cases, ends, early):
        print(line)
    return exits.FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
