"""The table of rights in docs/security.md: each row is what a server does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import rota
from harness.builds import ROOT
from tests.acls.asking import APIS, EVERY, Asker, prepare, settled
from tests.acls.record import PASSWORDS
from tests.acls.steps import COMMIT, GROUP, JOIN, NEW, SET, Fields, Step, creation, heartbeat, named

ERRORS = {"TOPIC_AUTHORIZATION_FAILED": 29, "GROUP_AUTHORIZATION_FAILED": 30, "CLUSTER_AUTHORIZATION_FAILED": 31}
CONSUMERS = "gz"
NAMES = {"TOPIC": "ok", "GROUP": "*", "CLUSTER": "kafka-cluster"}
IDENTITY = {"group_id": GROUP, "generation": 1, "member_id": "m"}
BATCH = [{"index": 0, "records": b""}]
EPOCH = [{"partition": 0, "current_leader_epoch": -1}]
ONE = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}]


def configs(resource: str, **beside: Any) -> Fields:
    kind, name = {"TOPIC": (2, "ok"), "GROUP": (32, GROUP), "CLUSTER": (4, "1")}[resource]
    return {"resources": [{"resource_type": kind, "resource_name": name, **beside}], "validate_only": True}


REQUESTS: dict[str, tuple[int, Fields]] = {
    "Produce": (9, {"acks": -1, "timeout_ms": 1_000, "topic_data": named("ok", partition_data=BATCH)}),
    "Fetch": (5, {"replica_id": -1, "max_bytes": 9, "topics": [{"topic": "ok", "partitions": [{"partition": 0}]}]}),
    "ListOffsets": (5, {"replica_id": -1, "topics": named("ok", partitions=ONE)}),
    "OffsetForLeaderEpoch": (3, {"replica_id": -1, "topics": [{"topic": "ok", "partitions": EPOCH}]}),
    "Metadata": (9, {"topics": named("ok")}),
    "CreateTopics": (7, {"topics": named("ok", **NEW), "timeout_ms": 1_000, "validate_only": True}),
    "DeleteTopics": (5, {"topic_names": ["ok"], "timeout_ms": 1_000}),
    "DeleteRecords": (1, {"topics": named("ok", partitions=[{"partition_index": 0}]), "timeout_ms": 1_000}),
    "CreatePartitions": (1, {"topics": named("ok", count=5), "timeout_ms": 1_000, "validate_only": True}),
    "InitProducerId": (1, {"transaction_timeout_ms": 1_000}),
    "FindCoordinator": (3, {"key": GROUP, "key_type": 0}),
    "JoinGroup": (3, JOIN),
    "SyncGroup": (2, IDENTITY),
    "Heartbeat": (2, IDENTITY),
    "LeaveGroup": (2, IDENTITY),
    "ConsumerGroupHeartbeat": (1, heartbeat("ok") | {"group_id": "gn"}),
    "OffsetCommit": (8, COMMIT | {"topics": COMMIT["topics"][:1]}),
    "OffsetFetch": (7, {"group_id": GROUP, "topics": named("ok", partition_indexes=[0])}),
    "OffsetDelete": (0, {"group_id": GROUP, "topics": named("ok", partitions=[{"partition_index": 1}])}),
    "DescribeGroups": (5, {"groups": [GROUP]}),
    "ConsumerGroupDescribe": (1, {"group_ids": [CONSUMERS]}),
    "ListGroups": (4, {}),
    "DeleteGroups": (2, {"groups_names": [GROUP]}),
    "DescribeAcls": (3, EVERY),
    "CreateAcls": (3, {"creations": [creation("ok")]}),
    "DeleteAcls": (3, {"filters": [EVERY]}),
    "DescribeLogDirs": (5, {"topics": None}),
    "ElectLeaders": (2, {"topic_partitions": [{"topic": "ok", "partitions": [0]}], "timeout_ms": 1_000}),
    "ListPartitionReassignments": (0, {"timeout_ms": 1_000, "topics": None}),
    "ListConfigResources": (1, {"resource_types": []}),
    "DescribeClientQuotas": (1, {"components": [], "strict": False}),
    "DescribeUserScramCredentials": (0, {"users": None}),
    "AlterUserScramCredentials": (0, {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []}),
    "DescribeCluster": (0, {"include_cluster_authorized_operations": True}),
    "ApiVersions": (0, {}),
}  # fmt: skip


class Row(NamedTuple):
    """A row of the table."""

    api: str
    rights: list[str]
    otherwise: str

    def request(self) -> Step:
        if self.api in ("DescribeConfigs", "IncrementalAlterConfigs"):
            resource = self.rights[0].split()[1]
            version, fields = (
                (4, configs(resource)) if self.api == "DescribeConfigs" else (1, configs(resource, configs=SET))
            )
        else:
            version, fields = REQUESTS[self.api]
        return Step("", (), self.api, version, fields)


def table() -> list[Row]:
    """The rows of the page."""
    lines = (ROOT / "docs" / "security.md").read_text("utf-8").partition("| request | needs | otherwise |")[2]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines.split("\n\n")[0].splitlines()[2:]]
    return [Row(api, [] if needs == "nothing" else needs.split(" or "), otherwise) for api, needs, otherwise in rows]


def allowing(right: str, permission: str = "ALLOW") -> str:
    operation, resource = right.split()
    name = "*" if permission == "DENY" and resource == "TOPIC" else NAMES[resource]
    return f"{permission} User:ana * {operation} {resource} LITERAL {name}"


ROWS = table()
BESIDE = {
    row.api: [allowing(other.rights[0]) for other in ROWS if other.api == row.api and other.rights] for row in ROWS
}
ALL = [f"ALLOW User:* * ALL {resource} LITERAL {name}" for resource, name in (NAMES | {"TOPIC": "*"}).items()]


@pytest.fixture
def server() -> Iterator[rota.Server]:
    settings: dict[str, str | int] = {"super.users": "User:admin", "group.initial.rebalance.delay.ms": 0}
    with rota.Server(sasl="PLAIN", users=PASSWORDS, acls=[], settings=settings) as server:
        with Asker((server.host, server.port), "admin", PASSWORDS["admin"]) as admin:
            prepare(admin)
            assert admin.ask("ConsumerGroupHeartbeat", 1, heartbeat("ok") | {"group_id": CONSUMERS})["error_code"] == 0
        yield server
        assert server.panics == 0


def codes(value: Any) -> set[int]:
    """Every error in an answer."""
    if isinstance(value, dict):
        here = {inner for key, inner in value.items() if key == "error_code"}
        return here.union(*(codes(inner) for inner in value.values()))
    return set().union(*map(codes, value)) if isinstance(value, list) else set()


#: test_transactions.py has their rights.
OF_TRANSACTIONS = {
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "DescribeProducers",
    "DescribeTransactions",
    "EndTxn",
    "ListTransactions",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
}


def refused(server: rota.Server, row: Row, acls: list[str]) -> bool:
    """Whether a request of ana, who has these rights, is answered as the row says."""
    server.set_acls(acls)
    with Asker((server.host, server.port), "ana", PASSWORDS["ana"]) as ana:
        answer = settled(ana, row.request())
    if row.api == "ListGroups":
        return GROUP not in [group["group_id"] for group in answer["groups"]]
    return bool(codes(answer) & ({ERRORS[row.otherwise]} if row.otherwise else set(ERRORS.values())))


@pytest.mark.parametrize("row", [row for row in ROWS if row.rights], ids=lambda row: f"{row.api}-{row.rights[0]}")
def test_a_right_of_the_table_is_needed_and_is_enough(server: rota.Server, row: Row) -> None:
    others = [acl for acl in BESIDE[row.api] if acl != allowing(row.rights[0])]
    # The other rights of the request are there, so that this one decides.
    assert refused(server, row, others)
    assert refused(server, row, [*ALL, *(allowing(right, "DENY") for right in row.rights)])
    for right in row.rights:
        assert not refused(server, row, [*others, allowing(right)]), right


@pytest.mark.parametrize("row", [row for row in ROWS if not row.rights], ids=lambda row: row.api)
def test_what_needs_nothing_is_answered_without_rights(server: rota.Server, row: Row) -> None:
    assert not refused(server, row, [])


def test_every_request_that_is_served_is_in_the_table_or_among_those_of_transactions() -> None:
    assert {row.api for row in ROWS} | OF_TRANSACTIONS == set(APIS)
