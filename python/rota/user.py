"""`rota user`: the users file of `rota serve --users`. It has credentials of SCRAM, and no passwords."""

from __future__ import annotations

import getpass
import json
import os
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from rota import _rota
from rota.exits import MISUSED, NOT_FOUND, fail, file_to_replace
from rota.system import keep_owner_and_mode, locked

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CREDENTIAL_WORDS = 3

app = typer.Typer(
    help="Manage the users file of rota serve: add, list, remove.", no_args_is_help=True, rich_markup_mode=None
)

UsersFile = Annotated[Path, typer.Argument(metavar="FILE", help="The users file.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user name: ASCII without blanks.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Read the password from the first line of FILE (default: ask, or read stdin)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


@app.callback()
def main() -> None:
    """Manage the users file of rota serve: add, list, remove."""


@app.command()
def add(file: UsersFile, name: Name, password_file: PasswordFile = None, as_json: AsJson = False) -> None:
    """Add a user, or change the password of one. The file is created with mode 0600. A running server reads it again
    within three seconds.

    \b
    Examples:
      rota user add users ana
      rota user add users ana --password-file ana.password
    """
    file_to_replace(file)
    # A wrong file is refused before a password is typed.
    lines_of(file, must_exist=False)
    try:
        lines = _rota.user_lines(name, password_of(name, password_file))
    except ValueError as error:
        fail(MISUSED, str(error))
    with alone(file):
        before = lines_of(file, must_exist=False)
        kept = [line for line in before if user_of(line) != name]
        replace(file, [*kept, *lines])
    is_new = len(kept) == len(before)
    done = f"added {name} to {file}" if is_new else f"changed the password of {name} in {file}"
    say({"added" if is_new else "changed": name, "file": str(file)}, done, as_json=as_json)


@app.command("list")
def list_users(file: UsersFile, as_json: AsJson = False) -> None:
    """List the users of a file with their mechanisms.

    \b
    Examples:
      rota user list users
    """
    users: dict[str, list[str]] = {}
    for line in lines_of(file):
        words = line.split()
        if user_of(line) is not None:
            users.setdefault(words[0], []).append(words[1] if len(words) > 1 else "")
    text = "\n".join(f"{name}  {', '.join(mechanisms)}" for name, mechanisms in users.items())
    say(users, text, as_json=as_json)


@app.command()
def remove(file: UsersFile, name: Name, as_json: AsJson = False) -> None:
    """Remove a user. A running server reads the file again within three seconds. Exit code 3: there is no such user.

    \b
    Examples:
      rota user remove users ana
    """
    file_to_replace(file)
    with alone(file):
        lines = lines_of(file)
        kept = [line for line in lines if user_of(line) != name]
        if len(kept) == len(lines):
            fail(NOT_FOUND, f"`{file}` has no user `{name}`: `rota user list {file}` lists them")
        replace(file, kept)
    say({"removed": name, "file": str(file)}, f"removed {name} from {file}", as_json=as_json)


def user_of(line: str) -> str | None:
    """The user that a line is about; None for an empty line or a comment."""
    words = line.split()
    return None if not words or line.startswith("#") else words[0]


def lines_of(file: Path, *, must_exist: bool = True) -> list[str]:
    """The lines of a users file. Another file is refused, so that no command changes it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        if must_exist:
            fail(MISUSED, f"there is no file `{file}`: `rota user add {file} NAME` creates it")
        return []
    except (OSError, UnicodeDecodeError) as error:
        fail(MISUSED, f"cannot read `{file}`: {error.strerror if isinstance(error, OSError) else 'it is no text'}")
    for number, line in enumerate(lines, 1):
        words = line.split()
        if user_of(line) is not None and (len(words) != CREDENTIAL_WORDS or words[1] not in MECHANISMS):
            expected = f"expected a name, {' or '.join(MECHANISMS)}, and a credential"
            fail(MISUSED, f"`{file}` is no users file: line {number}: {expected}")
    return lines


def alone(file: Path) -> AbstractContextManager[None]:
    """Commands that change the same file, also by a link to it, do so one after the other."""
    return locked(Path(os.path.realpath(file)).parent)


def password_of(name: str, file: Path | None) -> str:
    """The password: from a file, from the terminal, or from standard input."""
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").partition("\n")[0]
        except OSError as error:
            fail(MISUSED, f"--password-file is `{file}`: {error.strerror}")
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass(f"password of {name}: ")
    if getpass.getpass("again: ") != password:
        fail(MISUSED, "the two passwords differ: nothing was changed")
    return password


def replace(file: Path, lines: list[str]) -> None:
    """Write a users file at once: a server never reads half of it. Its owner and its mode stay."""
    try:
        # Of a symbolic link, the file that it names is replaced, and not the link.
        target = file.resolve()
        before = target.stat() if target.exists() else None
        # A new file has mode 0600.
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                if before is not None:
                    keep_owner_and_mode(handle, before)
                out.write("".join(f"{line}\n" for line in lines))
                out.flush()
                os.fsync(out.fileno())
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        fail(MISUSED, f"cannot write `{file}`: {error.strerror}")


def say(told: Any, text: str, *, as_json: bool) -> None:
    """A result on stdout."""
    typer.echo(json.dumps(told) if as_json else text)
