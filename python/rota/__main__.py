"""The process `rota`, and `python -m rota`."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from rota.exits import FAILED, INTERRUPTED, MISUSED, complain


def run() -> None:
    """A stdout that is closed or takes nothing is one line on stderr, too."""
    fill_what_is_closed()
    if sys.stdout is None:
        complain("stdout is closed: send what is not wanted to /dev/null")
        sys.exit(MISUSED)
    # Not every locale has all letters of what is printed.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        command(sys.argv[1:])
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader closed the pipe: it has what it wanted.
        sys.exit(FAILED)
    except UnicodeEncodeError as error:
        from rota.misuse import shown

        complain(f"`{shown(error.object)}` is not UTF-8")
        sys.exit(MISUSED)
    except OSError as error:
        complain(str(error))
        sys.exit(FAILED)


def fill_what_is_closed() -> None:
    """Have an empty stdin and a stderr for nothing in place of those that are closed, for this process and its
    children. Their numbers would go to the next files or sockets, which would then be read or written to."""
    # Each takes the lowest number that is free, which is its own.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as the process lasts
        os.set_inheritable(sys.stdin.fileno(), True)
    if sys.stderr is None and sys.stdout is not None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        os.set_inheritable(sys.stderr.fileno(), True)


def command(words: list[str]) -> None:
    """Run what the words ask for. Typer takes longer to come than a server: a plain `rota serve` does without it."""
    if words[:1] == ["serve"]:
        from rota.serve.words import plain

        asked = plain(words[1:])
        if asked is not None:
            from rota.serve.running import serve

            serve(asked.told, as_json=asked.as_json)
            return
    from rota import interrupts
    from rota.cli import app

    # A server has an end of its own.
    if words[:1] != ["serve"]:
        interrupts.watch()
    try:
        app(prog_name="rota")
    except SystemExit as ending:
        # Typer's own code for an interrupt is that of a failure.
        if ending.code == FAILED and interrupts.were_asked():
            raise SystemExit(INTERRUPTED) from None
        # The command has ended by itself, before the grace of `interrupts` was over.
        if interrupts.were_lost():
            raise KeyboardInterrupt from None
        raise
    except Exception as error:
        # Python 3.11 turns an interrupt inside `__set_name__`, while a module is imported, into a RuntimeError.
        if interrupts.is_behind(error):
            raise KeyboardInterrupt from None
        raise


if __name__ == "__main__":
    run()
