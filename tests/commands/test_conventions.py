"""Every command keeps the conventions of CONTRIBUTING.md, and each check finds a planted violation."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from rota import cli, exits
from rota.cli import RENAMED, app
from rota.serve import sections

from . import conventions

COMMANDS = list(conventions.leaves(typer.main.get_command(app)))
KNOWN = conventions.tables()
# What a command needs before its other options are looked at.
NEEDED = {
    "assign": ["--from", "-"],
    "audit --since": ["."],
    "audit --until": ["."],
    "groups reset-offsets --to-datetime": ["g", "--all-topics"],
    "groups reset-offsets": ["g", "--all-topics", "--to-latest"],
    "groups describe": ["g"],
    "groups delete": ["g"],
    "groups delete-offsets": ["g", "--all-topics"],
    "groups remove-member": ["g", "--member", "m"],
    "groups watch": ["g"],
    "conform --against": ["--bootstrap-server", "127.0.0.1:1"],
    "state": ["g", "--from", "."],
    "why": ["g"],
    "why --at": ["g", "--from", "."],
}


def test_every_command_keeps_the_conventions() -> None:
    assert len(COMMANDS) > 30
    assert conventions.complaints(COMMANDS, KNOWN) == []


def test_the_page_has_the_exit_codes_of_the_code() -> None:
    names = ("FAILED", "MISUSED", "NOT_FOUND", "IN_USE", "UNREACHABLE", "INTERRUPTED")
    assert KNOWN.codes == {0: ""} | {getattr(exits, name): name for name in names}


@pytest.mark.parametrize("words", [words for words, _ in COMMANDS])
def test_help_is_there_under_both_names_and_names_no_raw_type(words: str) -> None:
    short, long = (CliRunner().invoke(app, [*words.split(), name], env={"COLUMNS": "200"}) for name in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert short.stdout.startswith("Usage: ")
    assert conventions.RAW_TYPE.findall(short.stdout) == []


@pytest.mark.parametrize("words", ["", "bench", "check", "config", "groups", "log"])
def test_a_list_of_commands_cuts_no_summary(words: str) -> None:
    heading = "Commands:" if words else "Run a server:"
    listed = CliRunner().invoke(app, [*words.split(), "--help"]).stdout.partition(heading)[2]
    assert listed
    assert "..." not in listed
    assert listed.rstrip().endswith(".")


def test_the_help_of_rota_has_every_command_in_a_section() -> None:
    shown = CliRunner().invoke(app, ["-h"]).stdout
    headings = [line.rstrip(":") for line in shown.splitlines() if re.fullmatch(r"[A-Z].*:", line)]
    assert headings == ["Options", *cli.SECTIONS]
    for name in cli.COMMANDS:
        assert len(re.findall(rf"^  {name} ", shown, re.MULTILINE)) == 1


@pytest.mark.parametrize(("words", "first"), [("serve", "Options"), ("config show", "Options of rota serve")])
def test_the_help_of_a_server_has_every_option_once_in_a_section(words: str, first: str) -> None:
    shown = CliRunner().invoke(app, [*words.split(), "-h"], env={"COLUMNS": "200"}).stdout
    headings = [line.rstrip(":") for line in shown.splitlines() if re.fullmatch(r"[A-Z].*:", line)]
    assert headings == [*dict.fromkeys(["Options", first]), *sections.SECTIONS]
    serve, listed = dict(COMMANDS)["serve"], shown.partition("\nOptions:\n")[2]
    for option in conventions.options(serve):
        assert len(re.findall(rf"^  {option.opts[0]}\b(?!-)", listed, re.MULTILINE)) == 1, option.opts
    in_sections = {name for names in sections.SECTIONS.values() for name in names}
    assert in_sections <= {option.name for option in serve.params}


def taking(value: str) -> list[tuple[str, str]]:
    """Commands with an option that takes such a value, and the option."""
    return [
        (words, option.opts[0])
        for words, command in COMMANDS
        for option in conventions.options(command)
        if option.metavar == value
    ]


def needed(words: str, option: str) -> list[str]:
    return NEEDED.get(f"{words} {option}", NEEDED.get(words, []))


@pytest.mark.parametrize(("words", "option"), taking("HOST:PORT"))
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nowhere", "give HOST:PORT, such as 127.0.0.1:EXAMPLE"),
        ("9644", "write :9644 for a port of this machine only, or HOST:9644"),
        ("::1:9092", "write an IPv6 host in brackets, such as [::1]:EXAMPLE"),
        ("127.0.0.1:65536", "the port is 65536, give "),
    ],
)
def test_every_address_is_read_in_the_same_way(words: str, option: str, text: str, says: str) -> None:
    ended = CliRunner().invoke(app, [*words.split(), *needed(words, option), option, text])
    assert ended.exit_code == exits.MISUSED, ended.output
    # The example has the port that rota serves there.
    says = says.replace("EXAMPLE", "9644" if option in ("--http", "--control") else "9092")
    assert ended.stderr.startswith(f"rota: {option} is `{text}`: {says}"), ended.stderr


@pytest.mark.parametrize(("words", "option"), taking("TIME"))
def test_a_time_that_is_none_is_a_wrong_call(words: str, option: str) -> None:
    ended = CliRunner().invoke(app, [*words.split(), *needed(words, option), option, "yesterday"])
    assert ended.exit_code == exits.MISUSED, ended.output
    assert ended.stderr.startswith(f"rota: {option} is `yesterday`: give a time such as 2026-"), ended.stderr


@pytest.mark.parametrize("command", ["why g", "top"])
def test_a_server_that_does_not_answer_has_an_exit_code_of_its_own(command: str) -> None:
    ended = CliRunner().invoke(app, [*command.split(), "--http", ":1"])
    assert (ended.exit_code, ended.stdout) == (exits.UNREACHABLE, "")
    assert ended.stderr.startswith("rota: nothing answers at 127.0.0.1:1: "), ended.stderr


def test_former_names_still_work_and_say_which_ones_took_their_place() -> None:
    by_words = dict(COMMANDS)
    for command, former in RENAMED.items():
        names = {name for option in conventions.options(by_words[command]) for name in option.opts}
        for old, (new, *_) in former.items():
            assert (new in names, old in names) == (True, False), (command, old)
    cases = [
        (["top", "--every", "3", "--once", "--http", ":1"], ["--every", "--once"], exits.UNREACHABLE),
        (["check", "differential", "--processes=0"], ["--processes"], exits.MISUSED),
        (["conform", "--workers", "1", "--only", "none"], ["--workers"], exits.MISUSED),
        (["simulate", "--threads", "1", "--seeds", "x"], ["--threads"], exits.MISUSED),
    ]
    for arguments, olds, code in cases:
        ended = CliRunner().invoke(app, arguments)
        assert ended.exit_code == code, ended.output
        said = re.findall(r"rota: (--[a-z]+) is deprecated: use --", ended.stderr)
        assert said == olds, ended.stderr
        assert "No such option" not in ended.stderr


def test_a_shell_completes_commands_and_options() -> None:
    for words, expected in [("rota gro", "groups"), ("rota groups desc", "describe"), ("rota top --int", "--interval")]:
        asked = {"_ROTA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-m", "rota"]
        ended = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
        assert ended.stdout.split() == [expected]


def planted(**options: Any) -> list[str]:
    """The complaints about a command with these options beside `--json`."""

    def command(**_values: Any) -> None:
        """Do something. Exit code 0: done. 1: not."""

    parameters = {"as_json": Annotated[bool, typer.Option("--json", help="Write JSON.")]} | options
    command.__annotations__ = parameters
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in parameters.items()
        ]
    )
    found = typer.Typer()
    found.command()(command)
    return conventions.complaints([("planted", typer.main.get_command(found))], KNOWN)


def option(name: str, value: str | None = None, said: str = "A sentence.") -> Any:
    return Annotated[str | None, typer.Option(name, metavar=value, help=said)]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"jobs": option("--Jobs", "N")}, "planted --Jobs: not --lower-case-words"),
        ({"threads": option("--threads", "N")}, "planted --threads: it is called --jobs elsewhere"),
        ({"every": option("--every", "SECONDS")}, "planted --every: it is called --interval elsewhere"),
        ({"length": option("--length", "FURLONGS")}, "planted --length: FURLONGS is not in the table"),
        ({"wait": option("--wait", "MS")}, "planted --wait: an option has milliseconds if and only if"),
        ({"wait": option("--wait-ms", "SECONDS")}, "planted --wait-ms: an option has milliseconds if and only if"),
        ({"jobs": option("--jobs", "N", "How many")}, "planted --jobs: its help is no sentence"),
        ({"as_json": option("--yaml", "FILE")}, "planted: it has no --json"),
    ],
)
def test_planted_violations_are_found(options: dict[str, Any], complaint: str) -> None:
    (found,) = planted(**options)
    assert found.startswith(complaint)


def test_a_planted_exit_code_is_found() -> None:
    found = typer.Typer()

    @found.command()
    def one(as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False) -> None:
        """Exit code 0: done. 7: it rained."""

    command = typer.main.get_command(found)
    assert conventions.complaints([("one", command)], KNOWN) == ["one: exit code 7 is not in the table"]


def test_a_planted_second_meaning_is_found() -> None:
    found = typer.Typer()

    @found.command()
    def two(partition: Annotated[str, typer.Option(metavar="NAME", help="A partition.")] = "") -> None:
        """Nothing."""

    both = [("log dump", dict(COMMANDS)["log dump"]), ("two", typer.main.get_command(found))]
    assert conventions.of_meanings(both) == ["--partition: {'N': 'log dump', 'NAME': 'two'}"]
