"""What CONTRIBUTING.md promises about commands, as functions from a command to a list of complaints.

`test_conventions.py` runs them on every command of `rota`, and on commands with planted violations. The tables in
CONTRIBUTING.md are the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.checks.tidy import ROOT

PAGE = ROOT / "CONTRIBUTING.md"
NAME = re.compile(r"--[a-z]+(-[a-z]+)*")
EXIT_CODE = re.compile(r"[Ee]xit code (\d+)|(?<=[.;] )(\d+): ")
RAW_TYPE = re.compile(r"<(int|float|text|path|str|uuid|datetime)( range)?>|\b(INTEGER|FLOAT)\b")
# What Typer adds itself.
OF_TYPER = {"--help", "--install-completion", "--show-completion", "--version"}
# An option that means something else in one command: which, and why that is no trouble.
OTHER_MEANINGS = {
    ("assign", "--from"): "a plan is a file; everything else reads a directory",
    ("assign", "--assignor"): "a server's assignors have names that no consumer of the demo knows",
    ("simulate", "--journal"): "worlds have no data directory in which the journal could be",
    ("audit", "--group"): "the groups of a log are chosen by a pattern",
    ("audit", "--engine"): "what checks the logs; that of a server is the store that servers share",
    ("audit", "--once"): "it ends with the log, which is not a number of looks",
    ("groups describe", "--members"): "Kafka's own option",
    ("groups describe", "--state"): "Kafka's own option",
}


class Conventions(NamedTuple):
    """The tables of CONTRIBUTING.md."""

    codes: dict[int, str]
    """Exit code to the name of its constant in `rota.exits`."""
    values: set[str]
    """What stands for a value."""
    instead_of: dict[str, str]
    """A name that no option has to the one that means the same."""


def tables() -> Conventions:
    """As the page has them."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    codes = {int(row[0]): row[1].strip("`") for row in rows if row[0].isdigit()}
    values = {name for row in rows if len(row) == 2 for name in re.findall(r"`([^`]+)`", row[0])}
    named = [(row[0].strip("`").split()[0], row[1]) for row in rows if row[0].startswith("`--")]
    instead_of = {old: new for new, olds in named for old in re.findall(r"`(--[a-z-]+)`", olds)}
    return Conventions(codes, {value for value in values if not value.startswith("--")}, instead_of)


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command, by its words, groups of commands that run by themselves among them."""
    below = getattr(command, "commands", None)
    if below is None or getattr(command, "invoke_without_command", False):
        yield " ".join(path), command
    for name, found in (below or {}).items():
        yield from leaves(found, (*path, name))


def options(command: Any) -> list[Any]:
    """The options of a command that its help shows, without those that Typer adds."""
    shown = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    return [one for one in shown if not OF_TYPER & set(one.opts)]


def of_names(words: str, command: Any, known: Conventions) -> list[str]:
    """Names that are not spelled as all others are, or that have another name elsewhere."""
    found = []
    for option in options(command):
        name = option.opts[0]
        found += [f"{words} {each}: not --lower-case-words" for each in option.opts if not NAME.fullmatch(each)]
        if name in known.instead_of and (words, name) not in OTHER_MEANINGS:
            found.append(f"{words} {name}: it is called {known.instead_of[name]} elsewhere")
    return found


def of_values(words: str, command: Any, known: Conventions) -> list[str]:
    """Values whose form or unit the help does not say."""
    found = []
    for option in options(command):
        name, value = option.opts[0], option.metavar
        if value is not None and value not in known.values:
            found.append(f"{words} {name}: {value} is not in the table")
        if (value == "MS") != name.endswith("-ms"):
            found.append(f"{words} {name}: an option has milliseconds if and only if its name ends in -ms")
    return found


def of_help(words: str, command: Any, known: Conventions) -> list[str]:
    """Help that leaves something out, and exit codes that no table has."""
    found = [
        f"{words} {option.opts[0]}: its help is no sentence"
        for option in options(command)
        if not (option.help or "").endswith(".")
    ]
    codes = {int(one or two) for one, two in EXIT_CODE.findall(" ".join((command.help or "").split()))}
    return found + [f"{words}: exit code {code} is not in the table" for code in sorted(codes - known.codes.keys())]


def of_json(words: str, command: Any, _known: Conventions) -> list[str]:
    """Results that scripts cannot read."""
    return [] if any("--json" in option.opts for option in options(command)) else [f"{words}: it has no --json"]


def of_meanings(commands: list[tuple[str, Any]]) -> list[str]:
    """One name with values of two forms."""
    forms: dict[str, dict[str | None, str]] = {}
    for words, command in commands:
        for option in options(command):
            if (words, option.opts[0]) not in OTHER_MEANINGS:
                forms.setdefault(option.opts[0], {}).setdefault(option.metavar, words)
    return [f"{name}: {values}" for name, values in forms.items() if len(values) > 1]


CHECKS = (of_names, of_values, of_help, of_json)


def complaints(commands: list[tuple[str, Any]], known: Conventions) -> list[str]:
    """All of them."""
    found = [line for words, command in commands for check in CHECKS for line in check(words, command, known)]
    return found + of_meanings(commands)
