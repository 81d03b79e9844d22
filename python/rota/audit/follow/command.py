"""`rota audit --follow`: verdicts as they come, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from rota.audit.command import fail, told, told_trouble

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from rota.audit.audit import Audit, Wanted
    from rota.audit.follow.query import Told

POLL_S = 1


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def checkpoint_of(checkpoint: Path | None, output: Path | None, scratch: str) -> Path:
    """Where to remember what has been seen: without a place for it following begins anew each time."""
    chosen = checkpoint or (Path(scratch) if output is None else output / "checkpoint")
    return chosen.absolute()


def follow(wanted: Wanted, master: str, checkpoint: Path | None, output: Path | None, as_json: bool, once: bool) -> int:
    """Follow logs; gives the exit code."""
    from rota.audit import session
    from rota.audit.audit import Audit, Unreadable, is_wanted
    from rota.audit.follow import query

    for path in wanted.paths:
        if not path.is_dir():
            fail(f"`{path}`: there is no such directory")
    found = Audit()

    def tell(one: Told) -> None:
        if isinstance(one, Unreadable):
            found.unreadable.append(one)
        elif is_wanted(wanted, one):
            found.verdicts.append(one)
        else:
            return
        said = told_trouble(one) if isinstance(one, Unreadable) else told(one)
        typer.echo(json.dumps(one._asdict()) if as_json else said)

    with tempfile.TemporaryDirectory(prefix="rota-follow-") as scratch, session.started(master) as spark:
        place = checkpoint_of(checkpoint, output, scratch)
        with interruptible():
            _run(query.started(spark, wanted.paths, place, tell, once))
    return _ended(found)


def _run(query: StreamingQuery) -> None:
    from pyspark.errors import StreamingQueryException

    try:
        while not query.awaitTermination(POLL_S):
            pass
    except KeyboardInterrupt:
        typer.echo("rota: stopped", err=True)
    except StreamingQueryException as error:
        fail(f"following ended: {error}")
    finally:
        query.stop()


def _ended(found: Audit) -> int:
    typer.echo(f"rota: {len(found.violations)} violations, {len(found.observations)} observations", err=True)
    return found.exit_code
