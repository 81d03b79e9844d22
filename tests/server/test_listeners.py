"""Listeners: each has its name, security protocol and ports; what they cannot be is refused before anything listens."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any

import pytest

import rota
from harness.raw import API_VERSIONS, METADATA, ClosedError, Connection, Reader, frame, i32

WITHIN_S = 30
MAP = "IN:PLAINTEXT,OUT:SASL_SSL,TLS:SSL,PASS:SASL_PLAINTEXT"


def of(listeners: str, **more: str) -> Mapping[str, str]:
    """Settings with these listeners."""
    return {"listeners": listeners, "listener.security.protocol.map": MAP} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def reached(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def asks_versions(connection: Connection) -> bool:
    connection.send(frame(API_VERSIONS, 0))
    return Reader(connection.receive()[4:]).i16() == 0


def brokers(connection: Connection) -> dict[int, str]:
    """The nodes in an answer of Metadata."""
    answer = connection.ask(frame(METADATA, 0, i32(0)))
    found = {}
    for _ in range(answer.i32()):
        node_id, host, port = answer.i32(), answer.string(), answer.i32()
        found[node_id] = f"{host}:{port}"
    return found


def test_every_connection_has_the_security_protocol_of_its_listener() -> None:
    settings = of("IN://127.0.0.1:0,OUT://127.0.0.1:0,TLS://127.0.0.1:0,PASS://127.0.0.1:0")
    with rota.Server(settings=settings, tls=True, users={"ana": "secret"}) as server:
        listeners = server.listeners()
        assert {name: at.security_protocol for name, at in listeners.items()} == {
            "IN": "PLAINTEXT",
            "OUT": "SASL_SSL",
            "TLS": "SSL",
            "PASS": "SASL_PLAINTEXT",
        }
        assert server.bootstrap_servers == listeners["IN"].bootstrap_servers
        for name, at in listeners.items():
            connection = Connection(reached(at.bootstrap_servers), WITHIN_S)
            if at.security_protocol.endswith("SSL"):
                context = server.client_config("aiokafka", listener="TLS")["ssl_context"]
                connection.socket = context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
            with connection:
                assert asks_versions(connection), name
                if at.security_protocol.startswith("SASL"):
                    connection.send(frame(METADATA, 0, i32(0)))
                    with pytest.raises(ClosedError):
                        connection.receive()
                else:
                    assert brokers(connection) == at.nodes
        [line] = server.refused_connections()
        assert "sent a request without authentication" in line
        assert server.panics == 0


def test_clients_get_the_settings_of_their_listener() -> None:
    with rota.Server(settings=of("IN://127.0.0.1:0,OUT://127.0.0.1:0"), tls=True, users={"ana": "secret"}) as server:
        inner, outer = server.client_config("java"), server.client_config("java", listener="OUT")
        assert inner == {"bootstrap.servers": server.listeners()["IN"].bootstrap_servers}
        assert outer["bootstrap.servers"] == server.listeners()["OUT"].bootstrap_servers
        assert outer["security.protocol"] == "SASL_SSL"
        with pytest.raises(ValueError, match="listener is 'out': give one of IN, OUT"):
            server.client_config("java", listener="out")


def test_each_node_has_a_port_for_each_listener_and_keeps_them_when_it_restarts() -> None:
    with rota.Server(settings=of("IN://127.0.0.1:0,TLS://localhost:0"), nodes=3, tls=True) as server:
        listeners = server.listeners()
        addresses = [address for at in listeners.values() for address in at.nodes.values()]
        assert len(set(addresses)) == 6
        server.faults.stop_node(2)
        for at in listeners.values():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(reached(at.nodes[2]), WITHIN_S)
        server.faults.start_node(2)
        with Connection(reached(listeners["IN"].nodes[2]), WITHIN_S) as connection:
            assert brokers(connection) == listeners["IN"].nodes
        context = server.client_config("aiokafka", listener="TLS")["ssl_context"]
        with Connection(reached(listeners["TLS"].nodes[2]), WITHIN_S) as connection:
            connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
            assert brokers(connection) == listeners["TLS"].nodes


def test_nodes_are_advertised_on_the_ports_that_follow() -> None:
    settings = of("IN://127.0.0.1:0,TLS://127.0.0.1:0", advertised_listeners="IN://kafka.test:19092")
    with (
        rota.Server(settings=settings, nodes=2, tls=True) as server,
        Connection((server.host, server.port), WITHIN_S) as connection,
    ):
        assert brokers(connection) == {1: "kafka.test:19092", 2: "kafka.test:19093"}


def test_a_throw_away_certificate_names_the_hosts_of_all_listeners() -> None:
    settings = of("IN://0.0.0.0:0,TLS://127.0.0.3:0", advertised_listeners="TLS://kafka.test:9")
    with rota.Server(settings=settings, tls=True) as server:
        assert server.unnamed_host() is None
        for name in ("127.0.0.3", "kafka.test"):
            context = server.client_config("aiokafka", listener="TLS")["ssl_context"]
            with Connection(reached(server.listeners()["TLS"].bootstrap_servers), WITHIN_S) as connection:
                connection.socket = context.wrap_socket(connection.socket, server_hostname=name)
                assert asks_versions(connection)


USERS = {"ana": "secret"}


@pytest.mark.parametrize(
    ("settings", "options", "says"),
    [
        (of("127.0.0.1:9092"), {}, "`listeners` has `127.0.0.1:9092`, expected NAME://HOST:PORT"),
        (of("IN://127.0.0.1:0,in://127.0.0.1:0"), {}, "two listeners with the name IN"),
        (of("IN://127.0.0.1:9,TLS://127.0.0.1:9"), {"tls": True}, "has port 9 twice, in IN and TLS"),
        (of("IN://127.0.0.1:9,TLS://127.0.0.1:10"), {"tls": True, "nodes": 2}, "put their ports at least 2 apart"),
        (of("MORE://127.0.0.1:0"), {}, "has no protocol for the listener MORE"),
        (of("IN://127.0.0.1:0", listener_security_protocol_map="IN:TLS"), {}, "has `IN:TLS`, expected NAME:PROTOCOL"),
        (of("IN://127.0.0.1:0", advertised_listeners="OUT://h:1"), {}, "has OUT, which is not a listener"),
        (of("IN://127.0.0.1:0", advertised_listeners="IN://0.0.0.0:1"), {}, "an address that clients cannot connect"),
        (of("IN://127.0.0.1:0"), {"advertise": "h:1"}, "with `listeners`, give `advertised.listeners`"),
        (of("IN://127.0.0.1:0"), {"listen": "127.0.0.1:9"}, "give one of them"),
        ({"advertised.listeners": "SSL://h:1"}, {}, "give one of PLAINTEXT"),
        (of("TLS://127.0.0.1:0"), {}, "the listener TLS has the protocol SSL, which needs a certificate"),
        (of("PASS://127.0.0.1:0"), {}, "the listener PASS has the protocol SASL_PLAINTEXT, which needs users"),
        (of("IN://127.0.0.1:0"), {"tls": True}, "no listener uses the certificate"),
        (of("IN://127.0.0.1:0"), {"users": USERS}, "no listener asks for users"),
        (of("PASS://0.0.0.0:0"), {"users": USERS, "sasl": "PLAIN"}, "give --allow-plaintext-passwords"),
        (of("PASS://:0"), {"users": USERS, "sasl": "PLAIN"}, "give --allow-plaintext-passwords"),
        (of("IN://127.0.0.1:65535"), {"nodes": 2}, "65535"),
    ],
)
def test_listeners_that_cannot_be_are_refused(settings: Mapping[str, str], options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        rota.Server(settings=settings, **options)


def test_plain_passwords_are_allowed_where_others_reach_the_tls_listener_only() -> None:
    settings = of("PASS://127.0.0.1:0,OUT://0.0.0.0:0")
    with rota.Server(settings=settings, tls=True, users=USERS, sasl="PLAIN") as server:
        assert [at.is_local for at in server.listeners().values()] == [True, False]


def test_many_connections_on_one_listener_do_not_keep_out_those_of_another() -> None:
    with rota.Server(settings=of("IN://127.0.0.1:0,TLS://127.0.0.1:0"), tls=True) as server:
        first, second = (reached(at.bootstrap_servers) for at in server.listeners().values())
        many = [socket.create_connection(second, WITHIN_S) for _ in range(200)]
        try:
            with Connection(first, WITHIN_S) as connection:
                assert asks_versions(connection)
        finally:
            for one in many:
                one.close()
