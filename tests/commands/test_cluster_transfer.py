"""`rota cluster export` and `import`: from one server to a cluster and back, with real clients on real engines."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from typer.testing import CliRunner, Result

import rota
from harness import peer, postgres
from harness.etcd import Etcd, is_installed
from harness.postgres import Postgres
from harness.raw import NONE, Connection
from rota import EngineAccess, _rota, exits
from rota.cli import app
from rota.cluster import directory, transfer
from rota.cluster.looking import STATE_TOPIC
from tests.clients.eventually import eventually
from tests.server.test_data import serving

pytestmark = [
    pytest.mark.xdist_group("cluster-command"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_installed(), reason="etcd is not installed (Debian: etcd-server, etcd-client)"),
]

TTL_MS = 1_000
WITHIN_S = 60.0
NUMBERS = itertools.count()
TOPIC = "orders"
GROUPS = [f"g{number}" for number in range(12)]
SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
Offsets = dict[str, list[int]]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres | None]:
    """A PostgreSQL; None: it is not installed."""
    if not postgres.is_installed():
        yield None
        return
    with Postgres() as started:
        yield started


@pytest.fixture(params=["etcd", "postgresql"])
def url(request: pytest.FixtureRequest, etcd: Etcd, database: Postgres | None) -> str:
    """An engine without a cluster."""
    if request.param == "etcd":
        return etcd.url(f"transfer/{next(NUMBERS)}")
    if database is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    found = database.url(f"transfer_{next(NUMBERS)}")
    assert run("init", found).exit_code == 0
    return found


def run(command: str, url: str, *words: object) -> Result:
    return CliRunner().invoke(app, ["cluster", command, *map(str, words), "--engine", url])


def done(command: str, url: str, *words: object) -> Any:
    """What a command that succeeds prints as JSON."""
    ended = run(command, url, *words, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def on_data(data: Path, **settings: int) -> rota.Server:
    return rota.Server(data=data, settings=SETTINGS | settings)


def node(url: str, node_id: int, **settings: int) -> rota.Server:
    return rota.Server(engine=url, node_id=node_id, ttl_ms=TTL_MS, settings=SETTINGS | settings)


def is_member(server: rota.Server) -> bool:
    found = server.cluster()
    return found is not None and found.is_ready


def reason(server: rota.Server) -> str:
    found = server.cluster()
    return "" if found is None else found.reason or ""


def commit(server: rota.Server, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group})
    places = [TopicPartition(TOPIC, number, offset + number) for number in range(3)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(server: rota.Server) -> Offsets:
    """What each group has committed, as soon as a server has the group."""
    found = {}
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group})
        try:
            places = eventually(lambda: places_of(consumer), WITHIN_S, f"a server has {group}")  # noqa: B023
        finally:
            consumer.close()
        found[group] = [place.offset for place in places]
    return found


def places_of(consumer: Consumer) -> list[TopicPartition]:
    """What the group has committed; nothing while no server has it."""
    try:
        return consumer.committed([TopicPartition(TOPIC, number) for number in range(3)], timeout=WITHIN_S)
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
            raise
        return []


def in_transaction(
    server: rota.Server, transactional_id: str, offset: int, *, ends: bool, timeout_ms: int = 60_000
) -> Producer:
    """A transaction with an offset of group g1. One that does not end is aborted after its timeout."""
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, **settings})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g1"})
    places = [TopicPartition(TOPIC, 0, offset)]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), WITHIN_S)
    consumer.close()
    if ends:
        producer.commit_transaction(WITHIN_S)
    return producer


def filled(data: Path, timeout_ms: int = 60_000) -> Offsets:
    """A directory with groups, a topic, a transaction that has ended and an open one. Returns what is committed."""
    with on_data(data) as server:
        server.create_topic(TOPIC, 3)
        for number, group in enumerate(GROUPS):
            commit(server, group, 1)
            commit(server, group, 100 * number)
        in_transaction(server, "ended", 4_242, ends=True)
        found = committed(server)
        assert found["g1"] == [4_242, 101, 102]
        in_transaction(server, "open", 6_666, ends=False, timeout_ms=timeout_ms)
    return found


def test_groups_go_to_a_cluster_and_back(tmp_path: Path, url: str) -> None:
    before = filled(tmp_path / "data")
    done_import = done("import", url, tmp_path / "data", "--ttl-ms", TTL_MS, "--leader", 1, "--leader", 2)
    assert done_import["topics"] == [TOPIC]
    with node(url, 1) as one, node(url, 2) as two:
        eventually(lambda: is_member(one) and is_member(two), WITHIN_S, "both servers have joined")
        # The open transaction is decided by its next producer, not lost.
        in_transaction(one, "open", 7_777, ends=True)
        before["g1"][0] = 7_777
        assert committed(two) == before
        commit(one, "g0", 9_000)
        before["g0"] = [9_000, 9_001, 9_002]
        exported = done("export", url, tmp_path / "back")
        assert committed(one) == before, "the servers go on"
    assert exported["topics"] == [TOPIC]
    epochs = {(row["topic"], row["partition"]): row["epoch"] for row in exported["partitions"]}
    assert len(epochs) == 7
    verified = CliRunner().invoke(app, ["log", "verify", str(tmp_path / "back")])
    assert verified.exit_code == 0, verified.output
    audited = CliRunner().invoke(app, ["audit", str(tmp_path / "back")])
    assert audited.exit_code == 0, audited.output
    with on_data(tmp_path / "back") as server:
        assert committed(server) == before
        in_transaction(server, "ended", 8_888, ends=True)
        before["g1"][0] = 8_888
        assert committed(server) == before
        listed = Producer({"bootstrap.servers": server.bootstrap_servers}).list_topics(timeout=WITHIN_S)
        assert len(listed.topics[TOPIC].partitions) == 3
    dumped = CliRunner().invoke(app, ["log", "dump", str(tmp_path / "back"), "--group", "g1", "--json"])
    last = json.loads(dumped.stdout.splitlines()[-1])
    assert last["value"]["offset"] == 8_888
    assert last["epoch"] > epochs["__consumer_offsets", last["partition"]], "the cluster's owner is fenced"


def test_offsets_of_a_transaction_that_begins_during_an_export_are_left_out(
    tmp_path: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = etcd.url(f"transfer/{next(NUMBERS)}")
    # The server answers for what is committed once the open transaction is over.
    before = filled(tmp_path / "data", timeout_ms=2_000)
    done("import", url, tmp_path / "data", "--ttl-ms", TTL_MS)
    with node(url, 1) as server:
        committed(server)
        write_topic = directory.write_topic

        def written(scratch: Path, topic: str, parts: list[tuple[bytes, list[tuple[int, int]]]]) -> None:
            write_topic(scratch, topic, parts)
            if topic == STATE_TOPIC:
                # The state is read, the groups are not.
                in_transaction(server, "ended", 5_555, ends=False)

        monkeypatch.setattr(directory, "write_topic", written)
        done("export", url, tmp_path / "back")
    with on_data(tmp_path / "back") as server:
        in_transaction(server, "open", 7_777, ends=True)
        before["g1"][0] = 7_777
        assert committed(server) == before, "nothing of a group is undecided"


def test_an_import_is_not_there_before_it_is_whole(tmp_path: Path, url: str) -> None:
    data, many = tmp_path / "data", {"offsets.topic.num.partitions": 60}
    with on_data(data, **many) as server:
        server.create_topic(TOPIC, 3)
        with Connection((server.host, server.port)) as connection:
            for number in range(600):
                wanted = peer.commit(f"h{number}", {0: number}, topic=TOPIC)
                eventually(lambda: peer.committed(connection.ask(wanted)) == {NONE}, WITHIN_S, "it is committed")  # noqa: B023
        for group in GROUPS:
            commit(server, group, 7)
        before = committed(server)
    command = [sys.executable, "-m", "rota", "cluster", "import", str(data), "--engine", url, "--ttl-ms", str(TTL_MS)]
    engine = _rota.EngineOperator(url, EngineAccess().arguments(), 2_000, begins=True)
    for how, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, exits.INTERRUPTED)):
        epoch, _, _ = engine.export(20)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as importing:
            eventually(lambda: engine.export(20)[0] > epoch, WITHIN_S, "a partition is written")  # noqa: B023
            importing.send_signal(how)
            _, says = importing.communicate(timeout=WITHIN_S)
            assert importing.returncode == code, says
        assert engine.notes()["cluster"].startswith(b"importing=")
    assert "run it again" in says
    assert "an import" in run("status", url).stdout
    refused = run("export", url, tmp_path / "back")
    assert (refused.exit_code, (tmp_path / "back").exists()) == (exits.FAILED, False)
    with node(url, 1, **many) as server:
        eventually(
            lambda: "rota cluster import" in reason(server), WITHIN_S, "the server waits", lambda: reason(server)
        )
        done("import", url, data, "--ttl-ms", TTL_MS)
        eventually(lambda: is_member(server), WITHIN_S, "the server has joined", lambda: reason(server))
        assert committed(server) == before
        again = run("import", url, data)
        assert (again.exit_code, "has a cluster already" in again.stderr) == (exits.FAILED, True)


def test_an_import_that_begins_anew_leaves_nothing_of_another_directory(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    for data, partitions, offset in ((large, 20, 7), (small, 4, 5)):
        with on_data(data, **{"offsets.topic.num.partitions": partitions}) as server:
            server.create_topic(TOPIC, 3)
            for group in GROUPS:
                commit(server, group, offset)
            before = committed(server)

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(transfer, "_free_producer_id", interrupted)
        assert run("import", url, large, "--ttl-ms", TTL_MS).exit_code == exits.INTERRUPTED
    engine = _rota.EngineOperator(url, EngineAccess().arguments(), 2_000, begins=True)
    others = range(7, 20)
    assert any(any(engine.content(partition)) for partition in others)
    done("import", url, small, "--ttl-ms", TTL_MS)
    assert not any(any(engine.content(partition)) for partition in others)
    with node(url, 1) as server:
        eventually(lambda: is_member(server), WITHIN_S, "the server has joined", lambda: reason(server))
        assert committed(server) == before


def test_messages_go_along_with_the_directory(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    before = filled(data)
    with on_data(data) as server:
        server.produce(TOPIC, ["kept"], partition=2)
    done("import", url, data, "--ttl-ms", TTL_MS)
    for message in ("first", "second"):
        with rota.Server(engine=url, node_id=1, ttl_ms=TTL_MS, settings=SETTINGS, data=data) as server:
            eventually(lambda: is_member(server), WITHIN_S, "the server has joined", lambda: reason(server))
            if message == "first":
                # No client can read g1's offsets while the open transaction goes on.
                in_transaction(server, "open", 7_777, ends=True)
                before["g1"][0] = 7_777
            assert committed(server) == before
            eventually(lambda: server.messages(TOPIC), WITHIN_S, "messages")
            server.produce(TOPIC, [message], partition=2)
            found = [row.value for row in server.messages(TOPIC) if row.partition == 2]
            assert found[0] == b"kept"
            assert found[-1] == message.encode()
    with pytest.raises(OSError, match="groups are in its engine"):
        on_data(data)


def test_a_new_producer_does_not_get_the_id_of_one_before_the_import(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    with on_data(data) as server:
        server.create_topic(TOPIC, 1)
        in_transaction(server, "ended", 1, ends=True)
        # Its id comes soon after that of the transactional producer.
        send_idempotent(server, "before")
    done("import", url, data, "--ttl-ms", TTL_MS)
    with rota.Server(engine=url, node_id=1, ttl_ms=TTL_MS, settings=SETTINGS, data=data) as server:
        eventually(lambda: is_member(server), WITHIN_S, "the server has joined", lambda: reason(server))
        # The first record of an id that another producer had is answered as a duplicate.
        after = [f"after {number}" for number in range(4)]
        for value in after:
            send_idempotent(server, value)
        assert [row.value for row in server.messages(TOPIC)] == [value.encode() for value in ("before", *after)]


def send_idempotent(server: rota.Server, value: str) -> None:
    """Send one record as an idempotent producer that begins now."""
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "enable.idempotence": True})
    producer.produce(TOPIC, value, partition=0)
    assert producer.flush(WITHIN_S) == 0


def test_what_cannot_be_imported_is_refused_and_writes_nothing(tmp_path: Path, etcd: Etcd) -> None:
    url, data = etcd.url(f"transfer/{next(NUMBERS)}"), tmp_path / "data"
    with on_data(data) as server:
        server.create_topic(TOPIC, 3)
        commit(server, "g0", 1)
        in_use = run("import", url, data)
        assert (in_use.exit_code, "in use by this process" in in_use.stderr) == (exits.FAILED, True)
    meta = (data / "meta.properties").read_text()
    for text, says in (
        (meta.replace("rota.version=1", "rota.version=2"), "has format 2"),
        (meta.replace("rota.version=1\n", ""), "written by Kafka"),
    ):
        (data / "meta.properties").write_text(text)
        refused = run("import", url, data)
        assert refused.exit_code in (exits.FAILED, exits.MISUSED)
        assert says in refused.stderr
    (data / "meta.properties").write_text(meta)
    for bit in (0x01, 0x80):
        copy = Path(shutil.copytree(data, tmp_path / f"damaged {bit}"))
        table = (copy / "rota.topics").read_bytes()
        (copy / "rota.topics").write_bytes(table[:40] + bytes([table[40] ^ bit]) + table[41:])
        damaged = run("import", url, copy)
        assert (damaged.exit_code, "is damaged" in damaged.stderr) == (exits.FAILED, True), damaged.stderr
    with rota.Server(engine=rota.MemoryEngine(), node_id=1, data=tmp_path / "node"):
        pass
    refused = run("import", url, tmp_path / "node")
    assert (refused.exit_code, "has the messages of a node" in refused.stderr) == (exits.MISUSED, True)
    (data / "meta.properties").unlink()
    refused = run("import", url, data)
    assert (refused.exit_code, "is not a data directory" in refused.stderr) == (exits.MISUSED, True)
    assert run("import", url, tmp_path / "none").exit_code == exits.MISUSED
    assert etcd.control("get", "--prefix", url.partition("://")[2].partition("/")[2]) == ""


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, etcd: Etcd) -> None:
    prefix = f"transfer/{next(NUMBERS)}"
    filled(tmp_path / "data")
    done("import", etcd.url(prefix), tmp_path / "data")
    etcd.control("del", "--prefix", f"/{prefix}/d/snap")
    failed = run("export", etcd.url(prefix), tmp_path / "back")
    assert (failed.exit_code, "is damaged" in failed.stderr) == (exits.FAILED, True), failed.output
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    full = run("export", etcd.url(prefix), tmp_path / "data")
    assert (full.exit_code, "is not empty" in full.stderr) == (exits.MISUSED, True)


def test_serve_refuses_a_directory_with_groups_unless_it_was_imported(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    before = filled(data)
    words = ["--engine", url, "--node-id", "1", "--ttl-ms", str(TTL_MS)]
    refused = CliRunner().invoke(app, ["serve", *words, "--data", str(data)])
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (exits.MISUSED, "", 1)
    assert f"--data is `{data}`, which has the groups of a server without --engine" in refused.stderr
    bring = f"bring them into an engine without a cluster with `rota cluster import {data} --engine URL`"
    assert f"give another directory, or {bring}" in refused.stderr
    assert not (data / "rota.node").exists()
    words += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    # The server did not begin a cluster there.
    done("import", url, data, "--ttl-ms", TTL_MS)
    with serving(data, *words) as (_, ready):
        consumer = Consumer({"bootstrap.servers": str(ready["listen"]), "group.id": "g2", "log_level": 0})
        places = [TopicPartition(TOPIC, partition) for partition in range(len(before["g2"]))]
        eventually(lambda: offsets_of(consumer, places) == before["g2"], WITHIN_S, "g2 is there")
        consumer.close()


def test_serve_refuses_what_a_server_without_an_engine_committed_after_the_export_or_import(
    tmp_path: Path, url: str
) -> None:
    data, back, copy = (tmp_path / name for name in ("data", "back", "copy"))
    filled(data)
    shutil.copytree(data, copy)
    done("import", url, data, "--ttl-ms", TTL_MS)
    with node(url, 1) as server:
        eventually(lambda: is_member(server), WITHIN_S, "the server has joined", lambda: reason(server))
        commit(server, "g0", 100)
        done("export", url, back)
    words = ["--engine", url, "--node-id", "1", "--ttl-ms", str(TTL_MS)]
    for alone in (back, copy):
        with on_data(alone) as server:
            commit(server, "g0", 200)
        refused = CliRunner().invoke(app, ["serve", *words, "--data", str(alone)])
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (exits.MISUSED, "", 1), alone
        assert "is of this cluster, but these groups were not imported" in refused.stderr
        assert not (alone / "rota.node").exists()


def offsets_of(consumer: Consumer, places: list[TopicPartition]) -> list[int] | None:
    try:
        return [place.offset for place in consumer.committed(places, timeout=5)]
    except KafkaException:
        return None


def test_serve_cannot_tell_whether_a_directory_was_imported_without_its_engine(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    words = ["--engine", "etcd://127.0.0.1:1/rota", "--node-id", "1", "--data", str(tmp_path / "data")]
    refused = CliRunner().invoke(app, ["serve", *words])
    assert (refused.exit_code, refused.stderr.count("\n")) == (exits.UNREACHABLE, 1), refused.stderr
    assert "whether they were imported cannot be asked" in refused.stderr
