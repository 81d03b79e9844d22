"""Frames that should not be, and what is answered around them (docs/protocol.md §17.2)."""

from __future__ import annotations

import socket
import threading

import pytest

from harness.raw import (
    API_VERSIONS,
    HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    UNKNOWN_MEMBER_ID,
    ClosedError,
    Connection,
    blob,
    compact,
    frame,
    heartbeat,
    i16,
    i32,
    string,
    varint,
)

Address = tuple[str, int]

REQUEST_BYTES_MAX = 104_857_600

CLOSING = {
    "a length of zero": i32(0),
    "a negative length": i32(-1),
    "the smallest length": i32(-(2**31)),
    "one byte over the maximum": i32(REQUEST_BYTES_MAX + 1),
    "the largest length": i32(2**31 - 1),
    "a header that ends early": blob(b"\0\x0c\0"),
    "an unknown API": frame(99, 0),
    "a negative API": frame(-1, 0),
    "a version that is too new": frame(HEARTBEAT, 5, b"\0" * 20),
    "a negative version": frame(HEARTBEAT, -1, b"\0" * 20),
    "a version that is too old": frame(OFFSET_COMMIT, 1, b"\0" * 20),
    "a Produce that is advertised but not served": frame(PRODUCE, 2, b"\0" * 20),
    "a body that ends early": frame(HEARTBEAT, 0, string("g") + b"\0"),
    "no body at all": frame(HEARTBEAT, 0),
    "a null group id": frame(HEARTBEAT, 0, string(None) + i32(0) + string("m")),
    "a negative string": frame(HEARTBEAT, 0, i16(-5) + i32(0) + string("m")),
    "a string beyond the frame": frame(HEARTBEAT, 0, i16(30_000) + b"g" + i32(0) + string("m")),
    "a client id beyond the frame": blob(i16(HEARTBEAT) + i16(0) + i32(7) + i16(30_000) + b"c"),
    "text that is not UTF-8": frame(HEARTBEAT, 0, i16(2) + b"\xff\xfe" + i32(0) + string("m")),
    "an array beyond the frame": frame(
        JOIN_GROUP, 1, string("g") + i32(9_000) * 2 + string("") + string("consumer") + i32(2**31 - 1)
    ),
    "a negative array": frame(JOIN_GROUP, 1, string("g") + i32(9_000) * 2 + string("") + string("consumer") + i32(-2)),
    "a compact array beyond the frame": frame(OFFSET_FETCH, 8, varint(2**31 - 1)),
    "a varint without an end": frame(OFFSET_FETCH, 8, b"\xff" * 8),
    "an array of another codec beyond the frame": frame(METADATA, 1, i32(2**31 - 1)),
    "a compact array of another codec beyond the frame": frame(METADATA, 9, varint(2**32 - 1)),
    "record batches beyond the frame": frame(
        PRODUCE, 3, string(None) + i16(-1) + i32(9) + i32(1) + string("t") + i32(1) + i32(0) + i32(2**31 - 1)
    ),
    "too many tagged fields": frame(HEARTBEAT, 4, compact("g") + i32(0) + compact("m") + varint(0) + varint(2**31 - 1)),
    "a tagged field beyond the frame": frame(
        HEARTBEAT, 4, compact("g") + i32(0) + compact("m") + varint(0) + varint(1) + varint(0) + varint(2**31 - 1)
    ),
    "ApiVersions without its software": frame(API_VERSIONS, 3),
}


@pytest.mark.parametrize("bad", CLOSING)
def test_a_frame_that_cannot_be_read_closes_the_connection_and_nobody_elses(address: Address, bad: str) -> None:
    with Connection(address) as other, Connection(address) as connection:
        connection.send(CLOSING[bad])
        assert connection.ends()
        assert other.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("bad", CLOSING)
def test_requests_before_it_are_answered_first(address: Address, bad: str) -> None:
    with Connection(address) as connection:
        requests = b"".join(heartbeat("g", "m", 0, correlation=number) for number in range(3))
        connection.send(requests + CLOSING[bad])
        for number in range(3):
            assert connection.receive() == i32(number) + i16(UNKNOWN_MEMBER_ID)
        with pytest.raises(ClosedError):
            connection.receive()


def test_a_frame_of_exactly_the_maximum_is_waited_for(address: Address) -> None:
    with Connection(address) as connection:
        connection.send(i32(REQUEST_BYTES_MAX) + b"\0\x0c")
        assert connection.is_silent(0.3)


def test_bytes_behind_a_body_are_ignored(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(HEARTBEAT, 0, string("g") + i32(0) + string("m") + b"and more"))
        assert answer.i16() == UNKNOWN_MEMBER_ID
        assert connection.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID


def test_tagged_fields_that_nobody_knows_are_ignored(address: Address) -> None:
    tags = varint(2) + varint(77) + varint(3) + b"abc" + varint(78) + varint(0)
    body = compact("g") + i32(0) + compact("m") + compact(None) + tags
    with Connection(address) as connection:
        assert connection.ask(frame(HEARTBEAT, 4, body)).data == b"\0" + i32(0) + i16(UNKNOWN_MEMBER_ID) + b"\0"


def test_a_client_without_an_id_is_served_and_its_member_id_begins_with_a_dash(address: Address) -> None:
    body = string("g") + i32(9_000) * 2 + string("") + string("consumer") + i32(1) + string("range") + blob(b"")
    with Connection(address) as connection:
        answer = connection.ask(frame(JOIN_GROUP, 4, body, client_id=None))
    assert (answer.i32(), answer.i16(), answer.i32()) == (0, 79, -1)
    assert (answer.string(), answer.string()) == ("", "")
    assert (answer.string() or "").startswith("-")


def test_a_frame_that_comes_byte_by_byte_is_one_request(address: Address) -> None:
    with Connection(address) as connection:
        for byte in heartbeat("g", "m", 0):
            connection.send(bytes([byte]))
        assert connection.receive() == i32(7) + i16(UNKNOWN_MEMBER_ID)


def many_are_answered_in_order(address: Address, count: int) -> None:
    """S32, of so many requests in one packet."""
    with Connection(address) as connection:
        connection.send(b"".join(heartbeat("g", "m", 0, correlation=number) for number in range(count)))
        for number in range(count):
            assert connection.receive() == i32(number) + i16(UNKNOWN_MEMBER_ID), "S32"


def test_many_frames_in_one_packet_are_answered_in_order(address: Address) -> None:
    many_are_answered_in_order(address, 1_000)


def test_answers_in_another_order_are_noticed() -> None:
    def answer(listener: socket.socket) -> None:
        """Answers two requests in one packet, the second one first."""
        peer, _ = listener.accept()
        with peer:
            peer.recv(1024)
            for number in (1, 0):
                said = i32(number) + i16(UNKNOWN_MEMBER_ID)
                peer.sendall(i32(len(said)) + said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        server = threading.Thread(target=answer, args=[listener], daemon=True)
        server.start()
        with pytest.raises(AssertionError, match="S32"):
            many_are_answered_in_order(listener.getsockname(), 2)
        server.join(10)
