"""`rota.Member` without sockets: automatic commits that fail, are repeated, or meet newer ones."""

from __future__ import annotations

import uuid
from typing import Any, Literal

import pytest

import rota
from rota.member import Assign, Committed, Effect, Failed, MemberSettings, Offset, Partition, Revoke, Send
from rota.protocol import ErrorCode

from .test_machine import COORDINATOR, assigned, joined

INTERVAL_MS = 1_000
TOPIC_ID = uuid.UUID(int=7)
Protocol = Literal["classic", "consumer"]
PROTOCOLS: list[Protocol] = ["classic", "consumer"]


def sent(effects: list[Effect], api: str) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and effect.api == api]


def committed(effects: list[Effect]) -> list[dict[int, int]]:
    """The offsets of each commit, by partition."""
    return [
        {one["partition_index"]: one["offset"] for topic in send.fields["topics"] for one in topic["partitions"]}
        for send in sent(effects, "OffsetCommit")
    ]


def revoked(effects: list[Effect]) -> list[Partition]:
    return [partition for effect in effects if isinstance(effect, Revoke) for partition in effect.partitions]


class Group:
    """A coordinator, played by hand, and its only member, which holds partitions of `t`."""

    def __init__(self, protocol: Protocol, partitions: int = 2, **settings: Any) -> None:
        self.is_consumer = protocol == "consumer"
        self.generation = 0
        self.beats: list[Send] = []
        self.member = rota.Member(
            "readers",
            MemberSettings(group_protocol=protocol, seed=1, auto_commit_interval_ms=INTERVAL_MS, **settings),
        )
        [find] = sent(self.member.subscribe(0, ["t"]), "FindCoordinator")
        effects = self.member.answered(0, find.request, find.api, COORDINATOR)
        self.let_in(0, effects, range(partitions))

    def let_in(self, now_ms: int, effects: list[Effect], partitions: range) -> None:
        """Answers until the application has handled its assignment."""
        self.generation += 1
        if self.is_consumer:
            [beat] = sent(effects, "ConsumerGroupHeartbeat")
            [names] = sent(self.beaten(now_ms, beat, partitions), "Metadata")
            topics = [{"error_code": 0, "name": "t", "topic_id": TOPIC_ID}]
            effects = self.member.answered(now_ms, names.request, "Metadata", {"topics": topics})
        else:
            [join] = sent(effects, "JoinGroup")
            answer = joined(generation=self.generation) | {"protocol_name": join.fields["protocols"][0]["name"]}
            [sync] = sent(self.member.answered(now_ms, join.request, "JoinGroup", answer), "SyncGroup")
            effects = self.member.answered(now_ms, sync.request, "SyncGroup", assigned(("t", list(partitions))))
        assert any(isinstance(effect, Assign) for effect in effects)
        for beat in sent(self.member.done(now_ms), "ConsumerGroupHeartbeat"):
            self.beaten(now_ms, beat)
        self.member.poll(now_ms)

    def beaten(self, now_ms: int, beat: Send, partitions: range | None = None) -> list[Effect]:
        """Answers a heartbeat, with an assignment if there is one."""
        answer: dict[str, Any] = {"error_code": 0, "member_epoch": self.generation, "heartbeat_interval_ms": 200}
        answer["assignment"] = None
        if partitions is not None:
            answer["assignment"] = {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": list(partitions)}]}
        return self.member.answered(now_ms, beat.request, beat.api, answer)

    def reads(self, now_ms: int, offset: int, partition: int = 0) -> None:
        assert not self.member.position(now_ms, ("t", partition), Offset(offset))

    def answers(
        self, now_ms: int, commit: Send, error: ErrorCode = ErrorCode.NONE, others: dict[int, ErrorCode] | None = None
    ) -> list[Effect]:
        """Answers all partitions of a commit."""
        errors = others or {}
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": index, "error_code": int(errors.get(index, error))}
                    for index in (one["partition_index"] for one in topic["partitions"])
                ],
            }
            for topic in commit.fields["topics"]
        ]
        return self.member.answered(now_ms, commit.request, commit.api, {"topics": topics})

    def advance(self, now_ms: int) -> list[Effect]:
        effects = self.member.advance(now_ms)
        self.beats += sent(effects, "ConsumerGroupHeartbeat")
        return effects

    def rebalances(self, now_ms: int, partitions: range) -> list[Effect]:
        """Begins a rebalance; with the newer protocol the member shall hold these partitions."""
        if not self.is_consumer:
            return self.member.rejoin(now_ms, "a test")
        self.generation += 1
        return self.beaten(now_ms, self.beats.pop(), partitions)


def loading(protocol: Protocol, **settings: Any) -> Group:
    """Offset 5 of partition 0 waits: its commit met a coordinator that loads."""
    group = Group(protocol, **settings)
    group.reads(10, 5)
    effects = group.advance(INTERVAL_MS + 100)
    assert committed(effects) == [{0: 5}]
    [commit] = sent(effects, "OffsetCommit")
    assert not group.answers(INTERVAL_MS + 110, commit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return group


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_offset_that_waits_is_not_committed_after_a_newer_one(protocol: Protocol) -> None:
    group = loading(protocol)
    group.reads(1_120, 7)
    effects = group.member.close(1_125)
    assert committed(effects) == [{0: 7}]
    [commit] = sent(effects, "OffsetCommit")
    assert group.answers(1_130, commit) == [Revoke([("t", 0), ("t", 1)])]
    assert not sent(group.advance(2_000), "OffsetCommit")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_offset_that_waits_is_committed_on_close_with_those_of_other_partitions(protocol: Protocol) -> None:
    group = loading(protocol)
    group.reads(1_120, 3, partition=1)
    assert committed(group.member.close(1_125)) == [{0: 5, 1: 3}]
    assert not sent(group.advance(2_000), "OffsetCommit")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_offset_that_waits_is_not_committed_after_one_of_the_application(protocol: Protocol) -> None:
    group = loading(protocol)
    group.reads(1_115, 3, partition=1)
    effects = group.member.commit(1_120, 1, {("t", 0): Offset(9)})
    assert committed(effects) == [{0: 9}]
    effects = group.advance(3_000)
    assert committed(effects) == [{1: 3}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_in_flight_is_repeated_without_what_a_newer_one_has(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    group.reads(10, 3, partition=1)
    [older] = sent(group.advance(1_100), "OffsetCommit")
    group.reads(1_110, 7)
    [newer] = sent(group.member.close(1_120), "OffsetCommit")
    assert not sent(group.answers(1_130, older, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), "OffsetCommit")
    assert not group.answers(1_140, newer), "the older one has not ended"
    effects = group.advance(2_000)
    assert committed(effects) == [{1: 3}]
    [repeated] = sent(effects, "OffsetCommit")
    assert group.answers(2_010, repeated) == [Revoke([("t", 0), ("t", 1)])]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_in_flight_ends_when_a_newer_one_has_all_of_it(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [older] = sent(group.advance(1_100), "OffsetCommit")
    group.reads(1_110, 7)
    [newer] = sent(group.member.close(1_120), "OffsetCommit")
    assert not group.answers(1_130, older, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert group.answers(1_140, newer) == [Revoke([("t", 0), ("t", 1)])]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_commits_an_offset_that_waits_before_it_revokes(protocol: Protocol) -> None:
    group = loading(protocol)
    effects = group.rebalances(1_120, range(1))
    assert committed(effects) == [{0: 5}]
    assert not revoked(effects)
    [commit] = sent(effects, "OffsetCommit")
    assert revoked(group.answers(1_130, commit))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_waits_for_a_commit_in_flight_as_long_as_a_rebalance_may_take(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [commit] = sent(group.advance(1_100), "OffsetCommit")
    assert not revoked(group.rebalances(1_120, range(1)))
    assert not group.answers(1_130, commit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    effects = group.advance(41_130)
    assert committed(effects) == [{0: 5}], "a commit of the interval would have been given up"
    [commit] = sent(effects, "OffsetCommit")
    assert revoked(group.answers(41_140, commit))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_rebalance_does_not_repeat_the_commit_of_a_deleted_topic(protocol: Protocol, is_in_flight: bool) -> None:
    """Kafka's classic consumer does, for `max.poll.interval.ms` (KAFKA-20959); its newer one does not (KAFKA-16224)."""
    group = Group(protocol)
    group.advance(900)
    group.reads(910, 5)
    effects = group.advance(1_100) if is_in_flight else []
    effects += group.rebalances(1_120, range(1))
    [commit] = sent(effects, "OffsetCommit")
    assert not revoked(effects)
    assert revoked(group.answers(1_130, commit, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_repeats_a_commit_without_deleted_topics(protocol: Protocol) -> None:
    group = Group(protocol)
    group.advance(900)
    group.reads(910, 5)
    group.reads(910, 3, partition=1)
    [commit] = sent(group.rebalances(920, range(1)), "OffsetCommit")
    deleted = {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not group.answers(930, commit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, deleted)
    effects = group.advance(2_000)
    assert committed(effects) == [{0: 5}]
    [commit] = sent(effects, "OffsetCommit")
    assert revoked(group.answers(2_010, commit))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_of_the_interval_is_repeated_for_a_topic_that_is_not_known(
    protocol: Protocol,
) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [commit] = sent(group.advance(1_100), "OffsetCommit")
    assert not group.answers(1_110, commit, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert committed(group.advance(2_000)) == [{0: 5}]


def test_commits_of_the_interval_that_keep_failing_come_ever_later() -> None:
    group = Group("classic")
    group.reads(10, 5)
    [commit] = sent(group.advance(1_100), "OffsetCommit")
    waits_ms: list[int] = []
    at_ms = 1_100
    for _ in range(8):
        failed_at_ms = at_ms
        assert not group.answers(at_ms, commit, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        while not (again := sent(group.advance(at_ms := at_ms + 1), "OffsetCommit")):
            pass
        [commit] = again
        waits_ms.append(at_ms - failed_at_ms)
    # Each backoff has a jitter of 20 %.
    for wait_ms, backoff_ms in zip(waits_ms, [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000], strict=True):
        assert 0.8 * backoff_ms <= wait_ms <= 1.2 * backoff_ms + 1
    group.answers(at_ms, commit)
    # After one that succeeds, the next error waits for the shortest time again.
    group.reads(at_ms, 6)
    [commit] = sent(group.advance(at_ms + INTERVAL_MS), "OffsetCommit")
    group.answers(at_ms + INTERVAL_MS, commit, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert committed(group.advance(at_ms + INTERVAL_MS + 121)) == [{0: 6}]


@pytest.mark.parametrize("ends_by", ["the interval", "a close"])
def test_what_the_commit_of_a_round_did_not_store_is_committed_if_the_member_keeps_it(ends_by: str) -> None:
    group = Group("classic", strategies=["cooperative-sticky"])
    group.reads(10, 5)
    [commit] = sent(group.rebalances(20, range(2)), "OffsetCommit")
    effects = group.answers(30, commit, ErrorCode.UNKNOWN_SERVER_ERROR)
    group.let_in(40, effects, range(2))
    again = group.member.close(50) if ends_by == "a close" else group.advance(40 + INTERVAL_MS)
    assert committed(again) == [{0: 5}]


def test_what_the_commit_of_a_reconciliation_did_not_store_is_committed_if_the_member_keeps_it() -> None:
    group = Group("consumer")
    group.advance(900)
    group.reads(910, 5)
    group.reads(910, 3, partition=1)
    [commit] = sent(group.rebalances(920, range(1)), "OffsetCommit")
    assert revoked(group.answers(930, commit, ErrorCode.UNKNOWN_SERVER_ERROR)) == [("t", 1)]
    assert committed(group.advance(2_000)) == [{0: 5}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_of_the_application_waits_for_an_earlier_one_that_is_repeated(protocol: Protocol) -> None:
    group = Group(protocol)
    [first] = sent(group.member.commit(10, 1, {("t", 0): Offset(5)}), "OffsetCommit")
    assert not group.answers(20, first, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not sent(group.member.commit(30, 2, {("t", 0): Offset(9)}), "OffsetCommit")
    assert committed(group.member.commit(30, 3, {("t", 1): Offset(3)})) == [{1: 3}], "it shares no partition"
    [again] = sent(group.advance(500), "OffsetCommit")
    effects = group.answers(510, again)
    assert [effect.commit for effect in effects if isinstance(effect, Committed)] == [1]
    assert committed(effects) == [{0: 9}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_automatic_commit_waits_for_one_of_the_application_that_is_repeated(protocol: Protocol) -> None:
    group = Group(protocol)
    [commit] = sent(group.member.commit(990, 1, {("t", 0): Offset(5)}), "OffsetCommit")
    assert not group.answers(995, commit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    group.reads(996, 7)
    effects = group.advance(2_000)
    assert committed(effects) == [{0: 5}]
    [commit] = sent(effects, "OffsetCommit")
    assert committed(group.answers(2_010, commit)) == [{0: 7}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_interval_does_not_commit_what_the_application_has_passed(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [commit] = sent(group.member.commit(20, 1, {("t", 0): Offset(9)}), "OffsetCommit")
    group.answers(30, commit)
    assert not sent(group.advance(1_100), "OffsetCommit")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_position_counts_again_if_the_commit_of_the_application_fails(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [commit] = sent(group.member.commit(20, 1, {("t", 0): Offset(5)}), "OffsetCommit")
    group.answers(30, commit, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert committed(group.advance(1_100)) == [{0: 5}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_does_not_wait_for_the_commit_of_the_application_for_a_deleted_topic(protocol: Protocol) -> None:
    group = Group(protocol)
    group.advance(900)
    [commit] = sent(group.member.commit(910, 1, {("t", 0): Offset(5), ("t", 1): Offset(3)}), "OffsetCommit")
    assert not group.answers(920, commit, others={1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    group.reads(930, 8)
    group.reads(930, 4, partition=1)
    effects = group.rebalances(940, range(1))
    assert committed(effects) == [{0: 8, 1: 4}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_of_the_application_goes_behind_one_that_a_rebalance_waits_for(protocol: Protocol) -> None:
    group = Group(protocol)
    group.advance(900)
    group.reads(910, 5)
    [commit] = sent(group.rebalances(920, range(1)), "OffsetCommit")
    assert not group.answers(930, commit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not sent(group.member.commit(940, 1, {("t", 0): Offset(9)}), "OffsetCommit")
    assert committed(group.advance(2_000)) == [{0: 5}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_that_fails_does_not_hold_up_the_positions_of_others(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    group.reads(10, 3, partition=1)
    [commit] = sent(group.advance(1_100), "OffsetCommit")
    deleted = {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not group.answers(1_110, commit, others=deleted)
    effects = group.advance(1_300)
    assert committed(effects) == [{1: 3}], "what is stored is not committed again"
    [commit] = sent(effects, "OffsetCommit")
    group.reads(1_305, 8)
    assert not group.answers(1_310, commit, others=deleted)
    assert committed(group.advance(1_600)) == [{0: 8, 1: 3}], "it does not wait for the interval"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_close_does_not_wait_for_the_commit_of_a_deleted_topic(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [commit] = sent(group.member.close(20), "OffsetCommit")
    assert revoked(group.answers(30, commit, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) == [("t", 0), ("t", 1)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_close_leaves_when_the_time_for_its_commit_is_over(protocol: Protocol) -> None:
    group = Group(protocol)
    group.reads(10, 5)
    [commit] = sent(group.member.close(20, commit_timeout_ms=500), "OffsetCommit")
    assert not group.answers(30, commit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not revoked(group.advance(400))
    assert revoked(group.advance(520)) == [("t", 0), ("t", 1)]


def test_a_static_member_that_a_commit_finds_fenced_says_so() -> None:
    group = Group("classic", instance_id="i")
    group.reads(10, 5)
    [commit] = sent(group.advance(1_100), "OffsetCommit")
    [failed] = [e for e in group.answers(1_110, commit, ErrorCode.FENCED_INSTANCE_ID) if isinstance(e, Failed)]
    assert failed.error.error == ErrorCode.FENCED_INSTANCE_ID
    assert not sent(group.advance(60_000), "JoinGroup"), "it would throw out the other process"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_unsubscribes_commits_as_itself_until_it_leaves(protocol: Protocol) -> None:
    group = Group(protocol)
    assert revoked(group.member.unsubscribe(10)) == [("t", 0), ("t", 1)]
    [commit] = sent(group.member.commit(20, 1, {("t", 0): Offset(5)}), "OffsetCommit")
    assert commit.fields["member_id"] != ""
    group.answers(30, commit)
    leave = "ConsumerGroupHeartbeat" if group.is_consumer else "LeaveGroup"
    assert len(sent(group.member.done(40), leave)) == 1
