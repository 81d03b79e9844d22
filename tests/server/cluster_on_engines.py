"""Members of an engine and three `rota serve` as processes, and clients that commit unique offsets and fetch them.

The engine is three members of etcd, or a PostgreSQL with a synchronous standby. Between each server and each member is
a link that can be slow, held back or cut (`links.py`). With a network of namespaces each server and each member is a
host of its own instead, and what one sends to another can be lost (`network.py`).
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness import peer, small_disk
from harness.brokers import free_port
from harness.postgres import Postgres
from harness.raw import NONE, ClosedError, Connection, Reader
from rota import EngineAccess, _rota, exits
from rota.demo.cluster import offsets_partition
from rota.demo.fleet import PARTITIONS
from tests.clients.eventually import eventually
from tests.server.links import Links
from tests.server.network import Network
from tests.server.registers import History

MEMBERS = SERVERS = 3
STANDBY = "standby"
QUOTA_BYTES = 64 << 20
"""Of a member of etcd: a fault fills it."""
TTL_MS = 1_500
TTL_S = TTL_MS / 1_000
TRANSACTION_PARTITIONS = 6
TOPIC = "orders"
TOPIC_PARTITIONS = 16
CLIENTS = 4
GROUPS = 6
LOADED = PARTITIONS - 2
"""Partitions of `__consumer_offsets` that have groups under load. A fault may need one without writes."""
ANSWER_WITHIN_S = 2.0
READY_WITHIN_S = 90.0
OPERATOR_MS = 2_000
STOPPED, LOST = "stops answering for groups", "the engine has lost"
"""What a server says that takes the engine for one that went back, or for another's, and what is lost."""


def names(era: object, count: int, is_loaded: bool) -> list[str]:
    """Names of groups with a coordinator that is under load, or of others."""
    every = (f"group-{era}-{number}" for number in itertools.count())
    return list(itertools.islice((name for name in every if (offsets_partition(name) < LOADED) == is_loaded), count))


@dataclass
class Process:
    """A process that can be killed, stopped and started again."""

    command: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | self.environment
            )

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


def _known_servers(port: int) -> int:
    """How many servers the one at this port knows."""
    with contextlib.suppress(KafkaException):
        return len(AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=2).brokers)
    return 0


@dataclass
class Fleet:
    """The processes, on an engine of this kind."""

    folder: Path
    kind: str
    network: Network | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the servers, in addition."""
    protocol: str = "PLAINTEXT"
    """Of the servers' only listener."""
    options: list[str] = field(default_factory=list)
    """Of the servers, in addition."""
    has_data: bool = False
    """Whether each server keeps its messages in a directory."""
    client: dict[str, str] = field(default_factory=dict)
    """What librdkafka needs in addition to an address."""
    members: list[Member] = field(default_factory=list)
    servers: list[Process] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    cuts: list[tuple[str, str]] = field(default_factory=list)
    links: Links = field(default_factory=Links)
    replication: dict[int, int] = field(default_factory=dict)
    """Of PostgreSQL: the port of each member, and the one over which the other member copies it."""
    kept: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    engine: str = ""
    """The URL of the engine without links."""

    def __enter__(self) -> Self:
        self.kept.enter_context(self.links)
        addresses, url = {"etcd": self._start_etcd, "postgresql": self._start_postgres}[self.kind]()
        self.engine = url.format(_joined(addresses))
        self.operate("init")
        for number in range(1, SERVERS + 1):
            port, name = free_port(), f"rota{number}"
            linked = addresses if self.network is not None else [self.links.add(name, each) for each in addresses]
            command = [
                sys.executable,
                "-m",
                "rota",
                "serve",
                "--listen",
                f"{self.protocol}://{self.address(name)}:{port}",
            ]
            command += self.options
            command += ["--engine", url.format(_joined(linked)), "--node-id", str(number), "--ttl-ms", str(TTL_MS)]
            command += ["--set", f"offsets.topic.num.partitions={PARTITIONS}"]
            command += ["--set", f"num.partitions={TOPIC_PARTITIONS}"]
            command += ["--set", f"transaction.state.log.num.partitions={TRANSACTION_PARTITIONS}"]
            if self.has_data:
                command += ["--data", str(self.folder / f"data-{number}")]
            self.servers.append(self._process(name, command, self.environment))
            self.ports.append(port)
        for process in self.servers:
            process.start()
        return self

    def operator(self) -> _rota.EngineOperator:
        """What looks at the engine."""
        return _rota.EngineOperator(self.engine, EngineAccess().arguments(), OPERATOR_MS)

    def joined(self) -> None:
        """Waits until each server knows all of them."""

        def look() -> bool:
            return {_known_servers(port) for port in self.ports} == {SERVERS}

        eventually(look, READY_WITHIN_S, "all servers have joined", self.logs)

    def addresses_of_etcd(self) -> list[str]:
        """HOST:PORT of each member of etcd; none of another engine."""
        return self.engine.removeprefix("etcd://").partition("/")[0].split(",") if self.kind == "etcd" else []

    def ask_etcd(self, call: str, **fields: bytes) -> int:
        """A call of etcd's JSON gateway, such as `kv/put`, at its first member. Returns the status."""
        address = self.addresses_of_etcd()[0]
        body = json.dumps({name: base64.b64encode(value).decode() for name, value in fields.items()}).encode()
        try:
            with urllib.request.urlopen(f"http://{address}/v3/{call}", body, timeout=READY_WITHIN_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def fail_over(self, at: int) -> None:
        """PostgreSQL's primary, the member at this place, has died. The standby takes its place, and gets a standby."""
        old, new = self.members[at], self.members[1 - at]
        assert isinstance(old, Postgres)
        assert isinstance(new, Postgres)
        new.promote()
        old.follow(new, self.replication[new.port])
        new.wait_for(old)

    def operate(self, *words: str) -> None:
        """`rota cluster`, again while the engine does not answer: its members may be busy with the last fault."""
        command = [sys.executable, "-m", "rota", "cluster", *words, "--engine", self.engine]
        said = ""

        def is_done() -> bool:
            nonlocal said
            ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=READY_WITHIN_S)
            said = ended.stderr
            assert ended.returncode in {0, exits.UNREACHABLE}, said
            return ended.returncode == 0

        eventually(is_done, READY_WITHIN_S, "the engine answers", lambda: said)

    def _start_etcd(self) -> tuple[list[tuple[str, int]], str]:
        clients, peers = [free_port() for _ in range(MEMBERS)], [free_port() for _ in range(MEMBERS)]
        hosts = [self.address(f"m{number}") for number in range(MEMBERS)]
        cluster = ",".join(f"m{number}=http://{hosts[number]}:{port}" for number, port in enumerate(peers))
        for number in range(MEMBERS):
            client, other = f"http://{hosts[number]}:{clients[number]}", f"http://{hosts[number]}:{peers[number]}"
            command = ["etcd", "--name", f"m{number}", "--data-dir", str(self.folder / f"m{number}")]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--log-level", "error"]
            command += ["--listen-peer-urls", other, "--initial-advertise-peer-urls", other, "--logger", "zap"]
            command += ["--quota-backend-bytes", str(QUOTA_BYTES), "--initial-cluster", cluster]
            self.members.append(self._process(f"m{number}", command))
        for member in self.members:
            member.start()
        return list(zip(hosts, clients, strict=True)), "etcd://{}/rota/faults"

    def address(self, host: str) -> str:
        """Of a server or of a member of etcd."""
        return "127.0.0.1" if self.network is None else self.network.addresses[host]

    def _process(self, host: str, command: list[str], environment: Mapping[str, str] | None = None) -> Process:
        there = command if self.network is None else self.network.command(host, command)
        return Process(there, self.folder / f"{host}.log", environment or {})

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

    def _start_postgres(self) -> tuple[list[tuple[str, int]], str]:
        # What fills a disk needs a small one.
        is_small = small_disk.why_not() is None
        primary = self.kept.enter_context(Postgres(name="primary", on_small_disks=is_small))
        _, port = self.links.add(STANDBY, ("127.0.0.1", primary.port))
        soon = ["wal_retrieve_retry_interval=200ms"]
        copy = Postgres(soon, name=STANDBY, follows=primary, by=port, on_small_disks=is_small)
        standby = self.kept.enter_context(copy)
        self.members += [primary, standby]
        self.replication = {primary.port: port, standby.port: self.links.add(STANDBY, ("127.0.0.1", standby.port))[1]}
        primary.wait_for(standby)
        addresses = [("127.0.0.1", primary.port), ("127.0.0.1", standby.port)]
        return addresses, "postgres://postgres@{}/postgres?schema=faults"

    def __exit__(self, *_: object) -> None:
        for process in [*self.servers, *self.members]:
            process.kill()
        self.kept.close()

    def logs(self) -> str:
        """What the servers have said."""
        return "\n".join(process.log.read_text(errors="replace")[-2_000:] for process in self.servers)

    def stopped(self) -> list[str]:
        """Servers that have stopped for good, which none may: no engine was restored."""
        lines = itertools.chain.from_iterable(
            process.log.read_text(errors="replace").splitlines() for process in self.servers
        )
        return [line for line in lines if STOPPED in line or LOST in line]


def _joined(addresses: list[tuple[str, int]]) -> str:
    return ",".join(f"{host}:{port}" for host, port in addresses)


class Client:
    """Commits and fetches at whichever server answers. Its calls are in `history`."""

    def __init__(self, fleet: Fleet, history: History, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self.fleet = fleet
        self.history = history
        self.owners: dict[str, int] = {}
        self.refusals: dict[str, str] = {}
        """What was last answered to a commit that was not acknowledged, and by which server."""
        self._answer_within_s = answer_within_s
        self._connections: dict[int, Connection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _ask(self, server: int, request: bytes) -> Reader | None:
        try:
            if server not in self._connections:
                address = (self.fleet.address(f"rota{server + 1}"), self.fleet.ports[server])
                self._connections[server] = Connection(address, timeout=self._answer_within_s)
            return self._connections[server].ask(request)
        except (OSError, ClosedError):
            if server in self._connections:
                self._connections.pop(server).close()
            return None

    def make_topic(self, server: int) -> None:
        self._ask(server, peer.metadata(TOPIC))

    def commit(self, group: str, *partitions: int) -> bool:
        """One attempt at the server that answered last. Whether it was acknowledged."""
        server, began = self.owners.setdefault(group, 0), time.monotonic()
        values = {partition: self.history.begin((group, partition), began) for partition in partitions}
        answer = self._ask(server, peer.commit(group, values, topic=TOPIC))
        errors = None if answer is None else peer.committed(answer)
        is_written = errors == {NONE}
        if not is_written:
            self.refusals[group] = f"server {server + 1}: {errors or 'no answer'}"
        else:
            ended = time.monotonic()
            for partition, value in values.items():
                self.history.acknowledge((group, partition), value, ended)
        self._learn(group, server, is_written)
        return is_written

    def fetch(self, group: str, *partitions: int) -> bool:
        """One attempt, as a commit."""
        server, began = self.owners.setdefault(group, 0), time.monotonic()
        answer = self._ask(server, peer.fetch(group, list(partitions), topic=TOPIC))
        error, offsets = (None, {}) if answer is None else peer.fetched(answer)
        if error == NONE:
            ended = time.monotonic()
            for partition in partitions:
                self.history.fetch((group, partition), offsets[partition], began, ended)
        self._learn(group, server, error == NONE)
        return error == NONE

    def until(self, attempt: Callable[[], bool], what: str) -> None:
        """One attempt after the other, until a server answers. Makes the topic, if no server has it yet."""

        def is_answered() -> bool:
            if attempt():
                return True
            for server in range(SERVERS):
                self.make_topic(server)
            return False

        eventually(is_answered, READY_WITHIN_S, what, self.fleet.logs)

    def _learn(self, group: str, server: int, answers: bool) -> None:
        self.owners[group] = server if answers else (server + 1) % SERVERS


def read_all(fleet: Fleet, history: History, groups: list[str]) -> None:
    """Commits to every group, and fetches every key."""
    client = Client(fleet, history)
    for group in groups:
        client.until(partial(client.commit, group, 0), f"{group} is committed")
    keys = history.keys()
    for group in sorted({*groups, *(group for group, _ in keys)}):
        client.until(partial(client.fetch, group, *range(TOPIC_PARTITIONS)), f"{group} is fetched")
    client.close()


@contextlib.contextmanager
def load(fleet: Fleet, history: History, groups: list[str]) -> Iterator[list[Client]]:
    """Clients commit to these groups and fetch meanwhile. What failed in one of them is raised at the end."""
    over = threading.Event()
    clients = [Client(fleet, history) for _ in range(CLIENTS)]

    def work(seed: int, client: Client) -> None:
        chance = random.Random(seed)
        while not over.is_set():
            attempt = client.commit if chance.random() < 0.5 else client.fetch
            numbers = chance.sample(range(TOPIC_PARTITIONS), chance.randint(1, TOPIC_PARTITIONS))
            answered = attempt(chance.choice(groups), *numbers)
            over.wait(0.002 if answered else 0.02)
        client.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(work, seed, client) for seed, client in enumerate(clients)]
        try:
            yield clients
        finally:
            over.set()
            for each in working:
                each.result()
