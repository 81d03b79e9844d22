"""Plays the steps to a broker, and keeps of the answers what rights decide."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.raw import Connection, Reader, blob, frame, string
from rota import codec
from tests.acls.steps import TOPICS, Fields, Step

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
WITHIN_S = 60
LOADING = 14
# fmt: off
OPERATIONS = [
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
]
# fmt: on

# fmt: off
IGNORED = {
    "throttle_time_ms", "brokers", "cluster_id", "controller_id", "configs", "topic_id", "group_epoch",
    "assignment_epoch", "node_id", "port", "host", "heartbeat_interval_ms", "leader", "skip_assignment", "group_type",
    "client_id", "client_host", "assignment", "target_assignment", "rack_id", "assignor_name", "leader_epoch",
    "leader_id", "replica_nodes", "isr_nodes", "offline_replicas", "is_internal", "protocol_type",
    "log_append_time_ms", "timestamp", "producer_id", "producer_epoch", "log_start_offset", "metadata", "generation",
    "log_dir", "total_bytes", "usable_bytes",
}
# fmt: on
"""Fields that rights do not decide, or that differ from run to run."""

KEYS = (
    "topic",
    "index",
    "partition",
    "name",
    "group_id",
    "partition_index",
    "resource_name",
    "pattern_type",
    "principal",
    "operation",
    "key",
    "user",
)


class Asker:
    """An authenticated connection; a context manager."""

    def __init__(self, address: tuple[str, int], user: str, password: str) -> None:
        self.connection = Connection(address, WITHIN_S)
        self.connection.send(frame(SASL_HANDSHAKE, 1, string("PLAIN")))
        assert Reader(self.connection.receive()[4:]).i16() == 0
        self.connection.send(frame(SASL_AUTHENTICATE, 1, blob(f"\0{user}\0{password}".encode())))
        assert Reader(self.connection.receive()[4:]).i16() == 0, f"{user} is not authenticated"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.connection.__exit__(None, None, None)

    def ask(self, name: str, version: int, fields: Fields) -> Fields:
        """The answer to a request."""
        api = APIS[name]
        request = codec.write_request(api, version, 1, "test", fields)
        self.connection.send(len(request).to_bytes(4, "big") + request)
        return codec.read_answer(api, version, self.connection.receive())[1]


def acl_fields(line: str) -> Fields:
    """An ACL as CreateAcls has it."""
    permission, principal, host, operation, resource, kind, name = line.split(" ")
    return {
        "resource_type": ["", "", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"].index(resource),
        "resource_name": name,
        "resource_pattern_type": {"LITERAL": 3, "PREFIXED": 4}[kind],
        "principal": principal,
        "host": host,
        "operation": OPERATIONS.index(operation),
        "permission_type": {"DENY": 2, "ALLOW": 3}[permission],
    }


APIS = codec.apis() | codec.read((Path(__file__).parent / "messages.txt").read_text("utf-8"))
EVERY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


def set_acls(admin: Asker, lines: Sequence[str]) -> None:
    """Make these the only ACLs, and wait until they count."""
    admin.ask("DeleteAcls", 3, {"filters": [EVERY]})
    wanted = [acl_fields(line) for line in lines]
    answer = admin.ask("CreateAcls", 3, {"creations": wanted})
    assert all(result["error_code"] == 0 for result in answer["results"]), answer
    until = time.monotonic() + WITHIN_S
    while True:
        described = admin.ask("DescribeAcls", 3, EVERY)["resources"]
        found = sum(len(resource["acls"]) for resource in described)
        if found == len(lines):
            return
        assert time.monotonic() < until, described


def prepare(admin: Asker) -> None:
    """Create the topics, and offsets of two groups."""
    new = {"replication_factor": 1, "assignments": [], "configs": []}
    topics = [{"name": name, "num_partitions": count, **new} for name, count in TOPICS.items()]
    created = admin.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 30_000})
    assert all(topic["error_code"] in (0, 36) for topic in created["topics"]), created
    for group in ("gx", "gy"):
        partitions = [{"partition_index": 0, "offset": 5, "metadata": ""}]
        commit: Fields = {"group_id": group, "generation": -1, "member_id": ""}
        commit["topics"] = [{"name": name, "partitions": partitions} for name in TOPICS]
        until = time.monotonic() + WITHIN_S
        while True:
            admin.ask("FindCoordinator", 4, {"coordinator_keys": [group], "key_type": 0})
            answer = admin.ask("OffsetCommit", 8, commit)
            if all(part["error_code"] == 0 for topic in answer["topics"] for part in topic["partitions"]):
                break
            assert time.monotonic() < until, answer


def kept(value: Any) -> Any:
    """What rights decide of an answer; lists are sorted, since Kafka's have no order."""
    if isinstance(value, dict):
        return {key: kept(inner) for key, inner in value.items() if key not in IGNORED}
    if isinstance(value, list):
        return sorted((kept(each) for each in value), key=sort_key)
    return value.hex() if isinstance(value, bytes) else value


def sort_key(value: Any) -> str:
    """The place of an element in a list."""
    return repr([value.get(key) for key in KEYS]) + repr(value) if isinstance(value, dict) else repr(value)


def settled(asker: Asker, step: Step) -> Fields:
    """The answer to a step, once the broker has loaded what it needs for it."""
    until = time.monotonic() + WITHIN_S
    while True:
        answer = asker.ask(step.api, step.version, step.fields)
        is_whole = step.count is None or sum(not result["error_code"] for result in answer["results"]) >= step.count
        if (answer.get("error_code") != LOADING and is_whole) or time.monotonic() > until:
            return answer


def played(address: tuple[str, int], passwords: dict[str, str], steps: Sequence[Step]) -> dict[str, Any]:
    """The answers to all steps, by title."""
    answers: dict[str, Any] = {}
    with Asker(address, "admin", passwords["admin"]) as admin:
        prepare(admin)
        known: tuple[str, ...] | None = None
        for step in steps:
            # A step that changes ACLs leaves others than it has found.
            if step.acls != known:
                set_acls(admin, step.acls)
            known = None if step.api.endswith("Acls") else step.acls
            with Asker(address, step.user, passwords[step.user]) as asker:
                assert step.title not in answers, step.title
                answers[step.title] = kept(settled(asker, step))
    return answers
