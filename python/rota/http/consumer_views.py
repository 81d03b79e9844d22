"""Consumer groups as JSON values, with the fields that classic groups have, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota import _rota


def by_topic(places: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Partitions by topic, both ascending."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return topics


def consumer_group(group: _rota.ConsumerView, now_ms: int) -> dict[str, Any]:
    """The members of a consumer group, and its subscribed topics. It has no leader and parks no requests."""
    ends = [member.rebalance_ends_ms for member in group.members if member.rebalance_ends_ms is not None]
    return {
        "protocol_type": "consumer",
        "protocol_name": group.assignor,
        "leader": None,
        "members": [_member(member, now_ms) for member in group.members],
        "pending": [],
        "parked": {"JoinGroup": 0, "SyncGroup": 0},
        "timers": [{"name": "ConsumerRebalance", "ends_in_ms": ends_ms - now_ms} for ends_ms in ends],
        "is_durable": True,
        "is_being_deleted": False,
        "subscribed_topics": sorted({topic for member in group.members for topic in member.topics}),
    }


def _member(member: _rota.ConsumerMemberView, now_ms: int) -> dict[str, Any]:
    left_ms = None if member.session_ends_ms is None else member.session_ends_ms - now_ms
    ends_ms = member.rebalance_ends_ms
    assignment = by_topic(member.assigned)
    return {
        "member_id": member.member_id,
        "session_timeout_ms": member.session_timeout_ms,
        "heard_ago_ms": None if left_ms is None else max(member.session_timeout_ms - left_ms, 0),
        "expires_in_ms": left_ms,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "parked": None,
        "owes_sync": False,
        "is_new": False,
        "protocols": [],
        "subscription": {
            "topics": list(member.topics),
            "owned": assignment,
            "rack": member.rack,
            "pattern": member.pattern or None,
        },
        "assignment": assignment,
        "assignment_bytes": 0,
        "type": member.protocol,
        "epoch": member.epoch,
        "target": by_topic(member.target),
        "revoking": by_topic(member.revoking),
        "rebalance_ends_in_ms": None if ends_ms is None else ends_ms - now_ms,
    }
