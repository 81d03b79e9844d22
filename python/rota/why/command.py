"""`rota why GROUP`: why a group of a running server is where it is."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.addresses import HTTPS, web_parsed
from rota.misuse import is_given
from rota.why import words
from rota.why.ending import end, misused
from rota.why.standing import name_of, sections, with_names

if TYPE_CHECKING:
    from rota.http.client import Peer

CONSUMER = "consumer"

WATCH_S = 5.0
HISTORY_S = 3_600.0
TIMEOUT_MS = 10_000

DEFAULT_ADDRESS = "127.0.0.1:9644"
TOKEN_VARIABLE = "ROTA_CONTROL_TOKEN"  # noqa: S105 - the name of a variable
HTTP_TOKEN_VARIABLE = "ROTA_HTTP_TOKEN"  # noqa: S105 - the name of a variable

HttpAddress = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Address of `rota serve --http`; https://HOST:PORT has TLS.")
]
HttpToken = Annotated[
    str | None,
    typer.Option(
        "--http-token",
        metavar="TEXT",
        envvar=HTTP_TOKEN_VARIABLE,
        show_envvar=False,
        help="Token of --http. Prefer ROTA_HTTP_TOKEN: other users can read a command line.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="With https://: CA and client certificate, properties of a Kafka client (ssl.truststore.location).",
    ),
]
ControlToken = Annotated[
    str | None,
    typer.Option(
        "--control-token",
        metavar="TEXT",
        envvar=TOKEN_VARIABLE,
        show_envvar=False,
        help="With --http at the address of --control: its token. Prefer ROTA_CONTROL_TOKEN: other users can read a"
        " command line.",
    ),
]
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Ask any Kafka broker instead, by its protocol and the records of the group.",
    ),
]
Watch = Annotated[
    float,
    typer.Option(
        "--watch", min=0, max=3600, metavar="SECONDS", help="With --bootstrap-server: how long to watch offsets."
    ),
]
History = Annotated[
    float,
    typer.Option(
        "--history", min=0, max=31_536_000, metavar="SECONDS", help="With --bootstrap-server: how far to look back."
    ),
]
Timeout = Annotated[
    int,
    typer.Option(
        "--timeout-ms",
        min=1,
        max=3_600_000,
        metavar="MS",
        help="With --bootstrap-server: time to wait for an answer of a broker.",
    ),
]
BrokerConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Properties of a Kafka client: TLS and SASL of --bootstrap-server, TLS of https://.",
    ),
]


ONE_SOURCE = {
    "bootstrap_server": ("from_", "at", "http", "http_token", "control_token"),
    "from_": ("http", "http_token", "control_token", "command_config"),
}
"""What each source is not asked with."""
SOURCES = {"bootstrap_server": "--bootstrap-server asks a broker", "from_": "--from reads logs"}
OF_BROKERS = ("watch_s", "history_s", "timeout_ms")


def check_source(context: typer.Context, *, as_json: bool) -> None:
    """End the command if an option of the command line would have no effect."""
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    given = [name for name in context.params if is_given(context, name)]
    source = next((name for name in ONE_SOURCE if name in given), None)
    for name in given:
        if source is not None and name in ONE_SOURCE[source]:
            misused(f"{SOURCES[source]}: leave out {flags[name]}", as_json=as_json)
        if source != "bootstrap_server" and name in OF_BROKERS:
            misused(f"{flags[name]} needs --bootstrap-server: it is about asking a broker", as_json=as_json)
    if "at" in given and source is None:
        misused("--at needs --from: a running server is asked about now", as_json=as_json)


def why(
    context: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")],
    http: HttpAddress = DEFAULT_ADDRESS,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Read a data directory with a journal instead of a server."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --from: the time to explain, such as 2026-01-31T13:30:20, UTC."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    watch_s: Watch = WATCH_S,
    history_s: History = HISTORY_S,
    timeout_ms: Timeout = TIMEOUT_MS,
    http_token: HttpToken = None,
    control_token: ControlToken = None,
    command_config: BrokerConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")] = False,
) -> None:
    """Explain a group's state: since when, which members it waits for and until when, and what caused it. The first
    line is a summary; below are the members that delay the group, and its last rebalances.
    Exit code 0: the group was explained. 1: another server of the cluster has it, or it cannot be explained. 2: usage
    error. 3: no such group, or --from has no journal. 5: the server did not answer.

    \b
    Examples:
      rota why orders
      rota why orders --http 10.0.0.7:9644
      rota why orders --http https://kafka.test:9644 --command-config client.properties
      rota why orders --json | jq -r .why.sentence
      rota why orders --from data --at 2026-01-31T13:30:20
      rota why orders --bootstrap-server kafka:9092 --watch 30
    """
    check_source(context, as_json=as_json)
    if bootstrap_server is not None:
        from rota.why.broker.command import why_elsewhere

        why_elsewhere(group, bootstrap_server, command_config, watch_s, history_s, timeout_ms, as_json=as_json)
        return
    from rota.http import client

    if from_ is not None:
        from rota.audit import state

        state.why_then(group, from_, at, as_json)
        return
    peer = peer_of(http, chosen_token(context, http_token, control_token), command_config, as_json=as_json)
    try:
        found = client.group(peer, group)
        lines = lines_of(peer, found)
    except client.HttpError as error:
        end(error.exit_code, error.name, f"{error}{_what_else(error.name, peer, group)}", as_json=as_json)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for line in lines:
        typer.echo(line)


def _what_else(error: str, peer: Peer, group: str) -> str:
    """Where it was looked for, or where else it can be."""
    if error == "NoSuchGroup":
        return f"; {peer.address} was asked"
    if error == "ServerDown":
        return f", or ask the broker: `rota why {shlex.quote(group)} --bootstrap-server HOST:PORT`"
    return ""


def lines_of(peer: Peer, group: dict[str, Any]) -> list[str]:
    """What is printed of a group. Raises HttpError if it is no answer of rota."""
    from rota.http.client import not_rota

    try:
        return report(group)
    except (AttributeError, IndexError, KeyError, TypeError):
        raise not_rota(peer, f"/groups/{group['group_id']}") from None


def chosen_token(context: typer.Context, http_token: str | None, control_token: str | None) -> str | None:
    """The token of --control is good for --http, too. One on the command line counts more than the environment's."""
    is_typed = is_given(context, "http_token") and not is_given(context, "control_token")
    return http_token if is_typed or control_token is None else control_token


def peer_of(http: str, token: str | None, config: Path | None, *, as_json: bool) -> Peer:
    """The server that these options name; ends the command if one of them is wrong."""
    from rota.http.client import Peer

    try:
        server = web_parsed(http)
    except ValueError as error:
        misused(f"--http is `{http}`: {error}", as_json=as_json)
    if config is None:
        return Peer(server, token)
    from rota.client_properties import ClientSecurity, PropertyError

    try:
        security = ClientSecurity.read(config)
        return Peer(server, token, security.https_context() if server.startswith(HTTPS) else None)
    except PropertyError as error:
        misused(str(error), as_json=as_json)


def report(group: dict[str, Any]) -> list[str]:
    """The sentence about a group as `/groups/{id}` shows it, and what stands behind it."""
    lines = [f"{words.printable(group['group_id'])}: {group['why']['sentence']}"]
    members = {member["member_id"]: member for member in group["members"]}
    held_up = [(members[wait["member_id"]], wait) for wait in group["waiting"] if wait["member_id"] in members]
    if held_up:
        lines += ["", "held up by"]
        lines += [f"  {_member(member, wait)}" for member, wait in held_up]
    for heading, rows in sections(group).items():
        if rows:
            lines += ["", heading, *(f"  {row}" for row in rows)]
    if group["rebalances"]:
        lines += ["", "rebalances, the latest first"]
        latest, *older = reversed(with_names(group))
        number = "epoch" if group.get("type") == CONSUMER else "generation"
        lines += _rebalance(latest, "not over", number)
        for rebalance in older:
            lines += _rebalance(rebalance, "interrupted", number)
    return lines


def _member(member: dict[str, Any], wait: dict[str, Any]) -> str:
    """`consumer-3-… at /10.0.0.7: silent for 31.0 s, expires in 14.0 s`, or what it does instead."""
    who = f"{name_of(member, is_whole=True)} at {words.printable(member['client_host'])}"
    heard, left = member["heard_ago_ms"], member["expires_in_ms"]
    if wait["what"] == "Revoke":
        who += f", has to give up {words.places(member['revoking'])}"
    if wait["what"] in words.STALLS and wait.get("heartbeats"):
        return f"{who}: heartbeats, the last one {words.seconds(heard or 0)} ago, but does not poll"
    if wait["what"] == "Release":
        missing = {
            topic: [index for index in indexes if index not in member["assignment"].get(topic, ())]
            for topic, indexes in member["target"].items()
        }
        return f"{who}: waits for {words.places(missing)}"
    silent = [] if heard is None else [f"silent for {words.seconds(heard)}"]
    ends = [] if left is None else [f"expires in {words.seconds(left)} unless it is heard"]
    return f"{who}: {', '.join([*silent, *ends])}" if silent or ends else who


def _rebalance(rebalance: dict[str, Any], unsettled: str, number: str) -> list[str]:
    """`12.4 s ago, generation 3 to 4, in 0.2 s: consumer-7-… left`, and a line for each member that went while it ran.
    `unsettled` is shown where it did not come to its end."""
    to = "?" if rebalance["to_generation"] is None else rebalance["to_generation"]
    took = rebalance["settled_after_ms"]
    ended = unsettled if took is None else f"in {words.seconds(took)}"
    cause = words.cause(rebalance["cause"], rebalance["member_id"], rebalance["reason"])
    head = (
        f"  {words.seconds(rebalance['began_ago_ms'])} ago, "
        f"{number} {rebalance['from_generation']} to {to}, {ended}: {cause}"
    )
    return [head, *(f"    {_departure(departure)}" for departure in rebalance.get("departures", []))]


def _departure(departure: dict[str, Any]) -> str:
    """`3.1 s ago: consumer-3-… left or was removed ("stuck")`."""
    what = words.departure(departure["how"], departure["member_id"], departure["reason"])
    return f"{words.seconds(departure['ago_ms'])} ago: {what}"
