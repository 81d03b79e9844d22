"""Which departure of docs/departures.md explains that two sides part in a session of the newer protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rota.conform.evidence import Difference
from rota.transcript.consumer import partitions

LOOKED = re.compile(r"^d< NONE (?P<state>\S+) (?P<epoch>\d+)/(?P<target>\d+) (?P<assignor>\S+)(?P<members>.*)$")
MEMBER = re.compile(r"(?P<who>\S+):(?P<epoch>-?\d+)\[(?P<names>[^ ]*)\]\((?P<held>\S+) -> (?P<given>[^)]+)\)")
INSTANCE = re.compile(r" instance=(\S+)")
CHANGED = ("epoch=-1", "LeaveGroup", "pattern=")
PLAN_WORDS = re.compile(r" (?:epoch|assignment)=\S+")


@dataclass(frozen=True)
class Seen:
    """A group as a side describes it."""

    epochs: tuple[str, str]
    assignor: str
    #: name -> subscription and target
    members: dict[str, tuple[str, str]]


def seen(lines: Sequence[str]) -> Seen | None:
    """None if it described no consumer group."""
    told = LOOKED.match(lines[0]) if lines else None
    if told is None:
        return None
    members = {each["who"]: (each["names"], each["given"]) for each in MEMBER.finditer(told["members"])}
    return Seen((told["epoch"], told["target"]), told["assignor"], members)


def load(plan: str) -> int:
    """How many partitions a target has."""
    return sum(len(indexes) for _, indexes in partitions(plan) or ())


def departure(steps: Sequence[str], difference: Difference, theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Its name; "" if none explains the difference."""
    if any("UNKNOWN_TOPIC_OR_PARTITION" in line for line in difference.missing):
        return "a topic that does not exist"  # the front end's answer; the core has none
    if "JoinGroup" in steps[-1] and theirs[0].startswith("d< NONE Empty ") and ours[0].endswith(ended(steps)):
        return "D18"
    one, other = seen(theirs), seen(ours)
    if one is None or other is None:
        return ""
    if one.epochs == other.epochs and other_plan(one, other) and only_the_plan(difference):
        return "D16"
    if one.members.keys() == other.members.keys() and became_another(steps):
        return "D14"
    if one.epochs == other.epochs and joined_without_topics(steps) and one.members != other.members:
        return "D15"
    if one.epochs != other.epochs and all(f"assignor={name}" in " ".join(steps) for name in ("range", "uniform")):
        return "D17"
    return ""


def ended(steps: Sequence[str]) -> tuple[str, ...]:
    """How rota refuses to describe a consumer group that has ended: offsets that it has make a classic group."""
    return (' not found."', ' is not a consumer group."')[: 1 + any("OffsetCommit" in step for step in steps)]


def other_plan(one: Seen, other: Seen) -> bool:
    """Whether `uniform` gave other partitions: as many in all, and as evenly where all subscribe to the same."""
    plans = [{who: given for who, (_, given) in each.members.items()} for each in (one, other)]
    names = [{who: names for who, (names, _) in each.members.items()} for each in (one, other)]
    if one.assignor != "uniform" or other.assignor != "uniform" or names[0] != names[1] or plans[0] == plans[1]:
        return False
    loads = [sorted(load(plan) for plan in each.values()) for each in plans]
    return loads[0] == loads[1] if len(set(names[0].values())) == 1 else sum(loads[0]) == sum(loads[1])


def only_the_plan(difference: Difference) -> bool:
    """Whether answers differ in nothing but what a plan decides; the descriptions are compared by themselves."""
    sides = [
        [PLAN_WORDS.sub("", line) for line in lines if not line.startswith("d<")]
        for lines in (difference.missing, difference.unexpected)
    ]
    return sides[0] == sides[1]


def became_another(steps: Sequence[str]) -> bool:
    """Whether a member joined again under its own id with an instance id that it did not have."""
    joined: dict[str, str] = {}
    for step in steps:
        name, _, rest = step.partition(" ")
        if not rest.startswith("beat"):
            continue
        instance = told[1] if (told := INSTANCE.search(rest)) else ""
        if rest.startswith("beat join"):
            if instance and joined.get(name, instance) != instance:
                return True
            joined[name] = instance
        elif "epoch=-1" in rest and joined.get(name) == instance:
            joined.pop(name, None)
    return False


def joined_without_topics(steps: Sequence[str]) -> bool:
    """Whether a member joined without topics after another had gone, or after a pattern was resolved."""
    was_changed = False
    for step in steps:
        if was_changed and any(word in step for word in (" join none", " join null", "names=none")):
            return True
        was_changed = was_changed or step.startswith("+") or any(word in step for word in CHANGED)
    return False
