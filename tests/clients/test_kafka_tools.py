"""Kafka's own command-line tools find in a rota server what they expect of a broker.

ROTA_TEST_BROKER=HOST:PORT asks that broker instead: a fresh one whose new topics have one partition, such as Apache
Kafka's, for what is expected here is what it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import rota
from harness import kafka_tools
from harness.brokers import KAFKA
from harness.builds import ROOT

from .eventually import eventually

NAMES = {
    "configs": "kafka.admin.ConfigCommand",
    "groups": "consumer.group.ConsumerGroupCommand",
    "topics": "TopicCommand",
    "transactions": "TransactionsCommand",
    "console-producer": "ConsoleProducer",
    "console-consumer": "consumer.ConsoleConsumer",
    "verifiable-consumer": "VerifiableConsumer",
    "verifiable-producer": "VerifiableProducer",
    "all-groups": "GroupsCommand",
    "api-versions": "BrokerApiVersionsCommand",
    "client-metrics": "ClientMetricsCommand",
    "cluster": "ClusterTool",
    "consumer-perf": "ConsumerPerformance",
    "delegation-tokens": "DelegationTokenCommand",
    "delete-records": "DeleteRecordsCommand",
    "e2e-latency": "EndToEndLatency",
    "features": "FeatureCommand",
    "get-offsets": "GetOffsetShell",
    "leader-election": "LeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "metadata-quorum": "MetadataQuorumCommand",
    "producer-perf": "ProducerPerformance",
    "reassign-partitions": "reassign.ReassignPartitionsCommand",
    "share-groups": "consumer.group.ShareGroupCommand",
    "streams-groups": "streams.StreamsGroupCommand",
    "streams-reset": "StreamsResetter",
}
TOOLS = {name: of if of.startswith("kafka.") else f"org.apache.kafka.tools.{of}" for name, of in NAMES.items()}
ENDS_ONCE = (
    "console-producer",
    "console-consumer",
    "consumer-perf",
    "producer-perf",
    "verifiable-consumer",
    "verifiable-producer",
)
"""These count in static fields, or end with a signal: each is a process of its own."""
SUBCOMMANDS = ("cluster",)
"""The address follows their first word."""
WITHIN_S = 100
MESSAGES, COMMITTED = 10, 4

SCRIPTS = """
    acls broker-api-versions client-metrics cluster configs console-consumer console-producer console-share-consumer
    consumer-groups consumer-perf-test delegation-tokens delete-records e2e-latency features get-offsets groups
    leader-election log-dirs metadata-quorum producer-perf-test reassign-partitions replica-verification
    share-consumer-perf-test share-groups streams-application-reset streams-groups topics transactions
    verifiable-consumer verifiable-producer verifiable-share-consumer
"""
"""The tools in `bin` of Apache Kafka 4.4 that speak to a broker: `kafka-NAME.sh`."""

ALTER = "--alter --entity-type"

of_rota = pytest.mark.skipif(bool(os.environ.get("ROTA_TEST_BROKER")), reason="Kafka can do this")

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.xdist_group("kafka-tools"),
]


class Tools:
    """The tools, pointed at a server."""

    def __init__(self, server: str) -> None:
        self.server = server

    def __call__(self, name: str, *options: str, given: str = "") -> str:
        done = self._run(name, *options, given=given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def complaint(self, name: str, *options: str) -> str:
        """What a tool says that cannot do what it was asked; some exit with 0 even so."""
        done = self._run(name, *options)
        return done.stdout + done.stderr

    def _run(self, name: str, *options: str, given: str = "") -> subprocess.CompletedProcess[str]:
        first, rest = (options[:1], options[1:]) if name in SUBCOMMANDS else ((), options)
        words = [TOOLS[name], *first, "--bootstrap-server", self.server, *rest]
        if name not in ENDS_ONCE:
            return kafka_tools.run(*words, given=given, within_s=WITHIN_S)
        command = [sys.executable, str(KAFKA), "tool", *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """What `--describe` says of a group: (topic, partition) -> current offset."""
        told = self("groups", "--describe", "--group", group)
        rows = re.findall(rf"^{re.escape(group)} +(\S+) +(\d+) +(\d+) ", told, re.M)
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}

    def exported(self, *options: str) -> dict[tuple[str, int], int]:
        """The plan of a reset, as CSV: (topic, partition) -> new offset."""
        told = self("groups", "--reset-offsets", "--group", "readers", "--export", *options)
        rows = re.findall(r'^"?(?!readers)(\w+)"?,(\d+),(\d+)$', told, re.M)
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    with contextlib.ExitStack() as stack:
        address = os.environ.get("ROTA_TEST_BROKER")
        if not address:
            server = rota.Server(settings={"group.initial.rebalance.delay.ms": 0, "num.partitions": 1})
            address = stack.enter_context(server).bootstrap_servers
        producer = Producer({"bootstrap.servers": address})
        for topic in ("news", "mail"):
            for number in range(MESSAGES):
                producer.produce(topic, f"message {number}")
        assert producer.flush(30) == 0
        tools = Tools(address)
        for topic in ("news", "mail"):
            start = ["--to-offset", str(COMMITTED), "--topic", topic, "--execute"]
            tools("groups", "--reset-offsets", "--group", "readers", *start)
        yield tools


def test_topics_are_created_listed_described_grown_and_deleted(tools: Tools) -> None:
    tools("topics", "--create", "--topic", "made", "--partitions", "3")
    assert "made" in tools("topics", "--list").splitlines()
    assert "PartitionCount: 3" in tools("topics", "--describe", "--topic", "made")
    tools("topics", "--alter", "--topic", "made", "--partitions", "5")
    assert tools("topics", "--describe", "--topic", "made").count("Leader: ") == 5
    assert "already exists" in tools.complaint("topics", "--create", "--topic", "made")
    tools("topics", "--delete", "--topic", "made")
    assert "made" not in tools("topics", "--list").splitlines()


def test_the_console_consumer_reads_what_the_console_producer_wrote_and_commits(tools: Tools) -> None:
    tools("console-producer", "--topic", "lines", given="one\ntwo\nthree\n")
    options = ["--topic", "lines", "--group", "console", "--from-beginning", "--max-messages", "3"]
    told = tools("console-consumer", *options, "--timeout-ms", "60000")
    assert told.splitlines()[:3] == ["one", "two", "three"]
    assert tools.committed("console") == {("lines", 0): 3}


def test_groups_are_listed_with_their_states_and_types(tools: Tools) -> None:
    assert "readers" in tools("groups", "--list").splitlines()
    assert re.search(r"^readers +Empty", tools("groups", "--list", "--state"), re.M)
    assert re.search(r"^readers +Classic", tools("groups", "--list", "--type"), re.M)
    assert "readers" not in tools("groups", "--list", "--state", "Stable")


def test_a_group_is_described(tools: Tools) -> None:
    assert tools.committed("readers") == {("news", 0): COMMITTED, ("mail", 0): COMMITTED}
    assert re.search(r"^readers .* Empty +0", tools("groups", "--describe", "--group", "readers", "--state"), re.M)
    assert "has no active members" in tools("groups", "--describe", "--group", "readers", "--members", "--verbose")
    assert "GroupIdNotFound" in tools.complaint("groups", "--describe", "--group", "nobody")


@pytest.mark.parametrize(
    ("option", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], MESSAGES),
        (["--to-current"], COMMITTED),
        (["--to-offset", "7"], 7),
        (["--to-offset", "1000"], MESSAGES),
        (["--shift-by", "-3"], COMMITTED - 3),
        (["--shift-by", "2"], COMMITTED + 2),
        (["--by-duration", "P1D"], 0),
        (["--to-datetime", "2000-01-01T00:00:00.000"], 0),
        (["--to-datetime", "2999-01-01T00:00:00.000"], MESSAGES),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_every_way_to_reset_offsets_plans_what_kafka_would(tools: Tools, option: list[str], offset: int) -> None:
    planned = tools.exported("--all-topics", "--dry-run", *option)
    assert planned == {("news", 0): offset, ("mail", 0): offset}


def test_offsets_are_reset_from_a_file_and_of_one_partition(tools: Tools, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("news,0,6\n")
    tools("groups", "--reset-offsets", "--group", "filed", "--from-file", str(plan), "--execute")
    assert tools.committed("filed") == {("news", 0): 6}
    tools("groups", "--reset-offsets", "--group", "filed", "--topic", "news:0", "--to-earliest", "--execute")
    assert tools.committed("filed") == {("news", 0): 0}


def test_offsets_and_groups_are_deleted(tools: Tools) -> None:
    for topic in ("news", "mail"):
        tools("groups", "--reset-offsets", "--group", "old", "--topic", topic, "--to-latest", "--execute")
    tools("groups", "--delete-offsets", "--group", "old", "--topic", "news")
    assert tools.committed("old") == {("mail", 0): MESSAGES}
    tools("groups", "--delete", "--group", "old")
    assert "old" not in tools("groups", "--list").splitlines()


def test_the_verifiable_consumer_consumes_and_commits_what_the_verifiable_producer_acknowledged(tools: Tools) -> None:
    produced = tools("verifiable-producer", "--topic", "checked", "--max-messages", "20", "--throughput", "1000")
    assert '"acked":20' in produced
    options = ["--topic", "checked", "--group-id", "verifiers", "--max-messages", "20", "--reset-policy", "earliest"]
    lines = tools("verifiable-consumer", *options).splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    names = [event["name"] for event in events]
    assert names[0] == "startup_complete"
    assert "partitions_assigned" in names
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 20
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
    assert "shutdown_complete" in names
    assert tools.committed("verifiers") == {("checked", 0): 20}


def test_a_group_with_members_is_neither_reset_nor_deleted(tools: Tools) -> None:
    consumer = [sys.executable, str(KAFKA), "tool", TOOLS["verifiable-consumer"], "--bootstrap-server", tools.server]
    with subprocess.Popen(
        [*consumer, "--topic", "news", "--group-id", "busy", "--verbose"], stdout=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdout is not None
        try:
            assert any('"partitions_assigned"' in line for line in busy.stdout)
            told = tools("groups", "--describe", "--group", "busy", "--members", "--verbose")
            assert re.search(r"^busy .* 1 +news\(0\)|^busy .* 1 .*news:0", told, re.M), told
            reset = ["--reset-offsets", "--group", "busy", "--topic", "news", "--to-earliest", "--execute"]
            assert "current state is Stable" in tools.complaint("groups", *reset)
            deleted = tools.complaint("groups", "--delete", "--group", "busy")
            assert "NonEmptyGroup" in deleted or "not empty" in deleted
        finally:
            busy.terminate()


def test_the_settings_of_a_group_are_changed_described_and_removed(tools: Tools) -> None:
    group = ["--entity-type", "groups", "--entity-name", "readers"]
    name = "consumer.session.timeout.ms"
    tools("configs", "--alter", *group, "--add-config", f"{name}=50000")
    assert f"{name}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:" in tools("configs", "--describe", *group)
    complaint = tools.complaint("configs", "--alter", *group, "--add-config", f"{name}=1")
    assert "InvalidConfigurationException" in complaint, complaint
    tools("configs", "--alter", *group, "--delete-config", name)
    assert name not in tools("configs", "--describe", *group)


def test_a_group_of_the_newer_protocol_is_listed_and_described(tools: Tools) -> None:
    config = {"bootstrap.servers": tools.server, "group.id": "newer", "group.protocol": "consumer"}
    member = Consumer(config)
    member.subscribe(["news"])

    def has_its_partition() -> bool:
        member.poll(0.05)
        return bool(member.assignment())

    eventually(has_its_partition, WITHIN_S, "the member has its partition")
    try:
        assert re.search(r"^newer +Consumer", tools("groups", "--list", "--type"), re.M)
        assert re.search(
            r"^newer .* uniform +Stable +1", tools("groups", "--describe", "--group", "newer", "--state"), re.M
        )
        told = tools("groups", "--describe", "--group", "newer", "--members", "--verbose")
        assert re.search(r"^newer .* 1 +\d+ +news:0 ", told, re.M), told
    finally:
        member.close()


def test_an_open_transaction_is_listed_described_and_aborted(tools: Tools) -> None:
    tools("topics", "--create", "--topic", "payments", "--partitions", "1")
    producer = Producer({"bootstrap.servers": tools.server, "transactional.id": "pay"})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce("payments", value="v", partition=0)
    assert producer.flush(WITHIN_S) == 0
    assert re.search(r"pay\s+\d+\s+\d+\s+Ongoing", tools("transactions", "list"))
    assert "payments-0" in tools("transactions", "describe", "--transactional-id", "pay")
    of_partition = ["--topic", "payments", "--partition", "0"]
    shown = tools("transactions", "describe-producers", *of_partition).splitlines()
    (row,) = [line.split() for line in shown if re.match(r"\d+\s", line)]
    assert row[-1] == "0", "the transaction begins at the first offset"
    tools("transactions", "abort", *of_partition, "--start-offset", "0")
    shown = tools("transactions", "describe-producers", *of_partition).splitlines()
    (row,) = [line.split() for line in shown if re.match(r"\d+\s", line)]
    assert row[-1] == "None", row


def test_every_tool_that_speaks_to_a_broker_is_in_the_table() -> None:
    page = (ROOT / "docs/operating.md").read_text("utf-8").partition("## Kafka's tools")[2]
    assert re.findall(r"^\| `kafka-([a-z0-9-]+)\.sh` \|", page, re.M) == SCRIPTS.split()


def test_the_sizes_of_partitions_are_shown(tools: Tools) -> None:
    told = tools("log-dirs", "--describe", "--topic-list", "news,missing")
    [broker] = json.loads(next(line for line in told.splitlines() if line.startswith("{")))["brokers"]
    [directory] = broker["logDirs"]
    [partition] = directory["partitions"]
    assert (partition["partition"], partition["offsetLag"], directory["error"]) == ("news-0", 0, None)
    assert partition["size"] > MESSAGES * len("message 0")
    assert "do not exist" in tools.complaint("log-dirs", "--describe", "--broker-list", "7")


def test_no_partition_moves_and_no_leader_has_to_be_elected(tools: Tools, tmp_path: Path) -> None:
    assert "No partition reassignments found." in tools("reassign-partitions", "--list")
    election = ["--election-type", "preferred"]
    assert "Valid replica already elected for partitions news-0" in tools(
        "leader-election", *election, "--topic", "news", "--partition", "0"
    )
    assert "elected" not in tools("leader-election", *election, "--all-topic-partitions")
    unknown = tools.complaint("leader-election", *election, "--topic", "news", "--partition", "9")
    assert "UnknownTopicOrPartitionException: No such partition as news-9" in unknown
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "news", "partition": 0, "replicas": [1]}]}')
    options = ["--reassignment-json-file", str(plan), "--preserve-throttles"]
    assert "Reassignment of partition news-0 is completed." in tools("reassign-partitions", "--verify", *options)
    assert "None of the specified partition reassignments are active." in tools(
        "reassign-partitions", "--cancel", *options
    )
    topics = tmp_path / "topics.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "news"}]}')
    generated = tools(
        "reassign-partitions", "--generate", "--broker-list", "1", "--topics-to-move-json-file", str(topics)
    )
    assert '"topic":"news","partition":0,"replicas":[1]' in generated


def test_what_has_settings_is_described_without_names(tools: Tools) -> None:
    name = "consumer.session.timeout.ms"
    tools("configs", "--alter", "--entity-type", "groups", "--entity-name", "own", "--add-config", f"{name}=50000")
    described = tools("configs", "--describe", "--entity-type", "groups")
    assert "Dynamic configs for group own are:" in described
    assert f"{name}=50000" in described
    assert "Dynamic configs for topic news are:" in tools("configs", "--describe", "--entity-type", "topics")
    assert "Dynamic configs for broker 1 are:" in tools("configs", "--describe", "--entity-type", "brokers")
    assert tools("client-metrics", "--list").strip() == ""
    every = tools("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert f"  listeners=PLAINTEXT://{tools.server}" in every


def test_a_topic_gets_other_settings(tools: Tools) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "tuned")
    tools("topics", "--create", "--topic", "tuned", "--config", "max.message.bytes=2000")
    tools("configs", "--alter", *topic, "--add-config", "retention.ms=3600000,cleanup.policy=[compact,delete]")
    described = tools("configs", "--describe", *topic)
    for setting in ("cleanup.policy=compact,delete", "max.message.bytes=2000", "retention.ms=3600000"):
        assert f"  {setting} sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:{setting}" in described
    tools("configs", "--alter", *topic, "--delete-config", "max.message.bytes,retention.ms")
    described = tools("configs", "--describe", *topic)
    assert "cleanup.policy=compact,delete" in described
    assert "max.message.bytes" not in described
    assert "retention.ms" not in described
    for name, value in (("retention.ms", "soon"), ("cleanup.policy", "keep")):
        complaint = tools.complaint("configs", "--alter", *topic, "--add-config", f"{name}={value}")
        assert "InvalidConfigurationException" in complaint
        assert name in complaint
        assert value in complaint
    nowhere = ("--entity-type", "topics", "--entity-name", "nowhere")
    complaint = tools.complaint("configs", "--alter", *nowhere, "--add-config", "retention.ms=1")
    assert "UnknownTopicOrPartitionException" in complaint


def test_groups_of_every_protocol_are_listed(tools: Tools) -> None:
    assert re.search(r"^readers +Classic", tools("all-groups", "--list"), re.M)
    assert "readers" not in tools("share-groups", "--list") + tools("streams-groups", "--list")


def test_the_cluster_its_features_and_its_requests_are_described(tools: Tools) -> None:
    assert re.search(r"^Cluster ID: \S+$", tools("cluster", "cluster-id"), re.M)
    assert re.search(r"^1 +127\.0\.0\.1 +\d+ .* broker", tools("cluster", "list-endpoints"), re.M)
    assert "Feature: group.version" in tools("features", "describe")
    assert "ListConfigResources(74): 0 to 1" in tools("api-versions")


def test_offsets_are_shown_and_records_deleted(tools: Tools, tmp_path: Path) -> None:
    tools("console-producer", "--topic", "short", given="one\ntwo\nthree\n")
    assert "short:0:3" in tools("get-offsets", "--topic", "short").splitlines()
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"version": 1, "partitions": [{"topic": "short", "partition": 0, "offset": 2}]}')
    assert "partition: short-0\tlow_watermark: 2" in tools("delete-records", "--offset-json-file", str(offsets))
    assert "short:0:2" in tools("get-offsets", "--topic", "short", "--time", "earliest").splitlines()


def test_an_application_of_streams_is_reset(tools: Tools) -> None:
    told = tools("streams-reset", "--application-id", "app", "--input-topics", "news")
    assert "Topic: news Partition: 0 Offset: 0" in told
    assert tools.committed("app") == {("news", 0): 0}


def test_records_are_produced_and_consumed_for_measurements(tools: Tools) -> None:
    load = ["--topic", "load", "--num-records", "200"]
    transaction = ["--transactional-id", "load", "--transaction-duration-ms", "50"]
    produced = tools("producer-perf", *load, "--record-size", "100", "--throughput", "-1", *transaction)
    assert "200 records sent" in produced
    row = tools("consumer-perf", *load, "--timeout", "60000").splitlines()[1].split(", ")
    assert int(row[4]) >= 200
    latency = ["--topic", "load", "--num-records", "5", "--producer-acks", "all", "--record-size", "10"]
    assert "Avg latency" in tools("e2e-latency", *latency)


@of_rota
@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("client-metrics", "--alter --name x --interval 10000", "only settings of groups and topics can"),
        ("cluster", "unregister --id 1", "does not support the broker unregistration API"),
        ("configs", f"{ALTER} brokers --entity-name 1 --add-config log.retention.ms=1", "broker settings"),
        ("configs", f"{ALTER} clients --entity-name c --add-config request_percentage=1", "ALTER_CLIENT_QUOTAS"),
        ("delegation-tokens", f"--describe --command-config {os.devnull}", "DESCRIBE_DELEGATION_TOKEN"),
        ("features", "upgrade --feature group.version=1", "UPDATE_FEATURES"),
        ("metadata-quorum", "describe --status", "DESCRIBE_QUORUM"),
        ("share-groups", "--describe --group g", "SHARE_GROUP_DESCRIBE"),
        ("streams-groups", "--describe --group g", "STREAMS_GROUP_DESCRIBE"),
    ],
)
def test_what_is_not_served_is_refused_at_once(tools: Tools, name: str, options: str, says: str) -> None:
    assert says in tools.complaint(name, *options.split())


@of_rota
def test_a_partition_is_not_moved(tools: Tools, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "news", "partition": 0, "replicas": [1]}]}')
    refused = tools.complaint("reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
    assert "ALTER_PARTITION_REASSIGNMENTS" in refused
