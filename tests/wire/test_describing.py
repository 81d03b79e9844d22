"""DescribeConfigs, DescribeCluster and OffsetForLeaderEpoch, as Apache Kafka 4.4 answers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import rota
from harness.raw import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    Connection,
    compact,
    frame,
    i8,
    i32,
    string,
    varint,
)

Address = tuple[str, int]

NONE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST = 0, 3, 17, 42
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75
TOPIC, BROKER, GROUP = 2, 4, 32
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG, GROUP_CONFIG = 1, 4, 5, 8
INVALID_CONFIG = 40
OFFSETS = "__consumer_offsets"
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
INVALID = "Invalid value {} for configuration {}: {}"

SECRETS = {"ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.truststore.certificates"}


@pytest.fixture
def rota_server() -> Iterator[rota.Server]:
    settings: dict[str, str | int | bool] = {"group.initial.rebalance.delay.ms": 0, "log.retention.bytes": 1_000_000}
    with rota.Server(settings=settings) as server:
        yield server


@dataclass
class Row:
    value: str | None
    source: int
    kind: int
    synonyms: list[tuple[str | None, str | None, int]]
    documentation: str | None


Described = tuple[int, str | None, dict[str | None, Row]]


def describe(address: Address, kind: int, name: str, keys: list[str] | None = None, *, more: bool = True) -> Described:
    """One resource, by DescribeConfigs v4, with synonyms and documentation if `more`."""
    body = varint(2) + i8(kind) + compact(name) + (varint(0) if keys is None else varint(len(keys) + 1))
    body += b"".join(map(compact, keys or [])) + b"\0" + i8(more) + i8(more) + b"\0"
    with Connection(address) as connection:
        answer = connection.ask(frame(DESCRIBE_CONFIGS, 4, body))
    assert (answer.take(1), answer.i32(), answer.varint()) == (b"\0", 0, 2)
    error, message = answer.i16(), answer.compact()
    assert (answer.i8(), answer.compact()) == (kind, name)
    rows = {}
    for _ in range(answer.varint() - 1):
        key, value = answer.compact(), answer.compact()
        assert answer.i8() == (kind == BROKER or name == OFFSETS), "only these cannot be altered"
        source, sensitive, synonyms = answer.i8(), answer.i8(), []
        assert sensitive == (key in SECRETS)
        for _ in range(answer.varint() - 1):
            synonyms.append((answer.compact(), answer.compact(), answer.i8()))
            answer.take(1)
        rows[key] = Row(value, source, answer.i8(), synonyms, answer.compact())
        answer.take(1)
    assert answer.data == b"\0\0"
    return error, message, rows


def test_a_broker_shows_every_setting_that_it_was_started_with(rota_server: rota.Server, address: Address) -> None:
    error, message, rows = describe(address, BROKER, "1")
    assert (error, message) == (NONE, "")
    # Its addresses are shown though no setting has them.
    for name, value in rota_server.settings().items() - {("advertised.listeners", ""), ("listeners", "")}:
        # A text that is not set is null.
        assert rows[name].value == (value or None), name
    delay = rows["group.initial.rebalance.delay.ms"]
    assert (delay.value, delay.source, delay.kind) == ("0", STATIC_BROKER_CONFIG, 3)
    assert delay.synonyms == [
        ("group.initial.rebalance.delay.ms", "0", STATIC_BROKER_CONFIG),
        ("group.initial.rebalance.delay.ms", "3000", DEFAULT_CONFIG),
    ]
    assert delay.documentation == "how long a rebalance of an empty group waits for more members"
    size = rows["group.max.size"]
    assert (size.source, size.synonyms) == (DEFAULT_CONFIG, [("group.max.size", "2147483647", DEFAULT_CONFIG)])
    assert rows["auto.create.topics.enable"].kind == 1
    assert rows["log.retention.bytes"].kind == 5
    assert rows["node.id"].value == "1"
    for addresses in (rows["listeners"], rows["advertised.listeners"]):
        value = f"PLAINTEXT://{address[0]}:{address[1]}"
        assert (addresses.value, addresses.source, addresses.kind) == (value, STATIC_BROKER_CONFIG, 7)


def test_only_the_keys_that_were_asked_for_are_shown_and_no_more_than_was_asked_about_them(address: Address) -> None:
    _, _, rows = describe(address, BROKER, "1", ["group.max.size", "nonsense"], more=False)
    assert list(rows) == ["group.max.size"]
    assert (rows["group.max.size"].synonyms, rows["group.max.size"].documentation) == ([], None)
    assert len(describe(address, BROKER, "1", [])[2]) > 10


def test_a_topic_shows_kafkas_settings_over_the_brokers(rota_server: rota.Server, address: Address) -> None:
    rota_server.create_topic("orders")
    error, _, rows = describe(address, TOPIC, "orders")
    assert (error, len(rows)) == (NONE, 37)
    retention = rows["retention.bytes"]
    assert (retention.value, retention.source) == ("1000000", STATIC_BROKER_CONFIG)
    assert retention.synonyms == [("log.retention.bytes", "1000000", STATIC_BROKER_CONFIG)]
    policy = rows["cleanup.policy"]
    assert (policy.value, policy.source, policy.kind) == ("delete", DEFAULT_CONFIG, 7)
    assert describe(address, TOPIC, "__consumer_offsets", ["cleanup.policy"])[2]["cleanup.policy"].value == "compact"


@pytest.mark.parametrize(
    ("kind", "name", "error", "says"),
    [
        (TOPIC, "nowhere", UNKNOWN_TOPIC_OR_PARTITION, "no topic `nowhere`"),
        (TOPIC, "no where", INVALID_TOPIC_EXCEPTION, "a topic name consists of"),
        (TOPIC, "", INVALID_TOPIC_EXCEPTION, "empty"),
        (BROKER, "99", INVALID_REQUEST, "this is broker 1, not 99"),
        (BROKER, "one", INVALID_REQUEST, "`one` is not a number"),
        (GROUP, "", INVALID_REQUEST, "group id is empty"),
        (8, "1", INVALID_REQUEST, "resources of type 8"),
        (99, "x", INVALID_REQUEST, "resources of type 99"),
    ],
)
def test_what_has_no_settings_is_an_error_that_says_why(
    address: Address, kind: int, name: str, error: int, says: str
) -> None:
    code, message, rows = describe(address, kind, name)
    assert (code, rows) == (error, {})
    assert says in (message or "")


SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def alter(
    address: Address, kind: int, name: str, *changes: Change, times: int = 1, only_validate: bool = False
) -> list[tuple[int, str | None]]:
    """Error and message of each resource, by IncrementalAlterConfigs v1; the resource comes `times` times."""
    resource = i8(kind) + compact(name) + varint(len(changes) + 1)
    for key, operation, value in changes:
        resource += compact(key) + i8(operation) + (varint(0) if value is None else compact(value)) + b"\0"
    body = varint(times + 1) + times * (resource + b"\0") + i8(only_validate) + b"\0"
    with Connection(address) as connection:
        answer = connection.ask(frame(INCREMENTAL_ALTER_CONFIGS, 1, body))
    assert (answer.take(1), answer.i32(), answer.varint()) == (b"\0", 0, times + 1)
    told = []
    for _ in range(times):
        told.append((answer.i16(), answer.compact()))
        assert (answer.i8(), answer.compact(), answer.take(1)) == (kind, name, b"\0")
    assert answer.data == b"\0"
    return told


def test_a_groups_own_settings_come_before_the_brokers(address: Address) -> None:
    error, message, rows = describe(address, GROUP, "g")
    assert (error, message, list(rows)) == (NONE, "", [INTERVAL, HEARTBEAT, SESSION])
    of_broker = ("group.consumer.session.timeout.ms", "45000", DEFAULT_CONFIG)
    assert (rows[SESSION].value, rows[SESSION].source, rows[SESSION].synonyms) == ("45000", DEFAULT_CONFIG, [of_broker])
    assert alter(address, GROUP, "g", (SESSION, SET, "50000"), (INTERVAL, SET, "0")) == [(NONE, None)]
    rows = describe(address, GROUP, "g")[2]
    assert (rows[SESSION].value, rows[SESSION].source) == ("50000", GROUP_CONFIG)
    assert rows[SESSION].synonyms == [(SESSION, "50000", GROUP_CONFIG), of_broker]
    assert (rows[INTERVAL].value, rows[HEARTBEAT].value) == ("0", "5000")
    assert describe(address, GROUP, "other")[2][SESSION].value == "45000"
    assert alter(address, GROUP, "g", (SESSION, DELETE, None), ("consumer.nope", DELETE, None)) == [(NONE, None)]
    assert describe(address, GROUP, "g")[2][SESSION].value == "45000"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ((SESSION, SET, "44999"), INVALID_CONFIG, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ((HEARTBEAT, SET, "15001"), INVALID_CONFIG, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        ((INTERVAL, SET, "15001"), INVALID_CONFIG, f"{INTERVAL} must be in the range 0 to 15000 inclusive."),
        ((INTERVAL, SET, "-1"), INVALID_CONFIG, INVALID.format("-1", INTERVAL, "Value must be at least 0")),
        ((SESSION, SET, "abc"), INVALID_CONFIG, INVALID.format("abc", SESSION, "Not a number of type INT")),
        ((SESSION, SET, ""), INVALID_CONFIG, INVALID.format("", SESSION, "Not a number of type INT")),
        (("consumer.nope", SET, "1"), INVALID_CONFIG, "Unknown group config name: consumer.nope"),
        ((SESSION, APPEND, "46000"), INVALID_CONFIG, f"Can't APPEND to key {SESSION} because its type is not LIST."),
    ],
)
def test_a_group_setting_is_refused_as_by_kafka_and_nothing_is_changed(
    address: Address, change: Change, error: int, message: str
) -> None:
    good: Change = (SESSION, SET, "50000") if change[0] != SESSION else (HEARTBEAT, SET, "6000")
    assert alter(address, GROUP, "g", good, change) == [(error, message)]
    assert all(row.source != GROUP_CONFIG for row in describe(address, GROUP, "g")[2].values())


def test_an_alteration_of_anything_but_one_group_is_refused(address: Address) -> None:
    assert alter(address, GROUP, "", (SESSION, SET, "50000")) == [
        (INVALID_REQUEST, "Default group resources are not allowed.")
    ]
    assert (
        alter(address, GROUP, "g", (SESSION, SET, "50000"), times=2)
        == [(INVALID_REQUEST, "Each resource must appear at most once.")] * 2
    )
    assert alter(address, GROUP, "g", (SESSION, SET, "50000"), (SESSION, SET, "51000")) == [
        (INVALID_REQUEST, "Error due to duplicate config keys")
    ]
    fixed = "broker settings cannot be changed while the server runs; only settings of groups and topics can"
    assert alter(address, BROKER, "1", ("log.retention.ms", SET, "1")) == [(INVALID_REQUEST, fixed)]
    assert alter(address, GROUP, "g", (SESSION, SET, "50000"), only_validate=True) == [(NONE, None)]
    assert describe(address, GROUP, "g")[2][SESSION].source == DEFAULT_CONFIG


RETENTION, POLICY = "retention.ms", "cleanup.policy"
THROTTLED = "leader.replication.throttled.replicas"


def test_a_topics_own_settings_come_and_go(rota_server: rota.Server, address: Address) -> None:
    rota_server.create_topic("orders")

    def own() -> dict[str | None, str | None]:
        rows = describe(address, TOPIC, "orders")[2]
        return {name: row.value for name, row in rows.items() if row.source == DYNAMIC_TOPIC_CONFIG}

    assert alter(address, TOPIC, "orders", (RETENTION, SET, "1000"), (POLICY, APPEND, "compact")) == [(NONE, None)]
    assert own() == {RETENTION: "1000", POLICY: "delete,compact"}
    assert alter(address, TOPIC, "orders", (POLICY, SUBTRACT, "delete"), (RETENTION, SET, "-1")) == [(NONE, None)]
    assert own() == {RETENTION: "-1", POLICY: "compact"}
    assert alter(address, TOPIC, "orders", (POLICY, DELETE, None), only_validate=True) == [(NONE, None)]
    assert own() == {RETENTION: "-1", POLICY: "compact"}
    assert alter(address, TOPIC, "orders", (POLICY, DELETE, None), ("no.such", DELETE, None)) == [(NONE, None)]
    assert own() == {RETENTION: "-1"}
    # An element that is there already is not added, one that is not there not removed.
    assert alter(address, TOPIC, "orders", (POLICY, APPEND, "delete,delete")) == [(NONE, None)]
    assert alter(address, TOPIC, "orders", (POLICY, SUBTRACT, "compact")) == [(NONE, None)]
    assert own() == {RETENTION: "-1", POLICY: "delete"}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (
            (RETENTION, SET, "soon"),
            INVALID_CONFIG,
            "topic setting `retention.ms` is `soon`, expected a number of milli",
        ),
        (
            (POLICY, SET, "keep"),
            INVALID_CONFIG,
            "topic setting `cleanup.policy` is `keep`, expected `compact`, `delete`",
        ),
        ((POLICY, APPEND, "keep"), INVALID_CONFIG, "topic setting `cleanup.policy` is `delete,keep`"),
        (("no.such", SET, "1"), INVALID_CONFIG, "unknown topic setting `no.such`"),
        ((RETENTION, APPEND, "1"), INVALID_CONFIG, "Can't APPEND to key retention.ms because its type is not LIST."),
        (("no.such", SUBTRACT, "1"), INVALID_CONFIG, "Can't SUBTRACT to key no.such because its type is not LIST."),
        ((RETENTION, SET, None), INVALID_REQUEST, "Null value not supported for : retention.ms"),
        ((RETENTION, 4, "1"), INVALID_REQUEST, "operation 4 of retention.ms is unknown"),
        (("max.message.bytes", SET, "1"), INVALID_REQUEST, "Error due to duplicate config keys"),
    ],
)
def test_a_topics_setting_is_refused_and_nothing_is_changed(
    rota_server: rota.Server, address: Address, change: Change, error: int, says: str
) -> None:
    rota_server.create_topic("orders")
    ((code, message),) = alter(address, TOPIC, "orders", ("max.message.bytes", SET, "1000"), change)
    assert (code, says in (message or "")) == (error, True), message
    assert all(row.source != DYNAMIC_TOPIC_CONFIG for row in describe(address, TOPIC, "orders")[2].values())


def test_a_list_does_not_grow_without_end(rota_server: rota.Server, address: Address) -> None:
    rota_server.create_topic("orders")
    assert alter(address, TOPIC, "orders", (THROTTLED, APPEND, 20_000 * "a")) == [(NONE, None)]
    too_long = f"topic setting `{THROTTLED}` has more than 32767 bytes"
    assert alter(address, TOPIC, "orders", (THROTTLED, APPEND, 20_000 * "b")) == [(INVALID_CONFIG, too_long)]
    assert alter(address, TOPIC, "orders", (THROTTLED, SUBTRACT, 20_000 * "a")) == [(NONE, None)]
    assert describe(address, TOPIC, "orders", [THROTTLED])[2][THROTTLED].value == ""


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("nowhere", UNKNOWN_TOPIC_OR_PARTITION, "there is no topic `nowhere`"),
        ("no where", INVALID_TOPIC_EXCEPTION, "a topic name consists of"),
        ("", INVALID_REQUEST, "Default topic resources are not allowed."),
        (OFFSETS, INVALID_TOPIC_EXCEPTION, "belongs to the group coordinator"),
    ],
)
def test_what_is_no_topic_of_users_has_no_settings_to_change(
    address: Address, name: str, error: int, says: str
) -> None:
    ((code, message),) = alter(address, TOPIC, name, (RETENTION, SET, "1"))
    assert (code, says in (message or "")) == (error, True), message


def test_a_session_outlasts_a_heartbeat_interval() -> None:
    settings: dict[str, str | int | bool] = {
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.min.heartbeat.interval.ms": 1_000,
    }
    with rota.Server(settings=settings) as server:
        address = (server.host, server.port)
        refused = [(INVALID_CONFIG, f"{SESSION} must be greater than {HEARTBEAT}")]
        assert alter(address, GROUP, "g", (SESSION, SET, "5000")) == refused
        assert alter(address, GROUP, "g", (SESSION, SET, "5000"), (HEARTBEAT, SET, "4999")) == [(NONE, None)]
        assert alter(address, GROUP, "g", (HEARTBEAT, SET, "5000")) == refused


def test_all_brokers_together_have_no_settings_of_their_own(address: Address) -> None:
    assert describe(address, BROKER, "") == (NONE, "", {})


def test_more_resources_than_the_limit_close_the_connection(address: Address) -> None:
    def request(count: int) -> bytes:
        return frame(DESCRIBE_CONFIGS, 1, i32(count) + (i8(GROUP) + string("g") + i32(-1)) * count + b"\0")

    with Connection(address) as connection:
        answer = connection.ask(request(5_000))
        assert (answer.i32(), answer.i32()) == (0, 5_000)
        connection.send(request(5_001))
        assert connection.ends()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_the_one_of_metadata(address: Address, version: int) -> None:
    with Connection(address) as connection:
        metadata = connection.ask(frame(METADATA, 7, i32(0) + b"\0"))
        metadata.i32()
        assert metadata.i32() == 1
        node, host, port = metadata.i32(), metadata.string() or "", metadata.i32()
        assert metadata.string() is None
        cluster_id, controller = metadata.string(), metadata.i32()
        answer = connection.ask(
            frame(DESCRIBE_CLUSTER, version, b"\1" + b"\1" * (version >= 1) + b"\0" * (version >= 2) + b"\0")
        )
    broker = i32(node) + compact(host) + i32(port) + compact(None) + b"\0" * (version >= 2) + b"\0"
    expected = b"\0" + i32(0) + b"\0\0" + compact(None) + b"\1" * (version >= 1) + compact(cluster_id)
    assert answer.data == expected + i32(controller) + varint(2) + broker + i32(8_096) + b"\0"


@pytest.mark.parametrize(("endpoint", "error"), [(2, 114), (9, 115)])
def test_only_brokers_are_in_the_cluster(address: Address, endpoint: int, error: int) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(DESCRIBE_CLUSTER, 1, b"\0" + i8(endpoint) + b"\0"))
    answer.take(1), answer.i32()
    assert answer.i16() == error
    assert "broker" in (answer.compact() or "")


def epoch_end(address: Address, partition: int, current: int, epoch: int) -> tuple[int, int, int, int]:
    """(error, partition, epoch, end) of one partition of `orders`, by version 2."""
    with Connection(address) as connection:
        body = i32(1) + string("orders") + i32(1) + i32(partition) + i32(current) + i32(epoch)
        answer = connection.ask(frame(OFFSET_FOR_LEADER_EPOCH, 2, body))
    assert (answer.i32(), answer.i32(), answer.string(), answer.i32()) == (0, 1, "orders", 1)
    ended = answer.i16(), answer.i32(), answer.i32(), answer.i64()
    assert answer.data == b""
    return ended


@pytest.mark.parametrize(
    ("partition", "current", "epoch", "expected"),
    [
        (0, -1, 0, (NONE, 0, 0, 0)),
        (0, 0, 0, (NONE, 0, 0, 0)),
        (0, 0, 1, (NONE, 0, -1, -1)),
        (0, 0, -1, (NONE, 0, -1, -1)),
        (0, -1, -5, (NONE, 0, -5, 0)),
        (0, 1, 0, (UNKNOWN_LEADER_EPOCH, 0, -1, -1)),
        (0, -2, 0, (FENCED_LEADER_EPOCH, 0, -1, -1)),
        (9, 0, 0, (UNKNOWN_TOPIC_OR_PARTITION, 9, -1, -1)),
        (-1, 0, 0, (UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)),
    ],
)
def test_a_leader_epoch_ends_where_kafka_says(
    rota_server: rota.Server,
    address: Address,
    partition: int,
    current: int,
    epoch: int,
    expected: tuple[int, int, int, int],
) -> None:
    rota_server.create_topic("orders")
    assert epoch_end(address, partition, current, epoch) == expected


@pytest.mark.parametrize("version", [2, 3, 4])
def test_topics_are_answered_as_often_as_they_are_asked_about(
    rota_server: rota.Server, address: Address, version: int
) -> None:
    rota_server.create_topic("orders")
    text, count, tags = (compact, varint, b"\0") if version >= 4 else (string, i32, b"")
    extra = 1 if version >= 4 else 0
    asked = text("orders") + count(1 + extra) + i32(0) + i32(-1) + i32(0) + tags + tags
    body = (i32(-1) if version >= 3 else b"") + count(2 + extra) + asked * 2 + tags
    with Connection(address) as connection:
        answer = connection.ask(frame(OFFSET_FOR_LEADER_EPOCH, version, body))
    entry = text("orders") + count(1 + extra) + b"\0\0" + i32(0) + i32(0) + b"\0" * 8 + tags + tags
    assert answer.data == tags + i32(0) + count(2 + extra) + entry * 2 + tags
