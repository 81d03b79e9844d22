"""`rota config show`: what `rota serve` would run with, and where each value comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from rota.config.options import OPTIONS, Value
from rota.config.sources import (
    DEFAULT,
    HIDDEN,
    Resolved,
    Told,
    written,
)
from rota.misuse import is_given

VALUE_MAX = 32
"""Letters of the longest value by which the others are aligned."""

app = typer.Typer(help="Show the settings of a server and their sources.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def main() -> None:
    """Show the settings of a server and their sources."""


def read_flags(context: typer.Context, settings: Mapping[str, Told]) -> dict[str, Told]:
    """What the command line of `rota serve` says; `settings` are those of `--set`."""
    found = dict(settings)
    for name, value in context.params.items():
        if name in OPTIONS and is_given(context, name):
            text = value if isinstance(value, bool | int) else str(value)
            found[name] = Told(text, f"flag {OPTIONS[name].flag}")
    return found


def shown(resolved: Resolved, effective: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Every option and every setting with its value and its source."""
    told = resolved.options | {
        name: Told(value, resolved.settings[name].source if name in resolved.settings else DEFAULT)
        for name, value in effective.items()
    }
    return {name: {"value": showable(name, one.value), "source": one.source} for name, one in told.items()}


def showable(name: str, value: Value) -> Value:
    """The value, unless it is a secret."""
    return HIDDEN if value is not None and name in OPTIONS and OPTIONS[name].is_secret else value


def serve_command() -> Any:
    """`rota serve`."""
    from rota.cli import app as rota_app

    commands: Any = typer.main.get_command(rota_app)
    return commands.commands["serve"]


class ShowCommand(TyperCommand):
    """A command whose help lists the options of `rota serve`, too."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options of the command, then those of `rota serve`."""
        from rota.serve.sections import write_sections

        super().format_options(ctx, formatter)
        own = {name for option in self.get_params(ctx) for name in option.opts}
        others = [option for option in serve_command().params if not own & set(option.opts)]
        write_sections(formatter, ctx, others, "Options of rota serve")


@app.command(
    cls=ShowCommand,
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": ["-h", "--help"],
    },
)
def show(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="Show only what is not a default.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")] = False,
) -> None:
    """Show every value that `rota serve` would use with the same options, and its source. Flags override the
    environment, which overrides the file, which overrides defaults. Nothing is opened: addresses, directories and the
    engine may be in use.

    Exit code 2, or 1 for a host that is not known: `rota serve` would refuse to start; stderr says why.

    \b
    Examples:
      rota config show
      rota config show --config rota.toml --changed
      rota config show --config rota.toml --listen :9093 --json
      ROTA_GROUP_MAX_SIZE=100 rota config show
    """
    from rota.serve.command import told_by
    from rota.serve.judging import judge
    from rota.serve.start import Start

    serve = serve_command().make_context("rota serve", list(context.args))
    told = told_by(serve, serve.params["pairs"], serve.params["config"])
    start = Start.of(told)
    found = shown(told, judge(start))
    if changed:
        found = {name: one for name, one in found.items() if one["source"] != DEFAULT}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for line in table(found):
        typer.echo(line)


def table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each value. One long value does not make all lines long."""
    rows = [(name, written(one["value"]) or "-", one["source"]) for name, one in found.items()]
    names = max((len(name) for name, _, _ in rows), default=0)
    values = max((len(value) for _, value, _ in rows if len(value) <= VALUE_MAX), default=0)
    return [f"{name:<{names}}  {value:<{values}}  {source}" for name, value, source in rows]
