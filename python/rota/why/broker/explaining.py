"""The words for what a broker tells about a group, and what it does not tell."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.why import words
from rota.why.broker.history import Change, History
from rota.why.broker.movement import TROUBLES, Look, Movement, Place, Surroundings, places
from rota.why.hints import Holder, hints

if TYPE_CHECKING:
    from rota.groups.cluster import Described, Member, Partition

STABLE = "Stable"
ALONE = Surroundings()
SETTLED = ("Empty", "Stable", "Dead")
CLASSIC = "classic"
NAMED = 3
"""How many members one phrase names."""
CHANGES = 8
"""How many changes the text lists."""
PLACES = 20
"""How many partitions the text lists."""


class Wait(NamedTuple):
    """Members that the group waits for."""

    what: str
    """One of `words.WAITS`."""
    members: list[str]
    """Member ids."""


class Report(NamedTuple):
    """What is known of a group."""

    group: str
    state: str
    type: str
    number: int | None
    """The generation or the group epoch; None if it is not known."""
    since_ms: int | None
    """Since when it has this generation or epoch, milliseconds since the Unix epoch; None if that is not known."""
    watched_s: float
    states: list[str]
    """The states that it was seen in, in order."""
    waits: list[Wait]
    changes: list[Change]
    """The latest first."""
    places: list[Place]
    members: list[Member]
    committed_ms: dict[Partition, int]
    """Time of the last commit of each partition, milliseconds since the Unix epoch."""
    alive: list[str]
    """Members of an eager rebalance that commit while it runs: they have not rejoined."""
    unknown: list[str]
    """What only the coordinator can tell."""
    clients: dict[str, str]
    """Client ids by member id."""
    hints: list[str]
    """Why members get no messages though the group is settled."""


def report(
    looks: Sequence[Look], history: History, history_s: float, unreadable: str, around: Surroundings = ALONE
) -> Report:
    """Puts together what was seen."""
    described = looks[-1].described
    states: list[str] = []
    for look in looks:
        if not states or states[-1] != look.described.state:
            states.append(look.described.state)
    latest = history.changes[-1] if history.changes else None
    number = described.epoch if described.type != CLASSIC else None if latest is None else latest.number
    is_latest = latest is not None and latest.number == number
    found = places(looks, history.owners)
    return Report(
        group=described.group,
        state=described.state,
        type=described.type,
        number=number,
        since_ms=latest.at_ms if latest is not None and is_latest else None,
        watched_s=looks[-1].at_s - looks[0].at_s,
        states=states,
        waits=_waits(described),
        changes=history.changes[::-1],
        places=found,
        members=described.members or [],
        committed_ms=history.committed_ms,
        alive=_alive(described, history, looks),
        unknown=list(_unknown(described, history, history_s, unreadable)),
        clients=history.clients | {one.member_id: one.client_id for one in described.members or []},
        hints=list(_hints(described, around)),
    )


def _hints(described: Described, around: Surroundings) -> Iterator[str]:
    members = described.members or []
    if described.state == STABLE:
        holders = [Holder(_short(one), one.topics, len(one.partitions)) for one in members]
        yield from hints(holders, around.absent, "which does not exist, or an ACL hides it")
    for (topic, index), held in around.held.items():
        what = "an open transaction" if held is None else f"transaction {words.printable(held.transactional_id)}"
        fate = "" if held is None else f", which {held.fate},"
        yield f"{what}{fate} holds back messages of {words.printable(topic)}-{index} from readers of committed ones"


def _short(member: Member) -> str:
    return words.named(member.member_id, member.client_id)


def _waits(described: Described) -> list[Wait]:
    """For whom a consumer group waits, as its description has it."""
    if described.type == CLASSIC or described.state in SETTLED:
        return []
    members = described.members or []
    revoking = [one for one in members if one.revoking]
    held = {at for one in members for at in one.partitions}
    waiting = [one for one in members if set(one.target or ()) - set(one.partitions)]
    blocked = [one for one in waiting if (set(one.target or ()) - set(one.partitions)) & held]
    late = [
        one
        for one in members
        if one not in revoking and one not in blocked and (one in waiting or one.epoch != described.epoch)
    ]
    target = described.target_epoch != described.epoch
    kinds = {"Target": [], "Revoke": revoking, "Reconcile": [] if target else late, "Release": blocked}
    return [
        Wait(what, [one.member_id for one in run])
        for what, run in kinds.items()
        if run or (what == "Target" and target)
    ]


def _alive(described: Described, history: History, looks: Sequence[Look]) -> list[str]:
    """With an eager assignor a member stops when it rejoins: one that commits meanwhile has not rejoined."""
    if described.type != CLASSIC or any(look.described.state != "PreparingRebalance" for look in looks):
        return []
    if history.protocol is None or "cooperative" in history.protocol:
        return []
    moved = {
        at
        for at, one in looks[-1].committed.items()
        if at in looks[0].committed and one.offset > looks[0].committed[at].offset
    }
    return sorted({history.owners[at] for at in moved if at in history.owners})


def _unknown(described: Described, history: History, history_s: float, unreadable: str) -> Iterator[str]:
    if unreadable:
        yield f"the records of the group: {unreadable}"
    elif not history.changes:
        yield f"who came and went before: its records have no change within {words.seconds(int(history_s * 1_000))}"
    if any(change.left for change in history.changes):
        yield "why a member is gone: records do not tell a leave from the end of a session"
    if described.type == CLASSIC and described.state == "PreparingRebalance":
        yield "which members have not rejoined, and until when the group waits: only the coordinator knows"
    if described.type == CLASSIC and described.state == "CompletingRebalance":
        yield "which member is the leader, whose plan is missing: only the coordinator knows until it is stored"
    if described.members is None:
        yield f"the members: a broker does not describe groups of type {described.type} to this command"


def sentence(told: Report) -> str:
    """One line: state, since when, for whom it waits, which partitions are in trouble."""
    parts = [_state(told)]
    holds = [words.wait(wait.what, _who(told, wait.members)) for wait in told.waits]
    if holds:
        parts[0] += f": waiting {', '.join(holds)}"
    if told.alive:
        verb, whose = ("commits", "it has") if len(told.alive) == 1 else ("commit", "they have")
        parts.append(f"{_who(told, told.alive)} still {verb}, so {whose} not rejoined")
    for movement in TROUBLES:
        hit = [place for place in told.places if place.movement is movement]
        if hit:
            lag = sum(place.lag or 0 for place in hit)
            verb = movement.value if len(hit) == 1 else _plural(movement)
            parts.append(f"{words.counted(len(hit), 'partition')} {verb} ({words.counted(lag, 'message')} behind)")
    return "; ".join(parts)


def _plural(movement: Movement) -> str:
    """`stand still`."""
    verb, _, rest = movement.value.partition(" ")
    return f"{verb.removesuffix('es') if verb == 'goes' else verb.removesuffix('s')} {rest}"


def _state(told: Report) -> str:
    number = "generation" if told.type == CLASSIC else "epoch"
    text = told.state
    if told.state in SETTLED:
        text += "" if told.number is None else f", {number} {told.number}"
        return text if told.since_ms is None else f"{text} for {_ago(told.since_ms)}"
    if told.type != CLASSIC:
        text += "" if told.since_ms is None else f" for {_ago(told.since_ms)}"
        return text if told.number is None else f"{text}, epoch {told.number}"
    if len(told.states) == 1 and told.watched_s > 0:
        text += f" for at least {words.seconds(int(told.watched_s * 1_000))}"
    return text if told.since_ms is None else f"{text}; generation {told.number} is from {_ago(told.since_ms)} ago"


def _ago(at_ms: int) -> str:
    return words.seconds(int(time.time() * 1_000) - at_ms)


def _who(told: Report, members: Sequence[str]) -> str:
    return words.first([words.named(one, told.clients.get(one)) for one in members], NAMED)


def text(told: Report) -> list[str]:
    """The sentence and what stands behind it."""
    lines = [f"{words.printable(told.group)}: {sentence(told)}"]
    sections = {
        "held up by": list(_held_up(told)),
        "partitions": list(_partitions(told)),
        "members that get no messages": told.hints,
        "changes, the latest first": [_change(told, change) for change in told.changes[:CHANGES]],
        "not known": told.unknown,
    }
    for heading, rows in sections.items():
        if rows:
            lines += ["", heading, *(f"  {row}" for row in rows)]
    return lines


def _held_up(told: Report) -> Iterator[str]:
    waited = {member_id for wait in told.waits for member_id in wait.members}
    for member in told.members:
        if member.member_id not in waited and member.member_id not in told.alive:
            continue
        missing = sorted(set(member.target or ()) - set(member.partitions))
        facts = [
            f"has to give up {_named(member.revoking)}" if member.revoking else "",
            f"is to get {_named(missing)}" if missing else "",
            f"is at epoch {member.epoch}" if member.epoch not in (None, told.number) else "",
            "commits, and has not rejoined" if member.member_id in told.alive else "",
        ]
        yield f"{_member(member)}: {', '.join(filter(None, facts)) or 'has not confirmed its assignment'}"


def _named(partitions: Sequence[Partition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return words.places(by_topic, most=None)


def _member(member: Member) -> str:
    who = words.named(member.member_id, member.client_id, is_whole=True)
    return f"{who} at {words.printable(member.host)}"


def _partitions(told: Report) -> Iterator[str]:
    """Those in trouble, the worst first."""
    members = {member.member_id: _member(member) for member in told.members}
    bad = [place for movement in TROUBLES for place in told.places if place.movement is movement]
    for place in bad[:PLACES]:
        where = f"{words.printable(place.topic)}-{place.partition} {place.movement.value}"
        grew = f", {place.lag_change:+d} in {words.seconds(int(told.watched_s * 1_000))}" if told.watched_s else ""
        owner = members.get(place.member_id or "", words.printable(place.member_id or "")) or "nobody"
        at_ms = told.committed_ms.get((place.topic, place.partition))
        last = "" if at_ms is None else f", last commit {_ago(at_ms)} ago"
        yield f"{where} at offset {place.committed}: {place.lag} behind{grew}{last}; {owner} has it"
    if len(bad) > PLACES:
        yield f"{len(bad) - PLACES} more: --json has them"


def _change(told: Report, change: Change) -> str:
    number = "generation" if told.type == CLASSIC else "epoch"
    facts = [
        *(f"{_who(told, change.joined)} joined" for _ in change.joined[:1]),
        *(f"{_who(told, change.changed)} joined or changed what it subscribes to" for _ in change.changed[:1]),
        *(f"{_who(told, change.left)} left or was removed" for _ in change.left[:1]),
    ]
    members = "" if change.members is None else f", {words.counted(change.members, 'member')}"
    at = datetime.fromtimestamp(change.at_ms / 1_000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC, {number} {change.number}{members}: {'; '.join(facts) or _still(told, change)}"


def _still(told: Report, change: Change) -> str:
    """What a change is in which no member is known to have come or gone."""
    if not change.is_known:
        return "who came or went is not known: earlier records are not read"
    is_new = told.type == CLASSIC and change.number == 0 and not change.members
    return "the group was created" if is_new else "the same members"


def as_json(told: Report) -> dict[str, Any]:
    """All facts, and the sentence."""
    return {
        "group_id": told.group,
        "state": told.state,
        "type": told.type,
        "generation": told.number,
        "since_ms": told.since_ms,
        "watched_s": round(told.watched_s, 3),
        "states": told.states,
        "why": {"sentence": sentence(told), "unknown": told.unknown, "hints": told.hints},
        "waiting": [{"what": wait.what, "member_ids": wait.members} for wait in told.waits],
        "commits_while_rebalancing": told.alive,
        "changes": [change._asdict() for change in told.changes],
        "partitions": [
            place._asdict()
            | {
                "movement": place.movement.value,
                "committed_at_ms": told.committed_ms.get((place.topic, place.partition)),
            }
            for place in told.places
        ],
    }
