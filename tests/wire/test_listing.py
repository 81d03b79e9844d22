"""DescribeGroups and ListGroups over all partitions (docs/protocol.md §12)."""

from __future__ import annotations

from harness.raw import DESCRIBE_GROUPS, LIST_GROUPS, Connection, Member, blob, compact, frame, i16, i32, string, varint

Address = tuple[str, int]


def test_groups_of_all_partitions_are_listed(address: Address) -> None:
    names = {f"group-{number}" for number in range(60)}
    members = [Member(address, name) for name in names]
    with Connection(address) as connection:
        answer = connection.ask(frame(LIST_GROUPS, 0))
        assert answer.i16() == 0
        listed = [(answer.string(), answer.string()) for _ in range(answer.i32())]
    assert sorted(listed, key=str) == [(name, "consumer") for name in sorted(names)]
    for member in members:
        member.connection.close()


def test_a_listing_is_filtered_by_state_and_type(address: Address) -> None:
    with Member(address, "g"), Connection(address) as connection:
        for states, types, found in [("stable", "CLASSIC", True), ("Empty", "classic", False), ("Stable", "no", False)]:
            body = varint(2) + compact(states) + varint(2) + compact(types) + b"\0"
            answer = connection.ask(frame(LIST_GROUPS, 5, body))
            line = compact("g") + compact("consumer") + compact("Stable") + compact("classic") + b"\0"
            assert answer.data == b"\0" + i32(0) + i16(0) + varint(1 + found) + line * found + b"\0"


def test_groups_are_described_in_the_order_of_the_request(address: Address) -> None:
    with Member(address, "g") as member, Connection(address) as connection:
        answer = connection.ask(frame(DESCRIBE_GROUPS, 0, i32(2) + string("missing") + string("g")))
    assert answer.i32() == 2
    missing = [answer.i16(), *(answer.string() for _ in range(4)), answer.i32()]
    assert missing == [0, "missing", "Dead", "", "", 0]
    assert (answer.i16(), answer.string(), answer.string()) == (0, "g", "Stable")
    assert (answer.string(), answer.string(), answer.i32()) == ("consumer", "range", 1)
    assert (answer.string(), answer.string(), answer.string()) == (member.member_id, "raw", "/127.0.0.1")
    assert answer.data == blob(b"metadata") + blob(b"plan")


def test_what_a_client_may_do_is_said_when_it_asks(address: Address) -> None:
    with Connection(address) as connection:
        for asks, operations in [(b"\1", 3400), (b"\0", -(2**31))]:
            answer = connection.ask(frame(DESCRIBE_GROUPS, 5, varint(2) + compact("missing") + asks + b"\0"))
            described = i16(0) + compact("missing") + compact("Dead") + varint(1) * 3 + i32(operations) + b"\0"
            assert answer.data == b"\0" + i32(0) + varint(2) + described + b"\0"


def test_a_missing_group_is_an_error_with_a_message_from_version_6_on(address: Address) -> None:
    with Connection(address) as connection:
        answer = connection.ask(frame(DESCRIBE_GROUPS, 6, varint(2) + compact("missing") + b"\0\0"))
    described = i16(69) + compact("Group missing not found.") + compact("missing") + compact("Dead")
    assert answer.data == b"\0" + i32(0) + varint(2) + described + varint(1) * 3 + i32(-(2**31)) + b"\0\0"


def test_no_groups_are_described_by_none(address: Address) -> None:
    with Connection(address) as connection:
        assert connection.ask(frame(DESCRIBE_GROUPS, 0, i32(0))).data == i32(0)
