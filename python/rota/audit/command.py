"""`rota audit`. Exit codes: 0 clean, 1 something that must not be, 2 unreadable input or called wrongly."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from rota.audit.matrix import UNKNOWN
from rota.exits import MISUSED, NOT_FOUND, complain, existing_directory, fail
from rota.progress import Lines
from rota.why.words import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rota.audit.audit import Audit, Unreadable, Wanted
    from rota.audit.logs import Part
    from rota.audit.verdict import Verdict

VERDICTS_SHOWN = 100
WITNESS_LINES, WITNESS_WIDTH = 6, 200
MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...", help="Data directories of rota or Kafka, journals, or directories of partitions."
    ),
]
GroupRegex = Annotated[str | None, typer.Option("--group", metavar="REGEX", help="Only groups whose id matches REGEX.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only verdicts from TIME on, such as 2026-01-31T13:30:20, UTC.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only verdicts up to TIME.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write the tables to DIR, as Parquet.")]
Report = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.")]
Master = Annotated[str, typer.Option(metavar="URL", help="URL of the Spark cluster.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; with --follow one per verdict.")]
Follow = Annotated[bool, typer.Option("--follow", help="Audit new records as the logs grow, until Ctrl-C.")]
Once = Annotated[bool, typer.Option("--once", help="With --follow: stop at the current end of the logs.")]
Progress = Annotated[bool, typer.Option("--progress", help="Print the steps on stderr even if it is not a terminal.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print what Spark and Java write on stderr.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="With --follow: directory for its progress (default OUTPUT/checkpoint)."),
]


def instant_ms(option: str, text: str) -> int:
    """An ISO time, UTC unless it says otherwise, in milliseconds since the Unix epoch."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        fail(MISUSED, f"{option} is `{text}`: give a time such as 2026-01-31T13:30:20")
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def shown_time(at_ms: int | None) -> str:
    """An instant for people; "" if it is not known."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def span_of(group: str | None, since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The time that is asked about; ends the command if it or the pattern of groups makes no sense."""
    if group is not None:
        try:
            re.compile(group)
        except re.error as error:
            fail(MISUSED, f"--group is `{group}`: not a regular expression: {error}")
    since_ms = None if since is None else instant_ms("--since", since)
    until_ms = None if until is None else instant_ms("--until", until)
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        fail(MISUSED, f"--since is `{since}`, later than --until, `{until}`")
    return since_ms, until_ms


def wanted_of(
    paths: list[Path], group: str | None, since: str | None, until: str | None, output: Path, keeps_tables: bool
) -> Wanted:
    """What the options ask for; ends the command if they make no sense."""
    from rota.audit.audit import Wanted

    since_ms, until_ms = span_of(group, since, until)
    return Wanted([path.absolute() for path in paths], group, since_ms, until_ms, output.absolute(), keeps_tables)


def checked_path(text: str) -> Path:
    """The directory at a path, which has logs in it; ends the command with the reason if it has none."""
    from rota.audit import logs

    path = Path(text)
    if URL.match(text):
        fail(MISUSED, f"`{text}` is a URL: give a local directory; copy or mount the log first")
    if not path.exists():
        fail(MISUSED, f"`{text}`: there is no such directory")
    if not path.is_dir():
        fail(MISUSED, f"`{text}` is a file: give a data directory, a journal or the directory of a partition")
    reason = logs.nothing_in(path)
    if reason is not None:
        fail(MISUSED, reason)
    return path


def is_pattern(spark: SparkSession, group: str) -> bool:
    """Whether Spark accepts the regular expression. Spark uses Java's, which lack some of Python's features."""
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import lit

    try:
        spark.range(1).where(lit("").rlike(group)).collect()
    except PySparkException:
        return False
    return True


def told(verdict: Verdict) -> str:
    """A verdict in a few lines."""
    where = f"partition {verdict.partition}, offsets {verdict.first_offset} to {verdict.last_offset}"
    group = "" if verdict.group is None else f" group {verdict.group}"
    generation = "" if verdict.generation is None else f" generation {verdict.generation}"
    members = f" ({', '.join(verdict.members)})" if verdict.members else ""
    head = f"{verdict.severity} {verdict.id or '-'} {verdict.name}:{group}{generation}{members}, {where}"
    lines = verdict.witness.splitlines()
    lines = [line if len(line) <= WITNESS_WIDTH else f"{line[:WITNESS_WIDTH]} …" for line in lines[:WITNESS_LINES]]
    lines += [f"also in the log of groups: {verdict.also}"] if verdict.also else []
    return "\n  ".join([head, *lines, verdict.reproduce])


def told_trouble(trouble: Unreadable) -> str:
    """What could not be read, in a line."""
    return f"{trouble.kind}: {trouble.log}, partition {trouble.partition}, offset {trouble.offset}: {trouble.reason}"


def summary(found: Audit) -> list[str]:
    """The audit in some lines."""
    lines = [told(verdict) for verdict in found.verdicts[:VERDICTS_SHOWN]]
    if len(found.verdicts) > VERDICTS_SHOWN:
        lines.append(f"... and {len(found.verdicts) - VERDICTS_SHOWN} more")
    lines += [told_trouble(trouble) for trouble in found.unreadable]
    lines += [
        f"not folded: {fold.log}, partition {fold.partition}: {fold.damage}"
        for fold in found.folds
        if fold.damage is not None
    ]
    compared, snapshots = sum(fold.compared for fold in found.folds), sum(fold.snapshots for fold in found.folds)
    events, answers = sum(each.events for each in found.opinions), sum(each.answers for each in found.opinions)
    audited = f"{counted(found.rows, 'row')} read, {counted(found.groups, 'group')} audited"
    folded = f"{counted(compared, 'event')} and {counted(snapshots, 'whole state')} folded again"
    lines.append(f"{audited}; {folded}")
    if events:
        lines.append(f"the model was asked {counted(events, 'event')}; {counted(answers, 'answer')} compared")
    lines.append(findings(found))
    invariants = {line.id for line in found.coverage}
    decided = {line.id for line in found.coverage if line.decided != UNKNOWN}
    if invariants:
        unknown = len(invariants - decided)
        lines.append(f"{len(decided)} of {counted(len(invariants), 'invariant')} decided, {unknown} unknown")
    return lines


def findings(found: Audit) -> str:
    """`1 violation, 0 observations`."""
    return f"{counted(len(found.violations), 'violation')}, {counted(len(found.observations), 'observation')}"


def as_json(found: Audit) -> str:
    """The audit as one JSON object."""
    body = {
        "rows": found.rows,
        "groups": found.groups,
        "verdicts": [verdict._asdict() for verdict in found.verdicts],
        "unreadable": [trouble._asdict() for trouble in found.unreadable],
        "folds": [fold._asdict() for fold in found.folds],
        "opinions": [each._asdict() for each in found.opinions],
        "coverage": [line._asdict() for line in found.coverage],
        "exit_code": found.exit_code,
    }
    return json.dumps(body)


def audit(
    paths: Paths,
    group: GroupRegex = None,
    since: Since = None,
    until: Until = None,
    output: Output = None,
    report: Report = None,
    master: Master = "local[*]",
    as_json_: AsJson = False,
    follow: Follow = False,
    once: Once = False,
    checkpoint: Checkpoint = None,
    shows_progress: Progress = False,
    verbose: Verbose = False,
) -> None:
    """Check logs of groups against the invariants: journals, and __consumer_offsets of rota or Kafka.

    Exit code 0: no violation. 1: violations were found. 2: something could not be read; the rest was audited. 3: no
    group matches --group.
    Needs Java 17 and `pip install 'rota[audit]'`. SPARK_DRIVER_MEMORY=4g sets the size of its heap.

    \b
    Examples:
      rota audit data
      rota audit data --group 'pay.*' --json
      rota audit /var/lib/kafka/data --output tables --report report.html
      rota audit data --follow --checkpoint seen
    """
    if not follow and (once or checkpoint is not None):
        fail(MISUSED, "--once and --checkpoint need --follow")
    if follow and report is not None:
        fail(MISUSED, "--report needs an end: leave out --follow")
    from rota.audit import session

    span_of(group, since, until)
    check_targets(master, output, report)
    directories = [checked_path(path) for path in paths]
    try:
        session.check_installed(follow)
    except session.MissingError as missing:
        fail(MISUSED, str(missing))
    from rota.audit.audit import nothing_of
    from rota.audit.logs import parts_of

    if follow:
        from rota.audit.follow.command import follow as run_on

        wanted = wanted_of(directories, group, since, until, output or Path(), False)
        raise typer.Exit(run_on(wanted, master, checkpoint, output, as_json_, once, verbose))
    with tempfile.TemporaryDirectory(prefix="rota-audit-") as scratch:
        keeps_tables = output is not None or report is not None
        wanted = wanted_of(directories, group, since, until, output or Path(scratch), keeps_tables)
        parts = parts_of(wanted.paths)
        if parts and all(part.trouble for part in parts):
            _end(nothing_of(parts), as_json_)  # Spark takes long to say the same
        records = sum(part.records for part in parts)
        with (
            _progress(shows_all=shows_progress or sys.stderr.isatty()) as progress,
            session.started(master, records, is_quiet=not verbose) as spark,
        ):
            found = _found(spark, wanted, parts, report, progress)
    _end(found, as_json_)


@contextmanager
def _progress(*, shows_all: bool) -> Iterator[Callable[[str], None]]:
    """Print each step, or now and then the one that runs. The first step begins here."""
    first = "starting Spark"
    if shows_all:
        complain(first)
        yield lambda step: complain(step) if step else None
        return
    with Lines() as say:
        say(first)
        yield say


def _found(
    spark: SparkSession, wanted: Wanted, parts: list[Part], report: Path | None, progress: Callable[[str], None]
) -> Audit:
    """Audit the parts, and write the report. Ends with exit code 3 if no group matches."""
    from rota.audit import audit as auditing
    from rota.audit.report import write as write_report

    if wanted.group is not None and not is_pattern(spark, wanted.group):
        progress("")
        fail(MISUSED, f"--group is `{wanted.group}`: Java's regular expressions have no such thing")
    try:
        found = auditing.audit(spark, wanted, parts, progress)
    except auditing.NoGroupError as error:
        progress("")
        fail(NOT_FOUND, str(error))
    if report is not None:
        write_report(spark, found, report)
    return found


def check_targets(master: str, output: Path | None, report: Path | None) -> None:
    """Refuse, before Spark starts, what it could not use. Ends with exit code 2."""
    if not MASTER.fullmatch(master):
        fail(MISUSED, f"--master is `{master}`: give local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT")
    if report is not None:
        existing_directory(report.absolute().parent, "the directory of --report")
        if report.is_dir():
            fail(MISUSED, f"--report is `{report}`: it is a directory, give a file")
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(MISUSED, f"--output is `{output}`: {error.strerror}; give a directory that can be written")


def _end(found: Audit, as_json_: bool) -> NoReturn:
    if as_json_:
        typer.echo(as_json(found))
    else:
        for line in summary(found):
            typer.echo(line)
    raise typer.Exit(found.exit_code)
