"""Classic members in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (§18)."""

from __future__ import annotations

from rota.model.answers import NONE, HeartbeatAnswer, JoinAnswer, LeaveAnswer, LeftMember, SyncAnswer
from rota.model.consumer import embedded
from rota.model.consumer import records as log
from rota.model.consumer.conversion import downgraded
from rota.model.consumer.data import (
    UNRELEASED,
    UNREVOKED,
    Classic,
    ConsumerGroupHeartbeat,
    Downgrade,
    Group,
    Member,
    holder,
    metadata,
    staying,
)
from rota.model.consumer.heartbeat import found, is_target_due, settle, stepped
from rota.model.consumer.queue import is_writing, wait
from rota.model.consumer.removal import remove
from rota.model.consumer.target import preferred
from rota.model.consumer.write import JOIN, SYNC, arm_session, done, is_armed, write
from rota.model.join import normalised
from rota.model.log import group_record
from rota.model.records import Record
from rota.model.requests import DeleteGroup, Heartbeat, JoinGroup, LeaveGroup, Request, Submit, SyncGroup
from rota.model.state import State, arm, emit
from rota.model.values import replace


def is_for_members(s: State, r: Request) -> bool:
    """Whether a classic request is for a consumer group, or for one whose append is in flight; a deletion (§4.4)."""
    if not isinstance(r, JoinGroup | SyncGroup | LeaveGroup | Heartbeat | DeleteGroup):
        return False
    group_id = r.group_id or ""
    is_found = group_id in s.consumers and not isinstance(r, DeleteGroup)
    return is_found or (is_writing(s, group_id) and not isinstance(r, Heartbeat))


def classic_request(s: State, event: Submit) -> State:
    """A request of a classic member, or a deletion; all but Heartbeats wait for an append (§4.4)."""
    match event.request:
        case Heartbeat():
            return _heartbeat(s, event.ticket, event.request)
        case SyncGroup() if is_writing(s, event.request.group_id or ""):  # it brings no plan
            return wait(s, event.request.group_id or "", replace(event, request=replace(event.request, assignments=())))
        case JoinGroup() | LeaveGroup() | DeleteGroup() if is_writing(s, event.request.group_id or ""):
            return wait(s, event.request.group_id or "", event)
        case JoinGroup():
            return _join(s, event.ticket, normalised(event.request), event.uuid)
        case SyncGroup():
            return _sync(s, event.ticket, event.request)
        case LeaveGroup():
            return _leave(s, event.ticket, event.request)
    return s


def named(group: Group, member_id: str, instance_id: str | None) -> tuple[Member | None, str]:
    """The member that a request names, or the error; an instance id has to be that of the member (§18.3)."""
    member = group.members.get(member_id) if instance_id is None else holder(group, instance_id)
    if member is None or member.member_id != member_id:
        return None, "FENCED_INSTANCE_ID" if member else "UNKNOWN_MEMBER_ID"
    return member, NONE


def _join(s: State, ticket: int, r: JoinGroup, uuid: str) -> State:
    """JoinGroup; a new id is all of `uuid` (§18.2)."""
    group_id = r.group_id or ""
    group = s.consumers[group_id]
    if not group.members:
        s = wait(write(s, group_id, None, log.deletion(group)), group_id, Submit(ticket, r, uuid))
        return replace(s, queue=(s.queue[-1], *s.queue[:-1]))  # what else waits has come later
    told = _subscription(s, group, r)
    if isinstance(told, str):
        return emit(s, JoinAnswer(ticket, told, member_id=uuid if told == "MEMBER_ID_REQUIRED" else ""))
    owned = tuple((s.topics[name].topic_id, at) for name, at in told.owned if name in s.topics)
    who = (r.member_id or uuid, 0, r.instance_id, told.rack_id, r.rebalance_timeout_ms)
    change = ConsumerGroupHeartbeat(group_id, *who, told.topics, "", None, owned, r.client_id, r.client_host)
    work = found(group, change, replaces=not r.member_id)
    work, settled = stepped(s, preferred(group), work, change, Classic(r.session_timeout_ms, r.protocols))
    answer = JoinAnswer(ticket, NONE, settled.epoch, "consumer", r.protocols[0][0], "", False, settled.member_id)
    is_last = work.replaced is not None and not work.replaced.classic
    after = downgraded(work.group, (), s, work.group.state == "Stable") if is_last else None
    if after is None:
        return settle(s, work, settled, work.records, answer, joined=settled.member_id)
    records: tuple[Record, ...] = (*work.records, *log.deletion(work.group), group_record(after))
    return settle(s, work, settled, records, answer, downgrade=Downgrade(after))


def _subscription(s: State, group: Group, r: JoinGroup) -> embedded.Subscription | str:
    """What a JoinGroup subscribes to, or its error (§18.2, lines 3 to 9)."""
    is_known = r.member_id in group.members or holder(group, r.instance_id)
    if s.config.group_consumer_migration_policy == "disabled":
        return "INCONSISTENT_GROUP_PROTOCOL"
    if len(group.members) >= s.config.group_consumer_max_size and not is_known:
        return "GROUP_MAX_SIZE_REACHED"
    offered = {name for name, _ in r.protocols}
    for each in group.members.values():
        offered &= {name for name, _ in each.classic.protocols} if each.classic else offered
    if r.protocol_type != "consumer" or not offered:
        return "INCONSISTENT_GROUP_PROTOCOL"
    if not r.member_id and r.instance_id is None and r.version >= 4:
        return "MEMBER_ID_REQUIRED"
    error = named(group, r.member_id, r.instance_id)[1] if r.member_id and r.instance_id is not None else NONE
    if error != NONE:
        return error
    try:
        return embedded.subscription(r.protocols[0][1])
    except ValueError:
        return "INCONSISTENT_GROUP_PROTOCOL"


def _member(group: Group, r: SyncGroup | Heartbeat) -> tuple[Member | None, str]:
    """The classic member that sends a request, and what is wrong with it (§18.3, lines 1 to 3)."""
    member, error = named(group, r.member_id, r.instance_id)
    if member is None or member.classic is None:
        return None, "UNKNOWN_MEMBER_ID" if member else error
    return (member, NONE) if r.generation == member.epoch else (None, "ILLEGAL_GENERATION")


def _sync(s: State, ticket: int, r: SyncGroup) -> State:
    """SyncGroup (§18.3)."""
    group = s.consumers[r.group_id or ""]
    member, error = _member(group, r)
    if member is None or member.classic is None:
        return emit(s, SyncAnswer(ticket, error))
    name, first = member.classic.protocols[0]
    if r.protocol_type not in (None, "consumer") or r.protocol_name not in (None, name):
        return emit(s, SyncAnswer(ticket, "INCONSISTENT_GROUP_PROTOCOL"))
    if group.target_epoch > member.epoch and member.state != UNREVOKED:
        return emit(_owes_join(s, group.group_id, member), SyncAnswer(ticket, "REBALANCE_IN_PROGRESS"))
    s = arm_session(done(s, SYNC, group.group_id, member.member_id), group.group_id, member.member_id)
    assignment = embedded.assignment(first, member.assigned, s.topics)
    return emit(s, SyncAnswer(ticket, NONE, "consumer", name, assignment))


def _owes_join(s: State, group_id: str, member: Member) -> State:
    """The join timer, if it is not armed (§10)."""
    is_owed, timeout_ms = is_armed(s, JOIN, group_id, member.member_id), max(member.rebalance_timeout_ms, 0)
    return s if is_owed else arm(s, JOIN, group_id, member.member_id, timeout_ms)


def _heartbeat(s: State, ticket: int, r: Heartbeat) -> State:
    """Heartbeat, which waits for no append (§18.4)."""
    group = s.consumers[r.group_id or ""]
    member, error = _member(staying(group, s.appends), r)
    if member is None:
        return emit(s, HeartbeatAnswer(ticket, error))
    s = arm_session(s, group.group_id, member.member_id)
    busy = {p for each in group.members.values() if each.member_id != member.member_id for p in each.held}
    is_released = member.state == UNRELEASED and not busy & (member.target or frozenset())
    # No other request looks at topics that have changed, or computes the target that is due (departure D22).
    is_outdated = group.is_stale and metadata(group, s.topics) != group.metadata
    owes_target = (is_outdated or is_target_due(group, s)) and all(each.classic for each in group.members.values())
    if group.target_epoch > member.epoch or member.state == UNREVOKED or is_released or owes_target:
        return emit(_owes_join(s, group.group_id, member), HeartbeatAnswer(ticket, "REBALANCE_IN_PROGRESS"))
    return emit(s, HeartbeatAnswer(ticket, NONE))


def _leave(s: State, ticket: int, r: LeaveGroup) -> State:
    """LeaveGroup of members of both protocols (§18.5)."""
    group = s.consumers[r.group_id or ""]
    gone: dict[str, Member] = {}
    results = []
    for member_id, instance_id in r.members:
        static = holder(group, instance_id)
        leaver, error = named(group, member_id or (static.member_id if static else ""), instance_id)
        gone |= {leaver.member_id: leaver} if leaver else {}
        results.append(LeftMember(member_id, instance_id, error))
    top = results[0].error if r.version <= 2 and results else NONE
    answer = LeaveAnswer(ticket, top, tuple(results))
    return remove(s, group.group_id, tuple(gone), answer) if gone else emit(s, answer)
