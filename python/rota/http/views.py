"""Groups as JSON values; `schema.json` says what each of them means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rota import _rota
from rota.http.consumer_views import by_topic, consumer_group
from rota.why import facts, group_facts, rebalance_facts, why

Json: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, int]
"""A partition of a topic."""
Look: TypeAlias = tuple[_rota.Explanation, _rota.Projection | _rota.ConsumerView, list[tuple[str, str]]]
"""What the server says of a group: what it is doing, its state, and of each member of a classic group its client id and
host."""

ONGOING = "Ongoing"
"""The state of an open transaction."""

CONSUMER = "consumer"
"""The protocol type whose bytes are subscriptions and assignments (docs/protocol.md §18)."""


def listed(summary: _rota.Summary) -> Json:
    """A group in a few figures."""
    explanation = summary.explanation
    known = group_facts(explanation)
    known["waits"] = summary.waits
    return {
        "group_id": summary.group_id,
        "type": explanation.protocol,
        "state": explanation.state,
        "generation": explanation.generation,
        "target_epoch": explanation.target_epoch,
        "in_state_ms": known["in_state_ms"],
        "protocol_type": summary.protocol_type,
        "protocol_name": summary.protocol_name,
        "member_count": summary.members,
        "pending_count": summary.pending,
        "parked": {"JoinGroup": summary.awaiting_join, "SyncGroup": summary.awaiting_sync},
        "waits": summary.waits,
        "slack": list(summary.slack),
        "last_rebalance": _rebalance(explanation.rebalances[-1], explanation.now_ms)
        if explanation.rebalances
        else None,
        "why": why(known).sentence,
    }


def places(look: Look) -> list[Place]:
    """The partitions that a group has offsets of, or that its members own, in order."""
    _, group, _ = look
    committed = {(topic, partition) for topic, partition, _ in group.offsets}
    return sorted(committed | {place for _, owned in _owners(group) for place in owned or ()})


Held: TypeAlias = tuple[list[tuple[int, str, str, int, int, list[Place], int | None]], int]
"""The open transactions that hold a group's offsets back, and the wall time in milliseconds."""


def described(
    look: Look, log_ends: Sequence[int | None], held: Held, server_of: Callable[[int | None], str] | None = None
) -> Json:
    """Everything about a group; `log_ends` are those of `places`, `server_of` names the servers of a cluster."""
    explanation, group, clients = look
    now_ms = explanation.now_ms
    if isinstance(group, _rota.ConsumerView):
        own = consumer_group(group, now_ms)
    else:
        own = _classic_group(group, clients, now_ms)
    known: facts.Group = {**group_facts(explanation), "members": own["members"]}
    known["transactions"] = _transactions(held, server_of)
    reasons = why(known)
    partitions = _partitions(look, log_ends)
    lags = [partition["lag"] for partition in partitions if partition["lag"] is not None]
    return {
        "group_id": group.group_id,
        "type": explanation.protocol,
        "state": explanation.state,
        "generation": explanation.generation,
        "target_epoch": explanation.target_epoch,
        "in_state_ms": known["in_state_ms"],
        **own,
        "appends_in_flight": len(group.in_flight),
        "waiting": known["waiting"],
        "transactions": known["transactions"],
        "rebalances": [_rebalance(rebalance, now_ms) for rebalance in explanation.rebalances],
        "partitions": partitions,
        "lag": sum(lags) if lags else None,
        "why": {"sentence": reasons.sentence, **reasons._asdict()},
    }


def _transactions(held: Held, server_of: Callable[[int | None], str] | None) -> list[facts.Transaction]:
    rows, now_ms = held
    found: list[facts.Transaction] = []
    for producer_id, name, state, start_ms, timeout_ms, partitions, node_id in rows:
        is_open = state == ONGOING
        found.append(
            {
                "transactional_id": name or None,
                "producer_id": producer_id,
                "state": state or None,
                "open_for_ms": max(now_ms - start_ms, 0) if state else None,
                "aborted_in_ms": max(start_ms + timeout_ms - now_ms, 0) if is_open else None,
                "partitions": by_topic(partitions),
                "coordinator": None if state or server_of is None else server_of(node_id),
            }
        )
    return found


def _classic_group(projection: _rota.Projection, clients: list[tuple[str, str]], now_ms: int) -> Json:
    is_consumer = projection.protocol_type == CONSUMER
    owned = [mine for _, mine in _owners(projection)]
    return {
        "protocol_type": projection.protocol_type,
        "protocol_name": projection.protocol_name,
        "leader": projection.leader,
        "members": [
            _member(member, client, mine, now_ms, is_consumer=is_consumer)
            for member, client, mine in zip(projection.members, clients, owned, strict=True)
        ],
        "pending": [{"member_id": name, "expires_in_ms": deadline - now_ms} for name, deadline in projection.pending],
        "parked": {
            "JoinGroup": sum(member.awaits_join for member in projection.members),
            "SyncGroup": sum(member.awaits_sync for member in projection.members),
        },
        "timers": [{"name": name, "ends_in_ms": deadline - now_ms} for name, deadline in projection.timers],
        "is_durable": projection.durable,
        "is_being_deleted": projection.deleting is not None,
        "subscribed_topics": None if projection.subscribed_topics is None else list(projection.subscribed_topics),
    }


def _rebalance(rebalance: _rota.Rebalance, now_ms: int) -> Json:
    return {**rebalance_facts(rebalance, now_ms), "began_wall_ms": rebalance.began_wall_ms}


def _session(member: _rota.ProjectedMember, now_ms: int) -> facts.Member:
    """A new member's deadline is not that of its session, so it does not say when it was heard."""
    left_ms = None if member.deadline_ms is None else member.deadline_ms - now_ms
    heard = None if left_ms is None or member.is_new else max(member.session_timeout_ms - left_ms, 0)
    return {
        "member_id": member.member_id,
        "session_timeout_ms": member.session_timeout_ms,
        "heard_ago_ms": heard,
        "expires_in_ms": left_ms,
    }


def _member(
    member: _rota.ProjectedMember,
    client: tuple[str, str],
    owned: Sequence[Place] | None,
    now_ms: int,
    *,
    is_consumer: bool,
) -> Json:
    parked = "JoinGroup" if member.awaits_join else "SyncGroup" if member.awaits_sync else None
    return {
        **_session(member, now_ms),
        "instance_id": member.instance_id,
        "client_id": client[0],
        "client_host": client[1],
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "parked": parked,
        "owes_sync": member.owes_sync,
        "is_new": member.is_new,
        "protocols": [name for name, _ in member.protocols],
        "subscription": _subscription(member, is_consumer=is_consumer),
        "assignment": None if owned is None else by_topic(owned),
        "assignment_bytes": len(member.assignment),
        "type": "classic",
        "epoch": None,
        "target": None,
        "revoking": None,
        "rebalance_ends_in_ms": None,
    }


def _subscription(member: _rota.ProjectedMember, *, is_consumer: bool) -> Json | None:
    """What it said with the protocol that it likes best; None if that is not a consumer's subscription."""
    if not is_consumer:
        return None
    try:
        subscription = _rota.decode_subscription(member.protocols[0][1])
    except (_rota.EmbeddedError, IndexError):
        return None
    owned = [(topic, partition) for topic, partitions in subscription.owned_partitions for partition in partitions]
    return {"topics": list(subscription.topics), "owned": by_topic(owned), "rack": subscription.rack, "pattern": None}


def _owners(group: _rota.Projection | _rota.ConsumerView) -> list[tuple[str, Sequence[Place] | None]]:
    """What each member has, with its id; None where the bytes are not a consumer's assignment."""
    if isinstance(group, _rota.ConsumerView):
        return [(member.member_id, (*member.assigned, *member.revoking)) for member in group.members]
    if group.protocol_type != CONSUMER:
        return [(member.member_id, None) for member in group.members]
    return [(member.member_id, _assigned(member.assignment)) for member in group.members]


def _assigned(assignment: bytes) -> list[Place] | None:
    if not assignment:
        return []
    try:
        plan = _rota.decode_assignment(assignment)
    except _rota.EmbeddedError:
        return None
    return [(topic, partition) for topic, partitions in plan.partitions for partition in partitions]


def _partitions(look: Look, log_ends: Sequence[int | None]) -> list[Json]:
    """Committed offsets, lag and owners by partition."""
    _, group, _ = look
    offsets = {(topic, partition): value for topic, partition, value in group.offsets}
    owners: dict[Place, list[str]] = {}
    for member_id, mine in _owners(group):
        for place in mine or ():
            owners.setdefault(place, []).append(member_id)
    rows = []
    for place, log_end in zip(places(look), log_ends, strict=True):
        value = offsets.get(place)
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "owners": owners.get(place, []),
                "offset": None if value is None else value.offset,
                "metadata": None if value is None else value.metadata,
                "committed_wall_ms": None if value is None else value.commit_timestamp_ms,
                "log_end": log_end,
                "lag": None if value is None or log_end is None else max(log_end - value.offset, 0),
            }
        )
    return rows
