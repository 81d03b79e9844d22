"""What `rota groups` found, as tables for people and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rota.groups.cluster import Committed, Described, Listed, Member, Partition
from rota.groups.lag import Row
from rota.groups.plan import Step, as_file
from rota.groups.transactions import OpenTransaction
from rota.why.words import counted

NONE = "-"
UNKNOWN = "unknown"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as they must be."""
    cells = [list(header), *([NONE if cell is None else plain(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def plain(text: str) -> str:
    """Without what a terminal would obey: names of groups and clients are anybody's."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def seconds(value: float | None) -> str:
    """`12.5`, or that it is not known."""
    return UNKNOWN if value is None else f"{value:.1f}"


def listed(lines: Sequence[Listed]) -> str:
    """All groups, one a line."""
    header = ("GROUP", "TYPE", "PROTOCOL", "STATE")
    return table(header, [(one.group, one.type, one.protocol_type or None, one.state) for one in lines])


def offsets(described: Described, rows: Sequence[Row], *, verbose: bool) -> str:
    """Offsets and lag, then members without partitions.

    `verbose` adds epochs, the age of the next message, instance ids and why seconds are unknown.
    """
    header = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "LAG-SECONDS"]
    header += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    if verbose:
        header += ["LEADER-EPOCH", "WAITING-SECONDS", "INSTANCE-ID", "NOTE"]
    lines = []
    for row in rows:
        member, one = row.member, row.committed
        line: list[object] = [described.group, row.topic, row.partition, None if one is None else one.offset]
        line += [row.end, row.lag, seconds(row.lag_s), *_owner(member)]
        if verbose:
            epoch = None if one is None or one.leader_epoch < 0 else one.leader_epoch
            instance_id = None if member is None else member.instance_id
            line += [epoch, seconds(row.waiting_s), instance_id, row.unknown]
        lines.append(line)
    for member in idle(described):
        line = [described.group, *[None] * 6, *_owner(member)]
        lines.append(line + ([None, None, member.instance_id, None] if verbose else []))
    return table(header, lines)


def _owner(member: Member | None) -> list[object]:
    return [None] * 3 if member is None else [member.member_id, member.host, member.client_id]


def idle(described: Described) -> list[Member]:
    """The members that have no partition."""
    return [member for member in described.members or [] if not member.partitions]


def members(described: Described, *, verbose: bool) -> str:
    """Members and how much they were assigned; with `verbose` what that is, and what they subscribe to.

    Members of a consumer group have their epoch, too, and with `verbose` their target and what they still have to
    give up.
    """
    has_epochs = described.epoch is not None
    header = ["GROUP", "CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    header += ["ASSIGNMENT", "SUBSCRIPTION"] if verbose else []
    header += ["EPOCH"] if has_epochs else []
    header += ["TARGET-ASSIGNMENT", "TO-REVOKE"] if has_epochs and verbose else []
    lines = []
    for member in described.members or []:
        line = _member(described.group, member, verbose=verbose)
        line += [member.epoch] if has_epochs else []
        line += [assignment(places) or None for places in (member.target or [], member.revoking)] if verbose else []
        lines.append(line[: len(header)])
    return table(header, lines)


def _member(group: str, member: Member, *, verbose: bool) -> list[object]:
    line: list[object] = [group, member.member_id, member.instance_id, member.host, member.client_id]
    line.append(len(member.partitions))
    return [*line, assignment(member.partitions) or None, ",".join(member.topics) or None] if verbose else line


def assignment(partitions: Iterable[Partition]) -> str:
    """`orders(0,2), returns(1)`."""
    by_topic: dict[str, list[str]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(str(index))
    return ", ".join(f"{topic}({','.join(indexes)})" for topic, indexes in by_topic.items())


def states(groups: Sequence[Described]) -> str:
    """One line a group; with epochs if one of them has any."""
    epochs = any(one.epoch is not None for one in groups)
    header = [
        "GROUP",
        "TYPE",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "#MEMBERS",
        *(["EPOCH", "TARGET-EPOCH"] if epochs else []),
    ]
    lines = []
    for one in groups:
        count = UNKNOWN if one.members is None else len(one.members)
        line = (one.group, one.type, one.protocol or None, one.state, count, one.epoch, one.target_epoch)
        lines.append(line[: len(header)])
    return table(header, lines)


def steps(group: str, found: Sequence[Step]) -> str:
    """Where the offsets go, from where."""
    header = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "NOTE")
    return table(
        header,
        [
            (
                group,
                one.topic,
                one.partition,
                None if one.before is None else one.before.offset,
                None if one.after is None else one.after.offset,
                one.note,
            )
            for one in found
        ],
    )


def described_json(
    described: Described, rows: Sequence[Row] | None, held: Sequence[OpenTransaction] = ()
) -> dict[str, Any]:
    """A group as one object; `offsets` is null where they were not asked for."""
    return {
        "group": described.group,
        "state": described.state,
        "type": described.type,
        "protocol_type": described.protocol_type,
        "protocol": described.protocol,
        "epoch": described.epoch,
        "target_epoch": described.target_epoch,
        "members": None
        if described.members is None
        else [
            {
                "member_id": one.member_id,
                "instance_id": one.instance_id,
                "client_id": one.client_id,
                "host": one.host,
                "subscription": one.topics,
                "epoch": one.epoch,
                "assignment": _places(one.partitions),
                "target": None if one.target is None else _places(one.target),
                "revoking": _places(one.revoking),
            }
            for one in described.members
        ],
        "offsets": None if rows is None else [_row_json(row) for row in rows],
        "transactions": None if rows is None else [vars(one) for one in held],
        "lag": _known([row.lag for row in rows or []], sum),
        "lag_s": _known([row.lag_s for row in rows or []], max),
    }


def _places(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": index} for topic, index in partitions]


def _known(values: Sequence[Any], of: Callable[[list[Any]], Any]) -> Any:
    """The sum, or the maximum, of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return of(known) if known else None


def _row_json(row: Row) -> dict[str, Any]:
    one = row.committed
    return {
        "topic": row.topic,
        "partition": row.partition,
        "offset": None if one is None else one.offset,
        "leader_epoch": None if one is None or one.leader_epoch < 0 else one.leader_epoch,
        "metadata": None if one is None else one.metadata,
        "log_end_offset": row.end,
        "lag": row.lag,
        "lag_s": row.lag_s,
        "waiting_s": row.waiting_s,
        "seconds_unknown": row.unknown or None,
        "member_id": None if row.member is None else row.member.member_id,
    }


def step_json(step: Step) -> dict[str, Any]:
    """One partition's move."""
    return {
        "topic": step.topic,
        "partition": step.partition,
        "before": None if step.before is None else step.before.offset,
        "after": None if step.after is None else step.after.offset,
        "note": step.note or None,
    }


def transactions(held: Sequence[OpenTransaction]) -> str:
    """What may hold offsets of a group back, a sentence each."""
    lines = [
        f"Transaction {plain(one.transactional_id)} with offsets in __consumer_offsets-{one.partition}, where this "
        f"group's are, {one.fate}."
        for one in held
    ]
    return "".join(f"\n{line}" for line in lines)


def described(
    one: Described, rows: Sequence[Row] | None, held: Sequence[OpenTransaction] = (), *, verbose: bool
) -> str:
    """A group's offsets and the transactions that may have more, or without rows its members."""
    return _described(one, rows, verbose=verbose) + transactions(held)


def _described(one: Described, rows: Sequence[Row] | None, *, verbose: bool) -> str:
    if rows is not None:
        text = offsets(one, rows, verbose=verbose)
        empty = "" if rows or idle(one) else f"{plain(one.group)} has no committed offsets"
    else:
        text = members(one, verbose=verbose)
        empty = "" if one.members else f"{plain(one.group)} has no members"
        if one.members is None:
            empty = f"{plain(one.group)} is of type {one.type}: the client library does not tell its members"
    return empty or text


def reset(group: str, found: Sequence[Step], *, executed: bool, form: str, needs: str = "") -> str:
    """A plan, or what was done. `needs`: what has to be done before the plan can be."""
    if form == "csv":
        return as_file(group, {one.at: one.after for one in found}).rstrip("\n")
    if form == "json":
        return json.dumps({"group": group, "executed": executed, "steps": [step_json(one) for one in found]}, indent=2)
    if executed:
        verb = "was" if len(found) == 1 else "were"
        return f"{steps(group, found)}\n\n{counted(len(found), 'offset')} {verb} reset."
    then = plain(needs) or "--execute does it"
    return f"{steps(group, found)}\n\nNothing was changed: {then}."


def offsets_deleted(group: str, found: Mapping[Partition, Committed], undo: str, reached: str, *, as_json: bool) -> str:
    """What was deleted, and where it is kept. `reached` are the options of the broker."""
    if as_json:
        deleted = [{"topic": topic, "partition": index, "offset": one.offset} for (topic, index), one in found.items()]
        return json.dumps({"group": group, "deleted": deleted, "undo": undo}, indent=2)
    lines = [(group, topic, index, one.offset) for (topic, index), one in found.items()]
    back = f"rota groups reset-offsets {shlex.quote(plain(group))} --create --execute --from-file {shlex.quote(undo)}"
    return table(("GROUP", "TOPIC", "PARTITION", "DELETED-OFFSET"), lines) + f"\n\nTo bring them back: {back}{reached}"
