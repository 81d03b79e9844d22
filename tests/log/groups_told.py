"""What a coordinator tells of its groups, by hand-made requests: the same of Kafka and of rota."""

from __future__ import annotations

from typing import TypedDict

from harness.raw import (
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_FETCH,
    Connection,
    Reader,
    frame,
    i32,
    string,
    varint,
)


class MemberTold(TypedDict):
    """A member in an answer to DescribeGroups; bytes are in hexadecimal digits."""

    member: str
    instance: str | None
    client: str
    host: str
    metadata: str
    assignment: str


class GroupTold(TypedDict):
    """A group in an answer to DescribeGroups."""

    error: int
    state: str
    protocol_type: str
    protocol: str
    members: list[MemberTold]


class Told(TypedDict):
    """Everything, by group."""

    listed: dict[str, list[str]]
    described: dict[str, GroupTold]
    offsets: dict[str, list[list[object]]]


def listed(connection: Connection) -> dict[str, list[str]]:
    """Protocol type, state and type of each group, by ListGroups v5."""
    answer = connection.ask(frame(LIST_GROUPS, 5, varint(1) + varint(1) + b"\0"))
    answer.take(1), answer.i32()
    assert answer.i16() == 0
    groups = {}
    for _ in range(answer.varint() - 1):
        name = answer.compact() or ""
        groups[name] = [answer.compact() or "" for _ in range(3)]
        answer.take(1)
    return groups


def described(connection: Connection, group: str) -> GroupTold:
    """By DescribeGroups v4, without what the client may do."""
    answer = connection.ask(frame(DESCRIBE_GROUPS, 4, i32(1) + string(group) + b"\0"))
    answer.i32()
    assert answer.i32() == 1
    error, name = answer.i16(), answer.string()
    assert name == group
    state, protocol_type, protocol = (answer.string() or "" for _ in range(3))
    members = sorted((member(answer) for _ in range(answer.i32())), key=lambda told: told["member"])
    return GroupTold(error=error, state=state, protocol_type=protocol_type, protocol=protocol, members=members)


def member(answer: Reader) -> MemberTold:
    return MemberTold(
        member=answer.string() or "",
        instance=answer.string(),
        client=answer.string() or "",
        host=answer.string() or "",
        metadata=answer.blob().hex(),
        assignment=answer.blob().hex(),
    )


def offsets(connection: Connection, group: str) -> list[list[object]]:
    """All of them, by OffsetFetch v5: topic, partition, offset, leader epoch, metadata, error."""
    answer = connection.ask(frame(OFFSET_FETCH, 5, string(group) + i32(-1)))
    answer.i32()
    found: list[list[object]] = []
    for _ in range(answer.i32()):
        topic = answer.string()
        found += [
            [topic, answer.i32(), answer.i64(), answer.i32(), answer.string(), answer.i16()]
            for _ in range(answer.i32())
        ]
    assert answer.i16() == 0
    return sorted(found, key=str)


def told(address: tuple[str, int], groups: list[str]) -> Told:
    """Of all groups; of those that are named also what is described and stored."""
    with Connection(address) as connection:
        return Told(
            listed=listed(connection),
            described={group: described(connection, group) for group in groups},
            offsets={group: offsets(connection, group) for group in groups},
        )


def differences(expected: Told, found: Told) -> list[str]:
    """The differences between the two, a line each."""
    lines = []
    for part in ("listed", "described", "offsets"):
        here, there = expected[part], found[part]
        groups = [group for group in sorted({*here, *there}) if here.get(group) != there.get(group)]
        lines += [f"{part} {group}: expected {here.get(group)}, found {there.get(group)}" for group in groups]
    return lines
