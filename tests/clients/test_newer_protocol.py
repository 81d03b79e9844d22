"""Every family that supports `group.protocol=consumer`, alone and mixed (docs/consumer-protocol.md)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType

from .client import Client, ClientError, Owned
from .eventually import eventually
from .family import AIOKAFKA, FRANZ_GO, JAVA, KAFKA_PYTHON, LIBRDKAFKA, ROTA, Family, need
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

NEWER = (LIBRDKAFKA, JAVA, FRANZ_GO)
CLASSIC = (KAFKA_PYTHON, AIOKAFKA)
SESSION_TIMEOUT_MS = 3_000
REBALANCE_TIMEOUT_MS = 6_000
# ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH: the same commit succeeds once the member has caught up.
REBALANCING = (22, 27, 113)
every_family = pytest.mark.parametrize("family", NEWER, ids=lambda family: family.name)
# rota's own member joins groups, but reads no messages.
every_member = pytest.mark.parametrize("family", [*NEWER, ROTA], ids=lambda family: family.name)


def newer(scene: Scene, family: Family, topics: list[str], **settings: Any) -> Client:
    return scene.member(family, topics, group_protocol="consumer", **settings)


def two_members(scene: Scene, family: Family) -> tuple[Client, Client, Owned]:
    """Two members with a short session that share a topic, and its partitions."""
    scene.configure("consumer.session.timeout.ms", str(SESSION_TIMEOUT_MS))
    topic = scene.topic(4)
    one, other = newer(scene, family, [topic]), newer(scene, family, [topic])
    everything = partitions_of(topic, 4)
    scene.settles([one, other], everything)
    return one, other, everything


@pytest.mark.scenario("42 newer protocol: join over time and leave")
@every_member
def test_members_that_join_and_leave_share_the_partitions(scene: Scene, family: Family) -> None:
    topics = [scene.topic(4, "-a"), scene.topic(3, "-b")]
    everything = partitions_of(topics[0], 4) | partitions_of(topics[1], 3)
    members: list[Client] = []
    for _ in range(3):
        members.append(newer(scene, family, topics))
        scene.settles(members, everything)
    assert scene.type() == ConsumerGroupType.CONSUMER
    members.pop(0).leave()
    scene.settles(members, everything)


@pytest.mark.scenario("43 newer protocol: killed member expires")
@every_member
def test_a_killed_member_loses_its_share_when_its_session_ends(scene: Scene, family: Family) -> None:
    survivor, victim, everything = two_members(scene, family)
    victim.kill()
    scene.settles([survivor], everything)


@pytest.mark.scenario("44 newer protocol: lost session")
@every_member
def test_a_member_that_stood_still_is_told_that_its_partitions_are_lost(scene: Scene, family: Family) -> None:
    steady, frozen, everything = two_members(scene, family)
    had, told_before = frozen.owned, len(frozen.callbacks())
    frozen.freeze()
    scene.settles([steady], everything)
    frozen.thaw()
    first = scene.callback_after(frozen, told_before, [steady, frozen])
    assert first == ("lost", had), frozen.story()
    scene.settles([steady, frozen], everything)


@pytest.mark.scenario("45 newer protocol: static restart")
@pytest.mark.parametrize("family", [LIBRDKAFKA, JAVA, ROTA], ids=lambda family: family.name)
def test_a_static_member_that_restarts_gets_its_partitions_back(scene: Scene, family: Family) -> None:
    topic = scene.topic(4)
    members = [newer(scene, family, [topic], instance_id=f"i{number}") for number in range(2)]
    scene.settles(members, partitions_of(topic, 4))
    steady, restarted = members
    told, had = steady.callbacks(), restarted.owned
    restarted.leave()
    again = newer(scene, family, [topic], instance_id="i1")
    eventually(lambda: again.owned == had, SETTLE_WITHIN_S, f"{again!r} owns {sorted(had)}", again.story)
    assert steady.callbacks() == told, steady.story()


@pytest.mark.scenario("45 newer protocol: static member that leaves without its instance id")
@pytest.mark.parametrize("family", [FRANZ_GO], ids=lambda family: family.name)
def test_a_member_that_leaves_for_a_while_without_its_instance_id_is_refused(scene: Scene, family: Family) -> None:
    # franz-go 1.22.2 does not send it: its static members stay until their sessions end.
    topic = scene.topic(1)
    member = newer(scene, family, [topic], instance_id="i1")
    scene.settles([member], partitions_of(topic, 1))
    with pytest.raises(ClientError, match="InstanceId can't be null"):
        member.leave()


@pytest.mark.scenario("46 newer protocol: callbacks in order")
@every_member
def test_a_member_gives_up_only_what_moves_before_another_is_assigned_it(scene: Scene, family: Family) -> None:
    topic = scene.topic(4)
    everything = partitions_of(topic, 4)
    old = newer(scene, family, [topic])
    scene.settles([old], everything)
    new = newer(scene, family, [topic])
    scene.settles([old, new], everything)
    moved = new.owned
    assert old.callbacks() == [("assigned", everything), ("revoked", moved)], old.story()
    assigned = [partitions for name, partitions in new.callbacks() if name == "assigned"]
    assert frozenset().union(*assigned) == moved, new.story()
    given_up = [e["at_ms"] for e in old.of_kind("callback") if e["name"] == "revoked" and e["partitions"]]
    taken = [e["at_ms"] for e in new.of_kind("callback") if e["name"] == "assigned" and e["partitions"]]
    assert max(given_up) <= min(taken), scene.story([old, new])


@pytest.mark.scenario("47 newer protocol: commit and resume")
@every_family
def test_a_new_consumer_goes_on_where_the_group_committed(scene: Scene, family: Family) -> None:
    topic = scene.topic(1)
    scene.client(family).ask("produce", topic=topic, partition=0, values=[str(number) for number in range(20)])
    one = newer(scene, family, [topic])
    eventually(lambda: len(one.messages()) == 20, SETTLE_WITHIN_S, "all messages are read", one.story)
    assert one.commit([(topic, 0, 15)]) == {0: 15}
    one.leave()
    two = newer(scene, family, [topic])
    eventually(lambda: len(two.messages()) >= 5, SETTLE_WITHIN_S, "the rest is read", two.story)
    assert two.messages() == [(0, number, str(number)) for number in range(15, 20)]


@pytest.mark.scenario("48 newer protocol: topics come, grow and go")
@every_member
def test_a_pattern_takes_in_what_is_created_grows_and_is_deleted(scene: Scene, family: Family) -> None:
    first = scene.topic(2, "-first")
    members = [newer(scene, family, [], pattern=f"^{scene.name}-.*") for _ in range(2)]
    scene.settles(members, partitions_of(first, 2))
    second = scene.topic(2, "-second")
    scene.settles(members, partitions_of(first, 2) | partitions_of(second, 2))
    scene.grow(second, 4)
    scene.settles(members, partitions_of(first, 2) | partitions_of(second, 4))
    scene.delete(first)
    scene.settles(members, partitions_of(second, 4))


@pytest.mark.scenario("52 newer protocol: slow revocation")
@every_family
def test_a_member_that_does_not_give_up_its_partitions_in_time_is_removed(scene: Scene, family: Family) -> None:
    topic = scene.topic(4)
    everything = partitions_of(topic, 4)
    slow = newer(scene, family, [topic], max_poll_interval_ms=REBALANCE_TIMEOUT_MS, keeps_revoked=True)
    scene.settles([slow], everything)
    other = newer(scene, family, [topic])
    eventually(lambda: other.owned == everything, SETTLE_WITHIN_S, f"{other!r} owns everything", slow.story)
    told = slow.callbacks()
    assert [name for name, _ in told] == ["assigned", "revoked"], slow.story()
    slow.ask("give_up")
    first = scene.callback_after(slow, len(told), [slow, other])
    assert first[0] == "lost", slow.story()
    scene.settles([slow, other], everything)


@pytest.mark.scenario("49 newer protocol: mixed families")
@pytest.mark.java
def test_all_families_of_the_newer_protocol_share_a_group(scene: Scene) -> None:
    need(*NEWER)
    topic = scene.topic(8)
    members: list[Client] = []
    for family in (*NEWER, ROTA):
        members.append(newer(scene, family, [topic]))
        scene.settles(members, partitions_of(topic, 8))
    members.pop(0).leave()
    scene.settles(members, partitions_of(topic, 8))


@pytest.mark.scenario("50 newer protocol: mixed with classic members")
@pytest.mark.java
def test_members_of_both_protocols_share_a_group(scene: Scene) -> None:
    need(*NEWER)
    topic = scene.topic(10)
    everything = partitions_of(topic, 10)
    members = [scene.member(family, [topic], "range") for family in CLASSIC]
    scene.settles(members, everything)
    assert scene.type() == ConsumerGroupType.CLASSIC
    for family in NEWER:
        members.append(newer(scene, family, [topic]))
        scene.settles(members, everything)
    assert scene.type() == ConsumerGroupType.CONSUMER
    for member in members[2:]:
        member.leave()
    scene.settles(members[:2], everything)
    assert scene.type() == ConsumerGroupType.CLASSIC


def commit_when_settled(member: Client) -> None:
    """Commits, again while the client says that its group rebalances and that the commit can be retried."""

    def committed() -> bool:
        try:
            member.commit()
        except ClientError as refused:
            if refused.error["code"] not in REBALANCING:
                raise
            return False
        return True

    eventually(committed, SETTLE_WITHIN_S, f"{member!r} commits", member.story)


class Rolling:
    """Ten members, and messages that have to be read once each."""

    PARTITIONS = 12
    FAMILIES = (LIBRDKAFKA, FRANZ_GO, LIBRDKAFKA, JAVA, FRANZ_GO)

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.topic = scene.topic(self.PARTITIONS)
        self.everything = partitions_of(self.topic, self.PARTITIONS)
        self.tools = scene.client(LIBRDKAFKA)
        self.members: list[Client] = []
        self.ended: list[Client] = []
        self.sent: list[str] = []
        self.numbers = itertools.count()

    def join(self, place: int, group_protocol: str) -> Client:
        family = self.FAMILIES[place % len(self.FAMILIES)]
        return self.scene.member(family, [self.topic], "cooperative-sticky", group_protocol=group_protocol)

    def begin(self) -> None:
        self.members = [self.join(place, "classic") for place in range(10)]
        self.scene.settles(self.members, self.everything)

    def read(self) -> list[str]:
        return [value for member in self.members + self.ended for _, _, value in member.messages()]

    def work(self) -> None:
        """One message for each partition; all are read and committed."""
        for partition in range(self.PARTITIONS):
            values = [f"{next(self.numbers)}"]
            self.tools.ask("produce", topic=self.topic, partition=partition, values=values)
            self.sent += values
        eventually(
            lambda: len(self.read()) >= len(self.sent),
            SETTLE_WITHIN_S,
            f"{len(self.sent)} messages are read",
            lambda: self.scene.story(self.members),
        )
        for member in self.members:
            commit_when_settled(member)

    def replace_each(self, group_protocol: str) -> None:
        for place in range(10):
            self.work()
            before = self.members[place]
            before.leave()
            self.ended.append(before)
            self.members[place] = self.join(place, group_protocol)
            self.scene.settles(self.members, self.everything)


@pytest.mark.scenario("51 newer protocol: ten members upgraded and downgraded")
@pytest.mark.java
def test_ten_members_change_their_protocol_one_at_a_time_and_read_every_message_once(scene: Scene) -> None:
    need(*NEWER)
    rolling = Rolling(scene)
    rolling.begin()
    assert scene.type() == ConsumerGroupType.CLASSIC
    rolling.replace_each("consumer")
    assert scene.type() == ConsumerGroupType.CONSUMER
    rolling.replace_each("classic")
    assert scene.type() == ConsumerGroupType.CLASSIC
    rolling.work()
    assert sorted(rolling.read()) == sorted(rolling.sent)
