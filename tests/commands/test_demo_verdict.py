"""The demo's judge: what it must let pass, and what it must never let pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.demo.evidence import (
    Acknowledged,
    Checkpoint,
    Ended,
    Evidence,
    Ownership,
    Partition,
    Resumed,
    Snapshot,
    told,
)
from rota.demo.verdict import checkpoint_faults, judge, tenures

TOPICS = {"orders": 2, "payments": 1}
O0, O1, P0 = Partition("orders", 0), Partition("orders", 1), Partition("payments", 0)
BOTH = frozenset(TOPICS)
STEPS = ("ana joins", "ben joins")


def owned(*partitions: Partition) -> frozenset[Partition]:
    return frozenset(partitions)


def a_good_run() -> Evidence:
    """ana owns everything in generation 1; ben joins, and takes orders-1 over in generation 2."""
    first = Snapshot(110, "Stable", {"ana-1": owned(O0, O1, P0)})
    second = Snapshot(330, "Stable", {"ana-1": owned(O0, P0), "ben-1": owned(O1)})
    return Evidence(
        ownerships=[
            Ownership("ana", 100, owned(O0, O1, P0), 1),
            Ownership("ana", 300, owned(), 1, assigned=False),
            Ownership("ana", 310, owned(O0, P0), 2),
            Ownership("ben", 311, owned(O1), 2),
        ],
        commits=[
            Acknowledged("ana", 200, O0, 4),
            Acknowledged("ana", 200, O1, 5),
            Acknowledged("ana", 200, P0, 6),
            Acknowledged("ben", 400, O1, 9),
        ],
        resumptions=[Resumed("ana", 100, O1, 0), Resumed("ben", 311, O1, 5)],
        snapshots=[Snapshot(90, "CompletingRebalance", {"ana-1": owned()}), first, second],
        checkpoints=[
            Checkpoint("ana joins", {"ana": BOTH}, {"ana": owned(O0, O1, P0)}, first),
            Checkpoint("ben joins", {"ana": BOTH, "ben": BOTH}, {"ana": owned(O0, P0), "ben": owned(O1)}, second),
        ],
        committed={O0: 4, O1: 9, P0: 6},
    )


def failures(evidence: Evidence) -> str:
    return "\n".join(judge(evidence, TOPICS, STEPS).failures)


def test_a_good_run_passes_and_says_what_it_rests_on() -> None:
    verdict = judge(a_good_run(), TOPICS, STEPS)
    assert verdict.failures == ()
    assert verdict.ok
    assert verdict.generations == (1, 2)
    assert verdict.stable_snapshots == 2
    assert verdict.commits_acknowledged == 4


def test_two_owners_in_one_generation_are_caught_even_at_different_times() -> None:
    run = a_good_run()
    run.ownerships.append(Ownership("ana", 500, owned(), 2, assigned=False))
    run.ownerships.append(Ownership("cleo", 510, owned(P0), 2))
    assert "generation 2: payments-0 was assigned to ana and cleo" in failures(run)


def test_two_owners_at_one_moment_are_caught_without_any_generation() -> None:
    run = a_good_run()
    run.ownerships = [replace(each, generation=None) for each in run.ownerships]
    run.ownerships[-1] = replace(run.ownerships[-1], at_ms=250)
    assert "orders-1 was owned by ana and ben at once, for 50 ms" in failures(run)


def test_two_owners_in_a_stable_description_are_caught_though_no_client_says_so() -> None:
    run = a_good_run()
    run.snapshots.insert(2, Snapshot(320, "Stable", {"ana-1": owned(O0, O1, P0), "ben-1": owned(O1)}))
    assert "Stable group in which ana-1 and ben-1 own orders-1" in failures(run)


def test_a_description_of_a_group_that_is_not_stable_proves_nothing_either_way() -> None:
    run = a_good_run()
    run.snapshots.insert(2, Snapshot(320, "PreparingRebalance", {"ana-1": owned(O0, O1), "ben-1": owned(O1)}))
    assert judge(run, TOPICS, STEPS).ok


def test_a_gap_in_the_consumers_word_is_caught() -> None:
    run = a_good_run()
    run.checkpoints[1] = replace(run.checkpoints[1], by_clients={"ana": owned(O0, P0), "ben": owned()})
    assert "after ben joins: by the consumers' word, orders-1 had no owner" in failures(run)


def test_a_gap_in_the_coordinators_word_is_caught() -> None:
    run = a_good_run()
    described = Snapshot(330, "Stable", {"ana-1": owned(O0), "ben-1": owned(O1)})
    run.checkpoints[1] = replace(run.checkpoints[1], by_coordinator=described)
    assert "after ben joins: by the coordinator's word, payments-0 had no owner" in failures(run)


def test_an_owner_who_does_not_subscribe_is_caught() -> None:
    run = a_good_run()
    run.checkpoints[1] = replace(
        run.checkpoints[1], subscriptions={"ana": frozenset({"orders"}), "ben": frozenset({"payments"})}
    )
    found = failures(run)
    assert "ana owns payments-0 and does not subscribe to it" in found
    assert "ben owns orders-1 and does not subscribe to it" in found


def test_a_partition_that_nobody_subscribes_to_needs_no_owner() -> None:
    only_orders = frozenset({"orders"})
    described = Snapshot(1, "Stable", {"ana-1": owned(O0, O1)})
    settled = Checkpoint("x", {"ana": only_orders}, {"ana": owned(O0, O1)}, described)
    assert list(checkpoint_faults(settled, TOPICS)) == []
    kept = replace(settled, by_clients={"ana": owned(O0, O1, P0)})
    assert "by the consumers' word, payments-0 should not have had an owner" in list(checkpoint_faults(kept, TOPICS))


def test_consumers_and_coordinator_that_disagree_are_caught() -> None:
    run = a_good_run()
    swapped = Snapshot(330, "Stable", {"ana-1": owned(O0), "ben-1": owned(O1, P0)})
    run.checkpoints[1] = replace(run.checkpoints[1], by_coordinator=swapped)
    assert "the consumers and the coordinator disagree about who owns what" in failures(run)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (None, "the group was never described, not Stable"),
        (Snapshot(330, "PreparingRebalance", {}), "the group is PreparingRebalance, not Stable"),
        (Snapshot(330, "Stable", {"ana-1": owned(O0, O1, P0)}), "the group has 1 member, 2 consumers run"),
    ],
)
def test_a_group_that_did_not_settle_is_caught(described: Snapshot | None, said: str) -> None:
    run = a_good_run()
    run.checkpoints[1] = replace(run.checkpoints[1], by_coordinator=described)
    assert f"after ben joins: {said}" in failures(run)


def test_a_commit_that_is_gone_at_the_end_is_caught() -> None:
    run = a_good_run()
    del run.committed[P0]
    expected = "lost commit: ana committed 6 for payments-0 successfully, at the end there is no commit"
    assert expected in failures(run)


def test_a_commit_that_went_backwards_is_caught() -> None:
    run = a_good_run()
    run.committed[O1] = 8
    assert "lost commit: ben committed 9 for orders-1 successfully, at the end 8 was read back" in failures(run)


def test_an_earlier_owners_commit_counts_too() -> None:
    run = a_good_run()
    run.commits[-1] = replace(run.commits[-1], offset=3)
    run.committed[O1] = 3
    assert "lost commit: ana committed 5 for orders-1 successfully, at the end 3 was read back" in failures(run)


def test_a_new_owner_that_resumes_before_an_acknowledged_commit_is_caught() -> None:
    run = a_good_run()
    run.resumptions[-1] = Resumed("ben", 311, O1, 2)
    assert "lost commit: ben resumed orders-1 at 2, after 5 had been acknowledged" in failures(run)


def test_a_commit_acknowledged_after_the_hand_over_does_not_bind_the_new_owner() -> None:
    run = a_good_run()
    run.commits.insert(3, Acknowledged("ana", 312, O1, 7))
    assert judge(run, TOPICS, STEPS).ok


def test_a_killed_consumer_owns_nothing_from_then_on() -> None:
    before, after = [Ownership("ana", 100, owned(O0), 1)], [Ownership("ben", 300, owned(O0), 2)]
    assert [(each.member, each.until_ms) for each in tenures([*before, *after], [Ended("ana", 250)])] == [
        ("ana", 250),
        ("ben", float("inf")),
    ]


def test_a_consumer_that_takes_over_before_the_kill_is_caught() -> None:
    run = a_good_run()
    run.ownerships = [Ownership("ana", 100, owned(O0, O1, P0), 1), Ownership("ben", 240, owned(O1), 2)]
    run.endings = [Ended("ana", 250)]
    assert "orders-1 was owned by ana and ben at once, for 10 ms" in failures(run)


def test_three_owners_at_once_are_caught_when_the_first_outlasts_the_second() -> None:
    run = a_good_run()
    run.ownerships = [
        Ownership("ana", 100, owned(O0)),
        Ownership("ben", 110, owned(O0)),
        Ownership("ben", 120, owned(), assigned=False),
        Ownership("cleo", 130, owned(O0)),
    ]
    found = failures(run)
    assert "owned by ana and ben at once" in found
    assert "owned by ana and cleo at once" in found


def an_overlap(*, lost: bool) -> Evidence:
    """Ana learns after 40 ms that ben was given a partition of hers."""
    run = a_good_run()
    run.ownerships += [
        Ownership("ben", 500, owned(O1, P0), 3),
        Ownership("ana", 540, owned(), 2, assigned=False, lost=lost),
    ]
    return run


def test_who_learns_late_that_its_session_had_ended_is_excused_if_the_caller_says_so() -> None:
    said = "payments-0 was owned by ana and ben at once, for 40 ms"
    verdict = judge(an_overlap(lost=True), TOPICS, STEPS, sessions_may_end=True)
    assert said not in verdict.failures
    assert verdict.lost_late == (said,)
    assert said in judge(an_overlap(lost=True), TOPICS, STEPS).failures
    assert said in judge(an_overlap(lost=False), TOPICS, STEPS, sessions_may_end=True).failures


def test_the_newer_owner_is_not_excused() -> None:
    run = a_good_run()
    run.ownerships += [
        Ownership("ben", 500, owned(O1, P0), 3),
        Ownership("ben", 520, owned(), 3, assigned=False, lost=True),
    ]
    said = "payments-0 was owned by ana and ben at once, for 20 ms"
    assert said in judge(run, TOPICS, STEPS, sessions_may_end=True).failures


def forget_the_snapshots(run: Evidence) -> None:
    run.snapshots.clear()


def forget_the_commits(run: Evidence) -> None:
    run.commits.clear()


def forget_a_step(run: Evidence) -> None:
    run.checkpoints.pop()


@pytest.mark.parametrize(
    ("forget", "said"),
    [
        (forget_the_snapshots, "the coordinator never described a Stable group"),
        (forget_the_commits, "nothing was ever committed for orders-0, orders-1 and payments-0"),
        (forget_a_step, "the script never got past: ben joins"),
    ],
)
def test_a_run_in_which_too_little_was_seen_does_not_pass(forget: Callable[[Evidence], None], said: str) -> None:
    run = copy.deepcopy(a_good_run())
    forget(run)
    assert said in failures(run)


def test_nothing_at_all_does_not_pass() -> None:
    assert not judge(Evidence(), TOPICS, STEPS).ok


def test_a_consumers_lines_become_evidence() -> None:
    line = {"kind": "assigned", "at_ms": 5.0, "owned": [["orders", 0], ["payments", 0]], "generation": 3}
    assert told("ana", line) == Ownership("ana", 5.0, owned(O0, P0), 3)
    assert told("ana", {**line, "kind": "revoked"}) == Ownership("ana", 5.0, owned(O0, P0), 3, assigned=False)
    commit = {"kind": "committed", "at_ms": 6.0, "position": ["orders", 1, 42]}
    assert told("ana", commit) == Acknowledged("ana", 6.0, O1, 42)
    resumed = {"kind": "resumed", "at_ms": 7.0, "since_ms": 5.0, "position": ["orders", 1, 42]}
    assert told("ana", resumed) == Resumed("ana", 5.0, O1, 42)
    assert told("ana", {"kind": "refused", "at_ms": 8.0, "text": "ILLEGAL_GENERATION"}) is None
