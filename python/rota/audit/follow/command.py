"""`rota audit --follow`: verdicts as they come, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rota import interrupts
from rota.audit.checks import VIOLATION
from rota.audit.command import findings, told, told_trouble
from rota.exits import MISUSED, existing_directory, fail

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from rota.audit.audit import Audit, Wanted
    from rota.audit.follow.query import Told

POLL_S = 0.2
ENDS_WITHIN_S = 20.0
"""After Ctrl-C. On a busy machine it takes a while to ask Spark, and to remove a large checkpoint that is not kept."""


@contextlib.contextmanager
def stopped() -> Iterator[threading.Event]:
    """Set by Ctrl-C and by SIGTERM. Nothing is raised: that would come in the middle of talking to Spark."""
    asked = threading.Event()
    interrupts.allow(ENDS_WITHIN_S)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def checkpoint_of(checkpoint: Path | None, output: Path | None, scratch: str) -> Path:
    """Where to remember what has been seen: without a place for it following begins anew each time."""
    chosen = checkpoint or (Path(scratch) if output is None else output / "checkpoint")
    return chosen.absolute()


def follow(
    wanted: Wanted,
    master: str,
    checkpoint: Path | None,
    output: Path | None,
    as_json: bool,
    once: bool,
    verbose: bool = False,
    fail_on: str = VIOLATION,
) -> int:
    """Follow logs; gives the exit code."""
    from rota.audit import session
    from rota.audit.audit import Audit, Merging, Unreadable, is_wanted
    from rota.audit.follow import query
    from rota.audit.follow.advancing import CheckpointError

    for path in wanted.paths:
        existing_directory(path)
    found, merging = Audit(fail_on=fail_on), Merging()

    def tell(one: Told) -> None:
        if isinstance(one, Unreadable):
            found.unreadable.append(one)
        elif is_wanted(wanted, one) and merging.is_new(one):
            found.verdicts.append(one)
        else:
            return
        said = told_trouble(one) if isinstance(one, Unreadable) else told(one)
        typer.echo(json.dumps(one._asdict()) if as_json else said)

    if checkpoint is not None or output is not None:
        try:
            query.check_format(checkpoint_of(checkpoint, output, ""))
        except CheckpointError as error:
            fail(MISUSED, str(error))
    java = session.started(master, is_quiet=not verbose)
    with tempfile.TemporaryDirectory(prefix="rota-follow-") as scratch, java as spark:
        place = checkpoint_of(checkpoint, output, scratch)
        for one in query.kept(place):
            merging.is_new(one)
        with stopped() as stop:
            _run(query.started(spark, wanted.paths, place, tell, once), stop)
            if stop.is_set():
                # To stop Spark takes seconds. The checkpoint holds what has been seen, as after a kill.
                exit_code = _ended(found)
                sys.stdout.flush()
                interrupts.end(exit_code, Path(scratch))
    return _ended(found)


def _run(query: StreamingQuery, stop: threading.Event) -> None:
    from pyspark.errors import StreamingQueryException

    try:
        while query.isActive and not stop.wait(POLL_S):
            pass
        if not stop.is_set():
            # Raises the error that ended it.
            query.awaitTermination()
    except StreamingQueryException as error:
        # Ctrl-C goes to Spark's workers, too.
        if not stop.is_set():
            fail(MISUSED, f"following ended: {error}")
    if not stop.is_set():
        query.stop()


def _ended(found: Audit) -> int:
    typer.echo(f"rota: {findings(found)}", err=True)
    return found.exit_code
