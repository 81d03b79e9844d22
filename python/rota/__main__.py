"""The process `rota`, and `python -m rota`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from rota.exits import FAILED, INTERRUPTED, MISUSED, complain


def run() -> None:
    """A stdout that is closed or takes nothing is one line on stderr, too."""
    # Its number would go to the next file or socket, which would then be written to.
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
