"""Where offsets are to go: what was asked for as offsets, and the files that have offsets in them.

A file has lines `topic,partition,offset`, as Kafka's own tool reads and writes them, or with the group before that, or
with the group before and epoch and metadata after: that is what undo files are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from rota.groups.cluster import Bounds, Cluster, Committed, Partition
from rota.groups.errors import GroupsError, Kind, misused, nearest

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
DURATION = re.compile(
    r"P(?:(?P<days>[0-9]+)D)?(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?"
    r"(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)S)?)?"
)


class Target(Enum):
    """Where offsets can be sent, by the name of the option."""

    TO_EARLIEST = "--to-earliest"
    TO_LATEST = "--to-latest"
    TO_CURRENT = "--to-current"
    TO_OFFSET = "--to-offset"
    SHIFT_BY = "--shift-by"
    TO_DATETIME = "--to-datetime"
    BY_DURATION = "--by-duration"
    FROM_FILE = "--from-file"
    FROM_GROUP = "--from-group"


@dataclass(frozen=True)
class Step:
    """One partition's move: from the committed offset (None: there is none) to another. `note` says what was bent."""

    topic: str
    partition: int
    before: Committed | None
    after: Committed
    note: str = ""

    @property
    def at(self) -> Partition:
        """Topic and index."""
        return self.topic, self.partition


def named(partitions: Iterable[Partition]) -> str:
    """`orders-0, orders-1`."""
    return ", ".join(f"{topic}-{index}" for topic, index in sorted(partitions))


def timestamp_ms(text: str) -> int:
    """An ISO 8601 date and time, in UTC if it does not say, as milliseconds since the epoch; 0 for what was before."""
    try:
        found = datetime.fromisoformat(text)
        # Kafka reads a negative time as a name: -1 is the end.
        return max(0, round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise misused(f"--to-datetime is `{text}`: give a time such as 2026-03-01T13:30:00+01:00") from None


def ago_ms(text: str) -> int:
    """The time that was an ISO 8601 duration of days, hours, minutes, seconds ago, as milliseconds since the epoch."""
    match = DURATION.fullmatch(text)
    try:
        if match is not None and any(match.groupdict().values()):
            length = timedelta(**{unit: float(value) for unit, value in match.groupdict().items() if value})
            return max(0, round((datetime.now(UTC) - length).timestamp() * 1_000))
    except OverflowError:
        pass
    raise misused(f"--by-duration is `{text}`: give a duration such as P1DT6H or PT30M")


def whole(option: str, text: str, lowest: int) -> int:
    """The number that an option was given."""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not lowest <= int(text) <= INT64_MAX:
        raise misused(f"{option} is `{text}`: give a whole number" + (", 0 or more" if lowest == 0 else ""))
    return int(text)


def chosen(wanted: Iterable[str]) -> dict[str, set[int] | None]:
    """`--topic orders` and `--topic orders:0,2` as the partitions of each topic; None is all of them."""
    found: dict[str, set[int] | None] = {}
    for text in wanted:
        topic, colon, indexes = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", indexes)):
            raise misused(f"--topic is `{text}`: give TOPIC or TOPIC:PARTITION,PARTITION")
        if topic in found:
            raise misused(f"--topic `{topic}` is given twice")
        found[topic] = {int(index) for index in indexes.split(",")} if colon else None
    return found


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


def read_file(path: Path, group: str) -> dict[Partition, Committed]:
    """The offsets that a file has for a group. A line that is wrong, or cut short, makes the whole file unusable."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise misused(f"--from-file {path}: {error}") from None
    if text and not text.endswith("\n"):
        raise misused(f"--from-file {path}: the last line has no end: was the file cut short?")
    found: dict[Partition, Committed] = {}
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


def _line(where: str, cells: list[str]) -> tuple[str | None, Partition, Committed]:
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
    if not 0 <= partition <= INT32_MAX or not 0 <= position <= INT64_MAX or leader_epoch > INT32_MAX:
        raise wrong
    return owner, (topic.strip(), partition), Committed(position, leader_epoch, metadata)


def as_file(offsets: Mapping[Partition, Committed]) -> str:
    """Offsets as lines `topic,partition,offset`, which Kafka's own tool reads, too."""
    return _csv([topic, index, one.offset] for (topic, index), one in sorted(offsets.items()))


def as_undo(group: str, offsets: Mapping[Partition, Committed]) -> str:
    """Offsets with all that was committed beside them."""
    return _csv(
        [group, topic, index, one.offset, one.leader_epoch, one.metadata]
        for (topic, index), one in sorted(offsets.items())
    )


def _csv(rows: Iterable[list[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def steps(cluster: Cluster, before: Mapping[Partition, Committed], wanted: Mapping[Partition, Committed]) -> list[Step]:
    """The move of each partition. Offsets outside of a partition are bent to its ends, as Kafka's own tool does it."""
    bounds = cluster.bounds(wanted)
    if wanted.keys() - bounds.keys():
        raise GroupsError(Kind.NOT_FOUND, f"there is no partition {named(wanted.keys() - bounds.keys())}")
    found = []
    for at, one in sorted(wanted.items()):
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
    target: tuple[Target, str],
    before: Mapping[Partition, Committed],
    topics: Iterable[str] | None,
) -> dict[Partition, Committed]:
    """What a target means for the chosen partitions; without `topics`, for all that the source of offsets has."""
    kind, value = target
    if kind is Target.FROM_FILE:
        return read_file(Path(value), group)
    partitions = None if topics is None else partitions_of(cluster, topics)
    if kind is Target.FROM_GROUP:
        return from_group(cluster, value, partitions)
    partitions = sorted(before) if partitions is None else partitions
    match kind:
        case Target.TO_EARLIEST | Target.TO_LATEST:
            return ends(cluster, kind, partitions)
        case Target.TO_OFFSET:
            return dict.fromkeys(partitions, Committed(whole(kind.value, value, 0)))
        case Target.SHIFT_BY:
            return shifted(before, whole(kind.value, value, -INT64_MAX), partitions)
        case Target.TO_DATETIME:
            return since(cluster, timestamp_ms(value), partitions)
        case Target.BY_DURATION:
            return since(cluster, ago_ms(value), partitions)
        case Target.TO_CURRENT:
            return current(cluster, before, partitions)
