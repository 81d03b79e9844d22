"""A broker that serves less than Apache Kafka is asked what it says that it serves, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.codec import apis
from rota.conform.broker import Broker
from rota.conform.judge import Verdict
from rota.conform.older import Offer, needed
from rota.conform.run import Options, Result, Run, catalogue, chosen
from tests.conform.proxy import Spoil, spoiled, whole

API_VERSIONS = 18
DELAY = "group.initial.rebalance.delay.ms"
JOIN = {"member_id": "m", "instance_id": None}


def serving(**newest: int) -> Spoil:
    """ApiVersions v0 as of a broker that has these versions at most; -1 is none."""
    wanted = {apis()[name].key: version for name, version in newest.items()}

    def spoil(frame: bytes) -> bytes:
        told = struct.iter_unpack(">hhh", frame[10:])
        kept = [(key, first, min(last, wanted.get(key, last))) for key, first, last in told if wanted.get(key) != -1]
        return whole(frame[:6] + struct.pack(">i", len(kept)) + b"".join(struct.pack(">hhh", *each) for each in kept))

    return spoil


@pytest.fixture(scope="module")
def server() -> Iterator[rota.Server]:
    with rota.Server(settings={DELAY: 400}) as running:
        yield running


def verdicts(broker: Broker, *patterns: str) -> dict[str, Result]:
    """Of the rows, at a broker that is prepared and cleaned up."""
    broker.contact()
    broker.prepare()
    results = Run(broker, Options(workers=8, tries=1)).results(chosen(catalogue(), patterns))
    assert broker.clean() == []
    return {result.row.id: result for result in results}


def sent(result: Result) -> list[str]:
    """Requests of a row."""
    return [said.meaning for said in result.trail if said.direction == "sent"]


def test_what_is_not_served_is_not_asked_for(server: rota.Server) -> None:
    rows = ("fields/DescribeGroups-v?", "fields/Heartbeat-v3", "fields/JoinGroup-v[39]", "join/J05-first-member")
    with spoiled((server.host, server.port), serving(DescribeGroups=-1, JoinGroup=3), API_VERSIONS) as address:
        results = verdicts(Broker(address), *rows)
    served = {name for name, result in results.items() if result.verdict is Verdict.SAME}
    assert served == {"fields/Heartbeat-v3", "fields/JoinGroup-v3"}
    others = [result for name, result in results.items() if name not in served]
    assert {result.verdict for result in others} == {Verdict.NOT_SERVED}
    assert not [asked for result in others for asked in sent(result) if asked.startswith("DescribeGroups")]
    assert any("! not served: JoinGroup v4" in step.answers for step in results["join/J05-first-member"].evidence)


def test_a_broker_without_topic_ids_is_asked_for_topics_by_name(server: rota.Server) -> None:
    with spoiled((server.host, server.port), serving(Metadata=8), API_VERSIONS) as address:
        results = verdicts(Broker(address), "fields/OffsetCommit-v9", "fields/OffsetCommit-v10")
    assert results["fields/OffsetCommit-v9"].verdict is Verdict.SAME
    assert results["fields/OffsetCommit-v10"].verdict is Verdict.NOT_SERVED


def test_a_version_may_be_ruled_out_but_for_the_rows_about_it(server: rota.Server) -> None:
    broker = Broker((server.host, server.port), at_most={"Heartbeat": 2})
    results = verdicts(broker, "fields/Heartbeat-v4", "matrix/stable/Heartbeat leader*")
    assert results["fields/Heartbeat-v4"].verdict is Verdict.SAME
    assert results["matrix/stable/Heartbeat leader"].verdict is Verdict.SAME
    with_instance = results["matrix/stable/Heartbeat leader, an instance id nobody has"]
    assert with_instance.verdict is Verdict.NOT_SERVED
    assert not [asked for asked in sent(with_instance) if asked.startswith("Heartbeat")]


@pytest.mark.parametrize(
    ("api", "more", "oldest"),
    [
        ("Heartbeat", {}, 0),
        ("Heartbeat", {"instance_id": "i"}, 3),
        ("JoinGroup", {}, 0),
        ("JoinGroup", {"member_id": ""}, 4),
        ("JoinGroup", {"instance_id": "i"}, 5),
        ("SyncGroup", {"protocol_type": "consumer", "protocol_name": "range"}, 0),
        ("SyncGroup", {"protocol_type": "consumer", "protocol_name": "sticky"}, 5),
        ("SyncGroup", {"protocol_type": None, "protocol_name": "range"}, 5),
        ("LeaveGroup", {"members": [{"member_id": "m", "instance_id": None}]}, 3),
        ("OffsetCommit", {"topics": [{"partitions": [{"leader_epoch": 3}]}]}, 6),
        ("OffsetFetch", {"require_stable": False, "topics": []}, 0),
        ("OffsetFetch", {"require_stable": False, "topics": None}, 2),
        ("OffsetFetch", {"require_stable": True, "topics": None}, 7),
        ("ListGroups", {"states_filter": ["Stable"], "types_filter": []}, 4),
        ("ListGroups", {"states_filter": [], "types_filter": ["classic"]}, 5),
    ],
)
def test_older_versions_cannot_say_everything(api: str, more: dict[str, object], oldest: int) -> None:
    assert needed(api, JOIN | more, Offer("consumer", ("range",))) == oldest


def test_a_second_broker_that_is_down_leaves_nothing_on_the_first(server: rota.Server) -> None:
    down = "127.0.0.1:1"
    words = ["conform", "--bootstrap-server", f"{server.host}:{server.port}", "--against", down]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 5
    assert f"--against {down}" in result.stderr
    broker = Broker((server.host, server.port))
    broker.contact()
    connection = broker.connect()
    topics = [topic["name"] for topic in broker.ask(connection, "Metadata", 8, {"topics": None})["topics"]]
    groups = broker.ask(connection, "ListGroups", 4, {})["groups"]
    connection.close()
    assert [name for name in topics if name and name.startswith("conform-")] == []
    assert groups == []
