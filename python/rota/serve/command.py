"""`rota serve`, and `rota settings`: what it can be run with."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import rota
from rota.cli import Version
from rota.cluster import TTL_MS, TTL_MS_MAX, TTL_MS_MIN
from rota.cluster.options import (
    Engine,
    EngineCa,
    EngineCert,
    EngineKey,
    EnginePasswordFile,
    EngineUser,
    PeerCa,
    PeerCert,
    PeerKey,
    PeerPasswordFile,
    PeerUser,
)
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


class Reads(StrEnum):
    """What committed offsets are answered by."""

    SESSION = "session"
    FENCED = "fenced"


class LogFormat(StrEnum):
    """How the lines of a server's log look."""

    TEXT = "text"
    JSON = "json"


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


Listen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address to listen on; port 0 picks a free port. PLAINTEXT://HOST:PORT without TLS for other machines.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address for clients, if it differs from --listen."),
]
Nodes = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        metavar="N",
        help="Number of brokers, one thread each, on consecutive ports (with port 0: free ports).",
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A Kafka broker setting; repeatable.")
]
TlsCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Clients connect with TLS: the server's certificate and its chain, PEM."),
]
TlsKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert, PEM (default: in the same file).")
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Clients need a certificate of one of these CAs, PEM."),
]
Users = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Clients authenticate with SASL as a user of this file (`rota user add`)."),
]
Sasl = Annotated[
    str | None,
    typer.Option(
        metavar="MECHANISM,...",
        help="PLAIN, SCRAM-SHA-512 or SCRAM-SHA-256 with --users (default: both SCRAM mechanisms); OAUTHBEARER.",
    ),
]
Acls = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Clients may only do what these ACLs allow, a line each; super.users may do everything."
    ),
]
PlaintextPasswords = Annotated[
    bool,
    typer.Option(
        "--allow-plaintext-passwords/--no-allow-plaintext-passwords",
        help="Allow PLAIN without TLS beyond this machine: everyone on the way can read the passwords.",
    ),
]
UnsecuredTokens = Annotated[
    bool,
    typer.Option(
        "--allow-unsecured-tokens/--no-allow-unsecured-tokens",
        help="For tests: accept tokens without a signature, which everyone can write (OAUTHBEARER).",
    ),
]
JwksCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="CAs of the server of sasl.oauthbearer.jwks.endpoint.url, PEM (default: the system's)."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Directory for topics, groups and offsets (default: in memory)."),
]
Acknowledged = Annotated[
    Durability,
    typer.Option(
        "--durability", help="With --data: acknowledged data survives power loss (fsync), or the process only (os)."
    ),
]
TakeOver = Annotated[
    bool, typer.Option("--take-over/--no-take-over", help="With --data: convert a directory that Kafka wrote.")
]
Tracing = Annotated[
    bool, typer.Option("--trace/--no-trace", help="Print each request and answer, decoded, one per line.")
]
ShownOn = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve groups, health and metrics over HTTP; :PORT is local only, https://HOST:PORT has TLS.",
    ),
]
HttpToken = Annotated[
    str | None,
    typer.Option(
        "--http-token",
        metavar="TEXT",
        help="Token that --http requires. Beyond this machine it needs one, or https:// and --tls-client-ca."
        " Prefer ROTA_HTTP_TOKEN: other users can read a command line.",
    ),
]
AnonymousHttp = Annotated[
    bool,
    typer.Option(
        "--allow-anonymous-http/--no-allow-anonymous-http",
        help="Let everyone who reaches --http read it, also from other machines.",
    ),
]
ControlledOn = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="HOST:PORT",
        help="Serve test controls over HTTP (docs/any-language.md); :PORT is local only, https://HOST:PORT has TLS.",
    ),
]
ControlToken = Annotated[
    str | None,
    typer.Option(
        "--control-token",
        metavar="TEXT",
        help="Token that --control requires. Beyond this machine it needs one, or https:// and --tls-client-ca."
        " Prefer ROTA_CONTROL_TOKEN: other users can read a command line.",
    ),
]
VirtualTime = Annotated[
    bool,
    typer.Option("--virtual-clock/--no-virtual-clock", help="With --control: time moves only when a test advances it."),
]
Journal = Annotated[
    bool,
    typer.Option("--journal/--no-journal", help="Write a journal of every coordinator event to the data directory."),
]
NodeId = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="With --engine: number of this server, which no other one has.")
]
ReadBy = Annotated[
    Reads,
    typer.Option(
        "--reads",
        help="With --engine: trust this server's clock for reads of offsets (session), or ask the engine (fenced).",
    ),
]
TtlMs = Annotated[
    int,
    typer.Option(
        min=TTL_MS_MIN,
        max=TTL_MS_MAX,
        metavar="MS",
        help="With --engine: others take over this server's groups after MS without a sign of life."
        " The same for all servers.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar=FILE_VARIABLE, help="TOML file with options and settings."),
]
Logging = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Log events to stderr, one per line: start, stop, rebalances, errors."),
]
JournalDirectory = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the journal to DIR, with or without --data.")
]
JournalRetentionBytes = Annotated[int, typer.Option(min=1, metavar="N", help="Journal size per partition.")]
JournalRetentionMs = Annotated[int, typer.Option(min=1, metavar="MS", help="Journal retention time.")]


def told_by(context: typer.Context, pairs: list[str] | None, file: Path | None) -> Resolved:
    """What flags, environment and file say, or what of it cannot be as one line on stderr."""
    try:
        return configured(read_flags(context, chosen(pairs or [])), file)
    except rota.ConfigError as error:
        fail(MISUSED, str(error))


#: The end of the help of `rota serve`.
MORE_HELP = """
    With --advertise, node 1 is advertised on the given port, the other nodes on the ports that follow. --http serves
    the state of the groups to `rota why`, probes and Prometheus (docs/http.md).

    \b
    Examples:
      rota serve
      rota serve --listen PLAINTEXT://0.0.0.0:9092 --advertise kafka.test:9092
      rota serve --nodes 3
      rota serve --tls-cert server.pem --users users
      rota serve --users users --acls acls --set super.users=User:admin
      rota serve --data data --journal
      rota serve --tls-cert server.pem --http https://0.0.0.0:9644
      rota serve --engine etcd://h1:2379,h2:2379,h3:2379/rota --node-id 1 --listen PLAINTEXT://h1:9092
      rota serve --control :9645 --virtual-clock
      rota serve --trace --json
      rota serve --config rota.toml --log-format json
      rota serve --set group.initial.rebalance.delay.ms=0 --set num.partitions=12
"""


def serve(
    context: typer.Context,
    listen: Listen = "127.0.0.1:9092",
    advertise: Advertise = None,
    nodes: Nodes = 1,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    users: Users = None,
    sasl: Sasl = None,
    acls: Acls = None,
    allow_plaintext_passwords: PlaintextPasswords = False,
    allow_unsecured_tokens: UnsecuredTokens = False,
    jwks_ca: JwksCa = None,
    pairs: Settings = None,
    data: DataDir = None,
    durability: Acknowledged = Durability.FSYNC,
    take_over: TakeOver = False,
    journal: Journal = False,
    journal_dir: JournalDirectory = None,
    journal_retention_bytes: JournalRetentionBytes = JOURNAL_RETENTION_BYTES,
    journal_retention_ms: JournalRetentionMs = JOURNAL_RETENTION_MS,
    engine: Engine = None,
    engine_ca: EngineCa = None,
    engine_cert: EngineCert = None,
    engine_key: EngineKey = None,
    engine_user: EngineUser = None,
    engine_password_file: EnginePasswordFile = None,
    node_id: NodeId = None,
    ttl_ms: TtlMs = TTL_MS,
    reads: ReadBy = Reads.SESSION,
    peer_ca: PeerCa = None,
    peer_cert: PeerCert = None,
    peer_key: PeerKey = None,
    peer_user: PeerUser = None,
    peer_password_file: PeerPasswordFile = None,
    http: ShownOn = None,
    http_token: HttpToken = None,
    allow_anonymous_http: AnonymousHttp = False,
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

    Kafka clients connect to it as to any broker. Topics, messages, groups and offsets are in memory, or with --data
    in a directory, where acknowledged data survives any crash (docs/durability.md). A directory that Kafka wrote is
    read-only without --take-over. Exit code 1: the log stopped or refused a partition while the server ran.
    The first line on stdout is the address that it listens on; with several nodes, the address of each.
    Options can also come from the environment and a file: flags override ROTA_ variables, which override --config
    (docs/operating.md). `rota config show` prints the source of each value.
    """
    running.serve(told_by(context, pairs, config), as_json=as_json)


serve.__doc__ = f"{(serve.__doc__ or '').rstrip()}{MORE_HELP}"


def settings(as_json: AsJson = False) -> None:
    """List the settings of `rota serve --set` with Kafka's defaults."""
    table = rota._rota.ServerConfig().check()
    if as_json:
        typer.echo(json.dumps(table, indent=2))
        return
    width = max(map(len, table))
    for name, value in table.items():
        typer.echo(f"{name:<{width}}  {value or '-'}")
