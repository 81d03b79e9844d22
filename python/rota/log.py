"""`rota log`: what a data directory has, without a server.

Exit codes: 0 all well, 1 damaged, 2 called wrongly, 3 no such partition or group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from rota import _rota, journal
from rota.arguments import INT32_MAX, INT64_MAX
from rota.audit.names import instead_of
from rota.consumer_records import ConsumerGroupRecord, consumer_record
from rota.exits import FAILED, MISUSED, NOT_FOUND, complain, existing_directory, fail
from rota.why.words import counted, printable

META_PROPERTIES = "meta.properties"
OFFSETS_TOPIC = "__consumer_offsets"
RECORDS_AT_ONCE = 1_000

app = typer.Typer(
    help="Read and repair a data directory of rota or Kafka.", no_args_is_help=True, rich_markup_mode=None
)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory; it is not changed.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


class Line(NamedTuple):
    """One record of `__consumer_offsets`."""

    partition: int
    offset: int
    timestamp_ms: int
    epoch: int
    record: _rota.Record | ConsumerGroupRecord

    def fields(self) -> dict[str, Any]:
        """As JSON has it; bytes are hexadecimal."""
        head = {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "epoch": self.epoch,
        }
        return head | _fields(self.record)


def _fields(record: _rota.Record | ConsumerGroupRecord) -> dict[str, Any]:
    match record:
        case ConsumerGroupRecord():
            return record.fields()
        case _rota.OffsetRecord():
            body = {"type": "offset", "group": record.group_id, "topic": record.topic}
            value = record.value
            return body | {
                "topic_partition": record.partition,
                "value": None
                if value is None
                else {
                    "offset": value.offset,
                    "leader_epoch": value.leader_epoch,
                    "metadata": value.metadata,
                    "commit_timestamp_ms": value.commit_timestamp_ms,
                },
            }
        case _rota.GroupRecord():
            group = record.value
            return {
                "type": "group",
                "group": record.group_id,
                "value": None
                if group is None
                else {
                    "protocol_type": group.protocol_type,
                    "generation": group.generation,
                    "protocol_name": group.protocol_name,
                    "leader": group.leader,
                    "members": [
                        {"member_id": member.member_id, "instance_id": member.instance_id} for member in group.members
                    ],
                },
            }
        case _rota.UnknownRecord():
            value_hex = None if record.value is None else record.value.hex()
            return {"type": "other", "key": record.key.hex(), "value": value_hex}


def _text(line: Line) -> str:
    where = f"{line.partition}:{line.offset}"
    if isinstance(line.record, ConsumerGroupRecord):
        return f"{where} consumer group {line.record.text()}"
    fields = line.fields()
    kind, value = fields["type"], fields["value"]
    if kind == "offset":
        what = f"{printable(fields['group'])} {printable(fields['topic'])}-{fields['topic_partition']}"
        return f"{where} offset {what} " + ("deleted" if value is None else f"= {value['offset']}")
    if kind == "group":
        group = printable(fields["group"])
        if value is None:
            return f"{where} group {group} deleted"
        members = len(value["members"])
        return f"{where} group {group} generation {value['generation']}, {counted(members, 'member')}"
    return f"{where} other key {fields['key']}"


def _entry_text(line: journal.Line) -> str:
    """One line: position, time, event, effects."""
    fields = line.fields()
    event, effects = fields["event"], fields["effects"]
    kind, body = (event, "") if isinstance(event, str) else next(iter(event.items()))
    told = f" -> {json.dumps(effects)}" if effects else ""
    at = datetime.fromtimestamp(fields["wall_ms"] / 1000, UTC).isoformat(timespec="milliseconds")
    about = printable(line.group) or "-"
    return f"{line.partition}:{line.offset} {at} {about} {kind} {json.dumps(body) if body else ''}{told}"


def _cannot_open(directory: Path, error: OSError) -> NoReturn:
    existing_directory(directory)
    fail(FAILED if (directory / META_PROPERTIES).exists() else MISUSED, str(error))


def opened(directory: Path) -> _rota.DataLog:
    """Open a data directory; if that fails, end with the reason on stderr: exit code 1 damaged, 2 no data directory."""
    try:
        return _rota.DataLog(directory)
    except OSError as error:
        _cannot_open(directory, error)


def records(log: _rota.DataLog, partition: int, from_offset: int = 0) -> Iterator[Line]:
    """The records of one partition of `__consumer_offsets`. Raises OSError where it is damaged."""
    following = from_offset
    while rows := log.records(OFFSETS_TOPIC, partition, following, RECORDS_AT_ONCE):
        for offset, timestamp_ms, epoch, key, value in rows:
            record = consumer_record(_rota.decode_record(key, value))
            yield Line(partition, offset, timestamp_ms, epoch, record)
        following = rows[-1][0] + 1


class Source(StrEnum):
    """The two logs that a data directory can have."""

    OFFSETS = "offsets"
    JOURNAL = "journal"


class Selection(NamedTuple):
    """What `rota log dump` was asked for."""

    partition: int | None
    group: str | None
    from_offset: int
    to_offset: int | None
    seen: set[str]
    """The groups that `has_group` was asked about, if one is selected."""

    def has_partition(self, index: int) -> bool:
        """Whether this partition is asked for."""
        return self.partition is None or index == self.partition

    def has_group(self, group: str | None) -> bool:
        """Whether records of this group are asked for."""
        if self.group is not None and group:
            self.seen.add(group)
        return self.group is None or group == self.group

    def is_past(self, offset: int) -> bool:
        """Whether everything that is asked for comes before this offset."""
        return self.to_offset is not None and offset > self.to_offset


def _offsets_lines(log: _rota.DataLog, index: int, wanted: Selection, as_json: bool) -> Iterator[str]:
    for line in records(log, index, wanted.from_offset):
        if wanted.is_past(line.offset):
            return
        if wanted.has_group(getattr(line.record, "group_id", None)):
            yield json.dumps(line.fields()) if as_json else _text(line)


def _journal_lines(log: _rota.DataLog, index: int, wanted: Selection, as_json: bool) -> Iterator[str]:
    for entry in journal.entries(log, index, wanted.from_offset):
        if wanted.is_past(entry.offset):
            return
        if wanted.has_group(entry.group):
            yield json.dumps(entry.fields()) if as_json else _entry_text(entry)


FromOffset = Annotated[int, typer.Option("--from-offset", min=0, max=INT64_MAX, metavar="N", help="Start at offset N.")]
ToOffset = Annotated[
    int | None, typer.Option("--to-offset", min=0, max=INT64_MAX, metavar="N", help="Stop after offset N.")
]


@app.command()
def dump(
    directory: Directory,
    partition: Annotated[
        int | None, typer.Option(min=0, max=INT32_MAX, metavar="N", help="Only this partition.")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="Only records of this group.")] = None,
    source: Annotated[
        Source | None, typer.Option(help="Only the records of __consumer_offsets, or only the journal.")
    ] = None,
    from_offset: FromOffset = 0,
    to_offset: ToOffset = None,
    as_json: AsJson = False,
) -> None:
    """Print the records of __consumer_offsets and the entries of the journal, in order, partition by partition. A
    server may write to the directory at the same time. Records that only the write-ahead file has are included.
    Exit code 1: a file is damaged; the rest was printed. 2: DIR is not a data directory. 3: no such partition or
    group.

    \b
    Examples:
      rota log dump data
      rota log dump data --group payments --json
      rota log dump data --source journal --partition 7 --from-offset 120 --to-offset 140
    """
    wanted = Selection(partition, group, from_offset, to_offset, set())
    if wanted.is_past(from_offset):
        fail(MISUSED, f"--to-offset is `{to_offset}`, below --from-offset, `{from_offset}`")
    printed = []
    data = opened(directory)
    if source is not Source.JOURNAL:
        there = [index for topic, index, _, _ in data.partitions() if topic == OFFSETS_TOPIC]
        printed += [(OFFSETS_TOPIC, data, index, _offsets_lines) for index in there]
    where = journal.journal_in(directory)
    if source is Source.JOURNAL and where is None:
        fail(NOT_FOUND, f"`{directory}` has no journal: `rota serve --journal` writes one")
    if source is not Source.OFFSETS and where is not None:
        noted = data if where == directory else opened(where)
        printed += [(journal.JOURNAL_TOPIC, noted, index, _journal_lines) for index in journal.partitions(noted)]
    chosen = [one for one in printed if wanted.has_partition(one[2])]
    if partition is not None and not chosen:
        fail(NOT_FOUND, f"`{directory}` has no partition {partition} of {_topics(source)}")
    damaged = False
    for topic, log, index, lines in chosen:
        found = iter(lines(log, index, wanted, as_json))
        while True:
            # Of reading only: what stdout does not take is no damage.
            try:
                line = next(found, None)
            except (OSError, ValueError, _rota.RecordError) as error:
                damaged = True
                complain(f"partition {index} of {topic}: {error}")
                break
            if line is None:
                break
            typer.echo(line)
    if damaged:
        raise typer.Exit(FAILED)
    if group is not None and group not in wanted.seen:
        fail(NOT_FOUND, f"no record that was read is of group `{group}`; {instead_of(group, wanted.seen)}")


def _topics(source: Source | None) -> str:
    topics = {Source.OFFSETS: OFFSETS_TOPIC, Source.JOURNAL: journal.JOURNAL_TOPIC}
    return " or ".join(topics.values()) if source is None else topics[source]


@app.command()
def verify(directory: Directory, as_json: AsJson = False) -> None:
    """Check every batch of every partition. A server may write to the directory at the same time. Records that only
    the write-ahead file has are included. A torn tail, which the next start cuts off, is not damage. Exit code 0: no
    damage. 1: damage. 2: DIR is not a data directory.

    \b
    Example:
      rota log verify data
    """
    log = opened(directory)
    damage = log.damage()
    batches = size_bytes = 0
    for topic, index, _, _ in log.partitions():
        try:
            part_bytes, part_batches = log.verify(topic, index)
            batches, size_bytes = batches + part_batches, size_bytes + part_bytes
            if topic == OFFSETS_TOPIC:
                for _ in records(log, index):
                    pass
        except (OSError, _rota.RecordError) as error:
            if str(error) not in damage:
                damage.append(f"partition {index} of {topic}: {error}")
    found = {"partitions": len(log.partitions()), "batches": batches, "bytes": size_bytes}
    if as_json:
        typer.echo(json.dumps(found | {"notes": log.notes(), "damage": damage}))
    else:
        there = (counted(found["partitions"], "partition"), counted(batches, "batch", "batches"))
        typer.echo(f"{', '.join(there)}, {counted(size_bytes, 'byte')}")
        for line in [*log.notes(), *damage]:
            typer.echo(printable(line))
    if damage:
        raise typer.Exit(FAILED)


Repaired = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory; no server may have it open.")]


@app.command()
def recover(
    directory: Repaired,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Continue without the contents of a damaged shared file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")] = False,
) -> None:
    """Recover a data directory as a start does: complete segments from the write-ahead files, cut torn tails.

    If `rota.checkpoint` or a write-ahead file is damaged or missing, a server and this command refuse to continue.
    With --give-up they keep the whole batches of the segments and of the write-ahead files. Exit code 1: some files are
    still damaged; stderr says what to do.

    \b
    Examples:
      rota log recover data
      rota log recover data --give-up
    """
    try:
        lines, damage = _rota.recover_log(directory, give_up)
    except OSError as error:
        _cannot_open(directory, error)
    if as_json:
        typer.echo(json.dumps({"notes": lines, "damage": damage}, indent=2))
    else:
        typer.echo("\n".join(lines or ["nothing had to be completed or cut"]))
    if damage:
        typer.echo(f"rota: {len(damage)} partitions are damaged: `rota log repair {directory}`", err=True)
        raise typer.Exit(FAILED)


@app.command()
def repair(directory: Repaired, as_json: AsJson = False) -> None:
    """Remove unreadable bytes from every partition. Whole batches before and after keep their offsets. The removed
    bytes stay in `.damaged` files. A removed record may have been acknowledged: if you have a copy of the partition's
    directory, restore that instead. Exit code 0: no damage remains.

    \b
    Examples:
      rota log repair data
      rota log repair data --json
    """
    try:
        repaired = _rota.repair_log(directory)
    except OSError as error:
        _cannot_open(directory, error)
    for topic, partition, losses, completed, kept in repaired:
        if as_json:
            names = ("file", "position", "bytes", "from_offset", "to_offset", "reason")
            told = [dict(zip(names, (str(loss[0]), *loss[1:]), strict=True)) for loss in losses]
            fields = {"topic": topic, "partition": partition, "losses": told, "completed_batches": completed}
            typer.echo(json.dumps(fields | {"kept": [str(path) for path in kept]}))
            continue
        for file, position, size_bytes, from_offset, to_offset, reason in losses:
            where = f"`{file}`, {size_bytes} bytes from byte {position} on"
            typer.echo(f"{topic}-{partition}: offsets {from_offset} to {to_offset - 1} are given up: {where}: {reason}")
        if completed:
            typer.echo(f"{topic}-{partition}: {completed} batches came from the write-ahead files")
        for path in kept:
            typer.echo(f"{topic}-{partition}: what was there is in `{path}`")
    if not repaired and not as_json:
        typer.echo("nothing is damaged")


@app.command()
def replay(directory: Directory, as_json: AsJson = False) -> None:
    """Replay a journal through new coordinators, and compare every answer and digest.

    Exit code 0: no difference. 1: differences; prints the first of each partition with its place, event and both
    answers. Entries that the journal marks as lost are counted; they are not a difference.

    \b
    Examples:
      rota log replay data
      rota log replay data --json
    """
    existing_directory(directory)
    try:
        found = journal.replay(directory)
    except FileNotFoundError as error:
        fail(NOT_FOUND, str(error))
    except OSError as error:
        _cannot_open(journal.journal_in(directory) or directory, error)
    for part in found:
        if as_json:
            difference = None if part.difference is None else part.difference._asdict()
            typer.echo(json.dumps(part._asdict() | {"difference": difference}))
        elif part.difference is not None:
            where = f"partition {part.partition}, offset {part.difference.offset}, entry {part.difference.sequence}"
            typer.echo(f"{where}: the {part.difference.what} differ")
            for name in ("event", "journal", "replayed"):
                typer.echo(f"  {name:<8} {getattr(part.difference, name)}")
        elif part.damage is not None:
            typer.echo(f"partition {part.partition}: {part.damage}")
    if not as_json:
        typer.echo(_sum(found))
    if not all(part.is_well for part in found):
        raise typer.Exit(FAILED)


def _sum(found: list[journal.PartitionReplay]) -> str:
    compared, snapshots = sum(part.compared for part in found), sum(part.snapshots for part in found)
    missing, unchecked = sum(part.missing for part in found), sum(part.unchecked for part in found)
    differences = sum(part.difference is not None for part in found)
    line = f"{compared} events and {snapshots} states compared, {differences} differences"
    return line + (f"; {missing} entries missing, {unchecked} unchecked" if missing or unchecked else "")
