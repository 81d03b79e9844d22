"""What all commands of `rota cluster` share: the options of the engine, output, progress and the ways to end."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer

import rota
from rota import _rota
from rota.cluster import EngineAccess
from rota.cluster.access import ATTEMPT_MS, URLS, access_of
from rota.cluster.options import Engine, EngineCa, EngineCert, EngineKey, EnginePasswordFile, EngineUser
from rota.config.command import read_flags
from rota.config.sources import FILE_VARIABLE, configured
from rota.exits import FAILED, INTERRUPTED, MISUSED, NOT_FOUND, UNREACHABLE, complain, on_stderr, reason_of
from rota.log import META_PROPERTIES

QUIET_S = 1.0
"""Progress is shown if a command takes longer, and no more often."""

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar=FILE_VARIABLE, help="TOML file of `rota serve` with the engine."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text, also for errors.")]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "engine": (Engine, None),
    "engine_ca": (EngineCa, None),
    "engine_cert": (EngineCert, None),
    "engine_key": (EngineKey, None),
    "engine_user": (EngineUser, None),
    "engine_password_file": (EnginePasswordFile, None),
    "config": (ConfigFile, None),
    "as_json": (AsJson, False),
}
"""Annotation and default of each option."""


@dataclass
class Reached:
    """A cluster as a command has reached it."""

    engine: _rota.EngineOperator
    as_json: bool
    _told_s: float = field(default_factory=time.monotonic)

    def show(self, facts: object, lines: Iterable[str]) -> None:
        """Print the result: the facts as JSON, or the lines."""
        if self.as_json:
            typer.echo(json.dumps(facts, indent=2))
            return
        for line in lines:
            typer.echo(line)

    def tell(self, text: str) -> None:
        """Print progress on stderr, now and then."""
        if time.monotonic() - self._told_s >= QUIET_S:
            self._told_s = time.monotonic()
            complain(text)

    def fail(self, code: int, message: str) -> NoReturn:
        """End the command."""
        end(code, message, as_json=self.as_json)


NAMES = {FAILED: "Failed", MISUSED: "Misused", NOT_FOUND: "NotFound", UNREACHABLE: "Unreachable"}


def end(code: int, message: str, *, as_json: bool) -> NoReturn:
    """End the command with one line on stderr, of JSON if that is asked for."""
    line = " ".join(message.split())
    if as_json:
        on_stderr(json.dumps({"error": NAMES.get(code, "Failed"), "message": line}))
    else:
        complain(line)
    raise SystemExit(code)


@contextmanager
def ending(*, as_json: bool) -> Iterator[None]:
    """What goes wrong ends the command with its exit code."""
    try:
        yield
    except rota.NotFoundError as error:
        end(NOT_FOUND, str(error), as_json=as_json)
    except rota.EngineError as error:
        end(UNREACHABLE, str(error), as_json=as_json)
    except rota.ConfigError as error:
        end(MISUSED, str(error), as_json=as_json)
    except rota.RotaError as error:
        end(FAILED, str(error), as_json=as_json)
    except ValueError as error:
        end(MISUSED, str(error), as_json=as_json)
    except BrokenPipeError:
        # Of stdout, whose reader has what it wanted.
        raise
    except OSError as error:
        end(FAILED, reason_of(error), as_json=as_json)
    except KeyboardInterrupt:
        end(INTERRUPTED, "interrupted; what was written stays, and `rota cluster plan` shows it", as_json=as_json)


@dataclass
class Named:
    """An engine that a command was given, and has not reached yet."""

    url: str
    access: EngineAccess
    as_json: bool

    def prepare(self) -> tuple[str, str]:
        """The engine without password, and what was done. Raises rota.EngineError, rota.RotaError and ValueError."""
        return _rota.EngineOperator.prepare(self.url, self.access.arguments(), ATTEMPT_MS)

    def begin(self) -> Reached:
        """The engine, with or without a cluster on it. Raises as `reach`."""
        return Reached(_rota.EngineOperator(self.url, self.access.arguments(), ATTEMPT_MS, True), self.as_json)

    def locked(self, directory: Path) -> _rota.DataLog:
        """A whole data directory that no server uses meanwhile. Ends the command if it is not one."""
        try:
            log = _rota.DataLog(directory, lock=True)
        except OSError as error:
            code = FAILED if (directory / META_PROPERTIES).exists() else MISUSED
            end(code, str(error), as_json=self.as_json)
        if damage := log.damage():
            end(FAILED, f"{damage[0]}; restore it from a copy, or see `rota log repair`", as_json=self.as_json)
        return log

    def reach(self) -> Reached:
        """The cluster on it. Raises rota.EngineError, rota.NotFoundError and ValueError."""
        return Reached(_rota.EngineOperator(self.url, self.access.arguments(), ATTEMPT_MS), self.as_json)


def named(context: typer.Context, file: Path | None, *, as_json: bool) -> Named:
    """The engine that the options name."""
    told = configured(read_flags(context, {}), file)
    url = told["engine"]
    if url is None:
        end(MISUSED, f"--engine is missing: give {URLS}, or set ROTA_ENGINE", as_json=as_json)
    return Named(url, access_of(told), as_json)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is a `Reached`, with the options that say which cluster."""
    return _with_options(command, "cluster", Named.reach)


def on_engine(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is a `Named`, with the same options."""
    return _with_options(command, "engine", lambda found: found)


def _with_options(command: Callable[..., None], name: str, reach: Callable[[Named], object]) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    first, *own = inspect.signature(command).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in OPTIONS.items()
    ]
    mine = [each.replace(kind=keyword, annotation=hints[each.name]) for each in own]
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    parameters = [context, *mine, *shared]

    @wraps(command)
    def with_options(context: typer.Context, **values: Any) -> None:
        options = {name: values.pop(name) for name in OPTIONS}
        as_json = options["as_json"]
        with ending(as_json=as_json):
            command(reach(named(context, options["config"], as_json=as_json)), **values)

    del with_options.__wrapped__
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    assert first.name == name
    return with_options
