"""The options that all commands of `rota groups` share, and how they end."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.addresses import KAFKA_PORT, LOOPBACK, parsed
from rota.exits import complain, installs
from rota.groups.errors import GroupsError, misused
from rota.groups.values import chosen

if TYPE_CHECKING:
    from rota.groups.cluster import Cluster

TIMEOUT_MS = 10_000
DEFAULT_BROKER = f"{LOOPBACK}:{KAFKA_PORT}"
"""Where `rota serve` listens without options."""

Groups = Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Group ids.", show_default=False)]
OptionGroups = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group id, as an option.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups.")]
Regex = Annotated[str | None, typer.Option(metavar="REGEX", help="Only groups whose id matches REGEX.")]
OneGroup = Annotated[str | None, typer.Argument(metavar="GROUP", help="Group id.", show_default=False)]
OptionOneGroup = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group id, as an option.")]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC[:N,N]", help="A topic, or some of its partitions; repeatable."),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="All topics with committed offsets.")]
Datetime = Annotated[
    str | None, typer.Option(metavar="TIME", help="To the first message since TIME, such as 2026-03-01T13:30:00+01:00.")
]
Duration = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="To the first message of the last DURATION, such as P1DT6H or PT30M."),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        envvar="ROTA_BOOTSTRAP_SERVER",
        help=f"Brokers to connect to (default {DEFAULT_BROKER}).",
    ),
]
CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A properties file of Kafka clients: TLS, SASL, timeouts.")
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--command-property", metavar="NAME=VALUE", help="A client property; overrides the file."),
]
Timeout = Annotated[
    int,
    typer.Option("--timeout-ms", "--timeout", min=1, max=3_600_000, metavar="MS", help="Time to wait for a broker."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text, also for errors.")]


@contextlib.contextmanager
def ending(as_json: bool) -> Iterator[None]:
    """An error is one line on stderr, and its kind's exit code."""
    try:
        yield
    except GroupsError as error:
        message = " ".join(str(error).split())
        if as_json:
            typer.echo(json.dumps({"error": error.kind.label, "message": message}), err=True)
        else:
            complain(message)
        raise typer.Exit(error.kind.exit_code) from None


def check_library() -> None:
    """An error without the library of clients. What needs it is imported after this."""
    try:
        import rota.groups.cluster  # noqa: F401
    except ImportError:
        raise misused(
            f"a connection to a broker needs the kafka-python client, 3.0 or newer: {installs('groups')}"
        ) from None


def check_file(path: str | None, group: str) -> None:
    """An error if a file of offsets is wrong, whatever the broker and the group are doing."""
    if path is not None:
        check_library()
        from rota.groups.plan import read_file

        read_file(Path(path), group)


def connected(
    bootstrap_server: str | None, command_config: Path | None, properties: list[str] | None, timeout_ms: int
) -> Cluster:
    """A connection with what the options say."""
    check_library()
    from kafka import KafkaAdminClient

    from rota.groups.cluster import Cluster
    from rota.groups.properties import read_config, setting

    known = KafkaAdminClient.DEFAULT_CONFIG
    settings: dict[str, Any] = {} if command_config is None else read_config(command_config, known)
    for pair in properties or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise misused(f"--command-property is `{pair}`: give NAME=VALUE, such as security.protocol=SSL")
        settings |= setting("--command-property", name.strip(), value.strip(), known)
    where = bootstrap_server or settings.pop("bootstrap_servers", None) or DEFAULT_BROKER
    try:
        servers = [parsed(one.strip()) for one in where.split(",")]
    except ValueError as error:
        raise misused(f"--bootstrap-server is `{where}`: {error}, with commas between") from None
    return Cluster(",".join(servers), settings, timeout_ms)


def again(bootstrap_server: str | None, command_config: Path | None, properties: list[str] | None) -> str:
    """The options with which another command reaches the same broker. Values of properties may be secrets."""
    given = {"--bootstrap-server": bootstrap_server, "--command-config": command_config}
    options = [f"{option} {shlex.quote(str(value))}" for option, value in given.items() if value is not None]
    options += [f"--command-property {pair.partition('=')[0].strip()}=..." for pair in properties or ()]
    return "".join(f" {option}" for option in options)


def one_group(argument: str | None, option: list[str] | None) -> str:
    """The group that a command is about."""
    named = list(dict.fromkeys(option or []))
    if argument is not None and named:
        raise misused("GROUP and --group are given both: give one of them")
    if len(named) > 1:
        raise misused(f"--group is given for {' and '.join(f'`{name}`' for name in named)}: give one group at a time")
    if argument is None and not named:
        raise misused("give one group")
    return argument if argument is not None else named[0]


def selection(
    groups: list[str] | None, option: list[str] | None, all_groups: bool, regex: str | None
) -> list[str] | re.Pattern[str]:
    """The groups that are named, each once, or what the others have to match."""
    named = list(dict.fromkeys([*(groups or []), *(option or [])]))
    if sum((bool(named), all_groups, regex is not None)) != 1:
        raise misused("give groups, or --all-groups, or --regex: one of them")
    return named or pattern(regex or "")


def pattern(regex: str) -> re.Pattern[str]:
    """A regular expression of Python's."""
    try:
        return re.compile(regex)
    except re.error as error:
        raise misused(f"--regex is `{regex}`: {error}") from None


def selected(cluster: Cluster, wanted: list[str] | re.Pattern[str]) -> list[str]:
    """The names of the groups."""
    if isinstance(wanted, list):
        return wanted
    return [line.group for line in cluster.groups() if wanted.search(line.group)]


def none_found(regex: str | None) -> str:
    """What to say if no group is there, or none matches."""
    return "there are no groups" if regex is None else f"no group matches --regex `{regex}`"


def among(option: str, text: str | None, known: Iterable[str]) -> list[str]:
    """`stable,empty` as Kafka's names; any case and hyphens will do."""
    by_name = {_folded(name): name for name in known}
    found = []
    for one in (text or "").split(",") if text is not None else []:
        if _folded(one) not in by_name:
            raise misused(
                f"{option} is `{text}`: give one or more of {', '.join(by_name.values())}, with commas between"
            )
        found.append(by_name[_folded(one)])
    return found


def _folded(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def one_target(given: dict[str, str | None]) -> tuple[str, str]:
    """The option that says where offsets are to go, and its value."""
    found = [(option, value) for option, value in given.items() if value is not None]
    if len(found) != 1:
        which = " and ".join(option for option, _ in found)
        raise misused(
            f"{which} contradict each other: give one of them" if found else f"give one of {', '.join(given)}"
        )
    return found[0]


# What has partitions of its own.
CARRIES_PARTITIONS = ("--from-file", "--from-group")


def refuse_scope(option: str, topics: list[str] | None, all_topics: bool) -> None:
    """Which partitions are meant is said once, in the form of --topic; a plan file says it itself."""
    if topics and all_topics:
        raise misused("--topic and --all-topics contradict each other: give one of them")
    if option == "--from-file" and (topics or all_topics):
        raise misused("--from-file says which partitions are meant: leave out --topic and --all-topics")
    if not topics and not all_topics and option not in CARRIES_PARTITIONS:
        raise misused("which partitions? give --topic or --all-topics")
    chosen(topics or [])
