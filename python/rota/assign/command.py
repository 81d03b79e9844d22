"""`rota assign`: a plan for a group in a file, and what a change of its members would move."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rota._rota import InputError
from rota.assign import planning
from rota.exits import MISUSED, fail

ASSIGNORS = "range, roundrobin, sticky, cooperative-sticky, uniform or server-range"


def assign(
    source: Annotated[str, typer.Option("--from", metavar="FILE", help="The group, as JSON; - reads stdin.")],
    assignor: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"{ASSIGNORS}; sticky unless the file says otherwise.")
    ] = None,
    add: Annotated[int, typer.Option(min=0, max=10_000, metavar="N", help="N members join.")] = 0,
    remove: Annotated[list[str] | None, typer.Option(metavar="MEMBER", help="This member leaves; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON that --from can read.")] = False,
) -> None:
    """Plan an assignment of partitions, and print what moves.

    \b
    The file:
      {"partitions": {"orders": 12},
       "members": {"c1": ["orders"], "c2": {"topics": ["orders"], "owned": {"orders": [0, 1]}}}}

    A member is a list of topics, or has `topics` and any of `owned`, `generation`, `instance_id` and `rack`; `racks`
    lists the racks of each partition's replicas by topic. If no member owns a partition, rota plans the group first,
    then applies the change. Joining members subscribe to all topics of the group.

    \b
    Examples:
      rota assign --from plan.json
      rota assign --from plan.json --add 2
      rota assign --from plan.json --assignor cooperative-sticky --remove c1 --json
    """
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        fail(MISUSED, f"cannot read `{source}`: {reason}")
    try:
        outcome = planning.change(planning.read(text, assignor), add, remove or [])
    except InputError as error:
        fail(MISUSED, f"{source}: {error}")
    typer.echo(json.dumps(planning.as_json(outcome), indent=2) if as_json else planning.as_text(outcome))
