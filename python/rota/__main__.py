"""The process `rota`, and `python -m rota`."""

from __future__ import annotations

import sys

from rota.exits import FAILED, MISUSED, complain


def run() -> None:
    """A stdout that is closed or takes nothing is one line on stderr, too."""
    # Its number would go to the next file or socket, which would then be written to.
    if sys.stdout is None:
        complain("stdout is closed: send what is not wanted to /dev/null")
        sys.exit(MISUSED)
    try:
        command(sys.argv[1:])
    except BrokenPipeError:
        # Whoever read it has what it wanted.
        sys.exit(FAILED)
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
    from rota.cli import app

    app(prog_name="rota")


if __name__ == "__main__":
    run()
