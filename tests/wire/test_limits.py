"""Limits of `docs/limits.md` that only large requests and answers reach."""

from __future__ import annotations

from contextlib import ExitStack

import rota
from harness.raw import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    UNKNOWN_MEMBER_ID,
    Connection,
    Member,
    compact,
    frame,
    heartbeat,
    i16,
    i32,
    string,
    varint,
)

from .conftest import SETTINGS

Address = tuple[str, int]

MIB = 1 << 20
# The record of a group has room for no more than `message.max.bytes`.
METADATA_BYTES = 900 * 1024
PARTS_BYTES = 256 * MIB
HELD_BYTES = 1024 * MIB
REQUEST_BYTES = 100 * MIB


def describe_many_times(group: str, times: int) -> bytes:
    return frame(DESCRIBE_GROUPS, 0, i32(times) + string(group) * times)


def test_a_small_request_does_not_make_an_answer_without_end(address: Address) -> None:
    """A group may be named many times in one request, and is described as often."""
    with Member(address, "large", metadata=b"m" * METADATA_BYTES):
        fits = PARTS_BYTES // METADATA_BYTES
        with Connection(address) as connection:
            connection.send(describe_many_times("large", fits))
            assert len(connection.receive()) > fits * METADATA_BYTES
            connection.send(describe_many_times("large", fits + 1))
            assert connection.ends()
        with Connection(address) as other:
            assert other.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID


def test_beyond_what_all_connections_may_hold_the_one_that_holds_most_is_closed() -> None:
    """Eleven requests of 100 MiB that never end, and a small one beside them."""
    announced = i32(REQUEST_BYTES - 4) + i16(HEARTBEAT)
    part = bytes(MIB)
    with rota.Server(settings={**SETTINGS, "socket.request.max.bytes": REQUEST_BYTES}) as server, ExitStack() as open_:
        place = server.host, server.port
        small = open_.enter_context(Connection(place))
        small.send(i32(100) + i16(HEARTBEAT))
        large = [open_.enter_context(Connection(place)) for _ in range(HELD_BYTES // REQUEST_BYTES + 1)]
        for connection in large:
            connection.send(announced)
            for _ in range(REQUEST_BYTES // MIB - 2):
                connection.send(part)
        assert [connection.is_silent(0.2) for connection in large].count(False) == 1
        assert small.is_silent(0.2)
        with Connection(place) as other:
            assert other.ask(heartbeat("g", "m", 0)).i16() == UNKNOWN_MEMBER_ID


def test_as_many_tagged_fields_as_a_frame_may_say_are_passed_over(address: Address) -> None:
    """Those of rota's own codecs are not kept, and so not limited."""
    tags = b"".join(varint(tag) + b"\0" for tag in range(100_000))
    body = compact("g") + i32(0) + compact("m") + compact(None) + varint(100_000) + tags
    with Connection(address) as connection:
        assert connection.ask(frame(HEARTBEAT, 4, body)).data == b"\0" + i32(0) + i16(UNKNOWN_MEMBER_ID) + b"\0"
