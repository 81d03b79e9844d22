"""The commands `rota groups ...`. Exit codes are those of `rota.groups.errors.Kind`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from rota.exits import complain
from rota.groups import options, values
from rota.groups.errors import misused
from rota.groups.options import TIMEOUT_MS, connected, ending, one_group, selected, selection
from rota.groups.style import KafkaStyle, ListStyle

STATES = (
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
TYPES = ("classic", "consumer", "share", "streams")

NONE_LISTED = "no group is visible: there is none, or this user lacks DESCRIBE for the groups or the cluster"

app = typer.Typer(
    cls=KafkaStyle,
    help="Show and change groups of any Kafka broker; Kafka's own options work, too.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", cls=ListStyle)
def list_groups(
    state: Annotated[str | None, typer.Option(metavar="STATE,...", help="Only groups in one of these states.")] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE,...", help="Only groups of these types.")] = None,
    regex: options.Regex = None,
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """List groups with type, protocol and state.

    \b
    Examples:
      rota groups list --bootstrap-server 127.0.0.1:9092
      rota groups list --bootstrap-server 127.0.0.1:9092 --state stable,empty --regex '^billing-' --json
    """
    with ending(as_json):
        states, types = options.among("--state", state, STATES), options.among("--type", kind, TYPES)
        matching = options.pattern(regex or "")
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            found = [line for line in cluster.groups(states, types) if matching.search(line.group)]
        from rota.groups import render

        typer.echo(json.dumps([vars(line) for line in found], indent=2) if as_json else render.listed(found))
        if not found and not as_json:
            complain(NONE_LISTED if not (states or types or regex) else "no group matches these options")


@app.command()
def describe(
    groups: options.Groups = None,
    option_groups: options.OptionGroups = None,
    all_groups: options.AllGroups = False,
    regex: options.Regex = None,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show offsets and lag (default).")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show members.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show state, assignor and number of members.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show more columns.")] = False,
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """Describe groups: offsets with lag in messages and seconds, or members, or the state.

    LAG-SECONDS is the time between the next unread message and the newest one, by their timestamps, or `unknown`.
    WAITING-SECONDS (--verbose) is the age of the next unread message.
    Offsets of an open transaction are not visible until it ends; such transactions are listed below the offsets.

    \b
    Examples:
      rota groups describe billing --bootstrap-server 127.0.0.1:9092
      rota groups describe --all-groups --members --verbose --bootstrap-server 127.0.0.1:9092
      rota groups describe billing --json --bootstrap-server 127.0.0.1:9092
    """
    with ending(as_json):
        wanted = selection(groups, option_groups, all_groups, regex)
        if offsets + members + state > 1:
            raise misused("--offsets, --members and --state are different views: give one of them")
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            from rota.groups import render
            from rota.groups.lag import rows
            from rota.groups.transactions import open_transactions

            found = cluster.describe(selected(cluster, wanted))
            with_offsets = not members and not state
            lags = [rows(cluster, one) if with_offsets else None for one in found]
            held = open_transactions(cluster, [one.group for one in found]) if with_offsets else {}
        views = [(one, row, held.get(one.group, [])) for one, row in zip(found, lags, strict=True)]
        if as_json:
            typer.echo(json.dumps([render.described_json(*view) for view in views], indent=2))
        elif not found:
            typer.echo(options.none_found(regex))
        elif state:
            typer.echo(render.states(found))
        else:
            typer.echo("\n\n".join(render.described(*view, verbose=verbose) for view in views))


@app.command("reset-offsets")
def reset_offsets(
    group: options.OneGroup = None,
    option_group: options.OptionOneGroup = None,
    topics: options.Topics = None,
    all_topics: options.AllTopics = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first message.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset, else the end.")] = False,
    to_offset: Annotated[str | None, typer.Option(metavar="N", help="To this offset.")] = None,
    shift_by: Annotated[str | None, typer.Option(metavar="N", help="By N messages, back if N is negative.")] = None,
    to_datetime: options.Datetime = None,
    by_duration: options.Duration = None,
    from_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="To the offsets of a plan or undo file.")
    ] = None,
    from_group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="To the committed offsets of another group.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan without changing anything (default).")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Reset the offsets.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Create the group if it does not exist.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the plan as CSV, for --from-file.")] = False,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plan to a new file.")] = None,
    undo: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the former offsets to a new file.")] = None,
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """Reset the committed offsets of a group without members; a dry run without --execute. An offset outside a
    partition becomes the nearest existing one. If the broker refuses a partition, rota restores the others.

    \b
    Examples:
      rota groups reset-offsets billing --topic orders --to-earliest --bootstrap-server 127.0.0.1:9092
      rota groups reset-offsets billing --all-topics --by-duration PT1H --plan plan.csv --bootstrap-server ...
      rota groups reset-offsets billing --from-file plan.csv --undo undo.csv --execute --bootstrap-server ...
      rota groups reset-offsets billing --topic orders:0,2 --shift-by -10 --execute --bootstrap-server ...
    """
    given = {
        "--to-earliest": "" if to_earliest else None,
        "--to-latest": "" if to_latest else None,
        "--to-current": "" if to_current else None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--from-file": from_file,
        "--from-group": from_group,
    }
    with ending(as_json):
        name = one_group(group, option_group)
        goal = values.goal(*options.one_target(given))
        options.refuse_scope(goal.target.value, topics, all_topics)
        _refuse_both(dry_run=dry_run, execute=execute, export=export, as_json=as_json)
        options.check_file(from_file, name)
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            from rota.groups import changes, render

            described = changes.existing(cluster, name, create=create)
            steps = changes.reset(cluster, name, goal, topics, described, execute=execute)
            changes.keep(name, steps, plan, undo)
            if execute:
                changes.apply(cluster, name, steps, undo)
        form = "csv" if export else "json" if as_json else "text"
        typer.echo(render.reset(name, steps, executed=execute, form=form, needs=changes.running(described)))


def _refuse_both(*, dry_run: bool, execute: bool, export: bool, as_json: bool) -> None:
    """Options of `reset-offsets` that contradict each other."""
    if dry_run and execute:
        raise misused("--dry-run and --execute contradict each other: give one of them")
    if export and as_json:
        raise misused("--export and --json are two forms: give one of them")


@app.command()
def delete(
    groups: options.Groups = None,
    option_groups: options.OptionGroups = None,
    all_groups: options.AllGroups = False,
    regex: options.Regex = None,
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """Delete groups and their offsets. If one has members or does not exist, delete none.

    \b
    Example:
      rota groups delete billing reports --bootstrap-server 127.0.0.1:9092
    """
    with ending(as_json):
        wanted = selection(groups, option_groups, all_groups, regex)
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            from rota.groups import changes, render

            names = selected(cluster, wanted)
            changes.delete(cluster, names)
        lines = [f"deleted {render.plain(one)}" for one in names]
        none = f"{options.none_found(regex)}: nothing was deleted"
        typer.echo(json.dumps({"deleted": names}) if as_json else "\n".join(lines) or none)


@app.command("delete-offsets")
def delete_offsets(
    group: options.OneGroup = None,
    option_group: options.OptionOneGroup = None,
    topics: options.Topics = None,
    all_topics: options.AllTopics = False,
    undo: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A new file for the offsets (default rota-undo-TIME.csv)."),
    ] = None,
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """Delete committed offsets of a group, after writing them to an undo file.

    \b
    Examples:
      rota groups delete-offsets billing --topic orders --undo undo.csv --bootstrap-server 127.0.0.1:9092
      rota groups reset-offsets billing --from-file undo.csv --create --execute --bootstrap-server 127.0.0.1:9092
    """
    with ending(as_json):
        name = one_group(group, option_group)
        options.refuse_scope("", topics, all_topics)
        file = undo or Path(f"rota-undo-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.csv")
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            from rota.groups import changes, render

            [described] = cluster.describe([name])
            offsets = changes.offsets_to_delete(described, cluster.committed(name), topics)
            changes.delete_offsets(cluster, name, offsets, file)
        reached = options.again(bootstrap_server, command_config, properties)
        typer.echo(render.offsets_deleted(name, offsets, str(file), reached, as_json=as_json))


@app.command("remove-member")
def remove_member(
    group: options.OneGroup = None,
    option_group: options.OptionOneGroup = None,
    member: Annotated[str | None, typer.Option(metavar="ID", help="The member id.")] = None,
    instance: Annotated[str | None, typer.Option(metavar="ID", help="The member's group.instance.id.")] = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason that the broker logs.")
    ] = "removed by rota groups",
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """Remove a member from its group, which rebalances. A client that still runs rejoins.

    \b
    Examples:
      rota groups remove-member billing --member ana-1f0c8a2e --reason 'its host is gone' --bootstrap-server ...
      rota groups remove-member billing --instance pod-3 --bootstrap-server 127.0.0.1:9092
    """
    with ending(as_json):
        name = one_group(group, option_group)
        if (member is None) == (instance is None):
            raise misused("give --member or --instance, one of them")
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            from rota.groups import changes, render

            [described] = cluster.describe([name])
            found = changes.member_of(described, member, instance)
            changes.remove(cluster, name, found, reason)
        said = {"group": name, "member_id": found.member_id, "instance_id": found.instance_id, "reason": reason}
        text = f"removed {render.plain(found.member_id)} from {render.plain(name)}"
        typer.echo(json.dumps(said) if as_json else text)


@app.command()
def watch(
    groups: options.Groups = None,
    option_groups: options.OptionGroups = None,
    all_groups: options.AllGroups = False,
    regex: options.Regex = None,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.1, max=3600, metavar="SECONDS", help="Time between updates.")
    ] = 2.0,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N updates.")] = None,
    bootstrap_server: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    properties: options.Properties = None,
    timeout_ms: options.Timeout = TIMEOUT_MS,
    as_json: options.AsJson = False,
) -> None:
    """Print state, members, lag and its trend, one line per group and update. With --json, each update is one line of
    JSON. Stops on Ctrl-C, or after --count updates. --regex and --all-groups include groups that appear later; a
    group that disappears is reported.

    \b
    Example:
      rota groups watch billing --interval 5 --bootstrap-server 127.0.0.1:9092
    """
    with ending(as_json):
        wanted: list[str] | re.Pattern[str] = selection(groups, option_groups, all_groups, regex)
        with connected(bootstrap_server, command_config, properties, timeout_ms) as cluster:
            from rota.groups.watching import follow

            follow(cluster, lambda: selected(cluster, wanted), interval_s, count, as_json=as_json)
