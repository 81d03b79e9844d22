"""A wrong command line as one line: which option, with which value, and what to give instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer

# Typer brings its own copy of click, or imports it: its public exceptions lead to the class of both.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

PATHS = frozenset(("DIR", "FILE", "PATH...", "SRC", "DST"))
"""What values are called that are paths: those may have any bytes, and no path is empty."""
LIKENESS_MIN = 0.8
"""How alike a word and a name are, by difflib, for the name to be what was meant: `lisen` and `listen`, not `lag` and
`log`."""
TOPICS = "create topics with any Kafka client; docs/operating.md has an example"
MEANT = {
    **dict.fromkeys(("lag", "offsets"), "`rota groups describe GROUP` shows the offsets and the lag of a group"),
    **dict.fromkeys(
        ("consumers", "consumer-groups", "kafka-consumer-groups", "kafka-consumer-groups.sh"),
        "`rota groups` has the commands of Kafka's tool",
    ),
    **dict.fromkeys(("topic", "topics", "kafka-topics", "kafka-topics.sh"), TOPICS),
    "status": "`rota top` shows all groups of a server, and `rota why GROUP` explains one",
    "stop": "Ctrl-C or SIGTERM ends `rota serve`",
    **dict.fromkeys(("start", "run", "server", "broker"), "`rota serve` runs a server"),
    **dict.fromkeys(("acl", "acls"), "Kafka's kafka-acls.sh changes ACLs; docs/security.md describes them"),
    "version": "`rota --version` prints it",
    "help": "`rota -h` lists the commands",
}
"""What to do instead, by the words that newcomers try as commands of `rota`."""
OPTIONS_MEANT = {
    "--partitions": "give --set num.partitions=N",
    **dict.fromkeys(("--topic", "--topics"), TOPICS),
    "--port": "give --listen :PORT",
    "--host": "give --listen HOST:PORT",
    "--verbose": "give --log-format text for events, or --trace for requests",
}
"""The same for options of `rota serve`."""
NUMBERS = {int: "a whole number", list[int]: "a whole number", float: "a number"}


def line(error: Any) -> str:
    """What to print after `rota: `."""
    kind = type(error).__name__
    known = _commands_help(error)
    if kind == "MissingParameter":
        return f"{_named(error.param)} is missing; {known}"
    if kind == "NoSuchOption":
        return f"there is no option {error.option_name}{_of_commands(error) or _of_options(error) or f'; {known}'}"
    said = _plain(error.message)
    if unknown := re.fullmatch(r"no such command `(.*?)`(: .*)?", said, re.DOTALL):
        return f"no such command `{unknown[1]}`{_of_names(error, unknown[1]) or f'; {known}'}"
    if extra := re.fullmatch(r"got unexpected extra arguments? \((.*)\)", said.replace("(s)", "")):
        return f"unexpected argument `{extra[1]}`; {known}"
    if isinstance(error, typer.BadParameter) and error.param is not None:
        value = _value(error)
        given = "" if value is None else f" is `{value}`"
        return f"{_named(error.param)}{given}: {_wanted(error.param) or _choices(said) or said}"
    return said if said.endswith("?") else f"{said}; {known}"


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line has an option, by the name of its parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def behind(path: str, command: str, option: str) -> str:
    """What to do with an option in front of a command that has it."""
    return f" here: write it behind the command, as in `{path} {command} {option}`"


def _of_commands(error: Any) -> str:
    """What to give instead of an option in front of the commands of a group: a command, or the option behind one."""
    if error.ctx is None or error.ctx.parent is None:
        return ""
    commands: dict[str, Any] = dict(getattr(error.ctx.command, "commands", {}))
    path, option = error.ctx.command_path, error.option_name
    with_it = [name for name, each in commands.items() if any(option in parameter.opts for parameter in each.params)]
    if len(with_it) == 1:
        return behind(path, with_it[0], option)
    if with_it:
        return f"{behind(path, 'COMMAND', option)}; COMMAND is {', '.join(with_it[:-1])} or {with_it[-1]}"
    found = near(option.lstrip("-"), commands)
    return "" if found is None else f": did you mean the command `{path} {found}`?"


def _of_options(error: Any) -> str:
    """What to give instead of an option that a command does not have: another option, or an argument."""
    if error.ctx is None:
        return ""
    name, parameters = error.option_name, error.ctx.command.params
    if error.ctx.command.name == "serve" and name in OPTIONS_MEANT:
        return f": {OPTIONS_MEANT[name]}"
    if any(each.param_type_name == "argument" and _named(each).lower() == name.lstrip("-") for each in parameters):
        return f": give the value by itself, as in `{error.ctx.command_path} {name.lstrip('-').upper()}`"
    options = {option.lstrip("-"): option for each in parameters for option in (*each.opts, *each.secondary_opts)}
    found = near(name.lstrip("-"), options)
    return "" if found is None else f": did you mean {options[found]}?"


def _of_names(error: Any, word: str) -> str:
    """What to give instead of a command that a group does not have."""
    if error.ctx is None:
        return ""
    if error.ctx.parent is None and word in MEANT:
        return f": {MEANT[word]}"
    found = near(word, error.ctx.command.commands)
    return "" if found is None else f": did you mean `{found}`?"


def near(word: str, names: Iterable[str]) -> str | None:
    """The name that a word is the beginning of, or is most like; None if none is close enough to be meant."""
    # Only a mistake needs it.
    import difflib

    known = list(names)
    # One letter is the beginning of anything.
    longer = [name for name in known if len(word) > 1 and name.startswith(word)]
    if len(longer) == 1:
        return longer[0]
    found = difflib.get_close_matches(word, known, n=1, cutoff=LIKENESS_MIN)
    return found[0] if found else None


def _commands_help(error: Any) -> str:
    return (
        "`rota -h` lists what there is" if error.ctx is None else f"`{error.ctx.command_path} -h` lists what there is"
    )


def _named(param: Any) -> str:
    """`--seed`, or `GROUP`."""
    if param.param_type_name == "option":
        return str(param.opts[0])
    return str(param.metavar or param.name.upper())


def check_texts(parameter: Any) -> None:
    """Have a parameter refuse an empty path, which would be the working directory, and names that are not UTF-8, which
    no server has."""
    process = parameter.process_value

    def process_value(context: Any, value: Any) -> Any:
        for text in value if isinstance(value, list | tuple) else [value]:
            reason = _unfit(parameter, text) if isinstance(text, str) else ""
            if reason:
                error: Any = typer.BadParameter(reason, ctx=context, param=parameter)
                error.given = shown(text)
                raise error
        return process(context, value)

    parameter.process_value = process_value


def _unfit(parameter: Any, text: str) -> str:
    if parameter.metavar in PATHS:
        return "" if text else "give a path"
    return "" if shown(text) == text else "it is not UTF-8"


def shown(text: str) -> str:
    """A word of the command line with the bytes in hexadecimal that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _value(error: Any) -> object:
    """The value as it was given, where the library says it."""
    if (given := getattr(error, "given", None)) is not None:
        return given
    errors = getattr(error.__cause__, "errors", None)
    return errors()[0].get("input") if callable(errors) else None


def _wanted(param: Any) -> str:
    """What a number has to be, from the option's own type and range; empty for other values."""
    descriptor = getattr(param, "type_descriptor", None)
    noun = NUMBERS.get(getattr(descriptor, "annotation", None))  # type: ignore[arg-type]
    if noun is None:
        return ""
    low, high = getattr(param, "min", None), getattr(param, "max", None)
    if low is not None and high is not None:
        return f"give {noun} from {low} to {high}"
    if low is not None:
        return f"give {noun}, {low} or more"
    return f"give {noun}"


def _choices(said: str) -> str:
    """What to give instead of a value that is not one of those that the library lists; empty for other errors."""
    _, is_list, names = said.partition(" is not one of ")
    return f"give one of {names.replace('`', '')}" if is_list else ""


def _plain(message: str) -> str:
    """Without the full stop, and beginning in lower case."""
    text = message.strip().removesuffix(".").removeprefix("Value error, ").replace("'", "`")
    text = text.replace(". Did you mean", ": did you mean")
    return text[:1].lower() + text[1:]
