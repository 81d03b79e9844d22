"""A healthy client beside hostile ones never notices them."""

from __future__ import annotations

import random
import socket
import threading
import time

import pytest

import rota
from harness.hostile_sessions import allow_files
from harness.raw import NONE, UNKNOWN_MEMBER_ID, Connection, Member, blob, frame, heartbeat, i32, join

from .bystander import PATIENCE_S, a_healthy_client, resident_bytes

Address = tuple[str, int]


def send_for_ever(connection: Connection, data: bytes) -> None:
    while True:
        connection.send(data)


def test_ten_thousand_damaged_requests_go_unnoticed(address: Address) -> None:
    numbers = random.Random(3)
    samples = [frame(key, version, numbers.randbytes(60)) for key in range(20) for version in range(10)]
    with a_healthy_client(address):
        for _ in range(10_000 // 50):
            with Connection(address) as connection:
                for _ in range(50):
                    damaged = bytearray(numbers.choice(samples))
                    damaged[numbers.randrange(4, len(damaged))] = numbers.randrange(256)
                    try:
                        connection.send(bytes(damaged))
                    except ConnectionError:
                        break


def test_random_bytes_go_unnoticed(address: Address) -> None:
    numbers = random.Random(4)
    with a_healthy_client(address):
        for _ in range(300):
            with Connection(address) as connection:
                try:
                    connection.send(numbers.randbytes(numbers.randrange(1, 4_000)))
                except ConnectionError:
                    continue


def test_announced_lengths_take_no_memory(address: Address) -> None:
    with a_healthy_client(address):
        before = resident_bytes()
        connections = [Connection(address) for _ in range(100)]
        for connection in connections:
            connection.send(i32(100_000_000) + b"\0\x0b\0\0" + b"x" * 100)
        with Connection(address) as other:
            assert other.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID
        grown = resident_bytes() - before
        for connection in connections:
            connection.close()
    # 100 connections have announced 10 GB.
    assert grown < 100_000_000


def test_a_client_that_reads_nothing_is_not_written_to_without_end(address: Address) -> None:
    with a_healthy_client(address), Connection(address, timeout=0.5) as connection:
        before = resident_bytes()
        flood = heartbeat("g", "m", 0) * 2_000
        with pytest.raises(TimeoutError):
            send_for_ever(connection, flood)
        assert resident_bytes() - before < 100_000_000


def test_two_thousand_clients_that_connect_at_once_are_all_answered(rota_server: rota.Server, address: Address) -> None:
    allow_files(2 * 2_000 + 500)
    with a_healthy_client(address):
        sockets = []
        for _ in range(2_000):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(address)
            sockets.append(client)
        try:
            for number, client in enumerate(sockets):
                client.settimeout(PATIENCE_S)
                client.sendall(heartbeat("g", "m", 0, correlation=number))
            for number, client in enumerate(sockets):
                assert client.recv(100) == blob(i32(number) + UNKNOWN_MEMBER_ID.to_bytes(2, "big"))
        finally:
            for client in sockets:
                client.close()
    until = time.monotonic() + PATIENCE_S
    while rota_server._inner.load()[0] > 0:
        assert time.monotonic() < until


def test_the_limit_on_connections_holds() -> None:
    with rota.Server(settings={"max.connections": 2}) as server:
        place = server.host, server.port
        with Connection(place) as one, Connection(place) as two:
            assert one.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID
            assert two.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID
            with Connection(place) as three:
                assert three.ends()
            assert one.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID


def test_the_largest_request_is_a_setting() -> None:
    with rota.Server(settings={"socket.request.max.bytes": 100}) as server:
        place = server.host, server.port
        with Connection(place) as connection:
            assert connection.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID
            connection.send(heartbeat("g" * 100, "m", 0))
            assert connection.ends()


def test_an_idle_connection_is_closed_and_one_with_a_request_that_waits_is_not() -> None:
    settings = {"connections.max.idle.ms": 500, "group.initial.rebalance.delay.ms": 3_000}
    with rota.Server(settings=settings) as server:
        place = server.host, server.port
        with Connection(place) as idle, Connection(place) as parked:
            parked.send(join("g"))
            assert idle.ends()
            assert parked.receive()[4:6] == NONE.to_bytes(2, "big")


def test_a_connection_is_idle_from_its_last_answer_on_though_it_read_ahead_before() -> None:
    settings = {"connections.max.idle.ms": 2_000, "group.initial.rebalance.delay.ms": 3_000}
    with rota.Server(settings=settings) as server, Connection((server.host, server.port)) as connection:
        connection.send(join("g"))
        connection.send(heartbeat("g", "m", 0))
        assert connection.receive()[4:6] == NONE.to_bytes(2, "big")
        connection.receive()
        began = time.monotonic()
        assert connection.ends()
        # What was read ahead came 3 seconds before the answer.
        assert time.monotonic() - began > 1.0


def test_a_quiet_server_takes_no_time(address: Address) -> None:
    with Member(address, "g"), Connection(address):
        # A busy loop would take a whole second.
        began = time.process_time()
        threading.Event().wait(1.0)
        assert time.process_time() - began < 0.05
