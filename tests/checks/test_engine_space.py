"""`benches.engine_space` puts each second of commits where it belongs."""

from __future__ import annotations

from benches.engine_space import COMPACTION, QUIET, SNAPSHOT, Sample, Space


def space(*counts: tuple[int, int], p99_us: list[int]) -> Space:
    """Seconds with how many keys are compacted and how many snapshots are written by then."""
    samples = [Sample(at, 900, 700, keys, snapshots, 3e6 - at * 1e6) for at, (keys, snapshots) in enumerate(counts)]
    seconds = [{"second": at, "commits": 10, "p99_us": took, "max_us": 0} for at, took in enumerate(p99_us)]
    return Space(samples, seconds, state_bytes=200)


def test_a_second_belongs_to_what_happened_in_it_and_around_it() -> None:
    counts = [(0, 0), (0, 0), (0, 0), (5, 0), (5, 0), (5, 0), (5, 0), (5, 1)]
    found = space(*counts, p99_us=[1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000]).p99_ms()
    assert found == {QUIET: [1, 5], COMPACTION: [2, 3, 4], SNAPSHOT: [6, 7, 8]}


def test_a_second_with_both_counts_for_both() -> None:
    assert space((0, 0), (1, 1), p99_us=[1_000, 3_000]).p99_ms() == {COMPACTION: [1, 3], SNAPSHOT: [1, 3]}


def test_the_file_is_compared_with_state_and_churn() -> None:
    figures = space((0, 0), (0, 0), p99_us=[1_000, 3_000]).figures(churn_bytes=100)
    assert figures["file / bound"] == 3
    assert figures["commits/s"] == 10
    assert figures["memory of a member MB"] == 3
    assert figures["commit p99 ms"] == {QUIET: 2}


def test_commits_that_are_answered_late_lower_the_rate() -> None:
    found = space((0, 0), (0, 0), p99_us=[1_000, 3_000])
    found.seconds[-1]["max_us"] = 2_000_000
    figures = found.figures(churn_bytes=100)
    assert (figures["commits/s"], figures["answered late s"]) == (5, 2)
