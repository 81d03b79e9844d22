"""Members of an engine and three `rota serve` as processes, clients that commit unique offsets, and faults.

The engine is three members of etcd, or a PostgreSQL with a synchronous standby. With a network each server and each
member of etcd is a host of its own, and what one sends to another can be lost.

Each (group, partition) of the topic is a register: OffsetCommit writes an offset that no other commit has, and
OffsetFetch reads it. A request without an answer, or with an error, may take effect at any later time. Because values
are unique, whether a history is linearizable is decided without a search (Gibbons and Korach, 1997).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from harness import peer
from harness.brokers import free_port
from harness.postgres import Postgres
from harness.raw import NONE, ClosedError, Connection, Reader
from tests.clients.eventually import eventually
from tests.server.network import Network

MEMBERS = SERVERS = 3
TTL_MS = 1_500
TOPIC = "orders"
GROUPS = [f"group-{number}" for number in range(6)]
UNCOMMITTED = -1
ANSWER_WITHIN_S = 4.0
READY_WITHIN_S = 90.0

Key = tuple[str, int]


class Call(NamedTuple):
    """A commit or a fetch of a key. A commit without `end` may take effect later, or never."""

    is_commit: bool
    value: int
    begin: float
    end: float


def violation(calls: Iterable[Call]) -> str | None:
    """Why the calls of one register are not linearizable; None if they are."""
    writes = {UNCOMMITTED: Call(True, UNCOMMITTED, float("-inf"), float("-inf"))}
    reads: defaultdict[int, list[Call]] = defaultdict(list)
    for call in calls:
        if call.is_commit:
            writes[call.value] = call
        else:
            reads[call.value].append(call)
    for value, found in reads.items():
        if value not in writes:
            return f"{value} was read and never committed"
        if min(read.end for read in found) < writes[value].begin:
            return f"{value} was read before it was committed"
    # What was neither acknowledged nor read need not have happened.
    happened = {value: write for value, write in writes.items() if write.end != float("inf") or value in reads}
    zones = []
    for value, write in happened.items():
        calls_of = [write, *reads[value]]
        first_end, last_begin = min(call.end for call in calls_of), max(call.begin for call in calls_of)
        zones.append((min(first_end, last_begin), max(first_end, last_begin), first_end < last_begin, value))
    forward = sorted(zone for zone in zones if zone[2])
    # The register has a value from the first end of its calls to their last begin, and no other one meanwhile.
    for (_, last, _, one), (begin, _, _, other) in itertools.pairwise(forward):
        if begin < last:
            return f"{one} and {other} were both the last commit"
    for begin, end, is_forward, value in zones:
        within = None if is_forward else _around(forward, begin, end)
        if within is not None:
            return f"{value} was committed while {within} was the last commit, before and after"
    return None


def _around(forward: list[tuple[float, float, bool, int]], begin: float, end: float) -> int | None:
    return next((value for low, high, _, value in forward if low < begin and end < high), None)


@dataclass
class Process:
    """A process that can be killed, stopped and started again."""

    command: list[str]
    log: Path
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def signal(self, number: signal.Signals) -> None:
        if self.running is not None:
            self.running.send_signal(number)

    def kill(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.running = None


class Member(Protocol):
    """A member of an engine."""

    def start(self) -> None: ...

    def signal(self, number: signal.Signals, /) -> None: ...

    def kill(self) -> None: ...


@dataclass
class Fleet:
    """The processes, on an engine of this kind."""

    folder: Path
    kind: str
    network: Network | None = None
    members: list[Member] = field(default_factory=list)
    servers: list[Process] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    cuts: list[tuple[str, str]] = field(default_factory=list)
    kept: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        engine = {"etcd": self._start_etcd, "postgresql": self._start_postgres}[self.kind]()
        init = [sys.executable, "-m", "rota", "cluster", "init", "--engine", engine]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
        for number in range(1, SERVERS + 1):
            port = free_port()
            listen = f"PLAINTEXT://{self.address(f'rota{number}')}:{port}"
            command = [sys.executable, "-m", "rota", "serve", "--listen", listen, "--engine", engine]
            command += ["--node-id", str(number), "--ttl-ms", str(TTL_MS), "--set", "offsets.topic.num.partitions=4"]
            self.servers.append(self._process(f"rota{number}", command))
            self.ports.append(port)
        for process in self.servers:
            process.start()
        return self

    def _start_etcd(self) -> str:
        clients, peers = [free_port() for _ in range(MEMBERS)], [free_port() for _ in range(MEMBERS)]
        hosts = [self.address(f"m{number}") for number in range(MEMBERS)]
        cluster = ",".join(f"m{number}=http://{hosts[number]}:{port}" for number, port in enumerate(peers))
        for number in range(MEMBERS):
            client, other = f"http://{hosts[number]}:{clients[number]}", f"http://{hosts[number]}:{peers[number]}"
            command = ["etcd", "--name", f"m{number}", "--data-dir", str(self.folder / f"m{number}")]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--log-level", "error"]
            command += ["--listen-peer-urls", other, "--initial-advertise-peer-urls", other, "--logger", "zap"]
            self.members.append(self._process(f"m{number}", [*command, "--initial-cluster", cluster]))
        for member in self.members:
            member.start()
        return (
            "etcd://" + ",".join(f"{host}:{port}" for host, port in zip(hosts, clients, strict=True)) + "/rota/faults"
        )

    def address(self, host: str) -> str:
        """Of a server or of a member of etcd."""
        return "127.0.0.1" if self.network is None else self.network.addresses[host]

    def _process(self, host: str, command: list[str]) -> Process:
        there = command if self.network is None else self.network.command(host, command)
        return Process(there, self.folder / f"{host}.log")

    def cut(self, senders: list[str], receivers: list[str]) -> None:
        """What these send to those is lost."""
        assert self.network is not None
        for pair in itertools.product(senders, receivers):
            self.network.cut(*pair)
            self.cuts.append(pair)

    def heal(self) -> None:
        """Everything arrives again."""
        assert self.network is not None
        while self.cuts:
            self.network.heal(*self.cuts.pop())

    def _start_postgres(self) -> str:
        primary = self.kept.enter_context(Postgres(name="primary"))
        standby = self.kept.enter_context(Postgres(name="standby", follows=primary))
        self.members += [primary, standby]
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.sql("SELECT pg_reload_conf()")
        follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        eventually(lambda: primary.sql(follows) == "1", READY_WITHIN_S, "the standby follows", primary.log.read_text)
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        return f"postgres://postgres@{hosts}/postgres?schema=faults"

    def __exit__(self, *_: object) -> None:
        for process in [*self.servers, *self.members]:
            process.kill()
        self.kept.close()

    def logs(self) -> str:
        """What the servers have said."""
        return "\n".join(process.log.read_text(errors="replace")[-2_000:] for process in self.servers)


class Client:
    """Commits and fetches at whichever server answers. Its calls are in `history`."""

    def __init__(self, fleet: Fleet, history: History) -> None:
        self.fleet = fleet
        self.history = history
        self.connections: dict[int, Connection] = {}
        self.owners: dict[str, int] = {}

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    def _ask(self, server: int, request: bytes) -> Reader | None:
        try:
            if server not in self.connections:
                address = (self.fleet.address(f"rota{server + 1}"), self.fleet.ports[server])
                self.connections[server] = Connection(address, timeout=ANSWER_WITHIN_S)
            return self.connections[server].ask(request)
        except (OSError, ClosedError):
            if server in self.connections:
                self.connections.pop(server).close()
            return None

    def make_topic(self, server: int) -> None:
        self._ask(server, peer.metadata(TOPIC))

    def commit(self, group: str, partition: int) -> bool:
        """One attempt at the server that answered last. Whether it was acknowledged."""
        value = next(self.history.values)
        server = self.owners.get(group, value % SERVERS)
        begin = time.monotonic()
        answer = self._ask(server, peer.commit(group, {partition: value}, topic=TOPIC))
        is_written = answer is not None and peer.committed(answer) == {NONE}
        end = time.monotonic() if is_written else float("inf")
        self.history.add((group, partition), Call(True, value, begin, end))
        self._learn(group, server, is_written)
        return is_written

    def fetch(self, group: str, partition: int) -> bool:
        """One attempt, as a commit."""
        server = self.owners.get(group, partition % SERVERS)
        begin = time.monotonic()
        answer = self._ask(server, peer.fetch(group, [partition], topic=TOPIC))
        if answer is None:
            self._learn(group, server, False)
            return False
        error, offsets = peer.fetched(answer)
        if error == NONE:
            self.history.add((group, partition), Call(False, offsets[partition], begin, time.monotonic()))
        self._learn(group, server, error == NONE)
        return error == NONE

    def _learn(self, group: str, server: int, answers: bool) -> None:
        self.owners[group] = server if answers else (server + 1) % SERVERS


class History:
    """All calls, by key."""

    def __init__(self) -> None:
        self.calls: defaultdict[Key, list[Call]] = defaultdict(list)
        self.values = itertools.count()
        self._lock = threading.Lock()

    def add(self, key: Key, call: Call) -> None:
        with self._lock:
            self.calls[key].append(call)

    def acknowledged(self) -> int:
        return sum(call.is_commit and call.end != float("inf") for calls in self.calls.values() for call in calls)

    def violations(self) -> list[str]:
        found = ((key, violation(calls)) for key, calls in self.calls.items())
        return [f"{key}: {why}" for key, why in found if why is not None]


@contextlib.contextmanager
def load(fleet: Fleet, history: History, clients: int = 3) -> Iterator[None]:
    """Clients commit and fetch meanwhile."""
    over = threading.Event()

    def work(seed: int) -> None:
        chance, client = random.Random(seed), Client(fleet, history)
        while not over.is_set():
            group, partition = chance.choice(GROUPS), chance.randrange(2)
            answered = client.commit(group, partition) if chance.random() < 0.5 else client.fetch(group, partition)
            over.wait(0.005 if answered else 0.05)
        client.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def wait_until_all_answer(fleet: Fleet, history: History) -> None:
    """Every group is committed and fetched."""
    client = Client(fleet, history)

    def is_answered(group: str) -> bool:
        if client.commit(group, 0) and client.fetch(group, 0):
            return True
        for server in range(SERVERS):
            client.make_topic(server)
        return False

    for group in GROUPS:
        eventually(partial(is_answered, group), READY_WITHIN_S, f"{group} is answered", fleet.logs)
    client.close()


HOSTS = [*(f"rota{number}" for number in range(1, SERVERS + 1)), *(f"m{number}" for number in range(MEMBERS))]
CUTS = ["cut off", "mute", "deaf", "member cut off", "member mute", "far from two members"]


def separate(fleet: Fleet, chance: random.Random) -> str:
    """One partition of the network, which is over when this returns. Returns its name.

    A server or a member is cut off, in both directions or in one: what it sends is lost, or what is sent to it.
    """
    name = chance.choice(CUTS)
    servers, members = HOSTS[:SERVERS], HOSTS[SERVERS:]
    one = chance.choice(members if name.startswith("member") else servers)
    others = chance.sample(members, 2) if name == "far from two members" else [each for each in members if each != one]
    if name != "deaf":
        fleet.cut([one], others)
    if not name.endswith("mute"):
        fleet.cut(others, [one])
    time.sleep(TTL_MS / 1_000 * chance.choice([0.5, 2, 3]))
    fleet.heal()
    return name


def strike(fleet: Fleet, chance: random.Random) -> str:
    """One fault, which is over when this returns. Returns its name."""
    server, member = chance.choice(fleet.servers), chance.choice(fleet.members)
    ttl_s = TTL_MS / 1_000
    name = chance.choice(["kill", "terminate", "pause", "long pause", "kill a member", "pause a member", "no quorum"])
    match name:
        case "kill":
            server.kill()
            time.sleep(chance.uniform(0, 2 * ttl_s))
            server.start()
        case "terminate":
            server.signal(signal.SIGTERM)
            if server.running is not None:
                server.running.wait(timeout=READY_WITHIN_S)
            server.start()
        case "pause" | "long pause":
            server.signal(signal.SIGSTOP)
            time.sleep(ttl_s * (0.5 if name == "pause" else 3))
            server.signal(signal.SIGCONT)
        case "kill a member":
            member.kill()
            time.sleep(ttl_s)
            member.start()
        case _:
            stopped = [member] if name == "pause a member" else fleet.members[:2]
            for each in stopped:
                each.signal(signal.SIGSTOP)
            time.sleep(ttl_s)
            for each in stopped:
                each.signal(signal.SIGCONT)
    return name


def play(folder: Path, kind: str, faults: int, seed: int, network: Network | None = None) -> tuple[History, list[str]]:
    """Plays faults under load; everything answers at the end. Returns the history and the faults' names."""
    history, struck, chance = History(), [], random.Random(seed)
    with Fleet(folder, kind, network) as fleet:
        wait_until_all_answer(fleet, history)
        for _ in range(faults):
            with load(fleet, history):
                time.sleep(0.5)
                struck.append((strike if network is None else separate)(fleet, chance))
                time.sleep(0.5)
            if history.violations():
                break
        wait_until_all_answer(fleet, history)
    return history, struck


def number(name: str, otherwise: int) -> int:
    """A number of the environment."""
    return int(os.environ.get(name, otherwise))
