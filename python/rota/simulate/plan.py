"""What a deploy costs a group: a plan in a file, run in worlds in which nothing else goes wrong."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from rota._rota import simulate_plan
from rota.assign import InputError
from rota.simulate import World

Table = TypeVar("Table", "Group", "Deploy")
WORLDS = 20
# Before the deploy, so that the group has settled; after it, so that whatever it began has ended.
STEADY_MS, AFTERWARDS_MS = 120_000, 120_000
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
PATTERNS = ("rolling", "at-once")
MEMBERS_MAX, PARTITIONS_MAX, MS_MAX = 200, 2_000, 3_600_000


@dataclass(frozen=True)
class Group:
    """The table `[group]`: Kafka's settings with Kafka's defaults."""

    members: int = 3
    partitions: int = 12
    assignor: str = "range"
    static: bool = False
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    initial_rebalance_delay_ms: int = 3_000


@dataclass(frozen=True)
class Deploy:
    """The table `[deploy]`: each process stops once, and is started again `down_ms` later."""

    pattern: str = "rolling"
    every_ms: int = 30_000
    down_ms: int = 10_000
    closes: bool = True


@dataclass(frozen=True)
class Plan:
    """A group and a deploy."""

    group: Group
    deploy: Deploy

    def restarts(self) -> list[tuple[int, int, int, bool]]:
        """(process, at ms, for ms, whether it closes its member)"""
        every_ms = self.deploy.every_ms if self.deploy.pattern == "rolling" else 0
        places = range(self.group.members)
        return [(at, STEADY_MS + at * every_ms, self.deploy.down_ms, self.deploy.closes) for at in places]

    def end_ms(self) -> int:
        """When whatever the deploy began has ended."""
        return self.restarts()[-1][1] + self.deploy.down_ms + self.group.session_timeout_ms + AFTERWARDS_MS


@dataclass(frozen=True)
class Cost:
    """Of one deploy, the mean of some worlds. `unowned_s`: partition-seconds; `longest_s`: of one partition."""

    unowned_s: float
    longest_s: float
    rebalances: float
    moved: float


def read(text: str) -> Plan:
    """The plan in a TOML text. Raises InputError that names what is wrong."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"it is not TOML: {error}") from None
    unknown = tables.keys() - {"group", "deploy"}
    if unknown:
        raise InputError(f"there is no table `{min(unknown)}`: a plan has `group` and `deploy`")
    plan = Plan(_table(Group, "group", tables.get("group", {})), _table(Deploy, "deploy", tables.get("deploy", {})))
    _among("group.assignor", plan.group.assignor, ASSIGNORS)
    _among("deploy.pattern", plan.deploy.pattern, PATTERNS)
    return plan


def _table(kind: type[Table], name: str, found: Any) -> Table:
    if not isinstance(found, dict):
        raise InputError(f"`{name}` is {found!r}: it has to be a table")
    known = {one.name: type(one.default) for one in fields(kind)}
    for key, value in found.items():
        if key not in known:
            raise InputError(f"`{name}.{key}` is not known: `{name}` has {', '.join(known)}")
        if type(value) is not known[key]:
            raise InputError(f"`{name}.{key}` is {value!r}: it has to be of type {known[key].__name__}")
        highest = {"members": MEMBERS_MAX, "partitions": PARTITIONS_MAX}.get(key, MS_MAX)
        lowest = 0 if key in ("down_ms", "every_ms", "initial_rebalance_delay_ms") else 1
        if type(value) is int and not lowest <= value <= highest:
            raise InputError(f"`{name}.{key}` is {value}: give {lowest} to {highest}")
    return kind(**found)


def _among(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"`{name}` is `{value}`: choose one of {', '.join(known)}")


def other(plan: Plan) -> Plan:
    """The same with static members instead of dynamic ones, or the other way round."""
    return replace(plan, group=replace(plan.group, static=not plan.group.static))


def world(plan: Plan, seed: int) -> World:
    """The plan's world. Raises InputError if the settings contradict each other."""
    group = plan.group
    times = group.session_timeout_ms, group.heartbeat_interval_ms, group.max_poll_interval_ms
    try:
        report = simulate_plan(
            seed,
            members=group.members,
            partitions=group.partitions,
            assignor=group.assignor,
            is_static=group.static,
            timeouts_ms=(*times, group.initial_rebalance_delay_ms),
            restarts=plan.restarts(),
            until_ms=plan.end_ms(),
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    return World.read(json.loads(report))


def cost(plan: Plan, worlds: int = WORLDS, seed: int = 0) -> Cost:
    """The mean of so many worlds."""
    each = [of_world(plan, world(plan, one)) for one in range(seed, seed + worlds)]
    means = {one.name: sum(getattr(cost, one.name) for cost in each) / worlds for one in fields(Cost)}
    return Cost(**means)


def of_world(plan: Plan, world: World) -> Cost:
    """What the deploy cost in this world, from its begin to the world's end."""
    end_ms = plan.end_ms()
    owned: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in sorted(world.owned, key=lambda one: int(one["from_ms"])):
        owned[one["partition"]].append(one)
    gaps: list[int] = []
    moved = 0
    for index in range(plan.group.partitions):
        since_ms, last = STEADY_MS, None
        for one in owned[f"topic-{index}"]:
            seat = one["process"][0]
            if one["to_ms"] > STEADY_MS:
                gaps.append(max(0, one["from_ms"] - since_ms))
                moved += last is not None and last != seat
            since_ms, last = max(since_ms, one["to_ms"]), seat
        gaps.append(max(0, end_ms - since_ms))
    generations: dict[int, int] = {}
    for one in world.owned:
        generation = one["generation"]
        generations[generation] = min(generations.get(generation, one["from_ms"]), one["from_ms"])
    rebalances = sum(at_ms >= STEADY_MS for at_ms in generations.values())
    return Cost(sum(gaps) / 1_000, max(gaps) / 1_000, rebalances, moved)


def as_text(costs: list[tuple[str, Cost]]) -> str:
    """A table."""
    lines = [f"{'':<8} {'without owner':>16} {'longest':>9} {'rebalances':>11} {'moved':>7}"]
    for name, cost in costs:
        times = f"{cost.unowned_s:>11,.1f} p·s {cost.longest_s:>7,.1f} s"
        lines.append(f"{name:<8} {times} {cost.rebalances:>11,.1f} {cost.moved:>7,.1f}")
    return "\n".join(lines)
