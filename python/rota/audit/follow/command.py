"""`rota audit --follow`: verdicts as they come, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from rota import interrupts
from rota.audit.checks import VIOLATION
from rota.audit.command import findings, skipped, told, told_trouble
from rota.audit.stores import Format
from rota.exits import MISUSED, complain, existing_directory, fail
from rota.system import Flag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rota.audit.audit import Audit, Wanted
    from rota.audit.follow.broker import Broker
    from rota.audit.follow.query import Tables, Told
    from rota.audit.hadoop import Target
    from rota.audit.on_spark import Where
    from rota.audit.verdict import Verdict

POLL_S = 0.2
ENDS_WITHIN_S = 20.0
"""After Ctrl-C. On a busy machine it takes a while to ask Spark, and to remove a large checkpoint that is not kept."""


@contextlib.contextmanager
def stopped() -> Iterator[Flag]:
    """Set by Ctrl-C and by SIGTERM. Nothing is raised: that would come in the middle of talking to Spark."""
    asked = Flag()
    interrupts.allow(ENDS_WITHIN_S)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def checkpoint_of(checkpoint: str | None, output: str | None) -> str | None:
    """Where to remember what has been seen: without a place for it following begins anew each time."""
    return checkpoint or (None if output is None else f"{output}/checkpoint")


class From(NamedTuple):
    """A broker instead of paths."""

    servers: str
    config: Path | None

    def check(self) -> None:
        """End the command, with the exit code of the error, unless there is something to follow."""
        from rota.audit.live import ending, partitions_of
        from rota.groups.options import TIMEOUT_MS, connected

        with ending(), connected(self.servers, self.config, None, TIMEOUT_MS) as cluster:
            partitions_of(cluster, self.servers)

    def broker(self, said: Path) -> Broker:
        """As Spark's source has it."""
        from rota.audit.follow.broker import Broker

        return Broker(self.servers, "" if self.config is None else str(self.config.absolute()), str(said))

    def worded(self, verdict: Verdict) -> Verdict:
        """The verdict with a command that prints the records."""
        from rota.audit.live import with_command

        return with_command(self.servers, verdict)


class Said:
    """What the source of a broker writes for people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: tuple[int, str] | None = None
        """Exit code and reason, if following ended because of the broker."""
        self._lines = 0

    def show(self) -> None:
        """Print what is new on stderr."""
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1] if self.path.exists() else []
        for line in lines[self._lines :]:
            said = json.loads(line)
            if "error" in said:
                self.error = (said["exit_code"], said["error"])
            else:
                complain(said["says"])
        self._lines = len(lines)


def follow(
    wanted: Wanted,
    where: Where,
    checkpoint: str | None,
    output: str | None,
    as_json: bool,
    once: bool,
    verbose: bool = False,
    fail_on: str = VIOLATION,
    live: From | None = None,
    kept_as: Format = Format.parquet,
) -> int:
    """Follow logs; gives the exit code."""
    from rota.audit.audit import Audit, Merging, Unreadable, is_wanted
    from rota.audit.follow import query
    from rota.audit.hadoop import is_url, target_of

    for path in wanted.paths:
        existing_directory(path)
    found, merging = Audit(fail_on=fail_on), Merging()

    def tell(one: Told) -> None:
        if isinstance(one, query.Skipped):
            found.skipped[one.about] += one.records
            return
        if isinstance(one, Unreadable):
            found.unreadable.append(one)
        elif is_wanted(wanted, one) and merging.is_new(one):
            found.verdicts.append(one)
        else:
            return
        said = told_trouble(one) if isinstance(one, Unreadable) else told(one)
        typer.echo(json.dumps(one._asdict()) if as_json else said)

    kept = checkpoint_of(checkpoint, output)
    if kept is not None and not is_url(kept):
        _check(Path(kept).absolute(), live)
        if output is None or not is_url(output):
            _check_tables(None if output is None else Path(output).absolute(), Path(kept).absolute(), kept_as)
    if live is not None:
        live.check()
    started = where.started(0, verbose)
    with tempfile.TemporaryDirectory(prefix="rota-follow-") as scratch, started as spark:
        place = target_of(spark, kept or scratch)
        _check(place, live)
        for one in query.kept(place):
            merging.is_new(one)
        target = None if output is None else target_of(spark, output)
        follower = _check_tables(target, place, kept_as)
        tables = None if target is None else _tables(spark, target, follower, kept_as)
        said = Said(Path(scratch) / "said")
        logs = wanted.paths if live is None else live.broker(said.path)
        ways = {} if live is None else {"worded": live.worded}
        with stopped() as stop:
            _run(query.started(spark, logs, place, tell, once, tables=tables, **ways), stop, said)
            if stop.is_set():
                # To stop Spark takes seconds. The checkpoint holds what has been seen, as after a kill.
                exit_code = _ended(found)
                sys.stdout.flush()
                interrupts.end(exit_code, Path(scratch))
    return _ended(found)


def _check(place: Target, live: From | None) -> None:
    """End with exit code 2 unless a checkpoint may be used."""
    from rota.audit.follow import query
    from rota.audit.follow.advancing import CheckpointError

    try:
        query.check_format(place, live is not None)
    except CheckpointError as error:
        fail(MISUSED, str(error))
    except OSError as error:
        fail(MISUSED, f"the checkpoint is {error}; give a directory that can be written")


def _check_tables(output: Target | None, checkpoint: Target, kept_as: Format) -> str:
    """The id of the checkpoint. Ends with exit code 2 unless it may append to the tables."""
    from rota.audit.on_spark import ending_with_reason
    from rota.audit.stores import check_follower

    with ending_with_reason():
        return check_follower(output, kept_as, checkpoint)


def _tables(spark: SparkSession, output: Target, follower: str, kept_as: Format) -> Tables:
    """What each batch is appended to. Ends with exit code 2 if that cannot be."""
    from rota.audit.follow.query import Tables
    from rota.audit.on_spark import ending_with_reason
    from rota.audit.stores import store_of

    with ending_with_reason():
        store = store_of(spark, output, kept_as)
    return Tables(store, follower)


def _run(query: StreamingQuery, stop: Flag, said: Said) -> None:
    from pyspark.errors import StreamingQueryException

    try:
        while query.isActive and not stop.wait(POLL_S):
            said.show()
        if not stop.is_set():
            # Raises the error that ended it.
            query.awaitTermination()
    except StreamingQueryException:
        # Ctrl-C goes to Spark's workers, too.
        said.show()
        if not stop.is_set() and said.error is not None:
            fail(*said.error)
        if not stop.is_set():
            raise
    said.show()
    if not stop.is_set():
        query.stop()


def _ended(found: Audit) -> int:
    for line in [*skipped(found), findings(found)]:
        complain(line)
    return found.exit_code
