"""rota writes the records that Apache Kafka 4.4.0 wrote in the same sessions of the newer protocol."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.conform import consumer_records
from tests.conform.consumer_records import (
    EXPLAINED_STEPS,
    Played,
    Recording,
    all_differences,
    differences,
    kind_of,
    on_rota,
    recorded,
    sessions,
)

# One worker plays them.
pytestmark = pytest.mark.xdist_group("consumer records")
TOLD = recorded()
#: Bytes of a value whose arrays and strings are empty, and a place in every value that is no time and no length.
EMPTY, IN_VALUE = bytes(40), 5
ALL_KINDS = {1, 2, 3, 5, 6, 7, 8, 16}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """What rota writes."""
    return on_rota(tmp_path_factory.mktemp("records") / "data", TOLD.topics)


def test_keys_and_values_are_those_of_kafka_byte_by_byte(ours: dict[str, Played]) -> None:
    wrong = all_differences(TOLD, ours)
    assert wrong == {}, "\n".join(f"{name}: {line}" for name, lines in wrong.items() for line in lines)


def test_every_session_is_recorded_and_every_kind_of_record_is_in_one() -> None:
    assert set(TOLD.rows) == set(sessions())
    told = [record for steps in TOLD.rows.values() for _, new in steps for record in new]
    assert {kind_of(key) for key, value in told if value is not None} == ALL_KINDS
    assert {kind_of(key) for key, value in told if value is None} == {*ALL_KINDS, 4}


def test_steps_that_are_explained_do_differ(ours: dict[str, Played]) -> None:
    for name, step in EXPLAINED_STEPS:
        assert differences(name, TOLD.rows[name], ours[name], {})[0] == step


def planted(ours: Played, at: int, record: tuple[bytes, bytes | None] | None) -> Played:
    """A session with another record, or none, in the place of one."""
    steps, left = [], at
    for step, new in ours.steps:
        if 0 <= left < len(new):
            steps.append((step, [*new[:left], *([record] if record else []), *new[left + 1 :]]))
        else:
            steps.append((step, new))
        left -= len(new)
    return Played(steps, ours.names)


@pytest.mark.parametrize("name", ["V08-static-members", "bidirectional/the-last-consumer-leaves", "deletions"])
def test_another_record_anywhere_is_found(ours: dict[str, Played], name: str) -> None:
    records = [each for _, new in ours[name].steps for each in new]
    assert len(records) > 10
    for at, (key, value) in enumerate(records):
        others: list[tuple[bytes, bytes | None] | None] = [None, (key + b"\0", value)]
        if value is None:
            others.append((key, EMPTY))
        else:
            flipped = value[:IN_VALUE] + bytes((value[IN_VALUE] ^ 1,)) + value[IN_VALUE + 1 :]
            others += [(key, None), (key, flipped)]
        for other in others:
            assert differences(name, TOLD.rows[name], planted(ours[name], at, other)), (at, other)


def test_another_hash_of_the_topics_is_found(ours: dict[str, Played]) -> None:
    told = dataclasses.replace(TOLD, topics=dict(TOLD.topics))
    name = "V10-the-last-member-leaves"
    hashes = [(at, each) for at, each in enumerate(flat(ours[name])) if kind_of(each[0]) == 3 and each[1] is not None]
    at, (key, value) = next(found for found in hashes if len(found[1][1] or b"") > 7)
    assert value is not None
    assert differences(name, told.rows[name], planted(ours[name], at, (key, value[:-8] + bytes(8))))


def flat(played: Played) -> list[tuple[bytes, bytes | None]]:
    return [each for _, new in played.steps for each in new]


def test_records_in_another_order_are_found(ours: dict[str, Played]) -> None:
    name = "V08-static-members"
    step, new = next((step, new) for step, new in ours[name].steps if len(new) > 4)
    steps = [(each, list(reversed(new)) if each == step else other) for each, other in ours[name].steps]
    assert differences(name, TOLD.rows[name], Played(steps, ours[name].names))


def test_a_recording_is_read_as_it_was_written() -> None:
    again = Recording(TOLD.topics, TOLD.rows)
    assert again.dump() == consumer_records.RECORDING.read_text(encoding="utf-8")
    assert Path(consumer_records.RECORDING).stat().st_size < 500_000
