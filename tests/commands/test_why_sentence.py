"""Sentences about groups, made of plain facts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota import _rota
from rota.why import facts, why, words
from rota.why.command import report

UUID = "1f0c8a2e-0000-4000-8000-000000000000"


def rebalance(**changed: Any) -> facts.Rebalance:
    known: facts.Rebalance = {
        "cause": "MemberLeft",
        "member_id": f"consumer-7-{UUID}",
        "reason": "",
        "from_generation": 3,
        "to_generation": None,
        "began_ago_ms": 31_000,
        "joined_after_ms": None,
        "settled_after_ms": None,
    }
    return known | changed  # type: ignore[return-value]


def wait(member_id: str, ends_in_ms: int | None, what: str = "Rejoin") -> facts.Wait:
    return {"what": what, "member_id": member_id, "ends_in_ms": ends_in_ms}


def member(member_id: str, expires_in_ms: int | None, heard_ago_ms: int | None = None) -> facts.Member:
    return {
        "member_id": member_id,
        "session_timeout_ms": 45_000,
        "heard_ago_ms": heard_ago_ms,
        "expires_in_ms": expires_in_ms,
    }


def group(**changed: Any) -> facts.Group:
    known: facts.Group = {
        "state": "PreparingRebalance",
        "generation": 3,
        "in_state_ms": 31_000,
        "waiting": [wait(f"consumer-3-{UUID}", 14_000)],
        "rebalances": [rebalance()],
    }
    return known | changed  # type: ignore[return-value]


def settled(**changed: Any) -> facts.Group:
    done = rebalance(to_generation=4, joined_after_ms=1, settled_after_ms=2)
    return group(**{"state": "Stable", "generation": 4, "waiting": [], "rebalances": [done]} | changed)


def test_a_member_that_holds_up_a_rebalance_is_named_with_the_end_of_its_session() -> None:
    held_up = group(members=[member(f"consumer-3-{UUID}", 14_000, 31_000)])
    assert why(held_up).sentence == (
        "PreparingRebalance for 31.0 s: waiting for consumer-3-1f0c8a2e… to rejoin, whose session ends in 14.0 s; "
        "it began because consumer-7-1f0c8a2e… left"
    )


def test_where_the_phase_ends_before_the_session_that_is_said_instead() -> None:
    held_up = group(members=[member(f"consumer-3-{UUID}", 20_000, 25_000)])
    assert "to rejoin (until 14.0 s from now);" in why(held_up).sentence


def stalled(*names: str, what: str = "Rejoin", is_static: bool = False) -> list[facts.Wait]:
    """Waits for members that heartbeat."""
    return [{**wait(name, 253_000, what), "heartbeats": True, "is_static": is_static} for name in names]


def test_a_member_that_heartbeats_and_does_not_rejoin_is_busy_and_is_removed_by_the_rebalance_timeout() -> None:
    members = [member("ben", 43_000, 2_000)]
    assert why(group(waiting=stalled("ben"), members=members)).sentence == (
        "PreparingRebalance for 31.0 s: ben heartbeats but has not rejoined: its application is probably busy and not "
        "polling; it is removed in 253.0 s (rebalance timeout); it began because consumer-7-1f0c8a2e… left"
    )


def test_members_that_are_busy_are_told_from_those_that_are_silent() -> None:
    told = why(group(waiting=[*stalled("a", "b"), wait("c", 14_000)]))
    assert told.stalls == [
        "a and b heartbeat but have not rejoined: their applications are probably busy and not polling; "
        "they are removed in 253.0 s (rebalance timeout)"
    ]
    assert told.waits == ["for c to rejoin (until 14.0 s from now)"]
    assert f"{told.stalls[0]}; waiting {told.waits[0]}" in told.sentence


def test_a_static_member_that_is_busy_stays() -> None:
    [phrase] = why(group(waiting=stalled("pod-3", is_static=True))).stalls
    assert phrase.endswith("; the group goes on without it in 253.0 s (rebalance timeout)")


@pytest.mark.parametrize(("what", "has_not"), [("LeaderSync", "has not sent the plan"), ("Sync", "has not synced")])
def test_a_busy_member_that_has_to_sync_is_removed_though_it_is_static(what: str, has_not: str) -> None:
    [phrase] = why(group(waiting=stalled("ben", what=what, is_static=True))).stalls
    assert f"ben heartbeats but {has_not}: " in phrase
    assert phrase.endswith("; it is removed in 253.0 s (rebalance timeout)")


def test_of_waits_that_are_left_out_beside_busy_members_the_number_is_said() -> None:
    told = why(group(waiting=stalled("a"), waits=10))
    assert told.waits == ["for 9 more"]


def test_the_report_shows_who_went_while_a_rebalance_ran_and_the_reason() -> None:
    gone: facts.Departure = {"member_id": "ben", "how": "Left", "reason": "stuck since noon", "ago_ms": 4_000}
    known = group(rebalances=[rebalance(departures=[gone])], waiting=stalled("carl"))
    shown = {
        **known,
        "group_id": "orders",
        "why": {"sentence": why(known).sentence},
        "members": [{**member("carl", 43_000, 2_000), "client_host": "/10.0.0.7"}],
    }
    lines = report(shown)
    assert "  carl at /10.0.0.7: heartbeats, the last one 2.0 s ago, but does not poll" in lines
    assert lines[-1] == '    4.0 s ago: ben left or was removed ("stuck since noon")'


def test_the_causes_go_back_to_the_last_rebalance_that_ended() -> None:
    chain = [
        rebalance(cause="MetadataChanged", settled_after_ms=5),
        rebalance(cause="MemberJoined", member_id="b"),
        rebalance(cause="SessionExpired", member_id="a"),
    ]
    assert why(group(rebalances=chain)).because == ["a was silent for its session timeout", "b joined"]
    assert why(group(rebalances=chain)).sentence.endswith(
        "; it began because a was silent for its session timeout, amid the rebalance that began because b joined"
    )


def test_a_settled_group_says_what_the_last_rebalance_was_about() -> None:
    assert why(settled()).sentence == "Stable for 31.0 s, generation 4; last rebalance: consumer-7-1f0c8a2e… left"


def test_of_a_group_that_was_loaded_it_is_not_known_since_when() -> None:
    unknown = "it was loaded from the log, which does not say since when"
    for state in ("Empty", "Stable"):
        loaded = settled(state=state, rebalances=[])
        assert why(loaded).sentence == f"{state} for 31.0 s or longer, generation 4; {unknown}"
    # Without a generation there are only offsets, which may be new.
    assert (
        why(settled(state="Empty", rebalances=[], generation=0)).sentence == "Empty for 31.0 s or longer, generation 0"
    )


def test_a_consumer_group_shows_its_epoch_and_that_of_its_target_if_it_is_older() -> None:
    consumer = {"protocol": "consumer", "generation": 7, "target_epoch": 7}
    assert why(settled(**consumer)).state == "Stable for 31.0 s, epoch 7"
    assigning = group(state="Assigning", waiting=[wait("", 300, "Target")], **consumer | {"target_epoch": 6})
    assert why(assigning).sentence.startswith(
        "Assigning for 31.0 s, epoch 7 (target of epoch 6): waiting for a heartbeat to compute the next assignment "
        "(until 0.3 s from now); it began because"
    )


def test_members_of_a_consumer_group_are_told_apart_by_what_they_do() -> None:
    waits = [*stalled("ana", what="Revoke"), wait("ben", 4_000, "Reconcile"), wait("carl", None, "Release")]
    told = why(group(waiting=waits, protocol="consumer"))
    assert told.stalls == [
        "ana heartbeats but has not given up partitions: its application is probably busy and not polling; "
        "it is removed in 253.0 s (rebalance timeout)"
    ]
    assert told.waits == [
        "for ben to take its new assignment (until 4.0 s from now)",
        "for other members to release partitions of carl",
    ]


@pytest.mark.parametrize("cause", ["Upgraded", "Downgraded", "UpgradeFailed"])
def test_a_group_that_has_changed_its_protocol_says_so(cause: str) -> None:
    change = rebalance(cause=cause, member_id="ana", to_generation=3, joined_after_ms=0, settled_after_ms=0)
    told = why(settled(rebalances=[change])).sentence
    assert "loaded" not in told
    assert f"; last change: {words.CAUSES[cause].replace('{who}', 'ana')}" in told
    upgraded = rebalance(cause="Upgraded", member_id="ana")
    assert "it began because ana joined with the consumer protocol" in why(group(rebalances=[upgraded])).sentence


def test_members_that_are_waited_for_alike_share_a_phrase() -> None:
    waits = [wait(name, 3_000 + 1_000 * at) for at, name in enumerate("abcde")]
    told = why(group(waiting=[*waits, wait("l", None, "LeaderSync")])).waits
    assert told == [
        "for a, b, c and 2 more to rejoin (until 3.0 s to 7.0 s from now)",
        "for the leader l to send the plan",
    ]
    sessions = [member(entry["member_id"], entry["ends_in_ms"]) for entry in waits[:2]]
    assert why(group(waiting=waits[:2], members=sessions)).waits == [
        "for a and b to rejoin, whose sessions end in 3.0 s to 4.0 s"
    ]


def test_of_waits_that_are_left_out_only_the_number_is_said() -> None:
    assert why(group(waits=100)).waits == ["for consumer-3-1f0c8a2e… and 99 more to rejoin"]


def test_what_should_have_ended_is_overdue() -> None:
    assert why(group(waiting=[wait("a", -5)])).waits == ["for a to rejoin (overdue)"]


def test_a_member_that_is_about_to_expire_is_worth_a_word_in_a_settled_group() -> None:
    near = [member("a", 40_000, 5_000), member("b", 14_000, 31_000), member("parked", None)]
    assert why(settled(members=near)).beside == ["b, silent for 31.0 s, expires in 14.0 s"]
    assert why(settled(members=near[:1])).beside == []


def test_frequent_rebalances_are_worth_a_word() -> None:
    old, new = rebalance(began_ago_ms=60_001, settled_after_ms=1), rebalance(began_ago_ms=60_000, settled_after_ms=1)
    assert why(settled(rebalances=[old, *[new] * 5])).beside == ["5 rebalances began within the last 60 s"]
    assert why(settled(rebalances=[old, *[new] * 4])).beside == []


def test_every_cause_and_wait_of_the_vocabulary_has_words() -> None:
    vocabulary = _rota.vocabulary()
    assert sorted(words.CAUSES) == sorted(vocabulary["causes"])
    assert sorted(words.WAITS) == sorted(vocabulary["waits"])
    assert sorted(words.DEPARTURES) == sorted(vocabulary["departures"])
    assert set(words.STALLS) <= set(words.WAITS)


def test_what_clients_chose_stays_on_its_line() -> None:
    hostile = "a\x1b[2J\nb\u202e{who}"
    sentence = why(
        group(waiting=[wait(hostile, 5)], rebalances=[rebalance(member_id=hostile, reason=hostile)])
    ).sentence
    assert sentence.isprintable()
    assert sentence.count(r"a\x1b[2J\nb\u202e{who}") == 3


times = st.one_of(st.none(), st.integers(-(2**40), 2**40))


@given(
    st.builds(
        group,
        state=st.sampled_from(_rota.vocabulary()["states"]),
        in_state_ms=st.integers(-5, 2**40),
        waiting=st.lists(st.builds(wait, st.text(), times, st.sampled_from(sorted(words.WAITS)))),
        rebalances=st.lists(
            st.builds(
                rebalance,
                cause=st.sampled_from(sorted(words.CAUSES)),
                member_id=st.text(),
                reason=st.text(),
                settled_after_ms=times,
            )
        ),
        members=st.lists(st.builds(member, st.text(), times, times)),
    )
)
def test_any_facts_make_one_printable_line(known: facts.Group) -> None:
    assert why(known).sentence.isprintable()


def holding(name: str | None, state: str | None, left_ms: int | None) -> facts.Transaction:
    return {
        "transactional_id": name,
        "producer_id": 7,
        "state": state,
        "open_for_ms": 41_000,
        "aborted_in_ms": left_ms,
        "partitions": {"orders": [3, 4], "mail": [0]},
    }


@pytest.mark.parametrize(
    ("transaction", "phrase"),
    [
        (
            holding("pay-7", "Ongoing", 19_000),
            "transaction pay-7, open for 41.0 s, holds back offsets of orders 3 and 4; mail 0, "
            "and is aborted in 19.0 s",
        ),
        (
            holding("pay\n", "PrepareCommit", None),
            r"transaction pay\n, which is being committed, holds back offsets of orders 3 and 4; mail 0",
        ),
        (
            holding("pay-7", "PrepareAbort", None),
            "transaction pay-7, which is being aborted, holds back offsets of orders 3 and 4; mail 0",
        ),
        (holding(None, None, None), "a transaction of producer 7 holds back offsets of orders 3 and 4; mail 0"),
        (
            holding("pay-7", None, None) | {"coordinator": "node 2 at h2:9092"},
            "transaction pay-7, which node 2 at h2:9092 coordinates, holds back offsets of orders 3 and 4; mail 0; "
            "`kafka-python admin -b HOST:PORT transactions describe --transactional-id pay-7` shows its state",
        ),
        (
            holding(None, None, None) | {"coordinator": "another server"},
            "a transaction of producer 7, which another server coordinates, holds back offsets of orders 3 and 4; "
            "mail 0; `kafka-python admin -b HOST:PORT transactions list` shows its state",
        ),
    ],
)
def test_a_transaction_that_holds_offsets_back_is_named(transaction: facts.Transaction, phrase: str) -> None:
    known = group()
    known["transactions"] = [transaction] * 5
    assert why(known).sentence.endswith(f"; {'; '.join([phrase] * 3)}")


@pytest.mark.parametrize("ms", [0, 99, 100, 59_950, 2**40])
def test_times_are_seconds_with_tenths_rounded_down(ms: int) -> None:
    assert words.seconds(ms) == f"{ms // 1000}.{ms % 1000 // 100} s"


def test_the_report_names_members_that_hold_the_group_up_and_the_rebalances() -> None:
    slow = {**member("a\n", 14_000, 31_000), "client_host": "/10.0.0.7"}
    rebalances = [rebalance(), rebalance(settled_after_ms=200), rebalance()]
    known = group(waiting=[wait("a\n", 14_000)], members=[slow], rebalances=rebalances)
    told = report({**known, "group_id": "g", "why": {"sentence": "why"}})
    assert told == [
        "g: why",
        "",
        "held up by",
        r"  a\n at /10.0.0.7: silent for 31.0 s, expires in 14.0 s unless it is heard",
        "",
        "rebalances, the latest first",
        "  31.0 s ago, generation 3 to ?, not over: consumer-7-1f0c8a2e… left",
        "  31.0 s ago, generation 3 to ?, in 0.2 s: consumer-7-1f0c8a2e… left",
        "  31.0 s ago, generation 3 to ?, interrupted: consumer-7-1f0c8a2e… left",
    ]


OPAQUE = "Qm0cC3vXRdaJpLzq5x1u3A"


def test_a_member_whose_id_says_nothing_has_its_client_id_in_the_sentence() -> None:
    told = group(waiting=[wait(OPAQUE, None, "Reconcile")], rebalances=[rebalance(member_id=OPAQUE)])
    told["members"] = [{**member(OPAQUE, 14_000), "client_id": "ben"}]
    sentence = why(told).sentence
    assert "waiting for ben (Qm0cC3…) to take its new assignment" in sentence
    assert sentence.endswith("it began because ben (Qm0cC3…) left")
    assert words.named(f"ben-{UUID}", "ben") == "ben-1f0c8a2e…"
    assert words.named("fUI717rfQ/ys8h0fjI4q/w", "ben", is_whole=True) == "ben (fUI717rfQ/ys8h0fjI4q/w)"


def answer(*members: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """What `/groups/{id}` answers."""
    known = {"group_id": "orders", "state": "Stable", "protocol_type": "consumer", "why": {"sentence": "Stable"}}
    lists: dict[str, Any] = {"members": list(members), "waiting": [], "rebalances": [], "partitions": []}
    return {**known, **lists, **changed}


def holder(member_id: str, client_id: str, topics: list[str], assignment: dict[str, list[int]]) -> dict[str, Any]:
    subscription = {"topics": topics}
    return {"member_id": member_id, "client_id": client_id, "subscription": subscription, "assignment": assignment}


def test_partitions_that_are_behind_and_members_without_messages_follow_the_sentence() -> None:
    place = {"topic": "t", "owners": [OPAQUE], "offset": 12, "log_end": 100}
    told = answer(
        holder(OPAQUE, "ben", ["t"], {"t": [0, 1]}),
        holder("ana", "ana", ["t"], {}),
        holder("cleo", "cleo", ["ordres"], {}),
        partitions=[{**place, "partition": 0, "lag": 1}, {**place, "partition": 1, "lag": 88, "owners": []}],
        rebalances=[rebalance(member_id=OPAQUE, settled_after_ms=1, to_generation=4, cause="MemberJoined")],
    )
    assert report(told)[1:] == [
        "",
        "partitions that are behind",
        "  t-1 at offset 12: 88 messages behind; no member has it",
        "  t-0 at offset 12: 1 message behind; ben (Qm0cC3…) has it",
        "",
        "members that get no messages",
        "  cleo subscribes to ordres, and no member has a partition of it: does the topic exist?",
        "  ana has no partition: 3 members share 2 partitions",
        "",
        "rebalances, the latest first",
        "  31.0 s ago, generation 3 to 4, in 0.0 s: ben (Qm0cC3…) joined",
    ]
    assert "members that get no messages" not in report(told | {"state": "PreparingRebalance"})
