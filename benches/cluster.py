"""How long a group is without an answer while servers and members of etcd come and go: `make bench-cluster`.

`python -m benches.cluster [--json] [--rounds N] [--ttl-ms MS] [--outage-s S] [move] [stop] [kill] [pause] [leader]
[outage] [commits]`

Three servers of rota and three members of etcd run on this machine (`rota.demo.fleet`). A client commits an offset of
one group again and again, to whichever server answers. Each figure is the time from an event to the acknowledgement of
a commit that began after it, in milliseconds, or the longest pause around it.

move      the longest pause while `rota cluster move` gives the group's partition to another server
stop      the longest pause while its coordinator ends with SIGTERM
kill      from `kill -9` of its coordinator to the first commit
pause     from SIGSTOP of its coordinator to the first commit
leader    from `kill -9` of etcd's leader to the first commit
outage    two of three members are stopped for S seconds: from SIGCONT to the first write of a client of etcd, and
          to the first commit, and how many partitions moved
commits   commits a second of one server that owns all partitions, over 1, 64 and 256 connections with one request at a
          time each; appending transactions a second of etcd meanwhile, beats included; and as a floor those of a bare
          client that sends transactions of the same size over as many lanes (`rust/etcd/examples/floor.rs`)

Other figures than those of commits depend on the TTL, not on the speed of the machine, unless it is busy.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from harness import peer
from harness.raw import NONE, ClosedError, Connection
from rota.cluster.looking import Image
from rota.demo.cluster import offsets_partition
from rota.demo.fleet import PARTITIONS, Fleet, Process
from rota.exits import complain

GROUP, TOPIC = "load", "orders"
ANSWER_WITHIN_S, ASK_AGAIN_S, PATIENCE_S = 1.0, 0.005, 120.0
PUT_WITHIN_S = 0.25
BUSY_S = 0.5
"""The client commits for so long before an event, so that a pause before it is not counted."""

SETTLED_TTLS = 4
"""The planner moves nothing for balance for three: `rust/cluster/src/host/ownership.rs`."""

Figures = dict[str, list[float]]


class Client:
    """Commits until it is closed."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self._addresses = list(addresses)
        self._over = threading.Event()
        self.acknowledged: list[tuple[float, float]] = []
        """When each commit was sent and acknowledged, in seconds."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()

    def first_after(self, at_s: float) -> float:
        """When the first commit that was sent after this time was acknowledged. Waits for it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for sent_s, acknowledged_s in self.acknowledged[-1_000:]:
                if sent_s >= at_s:
                    return acknowledged_s
            self._over.wait(ASK_AGAIN_S)
        raise TimeoutError(f"no commit was acknowledged for {PATIENCE_S:.0f} s")

    def longest_pause_ms(self, from_s: float, to_s: float) -> float:
        """The longest time between two acknowledgements, if one of them is in this time."""
        at = [acknowledged_s for _, acknowledged_s in self.acknowledged]
        pauses = [after - before for before, after in itertools.pairwise(at) if after >= from_s and before <= to_s]
        return max(pauses) * 1_000

    def _run(self) -> None:
        connection: Connection | None = None
        for offset in itertools.count():
            if self._over.is_set():
                break
            began_s = time.monotonic()
            try:
                if connection is None:
                    connection = Connection(self._addresses[0], ANSWER_WITHIN_S)
                errors = peer.committed(connection.ask(peer.commit(GROUP, {0: offset}, topic=TOPIC)))
            except (OSError, ClosedError):
                errors = {NONE + 1}
                if connection is not None:
                    connection.close()
                connection = None
            if errors == {NONE}:
                self.acknowledged.append((began_s, time.monotonic()))
                continue
            if connection is not None:
                connection.close()
                connection = None
            self._addresses.append(self._addresses.pop(0))
            self._over.wait(ASK_AGAIN_S)


class Scene:
    """A fleet with a client."""

    def __init__(self, fleet: Fleet, client: Client) -> None:
        self.fleet, self.client = fleet, client
        self.partition = offsets_partition(GROUP)

    def until(self, holds: Callable[[Image], bool], what: str) -> Image:
        """Wait until the cluster is so."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = self.fleet.image()
            if found is not None and holds(found):
                return found
            threading.Event().wait(ASK_AGAIN_S)
        raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")

    def place(self, node_id: int) -> Process:
        """Give the partition to a server, and let the client commit there for a while."""
        self.fleet.operator().pin(self.partition, node_id)
        self.until(
            lambda found: (
                found.partitions[self.partition].owner == node_id and found.partitions[self.partition].is_held
            ),
            f"server {node_id} owns the partition",
        )
        self.client.first_after(time.monotonic() + BUSY_S)
        return self.fleet.servers[node_id]

    def own_all(self, node_id: int) -> None:
        """Let a server own all partitions; the others stay drained."""
        operator = self.fleet.operator()
        operator.undrain(node_id)
        for other in self.fleet.servers.keys() - {node_id}:
            operator.drain(other)
        self.until(lambda found: found.owned()[node_id] == PARTITIONS, f"server {node_id} owns all partitions")

    def took_ms(self, since_s: float) -> float:
        """From an event to the next commit."""
        return (self.client.first_after(since_s) - since_s) * 1_000

    def restart(self, process: Process) -> None:
        """Start a process that has ended, and wait until it is a part of the cluster."""
        self.fleet.start(process)
        self.client.first_after(time.monotonic() + BUSY_S)


def move(scene: Scene) -> float:
    """See the module."""
    scene.place(1)
    began_s = time.monotonic()
    scene.place(2)
    return scene.client.longest_pause_ms(began_s, time.monotonic())


def stop(scene: Scene) -> float:
    """See the module."""
    server = scene.place(2)
    began_s = time.monotonic()
    scene.fleet.stop(server)
    scene.took_ms(time.monotonic())
    pause_ms = scene.client.longest_pause_ms(began_s, time.monotonic())
    scene.restart(server)
    return pause_ms


def kill(scene: Scene) -> float:
    """See the module."""
    server = scene.place(2)
    began_s = time.monotonic()
    scene.fleet.kill(server)
    took_ms = scene.took_ms(began_s)
    scene.restart(server)
    return took_ms


def pause(scene: Scene) -> float:
    """See the module."""
    server = scene.place(2)
    began_s = time.monotonic()
    scene.fleet.pause(server)
    took_ms = scene.took_ms(began_s)
    scene.fleet.resume(server)
    return took_ms


def leader(scene: Scene) -> float:
    """See the module."""
    scene.place(1)
    member = scene.fleet.etcd_leader()
    if member is None:
        raise TimeoutError("etcd has no leader")
    began_s = time.monotonic()
    scene.fleet.kill(member)
    took_ms = scene.took_ms(began_s)
    scene.restart(member)
    return took_ms


def settled(scene: Scene) -> Image:
    """The cluster when nothing has moved for longer than the planner waits after a node came or went."""
    seen: list[tuple[int | None, int]] = []
    since_s = time.monotonic()

    def is_settled(found: Image) -> bool:
        nonlocal seen, since_s
        now = [(row.owner, row.epoch) for row in (*found.partitions, *found.transactions)]
        if now != seen:
            seen, since_s = now, time.monotonic()
        return time.monotonic() - since_s > SETTLED_TTLS * found.ttl_ms / 1_000

    return scene.until(is_settled, "nothing moves")


class Outage(NamedTuple):
    """What followed when the engine was back."""

    engine_ms: float
    """Until it wrote again, for a client of it alone."""
    took_ms: float
    """Until a commit was acknowledged."""
    moved: int
    """Partitions that have another owner."""


def outage(scene: Scene, stop: Callable[[], None], resume: Callable[[], None], write: Callable[[], bool]) -> Outage:
    """The engine stands still between `stop`, which waits, and `resume`; `write` says whether it wrote."""
    scene.place(1)
    before = settled(scene)
    stop()
    resume()
    began_s = time.monotonic()
    while not write():
        if time.monotonic() - began_s > PATIENCE_S:
            raise TimeoutError(f"the engine did not write within {PATIENCE_S:.0f} s")
    engine_ms = (time.monotonic() - began_s) * 1_000
    took_ms = scene.took_ms(began_s)
    after = scene.until(lambda found: all(row.is_held for row in found.partitions), "every partition has an owner")
    moved = sum(one.owner != other.owner for one, other in zip(before.partitions, after.partitions, strict=True))
    return Outage(engine_ms, took_ms, moved)


def outage_of_etcd(scene: Scene, seconds: float) -> Outage:
    """See the module."""
    fleet = scene.fleet
    stopped = fleet.etcd[:2]
    members = itertools.cycle(fleet.engine.removeprefix("etcd://").partition("/")[0].split(","))
    put = json.dumps({"key": base64.b64encode(b"/outage").decode(), "value": ""}).encode()

    def stop() -> None:
        for member in stopped:
            fleet.pause(member)
        threading.Event().wait(seconds)

    def write() -> bool:
        try:
            with urllib.request.urlopen(f"http://{next(members)}/v3/kv/put", put, timeout=PUT_WITHIN_S):
                return True
        except OSError:
            return False

    def resume() -> None:
        for member in stopped:
            fleet.resume(member)

    return outage(scene, stop, resume, write)


EVENTS: dict[str, Callable[[Scene], float]] = {
    "move": move,
    "stop": stop,
    "kill": kill,
    "pause": pause,
    "leader": leader,
}
OUTAGE, COMMITS = "outage", "commits"
RELEASE = Path(__file__).resolve().parents[1] / "target" / "release" / "examples"
LOAD = Path(os.environ.get("ROTA_COMMIT_LOAD") or RELEASE / "commit_load")
FLOOR = Path(os.environ.get("ROTA_ETCD_FLOOR") or RELEASE / "floor")
CONNECTIONS = (1, 64, 256)
LOAD_S, FLOOR_FLUSHES = 5, 500
LANES = 2
"""Calls that append at a time, per server: `rust/cluster/src/host/mod.rs`."""


def bare(scene: Scene, number: int, bytes_each: int) -> float:
    """Transactions a second of the bare client."""
    url = scene.fleet.engine.removesuffix("/demo") + f"/floor/{number}"
    words = [url, FLOOR_FLUSHES // LANES, bytes_each, PARTITIONS // LANES, LANES]
    said = subprocess.run([FLOOR, *map(str, words)], check=True, capture_output=True, text=True).stdout
    (row,) = [line.split() for line in said.splitlines() if line.startswith("bare ")]
    return float(row[5])


def contents(scene: Scene) -> tuple[int, int]:
    """Entries of all partitions after their snapshots, and their bytes."""
    found = [scene.fleet.operator().content(partition) for partition in range(PARTITIONS)]
    return sum(row[0] for row in found), sum(row[1] for row in found)


def commits(scene: Scene, rounds: int) -> Figures:
    """See the module."""
    scene.own_all(1)
    found: Figures = {}
    address = "{}:{}".format(*scene.fleet.addresses[0])
    for number, connections in itertools.product(range(rounds), CONNECTIONS):
        before = scene.until(lambda _: True, "etcd answers").revision
        said = subprocess.run(
            [LOAD, "run", address, str(connections), str(LOAD_S)], check=True, capture_output=True, text=True
        ).stdout
        after = scene.until(lambda _: True, "etcd answers").revision
        entries, size = contents(scene)
        row = {
            "commits": json.loads(said)["per_s"],
            "transactions": (after - before) / LOAD_S,
            "floor": bare(scene, number * len(CONNECTIONS) + connections, size // max(entries, 1)),
        }
        row["transactions / floor"] = row["transactions"] / row["floor"]
        for name, value in row.items():
            found.setdefault(f"{name}, {connections} connections", []).append(value)
        complain(f"{connections} connections: {row}")
    return found


def etcd_program() -> str:
    """The path of etcd. Ends the program without it."""
    etcd = shutil.which("etcd")
    if etcd is None:
        sys.exit("rota: etcd is not installed (Debian: etcd-server)")
    return etcd


@contextmanager
def scene_of(beginning: Fleet) -> Iterator[Scene]:
    """A fleet that answers, with a client."""
    with beginning as fleet:
        for process in (*fleet.etcd, fleet.servers[1]):
            fleet.start(process)
        fleet.wait_for_owner(1)
        with Connection(fleet.addresses[0]) as connection:
            connection.ask(peer.metadata(TOPIC))
        for node_id in (2, 3):
            fleet.start(fleet.servers[node_id])
            fleet.wait_for_node(node_id)
        client = Client(fleet.addresses)
        try:
            client.first_after(time.monotonic())
            yield Scene(fleet, client)
        finally:
            client.close()


def measured(scene: Scene, parts: list[str], rounds: int, outage_s: float) -> Figures:
    """The figures of every event, by its name."""
    found: Figures = {}
    for name in (each for each in parts if each in EVENTS):
        for number in range(rounds):
            found.setdefault(name, []).append(EVENTS[name](scene))
            complain(f"{name}, {number + 1} of {rounds}: {found[name][-1]:.0f} ms")
    if OUTAGE in parts:
        engine_ms, took_ms, moved = outage_of_etcd(scene, outage_s)
        found[f"outage of {outage_s:g} s: etcd itself"], found["... and a commit"] = [engine_ms], [took_ms]
        found["partitions moved by it"] = [moved]
    if COMMITS in parts:
        scene.client.close()
        found |= commits(scene, rounds)
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *EVENTS, OUTAGE, COMMITS], metavar="PART")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ttl-ms", type=int, default=5_000)
    parser.add_argument("--outage-s", type=float, default=60.0)
    chosen = parser.parse_args()
    etcd = etcd_program()
    if COMMITS in chosen.parts and not (LOAD.exists() and FLOOR.exists()):
        sys.exit(f"rota: `commits` needs {LOAD} and {FLOOR}: `make bench-cluster` builds them")
    with scene_of(Fleet(etcd, chosen.ttl_ms)) as scene:
        found = measured(scene, chosen.parts or [*EVENTS, OUTAGE], chosen.rounds, chosen.outage_s)
    if chosen.json:
        print(json.dumps({"ttl_ms": chosen.ttl_ms, "figures": found}, indent=2))
        return
    print(f"TTL {chosen.ttl_ms} ms; least, median and greatest of {chosen.rounds}; ms, or a second")
    for name, values in found.items():
        digits = 2 if name.startswith("transactions /") else 0
        figures = (min(values), statistics.median(values), max(values))
        print(f"{name:<40}" + "".join(f"{figure:10.{digits}f}" for figure in figures))


if __name__ == "__main__":
    main()
