"""`rota state` and `rota why --from`: a group as it was, told from logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rota.audit import past
from rota.audit.command import instant_ms, parsed_ms, shown_time
from rota.audit.logs import nothing_in
from rota.exits import FAILED, MISUSED, NOT_FOUND, existing_directory, fail, no_directory
from rota.journal import journal_in
from rota.log import META_PROPERTIES
from rota.why import explained
from rota.why.ending import end, misused
from rota.why.words import printable

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")]
Directory = Annotated[Path, typer.Option("--from", metavar="DIR", help="A data directory or a journal.")]
At = Annotated[
    str | None, typer.Option(metavar="TIME", help="The time, such as 2026-01-31T13:30:20, UTC (default: the end).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


def _asked(at: str | None) -> int | None:
    return None if at is None else instant_ms("--at", at)


def why_then(group: str, directory: Path, at: str | None, as_json: bool) -> None:
    """Say why a group was where it was, from its journal."""
    if wrong := no_directory(directory, "--from"):
        misused(wrong, as_json=as_json)
    try:
        asked = None if at is None else parsed_ms(at)
    except ValueError as error:
        misused(f"--at is `{at}`: {error}", as_json=as_json)
    try:
        then = past.moment(directory, group, asked)
    except past.NotInJournalError as error:
        end(NOT_FOUND, "NoSuchGroup", str(error), as_json=as_json)
    except past.UnknownPastError as error:
        end(NOT_FOUND, "NoJournal", str(error), as_json=as_json)
    except OSError as error:
        end(FAILED, "Damaged", str(error), as_json=as_json)
    explanation = then.coordinator.explain(group, then.mono_ms)
    if explanation is None:
        gone = f"group `{group}` was not there at {shown_time(then.at_ms)}"
        end(NOT_FOUND, "NoSuchGroup", gone, as_json=as_json)
    facts = explained.group_facts(explanation)
    if as_json:
        typer.echo(json.dumps({"group": group, "sentence": str(explanation)} | _where(then) | facts))
        return
    typer.echo(f"{shown_time(then.at_ms)} {printable(group)}: {explanation}")
    for note in _note(then).values():
        typer.echo(f"  {note}")
    for rebalance in reversed(explanation.rebalances):
        began = shown_time(then.at_ms - (then.mono_ms - rebalance.began_ms))
        typer.echo(f"  {began} {explained.of_rebalance(rebalance)}")


def _note(then: past.Moment) -> dict[str, object]:
    """That a moment is earlier than what was asked about, if it is."""
    if then.ending is None:
        return {}
    return {"note": f"{then.ending.format(shown_time(then.at_ms))}: this is the state at that time"}


def _where(then: past.Moment) -> dict[str, object]:
    where: dict[str, object] = {"at": shown_time(then.at_ms), "partition": then.partition, "offset": then.offset}
    return where | _note(then)


def state(group: Group, directory: Directory, at: At = None, as_json: AsJson = False) -> None:
    """Print the past state of a group: its whole state from a journal, its durable state from __consumer_offsets.

    Exit code 0: the state was printed. 1: a log is damaged. 2: usage error, or DIR has no logs. 3: the logs have no
    such group at that time.

    \b
    Examples:
      rota state orders --from data --at 2026-01-31T13:30:20
      rota state orders --from /var/lib/kafka/data --json
    """
    existing_directory(directory, "--from")
    instant = _asked(at)
    # A data directory has no logs before its first group.
    if not (directory / META_PROPERTIES).exists() and (reason := nothing_in(directory)):
        fail(MISUSED, reason)
    try:
        told = _told(group, directory, instant)
    except past.UnknownPastError as error:
        fail(NOT_FOUND, str(error))
    except OSError as error:
        fail(FAILED, str(error))
    typer.echo(json.dumps(told, indent=None if as_json else 2))


def _told(group: str, directory: Path, instant: int | None) -> dict[str, object]:
    if not journal_in(directory):
        return _recorded(group, directory, instant)
    try:
        then = past.moment(directory, group, instant)
    except past.UnknownPastError as unknown:
        try:
            return _recorded(group, directory, instant)
        except past.UnknownPastError:
            raise unknown from None
    return _of_journal(group, then)


def _of_journal(group: str, then: past.Moment) -> dict[str, object]:
    consumer_group = then.coordinator.view_consumer_group(group)
    projection = then.coordinator.project(group) if consumer_group is None else consumer_group
    if projection is None:
        raise past.UnknownPastError(f"group `{group}` was not there at {shown_time(then.at_ms)}")
    where = _where(then) | {"mono_ms": then.mono_ms}
    explanation = then.coordinator.explain(group, then.mono_ms)
    if consumer_group is None or explanation is None:
        return where | {"group": past.as_json(projection)}
    known = {"state": explanation.state, "epoch": explanation.generation, "target_epoch": explanation.target_epoch}
    return where | {"group": known | past.as_json(projection)}


def _recorded(group: str, directory: Path, instant: int | None) -> dict[str, object]:
    found = past.recorded(directory, group, instant)
    where = {"at": shown_time(found.timestamp_ms), "partition": found.partition, "offset": found.offset}
    return where | {"group": found.value, "offsets": found.offsets}
