"""Heartbeats on arrays."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rota

from .steps import Driver, active, stable

NOBODY = 2**64 - 1


def handles(driver: Driver, *member_ids: str) -> NDArray[np.uint64]:
    """Their handles in group `g`."""
    return driver.coordinator.member_handles("g", member_ids)


def generations(*numbers: int) -> NDArray[np.int32]:
    """Generations in the form that `heartbeats` takes."""
    return np.array(numbers, dtype=np.int32)


def test_each_heartbeat_gets_the_code_that_it_would_get_alone() -> None:
    driver, member_id = stable()
    found = handles(driver, member_id, "nobody", member_id)
    assert (found.dtype.name, found.shape, int(found[1])) == ("uint64", (3,), NOBODY)
    codes = driver.coordinator.heartbeats(5, found, generations(1, 1, 0))
    assert codes.dtype == np.int16
    alone = [
        driver.coordinator.submit(5, ticket, rota.protocol.Heartbeat("g", *who), entropy=1)
        for ticket, who in enumerate([(member_id, 1), ("nobody", 1), (member_id, 0)])
    ]
    assert codes.tolist() == [answer.error for (answer,) in alone if isinstance(answer, rota.protocol.HeartbeatAnswer)]
    assert codes.tolist() == [0, 25, 22]


def test_a_heartbeat_on_an_array_keeps_its_member_alive() -> None:
    driver, member_id = stable()
    found = handles(driver, member_id)
    driver.now_ms = 40_000
    driver.coordinator.heartbeats(40_000, found, generations(1))
    driver.advance(44_999)
    assert driver.coordinator.heartbeats(driver.now_ms, found, generations(1)).tolist() == [0]
    driver.advance(45_000)
    assert driver.coordinator.heartbeats(driver.now_ms, found, generations(1)).tolist() == [25]


def test_a_handle_dies_with_its_member() -> None:
    driver, member_id = stable()
    old = handles(driver, member_id)
    driver.submit(rota.protocol.LeaveGroup("g", [member_id]))
    newcomer = driver.join()
    driver.advance(0)
    assert driver.coordinator.heartbeats(driver.now_ms, old, generations(3)).tolist() == [25]
    assert handles(driver, newcomer).tolist() != old.tolist()


def test_slices_and_empty_arrays_are_arrays() -> None:
    driver, member_id = stable()
    pairs = handles(driver, *[member_id, "nobody"] * 3)
    codes = driver.coordinator.heartbeats(0, pairs[::2], np.ones(6, dtype=np.int32)[::-2])
    assert codes.tolist() == [0, 0, 0]
    assert driver.coordinator.heartbeats(0, pairs[:0], generations()).shape == (0,)


@pytest.mark.parametrize(
    ("bad_handles", "bad_generations", "message"),
    [
        ([1], generations(1), "handles must be a one-dimensional array of uint64 .*, not list"),
        (np.array([1]), generations(1), r"handles must be .* uint64 .*, not int64 of shape \(1,\)"),
        (np.zeros((1, 1), dtype=np.uint64), generations(1), r"not uint64 of shape \(1, 1\)"),
        (np.zeros(1, dtype=np.uint64), np.array([1]), "generations must be .* int32 .*, not int64"),
        (np.zeros(2, dtype=np.uint64), generations(1), "must have the same length, not 2 and 1"),
    ],
)
def test_other_arrays_are_refused_with_what_was_expected(bad_handles: Any, bad_generations: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        active().coordinator.heartbeats(0, bad_handles, bad_generations)


def test_time_does_not_go_back_on_arrays_either() -> None:
    driver, member_id = stable()
    driver.advance(10)
    with pytest.raises(ValueError, match="now_ms went back: 9 after 10"):
        driver.coordinator.heartbeats(9, handles(driver, member_id), generations(1))


def test_threads_can_share_a_coordinator() -> None:
    driver, member_id = stable()
    found = np.repeat(handles(driver, member_id), 2_000)
    expected = generations(*[1] * len(found))
    failures: list[object] = []

    def beat() -> None:
        for _ in range(50):
            codes = driver.coordinator.heartbeats(100, found, expected)
            if codes.any():
                failures.append(codes)

    def ask() -> None:
        for ticket in range(500):
            (answer,) = driver.coordinator.submit(100, ticket, rota.protocol.Heartbeat("g", member_id, 1), entropy=1)
            if answer != rota.protocol.HeartbeatAnswer(ticket, rota.protocol.ErrorCode.NONE):
                failures.append(answer)

    threads = [threading.Thread(target=work) for work in (beat, ask, beat, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures
