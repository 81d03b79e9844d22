"""TLS and ACLs: heartbeats over TLS beside a bare echo and Kafka, other connections while many connect, and what a
verdict costs. The load and each server are programs of `benches/rust/examples`, the server on a core of its own."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benches import brokers
from benches.heartbeats import DEPTHS, of_a_heartbeat
from benches.ratios.row import Row, Wanted, at_least, at_most
from benches.ratios.run import Plan, native, warmed
from harness.brokers import free_port
from rota import system
from rota.bench import processes
from rota.bench.figures import Figure, count, duration, figure

GOAL = "PERF-14"
CONNECTIONS = (16, 256)
RECONNECTS = 1_000
RATE = 2_000
WITHIN_S = 120
MADE_UP = "-"
STORM_S = 3.0
P99_MAX_S = 0.005


@dataclass(frozen=True)
class Peer:
    """A server: its plain address, over which members join, and the one with TLS."""

    name: str
    plain: str
    tls: str
    pid: int


@dataclass(frozen=True)
class Round:
    """What one load did."""

    answers: int
    errors: int
    seconds: float
    p99_s: float
    cpu_s: float


@dataclass
class Result:
    """All rounds at one server."""

    peer: Peer
    rounds: list[Round] = field(default_factory=list)

    @property
    def per_s(self) -> Figure:
        return figure([one.answers / one.seconds for one in self.rounds])

    @property
    def cpu_each_s(self) -> Figure:
        return figure([one.cpu_s / one.answers for one in self.rounds])

    @property
    def p99_s(self) -> Figure:
        return figure([one.p99_s for one in self.rounds])

    @property
    def answers(self) -> int:
        return sum(one.answers for one in self.rounds)

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.rounds)


@contextmanager
def running(words: Sequence[str], core: int | None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program of the example, and its first line; it ends with its standard input."""
    with brokers.pinned(core):
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        line = program.stdout.readline().strip()
        if not line:
            raise processes.BenchError(f"`{' '.join(words)}` does not start")
        yield program, line
    finally:
        program.stdin.close()
        program.wait(WITHIN_S)
        program.stdout.close()


@contextmanager
def loading(folder: str, peer: Peer, connections: int, seconds: float, rate: float) -> Iterator[subprocess.Popen[str]]:
    """A load whose members have joined."""
    words = ["load", folder, peer.plain, peer.tls, connections, seconds, rate]
    with running(native("tls", *words), None) as (load, line):
        assert line == "ready", line
        yield load


def measured(load: subprocess.Popen[str], pid: int) -> Round:
    """The result of a load that begins now."""
    assert load.stdin is not None
    assert load.stdout is not None
    before = system.cpu_s(pid) or 0.0
    load.stdin.write("go\n")
    load.stdin.flush()
    answers, errors, seconds, _, p99_ns = map(float, load.stdout.readline().split())
    after = system.cpu_s(pid) or 0.0
    # The warm-up of the load is a part of it, and so are its handshakes.
    return Round(int(answers), int(errors), seconds, p99_ns / 1e9, after - before)


def in_turns(plan: Plan, folder: str, peers: Sequence[Peer], connections: int) -> list[Result]:
    """Closed loops at all servers."""
    results = [Result(peer) for peer in peers]
    seconds = 0.2 if plan.quick else 2.0
    for number in range(plan.rounds):
        for result in results:
            plan.say(f"round {number + 1} of {plan.rounds}: {result.peer.name} over TLS, {connections} connections")
            with loading(folder, result.peer, connections, seconds, 0) as load:
                result.rounds.append(measured(load, result.peer.pid))
    return results


def over_tls(plan: Plan) -> Iterator[Row]:
    """The loads, and what other connections notice of many that connect."""
    with processes.pinned_load() as core, ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-tls-"))
        subprocess.run(native("tls", "certificate", folder), check=True)
        program, line = stack.enter_context(running(native("tls", "serve", folder), core))
        plain, secured = line.split()
        ours = Peer("rota", plain, secured, program.pid)
        program, line = stack.enter_context(running(native("tls", "echo", folder), core))
        peers = [ours, Peer("bare rustls echo", MADE_UP, line, program.pid)]
        try:
            peers.append(stack.enter_context(kafka(core, folder, plan)))
        except brokers.MissingError as error:
            yield Row(GOAL, "TCP heartbeats over TLS", "Kafka 4.4 over TLS", note=str(error))
        for connections in CONNECTIONS[:1] if plan.quick else CONNECTIONS:
            mine, *others = in_turns(plan, folder, peers, connections)
            for other in others:
                yield from beside(mine, other, connections)
        yield from reconnecting(plan, folder, ours)


def beside(mine: Result, other: Result, connections: int) -> Iterator[Row]:
    """Rates and CPU of two servers."""
    is_kafka = other.peer.name.startswith("Kafka")
    refused = mine.errors + other.errors
    operations = f"{count(mine.answers)} / {count(other.answers)}" + (f", {refused:,} REFUSED" if refused else "")
    wanted: Wanted | None = (at_least(3) if is_kafka else at_least(0.9)) if connections == CONNECTIONS[-1] else None
    yield Row(
        GOAL,
        f"TLS heartbeats/s, {connections} x 1",
        other.peer.name,
        count(mine.per_s.median),
        count(other.per_s.median),
        mine.per_s.over(other.per_s),
        None if refused else wanted,
        operations,
    )
    yield Row(
        GOAL,
        f"CPU of a TLS heartbeat, {connections} x 1",
        other.peer.name,
        duration(mine.cpu_each_s.median),
        duration(other.cpu_each_s.median),
        mine.cpu_each_s.over(other.cpu_each_s),
        None,
        operations,
    )


@contextmanager
def kafka(core: int | None, folder: str, plan: Plan) -> Iterator[Peer]:
    """Kafka with a second listener, which has TLS with the same certificate."""
    secured = free_port()

    def settings(port: int) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{secured}"
        return {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(Path(folder, "server.pem")),
        }

    with brokers.kafka(core, settings) as served:
        assert served.pid is not None
        warmed(served, plan)
        yield Peer("Kafka 4.4", served.address, f"127.0.0.1:{secured}", served.pid)


def reconnecting(plan: Plan, folder: str, ours: Peer) -> Iterator[Row]:
    """The 99th percentile of heartbeats of other connections, without and with many that connect, in turns."""
    quiet, busy = Result(ours), Result(ours)
    done, took_s = [], []
    reconnects = RECONNECTS // 10 if plan.quick else RECONNECTS
    for number in range(plan.rounds):
        for result in (quiet, busy):
            what = f"while {reconnects:,} connect" if result is busy else "alone"
            plan.say(f"round {number + 1} of {plan.rounds}: other connections {what}")
            with loading(folder, ours, CONNECTIONS[0], 0.5 if plan.quick else STORM_S, RATE) as load:
                words = ["chrt", "--idle", "0", *native("tls", "reconnect", folder, ours.tls, reconnects)]
                storm = subprocess.Popen(words, stdout=subprocess.PIPE, text=True) if result is busy else None
                result.rounds.append(measured(load, ours.pid))
                if storm is not None:
                    told = storm.communicate(timeout=WITHIN_S)[0].split()
                    done.append(int(told[0]))
                    took_s.append(float(told[1]))
    operations = f"{count(quiet.answers)} / {count(busy.answers)}"
    handshakes = f"{sum(done):,} handshakes, {duration(statistics.median(took_s))} each {reconnects:,}"
    yield Row(
        GOAL,
        f"p99 of other connections during {reconnects:,} reconnects ({RATE:,} heartbeats/s)",
        "the same without them",
        duration(busy.p99_s.median),
        duration(quiet.p99_s.median),
        busy.p99_s.over(quiet.p99_s),
        None,
        f"{operations}; {handshakes}",
    )
    yield Row(
        GOAL,
        f"the same, of {duration(P99_MAX_S)}",
        "the goal",
        duration(busy.p99_s.median),
        duration(P99_MAX_S),
        figure([one / P99_MAX_S for one in busy.p99_s.rounds]),
        at_most(1),
        operations,
    )


def of_acls(plan: Plan) -> Iterator[Row]:
    """Instructions of a heartbeat on the server's thread, with an authorizer of 1,001 ACLs and without one."""
    if shutil.which("valgrind") is None:
        raise brokers.MissingError("no `valgrind`: what ACLs cost a heartbeat is not counted")
    program = Path(native("heartbeats")[0])
    for depth in DEPTHS[-1:] if plan.quick else DEPTHS:
        plan.say(f"counting instructions of heartbeats, {depth} in each write")
        without, checked = of_a_heartbeat(program, depth), of_a_heartbeat(program, depth, "acls")
        yield Row(
            GOAL,
            f"instructions of a heartbeat with ACLs, {depth} in each write",
            "without an authorizer",
            f"{checked:,.0f}",
            f"{without:,.0f}",
            figure([checked / without]),
            None,
            f"{checked - without:+,.0f} instructions",
        )
