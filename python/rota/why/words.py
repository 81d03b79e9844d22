"""The words for single facts: a cause, a wait, a member, a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

#: What began a rebalance, by cause; `{who}` is the member.
CAUSES = {
    "MemberJoined": "{who} joined",
    "MetadataChanged": "{who} rejoined with other metadata (subscription, owned partitions or protocols)",
    "LeaderRejoined": "the leader {who} rejoined",
    "MemberLeft": "{who} left",
    "PendingLeft": "pending {who} left",
    "SessionExpired": "{who} was silent for its session timeout",
    "NewMemberExpired": "new member {who} did not finish its first join in time",
    "SyncExpired": "members did not sync in time",
    "AssignmentNotStored": "the assignment could not be stored",
    "StaticReplaced": "a new process replaced the static member {who}",
    "OverCapacity": "the group was loaded with more members than it may have",
    "Requested": "a test asked for it",
    "SubscriptionChanged": "{who} changed its subscription or its assignor",
    "TopicsChanged": "subscribed topics were created, changed or deleted",
    "PatternResolved": "the topics of the new pattern of {who} were looked up",
    "RevocationExpired": "{who} was removed: it did not give up partitions within the rebalance timeout",
    "RejoinExpired": "{who} was removed: it did not rejoin within the rebalance timeout",
    "Upgraded": "{who} joined with the consumer protocol, and the group became a consumer group",
    "Downgraded": "the last member of the consumer protocol, {who}, went, and the group became a classic group",
    "UpgradeFailed": "{who} joined with the consumer protocol, but the log did not store the group as a consumer group",
}

#: What a group waits for, by wait; `{who}` is the member, or several of them.
WAITS = {
    "InitialDelay": "for the initial delay, so that more members can join",
    "Rejoin": "for {who} to rejoin",
    "Pending": "for pending {who} to join",
    "LeaderSync": "for the leader {who} to send the plan",
    "Sync": "for {who} to sync",
    "Append": "for the log to make the group's record durable",
    "Target": "for a heartbeat to compute the next assignment",
    "Revoke": "for {who} to give up partitions",
    "Release": "for other members to release partitions of {who}",
    "Reconcile": "for {who} to take its new assignment",
    "Return": "for static member {who} to return",
}

#: What a member does that heartbeats and holds the group up, by wait: of one member, and of several.
STALLS = {
    "Rejoin": ("{who} heartbeats but has not rejoined", "{who} heartbeat but have not rejoined"),
    "LeaderSync": (
        "the leader {who} heartbeats but has not sent the plan",
        "{who} heartbeat but have not sent the plan",
    ),
    "Sync": ("{who} heartbeats but has not synced", "{who} heartbeat but have not synced"),
    "Revoke": ("{who} heartbeats but has not given up partitions", "{who} heartbeat but have not given up partitions"),
}

#: How a member went while a rebalance ran; `{who}` is the member.
DEPARTURES = {
    "Left": "{who} left or was removed",
    "PendingLeft": "pending {who} left",
    "SessionExpired": "{who} was silent for its session timeout",
    "NewMemberExpired": "new member {who} did not finish its first join in time",
    "PendingExpired": "pending {who} did not join in time",
    "RejoinExpired": "{who} was removed: it did not rejoin within the rebalance timeout",
    "SyncExpired": "{who} was removed: it did not sync within the rebalance timeout",
}

_UUID_AT_END = re.compile(r"([0-9a-fA-F]{8})-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\Z")


_OPAQUE = re.compile(r"[A-Za-z0-9_+/-]{22}\Z")
"""A member id that is a UUID in base64 (of URLs in Java, not so in librdkafka): of the consumer protocol."""
OPAQUE_SHOWN = 6
"""How much of it is shown beside a client id."""


def printable(text: str) -> str:
    """The text on one line, and without what would move a terminal's cursor: clients choose it."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def short(member_id: str) -> str:
    """A member id without most of its UUID: `consumer-3-1f0c8a2e…`."""
    return printable(_UUID_AT_END.sub(r"\1…", member_id))


def named(member_id: str, client_id: str | None, *, is_whole: bool = False) -> str:
    """A member by its client id if its own id is opaque, else as `short`: `ben (dAdKix…)`. `is_whole`: with the whole
    id."""
    if not client_id or _OPAQUE.fullmatch(member_id) is None:
        return printable(member_id) if is_whole else short(member_id)
    shown = member_id if is_whole else f"{member_id[:OPAQUE_SHOWN]}…"
    return f"{printable(client_id)} ({shown})"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def first(names: Sequence[str], most: int | None, unnamed: int = 0) -> str:
    """`a, b and 3 more`: the first names, `most` at the most, and how many others there are; `unnamed` is added to
    these."""
    shown = list(names[:most])
    rest = len(names) - len(shown) + unnamed
    return listed([*shown, f"{rest} more"] if rest else shown)


def seconds(ms: int) -> str:
    """`31.0 s`: tenths, rounded down."""
    tenths = max(ms, 0) // 100
    return f"{tenths // 10}.{tenths % 10} s"


def cause(name: str, member_id: str, reason: str) -> str:
    """`consumer-3-1f0c8a2e… left ("shutting down")`."""
    who = short(member_id) or "a member"
    what = CAUSES.get(name, f"{name} of {{who}}").replace("{who}", who)
    return f'{what} ("{printable(reason)}")' if reason else what


def departure(name: str, member_id: str, reason: str) -> str:
    """`consumer-3-1f0c8a2e… left or was removed ("stuck")`."""
    what = DEPARTURES.get(name, f"{name} of {{who}}").replace("{who}", short(member_id) or "a member")
    return f'{what} ("{printable(reason)}")' if reason else what


def stall(name: str, who: str, *, is_one: bool) -> str:
    """`consumer-3-1f0c8a2e… heartbeats but has not rejoined`; `is_one` says whether `who` is one member."""
    return STALLS[name][not is_one].replace("{who}", who)


def wait(name: str, who: str) -> str:
    """`for consumer-3-1f0c8a2e… to rejoin`."""
    return WAITS.get(name, f"for {name} {{who}}").replace("{who}", who)


PLACES = 8
"""Partitions of a topic that one line names."""


def places(by_topic: Mapping[str, Sequence[int]], most: int | None = PLACES) -> str:
    """`orders 0, 1 and 2; payments 4`; None: all partitions."""
    numbers = {topic: first([str(index) for index in indexes], most) for topic, indexes in by_topic.items()}
    return "; ".join(f"{printable(topic)} {shown}" for topic, shown in numbers.items() if shown) or "nothing"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 group`, `2 groups`."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"
