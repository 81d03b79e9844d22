"""`rota.coordinator.Coordinator`: effects in order, durable before told, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import rota

from .steps import PLAN, SETTINGS, active, only, stable, subscription


def test_a_member_joins_syncs_commits_and_leaves() -> None:
    driver, member_id = stable()
    committed = driver.submit(rota.protocol.OffsetCommit("g", {("t", 0): 5, ("u", 1): (6, "note", 3)}, member_id, 1))
    assert only(committed, rota.protocol.CommitAnswer).error == rota.protocol.ErrorCode.NONE
    fetched = only(
        driver.submit(rota.protocol.OffsetFetch("g", [("u", 1), ("t", 0), ("t", 9)])), rota.protocol.FetchAnswer
    )
    assert [(at.topic, at.partition, at.offset, at.metadata, at.leader_epoch) for at in fetched.partitions] == [
        ("u", 1, 6, "note", 3),
        ("t", 0, 5, "", -1),
        ("t", 9, -1, "", -1),
    ]
    described = only(driver.submit(rota.protocol.DescribeGroup("g")), rota.protocol.DescribeAnswer)
    assert (described.state, described.protocol_name) == ("Stable", "range")
    assert described.members == (
        rota.protocol.DescribedMember(member_id, None, "client", "/127.0.0.1", subscription("t"), PLAN),
    )
    listed = only(driver.submit(rota.protocol.ListGroups(states=["stable"])), rota.protocol.ListAnswer)
    assert listed.groups == (rota.protocol.ListedGroup("g", "consumer", "Stable"),)
    left = only(driver.submit(rota.protocol.LeaveGroup("g", [member_id])), rota.protocol.LeaveAnswer)
    assert left.members == (rota.protocol.LeftMember(member_id, None, rota.protocol.ErrorCode.NONE),)
    assert driver.submit(rota.protocol.Heartbeat("g", member_id, 1)) == [
        rota.protocol.HeartbeatAnswer(driver.tickets, rota.protocol.ErrorCode.UNKNOWN_MEMBER_ID)
    ]


def test_an_assignment_is_durable_before_it_is_told() -> None:
    driver = active()
    member_id = driver.join()
    driver.advance(0)
    coordinator = driver.coordinator
    request = rota.protocol.SyncGroup("g", member_id, 1, [(member_id, PLAN)])
    append = only(coordinator.submit(driver.now_ms, 100, request, entropy=1), rota.coordinator.Append)
    (record,) = append.records
    assert isinstance(record, rota.protocol.GroupRecord)
    assert record.value is not None
    assert [member.assignment for member in record.value.members] == [PLAN]
    assert coordinator.advance(driver.now_ms + 100) == []
    told = coordinator.appended(append.append_id, 7, driver.now_ms + 100)
    assert told == [rota.protocol.SyncAnswer(100, rota.protocol.ErrorCode.NONE, "consumer", "range", PLAN)]


def test_an_append_that_failed_is_told_with_an_error() -> None:
    driver, member_id = stable()
    request = rota.protocol.OffsetCommit("g", {("t", 0): 5}, member_id, 1)
    append = only(driver.coordinator.submit(driver.now_ms, 100, request, entropy=1), rota.coordinator.Append)
    told = driver.coordinator.appended(append.append_id, rota.protocol.ErrorCode.NOT_ENOUGH_REPLICAS, driver.now_ms)
    assert only(told, rota.protocol.CommitAnswer).error == rota.protocol.ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_silent_member_is_gone_at_its_session_timeout_and_not_before() -> None:
    driver, _ = stable()
    driver.advance(44_999)
    assert only(driver.submit(rota.protocol.DescribeGroup("g")), rota.protocol.DescribeAnswer).state == "Stable"
    deadline = driver.coordinator.next_deadline()
    assert deadline is not None
    assert deadline <= 45_000
    driver.advance(1)
    assert only(driver.submit(rota.protocol.DescribeGroup("g")), rota.protocol.DescribeAnswer).state == "Empty"


def test_a_log_that_is_replayed_gives_the_group_back() -> None:
    driver, member_id = stable()
    driver.submit(rota.protocol.OffsetCommit("g", {("t", 0): 5}, member_id, 1))
    again = rota.coordinator.Coordinator(SETTINGS, epoch=2)
    for offset, record in enumerate(driver.log):
        again.replay(rota.protocol.decode_record(record.key_bytes(), record.value_bytes()), offset, 1_700_000_000_000)
    assert again.phase == "Loading"
    assert again.loaded(5) == []
    assert again.phase == "Active"
    told = again.submit(6, 1, rota.protocol.Heartbeat("g", member_id, 1), entropy=1)
    assert told == [rota.protocol.HeartbeatAnswer(1, rota.protocol.ErrorCode.NONE)]
    group = again.project("g")
    assert group is not None
    assert [(topic, partition, value.offset) for topic, partition, value in group.offsets] == [("t", 0, 5)]


def test_before_it_has_loaded_and_after_it_could_not_a_coordinator_answers_so() -> None:
    coordinator = rota.coordinator.Coordinator()
    answer = only(
        coordinator.submit(0, 1, rota.protocol.Heartbeat("g", "m", 1), entropy=1), rota.protocol.HeartbeatAnswer
    )
    assert answer.error == rota.protocol.ErrorCode.NONE, "Kafka lets clients keep beating while it loads"
    described = only(
        coordinator.submit(0, 2, rota.protocol.DescribeGroup("g"), entropy=1), rota.protocol.DescribeAnswer
    )
    assert described.error == rota.protocol.ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.load_failed()
    assert coordinator.phase == "Failed"
    described = only(
        coordinator.submit(0, 3, rota.protocol.DescribeGroup("g"), entropy=1), rota.protocol.DescribeAnswer
    )
    assert described.error == rota.protocol.ErrorCode.NOT_COORDINATOR


def test_unloading_answers_whoever_waits() -> None:
    driver, member_id = stable()
    parked = driver.submit(rota.protocol.JoinGroup("g", member_id, protocols=[("range", subscription("u"))]))
    append = driver.coordinator.submit(
        driver.now_ms, 77, rota.protocol.SyncGroup("g", member_id, 2, [(member_id, b"")]), entropy=1
    )
    assert only(parked, rota.protocol.JoinAnswer).generation == 2
    assert only(append, rota.coordinator.Append).records
    told = driver.coordinator.unload(driver.now_ms)
    assert [(answer.ticket, answer.error) for answer in told if isinstance(answer, rota.protocol.SyncAnswer)] == [
        (77, rota.protocol.ErrorCode.NOT_COORDINATOR)
    ]
    assert driver.coordinator.phase == "Unloaded"


def test_the_offsets_of_a_deleted_topic_go() -> None:
    driver, member_id = stable()
    driver.submit(rota.protocol.OffsetCommit("g", {("t", 0): 5, ("u", 0): 6}, member_id, 1))
    driver.settle(driver.coordinator.topics_deleted(["t"], driver.now_ms))
    fetched = only(driver.submit(rota.protocol.OffsetFetch("g")), rota.protocol.FetchAnswer)
    assert [at.topic for at in fetched.partitions] == ["u"]


def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    driver, member_id = stable()
    data = driver.coordinator.snapshot()
    again = rota.coordinator.Coordinator.restore(data)
    assert again.snapshot() == data
    assert again.project("g") == driver.coordinator.project("g")
    assert again.digest("g") == driver.coordinator.digest("g")
    request = rota.protocol.LeaveGroup("g", [member_id])
    assert again.submit(10, 9, request, entropy=1) == driver.coordinator.submit(10, 9, request, entropy=1)
    assert again.digest("g") != rota.coordinator.Coordinator.restore(data).digest("g")


def test_a_restored_coordinator_knows_what_time_it_was() -> None:
    coordinator = rota.coordinator.Coordinator()
    coordinator.loaded(5_000)
    again = rota.coordinator.Coordinator.restore(coordinator.snapshot())
    assert again.now_ms == 5_000
    with pytest.raises(ValueError, match="now_ms went back: 4999 after 5000"):
        again.advance(4_999)


@pytest.mark.parametrize("data", [b"", b"not a snapshot", b"\xff" * 400])
def test_other_bytes_are_not_a_snapshot(data: bytes) -> None:
    with pytest.raises(rota.SnapshotError):
        rota.coordinator.Coordinator.restore(data)


def test_a_projection_shows_members_pending_ids_and_timers() -> None:
    driver = active(**{"group.initial.rebalance.delay.ms": 3_000})
    member_id = driver.join()
    asked = driver.submit(rota.protocol.JoinGroup("g", protocols=[("range", b"")], session_timeout_ms=10_000))
    pending_id = only(asked, rota.protocol.JoinAnswer).member_id
    group = driver.coordinator.project("g")
    assert group is not None
    assert (group.state, group.generation) == ("PreparingRebalance", 0)
    assert [(member.member_id, member.awaits_join) for member in group.members] == [(member_id, True)]
    assert group.pending == ((pending_id, 10_000),)
    assert group.timers == (("InitialDelay", 3_000),)
    assert driver.coordinator.group_ids() == ["g"]
    assert driver.coordinator.project("nobody") is None
    assert driver.coordinator.digest("nobody") is None


def test_the_invariants_hold_of_a_stable_group_and_after_its_last_member_left() -> None:
    driver, member_id = stable()
    driver.coordinator.check_invariants()
    driver.submit(rota.protocol.LeaveGroup("g", [member_id]))
    driver.coordinator.check_invariants()


def test_wall_time_goes_into_records_and_follows_the_clock_unless_given() -> None:
    driver, member_id = stable()
    request = rota.protocol.OffsetCommit("g", {("t", 0): 5}, member_id, 1)
    for wall_ms, expected in [(None, 1_700_000_000_500), (123, 123)]:
        append = only(driver.coordinator.submit(500, 50, request, entropy=1, wall_ms=wall_ms), rota.coordinator.Append)
        (record,) = append.records
        assert isinstance(record, rota.protocol.OffsetRecord)
        assert record.value is not None
        assert record.value.commit_timestamp_ms == expected


# ---- what is refused


def test_time_does_not_go_back() -> None:
    coordinator = active().coordinator
    coordinator.advance(10)
    for call in (coordinator.advance, coordinator.unload, lambda now_ms: coordinator.topics_deleted([], now_ms)):
        with pytest.raises(ValueError, match="now_ms went back: 9 after 10"):
            call(9)
    assert coordinator.now_ms == 10


@pytest.mark.parametrize("now_ms", [-1, 2**53 + 1, 2**200])
def test_a_time_out_of_range_is_refused(now_ms: int) -> None:
    with pytest.raises(ValueError, match=f"now_ms is {now_ms}: give 0 to {2**53}"):
        active().coordinator.advance(now_ms)


def test_a_time_is_whole_milliseconds() -> None:
    untyped: Any = active().coordinator
    for nonsense in (1.5, "1", None):
        with pytest.raises(TypeError, match=r"now_ms is .*: give a whole number"):
            untyped.advance(nonsense)


def test_a_coordinator_is_loaded_once() -> None:
    coordinator = active().coordinator
    for call in (
        lambda: coordinator.loaded(1),
        coordinator.load_failed,
        lambda: coordinator.replay(rota.protocol.GroupRecord("g", None), 0, 0),
    ):
        with pytest.raises(rota.RotaError, match="requires a loading coordinator; this one is Active"):
            call()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"group.max.sise": 3}, "unknown setting `group.max.sise`; the nearest one is `group.max.size`"),
        ({"session.timeout": 3}, "the nearest one is `group.m.*.session.timeout.ms`"),
        ({"max.connections": 3}, "`max.connections` is a setting of the server, not of a coordinator"),
        ({"rebalance.history": -1}, "`rebalance.history` is `-1`, expected a whole number from 0"),
        ({"group.max.size": 0}, "`group.max.size` is `0`, expected a whole number from 1 to 2147483647"),
        ({"group.max.size": "many"}, "`group.max.size` is `many`"),
        ({"group.max.size": 2**31}, "`group.max.size` is `2147483648`"),
        ({"group.min.session.timeout.ms": 10, "group.max.session.timeout.ms": 9}, "is 10, more than"),
    ],
)
def test_a_bad_setting_is_refused(config: dict[str, str | int], message: str) -> None:
    with pytest.raises(rota.ConfigError, match=message):
        rota.coordinator.Coordinator(config)


@pytest.mark.parametrize("value", [None, 1.5, True, [1]])
def test_a_setting_is_a_number_or_text(value: Any) -> None:
    with pytest.raises(TypeError, match=r"the value of `group\.max\.size` is"):
        rota.coordinator.Coordinator({"group.max.size": value})


def test_settings_take_effect() -> None:
    driver = active(**{"group.max.size": "1"})
    driver.join()
    driver.advance(0)
    refused = driver.submit(rota.protocol.JoinGroup("g", protocols=[("range", b"")], version=3))
    assert only(refused, rota.protocol.JoinAnswer).error == rota.protocol.ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("request_", [None, "JoinGroup", rota.protocol.ErrorCode.NONE, rota.protocol.JoinGroup])
def test_something_that_is_no_request_is_a_type_error(request_: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a request \(JoinGroup, .*WriteTxnMarker\), not"):
        active().coordinator.submit(0, 1, request_, entropy=1)


@pytest.mark.parametrize("entropy", [-1, 2**128])
def test_entropy_has_128_bits(entropy: int) -> None:
    with pytest.raises(OverflowError):
        active().coordinator.submit(0, 1, rota.protocol.ListGroups(), entropy=entropy)


def test_the_end_of_an_append_is_an_offset_or_an_error() -> None:
    coordinator = active().coordinator
    with pytest.raises(ValueError, match="give its offset"):
        coordinator.appended(0, rota.protocol.ErrorCode.NONE, 0)
    for nonsense in (-1, "5", None):
        with pytest.raises(TypeError, match="an offset"):
            coordinator.appended(0, nonsense, 0)  # type: ignore[arg-type]
    assert coordinator.appended(999, 5, 0) == [], "an unknown append ends without effect"


def test_extreme_numbers_do_not_break_a_coordinator() -> None:
    driver, member_id = stable()
    extremes: list[rota.protocol.Request] = [
        rota.protocol.OffsetCommit("g", {("t", 0): 2**63 - 1}, member_id, 1, retention_time_ms=2**63 - 1, version=4),
        rota.protocol.OffsetCommit(
            "g", {("t", -(2**31)): -(2**63)}, member_id, 1, retention_time_ms=-(2**63), version=2
        ),
        rota.protocol.Heartbeat("g", member_id, 2**31 - 1),
        rota.protocol.JoinGroup("h", "", protocols=[("range", b"")], rebalance_timeout_ms=-(2**31), version=1),
        rota.protocol.JoinGroup("h", "", protocols=[("range", b"")], rebalance_timeout_ms=2**31 - 1, version=-1),
        rota.protocol.JoinGroup("h", "x" * 100_000, protocols=[], version=2**15 - 1),
    ]
    driver.now_ms = 2**53
    for wall_ms in (None, 2**63 - 1, -(2**63)):
        for request in extremes:
            driver.coordinator.submit(driver.now_ms, 1, request, entropy=2**128 - 1, wall_ms=wall_ms)
        driver.coordinator.advance(driver.now_ms, wall_ms)
    driver.coordinator.check_invariants()


def test_a_coordinators_repr_says_which_it_is() -> None:
    coordinator = rota.coordinator.Coordinator(partition=7, epoch=3)
    assert repr(coordinator) == "<rota.Coordinator of partition 7, epoch 3: Loading, 0 groups, 0 ms>"
    assert (coordinator.partition, coordinator.epoch) == (7, 3)
