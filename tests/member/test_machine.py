"""`rota.Member` without sockets: what it asks for, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import rota
from rota.member import Assign, Closed, Committed, Effect, Failed, Fetched, Lose, MemberSettings, Offset, Revoke, Send
from rota.protocol import ErrorCode

NODE = (0, "127.0.0.1", 9092)
COORDINATOR = {"error_code": 0, "node_id": 0, "host": "127.0.0.1", "port": 9092}


def sends(effects: list[Effect]) -> list[tuple[str, dict[str, Any]]]:
    return [(effect.api, effect.fields) for effect in effects if isinstance(effect, Send)]


def joined(member_id: str = "me", generation: int = 1, leader: str = "another") -> dict[str, Any]:
    return {
        "error_code": 0,
        "generation": generation,
        "protocol_name": "range",
        "leader": leader,
        "member_id": member_id,
        "members": [],
    }


def assigned(*partitions: tuple[str, list[int]]) -> dict[str, Any]:
    return {"error_code": 0, "assignment": rota.protocol.encode_assignment(rota.protocol.Assignment(list(partitions)))}


def settle(member: rota.Member) -> list[Effect]:
    """Gets a follower into its group by hand."""
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    member.answered(0, 1, "JoinGroup", joined())
    return member.answered(0, 2, "SyncGroup", assigned(("t", [0, 1])))


def test_a_member_finds_joins_syncs_and_takes_over() -> None:
    member = rota.Member("readers")
    [(api, fields)] = sends(member.subscribe(0, ["t"]))
    assert (api, fields["key"]) == ("FindCoordinator", "readers")
    [(api, fields)] = sends(member.answered(0, 0, "FindCoordinator", COORDINATOR))
    assert (api, fields["member_id"], fields["session_timeout_ms"]) == ("JoinGroup", "", 45_000)
    assert member.state == "PreparingRebalance"
    [(api, fields)] = sends(member.answered(0, 1, "JoinGroup", joined()))
    assert (api, fields["generation"], fields["assignments"]) == ("SyncGroup", 1, [])
    effects = member.answered(0, 2, "SyncGroup", assigned(("t", [0, 1])))
    assert effects == [Assign(1, [("t", 0), ("t", 1)], [("t", 0), ("t", 1)], None)]
    assert (member.state, member.owned) == ("Stable", [("t", 0), ("t", 1)])


def test_a_topic_that_is_subscribed_while_the_join_is_under_way_is_asked_for_in_another() -> None:
    member = rota.Member("readers")
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    assert not sends(member.subscribe(0, ["t", "u"]))
    member.answered(0, 1, "JoinGroup", joined())
    member.answered(0, 2, "SyncGroup", assigned(("t", [0])))
    again = member.done(0)
    assert again == [Revoke([("t", 0)])], "range gives up everything before it joins"
    [(api, fields)] = sends(member.done(0))
    assert (api, fields["reason"]) == ("JoinGroup", "the subscription has changed since the join")
    [offered] = fields["protocols"]
    assert rota.protocol.decode_subscription(offered["metadata"]).topics == ("t", "u")


def test_a_subscription_that_is_the_same_again_needs_no_other_join() -> None:
    member = rota.Member("readers")
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    member.subscribe(0, ["u"])
    member.subscribe(0, ["t"])
    member.answered(0, 1, "JoinGroup", joined())
    member.answered(0, 2, "SyncGroup", assigned(("t", [0])))
    assert not sends(member.done(0))


def test_a_member_whose_plan_failed_leaves_when_it_closes() -> None:
    member = rota.Member("readers")
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    member.answered(0, 1, "JoinGroup", joined())
    [failed] = member.answered(0, 2, "SyncGroup", {"error_code": 0, "assignment": b"?"})
    assert isinstance(failed, Failed)
    [(api, fields)] = sends(member.close(1))
    assert (api, fields["members"][0]["member_id"]) == ("LeaveGroup", "me")


def test_a_member_that_left_while_it_let_partitions_go_takes_nothing_over() -> None:
    member = rota.Member("readers", MemberSettings(strategies=["cooperative-sticky"], max_poll_interval_ms=10_000))
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    cooperative = joined() | {"protocol_name": "cooperative-sticky"}
    member.answered(0, 1, "JoinGroup", cooperative)
    member.answered(0, 2, "SyncGroup", assigned(("t", [0, 1])))
    member.done(0)
    member.rejoin(10, "a test")
    member.answered(10, 3, "JoinGroup", cooperative | {"generation": 2})
    assert member.answered(10, 4, "SyncGroup", assigned(("t", [1, 2]))) == [Revoke([("t", 0)])]
    member.busy(10)
    assert [api for api, _ in sends(member.advance(10_011))] == ["LeaveGroup"]
    assert not [effect for effect in member.done(10_020) if isinstance(effect, Assign)]
    lost = [effect for effect in member.poll(10_030) if isinstance(effect, Lose)]
    assert lost == [Lose([("t", 1)])]


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_leader_whose_topic_is_refused_says_so_once(error: ErrorCode) -> None:
    member = rota.Member("readers")
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    subscription = rota.protocol.encode_subscription(rota.protocol.Subscription(["t"]))
    me = {"member_id": "me", "group_instance_id": None, "metadata": subscription}
    leader = joined(leader="me") | {"members": [me]}
    [(api, _)] = sends(member.answered(0, 1, "JoinGroup", leader))
    assert api == "Metadata"
    topics = [{"error_code": int(error), "name": "t", "partitions": []}]
    effects = member.answered(0, 2, "Metadata", {"brokers": [], "topics": topics})
    [failed] = [effect for effect in effects if isinstance(effect, Failed)]
    assert (failed.error.kind, failed.error.error) == ("Topics", error)
    [sync] = [effect for effect in effects if isinstance(effect, Send)]
    assert sync.api == "SyncGroup", "it plans for the others"
    member.answered(0, sync.request, "SyncGroup", assigned())
    member.done(0)
    member.busy(0)
    later = member.advance(3_000)
    assert [api for api, _ in sends(later)] == ["Heartbeat"], "it is not asked for sooner than others"
    assert not [effect for effect in later if isinstance(effect, Failed)]


def test_the_next_deadline_is_the_next_heartbeat() -> None:
    member = rota.Member("readers")
    settle(member)
    assert member.next_deadline() == 3_000
    assert not sends(member.advance(2_999))
    [(api, fields)] = sends(member.advance(3_000))
    assert (api, fields["member_id"], fields["generation"]) == ("Heartbeat", "me", 1)


def test_a_close_revokes_waits_and_says_goodbye() -> None:
    member = rota.Member("readers")
    settle(member)
    member.done(0)
    assert member.close(0) == [Revoke([("t", 0), ("t", 1)])]
    [(api, fields)] = sends(member.done(0))
    assert (api, fields["members"][0]["member_id"]) == ("LeaveGroup", "me")
    assert member.answered(0, 3, "LeaveGroup", {"error_code": 25}) == [Closed()], "whatever the answer"
    assert member.is_closed
    assert member.next_deadline() is None


def test_a_close_while_the_application_gives_up_its_subscription_ends_the_member() -> None:
    member = rota.Member("readers")
    settle(member)
    member.done(0)
    assert member.unsubscribe(0) == [Revoke([("t", 0), ("t", 1)])]
    assert not member.close(0)
    [(api, _)] = sends(member.done(0))
    assert api == "LeaveGroup"
    assert member.answered(0, 3, "LeaveGroup", {"error_code": 0}) == [Closed()]
    assert member.is_closed


def test_a_closed_member_answers_commits_and_fetches_at_once() -> None:
    member = rota.Member("readers")
    settle(member)
    member.done(0)
    member.close(0)
    member.done(0)
    assert member.answered(0, 3, "LeaveGroup", {"error_code": 0}) == [Closed()]
    [committed] = member.commit(1, 8, {("t", 0): Offset(5)})
    assert isinstance(committed, Committed)
    [fetched] = member.fetch(1, 9, [("t", 0)])
    assert isinstance(fetched, Fetched)
    assert (committed.commit, fetched.fetch) == (8, 9)
    for error in (committed.error, fetched.error):
        assert error is not None
        assert error.kind == "Closed"
    assert not member.advance(2)


def test_a_close_waits_for_the_application_without_being_woken_in_vain() -> None:
    member = rota.Member("readers")
    settle(member)
    member.close(0)
    deadlines = []
    while (deadline := member.next_deadline()) is not None and deadline < 300_000:
        member.advance(deadline)
        deadlines.append(deadline)
        assert len(deadlines) < 1_000, deadlines[-3:]
    assert member.done(0) == [Revoke([("t", 0), ("t", 1)])], "it is revoked as soon as the assignment has been handled"


def test_an_unknown_error_of_a_join_is_raised_with_the_brokers_code() -> None:
    member = rota.Member("readers")
    member.subscribe(0, ["t"])
    member.answered(0, 0, "FindCoordinator", COORDINATOR)
    answer = {**joined(), "error_code": 26}
    [failed] = member.answered(0, 1, "JoinGroup", answer)
    assert isinstance(failed, Failed)
    assert failed.error.error == rota.protocol.ErrorCode.INVALID_SESSION_TIMEOUT
    assert str(failed.error) == "JoinGroup was answered INVALID_SESSION_TIMEOUT"
    assert sends(member.poll(1_000)), "it tries again when it is asked to"


def test_a_partition_below_0_has_no_racks_and_does_no_harm() -> None:
    member = rota.Member("readers")
    [_, metadata] = [effect for effect in member.subscribe_pattern(0, "t") if isinstance(effect, Send)]
    partitions = [{"partition_index": index, "replica_nodes": [1]} for index in (-1, 0)]
    topics = [{"error_code": 0, "name": "t", "partitions": partitions}]
    member.answered(0, metadata.request, metadata.api, {"brokers": [{"node_id": 1, "rack": "r"}], "topics": topics})
    [(api, fields)] = sends(member.answered(0, 0, "FindCoordinator", COORDINATOR))
    assert api == "JoinGroup"
    assert rota.protocol.decode_subscription(fields["protocols"][0]["metadata"]).topics == ("t",)


def test_an_error_of_a_member_is_the_same_in_another_process_and_in_a_copy() -> None:
    code = rota.protocol.ErrorCode.INVALID_SESSION_TIMEOUT
    error = rota.MemberError("Answer", code, f"JoinGroup was answered {code.name}")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is rota.MemberError
        assert (again.kind, again.error, str(again)) == (error.kind, error.error, str(error))


@pytest.mark.parametrize(
    "fields",
    [{}, {"error_code": "x"}, {"error_code": 0, "coordinators": [1]}, {"error_code": 0, "coordinators": [{}, {}]}],
)
def test_fields_that_are_no_answer_are_refused_and_change_nothing(fields: dict[str, Any]) -> None:
    member = rota.Member("readers")
    member.subscribe(0, ["t"])
    with pytest.raises((KeyError, TypeError, ValueError)):
        member.answered(0, 0, "FindCoordinator", fields)
    assert sends(member.answered(0, 0, "FindCoordinator", COORDINATOR))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heartbeat_interval_ms": 45_000}, "would end between two heartbeats"),
        ({"session_timeout_ms": 0}, "session_timeout_ms is 0: give 1 to 2147483647"),
        ({"strategies": []}, "give at least one"),
        ({"strategies": ["uniform"]}, "runs in servers"),
        ({"strategies": ["fair"]}, 'unknown strategy "fair": choose from range, roundrobin, sticky'),
        ({"strategies": ["range", "range"]}, "there twice"),
        ({"strategies": ["range", ("mine", True)]}, "no rebalance could follow both"),
        ({"instance_id": ""}, "leave it out for a dynamic member"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        rota.Member("readers", MemberSettings(**settings))


def test_an_empty_group_id_and_a_broken_pattern_are_refused() -> None:
    with pytest.raises(ValueError, match="group_id is empty"):
        rota.Member("")
    with pytest.raises(ValueError, match="open group without closing"):
        rota.Member("readers").subscribe_pattern(0, "(")
    with pytest.raises(ValueError, match=r"found closing '\)' without"):
        rota.Member("readers").subscribe_pattern(0, "a)|(?:b")


def test_chosen_by_hand_offsets_are_committed_by_nobody_in_particular() -> None:
    member = rota.Member("readers")
    assert not sends(member.assign(0, [("t", 0)]))
    [(api, _)] = sends(member.commit(0, 1, {("t", 0): Offset(5)}))
    assert api == "FindCoordinator"
    [(api, fields)] = sends(member.answered(0, 0, "FindCoordinator", COORDINATOR))
    assert (api, fields["generation"], fields["member_id"]) == ("OffsetCommit", -1, "")
