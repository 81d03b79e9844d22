"""Where values come from, and which one counts."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rota._rota import ConfigError, nearest
from rota.config.options import OPTIONS, UnfitError, Value
from rota.server import Server

PREFIX = "ROTA_"
FILE_VARIABLE = "ROTA_CONFIG"
TABLES = ("server", "kafka")
DEFAULT = "default"
HIDDEN = "(hidden)"
OF_JOURNAL = ("journal_dir", "journal_retention_bytes", "journal_retention_ms")
"""What is without effect if a source that counts more has turned the journal off."""


class Told(NamedTuple):
    """A value, and who said it: `file rota.toml`, `environment ROTA_LISTEN`, `flag --listen`, `default`."""

    value: Value
    source: str


@functools.cache
def kafka_defaults() -> dict[str, str]:
    """Kafka's settings by name, with the defaults that a server has for them: it is asked, once."""
    with Server() as server:
        return server.settings()


def variable_of(name: str) -> str:
    """What the environment calls an option or a setting."""
    return PREFIX + name.upper().replace(".", "_")


class Resolved:
    """What a server is run with: rota's options, and those of Kafka's settings that are not left as they are."""

    def __init__(self, options: dict[str, Told], settings: dict[str, Told]) -> None:
        self.options = options
        self.settings = settings

    def __getitem__(self, name: str) -> Any:
        """The value of an option."""
        return self.options[name].value

    def has(self, name: str) -> bool:
        """Whether a setting is given, and not empty."""
        told = self.settings.get(name)
        return told is not None and told.value != ""

    def written(self) -> dict[str, str]:
        """The settings as `rota.Server` takes them."""
        return {name: written(told.value) for name, told in self.settings.items()}

    def blame(self, message: str) -> str:
        """An error of the server's, with the source of every setting that it names and that no flag gave.

        Names that flags gave are compared with the server's here: a server without mistakes does without it.
        """
        stranger = next((name for name in self.settings if name not in kafka_defaults()), None)
        if stranger is not None:
            return str(unknown(stranger, kafka_defaults()))
        named = {name: told.source for name, told in self.settings.items() if f"`{name}`" in message}
        sources = [f"`{name}` is from {source}" for name, source in named.items() if not source.startswith("flag")]
        return "; ".join([message, *sources])

    def called(self, name: str) -> str:
        """An option, as the one who gave it knows it."""
        source = self.options[name].source
        return OPTIONS[name].flag if source == DEFAULT or source.startswith("flag") else f"{source}: {name}"


def written(value: Value) -> str:
    """A value as files and variables have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def unknown(name: str, known: Iterable[str], source: str | None = None) -> ConfigError:
    """The error about a name that does not exist."""
    # Only a mistake needs it.
    from rota.config.lacking import hint

    said = f"unknown setting `{name}`{hint(name, known)}"
    return ConfigError(said if source is None else f"{source}: {said}")


def flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """`group.max.size = 10` in TOML is a table in a table: the names as they were written."""
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from flat(value, name)
        else:
            yield name, value


def read_file(path: Path) -> dict[str, Told]:
    """The options and settings of a TOML file, tables [server] and [kafka]. Raises ConfigError."""
    import tomllib

    source = f"file {path}"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not a TOML file: {error}"
        if path.suffix == ".properties" and not isinstance(error, OSError):
            reason = "rota reads TOML: put the settings into its table [kafka], texts in quotes (docs/operating.md)"
        raise ConfigError(f"{source}: {reason}") from None
    found: dict[str, Told] = {}
    for table, content in tables.items():
        if table not in TABLES or not isinstance(content, Mapping):
            raise ConfigError(f"{source}: `{table}` stands outside of the tables [server] and [kafka]")
        names: Iterable[str] = OPTIONS if table == "server" else kafka_defaults()
        for name, value in flat(content):
            if name not in names:
                other = "kafka" if table == "server" else "server"
                if name in (OPTIONS if other == "server" else kafka_defaults()):
                    raise ConfigError(f"{source}, [{table}]: `{name}` belongs to the table [{other}]")
                raise unknown(name, names, f"{source}, [{table}]")
            if not isinstance(value, str | int):
                raise ConfigError(f"{source}: `{name}` is `{value}`: give a text, a whole number, true or false")
            found[name] = Told(value, source)
    return found


def read_environment(environment: Mapping[str, str]) -> dict[str, Told]:
    """What ROTA_ variables say that are not empty. Raises ConfigError for one that looks mistyped."""
    ours = {name: value for name, value in environment.items() if name.startswith(PREFIX) and value}
    ours.pop(FILE_VARIABLE, None)
    variables = {variable_of(name): name for name in OPTIONS}
    if ours.keys() - variables.keys():
        variables |= {variable_of(name): name for name in kafka_defaults()}
    for variable in ours.keys() - variables.keys():
        # Others belong to other programs: a Kubernetes service named `rota` sets ROTA_PORT and ROTA_SERVICE_HOST.
        names = [known.removeprefix(PREFIX) for known in variables]
        if nearest(variable.removeprefix(PREFIX), names, misspelt=True) is not None:
            raise unknown(variable, variables, "environment")
    return {
        variables[variable]: Told(value, f"environment {variable}")
        for variable, value in ours.items()
        if variable in variables
    }


def resolve(*sources: Mapping[str, Told]) -> Resolved:
    """What the sources say together; a later one counts more. Raises ConfigError for a value that cannot be."""
    together: dict[str, Told] = {}
    rank: dict[str, int] = {}
    for at, source in enumerate(sources):
        together |= source
        rank |= dict.fromkeys(source, at)
    options = {name: Told(option.default, DEFAULT) for name, option in OPTIONS.items()}
    settings: dict[str, Told] = {}
    for name, told in together.items():
        if name not in OPTIONS:
            settings[name] = told
            continue
        try:
            options[name] = Told(OPTIONS[name].fitting(told.value), told.source)
        except UnfitError as error:
            value = HIDDEN if OPTIONS[name].is_secret else written(told.value)
            raise ConfigError(f"{told.source}: `{name}` is `{value}`: give {error}") from None
    if options["journal"].value is False:
        for name in OF_JOURNAL:
            if rank.get(name, 0) < rank.get("journal", 0):
                options[name] = Told(OPTIONS[name].default, DEFAULT)
    return Resolved(options, settings)


def configured(flags: Mapping[str, Told], file: Path | None) -> Resolved:
    """What flags, environment and file say together. Raises ConfigError."""
    return resolve({} if file is None else read_file(file), read_environment(os.environ), flags)
