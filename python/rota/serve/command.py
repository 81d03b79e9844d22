"""`rota serve`, and `rota settings`: what it can be run with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

import rota
from rota.cli import FAILED, MISUSED, Version, address, fail
from rota.config.command import configured
from rota.config.sources import FILE_VARIABLE, Resolved
from rota.reporting import Report
from rota.serve.ending import Ending, Printer
from rota.server import JOURNAL_RETENTION_BYTES, JOURNAL_RETENTION_MS, Server
from rota.trace import Sink

IN_MEMORY = "in memory: nothing survives a restart"


class Durability(StrEnum):
    """When an append is acknowledged."""

    FSYNC = "fsync"
    OS = "os"


class LogFormat(StrEnum):
    """How the lines of a server's log look."""

    TEXT = "text"
    JSON = "json"


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 picks a free one.")]
Advertise = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where clients are told to connect to, if that is somewhere else."),
]
Nodes = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        metavar="N",
        help="How many brokers clients see: one thread each, on consecutive ports (free ones with port 0).",
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A Kafka broker setting; may be given again.")
]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Keep topics, groups and offsets there; without it they are in memory."),
]
Acknowledged = Annotated[
    Durability,
    typer.Option("--durability", help="With --data: what is acknowledged survives power loss, or only this process."),
]
TakeOver = Annotated[
    bool, typer.Option("--take-over/--no-take-over", help="With --data: a directory that Kafka wrote becomes rota's.")
]
Tracing = Annotated[
    bool, typer.Option("--trace/--no-trace", help="Print every request and every answer, decoded, one line each.")
]
ShownOn = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Show groups and health there; :PORT is on this machine only."),
]
Journal = Annotated[
    bool,
    typer.Option("--journal/--no-journal", help="Write down every event of every coordinator, in the data directory."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar=FILE_VARIABLE, help="Options and settings as TOML, under these."),
]
Logging = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Log to stderr, one line an event: start, end, rebalances, what is wrong."),
]
JournalDirectory = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the journal there; --data is not needed then.")
]
JournalRetentionBytes = Annotated[
    int, typer.Option(min=1, metavar="N", help="Bytes that each partition of the journal keeps.")
]
JournalRetentionMs = Annotated[int, typer.Option(min=1, metavar="MS", help="How long the journal is kept.")]


def chosen(pairs: list[str]) -> dict[str, str]:
    """`--set KEY=VALUE ...` as a mapping; of a name that comes twice the last one counts."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            fail(MISUSED, f"--set is `{pair}`: give KEY=VALUE, such as group.initial.rebalance.delay.ms=0")
        settings[name.strip()] = value.strip()
    return settings


def started(
    listen: str,
    advertise: str | None,
    nodes: int,
    settings: dict[str, str],
    trace: Sink | None,
    data: Data | None,
    http: str | None = None,
    blame: Callable[[str], str] = str,
) -> Server:
    """A running server, or the reason why not as one line on stderr. `blame` says where a setting came from."""
    data = data or Data(None)
    try:
        return Server(
            listen,
            advertise=advertise,
            nodes=nodes,
            settings=settings,
            trace=trace,
            data=data.where,
            durability=data.how,
            take_over=data.take_over,
            journal=data.journal,
            journal_retention_bytes=data.journal_retention_bytes,
            journal_retention_ms=data.journal_retention_ms,
            http=http,
        )
    except rota.ConfigError as error:
        fail(MISUSED, f"{blame(str(error))}; `rota settings` lists the settings")
    except ValueError as error:
        fail(MISUSED, str(error))
    except (rota.RotaError, OSError) as error:
        fail(FAILED, str(error))


def told_by(context: typer.Context, pairs: list[str] | None, file: Path | None) -> Resolved:
    """What flags, environment and file say, or what of it cannot be as one line on stderr."""
    try:
        return configured(context, chosen(pairs or []), file)
    except rota.ConfigError as error:
        fail(MISUSED, str(error))


def addresses(told: Resolved) -> tuple[str, str | None]:
    """Where to listen, and where clients are told to connect to."""
    advertise = told["advertise"]
    return (
        address(told.called("listen"), told["listen"], 0),
        None if advertise is None else address(told.called("advertise"), advertise, 1),
    )


class Data(NamedTuple):
    """Where a server keeps its data, and how."""

    where: Path | None
    how: Literal["fsync", "os"] = "fsync"
    take_over: bool = False
    journal: bool | Path = False
    journal_retention_bytes: int = JOURNAL_RETENTION_BYTES
    journal_retention_ms: int = JOURNAL_RETENTION_MS

    @staticmethod
    def of(told: Resolved) -> Data:
        """As it was configured."""
        data, journal_dir = told["data"], told["journal_dir"]
        return Data(
            None if data is None else Path(data),
            told["durability"],
            told["take_over"],
            told["journal"] if journal_dir is None else Path(journal_dir),
            told["journal_retention_bytes"],
            told["journal_retention_ms"],
        )


def kept(server: Server, where: Path | None, how: str) -> str:
    """Where the data is, for the first line; what the start found goes to stderr."""
    report = server.start_report()
    if report is None:
        return IN_MEMORY
    for line in report.lines:
        typer.echo(f"rota: {line}", err=True)
    mode = "read only" if report.is_read_only else how
    return f"{where}, {mode}: {report.groups} groups and {report.offsets} offsets loaded in {report.took_ms} ms"


def say_ready(server: Server, data: Data, advertise: str | None, *, as_json: bool) -> None:
    """The first line, and what clients are told if that is something else."""
    where = kept(server, data.where, data.how)
    if as_json:
        ready = {"event": "ready", "version": rota.__version__, "listen": server.bootstrap_servers}
        report = server.start_report()
        found = {} if report is None else {"data": str(data.where), **report._asdict()}
        shown = {} if server.http_address is None else {"http": server.http_address}
        typer.echo(json.dumps(ready | found | shown))
    else:
        typer.echo(f"rota {rota.__version__} ready on {server.bootstrap_servers} ({where})")
    if advertise is not None and not as_json:
        host, _, port = advertise.rpartition(":")
        told = ", ".join(f"{host}:{int(port) + at}" for at in range(len(server.nodes())))
        typer.echo(f"clients are told to connect to {told}")
    if server.http_address is not None and not as_json:
        typer.echo(f"its groups are shown on http://{server.http_address}/")


def serve(
    context: typer.Context,
    listen: Listen = "127.0.0.1:9092",
    advertise: Advertise = None,
    nodes: Nodes = 1,
    pairs: Settings = None,
    data: DataDirectory = None,
    durability: Acknowledged = Durability.FSYNC,
    take_over: TakeOver = False,
    journal: Journal = False,
    journal_dir: JournalDirectory = None,
    journal_retention_bytes: JournalRetentionBytes = JOURNAL_RETENTION_BYTES,
    journal_retention_ms: JournalRetentionMs = JOURNAL_RETENTION_MS,
    http: ShownOn = None,
    trace: Tracing = False,
    log_format: Logging = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    _version: Version = False,
) -> None:
    """Run a server until SIGINT or SIGTERM.

    Kafka clients connect to it as to any broker. Topics, messages, groups and offsets are in memory, or with --data in
    a directory: what was acknowledged is there after any crash (docs/durability.md). A directory that Kafka wrote is
    only read, unless --take-over is given. Exit code 1 says that the log stopped or a partition was refused meanwhile.
    The first line on stdout says where it listens, once it does; with several nodes, where each of them does.
    Every option can stand in a file and in the environment, too: flags count more than ROTA_ variables, these more than
    --config (docs/operating.md). `rota config show` says which value came from where.
    With --advertise, node 1 is advertised on the port that is given, the others on those that follow.
    With --http, what the groups are doing can be read there (docs/http.md): by `rota why`, probes and Prometheus.

    \b
    Examples:
      rota serve
      rota serve --listen 127.0.0.1:0
      rota serve --listen 0.0.0.0:9092 --advertise kafka.test:9092
      rota serve --nodes 3
      rota serve --data data
      rota serve --data data --journal
      rota serve --http :9644
      rota serve --trace --json
      rota serve --config rota.toml --log-format json
      rota serve --set group.initial.rebalance.delay.ms=0 --set num.partitions=12
    """
    told = told_by(context, pairs, config)
    report = Report(told["log_format"])
    ending = Ending(report)
    printer = Printer(ending, as_json=as_json) if told["trace"] else None
    kept_in, (listen, advertise) = Data.of(told), addresses(told)
    server = started(
        listen,
        advertise,
        told["nodes"],
        told.written(),
        None if printer is None else printer.sink,
        kept_in,
        told["http"],
        told.blame,
    )
    say_ready(server, kept_in, advertise, as_json=as_json)
    report.event("ready", version=rota.__version__, listen=server.bootstrap_servers, data=told["data"])
    sys.stdout.flush()
    if printer is not None:
        printer.begin()
    ending.follow(server)


def settings(as_json: AsJson = False) -> None:
    """List the settings that `rota serve --set` takes, and Kafka's default for each."""
    with started("127.0.0.1:0", None, 1, {}, None, None) as server:
        table = server.settings()
    if as_json:
        typer.echo(json.dumps(table, indent=2))
        return
    width = max(map(len, table))
    for name, value in table.items():
        typer.echo(f"{name:<{width}}  {value}")
