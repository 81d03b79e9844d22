"""How long others wait while a hostile client runs: `python -m benches.hostile [--first] [--json] [NAME ...]`.

Two servers share one core, and a member of each sends heartbeats from another core, one after the other. One server is
attacked by a session of `harness/hostile_sessions.py`, from its beginning on; the other one is not. Short turns
alternate: attacker and attacked server are stopped (SIGSTOP) and the quiet one is asked, then they go on and the
attacked one is asked. So a machine that is busy for a while slows both. The figure is the 99th percentile of all
attacked turns over that of all quiet ones, with the lowest and highest of the same in quarters of the run; the goal is
at most 5.

Three rows are controls, and what they show is the machine's: `nothing` attacks no server; `spinner_beside_client` and
`spinner_beside_server` compute without a word to the server, on the core of the clients, where the other attackers
are, and on the server's. Where attackers share a core with the members, they give way to them (nice 19). On a busy
machine use `--first`: members, server and attackers, in this order, then run before everything else.

An attack must have done something, and everything that it was answered must have been right, or the run fails.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.hostile_sessions import SESSIONS, Address, allow_files
from harness.process import ServerProcess, a_server_process
from harness.raw import NONE, Member

TURNS = 32
TURN_S = 0.2
QUARTERS = 4
# The first answers of a turn may wait for what came while the server was stopped.
UNCOUNTED_S = 0.02
# Between two heartbeats: a client has pauses, and the attack must have its turns, too.
PAUSE_S = 0.000_5
RATIO_GOAL = 5
WITHIN_S = 120
CONTROLS = ("nothing", "spinner_beside_client", "spinner_beside_server")


class Place(NamedTuple):
    """Where a process runs: on one core, and with a priority above 0 before everything else on the machine."""

    core: int
    priority: int

    def take(self) -> None:
        os.sched_setaffinity(0, {self.core})
        if self.priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(self.priority))


class Places(NamedTuple):
    """Who is where, on the cores that this process may use."""

    server: Place
    members: Place
    attackers: Place

    @classmethod
    def chosen(cls, *, is_first: bool) -> Places:
        usable = sorted(os.sched_getaffinity(0))
        cores = usable[0], usable[1 % len(usable)], usable[2 if len(usable) > 2 else 1 % len(usable)]
        return cls(*map(Place, cores, (2, 3, 1) if is_first else (0, 0, 0)))

    def of(self, attack: str) -> Place:
        """Where an attacker is."""
        core = {"spinner_beside_client": self.members.core, "spinner_beside_server": self.server.core}
        return self.attackers._replace(core=core.get(attack, self.attackers.core))


@contextmanager
def at(place: Place) -> Iterator[None]:
    """This process, and those that it starts meanwhile."""
    before = os.sched_getaffinity(0)
    place.take()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def attack(name: str, address: Address, place: Place, done: Any, stop: Any) -> None:
    """The attacker's process: tells how much it has done, until it is to stop."""
    place.take()
    if name != "spinner_beside_server":
        os.nice(19)
    if name in CONTROLS:
        while not stop.is_set():
            if name == "nothing":
                stop.wait(0.01)
            else:
                sum(range(10_000))
            done.value += 1
        return
    session = SESSIONS[name].attack(address)
    while not stop.is_set():
        done.value = next(session)
        # Attacks that stand still are looked at without an attacker that takes a core to do nothing.
        stop.wait(0.001)
    session.close()


class Attacker:
    """An attack on a server that is held up together with it: it begins held up."""

    def __init__(self, name: str, server: ServerProcess, place: Place) -> None:
        self.name = name
        self.done, self.stop = multiprocessing.Value("q", 0), multiprocessing.Event()
        arguments = (name, server.address, place, self.done, self.stop)
        self.process = multiprocessing.Process(target=attack, args=arguments, daemon=True)
        self.process.start()
        self.pids = [pid for pid in (self.process.pid, server.pid) if pid is not None]
        self.hold()

    def hold(self) -> None:
        """Returns when both stand still."""
        assert self.process.is_alive(), f"{self.name} has ended"
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)

    def let_go(self) -> None:
        for pid in self.pids:
            # `end` reports one that has ended.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def end(self) -> int:
        """Lets it finish what it does, and gives how much it has done. It must have been answered rightly."""
        self.let_go()
        pause, deadline_s = threading.Event(), time.monotonic() + WITHIN_S
        while not self.done.value and self.process.is_alive():
            assert time.monotonic() < deadline_s, f"{self.name} has not begun to stand"
            pause.wait(0.01)
        self.stop.set()
        self.process.join(WITHIN_S)
        assert self.process.exitcode == 0, f"{self.name} ended with {self.process.exitcode}"
        return int(self.done.value)


def heartbeats_us(member: Member) -> list[float]:
    """How long those of one turn took."""
    pause = threading.Event()
    took, begun_s = [], time.perf_counter()
    while (now_s := time.perf_counter()) < begun_s + TURN_S:
        assert member.heartbeat() == NONE
        if now_s > begun_s + UNCOUNTED_S:
            took.append((time.perf_counter() - now_s) * 1e6)
        pause.wait(PAUSE_S)
    return took


def p99(turns: list[list[float]]) -> float:
    """Of the heartbeats of all these turns."""
    return statistics.quantiles([took for turn in turns for took in turn], n=100)[98]


@dataclass(frozen=True)
class Row:
    """One attack: the 99th percentiles, their ratio, and its lowest and highest in a quarter of the run."""

    attack: str
    quiet_us: int
    attacked_us: int
    ratio: float
    lowest: float
    highest: float
    rounds: int
    """How much the attacker did altogether, in its unit."""

    def __str__(self) -> str:
        unit = "rounds" if self.attack in CONTROLS else SESSIONS[self.attack].unit
        waits = f"{self.quiet_us:6} us {self.attacked_us:6} us  x{self.ratio:<6} ({self.lowest} to {self.highest})"
        note = f"  above {RATIO_GOAL}" if self.ratio > RATIO_GOAL else ""
        return f"{self.attack:30} {waits:44} {self.rounds:12,} {unit}{note}"


def measured(name: str, places: Places, turns: int) -> Row:
    """Quiet and attacked, in turns."""
    with at(places.server):
        servers = a_server_process(), a_server_process()
        with servers[0] as calm, servers[1] as stormy:
            return between(calm, stormy, name, places, turns)


def between(calm: ServerProcess, stormy: ServerProcess, name: str, places: Places, turns: int) -> Row:
    """One server that is quiet, and one that is attacked."""
    quiet, attacked = list[list[float]](), list[list[float]]()
    with (
        at(places.members),
        Member(calm.address, "healthy") as unharmed,
        Member(stormy.address, "healthy") as harmed,
    ):
        attacker = Attacker(name, stormy, places.of(name))
        try:
            for _ in range(turns):
                quiet.append(heartbeats_us(unharmed))
                attacker.let_go()
                attacked.append(heartbeats_us(harmed))
                attacker.hold()
        finally:
            done = attacker.end()
    ends = [len(quiet) * quarter // QUARTERS for quarter in range(QUARTERS + 1)]
    ratios = [p99(attacked[start:end]) / p99(quiet[start:end]) for start, end in itertools.pairwise(ends)]
    calm_us, stormy_us = p99(quiet), p99(attacked)
    lowest, highest = round(min(ratios), 2), round(max(ratios), 2)
    return Row(name, round(calm_us), round(stormy_us), round(stormy_us / calm_us, 2), lowest, highest, done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", default=[*CONTROLS, *SESSIONS])
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each kind, at least {QUARTERS}")
    parser.add_argument("--first", action="store_true", help="run before all else on the machine (SCHED_FIFO, as root)")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    allow_files(20_000)
    places = Places.chosen(is_first=chosen.first)
    rows = []
    for name in chosen.names:
        rows.append(row := measured(name, places, max(chosen.turns, QUARTERS)))
        if not chosen.json:
            print(row, flush=True)
    if chosen.json:
        print(json.dumps([vars(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
