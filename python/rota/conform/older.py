"""What a request asks for that its older versions cannot say.

A broker without the version of a step is asked in the newest one that it has. If the step's point would be lost by
that, the step is not served; what an older version merely leaves out of the answer is not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.codec import Fields


@dataclass(frozen=True)
class Offer:
    """Protocol type and protocols of the newest JoinGroup."""

    protocol_type: str = ""
    names: tuple[str, ...] = ()


Needs = Callable[[Fields], int]
#: Where an instance id came with the request.
WITH_INSTANCE = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "OffsetCommit": 7}
WITH_PENDING_IDS = 4
WITH_PROTOCOL = 5
WITH_LEAVERS = 3
WITH_EPOCH = 6
WITH_STABLE, WITH_EVERYTHING = 7, 2
WITH_STATES, WITH_TYPES = 4, 5


def needed(api: str, fields: Fields, offer: Offer) -> int:
    """The oldest version that says what the request does, as far as it may be asked in an older one."""
    oldest = WITH_INSTANCE.get(api, 0) if fields.get("instance_id") else 0
    if api == "SyncGroup" and offer.names and not _is_of(fields, offer):
        return WITH_PROTOCOL
    return max(oldest, NEEDS[api](fields)) if api in NEEDS else oldest


def _is_of(sync: Fields, offer: Offer) -> bool:
    return sync["protocol_type"] == offer.protocol_type and sync["protocol_name"] in offer.names


def _join(fields: Fields) -> int:
    """From v4 on, a client without an id gets one and joins again."""
    return 0 if fields["member_id"] else WITH_PENDING_IDS


def _leave(_fields: Fields) -> int:
    """From v3 on each leaver has an answer of its own."""
    return WITH_LEAVERS


def _commit(fields: Fields) -> int:
    parts = [part for topic in fields["topics"] for part in topic["partitions"]]
    return WITH_EPOCH if any(part["leader_epoch"] != -1 for part in parts) else 0


def _fetch(fields: Fields) -> int:
    if fields["require_stable"]:
        return WITH_STABLE
    return WITH_EVERYTHING if fields["topics"] is None else 0


def _list(fields: Fields) -> int:
    if fields["types_filter"]:
        return WITH_TYPES
    return WITH_STATES if fields["states_filter"] else 0


NEEDS: dict[str, Needs] = {
    "JoinGroup": _join,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "ListGroups": _list,
}
