"""kill -9 of a server process under commits, joins, static replacements, messages, handovers, compaction, retention:
what it had acknowledged is there when it is started again (S25), no generation changes (S4), and a client that
was replaced stays fenced. In the midst of what it was killed is counted. `make kill` does it 500 times.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

import rota
from harness import peer
from harness.peer import (
    FENCED_INSTANCE_ID,
    LOAD_IN_PROGRESS,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    Committed,
    host_port,
)
from harness.raw import (
    ILLEGAL_GENERATION,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    ClosedError,
    Connection,
    Reader,
)
from rota._rota import DataLog
from rota.log import OFFSETS_TOPIC, records
from tests.server import messages

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("ROTA_KILLS", "50"))
WITHIN_S = 60
ELSEWHERE = {LOAD_IN_PROGRESS, 15, NOT_COORDINATOR, NOT_LEADER_OR_FOLLOWER}
# A member that knew its generation but had no plan yet when its partition moved.
LOADED_ANEW = {ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID}
OFFSETS_AT_ONCE = 8
# Every third kill waits for each of these, if it comes; so long at most.
AWAITED = ("compaction", "checkpoint", "")
AWAITED_FOR_S = 3
MET = {"commit", "join", "plan", "replacement", "message", "handover", "compaction", "checkpoint"}
T = TypeVar("T")


class Process:
    """The server, from its first line to its kill."""

    def __init__(self, directory: Path, seed: int, *pairs: str) -> None:
        command = [sys.executable, "-m", "tests.log.served", str(directory), str(seed), *pairs]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], WITHIN_S)
        line = self.process.stdout.readline() if readable else ""
        assert line, f"the server did not start: {self.kill()}"
        ready = json.loads(line)
        self.addresses = [host_port(address) for address in ready["nodes"]]
        self.lines: list[str] = ready["lines"]
        self.http: str | None = ready["http"]
        self.ca: str | None = ready["ca"]

    def kill(self) -> str:
        self.process.kill()
        return self.process.communicate(timeout=WITHIN_S)[1]


class GoneError(Exception):
    """The server has been killed."""


class Client:
    """One group's client: it asks the group's coordinator, and records the answers."""

    def __init__(self, group: str, seed: int) -> None:
        self.group = group
        self.random = random.Random(f"{group}/{seed}")
        self.acknowledged = 0
        self.connections: list[Connection] = []
        self.doing = ""
        """What the request that is under way is about."""

    def connect(self, addresses: list[tuple[str, int]]) -> None:
        self.connections = [Connection(address) for address in addresses]

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def ask(self, request: bytes, read: Callable[[Reader], T], error: Callable[[T], int]) -> T:
        """The answer of the coordinator, wherever it is by now. Raises GoneError."""
        deadline_s = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline_s:
            for connection in self.connections:
                try:
                    answer = read(connection.ask(request))
                except (ClosedError, OSError) as gone:
                    raise GoneError from gone
                if error(answer) not in ELSEWHERE:
                    return answer
                self.refused()
        raise AssertionError(f"{self.group} has no coordinator")

    def refused(self) -> None:
        """A request was refused because the partition was on its way: it may be durable all the same."""


class Witness(Protocol):
    """A client with a work of its own, which can tell whether the server has kept its word."""

    acknowledged: int
    doing: str

    def connect(self, addresses: list[tuple[str, int]]) -> None: ...

    def close(self) -> None: ...

    def step(self) -> None:
        """One request that changes something."""

    def check(self) -> None:
        """Check that the answers so far still hold."""


def worst(errors: set[int]) -> int:
    """Of the partitions of a commit, which are refused together."""
    return max(errors)


class Committer(Client):
    """Commits without being a member."""

    def __init__(self, group: str, seed: int) -> None:
        super().__init__(group, seed)
        self.next = 0
        self.kept: Committed = {}
        self.maybe: dict[int, set[int]] = {}

    def step(self) -> None:
        self.doing = "commit"
        self.next += 1
        partitions = self.random.sample(range(2 * OFFSETS_AT_ONCE), OFFSETS_AT_ONCE)
        offsets = dict.fromkeys(partitions, self.next)
        for partition in partitions:
            self.maybe.setdefault(partition, set()).add(self.next)
        errors = self.ask(peer.commit(self.group, offsets), peer.committed, worst)
        assert errors == {NONE}
        for partition in partitions:
            self.kept[partition] = self.next
            self.maybe[partition] = set()
        self.acknowledged += 1

    def check(self) -> None:
        wanted = list(range(2 * OFFSETS_AT_ONCE))
        _, found = self.ask(peer.fetch(self.group, wanted), peer.fetched, lambda answer: answer[0])
        for partition in wanted:
            kept = self.kept.get(partition, -1)
            assert found[partition] in {kept, *self.maybe.get(partition, ())}, (
                f"{self.group} {partition}: {kept} was acknowledged, {found[partition]} is there"
            )
            # What is there now is what has to stay.
            self.kept[partition], self.maybe[partition] = found[partition], set()


class Static(Client):
    """A static member that is replaced again and again."""

    def __init__(self, group: str, seed: int) -> None:
        super().__init__(group, seed)
        self.id, self.generation, self.plan = "", -1, b""
        self.replaced: list[str] = []
        """Members with a plan whose successor got it."""
        self.plans: dict[int, bytes] = {}
        self.certain = False

    def refused(self) -> None:
        self.certain = False

    def step(self) -> None:
        self.certain, self.doing = False, "replacement"
        answer = self.ask(peer.join(self.group, "", "i"), peer.joined, lambda joined: joined.error)
        assert answer.error == NONE
        assert answer.generation >= self.generation, "a generation went backwards"
        self.doing = "plan"
        fresh = b"plan of " + answer.member.encode()
        request = peer.sync(self.group, answer.generation, answer.member, {answer.member: fresh}, "i")
        error, plan = self.ask(request, peer.synced, lambda answer: answer[0])
        if error in LOADED_ANEW:
            return
        assert error == NONE
        assert self.plans.setdefault(answer.generation, plan) == plan, "a generation has two plans"
        if self.id:
            self.replaced.append(self.id)
        self.id, self.generation, self.certain = answer.member, answer.generation, True
        self.acknowledged += 1

    def check(self) -> None:
        """By SyncGroups: a heartbeat is answered NONE while the partition is loaded."""
        for member in self.replaced[-3:]:
            assert self.synced(member) == (FENCED_INSTANCE_ID, b""), f"{member} was replaced"
        if self.certain:
            assert self.synced(self.id) == (NONE, self.plans[self.generation]), "the member with the plan is gone"

    def synced(self, member: str) -> tuple[int, bytes]:
        request = peer.sync(self.group, self.generation, member, {}, "i")
        return self.ask(request, peer.synced, lambda answer: answer[0])


class Dynamic(Client):
    """Members that join their own group one after the other; each begins a generation."""

    def __init__(self, group: str, seed: int) -> None:
        super().__init__(group, seed)
        self.told = -1
        self.member = ""
        self.plans: dict[int, bytes] = {}
        self.certain = False
        """No request since the plan's answer may have become durable."""

    def step(self) -> None:
        self.doing = "join"
        answer = self.ask(peer.join(self.group, self.member, version=3), peer.joined, lambda joined: joined.error)
        if answer.error == UNKNOWN_MEMBER_ID:  # What was never synced is not durable.
            assert not self.certain, "the member of the last generation is gone"
            self.member = ""
            return
        assert answer.error == NONE
        assert answer.generation > self.told, f"generation {answer.generation} after {self.told}"
        self.member, self.certain, self.doing = answer.member, False, "plan"
        plan = b"%d %s" % (answer.generation, os.urandom(4).hex().encode())
        request = peer.sync(self.group, answer.generation, self.member, {self.member: plan})
        error, share = self.ask(request, peer.synced, lambda answer: answer[0])
        if error in LOADED_ANEW:
            return
        assert error == NONE
        assert self.plans.setdefault(answer.generation, share) == share, "a generation has two plans"
        self.told, self.certain = answer.generation, True
        self.acknowledged += 1

    def check(self) -> None:
        if self.told < 0 or not self.member:
            return
        request = peer.sync(self.group, self.told, self.member, {})
        error, share = self.ask(request, peer.synced, lambda answer: answer[0])
        assert error in ({NONE} if self.certain else {NONE, *LOADED_ANEW}), error
        if error == NONE:
            assert share == self.plans[self.told], "a generation has two plans"


class Sender(Client):
    """Sends messages to a topic that keeps a few of them."""

    def __init__(self, group: str, seed: int) -> None:
        super().__init__(group, seed)
        self.last = -1
        self.text = b""

    def step(self) -> None:
        self.doing = "message"
        text = b"%s %d" % (self.group.encode(), self.random.getrandbits(64))
        answer = self.ask(messages.produce(0, messages.batch(text)), messages.produced, lambda answer: answer[0])
        assert answer[0] == NONE
        assert answer[1] > self.last, "an offset was given twice"
        self.last, self.text = answer[1], text
        self.acknowledged += 1

    def check(self) -> None:
        if self.last < 0:
            return
        request = messages.fetch(0, offset=self.last, max_wait_ms=0)
        (found,) = self.ask(request, messages.fetched, lambda answer: answer[0].error)
        assert (found.error, self.text in found.records) == (NONE, True), f"message {self.last} is lost"


def signs(directory: Path) -> set[str]:
    """What a server that was killed, or that runs, is in the midst of."""
    names = [path.name for path in directory.glob("*.wal.*")]
    met = {"checkpoint"} if len(names) > 1 else set()
    if any(path.suffix in (".cleaned", ".swap") for path in directory.glob("*/*")):
        met.add("compaction")
    moving = directory.with_name(f"{directory.name}.moving")
    if moving.exists() and moving.read_bytes() == b"1":
        met.add("handover")
    return met


def await_sign(directory: Path, awaited: str) -> None:
    """Until it shows, or for a while: it may not come at all."""
    deadline_s = time.monotonic() + AWAITED_FOR_S
    while awaited and awaited not in signs(directory) and time.monotonic() < deadline_s:
        pass


def worked(client: Witness, stop: threading.Event, failures: list[BaseException]) -> None:
    try:
        while not stop.is_set():
            client.step()
    except GoneError:
        pass
    except BaseException as failure:  # It is raised where the test looks.
        failures.append(failure)


def round_of(
    directory: Path, clients: list[Witness], chance: random.Random, awaited: str, met: Counter[str]
) -> list[str]:
    """Starts the server, checks what the one before had told, works, and kills it at a moment. Gives what it said, and
    counts what it was in the midst of."""
    process = Process(directory, chance.randrange(1 << 30))
    failures: list[BaseException] = []
    stop = threading.Event()
    try:
        for client in clients:
            client.connect(process.addresses)
            client.check()
        moment = sum(client.acknowledged for client in clients) + chance.randint(1, 400)
        threads = [threading.Thread(target=worked, args=(client, stop, failures)) for client in clients]
        for thread in threads:
            thread.start()
        deadline_s = time.monotonic() + WITHIN_S
        while sum(client.acknowledged for client in clients) < moment and not failures:
            assert time.monotonic() < deadline_s, "nothing is acknowledged any more"
            stop.wait(chance.random() / 200)
        await_sign(directory, awaited)
    finally:
        said = process.kill()
        stop.set()
    met.update(signs(directory))
    for thread in threads:
        thread.join(WITHIN_S)
    met.update({client.doing for client in clients})
    for client in clients:
        client.close()
    if failures:
        raise AssertionError(f"{failures[0]!r}; the server said: {said}") from failures[0]
    return process.lines


@pytest.mark.timeout(600 + 60 * KILLS)
def test_nothing_that_was_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("ROTA_SEED", "1"))
    chance = random.Random(seed)
    clients: list[Witness] = [
        *(Committer(f"committer-{at}", seed) for at in range(3)),
        *(Static(f"static-{at}", seed) for at in range(2)),
        *(Dynamic(f"dynamic-{at}", seed) for at in range(2)),
        Sender("sender", seed),
    ]
    completed, met = 0, Counter[str]()
    for at in range(KILLS):
        lines = round_of(tmp_path / "data", clients, chance, AWAITED[at % len(AWAITED)], met)
        completed += any("was not closed" in line for line in lines)
        assert all("was not closed" in line or "torn tail" in line for line in lines), lines
    with rota.Server(data=tmp_path / "data", nodes=2) as server:
        for client in clients:
            client.connect([host_port(address) for address in server.nodes().values()])
            client.check()
            client.close()
    assert completed > 0, "no start had anything to complete"
    log = DataLog(tmp_path / "data")
    held = {
        partition: (end, list(records(log, partition)))
        for topic, partition, _, end in log.partitions()
        if topic == OFFSETS_TOPIC
    }
    assert any(len(there) < end - 1_000 for end, there in held.values()), "nothing was compacted"
    kept = min(int(path.stem) for path in (tmp_path / "data" / "t-0").glob("*.log"))
    assert kept > 0, "retention dropped nothing"
    assert set(met) >= MET, f"in the midst of {met}"
    assert all(client.acknowledged > KILLS for client in clients), [client.acknowledged for client in clients]
    acknowledged = sum(client.acknowledged for client in clients)
    print(f"{KILLS} kills, {acknowledged} acknowledged, 0 lost; killed in the midst of {dict(met)}")
