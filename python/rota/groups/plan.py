"""Where offsets are to go: what was asked for as offsets, and the files that have offsets in them.

A file has lines `topic,partition,offset`, as Kafka's own tool reads and writes them, or with the group before that, or
with the group before and epoch and metadata after: that is what undo files are. Such a line alone may have the offset
-1: the partition had no committed offset.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.arguments import INT32_MAX, INT64_MAX
from rota.groups.cluster import Bounds, Cluster, Committed, Partition
from rota.groups.errors import GroupsError, Kind, misused, nearest
from rota.groups.values import Goal, Target, chosen

NO_OFFSET = -1
UNDO_CELLS = 6


@dataclass(frozen=True)
class Step:
    """One partition's move: from the committed offset to another (None: there is none). `note` says what was bent."""

    topic: str
    partition: int
    before: Committed | None
    after: Committed | None
    note: str = ""

    @property
    def at(self) -> Partition:
        """Topic and index."""
        return self.topic, self.partition


def named(partitions: Iterable[Partition]) -> str:
    """`orders-0, orders-1`."""
    return ", ".join(f"{topic}-{index}" for topic, index in sorted(partitions))


def partitions_of(cluster: Cluster, wanted: Iterable[str]) -> list[Partition]:
    """The partitions that `--topic` options mean; what is not there is an error that names it."""
    asked = chosen(wanted)
    there = cluster.partitions(asked)
    for topic, indexes in asked.items():
        if topic not in there:
            raise GroupsError(Kind.NOT_FOUND, f"there is no topic `{topic}`")
        absent = (indexes or set()) - set(there[topic])
        if absent:
            raise GroupsError(Kind.NOT_FOUND, f"there is no partition {named((topic, index) for index in absent)}")
    return [(topic, index) for topic, indexes in there.items() for index in sorted(asked[topic] or indexes)]


def read_file(path: Path, group: str) -> dict[Partition, Committed | None]:
    """The offsets that a file has for a group. A line that is wrong, or cut short, makes the whole file unusable."""
    try:
        # Metadata may have line ends of any kind, which `_csv` has written as they are.
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise misused(f"--from-file is `{path}`: {reason}; give a file that --plan or --undo wrote") from None
    if text and not text.endswith("\n"):
        raise misused(f"--from-file {path}: the last line has no end: was the file cut short?")
    found: dict[Partition, Committed | None] = {}
    others = set()
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in filter(None, lines):
            owner, at, one = _line(f"--from-file {path}: line {lines.line_num}", cells)
            if owner is not None and owner != group:
                others.add(owner)
                continue
            if at in found:
                raise misused(f"--from-file {path}: line {lines.line_num}: {named([at])} is there twice")
            found[at] = one
    except csv.Error as error:
        raise misused(f"--from-file {path}: line {lines.line_num}: {error}") from None
    if not found:
        hint = f": it has those of {', '.join(f'`{other}`' for other in sorted(others))}" if others else ""
        raise misused(f"--from-file {path}: there are no offsets for group `{group}`{hint}")
    return found


def _line(where: str, cells: list[str]) -> tuple[str | None, Partition, Committed | None]:
    wrong = misused(f"{where}: `{','.join(cells)}` is not topic,partition,offset")
    match cells:
        case [topic, index, offset]:
            owner, epoch, metadata = None, "-1", ""
        case [owner, topic, index, offset]:
            epoch, metadata = "-1", ""
        case [owner, topic, index, offset, epoch, metadata]:
            pass
        case _:
            raise wrong
    numbers = [index.strip(), offset.strip(), epoch.strip()]
    if not topic.strip() or not all(re.fullmatch(r"[0-9]{1,19}|-1", number) for number in numbers):
        raise wrong
    partition, position, leader_epoch = map(int, numbers)
    least = NO_OFFSET if len(cells) == UNDO_CELLS else 0
    if not 0 <= partition <= INT32_MAX or not least <= position <= INT64_MAX or leader_epoch > INT32_MAX:
        raise wrong
    one = None if position == NO_OFFSET else Committed(position, leader_epoch, metadata)
    return owner, (topic.strip(), partition), one


def as_file(group: str, offsets: Mapping[Partition, Committed | None]) -> str:
    """Offsets as lines `topic,partition,offset`, as Kafka's own tool reads them. No offset is a line of an undo file,
    which that tool refuses.
    """
    rows = ((one, _undo(group, at, one)) for at, one in sorted(offsets.items()))
    return _csv(row if one is None else row[1:4] for one, row in rows)


def as_undo(group: str, offsets: Mapping[Partition, Committed | None]) -> str:
    """Offsets with all that was committed beside them."""
    return _csv(_undo(group, at, one) for at, one in sorted(offsets.items()))


def _undo(group: str, at: Partition, one: Committed | None) -> list[object]:
    one = one or Committed(NO_OFFSET)
    return [group, *at, one.offset, one.leader_epoch, one.metadata]


def _csv(rows: Iterable[list[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def steps(
    cluster: Cluster, before: Mapping[Partition, Committed], wanted: Mapping[Partition, Committed | None]
) -> list[Step]:
    """The move of each partition. Offsets outside of a partition are bent to its ends, as Kafka's own tool does it."""
    bounds = cluster.bounds(wanted)
    if wanted.keys() - bounds.keys():
        raise GroupsError(Kind.NOT_FOUND, f"there is no partition {named(wanted.keys() - bounds.keys())}")
    found = []
    for at, one in sorted(wanted.items()):
        if one is None:
            found.append(Step(*at, before.get(at), None, "deleted" if at in before else ""))
            continue
        after, note = _within(one, bounds[at])
        found.append(Step(*at, before.get(at), after, note))
    return found


def _within(one: Committed, bound: Bounds) -> tuple[Committed, str]:
    offset = min(max(one.offset, bound.first), bound.end)
    if offset == one.offset:
        return one, ""
    return Committed(offset), f"{one.offset} is outside of {bound.first} to {bound.end}"


def ends(cluster: Cluster, target: Target, partitions: list[Partition]) -> dict[Partition, Committed]:
    """The first, or the next, offset of each partition."""
    bounds = cluster.bounds(partitions)
    return {at: Committed(one.first if target is Target.TO_EARLIEST else one.end) for at, one in bounds.items()}


def since(cluster: Cluster, at_ms: int, partitions: list[Partition]) -> dict[Partition, Committed]:
    """The first offset at or after a time; where no message is as young, the end."""
    found = cluster.at_time(partitions, at_ms)
    bounds = cluster.bounds(partitions)
    return {at: Committed(offset if offset >= 0 else bounds[at].end) for at, offset in found.items()}


def current(
    cluster: Cluster, before: Mapping[Partition, Committed], partitions: list[Partition]
) -> dict[Partition, Committed]:
    """The committed offsets; where there is none, the end."""
    fresh = ends(cluster, Target.TO_LATEST, [at for at in partitions if at not in before])
    return {at: before[at] if at in before else fresh[at] for at in partitions}


def shifted(before: Mapping[Partition, Committed], by: int, partitions: list[Partition]) -> dict[Partition, Committed]:
    """The committed offsets, moved by so many messages."""
    absent = [at for at in partitions if at not in before]
    if absent:
        raise GroupsError(Kind.NOT_FOUND, f"there is no committed offset to shift for {named(absent)}")
    return {at: Committed(before[at].offset + by) for at in partitions}


def from_group(cluster: Cluster, group: str, partitions: list[Partition] | None) -> dict[Partition, Committed]:
    """The committed offsets of another group, of some partitions or of all."""
    found = cluster.committed(group)
    if not found:
        known = [line.group for line in cluster.groups()]
        hint = "" if group in known else nearest(group, known)
        raise GroupsError(Kind.NOT_FOUND, f"--from-group: `{group}` has no committed offsets{hint}")
    if partitions is None:
        return found
    absent = [at for at in partitions if at not in found]
    if absent:
        raise GroupsError(Kind.NOT_FOUND, f"--from-group: `{group}` has no committed offset for {named(absent)}")
    return {at: found[at] for at in partitions}


def wanted_offsets(
    cluster: Cluster,
    group: str,
    goal: Goal,
    before: Mapping[Partition, Committed],
    topics: Iterable[str] | None,
) -> Mapping[Partition, Committed | None]:
    """What a goal means for the chosen partitions; without `topics`, for all that the source of offsets has."""
    if goal.target is Target.FROM_FILE:
        return read_file(Path(goal.name), group)
    partitions = None if topics is None else partitions_of(cluster, topics)
    if goal.target is Target.FROM_GROUP:
        return from_group(cluster, goal.name, partitions)
    partitions = sorted(before) if partitions is None else partitions
    match goal.target:
        case Target.TO_EARLIEST | Target.TO_LATEST:
            return ends(cluster, goal.target, partitions)
        case Target.TO_OFFSET:
            return dict.fromkeys(partitions, Committed(goal.number))
        case Target.SHIFT_BY:
            return shifted(before, goal.number, partitions)
        case Target.TO_DATETIME | Target.BY_DURATION:
            return since(cluster, goal.number, partitions)
        case Target.TO_CURRENT:
            return current(cluster, before, partitions)
