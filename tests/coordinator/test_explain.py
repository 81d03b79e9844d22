"""Explanations as data and as sentences."""

from __future__ import annotations

import rota
from rota import _rota

from .steps import Driver, active, stable, subscription


def explained(driver: Driver, group_id: str = "g") -> rota.Explanation:
    """What the group is doing."""
    explanation = driver.coordinator.explain(group_id)
    assert explanation is not None
    return explanation


def test_a_rebalance_names_whom_it_waits_for_and_until_when() -> None:
    driver, member_id = stable()
    driver.advance(1_000)
    newcomer = driver.join("g", "newcomer")
    driver.advance(31_000)
    explanation = explained(driver)
    assert explanation.waiting == (rota.coordinator.Wait("Rejoin", member_id, 45_000),)
    assert (explanation.state, explanation.since_ms, explanation.now_ms) == ("PreparingRebalance", 1_000, 32_000)
    assert str(explanation) == (
        f"PreparingRebalance for 31.0 s: waiting for {member_id[:15]}… to rejoin (until 13.0 s from now); "
        f"it began because {newcomer[:17]}… joined"
    )


def test_a_sentence_says_for_how_long_as_of_the_moment_that_is_given() -> None:
    driver, _ = stable()
    since_ms = explained(driver).since_ms
    later = driver.coordinator.explain("g", since_ms + 90_000)
    assert later is not None
    assert str(later).startswith("Stable for 90.0 s")
    earlier = driver.coordinator.explain("g", 0)
    assert earlier == explained(driver), "time does not go back"


def test_a_group_that_is_being_deleted_waits_for_the_log() -> None:
    driver = active()
    driver.submit(rota.protocol.OffsetCommit("g", {("t", 0): 5}))
    coordinator, now_ms = driver.coordinator, driver.now_ms
    coordinator.submit(now_ms, 1_000, rota.protocol.DeleteGroup("g"), entropy=1)
    assert explained(driver).waiting == (rota.coordinator.Wait("Append", "", now_ms + 5_000),)
    projection = coordinator.project("g")
    assert projection is not None
    assert projection.in_flight == (projection.deleting,)


def test_a_pending_id_that_holds_up_a_rebalance_is_named() -> None:
    driver, member_id = stable()
    abandoned = driver.submit(
        rota.protocol.JoinGroup("g", client_id="gone", protocols=[("range", b"")], session_timeout_ms=9_000)
    )
    (asked,) = abandoned
    assert isinstance(asked, rota.protocol.JoinAnswer)
    driver.submit(rota.protocol.JoinGroup("g", member_id, protocols=[("range", subscription("t", "u"))]))
    explanation = explained(driver)
    assert explanation.waiting == (rota.coordinator.Wait("Pending", asked.member_id, 9_000),)
    assert f"waiting for pending {asked.member_id[:13]}… to join (until 9.0 s from now)" in str(explanation)


def test_the_leader_that_owes_its_plan_is_named() -> None:
    driver = active()
    member_id = driver.join()
    driver.advance(0)
    assert [(wait.what, wait.member_id) for wait in explained(driver).waiting] == [("LeaderSync", member_id)]
    assert f"for the leader {member_id[:15]}… to send the plan" in str(explained(driver))


def test_a_stable_group_waits_for_nothing_and_remembers_why_it_rebalanced() -> None:
    driver, member_id = stable()
    explanation = explained(driver)
    assert explanation.waiting == ()
    assert str(explanation).startswith("Stable for 0.0 s, generation 1; last rebalance: client-")
    (rebalance,) = explanation.rebalances
    assert (rebalance.cause, rebalance.member_id) == ("MemberJoined", member_id)
    assert (rebalance.from_generation, rebalance.to_generation) == (0, 1)
    assert str(rebalance) == f"generation 0 to 1: {member_id[:15]}… joined (settled after 0.0 s)"


def test_what_the_client_said_is_quoted() -> None:
    driver, member_id = stable()
    driver.submit(rota.protocol.LeaveGroup("g", [(member_id, None, "shutting down")]))
    assert str(explained(driver)).endswith(f'{member_id[:15]}… left ("shutting down")')


def test_many_members_share_a_phrase() -> None:
    waits = [rota.coordinator.Wait("Sync", f"m{at}", 20_000) for at in range(5)] + [
        rota.coordinator.Wait("LeaderSync", "boss", 2**64 - 1)
    ]
    explanation = rota.Explanation("g", "CompletingRebalance", 3, 1_000, 20_500, waits, [])
    assert str(explanation) == (
        "CompletingRebalance for 19.5 s: waiting for m0, m1, m2 and 2 more to sync (overdue), "
        "for the leader boss to send the plan"
    )


def test_every_cause_and_wait_of_the_vocabulary_has_words() -> None:
    words = _rota.vocabulary()
    for cause in words["causes"]:
        assert cause not in str(rota.coordinator.Rebalance(cause, "m", "", 1, 2, 3, 4, None, None))
    for what in words["waits"]:
        assert f" {what} " not in str(rota.coordinator.Wait(what, "m", 5))


def test_nobody_explains_a_group_that_does_not_exist() -> None:
    assert active().coordinator.explain("nobody") is None
