"""The order of answers on a connection, and what a connection's end means."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from rota.codec import apis, write_request
from rota.conform.probes.talk import Talk, probe
from rota.conform.rows import Row
from rota.conform.wire import SilentError

#: How long nothing may come where nothing should.
STILL_S = 0.4
#: Two members; the first waits for the second. An initial delay would end first.
LONGEST_DELAY = (0.0, 1.5)


def rows() -> Iterator[Row]:
    """A row for each promise."""
    section = "17.1"
    yield probe("order/pipelined", "six requests sent ahead are answered in order", section, _pipelined)
    yield probe("order/one-segment", "three requests in one segment are answered in order", section, _one_segment)
    yield probe("order/byte-by-byte", "a request that comes byte by byte is answered", section, _byte_by_byte)
    yield probe("order/same-correlation-id", "a correlation id may come again", section, _same_correlation_id)
    yield probe(
        "order/behind-a-parked-join",
        "what was sent behind a JoinGroup that waits is answered behind it",
        section,
        _behind_a_parked_join,
        delay_s=LONGEST_DELAY,
    )
    yield probe(
        "order/beside-a-parked-join",
        "other connections of the member do not wait",
        section,
        _beside_a_parked_join,
        delay_s=LONGEST_DELAY,
    )
    yield probe(
        "order/behind-a-parked-sync",
        "what was sent behind a SyncGroup that waits is answered behind it",
        section,
        _behind_a_parked_sync,
        delay_s=LONGEST_DELAY,
    )
    yield probe(
        "order/hanging-up", "a member whose connection closes stays until its session ends", section, _hanging_up
    )
    yield probe(
        "order/hanging-up-while-parked",
        "a JoinGroup whose connection closes stays a member of the next generation",
        section,
        _hanging_up_while_parked,
        delay_s=LONGEST_DELAY,
    )


def _pipelined(talk: Talk) -> None:
    connection = talk.on("x")
    asked = ["ApiVersions", "Heartbeat", "DescribeGroups", "Heartbeat", "OffsetFetch", "ApiVersions"]
    values = {"group_id": talk.group, "member_id": "m", "groups": [talk.group], "topics": []}
    for name in asked:
        connection.send(apis()[name], talk.version(name, 2), values)
    for name in asked:
        talk.step = name
        connection.answer()
        talk.show(name, "in its place")


def _one_segment(talk: Talk) -> None:
    frames = [write_request(apis()["ApiVersions"], 0, number, "x", {}) for number in (7, 8, 9)]
    talk.step = "ApiVersions v0, three times"
    talk.on("x").send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    numbers = [struct.unpack_from(">i", talk.on("x").frame())[0] for _ in frames]
    talk.show(talk.step, f"answered {numbers}")


def _byte_by_byte(talk: Talk) -> None:
    frame = write_request(apis()["ApiVersions"], 0, 7, "x", {})
    talk.step = "ApiVersions v0"
    for byte in struct.pack(">i", len(frame)) + frame:
        talk.on("x").send_bytes(bytes([byte]))
    talk.show(talk.step, f"answered {struct.unpack_from('>i', talk.on('x').frame())[0]}")


def _same_correlation_id(talk: Talk) -> None:
    frame = write_request(apis()["ApiVersions"], 0, 7, "x", {})
    talk.step = "ApiVersions v0, twice"
    for _ in range(2):
        talk.on("x").send_frame(frame, "ApiVersions v0")
    talk.show(talk.step, f"answered {[struct.unpack_from('>i', talk.on('x').frame())[0] for _ in range(2)]}")


def _parked_join(talk: Talk) -> dict[str, object]:
    """b's JoinGroup waits for a, which is alive and does not rejoin; what b reports."""
    talk.stable("a")
    asked = talk.joining("b")
    version = talk.version("JoinGroup", 5)
    told = talk.ask("b", "JoinGroup", version, asked)
    asked |= {"member_id": told["member_id"]}
    talk.on("b").send(apis()["JoinGroup"], version, asked)
    return {"group_id": talk.group, "generation": 1, "member_id": told["member_id"]}


def _nothing(talk: Talk, who: str) -> str:
    try:
        talk.on(who).frame(STILL_S)
    except SilentError:
        return "waits"
    return "is answered"


def _behind_a_parked_join(talk: Talk) -> None:
    heartbeat = _parked_join(talk)
    talk.on("b").send(apis()["Heartbeat"], talk.version("Heartbeat", 3), heartbeat)
    talk.show("b JoinGroup, b Heartbeat", _nothing(talk, "b"))
    _rejoin(talk)
    answer = talk.on("b").answer()
    talk.show("a JoinGroup", f"b JoinGroup< {answer['error_code']}")
    talk.show("then", f"b Heartbeat< {talk.on('b').answer()['error_code']}")


def _rejoin(talk: Talk) -> None:
    """a joins again, by the id that it was given."""
    described = talk.ask("x", "DescribeGroups", talk.version("DescribeGroups", 5), {"groups": [talk.group]})
    (own,) = [each["member_id"] for each in described["groups"][0]["members"] if each["client_id"] == "a"]
    talk.ask("a", "JoinGroup", talk.version("JoinGroup", 5), talk.joining("a", member_id=own))


def _beside_a_parked_join(talk: Talk) -> None:
    heartbeat = _parked_join(talk)
    answer = talk.ask("b'", "Heartbeat", talk.version("Heartbeat", 3), heartbeat)
    talk.show("b' Heartbeat beside b JoinGroup", f"error {answer['error_code']}")
    talk.show("b JoinGroup", _nothing(talk, "b"))


def _behind_a_parked_sync(talk: Talk) -> None:
    _parked_join(talk)
    _rejoin(talk)
    joined = talk.on("b").answer()
    follower = talk.speaking(joined)
    talk.on("b").send(apis()["SyncGroup"], talk.version("SyncGroup", 3), follower)
    talk.on("b").send(apis()["Heartbeat"], talk.version("Heartbeat", 3), follower)
    talk.show("b SyncGroup, b Heartbeat", _nothing(talk, "b"))
    leader = talk.speaking(joined | {"member_id": joined["leader"]})
    talk.ask("a", "SyncGroup", talk.version("SyncGroup", 3), leader | {"assignments": []})
    talk.show("a SyncGroup", f"b SyncGroup< {talk.on('b').answer()['error_code']}")
    talk.show("then", f"b Heartbeat< {talk.on('b').answer()['error_code']}")


def _members(talk: Talk) -> str:
    described = talk.ask("x", "DescribeGroups", talk.version("DescribeGroups", 5), {"groups": [talk.group]})
    group = described["groups"][0]
    return f"{group['state']}, {len(group['members'])} members"


def _hanging_up(talk: Talk) -> None:
    talk.stable("a")
    talk.on("a").close()
    talk.pause(time.monotonic() + STILL_S)
    talk.show("a hangs up", _members(talk))


def _hanging_up_while_parked(talk: Talk) -> None:
    _parked_join(talk)
    talk.on("b").close()
    talk.pause(time.monotonic() + STILL_S)
    talk.show("b hangs up", _members(talk))
    _rejoin(talk)
    talk.show("a JoinGroup", _members(talk))
