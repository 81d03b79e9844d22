"""How far a group of a rota server is behind, and members that get no messages: of `/groups/{id}`, for `rota why`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rota.why import words
from rota.why.hints import Holder, hints

PLACES = 20
"""How many partitions the text lists."""
STABLE = "Stable"


def sections(group: dict[str, Any]) -> dict[str, list[str]]:
    """Lines by heading; no lines where there is nothing to say."""
    return {"partitions that are behind": list(_behind(group)), "members that get no messages": list(_hints(group))}


def name_of(member: dict[str, Any], *, is_whole: bool = False) -> str:
    """A member as people know it."""
    return words.named(member["member_id"], member.get("client_id"), is_whole=is_whole)


def with_names(group: dict[str, Any]) -> list[dict[str, Any]]:
    """The rebalances, with members as people know them: those that are still there."""
    names = {member["member_id"]: name_of(member) for member in group["members"]}

    def named(fact: dict[str, Any]) -> dict[str, Any]:
        return fact | {"member_id": names.get(fact["member_id"], fact["member_id"])}

    return [named(one) | {"departures": list(map(named, one.get("departures", ())))} for one in group["rebalances"]]


def _behind(group: dict[str, Any]) -> Iterator[str]:
    """The worst first."""
    behind = sorted((one for one in group.get("partitions", ()) if one["lag"]), key=lambda one: -one["lag"])
    names = {member["member_id"]: name_of(member) for member in group["members"]}
    for one in behind[:PLACES]:
        owners = words.listed([names.get(owner, words.short(owner)) for owner in one["owners"]])
        verb = "has" if len(one["owners"]) == 1 else "have"
        where = f"{words.printable(one['topic'])}-{one['partition']} at offset {one['offset']}"
        whose = f"{owners} {verb} it" if owners else "no member has it"
        yield f"{where}: {words.counted(one['lag'], 'message')} behind; {whose}"
    if len(behind) > PLACES:
        yield f"{len(behind) - PLACES} more: --json has them"


def _hints(group: dict[str, Any]) -> Iterator[str]:
    """A settled group shares out all partitions of its topics: one without any has none, or the server lacks it."""
    if group.get("state") != STABLE or group.get("protocol_type") != "consumer":
        return
    # A partition that another server of a cluster leads has an owner, and no end here.
    shared = {one["topic"] for one in group.get("partitions", ()) if one["log_end"] is not None or one["owners"]}
    holders = []
    for member in group["members"]:
        subscription = member["subscription"] or {"topics": ()}
        held = sum(map(len, (member["assignment"] or {}).values()))
        holders.append(Holder(name_of(member), subscription["topics"], held))
    absent = {topic for holder in holders for topic in holder.topics} - shared
    yield from hints(holders, absent, "and no member has a partition of it: does the topic exist?")
