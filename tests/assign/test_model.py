"""Every assignor against its naive version, and the promises that need more than one plan."""

from collections.abc import Mapping
from contextlib import nullcontext

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

import rota.assign
from rota.model import assignors as naive
from rota.model.assignors import Partition
from tests.assign.differential import matters
from tests.assign.groups import Group, groups, owners_of, worth

MANY = settings(max_examples=120, deadline=None)
SOME = settings(max_examples=300, deadline=None)


@MANY
@given(groups())
def test_range_is_the_definition_of_range(group: Group) -> None:
    plan = rota.assign.range(group.subscribers, group.partitions, racks=group.topic_racks)
    assert owners_of(plan) == naive.range_(group.members, group.partitions, group.racks)
    assert list(plan) == list(group.members)


@MANY
@given(groups())
def test_server_range_is_range_without_racks(group: Group) -> None:
    known = {
        member: rota.assign.Subscriber(sorted(says.topics & group.partitions.keys()), says.instance_id, rack=says.rack)
        for member, says in group.members.items()
    }
    plan = rota.assign.server_range(known, group.partitions)
    assert owners_of(plan) == naive.range_(group.members, group.partitions, {})


@MANY
@given(groups())
def test_roundrobin_is_the_definition_of_roundrobin(group: Group) -> None:
    plan = rota.assign.roundrobin(group.subscribers, group.partitions)
    assert owners_of(plan) == naive.roundrobin(group.members, group.partitions)


@MANY
@given(groups())
def test_sticky_is_as_good_as_the_naive_best_plan(group: Group) -> None:
    plan = rota.assign.sticky(group.subscribers, group.partitions, racks=group.topic_racks)
    target = naive.best(group.members, group.partitions, group.racks)
    local = matters(group)
    assert worth(group, owners_of(plan), local=local) == worth(group, target, local=local)
    figures = rota.assign.certify(group.subscribers, group.partitions, plan, racks=group.topic_racks)
    assert figures.best_balance


@MANY
@given(groups(racked=False))
def test_uniform_is_as_good_as_the_naive_best_plan(group: Group) -> None:
    known = {
        member: rota.assign.Subscriber(
            sorted(says.topics & group.partitions.keys()), says.instance_id, says.owned, says.generation
        )
        for member, says in group.members.items()
    }
    plan = rota.assign.uniform(known, group.partitions)
    target = naive.best(group.members, group.partitions, {})
    assert worth(group, owners_of(plan), local=False) == worth(group, target, local=False)


@MANY
@given(groups())
def test_cooperative_sticky_tells_what_of_sticky_may_be_told(group: Group) -> None:
    target = owners_of(rota.assign.sticky(group.subscribers, group.partitions, racks=group.topic_racks))
    plan = rota.assign.cooperative_sticky(group.subscribers, group.partitions, racks=group.topic_racks)
    assert owners_of(plan) == naive.cooperative(group.members, group.partitions, target)
    rota.assign.certify(group.subscribers, group.partitions, plan, cooperative=True, racks=group.topic_racks)


@MANY
@given(groups())
def test_a_cooperative_group_settles_in_two_rounds(group: Group) -> None:
    def round_of(members: Mapping[str, rota.assign.Subscriber]) -> rota.assign.Plan:
        return rota.assign.cooperative_sticky(members, group.partitions, racks=group.topic_racks)

    members, generation = group.subscribers, 3
    plans = []
    for _ in range(3):
        plan = round_of(members)
        generation += 1
        # A member revokes what it was not assigned, and claims the rest in the new generation.
        members = {
            member: rota.assign.Subscriber(said.topics, said.instance_id, plan[member], generation, said.rack)
            for member, said in members.items()
        }
        plans.append(plan)
    first, second, third = plans
    assert all(set(first[member]) <= set(second[member]) for member in members), "the second round revokes"
    assert second == third
    assert set(owners_of(second)) == set(naive.assignable(group.members, group.partitions))


@MANY
@given(groups(static=True), st.randoms(use_true_random=False), st.sampled_from(rota.assign.NAMES))
def test_static_members_keep_their_part_under_other_member_ids(group: Group, random: object, name: str) -> None:
    known = Group(
        {
            member: naive.Says(says.topics & group.partitions.keys(), says.instance_id, says.owned, 1, says.rack)
            for member, says in group.members.items()
        },
        group.partitions,
        group.racks,
    )
    ids = list(group.members)
    shuffled = ids.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    names = {member: f"again-{number}" for number, member in enumerate(shuffled)}
    other = known.renamed({member: names[member] for member in sorted(ids, key=lambda member: names[member])})
    plan = rota.assign.assign(name, known.subscribers, known.partitions, racks=known.topic_racks)
    again = rota.assign.assign(name, other.subscribers, other.partitions, racks=other.topic_racks)
    assert {names[member]: assigned for member, assigned in plan.items()} == again


@MANY
@given(groups(), st.sampled_from(rota.assign.NAMES), st.data())
def test_the_order_of_the_input_plays_no_role(group: Group, name: str, data: st.DataObject) -> None:
    known = {
        member: rota.assign.Subscriber(
            sorted(said.topics & group.partitions.keys()), said.instance_id, said.owned, said.generation, said.rack
        )
        for member, said in group.members.items()
    }
    members = dict(data.draw(st.permutations(list(known.items()))))
    partitions = dict(data.draw(st.permutations(list(group.partitions.items()))))
    one = rota.assign.assign(name, known, group.partitions, racks=group.topic_racks)
    assert rota.assign.assign(name, members, partitions, racks=group.topic_racks) == one


def better_plan_exists(group: Group, loads: list[int], kept: int) -> bool:
    """Whether Z3 finds a plan with more even loads (a smaller sum of squares), or as even with more kept."""
    which = naive.assignable(group.members, group.partitions)
    previous, _ = naive.previous_owners(group.members, group.partitions)
    members = list(group.members)
    owner = {partition: z3.Int(f"{partition[0]}-{partition[1]}") for partition in which}
    solver = z3.Solver()
    for partition in which:
        subscribed = [number for number, member in enumerate(members) if partition[0] in group.members[member].topics]
        solver.add(z3.Or([owner[partition] == number for number in subscribed]))

    def count(conditions: list[z3.BoolRef]) -> z3.ArithRef:
        return z3.Sum([z3.If(condition, 1, 0) for condition in conditions] or [z3.IntVal(0)])

    load = [count([owner[partition] == number for partition in which]) for number in range(len(members))]
    # A table of squares keeps the problem linear.
    square = [
        z3.Sum([z3.If(one > below, 2 * below + 1, 0) for below in range(len(which))] or [z3.IntVal(0)]) for one in load
    ]
    stays = count([owner[one] == members.index(member) for one, member in previous.items() if one in owner])
    squares, best = z3.Sum(square), sum(one * one for one in loads)
    solver.add(z3.Or(squares < best, z3.And(squares == best, stays > kept)))
    return bool(solver.check() == z3.sat)


@SOME
@given(groups(racked=False).filter(lambda group: sum(group.partitions.values()) <= 6))
def test_z3_finds_no_plan_that_is_more_even_or_keeps_more(group: Group) -> None:
    plan = rota.assign.sticky(group.subscribers, group.partitions)
    figures = rota.assign.certify(group.subscribers, group.partitions, plan)
    assert not better_plan_exists(group, list(figures.loads), figures.kept)


def test_z3_would_find_a_better_plan() -> None:
    group = Group(
        {
            "c1": naive.Says(frozenset({"t1", "t2"})),
            "c2": naive.Says(frozenset({"t1"})),
            "c3": naive.Says(frozenset({"t2"})),
        },
        {"t1": 3, "t2": 3},
        {},
    )
    assert better_plan_exists(group, [2, 3, 1], 0)
    assert not better_plan_exists(group, [2, 2, 2], 0)


@MANY
@given(groups(racked=False), st.data())
def test_the_certifier_refuses_what_is_not_complete_disjoint_and_subscribed(group: Group, data: st.DataObject) -> None:
    plan = rota.assign.sticky(group.subscribers, group.partitions)
    everything: list[Partition] = [(topic, index) for topic, n in group.partitions.items() for index in range(n)]
    if not everything:
        return
    partition = data.draw(st.sampled_from(everything))
    member = data.draw(st.sampled_from(list(plan)))
    plan[member] = sorted({*plan[member]} ^ {partition})
    owners = [one for one in plan if partition in plan[one]]
    subscribed = [one for one, said in group.members.items() if partition[0] in said.topics]
    valid = len(owners) == 1 and owners[0] in subscribed if subscribed else not owners
    expected = nullcontext() if valid else pytest.raises(rota.assign.PlanError, match=f"`{partition[0]}`")
    with expected:
        rota.assign.certify(group.subscribers, group.partitions, plan)
