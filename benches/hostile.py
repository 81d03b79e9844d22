"""How long other clients wait while a hostile one is at work: `python -m benches.hostile [--json] [NAME ...]`.

A member sends heartbeats, one after the other, over its own connection. Its 99th percentile is taken while the server
is quiet and while an attack of `tests/wire/hostile_sessions.py` goes on, in turns, and the medians of those turns are
compared: the goal is a ratio of at most 5. Server, attacker and member are processes of their own; on a machine with
few cores they also compete for those, which `spinner` shows: an attacker that computes and sends nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

from tests.wire.hostile_sessions import SESSIONS, Address, allow_files
from tests.wire.process import a_server_process
from tests.wire.raw import NONE, Member

TURNS = 5
TURN_S = 1.0
RATIO_GOAL = 5


def attack(name: str, address: Address, stands: Event, stop: Event) -> None:
    """The attacker's process. `spinner` only computes."""
    if name == "spinner":
        stands.set()
        while not stop.is_set():
            sum(range(10_000))
        return
    session = SESSIONS[name].attack(address)
    next(session)
    stands.set()
    while not stop.is_set():
        next(session)
        # Attacks that stand still are looked at without an attacker that takes a core to do nothing.
        stop.wait(0.001)
    session.close()


@contextmanager
def under(name: str, address: Address) -> Iterator[None]:
    """While the attack goes on."""
    stands, stop = multiprocessing.Event(), multiprocessing.Event()
    attacker = multiprocessing.Process(target=attack, args=(name, address, stands, stop), daemon=True)
    attacker.start()
    try:
        if name != "big_group":
            # That one is at its worst while it begins.
            assert stands.wait(60), f"{name} does not stand"
        yield
    finally:
        stop.set()
        attacker.join(60)


def p99_us(member: Member) -> float:
    """Of the heartbeats of one turn."""
    pause = threading.Event()
    took, end = [], time.perf_counter() + TURN_S
    while time.perf_counter() < end:
        began = time.perf_counter()
        assert member.heartbeat() == NONE
        took.append(time.perf_counter() - began)
        # A client has pauses, and the attack must have its turns, too.
        pause.wait(0.000_5)
    return statistics.quantiles(took, n=100)[98] * 1e6


def measure(name: str) -> dict[str, float | str]:
    """Quiet and attacked, in turns."""
    quiet, attacked = [], []
    for _ in range(TURNS):
        # A server of its own: what the attack before it left behind would slow both, or refuse this one.
        with a_server_process() as server, Member(server.address, "healthy") as member:
            quiet.append(p99_us(member))
            with under(name, server.address):
                attacked.append(p99_us(member))
    calm, stormy = statistics.median(quiet), statistics.median(attacked)
    return {"attack": name, "quiet_p99_us": round(calm), "p99_us": round(stormy), "ratio": round(stormy / calm, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", default=["spinner", *SESSIONS])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    allow_files(20_000)
    rows = []
    for name in chosen.names:
        rows.append(row := measure(name))
        if not chosen.json:
            note = "" if float(row["ratio"]) <= RATIO_GOAL else f"  above {RATIO_GOAL}"
            print(f"{name:32} {row['quiet_p99_us']:7} us  {row['p99_us']:7} us  x{row['ratio']}{note}", flush=True)
    if chosen.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
