"""The command `rota`, as Typer reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo

import rota
from rota import misuse
from rota.exits import MISUSED, complain, on_stderr

# Where each command is, by what it is for, in the order of `rota --help`.
SECTIONS = {
    "Run a server": {
        "demo": "rota.demo.command:demo",
        "serve": "rota.serve.command:serve",
        "config": "rota.config.command:app",
        "settings": "rota.serve.command:settings",
        "user": "rota.user:app",
        "cluster": "rota.cluster.command:app",
    },
    "Look at groups and data": {
        "groups": "rota.groups.cli:app",
        "top": "rota.top.command:top",
        "why": "rota.why.command:why",
        "log": "rota.log:app",
        "state": "rota.audit.state:state",
    },
    "Test and plan": {
        "assign": "rota.assign.command:assign",
        "simulate": "rota.simulate.command:simulate",
        "conform": "rota.conform.command:conform",
        "bench": "rota.bench.command:app",
    },
    "Check": {
        "audit": "rota.audit.command:audit",
        "plant": "rota.audit.plant.command:plant",
        "check": "rota.check.cli:app",
    },
}
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
CLASSES = {"serve": "rota.serve.sections:ServeCommand"}
"""Commands with a help of their own."""

JSON_ERRORS = {"groups": "misused", "cluster": "Misused"}
"""Commands whose errors are JSON with --json, and what each calls a wrong command line."""
JSON_ON_STDOUT = ("top", "why")
"""Commands whose errors with --json are an object on stdout, besides the line on stderr."""
WORDS = "rota.words"
"""Where the context keeps the words of the command line."""
FIRST_SENTENCE = re.compile(r"(?<=[.:;]) ")


class Commands(MutableMapping[str, Any]):
    """The commands by name. Each is imported when it is asked for: to start one does not take what all of them need."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _command(name, imported(COMMANDS[name]))
            _complete(self._loaded[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _command(name: str, found: Any) -> Any:
    """What Typer runs, of a function or of an app with commands of its own."""
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    kind = imported(CLASSES[name]) if name in CLASSES else None
    return typer.main.get_command_from_info(
        CommandInfo(name, cls=kind, callback=found), pretty_exceptions_short=True, rich_markup_mode=None
    )


def imported(place: str) -> Any:
    """What is at `MODULE:NAME`."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


# Options by their former names, of a command and the commands below it.
RENAMED: dict[str, dict[str, tuple[str, ...]]] = {
    "check": {"--processes": ("--jobs",)},
    "conform": {"--workers": ("--jobs",)},
    "simulate": {"--threads": ("--jobs",)},
    "top": {"--every": ("--interval",), "--once": ("--count", "1")},
}


def renamed(words: list[str]) -> list[str]:
    """The words with the options' present names; a former name is a warning on stderr."""
    command = next((word for word in words if not word.startswith("-")), "")
    former = RENAMED.get(command, {})
    found: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if name not in former or (equals and len(former[name]) > 1):
            found.append(word)
            continue
        option, *rest = former[name]
        found += [f"{option}{equals}{value}", *rest]
        complain(f"{name} is deprecated: use {' '.join(former[name])}")
    return found


def _complete(command: Any) -> None:
    """Show whole first sentences in lists of commands, leave out the Python types of arguments, and check texts."""
    if command.help and not command.short_help:
        first = " ".join(command.help.split("\n\n")[0].split())
        command.short_help = FIRST_SENTENCE.split(first, maxsplit=1)[0].rstrip(".;:") + "."
    for parameter in command.params:
        misuse.check_texts(parameter)
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005 - Typer's signature
    for below in getattr(command, "commands", {}).values():
        _complete(below)


@contextmanager
def misused(words: list[str]) -> Iterator[None]:
    """A wrong command line is one line on stderr, of JSON where the command's errors are, and exit code 2."""
    try:
        yield
    except misuse.UsageError as error:
        # A command without words prints its help by an error of its own.
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = words[0] if words and "--json" in words else ""
        if command in JSON_ON_STDOUT:
            from rota.why.ending import misused as ended

            ended(misuse.line(error), as_json=True)
        kind = JSON_ERRORS.get(command)
        if kind is None:
            complain(misuse.line(error))
        else:
            import json

            on_stderr(json.dumps({"error": kind, "message": misuse.line(error)}))
        raise typer.Exit(MISUSED) from None


class Rota(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `renamed`."""
        ctx.meta[WORDS] = words = renamed(args)
        with misused(words):
            # Typer takes the words out of the list.
            return super().parse_args(ctx, list(words))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands in their sections."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                found = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl([(name, each.get_short_help_str(width)) for name, each in found if each is not None])

    def invoke(self, ctx: Any) -> Any:
        """Also reads the words of the commands below."""
        with misused(ctx.meta[WORDS]):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Rota,
    help="A Kafka consumer-group coordinator for tests, development and embedding.",
    epilog="`rota COMMAND -h` has the options, exit codes and examples of a command. Begin with `rota demo`, or with"
    " `rota serve` and any Kafka client.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def print_version(wanted: bool) -> None:
    """`--version` prints the version and ends."""
    if wanted:
        typer.echo(f"rota {rota.__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def main(_version: Version = False) -> None:
    """A Kafka consumer-group coordinator for tests, development and embedding."""
