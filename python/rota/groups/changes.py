"""What changes a group: each looks first whether all of it can be done, and does it then."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rota.groups.cluster import Cluster, Committed, Described, Member, Partition, kind_of, refusal
from rota.groups.errors import GroupsError, Kind, misused, nearest
from rota.groups.plan import Step, as_file, as_undo, named, steps, wanted_offsets
from rota.groups.values import Goal, chosen
from rota.why.words import counted, listed

MEMBERS_NAMED = 3


def who(described: Described) -> str:
    """`2 members (ana at /127.0.0.1, ben at /127.0.0.1)`."""
    members = described.members
    if members is None:
        return "members"
    some = [f"{member.client_id} at {member.host}" for member in members[:MEMBERS_NAMED]]
    more = ["..."] if len(members) > MEMBERS_NAMED else []
    return f"{counted(len(members), 'member')} ({', '.join(some + more)})"


def how_to_stop(described: Described) -> str:
    """What to do about the members of a group that is to have none."""
    if described.members is None:
        return "stop them"
    return f"stop them, or remove each with `rota groups remove-member {described.group} --member ID`"


def refuse_live(described: Described, change: str) -> None:
    """An error if the group has members: a broker takes no such change from outside then."""
    if described.state != "Empty":
        raise GroupsError(
            Kind.IN_USE,
            f"{change}: group `{described.group}` is {described.state} with {who(described)}: "
            f"{how_to_stop(described)}; nothing was changed",
        )


def write_new(option: str, path: Path, text: str) -> None:
    """A file that was not there, on disk before anything is changed; of one that cannot be written nothing is left."""
    try:
        file = path.open("x", encoding="utf-8", newline="")
    except FileExistsError:
        raise misused(
            f"{option} is `{path}`: it exists already: give another file, or remove it; nothing was changed"
        ) from None
    except OSError as error:
        raise misused(f"{option} is `{path}`: {error.strerror}; nothing was changed") from None
    try:
        with file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()
        raise misused(f"{option} is `{path}`: {error.strerror}; nothing was changed") from None


def apply(cluster: Cluster, group: str, steps: Sequence[Step], undo: Path | None) -> None:
    """Commits the steps. If the broker refuses some, the others are taken back; then there is nothing to undo."""
    refused = _carried_out(cluster, group, steps)
    if not refused:
        return
    done = [step for step in steps if step.at not in refused]
    left = _taken_back(cluster, group, done)
    if undo is not None and not left:
        undo.unlink()
    [first, *_] = refused.values()
    rest = f"these could not be taken back: {named(left)}" if left else "nothing was changed"
    names = ", ".join(sorted({refusal(code) for code in refused.values()}))
    raise GroupsError(kind_of(first), f"group `{group}`: the broker refused {named(refused)}: {names}; {rest}")


def _carried_out(cluster: Cluster, group: str, steps: Sequence[Step]) -> dict[Partition, type[Exception]]:
    """Deletes what had no offset, and commits the rest if the broker did; what was refused."""
    gone = [step.at for step in steps if step.after is None and step.before is not None]
    refused = cluster.delete_offsets(group, gone) if gone else {}
    wanted = {step.at: step.after for step in steps if step.after is not None}
    if refused or not wanted:
        return refused
    try:
        return cluster.alter(group, wanted)
    except GroupsError as error:
        if not gone:
            raise
        said = str(error).removesuffix("; nothing was changed")
        raise GroupsError(error.kind, f"{said}; deleted: {named(gone)}") from None


def _taken_back(cluster: Cluster, group: str, done: Sequence[Step]) -> set[Partition]:
    """Puts offsets back to where they were; those that could not."""
    before = {step.at: step.before for step in done if step.before is not None}
    added = [step.at for step in done if step.before is None]
    left = set(cluster.alter(group, before)) if before else set()
    return left | set(cluster.delete_offsets(group, added) if added else ())


def delete(cluster: Cluster, groups: Sequence[str]) -> None:
    """Deletes groups, if all of them are there and without members."""
    try:
        for described in cluster.describe(groups):
            refuse_live(described, "delete")
    except GroupsError as error:
        if len(groups) == 1 or error.kind not in (Kind.NOT_FOUND, Kind.IN_USE):
            raise
        said = str(error).removesuffix("; nothing was changed")
        raise GroupsError(error.kind, f"{said}; none of the {len(groups)} groups was deleted") from None
    refused = cluster.delete(groups)
    if refused:
        what = ", ".join(f"`{group}` ({code})" for group, code in sorted(refused.items()))
        done = sorted(set(groups) - refused.keys())
        rest = f"deleted: {', '.join(done)}" if done else "nothing was changed"
        raise GroupsError(Kind.REFUSED, f"the broker did not delete {what}; {rest}")


def offsets_to_delete(
    described: Described, committed: Mapping[Partition, Committed], topics: Iterable[str] | None
) -> dict[Partition, Committed]:
    """The committed offsets that are meant, all of them without `topics`. None of them may be of a topic that a member
    subscribes to."""
    group = described.group
    asked = {topic: None for topic, _ in committed} if topics is None else chosen(topics)
    found: dict[Partition, Committed] = {}
    for topic, indexes in asked.items():
        there = {at: one for at, one in committed.items() if at[0] == topic and (indexes is None or at[1] in indexes)}
        absent = (indexes or set()) - {index for _, index in there}
        if absent or not there:
            which = named((topic, index) for index in absent) or f"topic `{topic}`"
            raise GroupsError(Kind.NOT_FOUND, f"group `{group}` has no committed offset for {which}")
        found |= there
    if not found:
        raise GroupsError(Kind.NOT_FOUND, f"group `{group}` has no committed offsets")
    for member in described.members or []:
        used = sorted({topic for topic, _ in found} & set(member.topics))
        if used:
            raise GroupsError(
                Kind.IN_USE,
                f"delete-offsets: member {member.client_id} at {member.host} of group `{group}` subscribes to "
                f"`{used[0]}`; nothing was changed",
            )
    return found


def delete_offsets(cluster: Cluster, group: str, offsets: Mapping[Partition, Committed], undo: Path) -> None:
    """Deletes committed offsets, after they are in the undo file."""
    write_new("--undo", undo, as_undo(group, offsets))
    try:
        refused = cluster.delete_offsets(group, list(offsets))
    except GroupsError as error:
        if error.kind is Kind.REFUSED:
            undo.unlink()
        raise
    if refused:
        if len(refused) == len(offsets):
            undo.unlink()
        [first, *_] = refused.values()
        names = ", ".join(sorted({refusal(code) for code in refused.values()}))
        done = named(offsets.keys() - refused.keys())
        rest = f"deleted, and in {undo}: {done}" if done else "nothing was changed"
        raise GroupsError(kind_of(first), f"group `{group}`: the broker refused {named(refused)}: {names}; {rest}")


def member_of(described: Described, member_id: str | None, instance_id: str | None) -> Member:
    """The member with an id, or an instance id."""
    if described.members is None:
        raise GroupsError(
            Kind.REFUSED, f"group `{described.group}` is of type {described.type}: its members leave by themselves only"
        )
    wanted = member_id if instance_id is None else instance_id
    by_id = {(one.member_id if instance_id is None else one.instance_id): one for one in described.members}
    if wanted not in by_id:
        what = "member" if instance_id is None else "member with instance id"
        hint = _of_client(described.members, member_id) or nearest(
            wanted or "", [known for known in by_id if known is not None]
        )
        raise GroupsError(Kind.NOT_FOUND, f"group `{described.group}` has no {what} `{wanted}`{hint}")
    return by_id[wanted]


def _of_client(members: Sequence[Member], name: str | None) -> str:
    """The ids of the members with a client id, where that was given instead."""
    ids = [member.member_id for member in members if member.client_id == name]
    return f": `{name}` is the client id of {listed(ids)}" if ids else ""


def remove(cluster: Cluster, group: str, member: Member, reason: str) -> None:
    """Removes a member. Its client learns it from the answer to its next request, and joins again if it still runs."""
    code = cluster.remove(group, member, reason)
    if code is not None:
        kind = Kind.NOT_FOUND if refusal(code) == "UnknownMemberId" else kind_of(code)
        raise GroupsError(kind, f"the broker did not remove `{member.member_id}` from group `{group}`: {refusal(code)}")


def existing(cluster: Cluster, group: str, *, create: bool) -> Described | None:
    """The group whose offsets are to be reset; None if it is to be created."""
    if create and group not in {line.group for line in cluster.groups()}:
        return None
    try:
        [described] = cluster.describe([group])
    except GroupsError as error:
        if error.kind is not Kind.NOT_FOUND:
            raise
        raise GroupsError(error.kind, f"{error} (--create makes a new group)") from None
    return described


def running(described: Described | None) -> str:
    """What has to be done before the offsets of a group can be reset, or ""."""
    if described is None or described.state == "Empty":
        return ""
    return f"--execute needs a group without members: it is {described.state} with {who(described)}"


def reset(
    cluster: Cluster,
    group: str,
    goal: Goal,
    topics: Iterable[str] | None,
    described: Described | None,
    *,
    execute: bool,
) -> list[Step]:
    """The steps that a reset would take; to execute them, the group may have no members. Nothing is changed."""
    if execute and described is not None:
        refuse_live(described, "reset-offsets")
    before = cluster.committed(group)
    wanted = wanted_offsets(cluster, group, goal, before, topics)
    if not wanted:
        raise GroupsError(Kind.NOT_FOUND, f"group `{group}` has no committed offsets: say which with --topic")
    return steps(cluster, before, wanted)


def keep(group: str, planned: Sequence[Step], plan: Path | None, undo: Path | None) -> None:
    """Writes the files that were asked for, both or none."""
    if plan is not None:
        write_new("--plan", plan, as_file(group, {step.at: step.after for step in planned}))
    try:
        if undo is not None:
            write_new("--undo", undo, as_undo(group, {step.at: step.before for step in planned}))
    except GroupsError:
        if plan is not None:
            plan.unlink()
        raise
