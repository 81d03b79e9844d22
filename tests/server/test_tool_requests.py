"""What Kafka's tools ask for beside groups and topics: sizes of partitions, elections, what has settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import rota
from harness.raw import ClosedError, Connection
from rota import codec
from rota.codec import Fields
from tests.acls.asking import APIS
from tests.clients.eventually import eventually

WITHIN_S = 60
SETTINGS: dict[str, str | int | bool] = {"offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 4_096}
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOT_NEEDED, UNKNOWN = 84, 3


def ask(server: rota.Server, name: str, version: int, fields: Fields, node: int = 1) -> Fields:
    host, port = server.nodes()[node].rsplit(":", 1)
    with Connection((host, int(port)), timeout=WITHIN_S) as connection:
        request = codec.write_request(APIS[name], version, 1, "test", fields)
        connection.send(len(request).to_bytes(4, "big") + request)
        return codec.read_answer(APIS[name], version, connection.receive())[1]


def directory(server: rota.Server, topics: list[Fields] | None = None, node: int = 1) -> Fields:
    """The only directory of a node."""
    answer = ask(server, "DescribeLogDirs", 5, {"topics": topics}, node)
    assert answer["error_code"] == 0
    [found] = answer["results"]
    return dict(found)


def sizes(server: rota.Server, topics: list[Fields] | None = None, node: int = 1) -> dict[tuple[str, int], int]:
    return {
        (topic["name"], partition["partition_index"]): partition["partition_size"]
        for topic in directory(server, topics, node)["topics"]
        for partition in topic["partitions"]
    }


def produce(server: rota.Server, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "batch.num.messages": 1})
    for _ in range(count):
        producer.produce("t", value="x" * 500, partition=partition)
        assert producer.flush(WITHIN_S) == 0


def commit(server: rota.Server) -> None:
    partitions = [{"partition_index": 0, "offset": 1, "metadata": ""}]
    fields = {"group_id": "g", "generation": -1, "member_id": "", "topics": [{"name": "t", "partitions": partitions}]}

    def is_committed() -> bool:
        answer = ask(server, "OffsetCommit", 8, fields)
        return not answer["topics"][0]["partitions"][0]["error_code"]

    eventually(is_committed, WITHIN_S, "the group is loaded")


def test_sizes_in_a_data_directory_are_those_of_the_segments(tmp_path: Path) -> None:
    data = tmp_path / "data"

    def on_disk() -> dict[tuple[str, int], int]:
        names = ("t-0", "t-1", "__consumer_offsets-0")
        files = {name: (data / name).glob("*.log") for name in names}
        return {(name[:-2], int(name[-1])): sum(at.stat().st_size for at in files[name]) for name in names}

    with rota.Server(data=data, settings=SETTINGS) as server:
        server.create_topic("t", 2)
        produce(server, 0, 20)
        commit(server)
        found = sizes(server)
        assert found[("t", 0)] > 20 * 500
        assert found[("t", 1)] == 0
        assert found[("__consumer_offsets", 0)] > 0
        assert directory(server)["log_dir"] == str(data)
    assert found == on_disk()
    assert len(list((data / "t-0").glob("*.log"))) > 1, "several segments are counted"
    with rota.Server(data=data, settings=SETTINGS) as server:
        assert sizes(server) == found


def test_sizes_in_memory_are_the_bytes_of_batches() -> None:
    with rota.Server(settings=SETTINGS) as server:
        server.create_topic("t", 2)
        produce(server, 1, 1)
        one = sizes(server)[("t", 1)]
        assert 500 < one < 700
        produce(server, 1, 3)
        commit(server)
        found = sizes(server)
        assert (found[("t", 0)], found[("t", 1)]) == (0, 4 * one)
        assert found[("__consumer_offsets", 0)] > 0
        assert directory(server)["log_dir"] == "memory"


def test_only_partitions_that_are_asked_for_and_exist_are_answered() -> None:
    with rota.Server(settings=SETTINGS) as server:
        server.create_topic("t", 2)
        asked = [{"topic": "t", "partitions": [1, 1, 2, -1]}, {"topic": "missing", "partitions": [0]}]
        assert list(sizes(server, asked)) == [("t", 1)]
        assert sizes(server, []) == {}


def test_each_node_answers_for_what_it_leads() -> None:
    with rota.Server(settings=SETTINGS | {"offsets.topic.num.partitions": 2}, nodes=2) as server:
        server.create_topic("t", 2)
        first, second = (set(sizes(server, node=node)) for node in (1, 2))
        every = {(name, index) for name in ("t", "__consumer_offsets") for index in (0, 1)}
        assert (first | second, first & second) == (every, set())
        assert {name for name, _ in first} == {name for name, _ in second} == {"t", "__consumer_offsets"}
        listed = ask(server, "ListConfigResources", 1, {"resource_types": [BROKER]}, node=2)
        assert [each["resource_name"] for each in listed["config_resources"]] == ["1", "2"]


def test_a_server_of_a_cluster_answers_for_what_it_leads_and_not_for_the_records_in_the_engine() -> None:
    engine = rota.MemoryEngine()
    options: dict[str, Any] = {"engine": engine, "settings": SETTINGS, "ttl_ms": 20_000}
    with rota.Server(node_id=1, **options) as one, rota.Server(node_id=2, **options) as other:
        new = {"replication_factor": 1, "assignments": [], "configs": []}
        create = {"topics": [{"name": "t", "num_partitions": 4, **new}], "timeout_ms": 10_000}

        def created() -> bool:
            answer = ask(one, "CreateTopics", 7, create)
            return answer["topics"][0]["error_code"] in (0, 36)

        eventually(created, WITHIN_S, "the topic is there")
        every = {("t", index) for index in range(4)}
        eventually(lambda: set(sizes(one)) | set(sizes(other, node=2)) == every, WITHIN_S, "both know their partitions")
        assert not set(sizes(one)) & set(sizes(other, node=2))
        for server, node in ((one, 1), (other, 2)):
            elected = {"topic_partitions": [{"topic": "t", "partitions": [0, 1, 4]}], "timeout_ms": 10_000}
            [topic] = ask(server, "ElectLeaders", 2, elected, node)["replica_election_results"]
            assert [each["error_code"] for each in topic["partition_result"]] == [NOT_NEEDED, NOT_NEEDED, UNKNOWN]


@pytest.fixture(scope="module")
def running() -> Any:
    with rota.Server(settings=SETTINGS) as server:
        server.create_topic("t", 2)
        yield server
        assert server.panics == 0


def test_an_election_of_all_partitions_names_topics_and_changes_nothing(running: rota.Server) -> None:
    answer = ask(running, "ElectLeaders", 2, {"topic_partitions": None, "timeout_ms": 10_000})
    empty: list[Fields] = [{"topic": name, "partition_result": []} for name in ("__consumer_offsets", "t")]
    assert (answer["error_code"], answer["replica_election_results"]) == (0, empty)


def test_a_name_that_no_topic_can_have_is_not_in_the_messages(running: rota.Server) -> None:
    names = ("missing", "x" * 32_000)
    asked: list[Fields] = [{"topic": name, "partitions": [0, 1]} for name in names]
    asked.append({"topic": "t", "partitions": [0, 2]})
    answer = ask(running, "ElectLeaders", 2, {"topic_partitions": asked, "timeout_ms": 10_000})
    results = [each["partition_result"] for each in answer["replica_election_results"]]
    errors = [[(each["error_code"], each["error_message"]) for each in result] for result in results]
    not_needed = (NOT_NEEDED, "Leader election not needed for topic partition.")
    assert errors == [
        [(UNKNOWN, "No such topic as missing")] * 2,
        [(UNKNOWN, "No such topic")] * 2,
        [not_needed, (UNKNOWN, "No such partition as t-2")],
    ]


def test_more_partitions_than_there_can_be_close_the_connection(running: rota.Server) -> None:
    asked = {"topic_partitions": [{"topic": "t", "partitions": [0] * 100_001}], "timeout_ms": 10_000}
    with pytest.raises(ClosedError):
        ask(running, "ElectLeaders", 2, asked)


def test_what_has_settings_is_listed_by_type(running: rota.Server) -> None:
    change = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}
    altered = {"resources": [{"resource_type": GROUP, "resource_name": "own", "configs": [change]}]}
    ask(running, "IncrementalAlterConfigs", 1, altered | {"validate_only": False})

    def listed(*types: int) -> list[tuple[int, str]]:
        answer = ask(running, "ListConfigResources", 1, {"resource_types": list(types)})
        assert answer["error_code"] == 0
        return [(each["resource_type"], each["resource_name"]) for each in answer["config_resources"]]

    topics, brokers, groups = [(TOPIC, "__consumer_offsets"), (TOPIC, "t")], [(BROKER, "1")], [(GROUP, "own")]
    assert listed() == topics + brokers + groups
    assert listed(GROUP, TOPIC) == topics + groups
    assert listed(BROKER_LOGGER, CLIENT_METRICS) == []
    described = ask(
        running,
        "DescribeConfigs",
        4,
        {"resources": [{"resource_type": t, "resource_name": name} for t, name in listed()]},
    )
    assert {result["error_code"] for result in described["results"]} == {0}, "all that is listed can be described"
