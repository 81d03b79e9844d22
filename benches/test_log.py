"""Records of `__consumer_offsets` on their way into the log and back, from Python: `make bench`."""

from typing import Any

import pytest

import rota

RECORDS, GROUPS = 10_000, 100


@pytest.fixture(scope="module")
def records() -> list[rota.protocol.OffsetRecord]:
    def value(at: int) -> rota.protocol.OffsetValue:
        return rota.protocol.OffsetValue(at, commit_timestamp_ms=1_700_000_000_000)

    return [
        rota.protocol.OffsetRecord(f"group-{at % GROUPS}", "orders", at // GROUPS, value(at)) for at in range(RECORDS)
    ]


def test_records_become_bytes(benchmark: Any, records: list[rota.protocol.OffsetRecord]) -> None:
    pairs = benchmark(lambda: [(record.key_bytes(), record.value_bytes()) for record in records])
    assert len(pairs) == RECORDS


def test_bytes_become_records(benchmark: Any, records: list[rota.protocol.OffsetRecord]) -> None:
    pairs = [(record.key_bytes(), record.value_bytes()) for record in records]
    assert benchmark(lambda: [rota.protocol.decode_record(*pair) for pair in pairs]) == records


def test_records_are_replayed(benchmark: Any, records: list[rota.protocol.OffsetRecord]) -> None:
    def replay() -> rota.coordinator.Coordinator:
        coordinator = rota.coordinator.Coordinator()
        for offset, record in enumerate(records):
            coordinator.replay(record, offset, 0)
        return coordinator

    assert len(benchmark(replay).group_ids()) == GROUPS
