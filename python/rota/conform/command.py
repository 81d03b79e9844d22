"""`rota conform`."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

import rota
from rota import interrupts
from rota.addresses import address, split
from rota.client_properties import ClientSecurity, PropertyError
from rota.codec import apis
from rota.conform import report
from rota.conform.broker import CLEANED_SOON_S, CLEANED_WITHIN_S, Broker
from rota.conform.judge import BAD, REFERENCE, Recording, Verdict, dump, load
from rota.conform.rows import Row
from rota.conform.run import (
    DEADLINE_S,
    LONGEST_S,
    STOPPED_WITHIN_S,
    TRIES,
    WORKERS,
    Options,
    Result,
    Run,
    catalogue,
    chosen,
)
from rota.conform.wire import WireError
from rota.exits import FAILED, INTERRUPTED, MISUSED, UNREACHABLE, fail, file_to_write, not_written
from rota.why.words import counted

PROGRESS_S = 2.0
REPORTED_WITHIN_S = 0.3
#: What options take that may be given several times.
PAIRS = {
    "--setting": "NAME=VALUE, such as group.max.size=2",
    "--at-most": "API=VERSION, such as JoinGroup=5",
}


CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A properties file of Kafka clients: TLS, SASL.")
]
AtMost = Annotated[
    list[str] | None,
    typer.Option(
        "--at-most", metavar="API=VERSION", help="Highest version of this API to send, except in rows about versions."
    ),
]


class Kind(NamedTuple):
    """What brokers are set to, the newest versions to ask them in, and how to connect."""

    settings: frozenset[tuple[str, str]]
    at_most: dict[str, int]
    security: ClientSecurity | None


def conform(
    bootstrap_server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The broker to test; it must coordinate all groups.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Only rows with this name; `*` and `?` are wildcards."),
    ] = None,
    list_rows: Annotated[bool, typer.Option("--list", help="List the rows without connecting.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")] = False,
    against: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Compare with this broker instead of Apache Kafka's recorded answers."),
    ] = None,
    command_config: CommandConfig = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Record the broker's answers in FILE, named NAME-VERSION.json.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="Run the rows for brokers with this setting."),
    ] = None,
    at_most: AtMost = None,
    longest: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Skip rows that wait longer than SECONDS.")
    ] = LONGEST_S,
    deadline: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Start no new row after SECONDS.")
    ] = DEADLINE_S,
    jobs: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Run N rows in parallel.")] = WORKERS,
    tries: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Attempts for a row that diverges.")] = TRIES,
) -> None:
    """Compare a broker with Apache Kafka, row by row, over the wire.

    Each row is a scripted session of a consumer group, a cell of state x request x identity, a version, a malformed
    request, an order or a deadline. It is compared with what Apache Kafka 4.4.0 answered. Rows run in parallel, in
    their own groups and topics, which the kit removes at the end. Most rows need an initial rebalance delay of 0.2
    to 1.5 s (group.initial.rebalance.delay.ms); the kit leaves out the others and says so.

    Exit code 0: no divergence, or only explained ones (docs/departures.md). 1: unexplained divergences, no row was
    compared, or the run ended early. 2: usage error. 5: no Kafka broker answered. 130: interrupted, after cleanup.

    \b
    Examples:
      rota conform --bootstrap-server 127.0.0.1:9092
      rota conform --bootstrap-server 127.0.0.1:9092 --only 'join/*' --only time/session
      rota conform --bootstrap-server 127.0.0.1:9092 --against 127.0.0.1:9192
      rota conform --bootstrap-server kafka.test:9093 --command-config client.properties
      rota conform --list
    """
    rows = chosen(catalogue(), only or [])
    if not rows:
        fail(MISUSED, f"--only {' --only '.join(only or [])}: no such row; `rota conform --list` has them all")
    if list_rows:
        _list(rows, as_json=as_json)
        return
    if bootstrap_server is None:
        fail(MISUSED, "give --bootstrap-server HOST:PORT, or --list")
    given = {"--bootstrap-server": bootstrap_server} | ({"--against": against} if against is not None else {})
    addresses = {option: address(option, text, 1) for option, text in given.items()}
    security = _security(command_config)
    kind = Kind(_settings(setting or []), _at_most(at_most or []), security)
    before = None if record is None else _before(record)
    results = _results(rows, addresses, kind, Options(jobs, longest, deadline, tries, twice=record is not None))
    _report(results, against or f"Apache {REFERENCE}", as_json=as_json)
    if record is not None:
        _record(record, before, results)
    _end(results)


def _end(results: list[Result]) -> None:
    """End with exit code 1 if the broker differs, or if the run says too little about it."""
    if missing := _not_compared(results):
        fail(FAILED, missing)
    if any(result.verdict in BAD for result in results):
        raise typer.Exit(FAILED)


def _not_compared(results: list[Result]) -> str:
    """Why the run says too little about the broker; nothing if it does not."""
    left_out = [result for result in results if result.verdict is Verdict.LEFT_OUT]
    if len(left_out) == len(results):
        return f"no row was compared: {_commonest(left_out)}"
    cut_short = [result for result in left_out if result.is_cut_short]
    return f"{counted(len(cut_short), 'row')} left out: {_commonest(cut_short)}" if cut_short else ""


def _commonest(left_out: list[Result]) -> str:
    """The reason that most rows were left out for."""
    return Counter(result.why for result in left_out).most_common(1)[0][0]


def _results(rows: list[Row], addresses: dict[str, str], kind: Kind, options: Options) -> list[Result]:
    """What the first broker answered, beside the second if there is one."""
    # Groups and topics of the run are removed after Ctrl-C, too, as far as that is quick.
    interrupts.allow(STOPPED_WITHIN_S + CLEANED_SOON_S + REPORTED_WITHIN_S)
    try:
        with ExitStack() as reached:
            brokers = [reached.enter_context(_reached(option, where, kind)) for option, where in addresses.items()]
            against = brokers[1] if len(brokers) > 1 else None
            return _run(rows, brokers[0], replace(options, against=against))
    except KeyboardInterrupt:
        typer.echo("rota: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _security(file: Path | None) -> ClientSecurity | None:
    try:
        return ClientSecurity.given(file)
    except PropertyError as error:
        fail(MISUSED, str(error))


def _list(rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{"id": row.id, "section": row.section, "says": row.says} for row in rows], indent=1))
        return
    for row in rows:
        typer.echo(f"{row.id}  §{row.section}  {row.says}")


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    found = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            fail(MISUSED, f"{option} is `{pair}`: give {PAIRS[option]}")
        found[name] = value
    return found


def _settings(given: list[str]) -> frozenset[tuple[str, str]]:
    """The settings of the brokers. Ends the command for one that no row is about."""
    found = _pairs("--setting", given)
    known = {pair for row in catalogue() for pair in row.settings}
    for name, value in found.items():
        values = sorted(other for named, other in known if named == name)
        if not values:
            names = ", ".join(sorted({named for named, _ in known}))
            fail(MISUSED, f"--setting is `{name}={value}`: no row is about that setting (expected one of {names})")
        if value not in values:
            fail(MISUSED, f"--setting is `{name}={value}`: no row is about that value: give {' or '.join(values)}")
    return frozenset(found.items())


def _at_most(given: list[str]) -> dict[str, int]:
    found = _pairs("--at-most", given)
    for name, version in found.items():
        if name not in apis():
            fail(MISUSED, f"--at-most is `{name}={version}`: no such API (expected one of {', '.join(sorted(apis()))})")
        if not (version.isascii() and version.isdigit()):
            fail(MISUSED, f"--at-most is `{name}={version}`: give {PAIRS['--at-most']}")
    return {name: int(version) for name, version in found.items()}


@contextmanager
def _reached(option: str, text: str, kind: Kind) -> Iterator[Broker]:
    """The broker at HOST:PORT, with topics and all, and cleaned up at the end; exit code 2 if it is no broker."""
    host, port = split(text)
    broker = Broker((host, int(port)), **kind._asdict())
    try:
        broker.contact()
    except WireError as error:
        for exchange in broker.trail:
            typer.echo(f"rota: {exchange.direction} {exchange.meaning}: {exchange.frame.hex()}", err=True)
        fail(UNREACHABLE, f"{option} {text} is no broker that answers ApiVersions: {error}")
    within_s = CLEANED_WITHIN_S
    try:
        for problem in broker.prepare():
            typer.echo(f"rota: {text}: {problem}; rows that need it are left out or fail", err=True)
        yield broker
    except KeyboardInterrupt:
        within_s = CLEANED_SOON_S
        raise
    finally:
        _clean(broker, within_s)


def _run(rows: list[Row], broker: Broker, options: Options) -> list[Result]:
    counts: Counter[Verdict] = Counter()
    last = time.monotonic()

    def progress(result: Result) -> None:
        nonlocal last
        counts[result.verdict] += 1
        if time.monotonic() - last > PROGRESS_S or counts.total() == len(rows):
            last = time.monotonic()
            left_out, bad = counts[Verdict.LEFT_OUT], sum(counts[verdict] for verdict in BAD)
            compared = f"{counts.total() - left_out} of {len(rows)} rows compared"
            typer.echo(f"rota: {compared}, {left_out} left out, {bad} differ", err=True)

    return Run(broker, options).results(rows, progress)


def _clean(broker: Broker, within_s: float) -> None:
    """Remove groups and topics, and say what is left."""
    try:
        remaining = broker.clean(within_s)
    except KeyboardInterrupt:
        _clean(broker, CLEANED_SOON_S)
        raise
    for left in remaining:
        typer.echo(f"rota: left behind on {broker.address[0]}:{broker.address[1]}: {left}", err=True)


def _before(file: Path) -> Recording | None:
    """The recording that a file has, if it exists. Ends the command if it is none, or cannot be written."""
    file_to_write(file, "--record")
    try:
        return load(file.read_text(encoding="utf-8")) if file.exists() else None
    except OSError as error:
        fail(MISUSED, f"--record is `{file}`: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError):
        fail(MISUSED, f"--record is `{file}`: it exists and is no recording of `rota conform`: give another file")


def _record(file: Path, before: Recording | None, results: list[Result]) -> None:
    """Rows that were played take the place of what the file had."""
    system, _, version = file.stem.rpartition("-")
    version = version if system else rota.__version__
    played = {result.row.id: result.evidence for result in results if result.verdict is not Verdict.LEFT_OUT}
    rows = dict(before.rows if before else {}) | played
    today = time.strftime("%Y-%m-%d", time.gmtime())
    try:
        file.write_text(dump(Recording(system or file.stem, version, today, rows)), encoding="utf-8")
    except OSError as error:
        not_written(file, "--record", error)


def _report(results: list[Result], theirs: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.as_json(results), indent=1))
        return
    for result in results:
        if result.verdict in BAD:
            typer.echo("\n".join(report.details(result, theirs)) + "\n")
    typer.echo("\n".join(report.table(results)))
    sys.stdout.flush()
