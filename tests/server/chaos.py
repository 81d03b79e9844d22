"""Faults, one after the other, while clients commit and fetch: `make chaos`.

`python -m tests.server.chaos [--engine etcd|postgresql] [--network] [--faults N] [--seed N] [--kinds KIND,...]
[--porcupine] [--json FILE]`

After each fault every group has to answer again, all histories have to be those of registers, and no server may have
stopped for good. The first fault after which that is not so is the last one. Exit code 1: something was found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path

from harness import etcd_members, small_disk
from harness.postgres import Postgres
from rota import RotaError
from rota.cluster.looking import image, members
from rota.demo.cluster import offsets_partition
from tests.clients.eventually import eventually
from tests.server import cluster_on_engines as cluster
from tests.server import second_opinion
from tests.server.cluster_on_engines import READY_WITHIN_S, TTL_S, Client, Fleet
from tests.server.links import Mode
from tests.server.network import Network
from tests.server.registers import History

ERA = 10
"""So many faults have groups of their own: histories are checked after each fault, and must not grow for ever."""
PROBE_WITHIN_S = 0.3
FILL_BYTES = 1 << 20
FILLS_MAX = 200
NO_ROOM = ("could not extend file", "could not write init file")
PANIC = "PANIC:  could not write to file"
"""What PostgreSQL says of a full disk: to an append or, after a crash, to each new connection; of its log."""


@dataclass
class Scene:
    """Where a fault happens."""

    fleet: Fleet
    history: History
    chance: random.Random
    era: int
    clients: list[Client] = field(default_factory=list)
    """The load."""
    probes: Iterator[int] = field(default_factory=itertools.count)
    found: list[str] = field(default_factory=list)
    """What a fault saw that must not be."""

    def no_commit_for(self, seconds: float, what: str) -> None:
        """No commit that begins now is acknowledged for so long: the engine cannot keep it."""
        began = time.monotonic()
        time.sleep(seconds)
        groups = cluster.names(self.era, cluster.GROUPS, is_loaded=True)
        self.found += [
            f"{each}: acknowledged while {what}" for each in groups if self.history.last_commit(each) > began
        ]

    def server(self) -> int:
        """One of them, by its place."""
        return self.chance.randrange(cluster.SERVERS)

    def leader(self) -> int:
        """The place of the member that leads."""
        operator = self.fleet.operator()

        def leading() -> list[int]:
            return [at for at, member in enumerate(members(operator)) if member.leads]

        return eventually(leading, READY_WITHIN_S, "a member leads")[0]

    def in_engine(self) -> list[str]:
        """What the engine has of partitions and of itself."""
        operator = self.fleet.operator()
        try:
            rows = [str(row) for row in image(operator).partitions]
        except RotaError as error:
            rows = [str(error)]
        return [*rows, *map(str, members(operator))]


# ---- faults of processes


def kill(scene: Scene) -> None:
    """A server is killed, and starts again before or after its partitions were taken over."""
    server = scene.fleet.servers[scene.server()]
    server.kill()
    time.sleep(scene.chance.uniform(0, 2 * TTL_S))
    server.start()


def terminate(scene: Scene, at: int | None = None) -> None:
    """A server hands over and ends."""
    server = scene.fleet.servers[scene.server() if at is None else at]
    server.signal(signal.SIGTERM)
    if server.running is not None:
        server.running.wait(timeout=READY_WITHIN_S)
    server.start()


def rolling_restart(scene: Scene) -> None:
    """Every server, one after the other, each when all groups answer."""
    for at in range(cluster.SERVERS):
        terminate(scene, at)
        await_answers(scene, f"after server {at + 1} has started again")


def pause(scene: Scene, ttls: float = 0.5) -> None:
    """A server is stopped for less than a TTL."""
    server = scene.fleet.servers[scene.server()]
    server.signal(signal.SIGSTOP)
    time.sleep(ttls * TTL_S)
    server.signal(signal.SIGCONT)


def kill_member(scene: Scene) -> None:
    """A member of the engine is killed."""
    _kill_member(scene, scene.chance.randrange(len(scene.fleet.members)))


def kill_leader(scene: Scene) -> None:
    """The member that leads is killed, or the one that takes writes."""
    _kill_member(scene, scene.leader())


def _kill_member(scene: Scene, at: int) -> None:
    member = scene.fleet.members[at]
    member.kill()
    time.sleep(TTL_S)
    member.start()


def pause_member(scene: Scene) -> None:
    """A member of the engine is stopped."""
    _pause_members(scene, [scene.chance.randrange(len(scene.fleet.members))])


def no_quorum(scene: Scene) -> None:
    """Two members are stopped."""
    _pause_members(scene, [0, 1])


def _pause_members(scene: Scene, places: list[int]) -> None:
    for at in places:
        scene.fleet.members[at].signal(signal.SIGSTOP)
    time.sleep(TTL_S)
    for at in places:
        scene.fleet.members[at].signal(signal.SIGCONT)


def mend(scene: Scene) -> None:
    """The engine is compacted and defragmented under load, or vacuumed."""
    scene.fleet.operate("mend")


def full(scene: Scene) -> None:
    """The quota of etcd is used up, until an operator deletes something and gives space back."""
    fleet = scene.fleet
    for number in itertools.count():
        key = b"/filler/%d" % number
        if fleet.ask_etcd("kv/put", key=key, value=bytes(FILL_BYTES)) != HTTPStatus.OK:
            break
    eventually(lambda: fleet.operator().alarms(), READY_WITHIN_S, "etcd raises an alarm")
    scene.no_commit_for(TTL_S * scene.chance.choice([0.5, 2, 3]), "etcd was full")
    assert fleet.ask_etcd("kv/deleterange", key=b"/filler/", range_end=b"/filler0") == HTTPStatus.OK
    fleet.operate("mend")


def failover(scene: Scene) -> None:
    """PostgreSQL's primary is gone for good, and an operator promotes its standby."""
    at = scene.leader()
    scene.fleet.members[at].kill()
    time.sleep(scene.chance.uniform(0, 2 * TTL_S))
    scene.fleet.fail_over(at)


def full_tables(scene: Scene) -> None:
    """The file system of the primary's tables is full, until an operator makes room."""
    primary = _primary(scene)
    disk, before = primary.tables, len(primary.said())
    assert disk is not None
    disk.fill()
    # A page that is freed serves the next append: commits need not wait all the time.

    def finds_no_room() -> bool:
        said = primary.said()[before:]
        return any(each in said for each in NO_ROOM)

    eventually(finds_no_room, READY_WITHIN_S, "PostgreSQL finds no room", primary.said)
    time.sleep(TTL_S * scene.chance.choice([0.5, 2, 3]))
    disk.empty()


def full_log(scene: Scene) -> None:
    """A forgotten slot keeps the primary's write-ahead log until its file system is full, which ends PostgreSQL. An
    operator makes room, starts it, and drops the slot."""
    primary = _primary(scene)
    disk = primary.wal
    assert disk is not None
    primary.sql("SELECT pg_create_physical_replication_slot('forgotten', true)")
    disk.fill()
    written = f"SELECT pg_logical_emit_message(true, 'filler', repeat('x', {FILL_BYTES}))"
    for _ in range(FILLS_MAX):
        if primary.try_sql(written).returncode != 0:
            break
    assert PANIC in primary.said(), primary.said()[-2_000:]
    time.sleep(TTL_S * scene.chance.choice([0.5, 2, 3]))
    disk.empty()
    if primary.is_ended():
        primary.start()
    dropped = "SELECT pg_drop_replication_slot('forgotten')"
    eventually(lambda: primary.try_sql(dropped).returncode == 0, READY_WITHIN_S, "PostgreSQL recovers", primary.said)


def _primary(scene: Scene) -> Postgres:
    primary = scene.fleet.members[scene.leader()]
    assert isinstance(primary, Postgres)
    return primary


# ---- faults of links


def far_from_standby(scene: Scene) -> None:
    """What PostgreSQL's primary and its synchronous standby send each other is lost."""
    links, name = scene.fleet.links, cluster.STANDBY
    links.set(name, Mode.DROP, Mode.DROP)
    scene.no_commit_for(TTL_S * scene.chance.choice([0.5, 2, 3]), "no standby had it")
    links.set(name)


def _linked(scene: Scene, there: Mode, back: Mode) -> None:
    """So for less than a TTL, or for longer."""
    name = f"rota{scene.server() + 1}"
    scene.fleet.links.set(name, there, back)
    time.sleep(TTL_S * scene.chance.choice([0.5, 2, 3]))
    scene.fleet.links.set(name)


def resets(scene: Scene) -> None:
    """Connections of a server end again and again."""
    name, until = f"rota{scene.server() + 1}", time.monotonic() + TTL_S
    while time.monotonic() < until:
        scene.fleet.links.reset(name)
        time.sleep(scene.chance.uniform(0.05, 0.4))


def delayed_append(scene: Scene) -> None:
    """An append arrives after its owner has lost the partition. No other client writes there meanwhile."""
    (group,) = cluster.names(f"{scene.era}-probe-{next(scene.probes)}", 1, is_loaded=False)
    client, late = Client(scene.fleet, scene.history), Client(scene.fleet, scene.history, PROBE_WITHIN_S)
    client.until(partial(client.commit, group, 0), f"{group} is committed")
    owner, links = client.owners[group], scene.fleet.links
    name = f"rota{owner + 1}"
    links.set(name, Mode.HOLD)
    try:
        late.owners[group] = owner
        late.commit(group, 0)

        def is_taken_over() -> bool:
            return client.fetch(group, 0) and client.owners[group] != owner

        eventually(is_taken_over, READY_WITHIN_S, "another server answers", scene.fleet.logs)
    finally:
        before = links.answered(name)
        links.set(name)
    eventually(lambda: not links.held(name), READY_WITHIN_S, "what was held back arrives")
    eventually(lambda: links.answered(name) > before + 1, READY_WITHIN_S, "the engine answers", scene.fleet.logs)
    client.until(partial(client.commit, group, 0), f"{group} is committed again")
    client.until(partial(client.fetch, group, 0), f"{group} is fetched")
    client.close()
    late.close()


# ---- faults of a network


def cut(scene: Scene, names: Callable[[Scene], tuple[str, list[str]]], mute: bool, deaf: bool) -> None:
    """What one host sends to others is lost, or what they send to it, or both."""
    one, others = names(scene)
    if mute:
        scene.fleet.cut([one], others)
    if deaf:
        scene.fleet.cut(others, [one])
    time.sleep(TTL_S * scene.chance.choice([0.5, 2, 3]))
    scene.fleet.heal()


SERVERS = [f"rota{number}" for number in range(1, cluster.SERVERS + 1)]
MEMBERS = [f"m{number}" for number in range(cluster.MEMBERS)]
HOSTS = [*SERVERS, *MEMBERS]


def of_server(scene: Scene) -> tuple[str, list[str]]:
    """A server and all members."""
    return scene.chance.choice(SERVERS), MEMBERS


def of_member(scene: Scene) -> tuple[str, list[str]]:
    """A member and the other ones."""
    one = scene.chance.choice(MEMBERS)
    return one, [each for each in MEMBERS if each != one]


def of_two(scene: Scene) -> tuple[str, list[str]]:
    """A server and two members."""
    return scene.chance.choice(SERVERS), scene.chance.sample(MEMBERS, 2)


Fault = Callable[[Scene], None]

FAULTS: Mapping[str, Fault] = {
    "kill": kill,
    "long pause": partial(pause, ttls=3),
    "delayed append": delayed_append,
    "kill the leader": kill_leader,
    "terminate": terminate,
    "cut off": partial(_linked, there=Mode.DROP, back=Mode.DROP),
    "no quorum": no_quorum,
    "pause": pause,
    "slow": partial(_linked, there=Mode.SLOW, back=Mode.SLOW),
    "kill a member": kill_member,
    "rolling restart": rolling_restart,
    "mute": partial(_linked, there=Mode.DROP, back=Mode.PASS),
    "deaf": partial(_linked, there=Mode.PASS, back=Mode.DROP),
    "held back": partial(_linked, there=Mode.HOLD, back=Mode.PASS),
    "resets": resets,
    "pause a member": pause_member,
    "mend": mend,
}
OF_ENGINE: Mapping[str, Mapping[str, Fault]] = {
    "etcd": {"full": full},
    "postgresql": {
        "far from the standby": far_from_standby,
        **({} if small_disk.why_not() else {"full tables": full_tables, "full log": full_log}),
        "failover": failover,
    },
}
"""Faults that only one engine has."""
CUTS: Mapping[str, Fault] = {
    "cut off": partial(cut, names=of_server, mute=True, deaf=True),
    "mute": partial(cut, names=of_server, mute=True, deaf=False),
    "deaf": partial(cut, names=of_server, mute=False, deaf=True),
    "member cut off": partial(cut, names=of_member, mute=True, deaf=True),
    "member mute": partial(cut, names=of_member, mute=True, deaf=False),
    "far from two members": partial(cut, names=of_two, mute=True, deaf=True),
}


@dataclass
class Result:
    """What was played, and what was found."""

    engine: str
    seed: int
    struck: list[tuple[str, float]] = field(default_factory=list)
    """Faults, and how many seconds after each all groups had answered a commit."""
    acknowledged: int = 0
    fetched: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    asks_porcupine: bool = False
    porcupine: Counter[str] = field(default_factory=Counter)
    """How many histories of a sample it called Ok, Illegal or Unknown."""

    def add(self, history: History) -> None:
        """What an era has, when it is over."""
        if self.asks_porcupine:
            said, illegal = second_opinion.of_sample(history)
            self.porcupine += said
            self.violations += illegal
        self.acknowledged += history.acknowledged()
        self.fetched += history.fetched()

    def summary(self) -> dict[str, object]:
        """What is written as JSON."""
        by_name: defaultdict[str, list[float]] = defaultdict(list)
        for name, seconds in self.struck:
            by_name[name].append(seconds)
        kinds = {
            name: {"count": len(took), "median_s": round(statistics.median(took), 2), "longest_s": round(max(took), 2)}
            for name, took in sorted(by_name.items())
        }
        return {
            "engine": self.engine,
            "seed": self.seed,
            "faults": len(self.struck),
            "seconds": round(self.seconds, 1),
            "commits_acknowledged": self.acknowledged,
            "fetches": self.fetched,
            "violations": self.violations,
            "porcupine": dict(self.porcupine),
            "answered_again": kinds,
        }


def await_answers(scene: Scene, when: str) -> float:
    """Waits until all groups under load have acknowledged a commit that begins now. Returns the seconds it took."""
    began = time.monotonic()
    groups = cluster.names(scene.era, cluster.GROUPS, is_loaded=True)

    def silent() -> list[str]:
        return [group for group in groups if scene.history.last_commit(group) < began]

    def detail() -> str:
        lines = [
            f"{group}, partition {offsets_partition(group)}: {[client.refusals.get(group) for client in scene.clients]}"
            for group in silent()
        ]
        return "\n".join([*lines, *scene.in_engine(), scene.fleet.logs()])

    eventually(lambda: not silent(), READY_WITHIN_S, f"all groups answer {when}", detail)
    return time.monotonic() - began


def kinds_of(faults: Mapping[str, Fault], chance: random.Random) -> Iterator[str]:
    """Every kind equally often: the first ones in the table's order, then in any."""
    deck = list(faults)
    while True:
        yield from deck
        chance.shuffle(deck)


def _violations(scene: Scene) -> list[str]:
    """What must not be, of the engine, too."""
    found = scene.history.violations() + scene.fleet.stopped() + scene.found
    return found + etcd_members.differing(scene.fleet.addresses_of_etcd())


def play(
    fleet: Fleet,
    faults: Mapping[str, Fault],
    count: int,
    seed: int,
    tell: Callable[[str], object],
    asks_porcupine: bool = False,
) -> Result:
    """Plays faults until something is found."""
    result, chance, began = (
        Result(fleet.kind, seed, asks_porcupine=asks_porcupine),
        random.Random(seed),
        time.monotonic(),
    )
    kinds = kinds_of(faults, chance)
    for era in itertools.count():
        scene = Scene(fleet, History(), chance, era)
        groups = cluster.names(era, cluster.GROUPS, is_loaded=True)
        cluster.read_all(fleet, scene.history, groups)
        with cluster.load(fleet, scene.history, groups) as scene.clients:
            for name in itertools.islice(kinds, min(ERA, count - len(result.struck))):
                await_answers(scene, f"before {name}")
                faults[name](scene)
                took = await_answers(scene, f"after {name}")
                result.struck.append((name, took))
                result.violations = _violations(scene)
                done = result.acknowledged + scene.history.acknowledged()
                tell(f"{len(result.struck)} faults, {done} commits: {name}, all groups answer after {took:.1f} s")
                if result.violations:
                    break
        if not result.violations:
            cluster.read_all(fleet, scene.history, groups)
            result.violations = _violations(scene)
        result.add(scene.history)
        if result.violations or len(result.struck) >= count:
            result.seconds = time.monotonic() - began
            return result
    raise AssertionError("eras do not end")


def played(
    folder: Path,
    kind: str,
    count: int,
    seed: int,
    *,
    on_network: bool = False,
    environment: Mapping[str, str] | None = None,
    tell: Callable[[str], object] = print,
    only: list[str] | None = None,
    asks_porcupine: bool = False,
) -> Result:
    """Starts everything and plays faults, of all kinds or of some."""
    with ExitStack() as stack:
        network = stack.enter_context(Network(HOSTS)) if on_network else None
        fleet = stack.enter_context(Fleet(folder, kind, network, environment or {}))
        faults = CUTS if on_network else {**OF_ENGINE[kind], **FAULTS}
        return play(fleet, {name: faults[name] for name in only or faults}, count, seed, tell, asks_porcupine)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["etcd", "postgresql"], default="etcd")
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","))
    parser.add_argument("--porcupine", action="store_true", help="ask porcupine of a sample of histories, too (Go)")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-chaos-", ignore_cleanup_errors=True) as folder:
        result = played(
            Path(folder),
            chosen.engine,
            chosen.faults,
            chosen.seed,
            on_network=chosen.network,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
            only=chosen.kinds,
            asks_porcupine=chosen.porcupine,
        )
    summary = json.dumps(result.summary(), indent=2)
    print(summary)
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(summary + "\n")
    sys.exit(1 if result.violations else 0)


if __name__ == "__main__":
    main()
