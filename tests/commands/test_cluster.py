"""`rota cluster` on a real etcd and a real PostgreSQL, with servers in this process."""

from __future__ import annotations

import itertools
import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import rota
from harness import peer, postgres
from harness.etcd import Etcd, is_installed
from harness.postgres import Postgres
from harness.raw import NONE, Connection
from rota import exits
from rota.cli import app
from rota.cluster import Cluster, looking, rendering
from rota.cluster.looking import Image, Node, Partition, troubles
from tests.clients.eventually import eventually

pytestmark = [
    pytest.mark.xdist_group("cluster-command"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_installed(), reason="etcd is not installed (Debian: etcd-server, etcd-client)"),
]

TTL_MS = 1_000
PARTITIONS = 4
WITHIN_S = 60.0
NUMBERS = itertools.count()


@dataclass
class Scene:
    """An engine, and servers by node id."""

    url: str
    access: rota.EngineAccess | None = None
    options: list[str] = field(default_factory=list)
    servers: dict[int, rota.Server] = field(default_factory=dict)

    def start(self, node_id: int) -> rota.Server:
        server = rota.Server(
            settings={"offsets.topic.num.partitions": PARTITIONS, "group.initial.rebalance.delay.ms": 0},
            engine=self.url,
            engine_access=self.access,
            node_id=node_id,
            ttl_ms=TTL_MS,
            http=":0",
        )
        self.servers[node_id] = server
        return server

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["cluster", *words, "--engine", self.url, *self.options])

    def done(self, *words: str) -> Any:
        """What a command that succeeds prints as JSON."""
        ended = self.run(*words, "--json")
        assert ended.exit_code == 0, ended.output
        return json.loads(ended.stdout)

    def owned(self) -> dict[int, int]:
        """How many partitions each node owns."""
        rows = self.done("describe")["nodes"]
        return {row["node_id"]: row["partitions"] for row in rows}

    def is_well(self) -> None:
        """Waits until nothing is left to look at: partitions of transactions have owners, too."""
        eventually(
            lambda: self.run("status").stdout.endswith("OK\n"),
            WITHIN_S,
            "status is OK",
            lambda: self.run("status").stdout,
        )

    def alive(self) -> list[int]:
        """The nodes that live, whatever is moving."""
        return [row["node_id"] for row in self.done("describe")["nodes"] if row["is_alive"]]

    def settle(self, wanted: Callable[[dict[int, int]], bool]) -> None:
        eventually(lambda: wanted(self.owned()), WITHIN_S, "partitions are owned", lambda: repr(self.owned()))


def cluster_of(server: rota.Server) -> Cluster:
    found = server.cluster()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def started() -> Iterator[Postgres | None]:
    """A PostgreSQL; None: it is not installed."""
    if not postgres.is_installed():
        yield None
        return
    with Postgres() as database:
        yield database


@pytest.fixture
def database(started: Postgres | None) -> Postgres:
    if started is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    return started


@pytest.fixture(params=["etcd", "postgresql"])
def scene(request: pytest.FixtureRequest, etcd: Etcd, started: Postgres | None) -> Iterator[Scene]:
    """Two servers of a cluster of its own, and a partition at least with the first."""
    if request.param == "etcd":
        url = etcd.url(f"tests/{next(NUMBERS)}")
    elif started is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    else:
        url = started.url(f"tests_{next(NUMBERS)}")
    scene = Scene(url)
    scene.done("init")
    with two_servers(scene):
        yield scene


@pytest.fixture
def on_etcd(etcd: Etcd) -> Iterator[Scene]:
    """Two servers of a cluster of its own on etcd."""
    scene = Scene(etcd.url(f"tests/{next(NUMBERS)}"))
    with two_servers(scene):
        yield scene


@contextmanager
def two_servers(scene: Scene) -> Iterator[None]:
    try:
        for node_id in (1, 2):
            scene.start(node_id)
            _joined(scene, node_id)
        scene.settle(lambda owned: sum(owned.values()) == PARTITIONS)
        scene.is_well()
        yield
    finally:
        for server in scene.servers.values():
            server.kill()


def _joined(scene: Scene, node_id: int) -> bool:
    return eventually(lambda: cluster_of(scene.servers[node_id]).is_ready, WITHIN_S, f"node {node_id} has joined")


def test_a_cluster_is_described_as_its_servers_see_it(scene: Scene) -> None:
    scene.settle(lambda owned: sorted(owned.values()) == [2, 2])
    shown = scene.done("describe", "--bytes")
    seen = cluster_of(scene.servers[1])
    assert (shown["cluster_id"], shown["ttl_ms"]) == (seen.cluster_id, TTL_MS)
    assert shown["engine"] == scene.url.replace("postgres@", "")
    for row in shown["nodes"]:
        server = scene.servers[row["node_id"]]
        assert row["is_alive"]
        assert [at["port"] for at in row["addresses"]] == [server.port]
        assert row["started_at"].startswith("20")
    assert [row["epoch"] for row in shown["partitions"]] == [row.epoch for row in seen.partitions]
    assert [row["owner"] for row in shown["partitions"]] == [row.owner for row in seen.partitions]
    assert {row["entries"] for row in shown["partitions"]} == {0}
    kind = "etcd" if scene.url.startswith("etcd") else "postgresql"
    (member,) = shown[kind]
    assert member["leads"]
    assert 0 < member["live_bytes"] <= member["file_bytes"]
    # etcd says its quota from 3.6 on, PostgreSQL has none.
    says_quota = kind == "etcd" and tuple(map(int, member["version"].split(".")[:2])) >= (3, 6)
    assert member["quota_bytes"] > member["file_bytes"] if says_quota else member["quota_bytes"] == 0
    assert (rendering.QUOTA_UNKNOWN in scene.run("status").stdout.splitlines()) == (kind == "etcd" and not says_quota)
    text = scene.run("describe").stdout
    for fact in (shown["history"], member["version"], "serving", "leader" if kind == "etcd" else "primary"):
        assert fact in text


def test_a_partition_is_moved_and_stays_until_it_is_unpinned(scene: Scene) -> None:
    topic = "__consumer_offsets"
    assert scene.done("move", "3", "2") == {"topic": topic, "partition": 3, "node": 2, "is_done": True}
    # Its own watch may show it a moment after the command has seen it.
    eventually(lambda: cluster_of(scene.servers[2]).partitions[3].owner == 2, WITHIN_S, "the server knows")
    plan = scene.done("plan")
    assert [(row["partition"], row["pin"]) for row in plan["pinned"]] == [(3, 2)]
    assert scene.done("unpin", "3")["has_changed"] is True
    assert scene.done("unpin", "3")["has_changed"] is False
    assert scene.done("plan")["pinned"] == []


def test_a_partition_of_transactions_is_moved_with_its_own_number(scene: Scene) -> None:
    topic = "__transaction_state"
    for node in (2, 1):
        moved = scene.done("move", "3", str(node), "--transactions")
        assert moved == {"topic": topic, "partition": 3, "node": node, "is_done": True}
        # Its own watch may show it a moment after the command has seen it.
        server = scene.servers[node]
        eventually(lambda: cluster_of(server).transaction_partitions[3].owner == node, WITHIN_S, "the server knows")  # noqa: B023
        plan = scene.done("plan")
        assert [(row["partition"], row["pin"]) for row in plan["transactions"]["pinned"]] == [(3, node)]
        assert plan["pinned"] == []
    assert "of transactions move, 1 are pinned" in scene.run("plan").stdout
    unpinned = scene.run("unpin", "3", "--transactions")
    assert (unpinned.exit_code, unpinned.stdout) == (0, f"partition 3 of {topic} may move\n")
    assert scene.done("unpin", "3", "--transactions")["has_changed"] is False
    assert scene.done("plan")["transactions"]["pinned"] == []


def test_a_drained_node_owns_nothing_until_it_is_undrained(scene: Scene) -> None:
    assert scene.done("drain", "1") == {"node": 1, "is_done": True}
    assert scene.owned() == {1: 0, 2: PARTITIONS}
    assert scene.done("plan")["drained"] == [1]
    (row,) = [row for row in scene.done("describe")["nodes"] if row["node_id"] == 1]
    assert row["standing"] == "drained"
    refused = scene.run("drain", "2")
    assert (refused.exit_code, refused.stdout) == (exits.FAILED, "")
    assert refused.stderr.startswith("rota: node 2 cannot be drained: no other node that lives takes partitions")
    refused = scene.run("move", "0", "1")
    assert (refused.exit_code, refused.stderr) == (exits.FAILED, "rota: node 1 is drained: undrain it first\n")
    assert scene.done("undrain", "1")["has_changed"] is True
    scene.settle(lambda owned: owned[1] > 0)


def test_a_silent_node_is_named_and_forgotten_and_comes_back(scene: Scene) -> None:
    scene.servers[1].create_topic("mine", 2)
    refused = scene.run("forget", "2")
    assert (refused.exit_code, refused.stderr) == (exits.FAILED, "rota: node 2 lives: stop it first, with SIGTERM\n")
    scene.servers.pop(2).kill()
    scene.settle(lambda owned: owned[1] == PARTITIONS)
    unwell = scene.run("status")
    assert unwell.exit_code == exits.FAILED
    assert "node 2 is silent: start it, or `rota cluster forget 2`" in unwell.stdout
    moved = scene.run("move", "0", "2")
    assert moved.exit_code == exits.FAILED
    assert "node 2 is silent and cannot take partition 0 of __consumer_offsets" in moved.stderr
    leads = scene.run("forget", "2")
    assert leads.exit_code == exits.FAILED
    assert "node 2 leads topics, whose messages only it has: mine" in leads.stderr
    assert scene.done("forget", "2", "--force") == {"node": 2, "led_topics": ["mine"]}
    scene.is_well()
    assert scene.done("status")["nodes"] == 1
    scene.start(2)
    _joined(scene, 2)
    assert scene.alive() == [1, 2]


def test_a_forgotten_node_that_was_only_silent_introduces_itself_again(etcd: Etcd, on_etcd: Scene) -> None:
    scene = on_etcd
    # An operator who looks at the wrong node removes one that lives.
    before = {row["node_id"] for row in scene.done("describe")["nodes"]}
    prefix = scene.url.partition("/tests/")[2]
    assert etcd.control("del", f"/tests/{prefix}/v/note/node/2").strip() == "1"
    eventually(lambda: {row["node_id"] for row in scene.done("describe")["nodes"]} == before, WITHIN_S, "it is back")


def test_space_is_given_back_and_an_alarm_ends(tmp_path: Path) -> None:
    quota = 4 << 20
    with Etcd(tmp_path, ["--quota-backend-bytes", str(quota)]) as etcd:
        scene = Scene(f"{etcd.url()}?quota={quota}")
        try:
            scene.start(1)
            _joined(scene, 1)
            assert rendering.QUOTA_UNKNOWN not in scene.run("describe").stdout
            for number in range(100):
                ended = etcd._ask("put", "/other", "x" * 100_000)
                if "database space exceeded" in ended.stderr:
                    break
                assert number < 99, "etcd does not mind its quota"
            full = scene.run("status", "--json")
            assert full.exit_code == exits.FAILED
            assert "NOSPACE" in json.loads(full.stdout)["alarms"]
            assert json.loads(full.stdout)["etcd"][0]["quota_bytes"] == quota
            mended = scene.done("mend")
            assert [step.split()[0] for step in mended["steps"]] == ["compacted", "defragmented", "disarmed"]
            assert mended["alarms"] == []
            assert mended["etcd"][0]["file_bytes"] < quota / 2
            etcd.control("put", "/other", "y")
        finally:
            for server in scene.servers.values():
                server.kill()


@pytest.mark.parametrize("of_transactions", [False, True])
def test_a_partition_without_an_owner_that_lives_is_no_good_status(of_transactions: bool) -> None:
    held, lost = (Partition(0, owner, 1, True, owner, None, None) for owner in (1, 2))
    node = Node(1, [], "", "serving", False, 0, None)
    rows = ([held], [lost]) if of_transactions else ([lost], [held])
    image = Image("h", 1, 1, "c", TTL_MS, {1: node}, rows[0], {}, rows[1])
    what = "partitions of transactions" if of_transactions else "partitions"
    assert troubles(image, {1: True}, "etcd", [], []) == [f"1 of 1 {what} have no owner that lives"]


def test_a_node_that_is_forgotten_while_a_command_looks_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    def node(node_id: int, beat: tuple[str, int] | None) -> Node:
        return Node(node_id, [], "", "serving", False, 0, beat)

    def image(*nodes: Node) -> Image:
        return Image("h", 1, 1, "c", TTL_MS, {each.node_id: each for each in nodes}, [], {}, [])

    first, later = image(node(1, ("p", 1)), node(2, ("q", 1))), image(node(1, ("p", 2)), node(3, ("r", 1)))
    images = itertools.chain([first], itertools.repeat(later))
    monkeypatch.setattr(looking, "image", lambda _: next(images))
    found, alive = looking.observed(None, print)  # type: ignore[arg-type]
    assert alive == {1: True, 3: True}
    assert troubles(found, alive | {2: False}, "etcd", [], []) == []


@pytest.fixture
def no_tables(database: Postgres) -> str:
    """The URL of a cluster whose tables no operator has made."""
    return database.url(f"tests_{next(NUMBERS)}")


def test_tables_are_made_by_an_operator_and_a_server_waits_for_them(database: Postgres, no_tables: str) -> None:
    scene = Scene(no_tables)
    missing = scene.run("status")
    assert missing.exit_code == exits.NOT_FOUND
    assert "make it with `rota cluster init`" in missing.stderr
    try:
        server = scene.start(1)
        waits = eventually(lambda: cluster_of(server).reason, WITHIN_S, "the server says why it waits")
        assert waits is not None
        assert "rota cluster init" in waits
        assert scene.done("init") == {"engine": no_tables.replace("postgres@", ""), "done": "made"}
        assert scene.run("init").stdout.endswith("had the tables already\n")
        _joined(scene, 1)
        warning = cluster_of(server).warning
        assert warning is not None
        assert "may lose acknowledged commits" in warning
        assert warning in scene.run("status").stdout
        assert [step.split()[0] for step in scene.done("mend")["steps"]] == ["vacuumed", "vacuumed"]
    finally:
        for each in scene.servers.values():
            each.kill()
    schema = no_tables.partition("schema=")[2]
    database.sql(f"UPDATE {schema}.meta SET version = 9")
    newer = scene.run("init")
    assert newer.exit_code == exits.FAILED
    assert "its tables have version 9, this rota knows 1: use a newer rota" in newer.stderr


def test_a_database_that_may_lose_commits_in_a_crash_is_refused() -> None:
    if not postgres.is_installed():
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    with Postgres(["fsync=off"]) as database:
        refused = Scene(database.url()).run("init")
    assert refused.exit_code == exits.UNREACHABLE
    assert "fsync is off, and a crash would lose acknowledged commits: set it to on" in refused.stderr


def test_etcd_needs_no_tables(on_etcd: Scene) -> None:
    assert on_etcd.done("init") == {"engine": on_etcd.url, "done": "not needed"}


def test_a_loss_is_accepted_only_by_name(scene: Scene) -> None:
    refused = scene.run("accept-loss")
    assert (refused.exit_code, refused.stdout) == (exits.MISUSED, "")
    assert refused.stderr.endswith("give --yes\n")
    before = scene.done("describe")["history"]
    scene.is_well()
    refused = scene.run("accept-loss", "--yes")
    assert (refused.exit_code, refused.stdout) == (exits.FAILED, "")
    assert refused.stderr.endswith("stop all servers first, with SIGTERM, or give --force\n"), refused.stderr
    assert scene.done("describe")["history"] == before
    accepted = scene.done("accept-loss", "--yes", "--force")
    assert accepted["lost_history"] == before
    assert scene.done("describe")["history"] == accepted["history"] != before
    # Servers join the new history by themselves.
    scene.settle(lambda owned: sum(owned.values()) == PARTITIONS)
    eventually(lambda: cluster_of(scene.servers[1]).is_ready, WITHIN_S, "the server is a member again")


def test_a_partition_that_is_not_served_is_shown_with_the_reason(etcd: Etcd, on_etcd: Scene) -> None:
    assert [row["unserved"] for row in on_etcd.done("describe")["partitions"]] == [None] * PARTITIONS
    for server in on_etcd.servers.values():
        server.kill()
    # A snapshot whose chunk is not there.
    prefix = on_etcd.url.partition("/tests/")[2]
    etcd.control("put", f"/tests/{prefix}/d/head/2", "5 1 1 00000000")
    on_etcd.start(1)

    def unserved() -> list[Any]:
        return [row["unserved"] for row in on_etcd.done("describe")["partitions"] if row["unserved"] is not None]

    [shown] = eventually(unserved, WITHIN_S, "the partition is shown")
    assert shown["node_id"] == 1
    assert shown["reason"] == "finds its content in the engine damaged: ChunkMissing(0)"
    says = f"partition 2 of __consumer_offsets is not served since {shown['since']}: node 1 {shown['reason']}\n"
    assert says in on_etcd.run("describe").stdout
    status = on_etcd.run("status")
    assert (status.exit_code, says in status.stdout) == (exits.FAILED, True)


def test_a_partition_whose_records_cannot_be_read_is_released_and_shown(etcd: Etcd, on_etcd: Scene) -> None:
    for server in on_etcd.servers.values():
        server.kill()
    # An entry of one record, which is none.
    entry = struct.pack(">B16siq", 1, bytes(16), 1, 1) + b"no batch"
    prefix = on_etcd.url.partition("/tests/")[2]
    groups, transactions = 2, 7
    for of_engine in (groups, PARTITIONS + transactions):
        etcd.put(f"/tests/{prefix}/d/log/{of_engine}/{0:016x}", entry)
    on_etcd.start(1)
    shown = [
        rf"partition {partition} of {topic} is not served since .*: node 1 cannot load it.*\n"
        for partition, topic in ((groups, "__consumer_offsets"), (transactions, "__transaction_state"))
    ]

    def described() -> str:
        return on_etcd.run("describe").stdout

    eventually(lambda: all(re.search(line, described()) for line in shown), WITHIN_S, "both are shown", described)
    # A released partition has an epoch for each claim. It is not claimed again.
    claims = etcd.control("get", "--prefix", f"/tests/{prefix}/v/part/")
    assert on_etcd.run("status").exit_code == exits.FAILED
    assert etcd.control("get", "--prefix", f"/tests/{prefix}/v/part/") == claims


def test_what_does_not_exist_is_named_and_what_does(scene: Scene) -> None:
    no_node = "there is no node 7; the cluster has 1, 2"
    no_partition = "there is no partition 4; __consumer_offsets has 0 to 3"
    for line, says in [
        ("drain 7", no_node),
        ("undrain 7", no_node),
        ("forget 7", no_node),
        ("move 0 7", no_node),
        ("move 4 1", no_partition),
        ("unpin 4", no_partition),
        ("move 50 1 --transactions", "there is no partition 50; __transaction_state has 0 to 49"),
        ("unpin 50 --transactions", "there is no partition 50; __transaction_state has 0 to 49"),
    ]:
        ended = scene.run(*line.split())
        assert (ended.exit_code, ended.stdout, ended.stderr) == (exits.NOT_FOUND, "", f"rota: {says}\n")
        as_json = scene.run(*line.split(), "--json")
        assert json.loads(as_json.stderr) == {"error": "NotFound", "message": says}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("status --engine 127.0.0.1:2379", "--engine is `127.0.0.1:2379`, which has no scheme: give etcd://"),
        ("status --engine kafka://h:1", "--engine has the scheme `kafka`: give etcd://"),
        ("status --engine etcd://h:1 --engine-user u", "--engine-user needs --engine-password-file: give a file"),
        ("import missing --engine etcd://h:1", "`missing`: there is no such directory"),
        ("status --no-such-option", "there is no option --no-such-option"),
        ("move 0 x", "NODE is `x`: give a whole number"),
    ],
)
def test_a_wrong_call_is_json_where_errors_are(line: str, says: str) -> None:
    ended = CliRunner().invoke(app, ["cluster", *line.split(), "--json"])
    assert (ended.exit_code, ended.stdout) == (exits.MISUSED, "")
    error = json.loads(ended.stderr)
    assert (error["error"], error["message"].startswith(says)) == ("Misused", True), error
    plain = CliRunner().invoke(app, ["cluster", *line.split()])
    assert plain.stderr == f"rota: {error['message']}\n"


def test_a_wrong_prefix_is_answered_with_those_that_exist(etcd: Etcd, on_etcd: Scene) -> None:
    url = etcd.url("tests/none")
    assert on_etcd.alive() == [1, 2]
    ended = CliRunner().invoke(app, ["cluster", "status", "--engine", url])
    assert ended.exit_code == exits.NOT_FOUND
    assert ended.stderr.startswith(f"rota: engine {url}: no cluster has this prefix; there are /tests/")
    assert etcd.control("get", "--prefix", "/tests/none") == "", "looking writes nothing"


def commit(server: rota.Server, offset: int) -> None:
    with Connection((server.host, server.port)) as connection:
        wanted = peer.commit("g", {0: offset}, topic="t")
        eventually(lambda: peer.committed(connection.ask(wanted)) == {NONE}, WITHIN_S, f"{offset} is committed")


def committed(server: rota.Server) -> int:
    with Connection((server.host, server.port)) as connection:
        found = eventually(lambda: _answered(connection), WITHIN_S, "the offsets are fetched")
        assert found is not None
        return found[1][0]


def _answered(connection: Connection) -> tuple[int, dict[int, int]] | None:
    found = peer.fetched(connection.ask(peer.fetch("g", [0], topic="t")))
    return found if found[0] == NONE else None


@pytest.mark.parametrize("lives", [False, True], ids=["servers are stopped", "a server lives through it"])
def test_a_backup_is_restored_as_the_page_says(tmp_path: Path, lives: bool) -> None:
    with Etcd(tmp_path) as etcd:
        scene = Scene(etcd.url())
        try:
            server = scene.start(1)
            _joined(scene, 1)
            server.create_topic("t", 1)
            commit(server, 10)
            backup = tmp_path / "backup"
            etcd.control("snapshot", "save", str(backup))
            # Revisions count each of them: the first answer after the restore shows that they are gone.
            for offset in range(11, 31):
                commit(server, offset)
            if not lives:
                scene.servers.pop(1).stop()
            etcd.kill()
            etcd.restore(backup)
            etcd.start()
            if lives:
                stopped = eventually(
                    lambda: [line for line in [cluster_of(server).reason or ""] if "the engine went back" in line],
                    WITHIN_S,
                    "the server stops",
                    lambda: repr(cluster_of(server)),
                )
                assert "rota cluster accept-loss" in stopped[0]
                assert not cluster_of(server).is_ready
            scene.done("accept-loss", "--yes")
            if not lives:
                server = scene.start(1)
            _joined(scene, 1)
            assert committed(server) == 10
            commit(server, 40)
            assert committed(server) == 40
        finally:
            for each in scene.servers.values():
                each.kill()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            [],
            exits.MISUSED,
            "--engine is missing: give etcd://HOST:PORT,.../PREFIX (etcds:// with TLS) or"
            " postgres://HOST:PORT,.../DATABASE, or set",
        ),
        (["--engine", "etcd://127.0.0.1:1/rota"], exits.UNREACHABLE, "engine etcd://127.0.0.1:1/rota: no connection: "),
        (
            ["--engine", "etcd://[::1]:1,[::1]:2/rota"],
            exits.UNREACHABLE,
            "engine etcd://[::1]:1,[::1]:2/rota: no connection: ",
        ),
        (
            ["--engine", "http://127.0.0.1:1/rota"],
            exits.MISUSED,
            "--engine has the scheme `http`: give etcd://HOST:PORT,...",
        ),
        (
            ["--engine", "etcds://127.0.0.1:1/rota"],
            exits.MISUSED,
            "--engine is etcds://...: give --engine-ca, the CAs of the members of etcd",
        ),
        (
            ["--engine", "postgres://u@127.0.0.1:1/rota?sslmode=verify-full"],
            exits.MISUSED,
            'engine "postgres://...@127.0.0.1:1/rota?sslmode=verify-full": no CA certificates for sslmode',
        ),
        (
            ["--engine", "etcd://127.0.0.1:1/rota", "--engine-ca", "ca.pem"],
            exits.MISUSED,
            "--engine-ca is for TLS: write --engine as etcds://...",
        ),
        (
            ["--engine", "etcds://127.0.0.1:1/rota", "--engine-ca", "/none/ca.pem"],
            exits.MISUSED,
            "cannot read `/none/ca.pem`: No such file",
        ),
        (
            ["--engine", "etcd://127.0.0.1:1/rota", "--engine-user", "rota"],
            exits.MISUSED,
            "--engine-user needs --engine-password-file: give a file with the password, too",
        ),
        (
            ["--engine", "etcd://127.0.0.1:1/rota", "--engine-user", "rota", "--engine-password-file", "/none"],
            exits.MISUSED,
            "--engine-password-file is `/none`: No such file",
        ),
        (
            ["--engine", "etcd://127.0.0.1:1/rota", "--engine-key", "key.pem"],
            exits.MISUSED,
            "--engine-key needs --engine-cert: give the certificate of the key, too",
        ),
    ],
)
def test_a_wrong_call_says_what_to_give(options: list[str], code: int, says: str) -> None:
    ended = CliRunner().invoke(app, ["cluster", "status", *options], env={"ROTA_ENGINE": ""})
    assert (ended.exit_code, ended.stdout) == (code, ""), ended.output
    assert ended.stderr.startswith(f"rota: {says}"), ended.stderr


def test_a_password_on_the_command_line_is_warned_of_and_not_printed(on_etcd: Scene) -> None:
    url = on_etcd.url.replace("://", "://rota:s3cret@")
    ended = CliRunner().invoke(app, ["cluster", "status", "--engine", url])
    assert ended.stderr.startswith("rota: other users can read the password in --engine: give --engine-user")
    assert "s3cret" not in ended.output + ended.stderr


@pytest.mark.parametrize("place", ["a file", "the environment"])
def test_the_engine_is_found(scene: Scene, place: str, tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(f'[server]\nengine = "{scene.url}"\nnode_id = 9\n')
    words, environment = (["--config", str(file)], {}) if place == "a file" else ([], {"ROTA_ENGINE": scene.url})

    def status() -> Result:
        return CliRunner().invoke(app, ["cluster", "status", *words], env=environment)

    # On a busy machine a node is silent for a while, which is no good status.
    eventually(lambda: status().exit_code == 0, WITHIN_S, "the status is good", lambda: status().output)


@contextmanager
def serving(scene: Scene, node_id: int, folder: Path) -> Iterator[Path]:
    """`rota serve` as a process with the options of the scene, and the file with what it says."""
    log = folder / f"rota{node_id}.log"
    command = [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0", "--engine", scene.url, *scene.options]
    command += [
        "--node-id",
        str(node_id),
        "--ttl-ms",
        str(TTL_MS),
        "--set",
        f"offsets.topic.num.partitions={PARTITIONS}",
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield log
    finally:
        process.terminate()
        assert process.wait(WITHIN_S) == 0


def test_an_etcd_with_tls_and_users_is_used_by_servers_and_operators(tmp_path: Path) -> None:
    authority = rota.Authority()
    member, own = authority.issue("127.0.0.1", name="etcd"), authority.issue("127.0.0.1", name="rota")
    files = {
        "ca.pem": authority.certificate,
        "member.pem": member.certificate,
        "member.key": member.key,
        "rota.pem": own.certificate,
        "rota.key": own.key,
        "both.pem": own.certificate + own.key,
        "password": "s3cret\n",
        "wrong": "guessed\n",
    }
    at = {name: str(tmp_path / name) for name in files}
    for name, text in files.items():
        Path(at[name]).write_text(text)
    flags = ["--cert-file", at["member.pem"], "--key-file", at["member.key"]]
    flags += ["--trusted-ca-file", at["ca.pem"], "--client-cert-auth"]
    ctl = ["--cacert", at["ca.pem"], "--cert", at["rota.pem"], "--key", at["rota.key"]]
    with Etcd(tmp_path, flags, "https", ctl) as etcd:
        etcd.control("user", "add", "root:s3cret")
        etcd.control("user", "grant-role", "root", "root")
        etcd.control("auth", "enable")
        url = etcd.url(scheme="etcds")
        access = rota.EngineAccess(
            ca=at["ca.pem"], cert=at["rota.pem"], key=at["rota.key"], user="root", password_file=at["password"]
        )
        tls = ["--engine-ca", at["ca.pem"], "--engine-cert", at["both.pem"]]
        login = ["--engine-user", "root", "--engine-password-file"]
        scene = Scene(url, access, [*tls, *login, at["password"]])
        try:
            scene.start(1)
            _joined(scene, 1)
            assert scene.alive() == [1]
            scene.options = [*tls, *login, at["wrong"]]
            refused = scene.run("status")
            assert refused.exit_code == exits.UNREACHABLE
            assert "authentication failed" in refused.stderr
            assert "guessed" not in refused.stderr
            scene.options = ["--engine-ca", at["ca.pem"], *login, at["password"]]
            assert scene.run("status").exit_code == exits.UNREACHABLE, "etcd asks for a certificate"
            assert "s3cret" not in repr(access) + repr(scene.servers[1].cluster())
            scene.options = [*tls, *login, at["password"]]
            with serving(scene, 2, tmp_path) as log:
                eventually(lambda: scene.alive() == [1, 2], WITHIN_S, "node 2 has joined", log.read_text)
            assert "s3cret" not in log.read_text()
        finally:
            for server in scene.servers.values():
                server.kill()
