"""Sessions in which groups change their protocol, under the four policies of `group.consumer.migration.policy`.

A session begins with the policy that its broker needs; the rest are steps of a transcript. `member` lines give classic
members real subscriptions, because a coordinator reads them when it converts the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
TOPICS = "topics foo:6 bar:3"
BEGIN = (TOPICS, "settings consumer.assignment.interval.ms=0")
USUAL = "bidirectional"


def classic(name: str, options: str = "") -> str:
    """What a classic member offers: a subscription to foo."""
    return f"member {name} range:[foo|none] session=6s rebalance=8s{options}"


#: A stable classic group of one, of generation 1.
ALONE = (*BEGIN, classic("a"), "a JoinGroup", "a JoinGroup", "a SyncGroup plan=a:[foo:0-5]")
#: Two classic members, generation 2: a joins again when its heartbeat says so.
PAIR = (
    *ALONE,
    classic("b"),
    "b JoinGroup",
    "b JoinGroup",
    "a' Heartbeat",
    "a JoinGroup",
    "a SyncGroup plan=a:[foo:0-2],b:[foo:3-5]",
    "b SyncGroup",
)
STATIC_ALONE = (*BEGIN, classic("a"), "a JoinGroup instance=i1", "a SyncGroup instance=i1 plan=a:[foo:0-5]")
#: A classic and a consumer member, at epoch 2.
MIXED = (
    *ALONE,
    "m1 beat join foo",
    "a Heartbeat",
    "a JoinGroup",
    "a SyncGroup",
    "m1 beat",
    "d look",
)
#: A consumer group that was never classic.
NEWER = (*BEGIN, "m1 beat join foo", classic("a"))
JOINED = (*NEWER, "a JoinGroup", "a JoinGroup", "a SyncGroup", "m1 beat", "m1 beat owns=foo:0-2")


def again(name: str, owned: str) -> str:
    """The member's next JoinGroup reports these partitions."""
    return f"{name} JoinGroup protocols=range:[foo|{owned}]"


@dataclass(frozen=True)
class Conversion:
    """One session on a broker with this policy."""

    name: str
    policy: str
    steps: tuple[str, ...]
    #: settings of its broker, besides the policy
    limits: tuple[tuple[str, str], ...] = ()


#: Played under each policy.
ATTEMPTS: dict[str, tuple[str, ...]] = {
    "upgrade-of-one": (*ALONE, "m1 beat join foo", "d look", "a Heartbeat", "a JoinGroup", "a SyncGroup", "d look"),
    "upgrade-of-two": (*PAIR, "m1 beat join foo", "d look", "a Heartbeat", "b Heartbeat", "d look"),
    "upgrade-by-a-static-member": (*STATIC_ALONE, "m1 beat join foo instance=i1", "a Heartbeat instance=i1", "d look"),
    "upgrade-of-an-empty-group": (*ALONE, "a LeaveGroup", "m1 beat join foo", "d look"),
    "a-classic-member-joins": (*NEWER, "a JoinGroup", "a JoinGroup", "d look"),
    "a-classic-static-member-joins": (*NEWER, "a JoinGroup instance=i1", "d look"),
    "a-classic-member-joins-an-empty-group": (
        *NEWER, "m1 beat epoch=-1", "a JoinGroup", "a JoinGroup", "a SyncGroup plan=a:[foo:0-5]", "d look",
    ),
    "a-classic-member-takes-over-an-instance": (
        *BEGIN, classic("a"), "m1 beat join foo instance=i1", "a JoinGroup instance=i1", "a SyncGroup instance=i1",
        "d look", "a Heartbeat instance=i1", "m1 beat instance=i1",
    ),
}  # fmt: skip
#: Played where both directions are allowed, and where only the way up is: the second keeps the group.
DOWNGRADES: dict[str, tuple[str, ...]] = {
    "the-last-consumer-leaves": (
        *MIXED, "m1 beat epoch=-1", "d look", "a Heartbeat generation=1", "a Heartbeat", "a JoinGroup",
        "a SyncGroup plan=a:[foo:0-5]", "a Heartbeat",
    ),
    "the-last-consumer-is-removed-by-leave-group": (
        *MIXED, "x LeaveGroup members=m1", "d look", "a Heartbeat", "a JoinGroup",
    ),
    "the-last-consumer-is-away": (
        *ALONE, "m1 beat join foo instance=i1", "a JoinGroup", "a SyncGroup", "m1 beat instance=i1",
        "m1 beat epoch=-2 instance=i1", "d look", "a Heartbeat",
    ),
    "the-last-consumer-times-out": (
        *BEGIN, "settings consumer.session.timeout.ms=1500 consumer.heartbeat.interval.ms=500", *ALONE[2:],
        "m1 beat join foo", "a JoinGroup", "a SyncGroup", "+1700ms", "d look", "a Heartbeat", "a JoinGroup",
    ),
    "a-member-behind-the-group-epoch": (
        *MIXED, "m2 beat join foo", "m1 beat epoch=-1", "m2 beat epoch=-1", "a Heartbeat", "a JoinGroup",
    ),
}  # fmt: skip
#: Played under the usual policy.
OTHERS: dict[str, tuple[str, ...]] = {
    "two-cooperative-members-rejoin": (
        *PAIR, "m1 beat join foo", "a Heartbeat", "a SyncGroup", again("a", "foo:0-2"), "a SyncGroup", "a Heartbeat",
        "d look", again("a", "foo:0-1"), "a SyncGroup", "a Heartbeat", "m1 beat", again("b", "foo:3-5"), "b SyncGroup",
        again("b", "foo:3-4"), "b SyncGroup", "m1 beat", "d look",
    ),
    "two-eager-members-rejoin": (
        *PAIR, "m1 beat join foo", again("a", "none"), "a SyncGroup", "a Heartbeat", again("b", "none"), "b SyncGroup",
        "b Heartbeat", "m1 beat", "d look",
    ),
    "upgrade-while-joining": (
        *ALONE, classic("b"), "b JoinGroup", "b JoinGroup", "m1 beat join bar", "d look", "b' JoinGroup", "d look",
    ),
    "upgrade-while-syncing": (
        *ALONE, classic("b"), "b JoinGroup", "b JoinGroup", "a' Heartbeat", "a JoinGroup", "b SyncGroup",
        "m1 beat join bar", "d look", "a JoinGroup", "a SyncGroup", "b Heartbeat", "b JoinGroup",
    ),
    "upgrade-of-an-interrupted-plan": (
        *PAIR, classic("c"), "c JoinGroup", "c JoinGroup", "a Heartbeat", again("a", "foo:0-2"),
        again("b", "foo:3-5"), classic("e"), "e JoinGroup", "e JoinGroup", "m1 beat join foo", "d look",
        "a Heartbeat", again("a", "foo:0-2"), "a SyncGroup", "d look",
    ),
    "upgrade-behind-a-downgrade": (
        *ALONE, "m1 beat join foo", "m1 beat epoch=-1", again("a", "foo:0-5"), "m1 beat join foo", "d look",
        "a SyncGroup", "a Heartbeat", again("a", "foo:0-2"), "a SyncGroup", "a Heartbeat", "m1 beat", "d look",
    ),
    "upgrade-before-a-member-syncs": (
        *PAIR, classic("c"), "c JoinGroup", "c JoinGroup", "a Heartbeat", again("a", "foo:0-2"), again("b", "foo:3-5"),
        "a SyncGroup plan=a:[foo:0-2],b:[foo:3],c:[none]", "m1 beat join foo", "d look", "b SyncGroup",
        again("b", "foo:3-5"), "b SyncGroup", "b Heartbeat", again("b", "foo:3"), "b SyncGroup", "m1 beat", "d look",
    ),
    "upgrade-of-another-protocol-type": (
        *BEGIN, "member a range:[foo] type=connect", "a JoinGroup", "a JoinGroup", "a SyncGroup plan=a:Xa",
        "m1 beat join foo", "a Heartbeat",
    ),
    "upgrade-of-metadata-that-is-none": (
        *BEGIN, "member a range:Sa", "a JoinGroup", "a JoinGroup", "a SyncGroup plan=a:Xa", "m1 beat join foo",
        "a Heartbeat",
    ),
    "upgrade-of-metadata-that-is-none-while-joining": (
        *BEGIN, "member a range:Sa", "member b range:Sb", "a JoinGroup", "a JoinGroup", "b JoinGroup", "b JoinGroup",
        "m1 beat join foo", "a' Heartbeat", "a JoinGroup", "b JoinGroup", "a' Heartbeat", "a SyncGroup plan=a,b",
        "x DescribeGroup v=5",
    ),
    "upgrade-of-metadata-that-is-none-while-syncing": (
        *BEGIN, "member a range:Sa", "member b range:Sb", "a JoinGroup", "a JoinGroup", "b JoinGroup", "b JoinGroup",
        "a' Heartbeat", "a JoinGroup", "b SyncGroup", "m1 beat join foo", "b SyncGroup", "a SyncGroup plan=a,b",
        "x DescribeGroup v=5",
    ),
    "upgrade-with-a-pattern-that-is-none-while-syncing": (
        *ALONE, classic("b"), "b JoinGroup", "b JoinGroup", "a' Heartbeat", "a JoinGroup", "b SyncGroup",
        "m1 beat join null pattern=(", "a Heartbeat", "b' Heartbeat", "a SyncGroup plan=a:[foo:0-2],b:[foo:3-5]",
        "x DescribeGroup v=5",
    ),
    "upgrade-of-an-assignment-that-is-none": (
        *BEGIN, classic("a"), "a JoinGroup", "a JoinGroup", "a SyncGroup plan=a:Xa", "m1 beat join foo", "a Heartbeat",
    ),
    "a-waiting-classic-member-is-told-when-all-is-free": (
        *NEWER, "m2 beat join foo", "m1 beat", "m1 beat owns=foo:0-2", "m2 beat", "a JoinGroup", "a JoinGroup",
        "a SyncGroup", "a Heartbeat", "m1 beat", "m1 beat owns=foo:0-1", "d look", "a Heartbeat", "m2 beat",
        "m2 beat owns=foo:3-4", "d look", "a Heartbeat", again("a", "none"), "a SyncGroup", "a Heartbeat", "d look",
    ),
    "a-waiting-classic-member-heartbeats": (
        *NEWER, "a JoinGroup", "a JoinGroup", "a SyncGroup", "a Heartbeat", "m1 beat", "a Heartbeat",
        "m1 beat owns=foo:0-2", "a Heartbeat", "a SyncGroup", again("a", "none"), "a SyncGroup", "a Heartbeat",
        "d look",
    ),
    "a-revoking-classic-member": (
        *ALONE, "m1 beat join foo", again("a", "foo:0-5"), "d look", "a Heartbeat", "a SyncGroup", "m2 beat join foo",
        "a Heartbeat", "a SyncGroup", again("a", "foo:0-2"), "a SyncGroup", "d look", again("a", "foo:0-1"),
        "a SyncGroup", "a Heartbeat", "d look",
    ),
    "refused-classic-requests": (
        *JOINED, "a Heartbeat generation=1", "a Heartbeat generation=9", "m1 Heartbeat id=m1 generation=3",
        "x Heartbeat id=x generation=3", "a Heartbeat instance=i9", "a SyncGroup generation=1",
        "a SyncGroup generation=9", "m1 SyncGroup id=m1 generation=3", "a SyncGroup instance=i9",
        "a SyncGroup name=sticky", "a SyncGroup type=connect", "a SyncGroup",
    ),
    "refused-classic-joins": (
        *JOINED, "member c sticky:[foo]", "c JoinGroup", "member e range:[foo] type=connect", "e JoinGroup",
        "member f range:Sf", "f JoinGroup", "f JoinGroup", "f JoinGroup instance=i5", "h JoinGroup id=h instance=i6",
        "a JoinGroup protocols=sticky:[foo]", "a JoinGroup protocols=range:Sa",
        "a JoinGroup protocols=range:Sa instance=i7",
        "a JoinGroup type=connect", "d look",
    ),
    "a-refused-join-meets-an-empty-group": (
        *NEWER, "a JoinGroup", "m1 beat epoch=-1", "a JoinGroup", "d look", "x ListGroups", "m1 beat epoch=3",
        "x DeleteGroup", 'x OffsetCommit id="" generation=-1 foo/0=3', "d look", "x ListGroups", "m1 beat join foo",
    ),
    "an-unknown-dynamic-id-joins": (*NEWER, "a JoinGroup id=q", "d look"),
    "old-versions-join-without-an-id": (
        *NEWER, "member a range:[foo|none] version=3 session=6s rebalance=8s", "a JoinGroup",
        "a SyncGroup v=2 type=null name=null", "d look",
    ),
    "a-member-id-becomes-a-consumer": (
        *JOINED, "a beat join foo", "a Heartbeat", "d look", "a JoinGroup", "a SyncGroup", "d look",
        "a beat epoch=3 owns=foo:3-5", "a Heartbeat", "d look",
    ),
    "a-consumer-id-becomes-classic": (
        *NEWER, "m2 beat join foo", "m1 beat", "m1 beat owns=foo:0-2", "m2 beat", classic("m2"), "m2 JoinGroup id=m2",
        "m2 SyncGroup", "d look", "m2 beat", "m2 beat epoch=-1", "d look",
    ),
    "the-only-consumer-id-becomes-classic": (
        *NEWER, classic("m1"), "m1 JoinGroup id=m1", "d look", "m1 Heartbeat", "m1 JoinGroup", "m1 SyncGroup",
    ),
    "static-members-change-over-and-back": (
        *BEGIN, classic("a"), classic("b"), "a JoinGroup instance=ia", "a SyncGroup instance=ia plan=a:[foo:0-5]",
        "b JoinGroup instance=ib", "a' Heartbeat instance=ia", "a JoinGroup instance=ia",
        "a SyncGroup instance=ia plan=a:[foo:0-2],b:[foo:3-5]", "b SyncGroup instance=ib",
        "m1 beat join foo instance=ia", "a Heartbeat instance=ia", "b Heartbeat instance=ib", "d look",
        "m2 beat join foo instance=ib", "d look", 'a JoinGroup id="" instance=ia', "a SyncGroup instance=ia",
        "m1 beat instance=ia", "d look", 'b JoinGroup id="" instance=ib', "d look", "b SyncGroup instance=ib",
        "a Heartbeat instance=ia", "b Heartbeat instance=ib", "m2 beat instance=ib",
    ),
    "static-members-of-both-protocols": (
        *NEWER, "a JoinGroup instance=i1", "a SyncGroup instance=i1", "a' JoinGroup id=z instance=i1",
        'a\'\' JoinGroup id="" instance=i1', "d look", "a SyncGroup instance=i1", "a Heartbeat instance=i1",
        "m3 beat join foo instance=i1", "a Heartbeat instance=i1", "d look", "m3 beat epoch=-2 instance=i1",
        'a JoinGroup id="" instance=i1', "a SyncGroup instance=i1", "d look",
    ),
    "a-replacement-by-a-consumer-while-another-waits": (
        *STATIC_ALONE, classic("b"), "b JoinGroup", "b JoinGroup", "m1 beat join foo instance=i1", "d look",
        "b' JoinGroup", "b SyncGroup", "m1 beat instance=i1", "b Heartbeat", "m1 beat instance=i1 owns=foo:0-2",
        "b Heartbeat", "d look",
    ),
    "a-replacement-between-the-rebalances-of-a-cooperative-plan": (
        *BEGIN, classic("b"), "b JoinGroup", "b JoinGroup", "b SyncGroup plan=b:[foo:0-5]", classic("a"),
        "a JoinGroup instance=i1", "b' Heartbeat", again("b", "foo:0-5"), "b SyncGroup plan=b:[foo:0-2]",
        "a SyncGroup instance=i1", "m1 beat join foo instance=i1", "d look", "b Heartbeat", "m1 beat instance=i1",
        "d look",
    ),
    "an-old-join-is-read-after-a-newer-one": (
        *BEGIN, "m1 beat join foo", "m2 beat join foo", "m1 beat", "m1 beat owns=foo:0-2", "m2' beat join foo",
        "m2 beat", "m2 beat", "d look",
    ),
    "a-replacement-while-another-waits": (
        *BEGIN, classic("a"), classic("b"), "m1 beat join foo instance=i1", "b JoinGroup", "b JoinGroup", "b SyncGroup",
        "b Heartbeat", "a JoinGroup instance=i1", "a SyncGroup instance=i1", "d look", "b Heartbeat", "+1s",
        "b Heartbeat", "a Heartbeat instance=i1", "d look",
    ),
    "a-replacement-before-a-member-gives-up": (
        *ALONE, "m1 beat join foo instance=i1", classic("s"), "s JoinGroup instance=i1", "s SyncGroup instance=i1",
        "d look", "a Heartbeat", "s Heartbeat instance=i1",
    ),
    "a-replacement-and-all-at-rest": (
        *MIXED, "m1 beat epoch=-1", "a Heartbeat generation=1", "a Heartbeat", "a JoinGroup",
        "a SyncGroup plan=a:[foo:0-5]", "m2 beat join foo instance=i1", "a Heartbeat", "a JoinGroup",
        "a SyncGroup", "m2 beat instance=i1", classic("s"), "s JoinGroup instance=i1", "s SyncGroup instance=i1",
        "a Heartbeat", "d look",
    ),
    "a-replacement-that-leads-without-being-told": (
        *BEGIN, classic("s"), "m1 beat join foo instance=i1", "s JoinGroup instance=i1", "s SyncGroup instance=i1",
        "s Heartbeat instance=i1", "d look", "s JoinGroup instance=i1", "s SyncGroup instance=i1 plan=s:[foo:0-5]",
        "s Heartbeat instance=i1",
    ),
    "leave-group": (
        *JOINED, "x LeaveGroup members=x,m1,a", "d look",
    ),
    "leave-group-by-instance": (
        *NEWER, "a JoinGroup instance=i1", "m2 beat join foo instance=i2", 'x LeaveGroup members=m2/i1,""/i9,""/i1',
        "d look", 'x LeaveGroup members=""/i2', "d look",
    ),
    "a-classic-member-leaves": (*JOINED, "a LeaveGroup", "d look", "a Heartbeat", "m1 beat"),
    "a-classic-member-is-silent": (*JOINED, "+5s", "m1 beat", "+1200ms", "d look", "a Heartbeat"),
    "a-classic-member-does-not-rejoin": (
        *JOINED, "m2 beat join foo", "a Heartbeat", "+4s", "a Heartbeat", "m1 beat", "+4200ms", "d look", "a Heartbeat",
    ),
    "a-classic-member-does-not-sync": (
        *JOINED, again("a", "foo:3-5"), "+4s", "a Heartbeat", "+4200ms", "d look", "a Heartbeat",
    ),
    "commits-of-a-classic-member": (
        *JOINED, "a OffsetCommit foo/0=1", "a OffsetCommit generation=1 foo/0=2", "a OffsetCommit generation=9 foo/0=3",
        "a OffsetCommit v=8 foo/3=4", "x OffsetFetch foo/0 foo/3",
    ),
    "classic-describe-of-a-mixed-group": (
        *JOINED, "x DescribeGroup v=6", "x DescribeGroup v=5", "m1 beat epoch=-1", "d look", "x DescribeGroup v=5",
    ),
    "offsets-stay": (
        *ALONE, "a OffsetCommit foo/0=7", "m1 beat join foo", "m1 OffsetFetch foo/0", "a LeaveGroup",
        "m1 beat epoch=-1", "b JoinGroup", "b OffsetFetch foo/0",
    ),
}  # fmt: skip
#: Every member has left during the initial delay: the group is neither Empty nor has it members.
WITHOUT_MEMBERS = (*BEGIN, classic("a"), "a JoinGroup", "a JoinGroup", "a' LeaveGroup", "m1 beat join foo", "d look")
AT_GENERATION_0 = (*WITHOUT_MEMBERS[:-2], "m1 beat join none", "d look", "m1 beat epoch=1", "d look")
DELAYED = (("group.initial.rebalance.delay.ms", "3000"),)
SIZE_SETTINGS = ("group.max.size", "group.consumer.max.size")
#: A consumer member and two classic ones, all with instance ids.
THREE = (
    *BEGIN, classic("a"), classic("b"), classic("c"), "m1 beat join foo instance=i1", "a JoinGroup instance=ia",
    "a SyncGroup instance=ia", "b JoinGroup instance=ib", "b SyncGroup instance=ib",
)  # fmt: skip
#: Three classic members of generation 2.
THREE_CLASSIC = (
    *BEGIN, classic("a"), classic("b"), classic("c"), "a JoinGroup instance=ia",
    "a SyncGroup instance=ia plan=a:[foo:0-5]", "b JoinGroup instance=ib", "a' Heartbeat instance=ia",
    "c JoinGroup instance=ic", "a JoinGroup instance=ia",
)  # fmt: skip
#: Played where a classic and a consumer group may have so many members.
SIZES: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("1", "3"): {
        "too-large-for-a-classic-group": (
            *THREE,
            "m1 beat epoch=-1 instance=i1",
            "d look",
            "a Heartbeat instance=ia",
            "a JoinGroup instance=ia",
            "a SyncGroup instance=ia",
            "x LeaveGroup members=b",
            "d look",
            "a Heartbeat instance=ia",
            "m2 beat join foo",
            "m2 beat epoch=-1",
            "d look",
            "a Heartbeat instance=ia",
            "a JoinGroup instance=ia",
        ),
        "too-large-behind-a-replacement": (
            *THREE,
            'c JoinGroup id="" instance=i1',
            "d look",
            "c SyncGroup instance=i1",
            "a Heartbeat instance=ia",
            "a LeaveGroup members=/ia",
            "b LeaveGroup members=/ib",
            "d look",
            "c Heartbeat instance=i1",
            "m2 beat join foo assignor=range",
            'a JoinGroup id="" instance=ia',
            "d look",
        ),
        "too-large-until-a-session-ends": (
            *BEGIN,
            classic("a"),
            "member b range:[foo|none] session=2s rebalance=8s",
            *THREE[5:],
            "m1 beat epoch=-1 instance=i1",
            "+1500ms",
            "a Heartbeat instance=ia",
            "d look",
            "+1s",
            "d look",
            "a Heartbeat instance=ia",
        ),
        "too-large-and-all-at-rest": (
            *THREE,
            "a Heartbeat instance=ia",
            "a JoinGroup instance=ia",
            "a SyncGroup instance=ia",
            "m1 beat instance=i1",
            "m1 beat instance=i1 owns=foo:0-1",
            "a Heartbeat instance=ia",
            "b Heartbeat instance=ib",
            "a JoinGroup instance=ia",
            "a SyncGroup instance=ia",
            "b JoinGroup instance=ib",
            "b SyncGroup instance=ib",
            "d look",
            "m1 beat epoch=-1 instance=i1",
            "a Heartbeat instance=ia",
            "b Heartbeat instance=ib",
            "d look",
            "a JoinGroup instance=ia",
            "a SyncGroup instance=ia",
            "b Heartbeat instance=ib",
            "b JoinGroup instance=ib",
            "b SyncGroup instance=ib",
            "a Heartbeat instance=ia",
            "b Heartbeat instance=ib",
            "d look",
        ),
        "a-full-group": (
            *THREE,
            "c JoinGroup",
            "c JoinGroup id=q",
            "c JoinGroup instance=ic",
            "m2 beat join foo",
            "m1 beat epoch=-2 instance=i1",
            "m2 beat join foo instance=i1",
            "d look",
        ),
    },
    ("3", "2"): {
        "too-large-for-a-consumer-group": (
            *THREE_CLASSIC,
            "b' SyncGroup instance=ib",
            "m1 beat join foo",
            "m1 beat join foo instance=ia",
            "x DescribeGroup v=6",
            "c LeaveGroup members=/ic",
            "m1 beat join foo",
            "m1 beat join foo instance=ia",
            "d look",
            "c JoinGroup id=q",
            'c JoinGroup id="" instance=ic',
        ),
    },
}


#: Played where an offset is kept for a minute.
RETENTION = (("offsets.retention.minutes", "1"), ("offsets.retention.check.interval.ms", "1000"))
EXPIRY = (
    *BEGIN, "m1 beat join foo", "m1 OffsetCommit id=m1 generation=2 bar/0=3 foo/0=1 foo/1=2", "+31s", "m1 beat", "+31s",
    "m1 beat", "x OffsetFetch foo/0 foo/1 bar/0", "m1 beat names=bar", "m1 beat owns=none", "+3s",
    "x OffsetFetch foo/0 foo/1 bar/0", "m1 OffsetCommit id=m1 generation=3 bar/1=5", "m1 beat epoch=-1", "+31s",
    "x OffsetFetch bar/1", "d look", "+33s", "x OffsetFetch bar/1", "d look", "x ListGroups",
)  # fmt: skip


def conversions() -> Iterator[Conversion]:
    """Every session."""
    for policy in POLICIES:
        for name, steps in ATTEMPTS.items():
            yield Conversion(f"{policy}/{name}", policy, steps)
    for name, steps in DOWNGRADES.items():
        yield Conversion(f"{USUAL}/{name}", USUAL, steps)
        yield Conversion(f"upgrade/{name}", "upgrade", steps)
    for name, steps in OTHERS.items():
        yield Conversion(f"{USUAL}/{name}", USUAL, steps)
    for policy in POLICIES:
        yield Conversion(f"{policy}/upgrade-without-members", policy, WITHOUT_MEMBERS, DELAYED)
    yield Conversion(f"{USUAL}/upgrade-at-generation-0", USUAL, AT_GENERATION_0, DELAYED)
    for sizes, sessions in SIZES.items():
        for name, steps in sessions.items():
            yield Conversion(f"{USUAL}/{name}", USUAL, steps, tuple(zip(SIZE_SETTINGS, sizes, strict=True)))
    yield Conversion(f"{USUAL}/offsets-expire", USUAL, EXPIRY, RETENTION)
