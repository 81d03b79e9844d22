"""What Kafka's tools ask for: requests whose answers were recorded from Kafka, and are compared."""

from __future__ import annotations

from tests.acls.steps import CLUSTER, Fields, Step, allow, named

ELECTED: list[Fields] = [{"topic": "ok", "partitions": [0, 1, 1, 2, -1]}, {"topic": "missing", "partitions": [0]}]
SIZED: list[Fields] = [{"topic": "no", "partitions": [0, 0, 9]}, {"topic": "missing", "partitions": [0]}]
MOVED = named("ok", "missing", partition_indexes=[0, 9])
BROKER, GROUP, CLIENT_METRICS = 4, 32, 16


def steps(api: str, right: str, *asked: tuple[str, int, Fields]) -> tuple[Step, ...]:
    """Requests of one API, first without the right on the cluster, then with it, then others of admin."""
    title, version, fields = asked[0]
    without = Step(f"{api}, no rights", allow("CREATE", *CLUSTER), api, version, fields)
    with_it = Step(f"{api}, {right}, {title}", allow(right, *CLUSTER), api, version, fields)
    others = (Step(f"{api}, {title}", (), api, version, fields, user="admin") for title, version, fields in asked[1:])
    return (without, with_it, *others)


TOOL_STEPS: tuple[Step, ...] = (
    *steps(
        "DescribeLogDirs",
        "DESCRIBE",
        ("known and unknown partitions", 5, {"topics": SIZED}),
        *((f"version {version}", version, {"topics": SIZED}) for version in range(1, 5)),
        ("no topics", 5, {"topics": []}),
        ("a topic twice", 5, {"topics": [SIZED[0], SIZED[0]]}),
    ),
    Step("DescribeLogDirs, no rights, version 1", (), "DescribeLogDirs", 1, {"topics": SIZED}),
    *steps(
        "ElectLeaders",
        "ALTER",
        ("known and unknown partitions", 2, {"topic_partitions": ELECTED, "timeout_ms": 10_000}),
        ("unclean", 2, {"election_type": 1, "topic_partitions": ELECTED, "timeout_ms": 10_000}),
        ("an unknown type", 2, {"election_type": 2, "topic_partitions": ELECTED, "timeout_ms": 10_000}),
        ("an unknown type for all", 2, {"election_type": -1, "topic_partitions": None, "timeout_ms": 10_000}),
        ("no topics", 1, {"topic_partitions": [], "timeout_ms": 10_000}),
        ("a topic twice", 1, {"topic_partitions": [ELECTED[0], ELECTED[0]], "timeout_ms": 10_000}),
        ("version 0", 0, {"topic_partitions": ELECTED, "timeout_ms": 10_000}),
    ),
    Step("ElectLeaders, no rights for all", (), "ElectLeaders", 2, {"topic_partitions": None, "timeout_ms": 10_000}),
    Step("ElectLeaders, no rights, version 0", (), "ElectLeaders", 0, {"topic_partitions": ELECTED}),
    *steps(
        "ListPartitionReassignments",
        "DESCRIBE",
        ("known and unknown partitions", 0, {"timeout_ms": 10_000, "topics": MOVED}),
        ("all", 0, {"timeout_ms": 10_000, "topics": None}),
        ("no topics", 0, {"timeout_ms": 10_000, "topics": []}),
    ),
    *steps(
        "ListConfigResources",
        "DESCRIBE_CONFIGS",
        ("brokers, groups and metrics", 1, {"resource_types": [BROKER, GROUP, CLIENT_METRICS]}),
        ("a type twice", 1, {"resource_types": [BROKER, BROKER]}),
        ("an unknown type", 1, {"resource_types": [BROKER, 1]}),
        ("version 0", 0, {}),
    ),
    Step("ListConfigResources, no rights, version 0", (), "ListConfigResources", 0, {}),
)
