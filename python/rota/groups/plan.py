"""Where offsets are to go: what was asked for as offsets, and plan files, which are those of Kafka's own tool."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rota.groups.cluster import Cluster, GroupsError, Partition

DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
TARGETS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
    "from_group",
)


@dataclass(frozen=True)
class Step:
    """One partition's move: from the committed offset (None: there is none) to another. `note` says what was bent."""

    topic: str
    partition: int
    before: int | None
    after: int
    note: str = ""


def timestamp_ms(text: str) -> int:
    """An ISO 8601 date and time, in UTC if it does not say, as milliseconds since the epoch."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise GroupsError(f"--to-datetime is `{text}`: give a time such as 2026-03-01T13:30:00+01:00") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000)


def duration(text: str) -> timedelta:
    """An ISO 8601 duration of days, hours, minutes, seconds."""
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groupdict().values()):
        raise GroupsError(f"--by-duration is `{text}`: give a duration such as P1DT6H or PT30M")
    return timedelta(**{unit: float(value) for unit, value in match.groupdict().items() if value})


def read_topics(cluster: Cluster, wanted: list[str]) -> list[Partition]:
    """`orders` and `orders:0,2` as partitions."""
    chosen: dict[str, set[int] | None] = {}
    for text in wanted:
        topic, colon, indexes = text.partition(":")
        if colon and not re.fullmatch(r"\d+(,\d+)*", indexes):
            raise GroupsError(f"--topic is `{text}`: give TOPIC or TOPIC:PARTITION,PARTITION")
        chosen[topic] = {int(index) for index in indexes.split(",")} if colon else None
    there = cluster.partitions(chosen)
    for topic, wanted_here in chosen.items():
        absent = sorted((wanted_here or set()) - set(there[topic]))
        if absent:
            raise GroupsError(f"topic `{topic}` has no partition {', '.join(map(str, absent))}")
    return [(topic, index) for topic, indexes in there.items() for index in sorted(chosen[topic] or indexes)]


def read_plan(path: Path, group: str) -> dict[Partition, int]:
    """Lines `topic,partition,offset`, or with the group before that, of which only this group's count."""
    found: dict[Partition, int] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GroupsError(f"--from-file {path}: {error}") from None
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        if len(cells) not in (3, 4) or not all(re.fullmatch(r"\d+", cell) for cell in cells[-2:]):
            raise GroupsError(f"{path}:{number}: `{','.join(row)}` is not topic,partition,offset")
        if len(cells) == 4 and cells[0] != group:
            continue
        at = cells[-3], int(cells[-2])
        if at in found:
            raise GroupsError(f"{path}:{number}: {at[0]}-{at[1]} is there twice")
        found[at] = int(cells[-1])
    if not found:
        raise GroupsError(f"{path} has no offsets for group `{group}`")
    return found


def write_plan(offsets: Mapping[Partition, int]) -> str:
    """Offsets as lines that `read_plan`, and Kafka's own tool, read."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([topic, index, offset] for (topic, index), offset in offsets.items())
    return out.getvalue()


def steps(cluster: Cluster, group: str, target: str, value: str, partitions: list[Partition]) -> list[Step]:
    """Where each partition goes. Offsets outside of a partition are bent to its end, as Kafka's own tool does it."""
    before = cluster.committed(group)
    bounds = cluster.bounds(partitions)
    gone = [f"{topic}-{index}" for topic, index in partitions if (topic, index) not in bounds]
    if gone:
        raise GroupsError(f"there is no partition {', '.join(gone)}")
    wanted = _wanted(cluster, group, target, value, partitions, before)
    found = []
    for at in partitions:
        if at not in wanted:
            continue
        after = min(max(wanted[at], bounds[at].first), bounds[at].end)
        note = "" if after == wanted[at] else f"{wanted[at]} is outside of {bounds[at].first} to {bounds[at].end}"
        found.append(Step(*at, before.get(at), after, note))
    return found


def _wanted(
    cluster: Cluster, group: str, target: str, value: str, partitions: list[Partition], before: dict[Partition, int]
) -> dict[Partition, int]:
    if target in ("to_earliest", "to_latest"):
        bounds = cluster.bounds(partitions)
        return {at: one.first if target == "to_earliest" else one.end for at, one in bounds.items()}
    if target == "to_offset":
        return dict.fromkeys(partitions, int(value))
    if target == "to_datetime":
        return cluster.at_time(partitions, timestamp_ms(value))
    if target == "by_duration":
        since = datetime.now(UTC) - duration(value)
        return cluster.at_time(partitions, round(since.timestamp() * 1_000))
    if target == "from_file":
        return read_plan(Path(value), group)
    if target == "from_group":
        found = cluster.committed(value)
        if not found:
            raise GroupsError(f"group `{value}` has no committed offsets")
        return found
    absent = [f"{topic}-{index}" for topic, index in partitions if (topic, index) not in before]
    if target == "shift_by" and absent:
        raise GroupsError(f"group `{group}` has no offset for {', '.join(absent)}: there is nothing to shift")
    if target == "to_current":
        ends = cluster.bounds([at for at in partitions if at not in before])
        return {at: before.get(at, ends[at].end if at in ends else 0) for at in partitions}
    return {at: before[at] + int(value) for at in partitions}
