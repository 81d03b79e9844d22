"""What a server of a cluster shows over HTTP, and where it says that a group is which it does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import rota
from rota import _rota, exits
from rota.cli import app
from rota.cluster import Cluster, ClusterNode, ClusterPartition
from rota.http.cluster_views import elsewhere
from tests.clients.eventually import eventually
from tests.http.asking import ask, commit

PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.num.partitions": PARTITIONS,
}
WITHIN_S = 30


def cluster_of(server: rota.Server) -> Cluster:
    found = server.cluster()
    assert found is not None
    return found


@pytest.fixture
def two() -> Iterator[list[rota.Server]]:
    """Two servers, each with partitions."""
    engine = rota.MemoryEngine()
    servers: list[rota.Server] = []
    try:
        shared: dict[str, Any] = {"settings": SETTINGS, "engine": engine, "ttl_ms": 1_000, "http": ":0"}
        servers.extend(rota.Server(node_id=node_id, **shared) for node_id in (1, 2))

        def is_shared() -> bool:
            owners = [[row.owner for row in cluster_of(each).partitions if row.is_held] for each in servers]
            loading = any(each._inner.loading() for each in servers)
            moving = any(row.moving_ms is not None for each in servers for row in cluster_of(each).partitions)
            return owners[0] == owners[1] and set(owners[0]) == {1, 2} and not loading and not moving

        eventually(is_shared, WITHIN_S, "both servers own partitions")
        yield servers
    finally:
        for server in servers:
            server.kill()


def group_of(servers: list[rota.Server], node_id: int) -> str:
    """The name of a group whose coordinator is this node."""
    rows = cluster_of(servers[0]).partitions
    names = (f"group-{number}" for number in range(1_000))
    return next(name for name in names if rows[servers[0].partition_of(name)].owner == node_id)


def shown(server: rota.Server, path: str) -> tuple[int, Any]:
    status, _, body = ask(server, path)
    return status, json.loads(body)


def samples(server: rota.Server) -> dict[tuple[str, str], float]:
    """Every sample by its name and the values of its labels."""
    text = ask(server, "/metrics")[2].decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.clients
def test_a_server_says_which_one_has_a_group(two: list[rota.Server]) -> None:
    one, other = two
    one.create_topic("t")
    group = group_of(two, 2)
    commit(other, group, TopicPartition("t", 0, 7))
    status, error = shown(one, f"/groups/{group}")
    assert (status, error["error"], error["node_id"]) == (404, "OtherCoordinator", 2)
    assert error["message"] == f"`{group}` is not here: its coordinator is node 2 at {other.host}:{other.port}"
    status, found = shown(other, f"/groups/{group}")
    assert (status, found["group_id"]) == (200, group)
    ended = CliRunner().invoke(app, ["why", group, "--http", str(one.http_address)])
    assert (ended.exit_code, ended.stderr) == (exits.FAILED, f"rota: {error['message']}\n")
    assert CliRunner().invoke(app, ["why", group, "--http", str(other.http_address)]).exit_code == 0


@pytest.mark.clients
def test_a_transaction_of_another_server_that_holds_offsets_back_is_named_with_its_server(
    two: list[rota.Server],
) -> None:
    one, other = two

    def owners() -> set[int | None]:
        return {row.owner for row in cluster_of(one).transaction_partitions if row.is_held}

    eventually(lambda: owners() == {1, 2}, WITHIN_S, "both servers coordinate transactions", lambda: repr(owners()))
    one.create_topic("t")
    group, rows = group_of(two, 1), cluster_of(one).transaction_partitions
    names = (f"pay-{number}" for number in range(1_000))
    name = next(name for name in names if rows[_rota.partition_for(name, len(rows))].owner == 2)
    config = {"bootstrap.servers": one.bootstrap_servers}
    producer = Producer(config | {"transactional.id": name})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    member = Consumer(config | {"group.id": group})
    offsets = [TopicPartition("t", 0, 5)]
    producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), WITHIN_S)
    status, found = shown(one, f"/groups/{group}")
    (held,) = found["transactions"]
    where = f"node 2 at {other.host}:{other.port}"
    assert (status, held["transactional_id"], held["state"], held["coordinator"]) == (200, name, None, where)
    says = f"transaction {name}, which {where} coordinates, holds back offsets of t 0; `kafka-python admin -b "
    told = CliRunner().invoke(app, ["why", group, "--http", str(one.http_address)])
    assert (told.exit_code, says in told.stdout) == (0, True), told.output
    producer.commit_transaction(WITHIN_S)
    eventually(lambda: not shown(one, f"/groups/{group}")[1]["transactions"], WITHIN_S, "nothing holds offsets back")
    member.close()


@pytest.mark.clients
def test_metrics_and_health_are_those_of_the_cluster(two: list[rota.Server]) -> None:
    one, other = two
    one.create_topic("t")
    before = samples(other)
    commit(other, group_of(two, 2), TopicPartition("t", 0, 7))
    after = [samples(server) for server in two]
    for found, node_id in zip(after, (1, 2), strict=True):
        owned = [at for at, row in enumerate(cluster_of(one).partitions) if row.owner == node_id]
        assert found["rota_cluster_nodes", "alive"] == 2
        assert found["rota_cluster_nodes", "silent"] == 0
        assert found["rota_cluster_ready", ""] == 1
        assert found["rota_cluster_owned_partitions", ""] == len(owned) > 0
        epochs = {name[1]: epoch for name, epoch in found.items() if name[0] == "rota_cluster_epoch"}
        assert epochs == {str(at): cluster_of(one).partitions[at].epoch for at in owned}
        assert found["rota_cluster_snapshots_total", ""] == 0
        taken, given = (found["rota_cluster_handovers_total", kind] for kind in ("taken", "given_up"))
        of_transactions = [row for row in cluster_of(one).transaction_partitions if row.owner == node_id]
        assert taken - given == len(owned) + len(of_transactions)
        status, health = shown(two[node_id - 1], "/healthz")
        assert (status, health["cluster"]["alive_nodes"]) == (200, [1, 2])
        assert health["cluster"]["owned_partitions"] == len(owned)
        assert health["cluster"]["partitions_without_owner"] == []
    for name in ("rota_engine_append_seconds_count", "rota_engine_appends_total"):
        label = "answered" if name.endswith("total") else ""
        assert after[1][name, label] > before[name, label]
    assert after[1]["rota_engine_appends_total", "unknown"] == 0


@pytest.mark.clients
def test_appends_without_an_answer_are_counted() -> None:
    engine = rota.MemoryEngine()
    with rota.Server(settings=SETTINGS, engine=engine, node_id=1, http=":0") as server:
        eventually(lambda: cluster_of(server).is_ready, WITHIN_S, "the server has joined")
        server.create_topic("t")
        commit(server, "g", TopicPartition("t", 0, 1))
        # Beats, one a second, may meet some of them.
        engine.set_faults(1, exhausted=3)
        commit(server, "g", TopicPartition("t", 0, 2))
        found = samples(server)
    assert found["rota_engine_appends_total", "no_space"] >= 1
    assert found["rota_engine_appends_total", "answered"] >= 2
    assert found["rota_engine_append_seconds_count", ""] >= 3


def a_cluster(row: ClusterPartition, *, is_ready: bool = True, reason: str | None = None) -> Cluster:
    nodes = [
        ClusterNode(node_id, [("PLAINTEXT", f"h{node_id}", 9092)], "1", "serving", True, False, 0) for node_id in (1, 3)
    ]
    standing = "member" if is_ready else "joining"
    return Cluster(1, "etcd://h/rota", standing, reason, None, is_ready, "c", 5_000, nodes, [row], [], None)


@pytest.mark.parametrize(
    ("row", "is_loading", "says"),
    [
        (ClusterPartition(1, 4, True, 1, 1, None), False, None),
        (ClusterPartition(1, 4, True, 1, 1, None), True, "`g` is being loaded: this server has become its coordinator"),
        (ClusterPartition(3, 4, True, 3, 3, None), False, "`g` is not here: its coordinator is node 3 at h3:9092"),
        (
            ClusterPartition(1, 4, False, 3, 3, 400),
            False,
            "`g` is on its way: its coordinator is moving to node 3, since 0.4 s",
        ),
        (ClusterPartition(1, 4, True, 3, 1, 400), False, None),
        (
            ClusterPartition(2, 4, True, None, None, 6_000),
            False,
            "`g` is on its way: its coordinator is gone, and no node lives that could be the next one, since 6.0 s",
        ),
    ],
)
def test_the_sentence_about_a_group_that_is_elsewhere(
    row: ClusterPartition, is_loading: bool, says: str | None
) -> None:
    found = elsewhere(a_cluster(row), 0, "g", is_loading=is_loading)
    assert (None if found is None else found[0]) == says


def test_a_server_that_has_not_joined_says_why() -> None:
    cluster = a_cluster(ClusterPartition(3, 4, True, 3, 3, None), is_ready=False, reason="no connection")
    assert elsewhere(cluster, 0, "g", is_loading=False) == (
        "this server does not answer for groups at present: no connection",
        None,
    )
