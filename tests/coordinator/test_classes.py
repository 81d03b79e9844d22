"""The plain classes: construction, defaults, equality, repr, patterns, and that they are frozen."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import rota
from rota import _rota, assign, protocol

PROTOCOLS = (("range", b"metadata"),)

# What a type checker would not let through.
untyped: Any = protocol
untyped_coordinator: Any = rota.coordinator

REQUESTS: dict[str, protocol.Request] = {
    "JoinGroup": protocol.JoinGroup("g", protocols=PROTOCOLS),
    "SyncGroup": protocol.SyncGroup("g", "m", 1, [("m", b"plan")]),
    "Heartbeat": protocol.Heartbeat("g", "m", 1),
    "LeaveGroup": protocol.LeaveGroup("g", ["m", ("", "i"), ("n", None, "done")]),
    "OffsetCommit": protocol.OffsetCommit("g", {("t", 0): 5, ("t", 1): (6, "note"), ("u", 0): (7, None, 3)}),
    "OffsetFetch": protocol.OffsetFetch("g", [("t", 0), ("u", 1)]),
    "DescribeGroup": protocol.DescribeGroup("g"),
    "ListGroups": protocol.ListGroups(states=["Stable"]),
    "DeleteGroup": protocol.DeleteGroup("g"),
    "OffsetDelete": protocol.OffsetDelete("g", [("t", 0), ("u", 1)]),
    "ConsumerGroupHeartbeat": protocol.ConsumerGroupHeartbeat(
        "g", "m", 2, subscribed_topic_names=["t"], topic_partitions=[(2**127, [0, 1])]
    ),
    "ConsumerGroupDescribe": protocol.ConsumerGroupDescribe("g"),
    "TxnOffsetCommit": protocol.TxnOffsetCommit("g", 7, 0, {("t", 0): 5, ("u", 0): (7, None, 3)}),
    "WriteTxnMarker": protocol.WriteTxnMarker(7, 0, True),
}

# The vocabulary of groups lacks them.
TRANSACTIONS = {"TxnOffsetCommit", "WriteTxnMarker"}

VALUES: list[Any] = [
    *REQUESTS.values(),
    protocol.OffsetRecord("g", "t", 0, protocol.OffsetValue(5, metadata="note", topic_id=2**127)),
    protocol.OffsetRecord("g", "t", 0, None),
    protocol.GroupRecord(
        "g", protocol.GroupValue("consumer", 3, "range", "m", 99, [protocol.MemberValue("m", subscription=b"s")])
    ),
    protocol.UnknownRecord(b"\x00\x09", None),
    protocol.JoinAnswer(
        1, protocol.ErrorCode.NONE, 2, "consumer", "range", "m", False, "m", [protocol.JoinedMember("m", None, b"s")]
    ),
    protocol.SyncAnswer(1, protocol.ErrorCode.NONE, "consumer", "range", b"plan"),
    protocol.HeartbeatAnswer(1, protocol.ErrorCode.REBALANCE_IN_PROGRESS),
    protocol.LeaveAnswer(
        1, protocol.ErrorCode.NONE, [protocol.LeftMember("m", "i", protocol.ErrorCode.FENCED_INSTANCE_ID)]
    ),
    protocol.CommitAnswer(1, [protocol.CommittedPartition("t", 0, protocol.ErrorCode.NONE)]),
    protocol.FetchAnswer(
        1, protocol.ErrorCode.NONE, "g", [protocol.FetchedOffset("t", 0, 5, -1, "", protocol.ErrorCode.NONE)]
    ),
    protocol.DescribeAnswer(
        1,
        protocol.ErrorCode.NONE,
        None,
        "g",
        "Stable",
        "consumer",
        "range",
        [protocol.DescribedMember("m", None, "client", "/127.0.0.1", b"s", b"plan")],
    ),
    protocol.ListAnswer(1, protocol.ErrorCode.NONE, [protocol.ListedGroup("g", "consumer", "Stable")]),
    protocol.DeleteAnswer(1, protocol.ErrorCode.GROUP_ID_NOT_FOUND, "g"),
    protocol.OffsetDeleteAnswer(
        1, protocol.ErrorCode.NONE, [protocol.DeletedPartition("t", 0, protocol.ErrorCode.NONE)]
    ),
    protocol.ConsumerHeartbeatAnswer(
        1, protocol.ErrorCode.NONE, None, "m", 2, 5_000, [protocol.AssignedTopic(2**127, [0, 1])]
    ),
    protocol.ConsumerDescribeAnswer(
        1,
        protocol.ErrorCode.NONE,
        None,
        "g",
        "Stable",
        2,
        2,
        "uniform",
        [
            protocol.ConsumerMemberDescription(
                "m",
                None,
                None,
                2,
                "client",
                "/127.0.0.1",
                ["t"],
                "",
                [protocol.NamedTopic(1, "t", [0])],
                [protocol.NamedTopic(1, "t", [0])],
                1,
            )
        ],
    ),
    rota.coordinator.Append(0, [protocol.OffsetRecord("g", "t", 0, None)]),
    rota.coordinator.Wait("Pending", "m", 5),
    rota.coordinator.Rebalance("MemberJoined", "m", "", 1, 2, 3, 4, None, None),
    protocol.Subscription(["t"], owned_partitions=[("t", [0, 2])], rack="r1"),
    protocol.Assignment([("t", [0, 2])], user_data=b"u"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_repr_is_the_expression_that_makes_an_equal_value(value: Any) -> None:
    text = repr(value)
    for error in protocol.ErrorCode:
        text = text.replace(repr(error), f"ErrorCode.{error.name}")
    again = eval(text, {**vars(rota.protocol), **vars(rota.coordinator)})
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
    assert protocol.Heartbeat("g", "m", 1) != protocol.Heartbeat("g", "m", 2)
    assert untyped.Heartbeat("g", "m", 1) != protocol.DescribeGroup("g")
    assert untyped.Heartbeat("g", "m", 1) != "g"
    assert (
        len(
            {
                protocol.Heartbeat("g", "m", 1),
                protocol.Heartbeat("g", "m", 1),
                protocol.Heartbeat("g", "n", 1),
            }
        )
        == 2
    )


def test_a_request_defaults_to_a_dynamic_consumer_of_the_newest_version() -> None:
    join = protocol.JoinGroup("g", protocols=PROTOCOLS)
    assert (join.member_id, join.protocol_type, join.instance_id, join.version) == ("", "consumer", None, 9)
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (45_000, 300_000)
    assert protocol.LeaveGroup("g", ["m"]).version == 5
    assert protocol.OffsetCommit("g", {}).version == 9
    assert protocol.DescribeGroup("g").version == 6


def test_sync_group_speaks_version_5_only_with_both_names() -> None:
    assert protocol.SyncGroup("g", "m", 1).version == 4
    assert protocol.SyncGroup("g", "m", 1, protocol_type="consumer").version == 4
    assert protocol.SyncGroup("g", "m", 1, protocol_type="consumer", protocol_name="range").version == 5
    assert protocol.SyncGroup("g", "m", 1, version=3).version == 3


def test_what_may_be_left_out_is_filled_in() -> None:
    leave = protocol.LeaveGroup("g", ["m", ("", "i"), ("n", None, "done")])
    assert leave.members == (("m", None, None), ("", "i", None), ("n", None, "done"))
    commit = protocol.OffsetCommit("g", {("t", 0): 5, ("t", 1): (6, "note"), ("u", 0): (7, None, 3)})
    assert commit.offsets == ((("t", 0), (5, None, -1)), (("t", 1), (6, "note", -1)), (("u", 0), (7, None, 3)))
    twice = protocol.OffsetCommit("g", [(("t", 0), 5), (("t", 0), 6)])
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
        (lambda: untyped_coordinator.Append(0, [5]), "expected OffsetRecord, GroupRecord or UnknownRecord, not int"),
        (lambda: untyped.HeartbeatAnswer(1, "NONE"), "error"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_type_error_that_says_what_was_expected(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_a_number_that_is_no_error_code_is_refused() -> None:
    assert untyped.HeartbeatAnswer(1, 27).error is protocol.ErrorCode.REBALANCE_IN_PROGRESS
    with pytest.raises(ValueError, match="unknown error code 9999"):
        untyped.HeartbeatAnswer(1, 9999)


def test_error_codes_have_the_protocols_names_and_numbers() -> None:
    code = protocol.ErrorCode.ILLEGAL_GENERATION
    assert (code.name, code.value) == ("ILLEGAL_GENERATION", 22)
    assert code == 22
    assert not protocol.ErrorCode.NONE
    assert protocol.ErrorCode(-1) is protocol.ErrorCode.UNKNOWN_SERVER_ERROR
    assert pickle.loads(pickle.dumps(code)) is code
    assert copy.deepcopy(code) is code
    assert {error.name: error.value for error in protocol.ErrorCode} == _rota.vocabulary()["errors"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_can_be_pickled_and_copied(value: Any) -> None:
    for copied in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert copied == value
        assert repr(copied) == repr(value)


def test_the_error_of_a_commit_is_that_of_its_first_partition_that_failed() -> None:
    none, failed = protocol.ErrorCode.NONE, protocol.ErrorCode.OFFSET_METADATA_TOO_LARGE
    partitions = [protocol.CommittedPartition("t", at, error) for at, error in enumerate([none, failed, none])]
    assert protocol.CommitAnswer(1, partitions).error is failed
    assert protocol.CommitAnswer(1, partitions[:1]).error is none


def test_unions_name_every_request_record_and_effect() -> None:
    names = {type(request).__name__ for request in REQUESTS.values()}
    assert names == set(_rota.vocabulary()["requests"]) | TRANSACTIONS
    assert all(isinstance(request, protocol.Request) for request in REQUESTS.values())
    assert isinstance(protocol.HeartbeatAnswer(1, protocol.ErrorCode.NONE), protocol.Answer)
    assert isinstance(rota.coordinator.Append(0, []), rota.coordinator.Effect)
    assert not isinstance(rota.coordinator.Append(0, []), protocol.Answer)
    assert isinstance(protocol.UnknownRecord(b"k", None), protocol.Record)


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
        "AuditFold",
        "AuditRows",
        "BenchCrowd",
        "DataLog",
        "EngineOperator",
        "JournalReplay",
        "MemberMachine",
        "Server",
        "ServerConfig",
        "SimulatedJournal",
        "Summary",
        "acl_lines",
        "assign_names",
        "audit_ahead",
        "audit_columns",
        "audit_decode",
        "audit_extent",
        "audit_fetched",
        "audit_promises",
        "audit_ranges",
        "audit_records",
        "audit_replay",
        "audit_transactions",
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
        "check_tls",
        "consumer_record",
        "edit_entry",
        "exploration_bounds",
        "exploration_cells",
        "explore",
        "journal_entry",
        "journal_time",
        "nearest",
        "partition_for",
        "recover_log",
        "repair_log",
        "simulate_faults",
        "simulate_plan",
        "simulate_world",
        "simulate_worlds",
        "user_lines",
        "vocabulary",
        "write_batch",
        "write_marker",
    }
    modules = (rota, assign, rota.coordinator, rota.protocol, rota.transactions)
    public = {name for module in modules for name in module.__all__}
    assert set(_rota.__all__) - private <= public
    for name in set(_rota.__all__) - {"__version__", "Answer", "Effect", "Record", "Request"}:
        assert getattr(_rota, name).__doc__, name
