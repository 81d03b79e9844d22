"""The command `rota`. Exit codes: 0 all well, 1 it failed, 2 it was called wrongly, 130 it was interrupted."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TextIO, cast

import typer

import rota
import rota.assign.command
import rota.audit.command
import rota.audit.plant.command
import rota.audit.state
import rota.log
import rota.simulate.command
import rota.top.command
import rota.why.command
from rota.bench.command import app as bench
from rota.check.cli import app as check
from rota.config.command import app as config_commands
from rota.config.command import configured
from rota.config.sources import FILE_VARIABLE, Resolved
from rota.conform.command import conform
from rota.groups.cli import app as groups
from rota.reporting import Report
from rota.server import JOURNAL_RETENTION_BYTES, JOURNAL_RETENTION_MS, Server
from rota.trace import Sink

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
LIFE_SIGN_SECONDS = 1.0
IN_MEMORY = "in memory: nothing survives a restart"

app = typer.Typer(
    help="A Kafka consumer-group coordinator that you can pip install.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("assign")(rota.assign.command.assign)
app.command("conform")(conform)
app.command("top")(rota.top.command.top)
app.command("why")(rota.why.command.why)
app.command("simulate")(rota.simulate.command.simulate)
app.command("audit")(rota.audit.command.audit)
app.add_typer(bench, name="bench")
app.command("plant")(rota.audit.plant.command.plant)
app.command("state")(rota.audit.state.state)
app.add_typer(check, name="check")
app.add_typer(config_commands, name="config")
app.add_typer(groups, name="groups")
app.add_typer(rota.log.app, name="log")


class Durability(StrEnum):
    """When an append is acknowledged."""

    FSYNC = "fsync"
    OS = "os"


class LogFormat(StrEnum):
    """How the lines of a server's log look."""

    TEXT = "text"
    JSON = "json"


class Assignor(StrEnum):
    """The partition assignment strategies of the demo's consumers, by their names in librdkafka."""

    COOPERATIVE_STICKY = "cooperative-sticky"
    RANGE = "range"
    ROUNDROBIN = "roundrobin"


def fail(code: int, message: str) -> NoReturn:
    """End with one line on stderr: what was wrong, with what value, what to do."""
    typer.echo(f"rota: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


def print_version(wanted: bool) -> None:
    """`--version` prints the version and ends."""
    if wanted:
        typer.echo(f"rota {rota.__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
]
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


def run() -> None:
    """The process `rota`: a stdout that is closed or takes nothing is one line on stderr, too."""
    # Its number would go to the next file or socket, which would then be written to.
    if sys.stdout is None:
        typer.echo("rota: stdout is closed: send what is not wanted to /dev/null", err=True)
        sys.exit(MISUSED)
    try:
        app(prog_name="rota")
    except OSError as error:
        typer.echo(f"rota: {error}", err=True)
        sys.exit(FAILED)


@app.callback()
def main(_version: Version = False) -> None:
    """A Kafka consumer-group coordinator that you can pip install."""


def address(option: str, text: str, lowest_port: int) -> str:
    """Check HOST:PORT, or [HOST]:PORT for IPv6; gives it back as it came."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit():
        fail(MISUSED, f"{option} is `{text}`: give HOST:PORT, such as 127.0.0.1:9092")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        fail(MISUSED, f"{option} is `{text}`: write an IPv6 host in brackets, such as [::1]:9092")
    if not lowest_port <= int(port) <= 65_535:
        fail(MISUSED, f"{option} is `{text}`: the port is {port}, give {lowest_port} to 65535")
    return text


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


class Ending:
    """The end of a server by signal: the first SIGINT or SIGTERM stops it, a second SIGINT does not wait for that."""

    def __init__(self, report: Report) -> None:
        self.asked = threading.Event()
        self._report = report
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and self.asked.is_set():
            os._exit(INTERRUPTED)
        self.asked.set()

    def wait(self, server: Server) -> bool:
        """Wait for the signal. Raises rota.ServerError if a node ends by itself. Gives whether its data was well.

        What happens to the data directory meanwhile is said on stderr, once.
        """
        said: set[str] = set()
        while not self.asked.wait(LIFE_SIGN_SECONDS):
            server.check_running()
            self._say(server, said)
            self._report.look(server)
        self._say(server, said)
        self._report.look(server)
        self._say_lost(server)
        return not said

    def _say(self, server: Server, said: set[str]) -> None:
        health = server.health()
        if health is None:
            return
        now = [] if health.stopped is None else [f"the log has stopped: {health.stopped}"]
        now += health.refused
        if health.compaction_error is not None:
            now.append(f"a compaction was given up: {health.compaction_error}")
        for line in now:
            if line not in said:
                said.add(line)
                self._report.problem("data", line)

    def _say_lost(self, server: Server) -> None:
        journal = server.journal()
        if journal is not None and journal.lost > 0:
            why = "" if journal.error is None else f": {journal.error}"
            self._report.problem("journal", f"{journal.lost} entries of the journal were dropped{why}")

    def follow(self, server: Server) -> None:
        """Wait for the signal, then stop the server. Exit code 1 if it ended by itself, or its data was not well."""
        try:
            is_well = self.wait(server)
        except rota.ServerError as error:
            fail(FAILED, str(error))
        self.stop(server)
        if not is_well:
            raise typer.Exit(FAILED)

    def stop(self, server: Server) -> None:
        """Stop the server while signals are still heard."""
        self._report.event("stopping")
        stopping = threading.Thread(target=server.stop, name="stop")
        stopping.start()
        while stopping.is_alive():
            stopping.join(0.1)
        self._report.event("stopped")


class Printer:
    """Prints a trace on stdout, past Python's own buffer: a reader that does not read must not hold up the end."""

    def __init__(self, ending: Ending, *, as_json: bool) -> None:
        self._ending = ending
        self._begun = threading.Event()
        self.sink: Sink = self._object if as_json else cast("TextIO", self)

    def begin(self) -> None:
        """Nothing is printed before this: the first line is the server's own."""
        self._begun.set()

    def _object(self, line: dict[str, Any]) -> None:
        self.write(json.dumps(line) + "\n")

    def write(self, text: str) -> None:
        """Print; if nobody reads any more, the server ends."""
        self._begun.wait()
        rest = text.encode()
        try:
            while rest:
                rest = rest[os.write(sys.stdout.fileno(), rest) :]
        except BrokenPipeError:
            self._ending.asked.set()

    def flush(self) -> None:
        """Nothing is kept back."""


@app.command()
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


@app.command()
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


@app.command()
def demo(
    duration: Annotated[
        float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long to take, if the group is not slower.")
    ] = 30.0,
    assignor: Annotated[Assignor, typer.Option(help="How the consumers share partitions.")] = (
        Assignor.COOPERATIVE_STICKY
    ),
    bootstrap_server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Run it against this broker, Apache Kafka for one, instead of rota."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines; the last one is the summary.")] = False,
) -> None:
    """Watch real consumers share 12 partitions while members come, go, die and change their mind.

    Four confluent-kafka consumers, each in its own process, join a group one by one; one leaves, one is killed with
    SIGKILL, one switches its subscription; all commit offsets throughout.

    Exit code 0 means: no generation had two owners for a partition, every settled group owned all partitions,
    and no acknowledged commit was lost, by the consumers' own word and by the coordinator's. Otherwise it is 1,
    and the last lines say what went wrong.

    \b
    Examples:
      rota demo
      rota demo --json | tail -n 1
      rota demo --bootstrap-server 127.0.0.1:9092 --assignor range
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        fail(MISUSED, "the demo needs the confluent-kafka client: pip install confluent-kafka")
    if bootstrap_server is not None:
        address("--bootstrap-server", bootstrap_server, 1)
    from confluent_kafka import KafkaException

    from rota.demo import perform
    from rota.demo.stage import Settings

    chosen_settings = Settings(duration, assignor.value, bootstrap_server)
    try:
        result = perform(chosen_settings, as_json=as_json)
    except KeyboardInterrupt:
        fail(INTERRUPTED, "interrupted; the consumers have ended")
    except KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        fail(FAILED, f"the broker at {bootstrap_server or 'rota itself'} did not do its part: {reason}")
    except TimeoutError:
        fail(FAILED, f"the broker at {bootstrap_server or 'rota itself'} did not answer: is it running?")
    except rota.RotaError as error:
        fail(FAILED, str(error))
    raise typer.Exit(0 if result.ok else FAILED)
