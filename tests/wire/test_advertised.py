"""Where clients are sent to: Metadata, FindCoordinator, DescribeCluster and DescribeConfigs name the same address, that
of the listener that was asked."""

from __future__ import annotations

import pytest

import rota
from harness.raw import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, Connection, frame, i32, string

from .test_describing import BROKER, describe


def told(address: tuple[str, int], listener: str = "PLAINTEXT") -> list[tuple[str | None, int]]:
    """(host, port) of node 1, by every request that names it."""
    with Connection(address) as connection:
        metadata = connection.ask(frame(METADATA, 0, i32(0)))
        assert (metadata.i32(), metadata.i32()) == (1, 1)
        first = metadata.string(), metadata.i32()
        found = connection.ask(frame(FIND_COORDINATOR, 0, string("g")))
        assert (found.i16(), found.i32()) == (0, 1)
        second = found.string(), found.i32()
        cluster = connection.ask(frame(DESCRIBE_CLUSTER, 0, b"\0\0"))
        cluster.take(5), cluster.i16(), cluster.compact(), cluster.compact(), cluster.i32()
        assert (cluster.varint(), cluster.i32()) == (2, 1)
        third = cluster.compact(), cluster.i32()
    listeners = describe(address, BROKER, "1", ["advertised.listeners"])[2]["advertised.listeners"].value or ""
    [own] = [uri for uri in listeners.split(",") if uri.startswith(f"{listener}://")]
    host, _, port = own.partition("://")[2].rpartition(":")
    return [first, second, third, (host, int(port))]


def test_an_advertised_address_is_told_everywhere() -> None:
    with rota.Server(listen="PLAINTEXT://0.0.0.0:0", advertise="kafka.test:9099") as server:
        assert set(told((server.host, server.port))) == {("kafka.test", 9099)}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_without_one_a_client_is_sent_where_it_has_reached_the_server(host: str) -> None:
    with rota.Server(listen="PLAINTEXT://0.0.0.0:0") as server:
        assert set(told((host, server.port))) == {(host, server.port)}


def test_each_listener_tells_its_own_address() -> None:
    settings = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://0.0.0.0:0,OTHER://0.0.0.0:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,OTHER:PLAINTEXT",
        "advertised.listeners": "EXTERNAL://kafka.test:9099",
    }
    with rota.Server(settings=settings) as server:
        ports = {name: int(at.nodes[1].rpartition(":")[2]) for name, at in server.listeners().items()}
        assert list(ports) == ["INTERNAL", "EXTERNAL", "OTHER"]
        assert set(told(("127.0.0.1", ports["INTERNAL"]), "INTERNAL")) == {("127.0.0.1", ports["INTERNAL"])}
        assert set(told(("127.0.0.1", ports["EXTERNAL"]), "EXTERNAL")) == {("kafka.test", 9099)}
        assert set(told(("127.0.0.2", ports["OTHER"]), "OTHER")) == {("127.0.0.2", ports["OTHER"])}


def test_the_one_listener_of_listen_is_advertised_by_its_protocol() -> None:
    with rota.Server(settings={"advertised.listeners": "PLAINTEXT://kafka.test:9099"}) as server:
        assert set(told((server.host, server.port))) == {("kafka.test", 9099)}


def test_a_node_shows_where_it_listens_beside_what_it_advertises() -> None:
    settings = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://[::1]:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "advertised.listeners": "EXTERNAL://kafka.test:9099",
    }
    with rota.Server(settings=settings, nodes=2) as server:
        internal, external = (
            [int(address.rpartition(":")[2]) for address in server.listeners()[name].nodes.values()]
            for name in ("INTERNAL", "EXTERNAL")
        )
        for node in (0, 1):
            rows = describe(("127.0.0.1", internal[node]), BROKER, str(node + 1))[2]
            listened = f"INTERNAL://127.0.0.1:{internal[node]},EXTERNAL://[::1]:{external[node]}"
            assert rows["listeners"].value == listened
            advertised = f"INTERNAL://127.0.0.1:{internal[node]},EXTERNAL://kafka.test:{9099 + node}"
            assert rows["advertised.listeners"].value == advertised
