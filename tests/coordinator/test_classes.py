"""The plain classes: construction, defaults, equality, repr, patterns, and that they are frozen."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import rota
from rota import _rota, assign

PROTOCOLS = (("range", b"metadata"),)

# What a type checker would not let through.
untyped: Any = rota

REQUESTS: dict[str, rota.Request] = {
    "JoinGroup": rota.JoinGroup("g", protocols=PROTOCOLS),
    "SyncGroup": rota.SyncGroup("g", "m", 1, [("m", b"plan")]),
    "Heartbeat": rota.Heartbeat("g", "m", 1),
    "LeaveGroup": rota.LeaveGroup("g", ["m", ("", "i"), ("n", None, "done")]),
    "OffsetCommit": rota.OffsetCommit("g", {("t", 0): 5, ("t", 1): (6, "note"), ("u", 0): (7, None, 3)}),
    "OffsetFetch": rota.OffsetFetch("g", [("t", 0), ("u", 1)]),
    "DescribeGroup": rota.DescribeGroup("g"),
    "ListGroups": rota.ListGroups(states=["Stable"]),
    "DeleteGroup": rota.DeleteGroup("g"),
    "OffsetDelete": rota.OffsetDelete("g", [("t", 0), ("u", 1)]),
}

VALUES: list[Any] = [
    *REQUESTS.values(),
    rota.OffsetRecord("g", "t", 0, rota.OffsetValue(5, metadata="note", topic_id=2**127)),
    rota.OffsetRecord("g", "t", 0, None),
    rota.GroupRecord("g", rota.GroupValue("consumer", 3, "range", "m", 99, [rota.MemberValue("m", subscription=b"s")])),
    rota.UnknownRecord(b"\x00\x09", None),
    rota.JoinAnswer(
        1, rota.ErrorCode.NONE, 2, "consumer", "range", "m", False, "m", [rota.JoinedMember("m", None, b"s")]
    ),
    rota.SyncAnswer(1, rota.ErrorCode.NONE, "consumer", "range", b"plan"),
    rota.HeartbeatAnswer(1, rota.ErrorCode.REBALANCE_IN_PROGRESS),
    rota.LeaveAnswer(1, rota.ErrorCode.NONE, [rota.LeftMember("m", "i", rota.ErrorCode.FENCED_INSTANCE_ID)]),
    rota.CommitAnswer(1, [rota.CommittedPartition("t", 0, rota.ErrorCode.NONE)]),
    rota.FetchAnswer(1, rota.ErrorCode.NONE, "g", [rota.FetchedOffset("t", 0, 5, -1, "", rota.ErrorCode.NONE)]),
    rota.DescribeAnswer(
        1, rota.ErrorCode.NONE, None, "g", "Stable", "consumer", "range",
        [rota.DescribedMember("m", None, "client", "/127.0.0.1", b"s", b"plan")],
    ),
    rota.ListAnswer(1, rota.ErrorCode.NONE, [rota.ListedGroup("g", "consumer", "Stable")]),
    rota.DeleteAnswer(1, rota.ErrorCode.GROUP_ID_NOT_FOUND, "g"),
    rota.OffsetDeleteAnswer(1, rota.ErrorCode.NONE, [rota.DeletedPartition("t", 0, rota.ErrorCode.NONE)]),
    rota.Append(0, [rota.OffsetRecord("g", "t", 0, None)]),
    rota.Wait("Pending", "m", 5),
    rota.Rebalance("MemberJoined", "m", "", 1, 2, 3, 4, None, None),
    rota.Subscription(["t"], owned_partitions=[("t", [0, 2])], rack="r1"),
    rota.Assignment([("t", [0, 2])], user_data=b"u"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_repr_is_the_expression_that_makes_an_equal_value(value: Any) -> None:
    text = repr(value)
    for error in rota.ErrorCode:
        text = text.replace(repr(error), f"ErrorCode.{error.name}")
    again = eval(text, dict(vars(rota)))
    assert again == value
    assert hash(again) == hash(value)
    assert type(value).__name__ in text


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_frozen(value: Any) -> None:
    field = type(value).__match_args__[0]
    with pytest.raises(AttributeError):
        setattr(value, field, getattr(value, field))
    with pytest.raises(AttributeError):
        value.surprise = 1


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_field_can_be_matched_and_read(value: Any) -> None:
    assert type(value).__match_args__
    for field in type(value).__match_args__:
        getattr(value, field)


def test_values_of_different_content_or_class_differ() -> None:
    assert rota.Heartbeat("g", "m", 1) != rota.Heartbeat("g", "m", 2)
    assert untyped.Heartbeat("g", "m", 1) != rota.DescribeGroup("g")
    assert untyped.Heartbeat("g", "m", 1) != "g"
    assert len({rota.Heartbeat("g", "m", 1), rota.Heartbeat("g", "m", 1), rota.Heartbeat("g", "n", 1)}) == 2


def test_a_request_defaults_to_a_dynamic_consumer_of_the_newest_version() -> None:
    join = rota.JoinGroup("g", protocols=PROTOCOLS)
    assert (join.member_id, join.protocol_type, join.instance_id, join.version) == ("", "consumer", None, 9)
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (45_000, 300_000)
    assert rota.LeaveGroup("g", ["m"]).version == 5
    assert rota.OffsetCommit("g", {}).version == 9
    assert rota.DescribeGroup("g").version == 6


def test_sync_group_speaks_version_5_only_with_both_names() -> None:
    assert rota.SyncGroup("g", "m", 1).version == 4
    assert rota.SyncGroup("g", "m", 1, protocol_type="consumer").version == 4
    assert rota.SyncGroup("g", "m", 1, protocol_type="consumer", protocol_name="range").version == 5
    assert rota.SyncGroup("g", "m", 1, version=3).version == 3


def test_what_may_be_left_out_is_filled_in() -> None:
    leave = rota.LeaveGroup("g", ["m", ("", "i"), ("n", None, "done")])
    assert leave.members == (("m", None, None), ("", "i", None), ("n", None, "done"))
    commit = rota.OffsetCommit("g", {("t", 0): 5, ("t", 1): (6, "note"), ("u", 0): (7, None, 3)})
    assert commit.offsets == ((("t", 0), (5, None, -1)), (("t", 1), (6, "note", -1)), (("u", 0), (7, None, 3)))
    twice = rota.OffsetCommit("g", [(("t", 0), 5), (("t", 0), 6)])
    assert [place for place, _ in twice.offsets] == [("t", 0), ("t", 0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: untyped.JoinGroup("g", protocols=[("range", "text")]), "expected bytes, not str"),
        (lambda: untyped.JoinGroup("g", protocols=[("range", [1, 2])]), "expected bytes, not list"),
        (lambda: untyped.JoinGroup("g", protocols="range"), "protocols"),
        (lambda: untyped.JoinGroup("g"), "protocols"),
        (lambda: untyped.LeaveGroup("g", [3]), r"expected a member id, or \(member id, .*, not 3"),
        (lambda: untyped.OffsetCommit("g", {("t", 0): "5"}), r"expected a 64-bit offset, .*, not '5'"),
        (
            lambda: untyped.OffsetCommit("g", {("t", 0): 2**63}),
            r"expected a 64-bit offset, .*, not 9223372036854775808",
        ),
        (lambda: untyped.Append(0, [5]), "expected OffsetRecord, GroupRecord or UnknownRecord, not int"),
        (lambda: untyped.HeartbeatAnswer(1, "NONE"), "error"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_type_error_that_says_what_was_expected(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_a_number_that_is_no_error_code_is_refused() -> None:
    assert untyped.HeartbeatAnswer(1, 27).error is rota.ErrorCode.REBALANCE_IN_PROGRESS
    with pytest.raises(ValueError, match="9999 is not an error code"):
        untyped.HeartbeatAnswer(1, 9999)


def test_error_codes_have_the_protocols_names_and_numbers() -> None:
    code = rota.ErrorCode.ILLEGAL_GENERATION
    assert (code.name, code.value) == ("ILLEGAL_GENERATION", 22)
    assert code == 22
    assert not rota.ErrorCode.NONE
    assert rota.ErrorCode(-1) is rota.ErrorCode.UNKNOWN_SERVER_ERROR
    assert pickle.loads(pickle.dumps(code)) is code
    assert copy.deepcopy(code) is code
    assert {error.name: error.value for error in rota.ErrorCode} == _rota.vocabulary()["errors"]


def test_the_error_of_a_commit_is_that_of_its_first_partition_that_failed() -> None:
    none, failed = rota.ErrorCode.NONE, rota.ErrorCode.OFFSET_METADATA_TOO_LARGE
    partitions = [rota.CommittedPartition("t", at, error) for at, error in enumerate([none, failed, none])]
    assert rota.CommitAnswer(1, partitions).error is failed
    assert rota.CommitAnswer(1, partitions[:1]).error is none


def test_unions_name_every_request_record_and_effect() -> None:
    assert {type(request).__name__ for request in REQUESTS.values()} == set(_rota.vocabulary()["requests"])
    assert all(isinstance(request, rota.Request) for request in REQUESTS.values())
    assert isinstance(rota.HeartbeatAnswer(1, rota.ErrorCode.NONE), rota.Answer)
    assert isinstance(rota.Append(0, []), rota.Effect)
    assert not isinstance(rota.Append(0, []), rota.Answer)
    assert isinstance(rota.UnknownRecord(b"k", None), rota.Record)


def test_every_exception_is_a_rota_error_with_a_docstring() -> None:
    errors = [value for name, value in vars(rota).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(errors) >= 7
    for error in errors:
        assert issubclass(error, rota.RotaError)
        assert error.__doc__
        assert error.__module__ == "rota"


def test_everything_compiled_is_exported_and_documented() -> None:
    # what has a face of its own in Python, and the vocabulary
    private = {
        "AuditRows",
        "BenchCrowd",
        "DataLog",
        "JournalReplay",
        "MemberMachine",
        "Naive",
        "Server",
        "SimulatedJournal",
        "Summary",
        "assign_names",
        "audit_ahead",
        "audit_columns",
        "audit_ranges",
        "audit_records",
        "audit_replay",
        "audit_wrong",
        "bench_assemble",
        "bench_clock",
        "bench_dismiss",
        "bench_echo",
        "bench_load",
        "bench_loads",
        "bench_map_hits",
        "bench_storm",
        "bench_syncs",
        "certify_names",
        "edit_entry",
        "exploration_bounds",
        "exploration_cells",
        "explore",
        "journal_entry",
        "journal_time",
        "recover_log",
        "repair_log",
        "simulate_faults",
        "simulate_plan",
        "simulate_world",
        "simulate_worlds",
        "vocabulary",
        "write_batch",
    }
    assert set(_rota.__all__) - private <= set(rota.__all__) | set(assign.__all__)
    for name in set(_rota.__all__) - {"__version__", "Answer", "Effect", "Record", "Request"}:
        assert getattr(_rota, name).__doc__, name
