"""One append of a consumer group at a time: what comes meanwhile waits, in order of arrival (§4.4)."""

from __future__ import annotations

from rota.model import refusals
from rota.model.answers import Answer
from rota.model.consumer.data import (
    ConsumerDescribeAnswer,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerWrite,
    Queued,
)
from rota.model.requests import Submit
from rota.model.state import State, arm, cancel, emit
from rota.model.values import replace

WAIT = "ConsumerWait"


def is_writing(s: State, group_id: str) -> bool:
    """Whether an append of the group is in flight, and only one may be."""
    if not s.one_append:
        return False
    return any(f.group_id == group_id and isinstance(f.what, ConsumerWrite) for f in s.appends)


def wait(s: State, group_id: str, what: Submit | tuple[str, str]) -> State:
    """A request or an expired timer (kind, member id) waits for the end of the append. A request waits at most
    `offsets.commit.timeout.ms`.
    """
    s = replace(s, queue=(*s.queue, Queued(group_id, what)))
    if isinstance(what, Submit):
        s = arm(s, WAIT, "", str(what.ticket), s.config.offsets_commit_timeout_ms)
    return s


def wait_over(s: State, ticket: int) -> State:
    """A request has waited too long."""
    late = next(each for each in s.queue if isinstance(each.what, Submit) and each.what.ticket == ticket)
    assert isinstance(late.what, Submit)
    s = replace(s, queue=tuple(each for each in s.queue if each is not late))
    return emit(s, _refusal(late.what, "COORDINATOR_NOT_AVAILABLE"))


def taken(s: State, group_id: str) -> tuple[State, Submit | tuple[str, str] | None]:
    """What has waited longest for this group, unless it has to wait on."""
    first = next((each for each in s.queue if each.group_id == group_id), None)
    if first is None or is_writing(s, group_id):
        return s, None
    s = replace(s, queue=tuple(each for each in s.queue if each is not first))
    if isinstance(first.what, Submit):
        s = cancel(s, WAIT, "", str(first.what.ticket))
    return s, first.what


def refuse_all(s: State, group_id: str, error: str) -> State:
    """The partition is given up."""
    for each in s.queue:
        if each.group_id == group_id and isinstance(each.what, Submit):
            s = emit(s, _refusal(each.what, error))
    return s


def _refusal(asked: Submit, error: str) -> Answer:
    match asked.request:
        case ConsumerGroupHeartbeat():
            return ConsumerHeartbeatAnswer(asked.ticket, error)
        case ConsumerGroupDescribe():
            return ConsumerDescribeAnswer(asked.ticket, error, None, asked.request.group_id)
    return refusals.refusal(asked.ticket, asked.request, error)
