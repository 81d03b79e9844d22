"""`rota serve`, and `rota settings`: what it can be run with."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import rota
from rota.cli import Version
from rota.config.command import read_flags
from rota.config.sources import FILE_VARIABLE, Resolved, configured
from rota.exits import MISUSED, fail
from rota.serve import running
from rota.serve.words import chosen
from rota.server import JOURNAL_RETENTION_BYTES, JOURNAL_RETENTION_MS


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
ControlledOn = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="HOST:PORT",
        help="Let tests control the server there over HTTP (docs/any-language.md); :PORT is on this machine only.",
    ),
]
ControlToken = Annotated[
    str | None,
    typer.Option(
        "--control-token",
        metavar="TEXT",
        help="What --control requires of every request; needed where other machines can reach it. Better given as "
        "ROTA_CONTROL_TOKEN: other users of this machine can read a command line.",
    ),
]
VirtualTime = Annotated[
    bool,
    typer.Option("--virtual-clock/--no-virtual-clock", help="With --control: time moves only when a test advances it."),
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


def told_by(context: typer.Context, pairs: list[str] | None, file: Path | None) -> Resolved:
    """What flags, environment and file say, or what of it cannot be as one line on stderr."""
    try:
        return configured(read_flags(context, chosen(pairs or [])), file)
    except rota.ConfigError as error:
        fail(MISUSED, str(error))


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
    control: ControlledOn = None,
    control_token: ControlToken = None,
    virtual_clock: VirtualTime = False,
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
      rota serve --control :9645 --virtual-clock
      rota serve --trace --json
      rota serve --config rota.toml --log-format json
      rota serve --set group.initial.rebalance.delay.ms=0 --set num.partitions=12
    """
    running.serve(told_by(context, pairs, config), as_json=as_json)


def settings(as_json: AsJson = False) -> None:
    """List the settings that `rota serve --set` takes, and Kafka's default for each."""
    with running.started("127.0.0.1:0", None, 1, {}, None, None) as server:
        table = server.settings()
    if as_json:
        typer.echo(json.dumps(table, indent=2))
        return
    width = max(map(len, table))
    for name, value in table.items():
        typer.echo(f"{name:<{width}}  {value}")
