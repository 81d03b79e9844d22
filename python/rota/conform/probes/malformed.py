"""Requests that no client sends: what can be parsed and makes no sense, and what can hardly be parsed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rota.codec import Fields, apis, write_request
from rota.conform.probes.talk import Talk, probe
from rota.conform.rows import Row
from rota.conform.said import FAULT
from rota.conform.wire import ClosedError, GarbledError, SilentError

HEARTBEAT, VERSIONS = apis()["Heartbeat"], apis()["ApiVersions"]
SILENCE_S = 1.5
TAG_OF_NOBODY = b"\x01\x63\x02hi"  # one tagged field: 99, two bytes
INT32_MAX = 2**31 - 1
LONG = 32_767
#: Kafka's largest request, and one byte.
TOO_LARGE = 104_857_601

Values = Callable[[Talk], Fields]

#: What can be parsed: id -> what it is, API, version, fields.
PARSEABLE: dict[str, tuple[str, str, int, Values]] = {
    "describe-nothing": ("DescribeGroups of no group", "DescribeGroups", 5, lambda _: {"groups": []}),
    "describe-twice": (
        "DescribeGroups of one group twice", "DescribeGroups", 5, lambda talk: {"groups": [talk.group] * 2},
    ),
    "delete-nothing": ("DeleteGroups of no group", "DeleteGroups", 2, lambda _: {"groups_names": []}),
    "delete-twice": (
        "DeleteGroups of one group twice", "DeleteGroups", 2, lambda talk: {"groups_names": [talk.group] * 2},
    ),
    "fetch-nothing": ("OffsetFetch of no topic", "OffsetFetch", 7, lambda talk: {"group_id": talk.group, "topics": []}),
    "fetch-no-groups": ("OffsetFetch of no group", "OffsetFetch", 8, lambda _: {"groups": []}),
    "fetch-negative": ("OffsetFetch of partition -1", "OffsetFetch", 5, lambda talk: _fetch(talk, [-1])),
    "fetch-beyond": ("OffsetFetch of a partition that is not there", "OffsetFetch", 5, lambda talk: _fetch(talk, [99])),
    "fetch-twice": ("OffsetFetch of one partition twice", "OffsetFetch", 5, lambda talk: _fetch(talk, [0, 0])),
    "fetch-unknown-topic": (
        "OffsetFetch of an unknown topic", "OffsetFetch", 5,
        lambda talk: {"group_id": talk.group, "topics": [{"name": "conform-nowhere", "partition_indexes": [0]}]},
    ),
    "commit-nothing": ("OffsetCommit of no topic", "OffsetCommit", 7, lambda talk: _commit(talk, [])),
    "commit-no-partition": (
        "OffsetCommit of a topic without partitions", "OffsetCommit", 7, lambda talk: _commit(talk, [_topic(talk, [])]),
    ),
    "commit-negative-partition": (
        "OffsetCommit to partition -1", "OffsetCommit", 7, lambda talk: _commit(talk, [_topic(talk, [-1])]),
    ),
    "commit-beyond": (
        "OffsetCommit to a partition that is not there", "OffsetCommit", 7,
        lambda talk: _commit(talk, [_topic(talk, [99])]),
    ),
    "commit-twice": (
        "OffsetCommit to one partition twice", "OffsetCommit", 7, lambda talk: _commit(talk, [_topic(talk, [0, 0])]),
    ),
    "commit-negative-offset": (
        "OffsetCommit of offset -5", "OffsetCommit", 7, lambda talk: _commit(talk, [_topic(talk, [0], offset=-5)]),
    ),
    "commit-null-metadata": (
        "OffsetCommit with null metadata", "OffsetCommit", 7,
        lambda talk: _commit(talk, [_topic(talk, [0], metadata=None)]),
    ),
    "commit-unknown-topic": (
        "OffsetCommit to an unknown topic", "OffsetCommit", 7,
        lambda talk: _commit(talk, [{"name": "conform-nowhere", "partitions": [{"partition_index": 0}]}]),
    ),
    "commit-empty-topic": (
        "OffsetCommit to a topic without a name", "OffsetCommit", 7,
        lambda talk: _commit(talk, [{"name": "", "partitions": [{"partition_index": 0}]}]),
    ),
    "list-no-such-state": ("ListGroups in a state of no group", "ListGroups", 4, lambda _: {"states_filter": ["None"]}),
    "find-type-9": (
        "FindCoordinator of key type 9", "FindCoordinator", 2, lambda talk: {"key": talk.group, "key_type": 9},
    ),
    "find-types-9": (
        "FindCoordinator v4 of key type 9", "FindCoordinator", 4,
        lambda talk: {"key_type": 9, "coordinator_keys": [talk.group]},
    ),
    "find-empty": ("FindCoordinator of an empty key", "FindCoordinator", 2, lambda _: {"key": "", "key_type": 0}),
    "find-nothing": ("FindCoordinator of no key", "FindCoordinator", 4, lambda _: {"coordinator_keys": []}),
    "leave-nobody": ("LeaveGroup of no member", "LeaveGroup", 4, lambda talk: {"group_id": talk.group, "members": []}),
    "software-name": (
        "ApiVersions with a name that is none", "ApiVersions", 3,
        lambda _: {"client_software_name": "two words!", "client_software_version": "1"},
    ),
    "software-version-empty": (
        "ApiVersions without a software version", "ApiVersions", 3, lambda _: {"client_software_name": "rota"},
    ),
    "offset-delete-nothing": (
        "OffsetDelete of no topic", "OffsetDelete", 0, lambda talk: {"group_id": talk.group, "topics": []},
    ),
    "heartbeat-least-generation": (
        "Heartbeat with the least generation", "Heartbeat", 3,
        lambda talk: {"group_id": talk.group, "generation": -INT32_MAX - 1, "member_id": "x"},
    ),
    "heartbeat-empty-instance": (
        "Heartbeat with an empty instance id", "Heartbeat", 3,
        lambda talk: {"group_id": talk.group, "generation": 1, "member_id": "x", "instance_id": ""},
    ),
    "join-session-0": ("a session timeout of 0", "JoinGroup", 5, lambda talk: talk.joining("x", session_timeout_ms=0)),
    "join-session-negative": (
        "a session timeout of -1", "JoinGroup", 5, lambda talk: talk.joining("x", session_timeout_ms=-1),
    ),
    "join-session-longest": (
        "the longest session timeout of all", "JoinGroup", 5,
        lambda talk: talk.joining("x", session_timeout_ms=INT32_MAX),
    ),
    "join-empty-name": (
        "a protocol without a name", "JoinGroup", 5,
        lambda talk: talk.joining("x", protocols=[{"name": "", "metadata": b""}]),
    ),
    "join-no-protocols": ("no protocols", "JoinGroup", 5, lambda talk: talk.joining("x", protocols=[])),
    "join-no-type": ("no protocol type", "JoinGroup", 5, lambda talk: talk.joining("x", protocol_type="")),
    "join-unknown-member": (
        "a member id of 32,767 letters", "JoinGroup", 5, lambda talk: talk.joining("x", member_id="m" * LONG),
    ),
    "join-odd-group": (
        "a group id with a slash and a line end", "JoinGroup", 5,
        lambda talk: talk.joining("x", group_id=talk.group + "/\n"),
    ),
}  # fmt: skip

#: The same for bytes: id -> what it is, the frame.
FRAMES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "rest-behind": ("a Heartbeat v3 with a byte too many", lambda: _heartbeat(3) + b"\0"),
    "cut-off": ("a Heartbeat v3 without its last byte", lambda: _heartbeat(3)[:-1]),
    "unknown-tag": ("a Heartbeat v4 with an unknown tagged field", lambda: _heartbeat(4)[:-1] + TAG_OF_NOBODY),
    "unknown-tag-in-header": ("the same in the header", lambda: _tagged_header()),
    "null-member-id": (
        "a Heartbeat v3 whose member id is null", lambda: _bare(12, 3, b"\0\1g" + b"\0\0\0\1" + b"\xff\xff\xff\xff"),
    ),
    "null-list": ("DescribeGroups v0 with null for the groups", lambda: _bare(15, 0, b"\xff\xff\xff\xff")),
    "length-minus-2": ("DescribeGroups v0 with -2 groups", lambda: _bare(15, 0, b"\xff\xff\xff\xfe")),
    "endless-list": ("DescribeGroups v0 with 2,147,483,647 groups", lambda: _bare(15, 0, b"\x7f\xff\xff\xff")),
    "not-utf-8": ("DescribeGroups v0 of a name that is not UTF-8", lambda: _bare(15, 0, b"\0\0\0\1\0\2\xff\xfe")),
    "unknown-api": ("API 9999", lambda: _bare(9_999, 0, b"")),
    "negative-api": ("API -1", lambda: _bare(-1, 0, b"")),
    "negative-version": ("Heartbeat v-1", lambda: _bare(12, -1, b"")),
    "versions-99": ("ApiVersions v99", lambda: _bare(18, 99, b"\0")),
    "half-a-header": ("three bytes", lambda: b"\0\x12\0"),
    "nothing": ("a frame of no bytes", lambda: b""),
    "no-client-id": (
        "ApiVersions v0 with null for the client id", lambda: write_request(VERSIONS, 0, 1, None, {}),
    ),
    "negative-correlation-id": ("correlation id -1", lambda: write_request(VERSIONS, 0, -1, "x", {})),
}  # fmt: skip

#: Lengths that no frame has.
LENGTHS = {"negative-length": -1, "length-too-large": TOO_LARGE, "http": struct.unpack(">i", b"GET ")[0]}


def rows() -> Iterator[Row]:
    """A row for each of them."""
    for name, (says, api, version, values) in PARSEABLE.items():
        yield probe(
            f"malformed/{name}",
            says,
            "17.2",
            partial(_ask, api=api, version=version, values=values),
            needs_topics="fetch" in name or "commit" in name,
        )
    for name, (says, frame) in FRAMES.items():
        yield probe(f"malformed/{name}", says, "17.2", partial(_send, frame=frame))
    for name, length in LENGTHS.items():
        says = f"a frame that says it has {length} bytes"
        yield probe(f"malformed/{name}", says, "17.2", partial(_announce, length=length))


def _ask(talk: Talk, api: str, version: int, values: Values) -> None:
    fields = talk.ask("x", api, talk.version(api, version), values(talk), talk.patience_s)
    if api == "ApiVersions":
        fields |= {"api_keys": "*"}
    if api == "ListGroups":
        fields |= {"groups": [each for each in fields["groups"] if each["group_id"].startswith(talk.visit.prefix)]}
    talk.show_answer(f"{api} v{version}", fields)
    _is_alive(talk)


def _send(talk: Talk, frame: Callable[[], bytes]) -> None:
    talk.step = "bytes"
    talk.on("x").send_frame(frame(), "bytes of this row")
    _what_comes(talk)
    _is_alive(talk)


def _announce(talk: Talk, length: int) -> None:
    talk.step = "bytes"
    talk.on("x").send_bytes(struct.pack(">i", length) + b" / HTTP/1.1\r\n\r\n")
    _what_comes(talk)
    _is_alive(talk)


def _what_comes(talk: Talk) -> None:
    """An answer's error code where it stands in these, or how the connection ends."""
    try:
        answer = talk.on("x").frame(SILENCE_S)
        talk.show("bytes", f"{len(answer)} bytes" if len(answer) < 6 else f"begins with {answer[4:6].hex()}")
    except (ClosedError, SilentError, GarbledError) as error:
        talk.show("bytes", FAULT + type(error).__name__.removesuffix("Error").lower())


def _is_alive(talk: Talk) -> None:
    """Whether the connection goes on."""
    connection = talk.on("x")
    try:
        connection.asked.clear()
        connection.ask("ApiVersions", 0, {}, SILENCE_S)
        talk.show("the connection", "goes on")
    except (ClosedError, SilentError, GarbledError):
        talk.show("the connection", "is of no use any more")


def _bare(key: int, version: int, body: bytes) -> bytes:
    return struct.pack(">hhih", key, version, 1, 1) + b"x" + body


def _heartbeat(version: int) -> bytes:
    return write_request(HEARTBEAT, version, 1, "x", {"group_id": "conform-nowhere", "generation": 1, "member_id": "m"})


def _tagged_header() -> bytes:
    frame = _heartbeat(4)
    return frame[:11] + TAG_OF_NOBODY + frame[12:]


def _topic(talk: Talk, indexes: list[int], offset: int = 5, metadata: str | None = "") -> Fields:
    parts = [
        {"partition_index": index, "offset": offset, "leader_epoch": -1, "metadata": metadata} for index in indexes
    ]
    return {"name": talk.visit.topic("t"), "partitions": parts}


def _commit(talk: Talk, topics: list[Any]) -> Fields:
    return {"group_id": talk.group, "generation": -1, "member_id": "", "topics": topics}


def _fetch(talk: Talk, indexes: list[int]) -> Fields:
    return {"group_id": talk.group, "topics": [{"name": talk.visit.topic("t"), "partition_indexes": indexes}]}
