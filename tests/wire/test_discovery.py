"""What a client asks first: ApiVersions and FindCoordinator (docs/protocol.md §17.3, §19)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import rota
from harness.raw import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    PRODUCE,
    Connection,
    Reader,
    blob,
    compact,
    frame,
    i8,
    i16,
    i32,
    string,
    varint,
)

Address = tuple[str, int]
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36

GROUP_APIS = {
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
}


def listed(answer: Reader) -> dict[int, tuple[int, int]]:
    """The ranges of an ApiVersions answer in the old layout, behind its error."""
    return {answer.i16(): (answer.i16(), answer.i16()) for _ in range(answer.i32())}


@pytest.mark.parametrize("version", [6, 7, 32_767, -1])
def test_a_client_that_is_too_new_gets_the_range_in_version_0_and_keeps_its_connection(
    address: Address, version: int
) -> None:
    with Connection(address) as connection:
        request = frame(API_VERSIONS, version, compact("new") + compact("9") + b"\0")
        assert connection.ask(request).data.hex() == "0023000000010012000000" + "05"
        assert connection.ask(frame(API_VERSIONS, 0)).i16() == 0


def test_the_advertised_ranges_are_those_that_are_served(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(API_VERSIONS, 0))
        assert answer.i16() == 0
        ranges = listed(answer)
    assert answer.data == b""
    assert {key: ranges[key] for key in GROUP_APIS} == GROUP_APIS
    assert ranges[API_VERSIONS] == (0, 5)
    # librdkafka looks for 0 here; versions 0 to 2 close the connection all the same.
    assert ranges[PRODUCE] == (0, 13)


TRANSACTION_APIS = {
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 6),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
}


@contextmanager
def apart() -> Iterator[Connection]:
    """A connection to a server of a cluster whose servers cannot ask each other: they have no user for each other."""
    with (
        rota.Server(engine=rota.MemoryEngine(), node_id=1, sasl="PLAIN", users={"ana": "secret"}) as server,
        Connection((server.host, server.port)) as connection,
    ):
        assert connection.ask(frame(SASL_HANDSHAKE, 1, string("PLAIN"))).i16() == 0
        assert connection.ask(frame(SASL_AUTHENTICATE, 1, blob(b"\0ana\0secret"))).i16() == 0
        yield connection


def test_the_apis_of_transactions_are_advertised_where_they_are_served(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(API_VERSIONS, 0))
        answer.i16()
        ranges = listed(answer)
    assert {key: ranges.get(key) for key in TRANSACTION_APIS} == TRANSACTION_APIS
    with apart() as connection:
        answer = connection.ask(frame(API_VERSIONS, 0))
        answer.i16()
        assert not listed(answer).keys() & TRANSACTION_APIS.keys()


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_api_versions_is_answered_in_every_version_without_tagged_fields_in_its_header(
    address: Address, version: int
) -> None:
    software = compact("rota-tests") + compact("1.0") if version >= 3 else b""
    cluster = compact(None) + i32(-1) if version >= 5 else b""
    with Connection(address) as connection:
        answer = connection.ask(frame(API_VERSIONS, version, software + cluster + (b"\0" if version >= 3 else b"")))
        assert answer.i16() == 0
        assert answer.data.startswith(varint(46) if version >= 3 else i32(45))


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("-x", "1"), ("x", "1-"), ("x y", "1"), ("x_y", "1")])
def test_software_with_a_strange_name_is_told_so_and_keeps_its_connection(
    address: Address, name: str, version: str
) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(API_VERSIONS, 3, compact(name) + compact(version) + b"\0"))
        assert answer.data == i16(42) + varint(1) + i32(0) + b"\0"
        assert connection.ask(frame(API_VERSIONS, 0)).i16() == 0


@pytest.mark.parametrize(("cluster", "node", "error"), [("other", 1, 129), ("other", -1, 42), (None, 1, 42)])
def test_a_client_that_means_another_cluster_is_told_to_look_again(
    address: Address, cluster: str | None, node: int, error: int
) -> None:
    body = compact("x") + compact("1") + compact(cluster) + i32(node) + b"\0"
    with Connection(address) as connection:
        assert connection.ask(frame(API_VERSIONS, 5, body)).i16() == error


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_group_is_coordinated_where_it_was_asked_for(address: Address, version: int) -> None:
    body = string("a group") + (i8(0) if version >= 1 else b"")
    with Connection(address) as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, version, body))
    if version >= 1:
        assert answer.i32() == 0
    assert answer.i16() == 0
    if version >= 1:
        assert answer.string() == "NONE"
    assert (answer.i32(), answer.string(), answer.i32()) == (1, *address)


def test_many_keys_are_answered_each_in_order_and_none_with_none(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, 4, i8(0) + varint(4) + compact("b") * 2 + compact("") + b"\0"))
        place = i32(1) + compact(address[0]) + i32(address[1]) + i16(0) + compact("") + b"\0"
        expected = compact("b") + place + compact("b") + place + compact("") + place
        assert answer.data == b"\0" + i32(0) + varint(4) + expected + b"\0"
        answer = connection.ask(frame(FIND_COORDINATOR, 4, i8(0) + varint(1) + b"\0"))
        assert answer.data == b"\0" + i32(0) + varint(1) + b"\0"


def test_a_transactional_id_has_a_coordinator(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, 1, string("tx") + i8(1)))
    assert (answer.i32(), answer.i16(), answer.string(), answer.i32()) == (0, 0, "NONE", 1)


def test_servers_that_cannot_ask_each_other_refuse_a_transactional_id_for_good() -> None:
    with apart() as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, 1, string("tx") + i8(1)))
    assert (answer.i32(), answer.i16()) == (0, 53)
    assert "transaction" in (answer.string() or "")


@pytest.mark.parametrize("key_type", [2, 5, -1])
def test_other_key_types_are_invalid_requests(address: Address, key_type: int) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, 1, string("g") + i8(key_type)))
    assert (answer.i32(), answer.i16()) == (0, 42)


def test_the_newer_consumer_protocol_is_refused_as_by_a_kafka_that_has_it_switched_off() -> None:
    body = compact("g") + compact("m") + i32(0) + compact(None) * 2 + i32(-1) + varint(0) * 3 + b"\0"
    classic = {"group.coordinator.rebalance.protocols": "classic"}
    with rota.Server(settings=classic) as server, Connection((server.host, server.port)) as connection:
        answer = connection.ask(frame(CONSUMER_GROUP_HEARTBEAT, 0, body))
    assert answer.data.startswith(b"\0" + i32(0) + i16(35))
    assert b"group.protocol=classic" in answer.data


def test_clients_are_sent_to_the_advertised_address() -> None:
    with rota.Server(advertise="broker.example:1234") as server, Connection((server.host, server.port)) as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, 0, string("g")))
    assert (answer.i16(), answer.i32(), answer.string(), answer.i32()) == (0, 1, "broker.example", 1234)


def test_a_server_on_all_addresses_sends_clients_to_the_one_that_they_used() -> None:
    with rota.Server("PLAINTEXT://0.0.0.0:0") as server, Connection(("127.0.0.1", server.port)) as connection:
        answer = connection.ask(frame(FIND_COORDINATOR, 0, string("g")))
    assert (answer.i16(), answer.i32(), answer.string(), answer.i32()) == (0, 1, "127.0.0.1", server.port)
