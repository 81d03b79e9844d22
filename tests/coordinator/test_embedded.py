"""The embedded consumer protocol (docs/protocol.md §18)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota

OWNED = [("a", [0, 2]), ("b", [1])]
SUBSCRIPTIONS = {
    "0000 00000002 0001 61 0001 62 ffffffff": rota.protocol.Subscription(["a", "b"], version=0),
    "0001 00000002 0001 61 0001 62 ffffffff 00000002 0001 61 00000002 00000000 00000002 0001 62 00000001 00000001": (
        rota.protocol.Subscription(["a", "b"], owned_partitions=OWNED, version=1)
    ),
    "0003 00000001 0001 61 ffffffff 00000000 ffffffff ffff": rota.protocol.Subscription(["a"]),
    "0003 00000000 00000001 ff 00000000 00000005 0002 7231": (
        rota.protocol.Subscription([], user_data=b"\xff", generation=5, rack="r1")
    ),
}


@pytest.mark.parametrize("text", SUBSCRIPTIONS)
def test_known_bytes_are_the_known_subscription(text: str) -> None:
    assert rota.protocol.decode_subscription(bytes.fromhex(text)) == SUBSCRIPTIONS[text]
    assert rota.protocol.encode_subscription(SUBSCRIPTIONS[text]) == bytes.fromhex(text)


def test_known_bytes_are_the_known_assignment() -> None:
    data = bytes.fromhex("0003 00000001 0001 61 00000002 00000000 00000002 ffffffff")
    assert rota.protocol.decode_assignment(data) == rota.protocol.Assignment([("a", [0, 2])])
    assert rota.protocol.encode_assignment(rota.protocol.Assignment([("a", [0, 2])])) == data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the bytes end inside `version`"),
        ("ffff 00000000", "version -1 is negative"),
        ("0000 7fffffff", "the bytes end inside `topics`"),
        ("0000 ffffffff", "`topics` is null"),
        ("0000 00000001 0001 ff ffffffff", "`topics` is not UTF-8"),
    ],
)
def test_other_bytes_are_refused_with_the_field_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(rota.EmbeddedError, match=message):
        rota.protocol.decode_subscription(bytes.fromhex(text))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_message_or_an_embedded_error(data: bytes) -> None:
    for decode in (rota.protocol.decode_subscription, rota.protocol.decode_assignment):
        with contextlib.suppress(rota.EmbeddedError):
            decode(data)


def test_what_has_no_room_is_not_written() -> None:
    with pytest.raises(rota.EmbeddedError, match="`topics` is too long"):
        rota.protocol.encode_subscription(rota.protocol.Subscription(["t" * 32_768]))
    with pytest.raises(rota.EmbeddedError, match="version -3 is negative"):
        rota.protocol.encode_assignment(rota.protocol.Assignment([], version=-3))
