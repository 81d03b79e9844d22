"""How each request is refused (docs/protocol.md §3, §10.1, §12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rota.model import answers, requests
from rota.model.answers import Answer, CommittedPartition

PLAIN: dict[type, Callable[[int, str], Answer]] = {
    requests.SyncGroup: answers.SyncAnswer,
    requests.Heartbeat: answers.HeartbeatAnswer,
    requests.LeaveGroup: answers.LeaveAnswer,
    requests.ListGroups: answers.ListAnswer,
    requests.OffsetDelete: answers.OffsetDeleteAnswer,
}


def refusal(ticket: int, request: Any, error: str) -> Answer:
    """A JoinGroup's answer echoes its member id, a commit's has the error on every partition (docs/protocol.md
    §10.1), and most others nothing but the error.
    """
    match request:
        case requests.JoinGroup():
            return answers.JoinAnswer(ticket, error, member_id=request.member_id)
        case requests.OffsetCommit():
            ids = dict(request.topic_ids)
            places = [(topic, partition) for topic, partition, *_ in request.offsets]
            told = tuple(CommittedPartition(*place, error, ids.get(place[0], 0)) for place in places)
            return answers.CommitAnswer(ticket, told)
        case requests.OffsetFetch():
            return answers.FetchAnswer(ticket, error, request.group_id or "")
        case requests.DescribeGroup():
            return answers.DescribeAnswer(ticket, error, None, request.group_id or "", "")
        case requests.DeleteGroup():
            return answers.DeleteAnswer(ticket, error, request.group_id or "")
    return PLAIN[type(request)](ticket, error)
