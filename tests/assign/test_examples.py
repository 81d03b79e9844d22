"""Small groups with known answers, most of them Kafka's own.

Where the answer is fixed (`range`, `roundrobin`, `server_range`) it is compared as it is. The others may choose between
plans of equal worth: then Kafka's plan is in the table, and rota's has to be as even and to keep as many, or better
where the table says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

import rota.assign
from rota.assign import Partition, Subscriber


def plan_of(text: str) -> dict[str, list[Partition]]:
    """`c1 = t-0 t-1; c2 =` as a plan."""
    plan: dict[str, list[Partition]] = {}
    for part in text.split(";"):
        member, _, assigned = part.partition("=")
        pairs = [one.rsplit("-", 1) for one in assigned.split()]
        plan[member.strip()] = sorted((topic, int(index)) for topic, index in pairs)
    return plan


def counts_of(text: str) -> dict[str, int]:
    """`t0:3 t1:3` as numbers of partitions."""
    return {topic: int(count) for topic, count in (one.split(":") for one in text.split())}


def members_of(text: str) -> dict[str, Subscriber]:
    """`c1{t0,t1} c2{t1}@i1/r1` as members: topics, instance id, rack."""
    members = {}
    for one in text.split():
        name, _, rest = one.partition("{")
        topics, _, more = rest.partition("}")
        more, _, rack = more.partition("/")
        members[name] = Subscriber(
            [topic for topic in topics.split(",") if topic], more.removeprefix("@") or None, rack=rack or None
        )
    return members


def owning(members: Mapping[str, Subscriber], owned: str, generation: int = 1) -> dict[str, Subscriber]:
    """The members with what they own."""
    claims = plan_of(owned) if owned else {}
    return {
        member: Subscriber(
            said.topics, said.instance_id, claims.get(member, []), generation if claims.get(member) else -1, said.rack
        )
        for member, said in members.items()
    }


RANGE = {
    "two topics": ("t0:3 t1:3", "C0{t0,t1} C1{t0,t1}", "C0 = t0-0 t0-1 t1-0 t1-1; C1 = t0-2 t1-2"),
    "one longer range": ("t:7", "C0{t} C1{t} C2{t}", "C0 = t-0 t-1 t-2; C1 = t-3 t-4; C2 = t-5 t-6"),
    "too few": ("t:2", "C0{t} C1{t} C2{t}", "C0 = t-0; C1 = t-1; C2 ="),
    "unequal": (
        "t1:3 t2:2",
        "c1{t1} c2{t1,t2} c3{t1}",
        "c1 = t1-0; c2 = t1-1 t2-0 t2-1; c3 = t1-2",
    ),
    "static members first, by instance id": (
        "t:4",
        "m-z{t}@i-a m-c{t}@i-b m-a{t}",
        "m-z = t-0 t-1; m-c = t-2; m-a = t-3",
    ),
    "skew grows with topics": ("a:1 b:2 c:3", "c1{a,b,c} c2{a,b,c}", "c1 = a-0 b-0 c-0 c-1; c2 = b-1 c-2"),
}

RANGE_WITH_RACKS = {
    "co-partitioned topics stay so": (
        {"t1": "a b c a", "t2": "a b c a"},
        "c1{t1,t2}/b c2{t1,t2}/a",
        "c1 = t1-1 t1-2 t2-1 t2-2; c2 = t1-0 t1-3 t2-0 t2-3",
    ),
    "no index fits both topics": (
        {"t1": "a b c a", "t2": "b a c a"},
        "c1{t1,t2}/b c2{t1,t2}/a",
        "c1 = t1-0 t1-1 t2-0 t2-1; c2 = t1-2 t1-3 t2-2 t2-3",
    ),
    "a member without a rack takes what others needed": (
        {"t1": "a b c a"},
        "c1{t1} c2{t1}/a",
        "c1 = t1-0 t1-1; c2 = t1-2 t1-3",
    ),
    "every partition is everywhere": (
        {"t1": "ab ab ab ab"},
        "c1{t1}/b c2{t1}/a",
        "c1 = t1-0 t1-1; c2 = t1-2 t1-3",
    ),
    "replicas go round over three topics": (
        {"t1": "ab bc ca ab bc ca", "t2": "ab bc ca ab bc ca ab", "t3": "bc ca"},
        "0{t1,t2,t3}/a 1{t1,t2,t3}/b 2{t1,t2,t3}/c",
        "0 = t1-0 t1-2 t2-0 t2-2 t2-3 t3-1; 1 = t1-1 t1-3 t2-1 t2-4 t3-0; 2 = t1-4 t1-5 t2-5 t2-6",
    ),
    "two classes of topics": (
        {"t1": "a b a b a b", "t2": "a b a b a b", "t3": "a b", "t4": "a b"},
        "m0{t1,t2}/a m1{t1,t2}/b m2{t3,t4}/b m3{t3,t4}/a",
        "m0 = t1-0 t1-2 t1-4 t2-0 t2-2 t2-4; m1 = t1-1 t1-3 t1-5 t2-1 t2-3 t2-5; m2 = t3-1 t4-1; m3 = t3-0 t4-0",
    ),
}

ROUNDROBIN = {
    "two topics": ("t0:3 t1:3", "C0{t0,t1} C1{t0,t1}", "C0 = t0-0 t0-2 t1-1; C1 = t0-1 t1-0 t1-2"),
    "a staircase": (
        "t0:1 t1:2 t2:3",
        "C0{t0} C1{t0,t1} C2{t0,t1,t2}",
        "C0 = t0-0; C1 = t1-0; C2 = t1-1 t2-0 t2-1 t2-2",
    ),
    "some skip": (
        "topic1:3 topic2:2",
        "consumer1{topic1} consumer2{topic1,topic2} consumer3{topic1}",
        "consumer1 = topic1-0; consumer2 = topic1-1 topic2-0 topic2-1; consumer3 = topic1-2",
    ),
    "static members first": ("t:5", "m-z{t}@i-a m-c{t}@i-b m-a{t}", "m-z = t-0 t-3; m-c = t-1 t-4; m-a = t-2"),
    "an unknown topic": ("b:3", "c1{a,b} c2{b}", "c1 = b-0 b-2; c2 = b-1"),
    "t10 comes before t2": (
        "t0:2 t1:10 t10:1 t2:1",
        "c1{t0,t1,t10,t2} c2{t0,t1,t10,t2} c3{t0,t1,t10,t2}",
        "c1 = t0-0 t1-1 t1-4 t1-7 t10-0; c2 = t0-1 t1-2 t1-5 t1-8 t2-0; c3 = t1-0 t1-3 t1-6 t1-9",
    ),
    "far from even": (
        "topic1:2 topic2:1 topic3:2 topic4:1 topic5:2",
        "c1{topic1,topic2,topic3,topic4,topic5} c2{topic1,topic3,topic5} c3{topic1,topic3,topic5} "
        "c4{topic1,topic2,topic3,topic4,topic5}",
        "c1 = topic1-0 topic3-0 topic5-0; c2 = topic1-1 topic3-1 topic5-1; c3 = ; c4 = topic2-0 topic4-0",
    ),
}

SERVER_RANGE = {
    "two topics": ("a:3 b:3", "A{a,b} B{a,b}", "A = a-0 a-1 b-0 b-1; B = a-2 b-2"),
    "unequal": ("a:3 b:3", "A{a,b} B{a} C{b}", "A = a-0 a-1 b-0 b-1; B = a-2; C = b-2"),
    "static members first": ("a:4", "m9{a}@i1 m3{a}@i2 m1{a}", "m9 = a-0 a-1; m3 = a-2; m1 = a-3"),
    "too few": ("a:2", "A{a} B{a} C{a}", "A = a-0; B = a-1; C ="),
    "two sizes": ("a:3 b:2", "A{a,b} B{a,b}", "A = a-0 a-1 b-0; B = a-2 b-1"),
}


@pytest.mark.parametrize("name", RANGE)
def test_range(name: str) -> None:
    counts, members, expected = RANGE[name]
    assert rota.assign.range(members_of(members), counts_of(counts)) == plan_of(expected)


@pytest.mark.parametrize("name", RANGE_WITH_RACKS)
def test_range_with_racks(name: str) -> None:
    topics, members, expected = RANGE_WITH_RACKS[name]
    racks = {topic: [list(replicas) for replicas in text.split()] for topic, text in topics.items()}
    counts = {topic: len(replicas) for topic, replicas in racks.items()}
    assert rota.assign.range(members_of(members), counts, racks=racks) == plan_of(expected)


@pytest.mark.parametrize("name", ROUNDROBIN)
def test_roundrobin(name: str) -> None:
    counts, members, expected = ROUNDROBIN[name]
    assert rota.assign.roundrobin(members_of(members), counts_of(counts)) == plan_of(expected)


@pytest.mark.parametrize("name", SERVER_RANGE)
def test_server_range(name: str) -> None:
    counts, members, expected = SERVER_RANGE[name]
    assert rota.assign.server_range(members_of(members), counts_of(counts)) == plan_of(expected)


def test_server_range_ignores_what_was_before() -> None:
    members = owning(members_of("A{a} B{a}"), "A = a-4 a-5; B = a-0 a-1 a-2")
    assert rota.assign.server_range(members, {"a": 6}) == plan_of("A = a-0 a-1 a-2; B = a-3 a-4 a-5")


@dataclass(frozen=True)
class Example:
    """A group, what it owned, Kafka's plan, and rota's figures where they are better."""

    counts: str
    members: str
    owned: str
    kafka: str
    loads: Sequence[int] | None = None
    """Rota's loads from the highest, if they are not Kafka's."""
    kept: int | None = None
    """How many partitions rota keeps, if that is not as many as Kafka."""
    same: bool = False
    """The plan itself is Kafka's."""


T = "t0:3 t1:3"
STICKY = {
    "fresh": Example(T, "C0{t0,t1} C1{t0,t1}", "", "C0 = t0-0 t0-2 t1-1; C1 = t0-1 t1-0 t1-2", same=True),
    "one joins": Example(
        "t:6",
        "c1{t} c2{t} c3{t}",
        "c1 = t-0 t-2 t-4; c2 = t-1 t-3 t-5",
        "c1 = t-0 t-2; c2 = t-1 t-3; c3 = t-4 t-5",
        same=True,
    ),
    "settled": Example(
        "t:5",
        "c1{t} c2{t} c3{t}",
        "c1 = t-0; c2 = t-1 t-2; c3 = t-3 t-4",
        "c1 = t-0; c2 = t-1 t-2; c3 = t-3 t-4",
        same=True,
    ),
    "two join": Example(
        "t:7",
        "c1{t} c2{t} c3{t}",
        "c1 = t-0 t-1 t-2 t-3 t-4 t-5 t-6",
        "c1 = t-0 t-1 t-2; c2 = t-3 t-5; c3 = t-4 t-6",
        same=True,
    ),
    "one left": Example(
        "topic1:2 topic2:3",
        "consumer1{topic1,topic2} consumer2{topic1,topic2}",
        "consumer1 = topic1-0 topic2-1; consumer2 = topic1-1 topic2-2",
        "consumer1 = topic1-0 topic2-1 topic2-0; consumer2 = topic1-1 topic2-2",
        same=True,
    ),
    "one joins two of two": Example(
        "topic1:2 topic2:2",
        "consumer1{topic1,topic2} consumer2{topic1,topic2} consumer3{topic1,topic2}",
        "consumer1 = topic1-0 topic2-0; consumer2 = topic1-1 topic2-1",
        "consumer1 = topic1-0; consumer2 = topic1-1 topic2-1; consumer3 = topic2-0",
    ),
    "one joins and some are free": Example(
        "topic1:2 topic2:3",
        "consumer1{topic1,topic2} consumer2{topic1,topic2} consumer3{topic1,topic2}",
        "consumer1 = topic1-0; consumer2 = topic1-1",
        "consumer1 = topic1-0 topic2-1; consumer2 = topic1-1 topic2-2; consumer3 = topic2-0",
    ),
    "a topic grows": Example(
        "t1:6", "c1{t1} c2{t1}", "c1 = t1-0 t1-2; c2 = t1-1", "c1 = t1-0 t1-2 t1-3; c2 = t1-1 t1-4 t1-5"
    ),
    "a staircase": Example(
        "t0:1 t1:2 t2:3",
        "C0{t0} C1{t0,t1} C2{t0,t1,t2}",
        "",
        "C0 = t0-0; C1 = t1-0 t1-1; C2 = t2-0 t2-1 t2-2",
        same=True,
    ),
    "a step of the staircase leaves": Example(
        "t0:1 t1:2 t2:3",
        "C1{t0,t1} C2{t0,t1,t2}",
        "C1 = t1-0 t1-1; C2 = t2-0 t2-1 t2-2",
        "C1 = t0-0 t1-0 t1-1; C2 = t2-0 t2-1 t2-2",
        same=True,
    ),
    "one of two topics": Example(
        "t1:4 t2:2",
        "c1{t1} c2{t1,t2}",
        "c2 = t1-0 t1-1 t1-2 t1-3 t2-0 t2-1",
        "c1 = t1-0 t1-1 t1-2; c2 = t1-3 t2-0 t2-1",
    ),
    "three topics": Example(
        "t1:6 t2:7 t3:2",
        "m0{t1,t2,t3} m1{t1,t2,t3} m2{t1,t3}",
        "",
        "m0 = t2-0 t2-2 t2-4 t2-6 t1-5; m1 = t2-1 t2-3 t2-5 t1-3 t3-0; m2 = t1-0 t1-1 t1-2 t1-4 t3-1",
    ),
    "a chain of moves is needed": Example(
        "t1:3 t2:3",
        "c1{t1,t2} c2{t1} c3{t2}",
        "c1 = t1-0 t1-1 t1-2 t2-0 t2-1 t2-2",
        "c1 = t2-1 t2-2; c2 = t1-0 t1-1 t1-2; c3 = t2-0",
        loads=(2, 2, 2),
    ),
    "five topics": Example(
        "topic1:2 topic2:1 topic3:2 topic4:1 topic5:2",
        "c1{topic1,topic2,topic3,topic4,topic5} c2{topic1,topic3,topic5} c3{topic1,topic3,topic5} "
        "c4{topic1,topic2,topic3,topic4,topic5}",
        "",
        "c1 = topic2-0 topic3-0; c2 = topic1-0 topic3-1; c3 = topic1-1 topic5-0; c4 = topic4-0 topic5-1",
    ),
    "a topic is given up": Example(
        "t1:2 t2:2", "c1{t1} c2{t1,t2}", "c1 = t1-0 t2-0; c2 = t1-1 t2-1", "c1 = t1-0 t1-1; c2 = t2-1 t2-0"
    ),
    "half goes to a neighbour": Example(
        "t1:4 t2:1",
        "c1{t1} c2{t1} c3{t2}",
        "c1 = t1-0 t1-1 t1-2 t1-3; c3 = t2-0",
        "c1 = t1-2 t1-3; c2 = t1-0 t1-1; c3 = t2-0",
    ),
}

UNIFORM = {
    "fresh": Example("T1:3 T3:2", "A{T1,T3} B{T1,T3}", "", "A = T1-0 T3-0 T3-1; B = T1-1 T1-2"),
    "topics grow": Example(
        "T1:6 T2:5",
        "A{T1,T2} B{T1,T2}",
        "A = T1-0 T1-2 T2-0; B = T1-1 T2-1 T2-2",
        "A = T1-0 T1-2 T1-3 T2-0 T2-3 T2-4; B = T1-1 T1-4 T1-5 T2-1 T2-2",
    ),
    "one joins": Example(
        "T1:3 T2:3",
        "A{T1,T2} B{T1,T2} C{T1,T2}",
        "A = T1-0 T1-2 T2-0; B = T1-1 T2-1 T2-2",
        "A = T1-0 T1-2; B = T1-1 T2-1; C = T2-0 T2-2",
    ),
    "one left": Example(
        "T1:3 T2:3",
        "A{T1,T2} B{T1,T2}",
        "A = T1-0 T2-0; B = T1-1 T2-1",
        "A = T1-0 T2-0 T2-2; B = T1-1 T1-2 T2-1",
    ),
    "too few": Example("a:2", "A{a} B{a} C{a}", "", "A = a-0; B = a-1; C =", same=True),
    "the extra one stays where it is": Example(
        "a:5", "A{a} B{a}", "A = a-0 a-1; B = a-2 a-3 a-4", "A = a-0 a-1 a-4; B = a-2 a-3", kept=5
    ),
    "a topic is given up": Example(
        "a:4 b:3", "A{a} B{a}", "A = a-0 b-0 b-1; B = a-1 b-2", "A = a-0 a-2; B = a-1 a-3", same=True
    ),
    "unequal and fresh": Example("a:3 b:2", "A{a} B{a,b}", "", "A = a-0 a-1 a-2; B = b-0 b-1"),
    "unequal, growing": Example(
        "T1:6 T2:7",
        "A{T1} B{T1,T2} C{T1,T2}",
        "A = T1-0 T1-2 T2-0; B = T1-1 T2-1 T2-2",
        "A = T1-0 T1-2 T1-3 T1-4 T1-5; B = T1-1 T2-1 T2-2 T2-6; C = T2-0 T2-3 T2-4 T2-5",
    ),
    "a gap that nothing can close": Example(
        "T1:3 T2:5",
        "A{T1} B{T1,T2}",
        "A = T1-0 T1-2 T2-1 T2-3; B = T1-1 T2-0 T2-2 T2-4",
        "A = T1-0 T1-1 T1-2; B = T2-0 T2-1 T2-2 T2-3 T2-4",
        same=True,
    ),
    "a chain of moves is needed": Example(
        "a:15 b:15",
        "M1{a} M2{a,b} M3{b}",
        "",
        "M1 = a-0 a-2 a-4 a-6 a-8 a-10 a-12 a-13 a-14; M2 = a-1 a-3 a-5 a-7 a-9 a-11 b-8 b-10 b-12 b-14; "
        "M3 = b-0 b-1 b-2 b-3 b-4 b-5 b-6 b-7 b-9 b-11 b-13",
        loads=(10, 10, 10),
    ),
    "half moves": Example(
        "a:4 b:4",
        "A{a,b} B{a}",
        "A = a-0 a-1 a-2 a-3 b-0 b-1 b-2 b-3",
        "A = b-0 b-1 b-2 b-3; B = a-0 a-1 a-2 a-3",
        same=True,
    ),
    "what one may not keep": Example(
        "a:4 b:2", "A{a} B{a,b}", "A = a-0 a-1 b-0 b-1; B = a-2 a-3", "A = a-0 a-1 a-3; B = a-2 b-0 b-1"
    ),
    "two members of the same topics": Example(
        "T1:2 T2:2 T3:2",
        "A{T1,T2,T3} B{T1,T2,T3}",
        "A = T1-0 T1-1 T2-0 T2-1 T3-0 T3-1",
        "A = T2-0 T3-0 T3-1; B = T1-0 T1-1 T2-1",
    ),
}


@pytest.mark.parametrize("name", [*(f"sticky: {name}" for name in STICKY), *(f"uniform: {name}" for name in UNIFORM)])
def test_no_known_plan_is_better(name: str) -> None:
    assignor, _, title = name.partition(": ")
    example = (STICKY if assignor == "sticky" else UNIFORM)[title]
    members = owning(members_of(example.members), example.owned)
    counts = counts_of(example.counts)
    known = {
        member: Subscriber([topic for topic in said.topics if topic in counts], None, said.owned, said.generation)
        for member, said in members.items()
    }
    plan = rota.assign.assign(assignor, known, counts)
    ours, theirs = (rota.assign.certify(known, counts, one) for one in (plan, plan_of(example.kafka)))
    assert ours.best_balance
    assert sorted(ours.loads, reverse=True) == list(example.loads or sorted(theirs.loads, reverse=True))
    if example.loads is None:
        assert ours.kept == (theirs.kept if example.kept is None else example.kept)
    else:
        assert not theirs.best_balance
    if example.same:
        assert plan == plan_of(example.kafka)


STICKY_WITH_RACKS = {
    "one replica, going round": (
        {"t1": "a b c a b c", "t2": "a b c a b c a", "t3": "b c"},
        "0{t1,t2,t3}/a 1{t1,t2,t3}/b 2{t1,t2,t3}/c",
        "0 = t1-0 t1-3 t2-0 t2-3 t2-6; 1 = t1-1 t1-4 t2-1 t2-4 t3-0; 2 = t1-2 t1-5 t2-2 t2-5 t3-1",
    ),
    "evenness comes before racks": ({"t": "a a a b"}, "c1{t}/b c2{t}/a", "c1 = t-2 t-3; c2 = t-0 t-1"),
}


@pytest.mark.parametrize("name", STICKY_WITH_RACKS)
def test_sticky_with_racks(name: str) -> None:
    topics, members, expected = STICKY_WITH_RACKS[name]
    racks = {topic: [list(replicas) for replicas in text.split()] for topic, text in topics.items()}
    counts = {topic: len(replicas) for topic, replicas in racks.items()}
    plan = rota.assign.sticky(members_of(members), counts, racks=racks)
    ours, theirs = (
        rota.assign.certify(members_of(members), counts, one, racks=racks) for one in (plan, plan_of(expected))
    )
    assert (sorted(ours.loads), ours.away) == (sorted(theirs.loads), theirs.away)


def claiming(members: Mapping[str, Subscriber], claims: str) -> dict[str, Subscriber]:
    """The members with what they claim: `c1@3 = t-0; c2@5 = t-0 t-1`, each with its generation."""
    said = dict(members)
    for member, owned in plan_of(claims).items():
        name, _, generation = member.partition("@")
        said[name] = Subscriber(members[name].topics, None, owned, int(generation), members[name].rack)
    return said


def test_of_two_claims_the_newer_one_stays() -> None:
    members = claiming(
        members_of("consumer1{topic,topic2} consumer2{topic,topic2}"),
        "consumer1@10 = topic-0 topic-2 topic2-1; consumer2@9 = topic-0 topic-2 topic2-1",
    )
    expected = plan_of("consumer1 = topic-0 topic-2 topic2-1; consumer2 = topic-1 topic2-0 topic2-2")
    counts = {"topic": 3, "topic2": 3}
    assert rota.assign.sticky(members, counts) == expected
    assert rota.assign.cooperative_sticky(members, counts) == expected, "nothing has to be given up"


def test_what_two_claim_in_one_generation_goes_to_a_third() -> None:
    members = claiming(
        members_of("consumer1{t} consumer2{t} consumer3{t}"), "consumer1@1 = t-0 t-1; consumer2@1 = t-0 t-2"
    )
    assert rota.assign.sticky(members, {"t": 3}) == plan_of("consumer1 = t-1; consumer2 = t-2; consumer3 = t-0")


@dataclass(frozen=True)
class Rounds:
    """A cooperative group round by round, until no member has partitions to revoke."""

    counts: str
    members: str
    claims: str
    plans: Sequence[str]
    racks: Mapping[str, str] | None = None


COOPERATIVE = {
    "one joins": Rounds(
        "t:6",
        "c1{t} c2{t} c3{t}",
        "c1@1 = t-0 t-2 t-4; c2@1 = t-1 t-3 t-5",
        ["c1 = t-0 t-2; c2 = t-1 t-3; c3 =", "c1 = t-0 t-2; c2 = t-1 t-3; c3 = t-4 t-5"],
    ),
    "a second one joins": Rounds(
        "t:4", "c1{t} c2{t}", "c1@1 = t-0 t-1 t-2 t-3", ["c1 = t-0 t-1; c2 =", "c1 = t-0 t-1; c2 = t-2 t-3"]
    ),
    "one left": Rounds("t:4", "c2{t}", "c2@1 = t-2 t-3", ["c2 = t-0 t-1 t-2 t-3"]),
    "two claim the same": Rounds(
        "t:3",
        "consumer1{t} consumer2{t} consumer3{t}",
        "consumer1@1 = t-0 t-1; consumer2@1 = t-0 t-2",
        ["consumer1 = t-1; consumer2 = t-2; consumer3 =", "consumer1 = t-1; consumer2 = t-2; consumer3 = t-0"],
    ),
    "one missed two rounds": Rounds(
        "t:4",
        "c1{t} c2{t}",
        "c1@3 = t-0 t-1; c2@5 = t-0 t-1 t-2 t-3",
        ["c1 = ; c2 = t-0 t-1", "c1 = t-2 t-3; c2 = t-0 t-1"],
    ),
    # Kafka's assignor takes three rounds.
    "unequal": Rounds(
        "t0:2 t1:2",
        "c0{t0} c1{t0,t1} c2{t0,t1} c3{t0}",
        "c1@1 = t0-0 t0-1 t1-0",
        ["c0 = ; c1 = t1-0; c2 = t1-1; c3 =", "c0 = t0-0; c1 = t1-0; c2 = t1-1; c3 = t0-1"],
    ),
    "one of two topics": Rounds(
        "t1:4 t2:2",
        "c1{t1} c2{t1,t2}",
        "c2@1 = t1-0 t1-1 t1-2 t1-3 t2-0 t2-1",
        ["c1 = ; c2 = t1-0 t2-0 t2-1", "c1 = t1-1 t1-2 t1-3; c2 = t1-0 t2-0 t2-1"],
    ),
    "racks are swapped": Rounds(
        "t:2",
        "c1{t}/b c2{t}/a",
        "c1@1 = t-0; c2@1 = t-1",
        ["c1 = ; c2 =", "c1 = t-1; c2 = t-0"],
        racks={"t": "a b"},
    ),
    # Kafka's assignor leaves consumer3 with nothing in the first round.
    "two claim the same, and one more is free": Rounds(
        "t:4",
        "consumer1{t} consumer2{t} consumer3{t}",
        "consumer1@1 = t-0 t-1; consumer2@1 = t-0 t-2",
        ["consumer1 = t-1; consumer2 = t-2; consumer3 = t-3", "consumer1 = t-0 t-1; consumer2 = t-2; consumer3 = t-3"],
    ),
}


@pytest.mark.parametrize("name", COOPERATIVE)
def test_a_cooperative_group_round_by_round(name: str) -> None:
    example = COOPERATIVE[name]
    counts = counts_of(example.counts)
    racks = {topic: [list(one) for one in text.split()] for topic, text in (example.racks or {}).items()}
    members = claiming(members_of(example.members), example.claims)
    # Once more than there are plans: the last one stays.
    for generation, expected in enumerate([*example.plans, example.plans[-1]], start=10):
        plan = rota.assign.cooperative_sticky(members, counts, racks=racks)
        assert plan == plan_of(expected)
        rota.assign.certify(members, counts, plan, cooperative=True, racks=racks)
        members = {
            member: Subscriber(said.topics, None, plan[member], generation, said.rack)
            for member, said in members.items()
        }
