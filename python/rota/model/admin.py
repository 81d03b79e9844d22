"""DescribeGroups and ListGroups (docs/protocol.md §12, docs/consumer-protocol.md §13.2)."""

from __future__ import annotations

from rota.model.answers import NONE, DescribeAnswer, DescribedMember, ListAnswer, ListedGroup
from rota.model.consumer.admin import listed
from rota.model.consumer.write import durable
from rota.model.requests import DescribeGroup, ListGroups
from rota.model.state import State, emit


def describe_group(s: State, ticket: int, request: DescribeGroup) -> State:
    """A group whose first record is not durable yet counts as missing (docs/protocol.md §12.1)."""
    group_id = request.group_id or ""
    group = s.groups.get(group_id)
    of_consumers = durable(s, group_id) is not None
    if group is None or not group.durable or of_consumers:
        kind = "is not a classic group" if of_consumers else "not found"
        error, message = ("GROUP_ID_NOT_FOUND", f"Group {group_id} {kind}.") if request.version >= 6 else (NONE, None)
        return emit(s, DescribeAnswer(ticket, error, message, group_id, "Dead"))
    stable = group.state == "Stable"
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            dict(member.protocols).get(group.protocol_name or "", b"") if stable else b"",
            member.assignment,
        )
        for member in group.members
    )
    name = group.protocol_name or "" if stable else ""
    answer = DescribeAnswer(ticket, NONE, None, group_id, group.state, group.protocol_type or "", name, members)
    return emit(s, answer)


def list_groups(s: State, ticket: int, request: ListGroups) -> State:
    """Filters ignore case and the space around a word (docs/protocol.md §12.2)."""
    states = {state.strip().lower() for state in request.states}
    types = {kind.strip().lower() for kind in request.types}
    consumers = listed(s)
    classic = [
        ListedGroup(group_id, group.protocol_type or "", group.state)
        for group_id, group in s.groups.items()
        if group.durable and group_id not in consumers
    ]
    wanted = [("classic", each) for each in classic] + [("consumer", each) for each in consumers.values()]
    shown = [
        each for kind, each in wanted if (not states or each.state.lower() in states) and (not types or kind in types)
    ]
    shown.sort(key=lambda each: each.group_id)
    return emit(s, ListAnswer(ticket, NONE, tuple(shown)))
