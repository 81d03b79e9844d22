"""What users without some rights ask for: requests whose answers were recorded from Kafka, and are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TOPICS = {"ok": 2, "no": 1}
"""The topics that exist, with partitions. `missing` does not."""
GROUP, OTHER = "gx", "gy"

Fields = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One request of a user, and the ACLs of the server at that time, as lines."""

    title: str
    acls: tuple[str, ...]
    api: str
    version: int
    fields: Fields
    user: str = "ana"
    count: int | None = None
    """How many results the answer has at last, with a broker that learns of changes later."""


def allow(operation: str, *resource: str, principal: str = "User:ana", kind: str = "LITERAL") -> tuple[str, ...]:
    """A line that allows an operation; the resource is a type and a name."""
    return (f"ALLOW {principal} * {operation} {resource[0]} {kind} {resource[1]}",)


def deny(operation: str, *resource: str) -> tuple[str, ...]:
    """A line that denies ana an operation."""
    return (f"DENY User:ana * {operation} {resource[0]} LITERAL {resource[1]}",)


CLUSTER = ("CLUSTER", "kafka-cluster")
READ_GROUP, DESCRIBE_GROUP = allow("READ", "GROUP", GROUP), allow("DESCRIBE", "GROUP", GROUP)
READ_OK, WRITE_OK, DESCRIBE_OK = (allow(operation, "TOPIC", "ok") for operation in ("READ", "WRITE", "DESCRIBE"))


def named(*names: str, **beside: Any) -> list[Fields]:
    """Topics by name."""
    return [{"name": name, **beside} for name in names]


JOIN: Fields = {
    "group_id": GROUP,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "member_id": "m",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}
COMMIT: Fields = {
    "group_id": GROUP,
    "generation": -1,
    "member_id": "",
    "topics": named("ok", "no", "missing", partitions=[{"partition_index": 0, "offset": 7, "metadata": ""}]),
}
FETCHED = named("ok", "no", "missing", partition_indexes=[0])


def heartbeat(*names: str, regex: str | None = None) -> Fields:
    """A first heartbeat of a consumer group."""
    return {
        "group_id": GROUP,
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": list(names),
        "subscribed_topic_regex": regex,
        "topic_partitions": [],
    }


def groups(version: int, *of: Fields) -> tuple[str, int, Fields]:
    """An OffsetFetch of several groups."""
    return "OffsetFetch", version, {"groups": list(of)}


def creation(name: str, **other: Any) -> Fields:
    """An ACL in CreateAcls: bob may read a topic."""
    return {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:bob",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    } | other


def acl_filter(**other: Any) -> Fields:
    """A filter that names every ACL."""
    return {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1} | other


NEW = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
OPERATIONS: Fields = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
SET = [{"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}]
BATCH = bytes.fromhex(
    "000000000000000000000039ffffffff02d2bf8dbb00000000000000000000000000010000000000000001ffffffffffffffffffffffffffff00000001"
    "0e000000010276020000"
)
"""A batch whose checksum is wrong: rights are checked before it."""
MANY = (
    *allow("READ", "TOPIC", "ok"),
    *allow("WRITE", "TOPIC", "ok", principal="User:bob", kind="PREFIXED"),
    *allow("ALL", "TOPIC", "*", principal="User:bob"),
    *deny("DESCRIBE", "GROUP", GROUP),
)


EXPLAINED = {
    "AlterUserScramCredentials, no rights": "Kafka's message is the dump of an object",
    "CreateAcls with an ANY": "Kafka has no message",
    "CreateAcls without rights": "Kafka's message is the dump of an object",
    "DeleteAcls without rights": "Kafka's message is the dump of an object",
    "DescribeAcls without rights": "Kafka's message is the dump of an object",
    **dict.fromkeys(
        ("ElectLeaders, no rights", "ElectLeaders, no rights, version 0", "ListPartitionReassignments, no rights"),
        "Kafka's message is the dump of an object",
    ),
    "Produce, one topic": "Kafka has no message for the broken batch",
}
"""Steps whose messages differ, and why; everything else of their answers is equal."""


def whole(*, of: str, acls: tuple[str, ...], what: str = "") -> Step:
    """A request of the group's members."""
    return Step(f"{of}{what}", acls, of, MEMBER[of][0], MEMBER[of][1])


MEMBER: dict[str, tuple[int, Fields]] = {
    "JoinGroup": (5, JOIN),
    "SyncGroup": (3, {"group_id": GROUP, "generation": 1, "member_id": "m", "assignments": []}),
    "Heartbeat": (3, {"group_id": GROUP, "generation": 1, "member_id": "m"}),
    "LeaveGroup": (3, {"group_id": GROUP, "members": [{"member_id": "m"}]}),
}

STEPS: tuple[Step, ...] = (
    *(whole(of=api, acls=()) for api in MEMBER),
    *(whole(of=api, acls=DESCRIBE_GROUP, what=", with DESCRIBE") for api in MEMBER),
    *(whole(of=api, acls=READ_GROUP, what=", with READ") for api in ("SyncGroup", "Heartbeat", "LeaveGroup")),
    *(whole(of=api, acls=(*READ_GROUP, *deny("READ", "GROUP", "*")), what=", denied") for api in ("Heartbeat",)),
    Step("a consumer joins without rights", (), "ConsumerGroupHeartbeat", 1, heartbeat("ok")),
    Step(
        "a consumer names a forbidden topic",
        (*READ_GROUP, *READ_OK),
        "ConsumerGroupHeartbeat",
        1,
        heartbeat("ok", "no"),
    ),
    Step(
        "a consumer names a missing topic", (*READ_GROUP, *READ_OK), "ConsumerGroupHeartbeat", 1, heartbeat("missing")
    ),
    Step("OffsetCommit without rights", (), "OffsetCommit", 8, COMMIT),
    Step("OffsetCommit with the group only", READ_GROUP, "OffsetCommit", 8, COMMIT),
    Step("OffsetCommit with one topic", (*READ_GROUP, *READ_OK), "OffsetCommit", 8, COMMIT),
    Step("OffsetCommit may describe only", (*READ_GROUP, *DESCRIBE_OK), "OffsetCommit", 8, COMMIT),
    Step("OffsetFetch v7 without rights", (), "OffsetFetch", 7, {"group_id": GROUP, "topics": FETCHED}),
    Step(
        "OffsetFetch v7 of one topic",
        (*DESCRIBE_GROUP, *DESCRIBE_OK),
        "OffsetFetch",
        7,
        {"group_id": GROUP, "topics": FETCHED},
    ),
    Step(
        "OffsetFetch v7 of all", (*DESCRIBE_GROUP, *DESCRIBE_OK), "OffsetFetch", 7, {"group_id": GROUP, "topics": None}
    ),
    Step("OffsetFetch v7 of all, nothing seen", DESCRIBE_GROUP, "OffsetFetch", 7, {"group_id": GROUP, "topics": None}),
    Step(
        "OffsetFetch v8 of two groups",
        (*DESCRIBE_GROUP, *DESCRIBE_OK),
        *groups(8, {"group_id": OTHER, "topics": FETCHED}, {"group_id": GROUP, "topics": FETCHED}),
    ),
    Step(
        "OffsetDelete with READ",
        (*READ_GROUP, *READ_OK),
        "OffsetDelete",
        0,
        {"group_id": GROUP, "topics": named("ok", partitions=[{"partition_index": 1}])},
    ),
    Step(
        "OffsetDelete with DELETE",
        allow("DELETE", "GROUP", GROUP),
        "OffsetDelete",
        0,
        {"group_id": GROUP, "topics": named("ok", "missing", partitions=[{"partition_index": 1}])},
    ),
    Step(
        "OffsetDelete with both",
        (*allow("DELETE", "GROUP", GROUP), *READ_OK),
        "OffsetDelete",
        0,
        {"group_id": GROUP, "topics": named("ok", "no", partitions=[{"partition_index": 1}])},
    ),
    Step(
        "DescribeGroups",
        DESCRIBE_GROUP,
        "DescribeGroups",
        6,
        {"groups": [GROUP, OTHER], "include_authorized_operations": True},
    ),
    Step(
        "DescribeGroups with READ",
        READ_GROUP,
        "DescribeGroups",
        5,
        {"groups": [GROUP], "include_authorized_operations": True},
    ),
    Step(
        "ConsumerGroupDescribe",
        DESCRIBE_GROUP,
        "ConsumerGroupDescribe",
        1,
        {"group_ids": [OTHER], "include_authorized_operations": True},
    ),
    Step("ListGroups without rights", (), "ListGroups", 4, {}),
    Step("ListGroups with a group", DESCRIBE_GROUP, "ListGroups", 4, {}),
    Step("ListGroups with the cluster", allow("DESCRIBE", *CLUSTER), "ListGroups", 4, {}),
    Step("DeleteGroups", READ_GROUP, "DeleteGroups", 2, {"groups_names": [GROUP, OTHER]}),
    Step("FindCoordinator v3", (), "FindCoordinator", 3, {"key": GROUP, "key_type": 0}),
    Step("FindCoordinator v4", DESCRIBE_GROUP, "FindCoordinator", 4, {"coordinator_keys": [OTHER], "key_type": 0}),
    Step("FindCoordinator of a transaction", (), "FindCoordinator", 4, {"coordinator_keys": ["tx"], "key_type": 1}),
    Step("Metadata without rights", (), "Metadata", 9, {"topics": named("ok", "missing"), **OPERATIONS}),
    Step("Metadata of all without rights", (), "Metadata", 9, {"topics": None, **OPERATIONS}),
    Step("Metadata of all with one", READ_OK, "Metadata", 9, {"topics": None, **OPERATIONS}),
    Step("Metadata with READ", READ_OK, "Metadata", 9, {"topics": named("ok", "no"), **OPERATIONS}),
    Step("Metadata with DELETE", allow("DELETE", "TOPIC", "ok"), "Metadata", 9, {"topics": named("ok"), **OPERATIONS}),
    Step("Metadata with CREATE", allow("CREATE", "TOPIC", "ok"), "Metadata", 9, {"topics": named("ok"), **OPERATIONS}),
    Step(
        "Metadata with ALTER_CONFIGS",
        allow("ALTER_CONFIGS", "TOPIC", "ok"),
        "Metadata",
        9,
        {"topics": named("ok"), **OPERATIONS},
    ),
    Step(
        "Metadata, DESCRIBE denied",
        (*allow("ALL", "TOPIC", "ok"), *deny("DESCRIBE", "TOPIC", "ok")),
        "Metadata",
        9,
        {"topics": named("ok"), **OPERATIONS},
    ),
    Step(
        "Metadata of a missing topic",
        allow("DESCRIBE", "TOPIC", "missing"),
        "Metadata",
        9,
        {"topics": named("missing")},
    ),
    Step(
        "Metadata creates nothing without CREATE",
        allow("DESCRIBE", "TOPIC", "missing"),
        "Metadata",
        9,
        {"topics": named("missing"), "allow_auto_topic_creation": True},
    ),
    Step("Metadata with the cluster", allow("ALTER", *CLUSTER), "Metadata", 9, {"topics": [], **OPERATIONS}),
    Step(
        "CreateTopics",
        allow("CREATE", "TOPIC", "mine"),
        "CreateTopics",
        7,
        {"topics": [{"name": "mine", **NEW}, {"name": "theirs", **NEW}], "timeout_ms": 10_000, "validate_only": True},
    ),
    Step(
        "CreateTopics with the cluster",
        allow("CREATE", *CLUSTER),
        "CreateTopics",
        7,
        {"topics": [{"name": "theirs", **NEW}], "timeout_ms": 10_000, "validate_only": True},
    ),
    Step(
        "CreateTopics of an existing one",
        (),
        "CreateTopics",
        7,
        {"topics": [{"name": "ok", **NEW}], "timeout_ms": 10_000, "validate_only": True},
    ),
    *(
        Step(
            f"DeleteRecords, {title}",
            acls,
            "DeleteRecords",
            2,
            {"topics": named("ok", "missing", partitions=[{"partition_index": 0}]), "timeout_ms": 10_000},
        )
        for title, acls in (("no rights", ()), ("WRITE", WRITE_OK), ("DELETE", allow("DELETE", "TOPIC", "ok")))
    ),
    Step("DeleteTopics", READ_OK, "DeleteTopics", 5, {"topic_names": ["ok", "missing"], "timeout_ms": 10_000}),
    Step(
        "DescribeConfigs without rights",
        (),
        "DescribeConfigs",
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": "ok"},
                {"resource_type": 4, "resource_name": "1"},
                {"resource_type": 32, "resource_name": GROUP},
            ]
        },
    ),
    Step(
        "DescribeConfigs of a missing topic",
        (),
        "DescribeConfigs",
        4,
        {"resources": [{"resource_type": 2, "resource_name": "missing"}]},
    ),
    Step(
        "IncrementalAlterConfigs without rights",
        (),
        "IncrementalAlterConfigs",
        1,
        {
            "resources": [
                {"resource_type": 32, "resource_name": GROUP, "configs": SET},
                {"resource_type": 2, "resource_name": "ok", "configs": SET},
            ],
            "validate_only": True,
        },
    ),
    Step(
        "IncrementalAlterConfigs of a group",
        allow("ALTER_CONFIGS", "GROUP", GROUP),
        "IncrementalAlterConfigs",
        1,
        {"resources": [{"resource_type": 32, "resource_name": GROUP, "configs": SET}], "validate_only": True},
    ),
    Step("DescribeAcls without rights", (), "DescribeAcls", 3, acl_filter()),
    Step(
        "CreateAcls without rights",
        allow("DESCRIBE", *CLUSTER),
        "CreateAcls",
        3,
        {"creations": [creation("ok"), creation("no")]},
    ),
    Step("DeleteAcls without rights", (), "DeleteAcls", 3, {"filters": [acl_filter()]}),
    Step("DescribeAcls of all", MANY, "DescribeAcls", 3, acl_filter(), user="admin"),
    Step(
        "DescribeAcls of a resource",
        MANY,
        "DescribeAcls",
        3,
        acl_filter(resource_type_filter=2, resource_name_filter="ok", pattern_type_filter=2),
        user="admin",
    ),
    Step(
        "DescribeAcls of a name",
        MANY,
        "DescribeAcls",
        3,
        acl_filter(resource_type_filter=2, resource_name_filter="ok"),
        user="admin",
    ),
    Step("DescribeAcls of nonsense", MANY, "DescribeAcls", 3, acl_filter(principal_filter="nonsense"), user="admin"),
    Step(
        "DeleteAcls of two filters",
        MANY,
        "DeleteAcls",
        3,
        {
            "filters": [
                acl_filter(resource_type_filter=2, resource_name_filter="ok", pattern_type_filter=2),
                acl_filter(principal_filter="User:nobody"),
            ]
        },
        user="admin",
    ),
    Step(
        "CreateAcls, right and wrong ones",
        (),
        "CreateAcls",
        3,
        {
            "creations": [
                creation("ok"),
                creation("ok"),
                creation("x", principal="bob"),
                creation(""),
                creation("x", resource_type=4),
                creation("x", host=""),
            ]
        },
        user="admin",
    ),
    Step(
        "CreateAcls with an ANY",
        (),
        "CreateAcls",
        3,
        {"creations": [creation("ok"), creation("x", operation=1)]},
        user="admin",
    ),
    Step(
        "ConsumerGroupDescribe of forbidden topics", DESCRIBE_GROUP, "ConsumerGroupDescribe", 1, {"group_ids": ["gc"]}
    ),
    *(
        Step(
            f"Produce, {title}",
            acls,
            "Produce",
            9,
            {
                "acks": -1,
                "timeout_ms": 10_000,
                "topic_data": named("ok", "no", "missing", partition_data=[{"index": 0, "records": BATCH}]),
            },
        )
        for title, acls in (("no rights", ()), ("one topic", WRITE_OK), ("READ only", READ_OK))
    ),
    *(
        Step(
            f"Fetch, {title}",
            acls,
            "Fetch",
            5,
            {
                "replica_id": -1,
                "max_wait_ms": 0,
                "min_bytes": 0,
                "max_bytes": 1_000,
                "topics": [
                    {"topic": topic, "partitions": [{"partition": 1, "partition_max_bytes": 100}]}
                    for topic in ("ok", "no", "missing")
                ],
            },
        )
        for title, acls in (("no rights", ()), ("one topic", READ_OK), ("DESCRIBE only", DESCRIBE_OK))
    ),
    *(
        Step(
            f"ListOffsets, {title}",
            acls,
            "ListOffsets",
            5,
            {
                "replica_id": -1,
                "topics": named(
                    "ok",
                    "no",
                    "missing",
                    partitions=[{"partition_index": 1, "current_leader_epoch": -1, "timestamp": -2}],
                ),
            },
        )
        for title, acls in (
            ("no rights", ()),
            ("DESCRIBE", DESCRIBE_OK),
            ("denied", (*READ_OK, *deny("DESCRIBE", "TOPIC", "*"))),
        )
    ),
    *(
        Step(
            f"OffsetForLeaderEpoch, {title}",
            acls,
            "OffsetForLeaderEpoch",
            3,
            {
                "replica_id": -1,
                "topics": [
                    {"topic": topic, "partitions": [{"partition": 1, "current_leader_epoch": -1, "leader_epoch": 0}]}
                    for topic in ("ok", "no", "missing")
                ],
            },
        )
        for title, acls in (("no rights", ()), ("DESCRIBE", DESCRIBE_OK))
    ),
    *(
        Step(
            f"InitProducerId, {title}",
            acls,
            "InitProducerId",
            1,
            {"transactional_id": None, "transaction_timeout_ms": 10_000},
        )
        for title, acls in (
            ("no rights", ()),
            ("WRITE somewhere", allow("WRITE", "TOPIC", "some", kind="PREFIXED")),
            ("IDEMPOTENT_WRITE", allow("IDEMPOTENT_WRITE", *CLUSTER)),
            ("WRITE denied everywhere", (*WRITE_OK, *deny("WRITE", "TOPIC", "*"))),
        )
    ),
    Step(
        "InitProducerId of a transaction",
        (),
        "InitProducerId",
        1,
        {"transactional_id": "tx", "transaction_timeout_ms": 10_000},
    ),
    *(
        Step(
            f"CreatePartitions, {title}",
            acls,
            "CreatePartitions",
            1,
            {"topics": named("ok", "missing", count=3), "timeout_ms": 10_000, "validate_only": True},
        )
        for title, acls in (("no rights", ()), ("ALTER", allow("ALTER", "TOPIC", "ok")))
    ),
    *(
        Step(f"DescribeCluster, {title}", acls, "DescribeCluster", 0, {"include_cluster_authorized_operations": True})
        for title, acls in (("no rights", ()), ("ALL", allow("ALL", *CLUSTER)), ("ALTER", allow("ALTER", *CLUSTER)))
    ),
    Step(
        "a consumer may join",
        (*allow("READ", "GROUP", "gz"), *READ_OK),
        "ConsumerGroupHeartbeat",
        1,
        heartbeat("ok") | {"group_id": "gz"},
    ),
    Step(
        "its group is described",
        (*allow("READ", "GROUP", "gz"), *READ_OK),
        "ConsumerGroupDescribe",
        1,
        {"group_ids": ["gz"], "include_authorized_operations": True},
    ),
    Step(
        "its group has a forbidden topic",
        allow("READ", "GROUP", "gz"),
        "ConsumerGroupDescribe",
        1,
        {"group_ids": ["gz"], "include_authorized_operations": True},
    ),
)

NEWER = (("ConsumerGroupHeartbeat", heartbeat("ok")), ("ConsumerGroupDescribe", {"group_ids": [GROUP]}))
CLASSIC_STEPS = tuple(
    Step(f"{api}, {title}", acls, api, 1, fields)
    for api, fields in NEWER
    for title, acls in (("no rights", ()), ("the group only", READ_GROUP), ("all rights", (*READ_GROUP, *READ_OK)))
)
"""What a broker without the newer protocol is asked."""
