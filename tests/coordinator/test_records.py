"""Records to bytes and back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota

TEXT = st.text(max_size=8)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)

MEMBERS = st.builds(
    rota.protocol.MemberValue,
    TEXT,
    st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=NUMBERS,
    session_timeout_ms=NUMBERS,
    subscription=st.binary(max_size=8),
    assignment=st.binary(max_size=8),
)
GROUPS = st.builds(
    rota.protocol.GroupValue, TEXT, NUMBERS, st.none() | TEXT, st.none() | TEXT, LONGS, st.lists(MEMBERS, max_size=3)
)
# A value with an expiry is written in version 1, which has neither leader epoch nor topic id.
OFFSETS = st.builds(
    rota.protocol.OffsetValue, LONGS, NUMBERS, TEXT, commit_timestamp_ms=LONGS, topic_id=st.integers(0, 2**128 - 1)
)
RECORDS = st.builds(rota.protocol.OffsetRecord, TEXT, TEXT, NUMBERS, st.none() | OFFSETS) | st.builds(
    rota.protocol.GroupRecord, TEXT, st.none() | GROUPS
)


@given(RECORDS)
def test_what_is_written_is_read_back(record: rota.protocol.OffsetRecord | rota.protocol.GroupRecord) -> None:
    assert rota.protocol.decode_record(record.key_bytes(), record.value_bytes()) == record


def test_a_key_of_another_type_is_kept_as_it_is() -> None:
    record = rota.protocol.decode_record(b"\x00\x09abcd", b"value")
    assert record == rota.protocol.UnknownRecord(b"\x00\x09abcd", b"value")
    assert (record.key_bytes(), record.value_bytes()) == (b"\x00\x09abcd", b"value")


def test_a_tombstone_has_no_value() -> None:
    assert rota.protocol.GroupRecord("g", None).value_bytes() is None
    assert rota.protocol.decode_record(
        rota.protocol.GroupRecord("g", None).key_bytes(), None
    ) == rota.protocol.GroupRecord("g", None)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_arbitrary_bytes_are_a_record_or_a_record_error(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(rota.RecordError):
        assert isinstance(rota.protocol.decode_record(key, value), rota.protocol.Record)


def test_a_string_without_room_in_a_record_is_refused() -> None:
    with pytest.raises(rota.RecordError, match="32768 bytes is too long for a record"):
        rota.protocol.GroupRecord("g" * 32_768, None).key_bytes()
    with pytest.raises(rota.RecordError, match="40000 bytes is too long for a record"):
        rota.protocol.OffsetRecord("g", "t", 0, rota.protocol.OffsetValue(1, metadata="m" * 40_000)).value_bytes()
