"""`rota.assign` as a library: errors, bytes, arrays, and assignors of one's own."""

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
import rota.assign
from rota.assign import InputError, Members, Partition, Partitions, PlanError, Subscriber
from tests.assign.groups import Group, groups

NOBODY, CONTESTED = rota.assign.NOBODY, rota.assign.CONTESTED


@pytest.mark.parametrize("name", rota.assign.NAMES)
def test_every_assignor_has_a_function_of_its_name(name: str) -> None:
    members = {"b": ["t"], "a": ["t"]}
    plan = getattr(rota.assign, name)(members, {"t": 3})
    assert list(plan) == ["b", "a"]
    assert plan == rota.assign.assign(name.replace("_", "-"), members, {"t": 3})
    assert len(plan["a"]) == 2
    rota.assign.certify(members, {"t": 3}, plan)


@pytest.mark.parametrize("name", rota.assign.NAMES)
def test_a_member_without_topics_gets_nothing_but_an_entry(name: str) -> None:
    # With Kafka's sticky assignors it can get partitions, if it comes first.
    plan = rota.assign.assign(name, {"a": [], "b": ["t"]}, {"t": 2})
    assert plan == {"a": [], "b": [("t", 0), ("t", 1)]}
    assert rota.assign.assign(name, {}, {"t": 2}) == {}
    assert rota.assign.assign(name, {"a": []}, {}) == {"a": []}


def test_what_does_not_exist_is_not_claimed() -> None:
    # Kafka's sticky assignors keep a partition that a recreated, smaller topic does not have, and give others twice.
    members = {
        "c1": Subscriber(["a", "b"], owned=[("a", 0), ("a", 5), ("b", 0)], generation=1),
        "c2": Subscriber(["b"], owned=[("b", 1)], generation=1),
    }
    plan = rota.assign.sticky(members, {"a": 2, "b": 2})
    assert plan == {"c1": [("a", 0), ("a", 1)], "c2": [("b", 0), ("b", 1)]}


def test_nobody_gets_what_it_dropped() -> None:
    # Kafka moves partitions to an earlier owner that has dropped the topic since.
    members = {
        "c1": Subscriber(["U"], owned=[("T", 0), ("T", 1)], generation=1),
        "c2": Subscriber(["T", "U"], owned=[("T", index) for index in range(6)], generation=2),
        "c3": Subscriber(["T"], generation=2),
    }
    plan = rota.assign.sticky(members, {"T": 6, "U": 1})
    assert plan["c1"] == [("U", 0)]
    assert [len(plan[member]) for member in ("c2", "c3")] == [3, 3]


def test_racks_do_not_keep_a_cooperative_group_from_settling() -> None:
    # Kafka's assignor goes back and forth between two plans of this group for ever.
    racks = {"t0": [["b"], ["b"], ["c"]], "t1": [["c", "a"], ["a"], ["a", "c"]]}
    members = {
        "c0": Subscriber(["t0", "t1"]),
        "c1": Subscriber(["t1"], rack="b"),
        "c2": Subscriber(["t0", "t1"], rack="c"),
    }
    counts = {"t0": 3, "t1": 3}
    for start in (
        {"c0": [("t0", 1)], "c1": [("t1", 0)], "c2": [("t0", 2), ("t1", 2)]},
        {"c0": [("t0", 1), ("t1", 1)], "c1": [("t1", 0)], "c2": [("t0", 2), ("t0", 0)]},
    ):
        plan: Mapping[str, Sequence[Partition]] = start
        plans = []
        for generation in range(3):
            claims = {
                member: Subscriber(said.topics, owned=plan[member], generation=generation, rack=said.rack)
                for member, said in members.items()
            }
            plan = rota.assign.cooperative_sticky(claims, counts, racks=racks)
            plans.append(plan)
        assert plans[1] == plans[2]


def test_stale_claims_are_told_by_their_generation() -> None:
    members = {
        "A": Subscriber(["t"], owned=[("t", 0), ("t", 1)], generation=6),
        "B": Subscriber(["t"], owned=[("t", 0), ("t", 2), ("t", 3)], generation=5),
        "C": Subscriber(["t"], generation=6),
        "D": Subscriber(["t"]),
    }
    plan = rota.assign.cooperative_sticky(members, {"t": 4})
    assert plan == {"A": [("t", 0)], "B": [("t", 2)], "C": [], "D": []}
    both = {
        "A": Subscriber(["t"], owned=[("t", 0)], generation=6),
        "B": Subscriber(["t"], owned=[("t", 0)], generation=6),
    }
    assert rota.assign.cooperative_sticky(both, {"t": 1}) == {"A": [], "B": []}, "both give it up"


@pytest.mark.parametrize(
    ("members", "partitions", "message"),
    [
        ({"a": ["t"]}, {"t": -1}, "topic `t` has -1 partitions"),
        ({"a": ["t"]}, {"t": 2**31}, "topic `t` has 2147483648 partitions"),
        ({"a": "topic"}, {"t": 1}, "what member `a` subscribes to is .topic.: expected a sequence of topics"),
        (
            {"a": Subscriber(["t"], "i"), "b": Subscriber(["t"], "i")},
            {"t": 1},
            "member `b` and member `a` have the same instance id `i`",
        ),
        ({"a": ["t", "u"]}, {"t": 1}, "member `a` subscribes to topic `u`, which does not exist"),
        (
            {"a": ["t"]},
            {"t": 2**31 - 1, "u": 2**31 - 1, "v": 2},
            "4294967296 partitions together: by name there may be 16777216",
        ),
    ],
)
def test_bad_input_is_told_whose_it_is(members: Members, partitions: Partitions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rota.assign.uniform(members, partitions)


@pytest.mark.parametrize(
    ("members", "partitions", "racks", "message"),
    [
        (["a"], {"t": 1}, None, "`members` is .'a'.: expected a mapping"),
        ({"a": 5}, {"t": 1}, None, "what member `a` subscribes to is 5: expected a sequence of topics"),
        ({"a": [1]}, {"t": 1}, None, "a topic of member `a` is 1: expected a string"),
        ({7: ["t"]}, {"t": 1}, None, "a member id is 7: expected a string"),
        ({"\ud800": ["t"]}, {"t": 1}, None, "a member id is .*: expected a string"),
        ({"a": Subscriber(["t"], rack=5)}, {"t": 1}, None, "`rack` of member `a` is 5"),  # type: ignore[arg-type]
        ({"a": Subscriber(["t"], generation=2**31)}, {"t": 1}, None, "`generation` of member `a` is 2147483648"),
        ({"a": Subscriber(["t"], owned=[("t", 2**31)])}, {"t": 1}, None, "a partition of member `a` is .*2147483648"),
        ({"a": ["t"]}, ["t"], None, "`partitions` is .'t'.: expected a mapping"),
        ({"a": ["t"]}, {"t": "3"}, None, "topic `t` has '3' partitions: give 0 to 2147483647"),
        ({"a": ["t"]}, {"t": 2**70}, None, "topic `t` has 1180591620717411303424 partitions"),
        ({"a": ["t"]}, {"t": 2}, {"t": ["r1", "r2"]}, "an element of `racks` of topic `t` is 'r1'"),
        ({"a": ["t"]}, {"t": 1}, {"t": [[3]]}, "a rack of topic `t` is 3: expected a string"),
    ],
)
def test_what_is_not_even_of_the_right_type_is_told_whose_it_is(
    members: Members, partitions: Partitions, racks: Mapping[str, list[list[str]]] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        rota.assign.sticky(members, partitions, racks=racks)


def test_a_partition_claimed_three_times_and_a_topic_named_twice_count_once() -> None:
    thrice = Subscriber(["t", "t"], owned=[("t", 0)] * 3 + [("t", 9), ("u", 0), ("t", -1)], generation=1)
    members = {"a": thrice, "b": Subscriber(["t"], generation=1)}
    assert rota.assign.cooperative_sticky(members, {"t": 2}) == {"a": [("t", 0)], "b": [("t", 1)]}


def test_metadata_is_read_and_a_member_whose_metadata_is_broken_is_named() -> None:
    said = rota.protocol.Subscription(["t"], owned_partitions=[("t", [1, 0])], generation=4, rack="r", user_data=b"x")
    good = rota.protocol.encode_subscription(said)
    members = rota.assign.read_members({"m": good}, {"m": "i"})
    assert members == {"m": Subscriber(("t",), "i", [("t", 1), ("t", 0)], 4, "r", b"x")}
    with pytest.raises(InputError, match="member `n` is no subscription: the bytes end inside `topics`"):
        rota.assign.read_members({"m": good, "n": good[:5]})


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"a": [("t", 0)]}, "no member got partition 1 of topic `t`"),
        ({"a": [("t", 0), ("t", 1)], "b": [("t", 0)]}, "partition 0 of topic `t` went to member `a` and to member `b`"),
        ({"a": [("t", 0), ("t", 0)]}, "member `a` got partition 0 of topic `t` twice"),
        ({"a": [("t", 2)]}, "member `a` got partition 2 of topic `t`, which does not exist"),
        ({"c": [("t", 0)]}, "member `c` got partition 0 of topic `t`, to which it does not subscribe"),
        ({"a": [("u", 0)]}, "member `a` got partition 0 of topic `u`, which does not exist"),
        ({"a": [("t", -1)]}, "member `a` got partition -1 of topic `t`, which does not exist"),
    ],
)
def test_a_wrong_plan_is_told_what_is_wrong(plan: Mapping[str, Sequence[Partition]], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        rota.assign.certify({"a": ["t"], "b": ["t"], "c": []}, {"t": 2}, plan)


def test_a_plan_that_is_none_is_told_from_one_that_is_wrong() -> None:
    for plan, message in [
        (None, "the plan is None: expected a mapping"),
        ({"a": None}, "what the plan gives member `a` is None"),
        ({"a": [("t", "0")]}, "the plan gives member `a` .'t', '0'.: expected"),
    ]:
        with pytest.raises(InputError, match=message):
            rota.assign.certify({"a": ["t"]}, {"t": 1}, plan)  # type: ignore[arg-type]


def test_a_cooperative_plan_must_not_give_away_what_another_claims() -> None:
    members = {"a": Subscriber(["t"], owned=[("t", 0), ("t", 1)]), "b": Subscriber(["t"])}
    plan = {"a": [("t", 0)], "b": [("t", 1)]}
    assert rota.assign.certify(members, {"t": 2}, plan).moved == 1
    with pytest.raises(PlanError, match="member `b` got partition 1 of topic `t`, which member `a` still claims"):
        rota.assign.certify(members, {"t": 2}, plan, cooperative=True)


@dataclass
class Hoarder:
    """An assignor that gives everything to one member."""

    favourite: str
    cooperative: bool = False
    name: str = "hoarder"
    seen: list[tuple[Sequence[Partition], int]] = field(default_factory=list)

    def assign(self, members: Members, partitions: Partitions) -> Mapping[str, Sequence[Partition]]:
        wanted = {
            topic for said in members.values() for topic in (said.topics if isinstance(said, Subscriber) else said)
        }
        everything = [(topic, index) for topic in partitions for index in range(partitions[topic]) if topic in wanted]
        return {self.favourite: everything}

    def on_assignment(self, assigned: Sequence[Partition], generation: int) -> None:
        self.seen.append((assigned, generation))


def test_an_assignor_of_ones_own_is_held_to_the_certifier() -> None:
    members: Members = {"a": ["t"], "b": Subscriber(["t", "u"], owned=[("t", 0)])}
    plan, figures = rota.assign.run(Hoarder("b"), members, {"t": 2, "u": 1})
    assert plan == {"a": [], "b": [("t", 0), ("t", 1), ("u", 0)]}
    assert (figures.max_load, figures.best_balance) == (3, False)
    with pytest.raises(PlanError, match="hoarder: member `a` got partition 0 of topic `u`, to which it does not"):
        rota.assign.run(Hoarder("a"), members, {"t": 2, "u": 1})
    with pytest.raises(PlanError, match="hoarder: member `a` got partition 0 of topic `t`, which member `b` still"):
        rota.assign.run(Hoarder("a", cooperative=True), members, {"t": 2})
    with pytest.raises(InputError, match="hoarder: the plan names member `z`, which is not in the group"):
        rota.assign.run(Hoarder("z"), members, {"t": 2})


def test_built_in_assignors_remember_what_their_next_subscription_says() -> None:
    members = {"a": ["t"], "b": ["t"]}
    sticky = {member: rota.assign.BuiltIn("sticky") for member in members}
    assert sticky["a"].user_data() is None
    plan, _ = rota.assign.run(sticky["a"], members, {"t": 4})
    for member, assignor in sticky.items():
        assignor.on_assignment(plan[member], 1)
    # Everything was given up before the next round; the memory is in the user data.
    again = {member: Subscriber(["t"], user_data=assignor.user_data()) for member, assignor in sticky.items()}
    plan, figures = rota.assign.run(sticky["a"], {**again, "c": ["t"]}, {"t": 4})
    assert (figures.kept, figures.moved) == (3, 1)
    with pytest.raises(InputError, match="no client has an assignor `uniform`"):
        rota.assign.BuiltIn("uniform")
    cooperative = rota.assign.BuiltIn("cooperative_sticky")
    assert (cooperative.name, cooperative.cooperative) == ("cooperative-sticky", True)
    assert cooperative.user_data() == b"\xff\xff\xff\xff"
    cooperative.on_assignment([], 7)
    assert cooperative.user_data() == b"\0\0\0\7"


def test_plans_are_written_as_assignments() -> None:
    encoded = rota.assign.encode_plan({"m": [("a", 0), ("a", 2)], "n": []})
    assert encoded["m"].hex() == "0003" + "00000001" + "000161" + "00000002" + "00000000" + "00000002" + "ffffffff"
    assert rota.protocol.decode_assignment(encoded["n"]).partitions == ()


def flat(group: Group, order: Sequence[str], topics: Sequence[str]) -> rota.assign.FlatGroup:
    lists = [
        sorted(topics.index(topic) for topic in group.members[member].topics if topic in topics) for member in order
    ]

    def starts(lengths: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        return np.concatenate(([0], np.cumsum(lengths))).astype(np.uint32)

    values = np.array([topic for one in lists for topic in one], dtype=np.uint32)
    counts = [group.partitions[topic] for topic in topics]
    return rota.assign.FlatGroup(starts(counts), starts([len(one) for one in lists]), values)


@given(groups(racked=False), st.sampled_from(["range", "roundrobin", "sticky"]))
def test_arrays_say_the_same_as_names(group: Group, name: str) -> None:
    group = Group(
        {member: type(said)(said.topics, None, (), -1, None) for member, said in group.members.items()},
        group.partitions,
        group.racks,
    )
    order, topics = sorted(group.members), sorted(group.partitions)
    owners = flat(group, order, topics).assign(name)
    plan: dict[str, list[Partition]] = {member: [] for member in group.members}
    everything = [(topic, index) for topic in topics for index in range(group.partitions[topic])]
    for partition, owner in zip(everything, owners.tolist(), strict=True):
        if owner != NOBODY:
            plan[order[owner]].append(partition)
    assert plan == rota.assign.assign(name, group.subscribers, group.partitions)


def u32(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(values, dtype=np.uint32)


def test_arrays_are_assigned_resolved_and_certified() -> None:
    group = rota.assign.FlatGroup(u32(0, 4), u32(0, 1, 2, 3), u32(0, 0, 0))
    assert repr(group) == "<rota.assign.FlatGroup of 3 members and 4 partitions>"
    previous = group.resolve(u32(0, 2, 4, 4), u32(0, 1, 0, 2), np.array([1, 1, 1], dtype=np.int32))
    assert previous.tolist() == [CONTESTED, 0, 1, NOBODY]
    owners = group.assign("sticky", previous)
    assert owners.tolist() == [0, 0, 1, 2]
    figures = group.certify(owners, previous)
    assert (figures.loads, figures.kept, figures.fresh) == ((2, 1, 1), 2, 2)
    with pytest.raises(PlanError, match="no member got partition 0"):
        group.certify(u32(NOBODY, 0, 1, 2))
    with pytest.raises(PlanError, match="partition 1 went to 7, which is no member"):
        group.certify(u32(0, 7, 1, 2))
    with pytest.raises(PlanError, match="the plan has 1 owners for 4 partitions"):
        group.certify(u32(0))
    with pytest.raises(ValueError, match="partition 1 has owner 7, which is no member"):
        group.assign("sticky", u32(0, 7, 0, 0))
    with pytest.raises(ValueError, match="`previous` has 1 elements, expected 4"):
        group.assign("sticky", u32(0))
    with pytest.raises(InputError, match="there is no assignor `stickier`"):
        group.assign("stickier")


def test_claims_are_resolved_while_another_thread_runs() -> None:
    partitions, calls_max = 100_000, 2_000
    group = rota.assign.FlatGroup(u32(0, partitions), u32(0, 1), u32(0))
    claims = u32(0, partitions), np.arange(partitions, dtype=np.uint32), np.array([1], dtype=np.int32)
    # What is imported by the first call is not the worker's.
    assert not group.resolve(*claims).any()
    started, has_run = threading.Event(), threading.Event()

    def resolve() -> None:
        started.set()
        for _ in range(calls_max):
            group.resolve(*claims)
            if has_run.is_set():
                break

    interval_s, worker = sys.getswitchinterval(), threading.Thread(target=resolve)
    # No thread has to give the interpreter up: another one runs only while a call does not need it.
    sys.setswitchinterval(1_000)
    try:
        worker.start()
        started.wait()
        was_alive = worker.is_alive()
        has_run.set()
        worker.join()
    finally:
        sys.setswitchinterval(interval_s)
    assert was_alive


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((u32(), u32(0), u32()), "`topic_starts` must rise"),
        ((u32(0, 2, 1), u32(0), u32()), "element 2 does not fit"),
        ((u32(0, 1), u32(0, 1), u32()), "`member_starts` must rise"),
        ((u32(0, 1), u32(0, 1), u32(1)), "member 0 subscribes to topic 1"),
        ((u32(0, 1), u32(0, 2), u32(0, 0)), "member 0 subscribes to topic 0"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(arrays: tuple[np.ndarray, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rota.assign.FlatGroup(*arrays)
