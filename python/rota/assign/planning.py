"""What `rota assign` does, without the command line: read a group, change its members, plan, compare."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rota._rota import Certificate, InputError
from rota.assign.functions import Partition, Plan, Subscriber, assign, certify

MEMBER_FIELDS = {"topics", "owned", "instance_id", "generation", "rack"}
FILE_FIELDS = {"assignor", "partitions", "racks", "members"}


@dataclass(frozen=True)
class Scenario:
    """A group from a file."""

    assignor: str
    members: dict[str, Subscriber]
    partitions: dict[str, int]
    racks: dict[str, list[list[str]]]


@dataclass(frozen=True)
class Outcome:
    """A plan beside what was before it."""

    scenario: Scenario
    before: Mapping[str, Sequence[Partition]]
    """Also of members that have left."""
    owners: Mapping[Partition, str]
    """Who owned what: of several claims the newest, unless two are."""
    plan: Plan
    figures: Certificate


def _once(found: list[tuple[str, Any]]) -> dict[str, Any]:
    once: dict[str, Any] = {}
    for name, value in found:
        if name in once:
            raise InputError(f"`{name}` is there twice")
        once[name] = value
    return once


def _expect(condition: bool, where: str, expected: str, found: object) -> None:
    if not condition:
        raise InputError(f"{where} is {json.dumps(found, default=str)}: expected {expected}")


def _names(found: object, where: str) -> list[str]:
    names = _list(found, where, "a list of names")
    _expect(all(isinstance(one, str) for one in names), where, "a list of names", found)
    return [str(one) for one in names]


def _list(found: object, where: str, expected: str) -> list[object]:
    if not isinstance(found, list):
        raise InputError(f"{where} is {json.dumps(found, default=str)}: expected {expected}")
    return found


def _owned(found: object, where: str) -> list[Partition]:
    """`{"t": [0, 1]}`, or `[["t", 0], ["t", 1]]` as the functions give it."""
    expected = 'partitions by topic, such as {"t": [0, 1]}'
    owned = []
    lists: list[object] = []
    if isinstance(found, dict):
        for topic, indices in found.items():
            lists += [[topic, index] for index in _list(indices, where, expected)]
    else:
        lists = _list(found, where, expected)
    for one in lists:
        match one:
            case [str(topic), int(index)] if not isinstance(index, bool):
                owned.append((topic, index))
            case _:
                raise InputError(f"{where} has {json.dumps(one)}: expected {expected}")
    return owned


def _member(name: str, found: object) -> Subscriber:
    where = f"member `{name}`"
    if isinstance(found, list):
        return Subscriber(_names(found, where))
    if not isinstance(found, dict):
        raise InputError(f'{where} is {json.dumps(found)}: expected its topics, or {{"topics": [...], ...}}')
    unknown = sorted(found.keys() - MEMBER_FIELDS)
    if unknown:
        raise InputError(f"{where} has a field `{unknown[0]}`: known are {', '.join(sorted(MEMBER_FIELDS))}")
    if "topics" not in found:
        raise InputError(f"{where} has no `topics`")
    generation = found.get("generation", -1)
    _expect(type(generation) is int and -1 <= generation < 2**31, f"`generation` of {where}", "-1 or more", generation)
    for field in ("instance_id", "rack"):
        _expect(isinstance(found.get(field), str | None), f"`{field}` of {where}", "a string", found.get(field))
    return Subscriber(
        _names(found["topics"], f"`topics` of {where}"),
        found.get("instance_id"),
        _owned(found.get("owned", []), f"`owned` of {where}"),
        generation,
        found.get("rack"),
    )


def _racks(topic: str, found: object) -> list[list[str]]:
    where = f"`racks` of topic `{topic}`"
    return [_names(one, where) for one in _list(found, where, "a list of racks for each partition")]


def read(text: str, assignor: str | None) -> Scenario:
    """A group from the text of a file. Raises InputError that says what is wrong with it."""
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise InputError(f"it is not JSON: {error}") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(f"it has a number that is too long: {error}") from error
    except RecursionError as error:
        raise InputError("it is nested too deep") from error
    _expect(isinstance(found, dict), "the file", 'an object with "partitions" and "members"', type(found).__name__)
    unknown = sorted(found.keys() - FILE_FIELDS - RESULT_FIELDS)
    if unknown:
        raise InputError(f"the file has a field `{unknown[0]}`: known are {', '.join(sorted(FILE_FIELDS))}")
    for field in ("partitions", "members"):
        _expect(isinstance(found.get(field), dict), f"`{field}`", "an object", found.get(field))
    for topic, count in found["partitions"].items():
        _expect(type(count) is int, f"topic `{topic}`", "its number of partitions", count)
    racks = found.get("racks", {})
    _expect(isinstance(racks, dict), "`racks`", 'an object, such as {"t": [["r1", "r2"]]}', racks)
    return Scenario(
        assignor or str(found.get("assignor", "sticky")),
        {name: _member(name, said) for name, said in found["members"].items()},
        found["partitions"],
        {topic: _racks(topic, lists) for topic, lists in racks.items()},
    )


def change(scenario: Scenario, add: int, remove: Sequence[str]) -> Outcome:
    """Plan the group after some members left and others came, who subscribe to all its topics.

    If no member says what it owns, the group has the assignor's plan before the change.
    """
    members = dict(scenario.members)
    if not any(said.owned for said in members.values()) and (add or remove):
        settled = assign(scenario.assignor, members, scenario.partitions, racks=scenario.racks)
        members = {member: replace(said, owned=settled[member]) for member, said in members.items()}
    before = {member: list(said.owned) for member, said in members.items()}
    owners = newest_claims(members)
    for member in remove:
        if member not in members:
            raise InputError(f"member `{member}` cannot leave: it is not in the group")
        del members[member]
    topics = sorted({topic for said in scenario.members.values() for topic in said.topics})
    number = 0
    for _ in range(add):
        number += 1
        while f"new-{number}" in scenario.members:
            number += 1
        members[f"new-{number}"] = Subscriber(topics)
    changed = replace(scenario, members=members)
    plan = assign(scenario.assignor, members, scenario.partitions, racks=scenario.racks)
    cooperative = scenario.assignor.replace("_", "-") == "cooperative-sticky"
    figures = certify(members, scenario.partitions, plan, cooperative=cooperative, racks=scenario.racks)
    return Outcome(changed, before, owners, plan, figures)


def newest_claims(members: Mapping[str, Subscriber]) -> dict[Partition, str]:
    """Who owns what the members claim: the newest generation counts, and two claims in it void each other."""
    newest: dict[Partition, tuple[int, str | None]] = {}
    for member, said in members.items():
        for one in said.owned:
            generation, known = newest.get(one, (-2, None))
            if said.generation > generation:
                newest[one] = (said.generation, member)
            elif said.generation == generation and known != member:
                newest[one] = (generation, None)
    return {one: member for one, (_, member) in newest.items() if member is not None}


RESULT_FIELDS = {"plan", "figures", "moves"}


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Plan, figures and moves, and the group after it in the form of the file: the result can be read again."""
    figures, scenario = outcome.figures, outcome.scenario
    names = [name for name in Certificate.__match_args__ if name != "loads"]
    owner_before = outcome.owners
    owner_after = {one: member for member, assigned in outcome.plan.items() for one in assigned}
    moves = [
        {"topic": topic, "partition": index, "from": owner_before.get((topic, index)), "to": member}
        for (topic, index), member in sorted(owner_after.items())
        if owner_before.get((topic, index)) != member
    ]
    members: dict[str, dict[str, Any]] = {}
    for member, said in scenario.members.items():
        members[member] = {"topics": list(said.topics), "owned": by_topic(outcome.plan[member])}
        for field in ("instance_id", "rack"):
            if getattr(said, field) is not None:
                members[member][field] = getattr(said, field)
    return {
        "assignor": scenario.assignor,
        "partitions": scenario.partitions,
        "racks": scenario.racks,
        "members": members,
        "plan": {member: by_topic(assigned) for member, assigned in outcome.plan.items()},
        "figures": {name: getattr(figures, name) for name in names},
        "moves": moves,
    }


def by_topic(partitions: Sequence[Partition]) -> dict[str, list[int]]:
    """Partition numbers by topic, ascending."""
    grouped: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        grouped.setdefault(topic, []).append(index)
    return grouped


def runs(indices: Sequence[int]) -> str:
    """`0-3,7` for ascending numbers."""
    parts: list[list[int]] = []
    for index in indices:
        if parts and parts[-1][-1] == index - 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def as_text(outcome: Outcome) -> str:
    """The table: for each member what it had, has, gains and gives up, and the figures below it."""
    rows = [("member", "had", "has", "gains", "gives up", "partitions")]
    gone = [member for member in outcome.before if member not in outcome.plan]
    for member in [*outcome.plan, *gone]:
        had, has = set(outcome.before.get(member, ())), set(outcome.plan.get(member, ()))
        partitions = " ".join(f"{topic}:{runs(indices)}" for topic, indices in by_topic(list(has)).items())
        shown = partitions if member in outcome.plan else "(left)"
        figures = (str(len(had)), str(len(has)), str(len(has - had)), str(len(had - has)))
        rows.append((member, *figures, shown))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(row[1:5], widths[1:], strict=True))
        lines.append(f"{row[0]:<{widths[0]}}  {numbers}  {row[5]}".rstrip())
    return "\n".join([*lines, "", *summary(outcome)])


def summary(outcome: Outcome) -> list[str]:
    """The figures in words."""
    figures = outcome.figures
    subscribed = sum(1 for said in outcome.scenario.members.values() if said.topics)
    even = "no plan is more even" if figures.best_balance else "a more even plan exists"
    owner_before = {one for owned in outcome.before.values() for one in owned}
    left = sum(1 for assigned in outcome.plan.values() for one in assigned if one in owner_before) - figures.kept
    lines = [
        f"{outcome.scenario.assignor}: {figures.min_load} to {figures.max_load} partitions a member "
        f"({subscribed} subscribe); {even}",
        f"{figures.kept} partitions stay, {left} move, {figures.moved + figures.fresh - left} had no owner",
    ]
    if figures.withheld:
        lines.append(f"{figures.withheld} wait for a second round: their owners give them up first")
    if outcome.scenario.racks:
        lines.append(f"{figures.away} are away from their members' racks")
    return lines
