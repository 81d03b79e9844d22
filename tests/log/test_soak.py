"""The soak in small, and that it notices what grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.soak import Sample, compared, soak

MEMBERS, SECONDS = 40, 2
STEADY = Sample(rss_bytes=100 << 20, descriptors=50, threads=9, slowest_ms=3.0)
DONE = {"joins": 40, "commits": 120}


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_members_come_and_go_while_partitions_move(tmp_path: Path, tls: bool) -> None:
    soaked = soak(tmp_path / "data", SECONDS, MEMBERS, follows=False, tls=tls)
    assert min(soaked.done.values()) > 0, soaked.done
    assert soaked.samples
    assert all(one.rss_bytes > 0 and one.descriptors > 0 and one.threads > 0 for one in soaked.samples)


def test_a_server_that_stays_as_it_is_passes() -> None:
    assert "RSS 100.0 MiB, then 100.0 MiB" in compared(DONE, [STEADY] * 30)


@pytest.mark.parametrize(
    ("grown", "said"),
    [
        (STEADY._replace(rss_bytes=111 << 20), "memory grows"),
        (STEADY._replace(descriptors=63), "descriptors grow"),
        (STEADY._replace(threads=10), "threads grow"),
        (STEADY._replace(slowest_ms=11.1), "answers get slower"),
    ],
)
def test_what_grows_is_noticed(grown: Sample, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        compared(DONE, [STEADY] * 20 + [grown] * 10)


def test_a_soak_in_which_nothing_was_asked_is_noticed() -> None:
    with pytest.raises(AssertionError, match="'commits': 0"):
        compared(DONE | {"commits": 0}, [STEADY] * 30)
