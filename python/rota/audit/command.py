"""`rota audit`. Exit codes: 0 clean, 1 something that must not be, 2 unreadable input or called wrongly."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from rota.audit.hadoop import is_url
from rota.audit.matrix import UNKNOWN
from rota.audit.stores import Format, StoreError, check_place
from rota.exits import MISUSED, NOT_FOUND, complain, fail, file_to_write, not_written, reason_of
from rota.progress import Lines
from rota.why.words import counted, printable

if TYPE_CHECKING:
    from rota.audit.audit import Audit, Unreadable, Wanted
    from rota.audit.verdict import Verdict

VERDICTS_SHOWN = 100
WITNESS_LINES, WITNESS_WIDTH = 6, 200
SKIPPED = {"share group": "share groups", "streams group": "streams groups", "unknown": "unknown types"}


class EngineName(StrEnum):
    """Where the logs are checked."""

    auto = "auto"
    local = "local"
    spark = "spark"


class FailOn(StrEnum):
    """From which severity on the exit code is 1."""

    violation = "violation"
    observation = "observation"
    nothing = "nothing"


Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH...",
        show_default=False,
        help="Data directories of rota or Kafka, journals, or directories of partitions, also as URLs such as s3a://.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Read __consumer_offsets of a Kafka cluster instead, also with --follow (needs the extra `groups`).",
    ),
]
CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --bootstrap-server: a properties file of Kafka clients.")
]
GroupRegex = Annotated[str | None, typer.Option("--group", metavar="REGEX", help="Only groups whose id matches REGEX.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only verdicts from TIME on, such as 2026-01-31T13:30:20, UTC.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only verdicts up to TIME.")]
Output = Annotated[
    str | None, typer.Option(metavar="DIR", help="Write the tables to DIR, which may be a URL; with --follow append.")
]
TableFormat = Annotated[
    Format | None,
    typer.Option("--format", help="What the tables are: Parquet (default), or those of Delta Lake or Apache Iceberg."),
]
Report = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.")]
Engine = Annotated[
    EngineName,
    typer.Option(
        help="Where to check: in this process, or on Spark; auto takes Spark for what needs it, such as URLs."
    ),
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="URL of the Spark cluster (default local[*], on this machine).")
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark, or one of Hadoop such as fs.s3a.endpoint."),
]
Packages = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Maven packages that Spark loads, with commas between: GROUP:ARTIFACT:VERSION."),
]
FailOnLevel = Annotated[FailOn, typer.Option("--fail-on", help="From which severity on the exit code is 1.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the verdicts as JUnit XML.")]
Metrics = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write counts for the textfile collector of Prometheus.")
]
Github = Annotated[bool, typer.Option("--github", help="Print verdicts as annotations of GitHub Actions, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; with --follow one per verdict.")]
Follow = Annotated[bool, typer.Option("--follow", help="Audit new records as they come, until Ctrl-C.")]
Once = Annotated[bool, typer.Option("--once", help="With --follow: stop at the current end of the logs.")]
Progress = Annotated[bool, typer.Option("--progress", help="Print the steps on stderr even if it is not a terminal.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print what Spark and Java write on stderr.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="With --follow: directory or URL for its progress (default OUTPUT/checkpoint)."),
]


def parsed_ms(text: str) -> int:
    """An ISO time, UTC unless it says otherwise, in milliseconds since the Unix epoch. Raises ValueError, which says
    what to give instead."""
    try:
        at = datetime.fromisoformat(text)
        at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("give a time such as 2026-01-31T13:30:20") from None
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def instant_ms(option: str, text: str) -> int:
    """Like `parsed_ms`, of an option; ends the command if it is no time."""
    try:
        return parsed_ms(text)
    except ValueError as error:
        fail(MISUSED, f"{option} is `{text}`: {error}")


def shown_time(at_ms: int | None) -> str:
    """An instant for people; "" if it is not known. What no calendar has, such as 2**62, stays milliseconds."""
    if at_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


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


def checked_paths(
    texts: list[str], follow: bool, bootstrap_server: str | None, command_config: Path | None
) -> tuple[list[Path], list[str]]:
    """The directories, which have logs in them, and the URLs; ends the command with the reason if it has to."""
    if command_config is not None and bootstrap_server is None:
        fail(MISUSED, "--command-config needs --bootstrap-server: it says how to connect to a broker")
    if bool(texts) == (bootstrap_server is not None):
        fail(MISUSED, "give PATH..., or --bootstrap-server" if not texts else "--bootstrap-server takes no PATH")
    urls = [text for text in texts if is_url(text)]
    if urls and len(urls) < len(texts):
        fail(MISUSED, f"`{urls[0]}` is a URL, others are not: give only URLs, such as file:// for a local directory")
    if urls and follow:
        fail(MISUSED, f"`{urls[0]}` is a URL: --follow reads local directories, or a broker with --bootstrap-server")
    return [] if urls else [checked_path(text) for text in texts], urls


def checked_path(text: str) -> Path:
    """The directory at a path, which has logs in it; ends the command with the reason if it has none."""
    from rota.audit import logs

    path = Path(text)
    try:
        if not path.exists():
            fail(MISUSED, f"`{text}`: there is no such directory")
        if not path.is_dir():
            fail(MISUSED, f"`{text}` is a file: give a data directory, a journal or the directory of a partition")
        reason = logs.nothing_in(path)
    except OSError as error:
        fail(MISUSED, f"`{text}` cannot be read: {error.strerror}")
    if reason is not None:
        fail(MISUSED, reason)
    return path.absolute()


def told(verdict: Verdict) -> str:
    """A verdict in a few lines, without what would move a terminal's cursor."""
    where = f"partition {verdict.partition}, offsets {verdict.first_offset} to {verdict.last_offset}"
    group = "" if verdict.group is None else f" group {verdict.group}"
    generation = "" if verdict.generation is None else f" generation {verdict.generation}"
    members = f" ({', '.join(verdict.members)})" if verdict.members else ""
    head = f"{verdict.severity} {verdict.id or '-'} {verdict.name}:{group}{generation}{members}, {where}"
    lines = verdict.witness.splitlines()
    lines = [line if len(line) <= WITNESS_WIDTH else f"{line[:WITNESS_WIDTH]} …" for line in lines[:WITNESS_LINES]]
    lines += [f"also in the log of groups: {verdict.also}"] if verdict.also else []
    return "\n  ".join(map(printable, [head, *lines, verdict.reproduce]))


def told_trouble(trouble: Unreadable) -> str:
    """What could not be read, in a line."""
    where = f"{trouble.log}, partition {trouble.partition}, offset {trouble.offset}"
    return printable(f"{trouble.kind}: {where}: {trouble.reason}")


def summary(found: Audit) -> list[str]:
    """The audit in some lines."""
    lines = [told(verdict) for verdict in found.verdicts[:VERDICTS_SHOWN]]
    if len(found.verdicts) > VERDICTS_SHOWN:
        lines.append(f"... and {len(found.verdicts) - VERDICTS_SHOWN} more")
    lines += [told_trouble(trouble) for trouble in found.unreadable]
    lines += [
        printable(f"not folded: {fold.log}, partition {fold.partition}: {fold.damage}")
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
    lines += skipped(found)
    lines.append(findings(found))
    invariants = {line.id for line in found.coverage}
    decided = {line.id for line in found.coverage if line.decided != UNKNOWN}
    if invariants:
        unknown = len(invariants - decided)
        lines.append(f"{len(decided)} of {counted(len(invariants), 'invariant')} decided, {unknown} unknown")
    return lines


def skipped(found: Audit) -> list[str]:
    """A line with the records that nothing is checked of, if there are any."""
    told = [f"{counted(count, 'record')} of {SKIPPED[about]}" for about, count in sorted(found.skipped.items())]
    return [f"not checked: {', '.join(told)}"] if told else []


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
        "skipped": dict(sorted(found.skipped.items())),
        "exit_code": found.exit_code,
    }
    return json.dumps(body)


def audit(
    paths: Paths = None,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    group: GroupRegex = None,
    since: Since = None,
    until: Until = None,
    engine: Engine = EngineName.auto,
    output: Output = None,
    format_: TableFormat = None,
    report: Report = None,
    junit: Junit = None,
    metrics: Metrics = None,
    github: Github = False,
    fail_on: FailOnLevel = FailOn.violation,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    as_json_: AsJson = False,
    follow: Follow = False,
    once: Once = False,
    checkpoint: Checkpoint = None,
    shows_progress: Progress = False,
    verbose: Verbose = False,
) -> None:
    """Check logs of groups against the invariants: journals, and __consumer_offsets of rota or Kafka.

    Exit code 0: no violation. 1: violations were found. 2: something could not be read or written; the rest was
    audited. 3: no group matches --group. 5: no broker answered.
    URLs, tables, a report and --follow need Java 17 and `pip install '.[audit]'`. SPARK_DRIVER_MEMORY=4g: its heap.

    \b
    Examples:
      rota audit data
      rota audit data --group 'pay.*' --json
      rota audit /var/lib/kafka/data --output tables --report report.html
      rota audit s3a://bucket/data --packages org.apache.hadoop:hadoop-aws:3.5.0
      rota audit data --output tables --format delta --packages io.delta:delta-spark_4.2_2.13:4.4.0
      rota audit data --junit audit.xml --fail-on observation
      rota audit data --follow --checkpoint seen
      rota audit --bootstrap-server localhost:9092
      rota audit --bootstrap-server localhost:9092 --follow --checkpoint seen
    """
    from rota.audit import on_spark
    from rota.audit.audit import Wanted

    kept_as = on_spark.combined(follow, once, checkpoint, report, junit or metrics or github, format_, output)
    span = span_of(group, since, until)
    where = on_spark.where(master, conf or [], packages, kept_as)
    needs = on_spark.needed(where, engine, {"--output": output, "--report": report, "--follow": follow}, paths or [])
    check_targets(output, report, junit, metrics, follow, kept_as)
    directories, urls = checked_paths(paths or [], follow, bootstrap_server, command_config)
    on_spark.check_usable(needs, follow, bootstrap_server)
    wanted = Wanted(directories, group, *span)
    if follow:
        from rota.audit.follow import command as following

        live = None if bootstrap_server is None else following.From(bootstrap_server, command_config)
        ways = (as_json_, once, verbose, fail_on.value, live, kept_as)
        raise typer.Exit(following.follow(wanted, where, checkpoint, output, *ways))
    shows = shows_progress or sys.stderr.isatty()
    if bootstrap_server is not None:
        found = _live(bootstrap_server, command_config, wanted, shows)
    elif needs:
        found = on_spark.audited(wanted, urls, where, output, report, shows, verbose, kept_as)
    else:
        found = _here(wanted, shows)
    found.fail_on = fail_on.value
    _end(found, junit, metrics, github, as_json_)


@contextmanager
def progress_on_stderr(first: str, *, shows_all: bool) -> Iterator[Callable[[str], None]]:
    """Print each step, or now and then the one that runs. The first step begins here."""
    from rota.audit.session import is_submitted

    if is_submitted() and not shows_all:
        yield lambda _: None  # spark-submit puts stderr into stdout
        return
    if shows_all:
        complain(first)
        yield lambda step: complain(step) if step else None
        return
    with Lines() as say:
        say(first)
        yield say


def _here(wanted: Wanted, shows_progress: bool) -> Audit:
    """Audit the logs in this process. Ends with exit code 3 if no group matches."""
    from rota.audit import audit as auditing
    from rota.audit.engines import local
    from rota.audit.logs import parts_of

    parts = parts_of(wanted.paths)
    if parts and all(part.trouble for part in parts):
        return auditing.nothing_of(parts)
    with progress_on_stderr("reading the logs", shows_all=shows_progress) as progress, ending(progress):
        return auditing.audit(wanted, parts, local, progress)


@contextmanager
def ending(progress: Callable[[str], None]) -> Iterator[None]:
    """End with exit code 3 if no group matches, with 2 if logs cannot be read or tables not be kept."""
    from rota.audit.audit import NoGroupError

    try:
        yield
    except OSError as error:
        progress("")
        fail(MISUSED, reason_of(error))
    except (NoGroupError, StoreError) as error:
        progress("")
        fail(NOT_FOUND if isinstance(error, NoGroupError) else MISUSED, str(error))


def _live(bootstrap_server: str, command_config: Path | None, wanted: Wanted, shows_progress: bool) -> Audit:
    """Audit the group records of a cluster. Ends with exit code 2 if they cannot be read, 3 if no group matches, 5 if
    no broker answers."""
    from rota.audit import live
    from rota.groups import options

    with (
        progress_on_stderr(f"connecting to {bootstrap_server}", shows_all=shows_progress) as progress,
        live.ending(),
        options.connected(bootstrap_server, command_config, None, options.TIMEOUT_MS) as cluster,
        ending(progress),
    ):
        return live.audit_broker(cluster, bootstrap_server, wanted, progress)


def _end(found: Audit, junit: Path | None, metrics: Path | None, github: bool, as_json_: bool) -> NoReturn:
    """Print, then write the files: a disk that is full hides no verdict."""
    from rota.audit import machines

    _print(found, github, as_json_)
    writers = {"--junit": (junit, machines.write_junit), "--metrics": (metrics, machines.write_metrics)}
    for option, (file, write) in writers.items():
        if file is not None:
            try:
                write(found, file)
            except OSError as error:
                not_written(file, option, error)
    if found.not_written:
        fail(MISUSED, found.not_written)
    raise typer.Exit(found.exit_code)


def check_targets(
    output: str | None, report: Path | None, junit: Path | None, metrics: Path | None, follow: bool, kept_as: Format
) -> None:
    """Refuse, before anything is read, what could not be used. Ends with exit code 2."""
    for option, file in (("--report", report), ("--junit", junit), ("--metrics", metrics)):
        if file is None:
            continue
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(file)):
            fail(MISUSED, f"{option} is `{file}`: it is written by this machine, give a local file")
        file_to_write(file, option)
    if output is not None and not is_url(output):
        try:
            Path(output).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(MISUSED, f"--output is `{output}`: {error.strerror}; give a directory that can be written")
        if not follow:
            from rota.audit.on_spark import ending_with_reason

            with ending_with_reason():
                check_place(Path(output), kept_as, None)


def _print(found: Audit, github: bool, as_json_: bool) -> None:
    from rota.audit import machines

    # GitHub Actions reads them from stderr, too; stdout is JSON.
    for line in machines.as_annotations(found) if github else ():
        typer.echo(line, err=as_json_)
    if as_json_:
        typer.echo(as_json(found))
        return
    for line in summary(found):
        typer.echo(line)
