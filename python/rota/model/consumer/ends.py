"""The end of an append of a consumer group, which may have been a conversion (§4.4, §16.2, §17.2)."""

from __future__ import annotations

from rota.model.consumer.data import ConsumerWrite, Downgrade
from rota.model.consumer.queue import WAIT
from rota.model.consumer.removal import remove
from rota.model.consumer.write import disarm, put, refused, write_ended
from rota.model.log import forget_unwritten, group_record, keep_unwritten, offset_error
from rota.model.rebalance import begin_rebalance
from rota.model.refusals import refusal
from rota.model.requests import JoinGroup, Submit
from rota.model.state import Group as ClassicGroup
from rota.model.state import InFlight, State, arm_session, cancel, emit
from rota.model.state import put as put_classic
from rota.model.values import replace
from rota.model.vote import subscribed_topics

TOO_LARGE = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")


def ended(s: State, flying: InFlight, what: ConsumerWrite, error: str | None) -> State:
    """The end of an append of a consumer group, which may have been a conversion (§4.4)."""
    group_id, is_late_now = flying.group_id, any(other.append_id == flying.append_id for other in s.appends)
    if is_late_now:
        return write_ended(s, flying, what, error)
    if what.downgrade and error is None:
        return write_ended(_become_classic(s, group_id, what.downgrade), flying, what, error)
    if what.downgrade and error in TOO_LARGE:
        gone = what.downgrade.gone
        s = write_ended(s, flying, replace(what, answers=()) if gone else what, error)
        s = put(s, group_id, replace(s.consumers[group_id], too_many=len(what.downgrade.group.members)))
        return remove(s, group_id, gone, *what.answers, lost=what.lost) if gone else s
    if what.upgraded and error:
        return refused(_return(write_ended(s, flying, replace(what, answers=()), error), what.upgraded), what, error)
    s = write_ended(s, flying, what, error)
    ended_an_empty_one = what.before and not what.before.members and not what.answers
    return _refuse_joins(s, group_id, error) if error and ended_an_empty_one else s


def _refuse_joins(s: State, group_id: str, error: str) -> State:
    """The end of an Empty group failed, so a JoinGroup that waits for it cannot go on (§17.1)."""
    for each in s.queue:
        if each.group_id == group_id and isinstance(each.what, Submit) and isinstance(each.what.request, JoinGroup):
            s = cancel(s, WAIT, "", str(each.what.ticket))
            s = emit(s, refusal(each.what.ticket, each.what.request, offset_error(error)))
            s = replace(s, queue=tuple(other for other in s.queue if other is not each))
    return s


def _become_classic(s: State, group_id: str, downgrade: Downgrade) -> State:
    """The batch is durable (§17.2)."""
    s = put(disarm(s, group_id, *s.consumers[group_id].members), group_id, None)
    classic, first = downgrade.group, downgrade.group.members[0].member_id
    s = _installed(s, replace(classic, leader=first, since_ms=s.now_ms, state_timestamp_ms=s.wall_ms))
    return s if classic.leader else begin_rebalance(s, group_id)


def _return(s: State, classic: ClassicGroup) -> State:
    """The upgrade failed. The log may have its tombstone nonetheless, so the record is written again; the rebalance of
    a group that was not Stable writes one anyway (§4.4).
    """
    was_stable = classic.state == "Stable"
    s = _installed(s, replace(classic, state="Stable", state_timestamp_ms=s.wall_ms))
    record = group_record(s.groups[classic.group_id])
    if was_stable:
        return keep_unwritten(s, (record,))
    return begin_rebalance(forget_unwritten(s, (record,)), classic.group_id)


def _installed(s: State, classic: ClassicGroup) -> State:
    """A classic group takes the place of the offsets that it had (§17.2). Sessions begin."""
    shell = s.groups.get(classic.group_id)
    bare = tuple(replace(each, owes_sync=False, is_new=False, replacing=None) for each in classic.members)
    classic = replace(classic, pending=(), delay=None, creating=None, plan=None, deleting=None, new_member_flag=False)
    classic = replace(classic, members=bare, offsets=shell.offsets if shell else {}, held=False, durable=True)
    s = put_classic(s, replace(classic, subscribed_topics=subscribed_topics(classic)))
    for member in classic.members:
        s = arm_session(s, classic.group_id, member.member_id)
    return s
