"""Kafka's own way to call its tool: `--describe --group g` for `describe g`, and `--state` without a value."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from typer.core import TyperCommand, TyperGroup

from rota.groups.errors import misused
from rota.groups.options import ending

ACTIONS = {f"--{name}": name for name in ("list", "describe", "reset-offsets", "delete", "delete-offsets")}
VALUE_OPTIONAL = ("--state", "--type")


def as_command(arguments: list[str]) -> list[str]:
    """The action that is an option as the command that it is."""
    if not arguments or not arguments[0].startswith("--"):
        return arguments
    actions = [argument for argument in arguments if argument in ACTIONS]
    if len(set(actions)) > 1:
        raise misused(f"{actions[0]} and {actions[1]} are two commands: give one of them")
    if not actions:
        return arguments
    return [ACTIONS[actions[0]], *(argument for argument in arguments if argument not in ACTIONS)]


def without_bare(arguments: list[str]) -> list[str]:
    """`--state` and `--type` are dropped where no value follows: both are always shown."""
    return [
        argument
        for argument, after in pairwise([*arguments, "--"])
        if argument not in VALUE_OPTIONAL or not after.startswith("-")
    ]


class KafkaStyle(TyperGroup):
    """The commands of `rota groups`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `as_command`."""
        with ending("--json" in args):
            args = as_command(args)
        return super().parse_args(ctx, args)


class ListStyle(TyperCommand):
    """`rota groups list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `without_bare`."""
        return super().parse_args(ctx, without_bare(args))
