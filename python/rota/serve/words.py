"""The command line of `rota serve`, where it is plain enough to be read without Typer.

What is not plain - help, whatever may be wrong - is Typer's, which says what it means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rota._rota import ConfigError
from rota.config.options import OPTIONS, Option, UnfitError, Value
from rota.config.sources import FILE_VARIABLE, Resolved, Told, configured
from rota.exits import MISUSED, fail

BY_FLAG = {option.flag: option for option in OPTIONS.values()}
PATHS = {
    *("acls", "data", "engine_ca", "engine_cert", "engine_key", "engine_password_file"),
    *("peer_ca", "peer_cert", "peer_key", "peer_password_file"),
    *("journal_dir", "jwks_ca", "tls_cert", "tls_client_ca", "tls_key", "users"),
}


class Asked(NamedTuple):
    """What `rota serve` is to do."""

    told: Resolved
    as_json: bool


class NotPlainError(ValueError):
    """These words are Typer's."""


def chosen(pairs: Sequence[str]) -> dict[str, Told]:
    """What `--set KEY=VALUE ...` says; of a name that comes twice the last one counts."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            fail(MISUSED, f"--set is `{pair}`: give KEY=VALUE, such as group.initial.rebalance.delay.ms=0")
        settings[name.strip()] = Told(value.strip(), "flag --set")
    return settings


def plain(words: Sequence[str]) -> Asked | None:
    """What the words behind `rota serve` ask for; `None`: they have to be read by Typer."""
    try:
        flags, pairs, file, as_json = read(words)
    except NotPlainError:
        return None
    try:
        return Asked(configured(chosen(pairs) | flags, file), as_json)
    except ConfigError as error:
        fail(MISUSED, str(error))


def read(words: Sequence[str]) -> tuple[dict[str, Told], list[str], Path | None, bool]:
    """Flags by the name of their option, the pairs of `--set`, the file, and whether `--json` is given."""
    flags: dict[str, Told] = {}
    pairs: list[str] = []
    named, as_json = os.environ.get(FILE_VARIABLE) or None, False
    left = iter(words)
    for word in left:
        flag, equals, given = word.partition("=")
        option = BY_FLAG.get(flag.replace("--no-", "--", 1))
        if word == "--json":
            as_json = True
        elif option is not None and isinstance(option.default, bool) and not equals:
            flags[option.name] = Told(not flag.startswith("--no-"), f"flag {option.flag}")
        elif flag in ("--set", "--config"):
            value = argument(given if equals else None, left)
            if flag == "--set":
                pairs.append(value)
            else:
                named = value
        elif option is not None and option.flag == flag:
            flags[option.name] = Told(fitting(option, argument(given if equals else None, left)), f"flag {flag}")
        else:
            raise NotPlainError
    return flags, pairs, None if named is None else Path(named), as_json


def argument(given: str | None, left: Iterator[str]) -> str:
    """What stands behind `=`, or else the next word."""
    value = next(left, "") if given is None else given
    if not value or value.startswith("-"):
        raise NotPlainError
    return value


def fitting(option: Option, text: str) -> Value:
    """The value as Typer would give it."""
    if isinstance(option.default, bool) or (isinstance(option.default, int) and not text.isdecimal()):
        raise NotPlainError
    try:
        value = option.fitting(text)
    except UnfitError:
        raise NotPlainError from None
    return str(Path(text)) if option.name in PATHS else value
