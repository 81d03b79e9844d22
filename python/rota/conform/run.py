"""Plays rows at a broker, many at a time, for they mostly wait; whatever happens, it ends and cleans up."""

from __future__ import annotations

import contextlib
import fnmatch
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rota.conform import matrix, transcripts
from rota.conform.broker import Broker, Visit
from rota.conform.evidence import Difference, is_same
from rota.conform.judge import BAD, REFERENCE, Verdict, judge, recorded
from rota.conform.limits import DEFAULTS, Limits, UnfitError
from rota.conform.probes import committed, deletions, malformed, order, timing, transactions, versions
from rota.conform.rows import Row
from rota.conform.said import Evidence
from rota.conform.wire import Exchange
from rota.interrupts import completed

WORKERS = 64
#: A busy machine may be late: what differs is played again.
TRIES = 3
#: A row may take this much longer than it has to wait.
ROW_S = 20.0
#: What is recorded has been said twice in a row, within so many plays; but rows that wait for longer are played once.
AGREED_WITHIN = 6
TWICE_S = 400.0
LONGEST_S = 45.0
DEADLINE_S = 600.0
#: A broker that fails this many rows in a row by saying nothing is not waited for any more.
HOPELESS = 40
#: Rows that are stopped end at once; those that connect are not waited for.
STOPPED_WITHIN_S = 0.3


@dataclass
class Result:
    """One row at one broker."""

    row: Row
    verdict: Verdict
    why: str = ""
    evidence: Evidence = field(default_factory=list)
    difference: Difference | None = None
    trail: tuple[Exchange, ...] = ()
    is_cut_short: bool = False
    """Whether it was left out because the run ended early."""


@dataclass
class Options:
    """How a run is done. `against`: another broker, asked now, instead of what was recorded."""

    workers: int = WORKERS
    longest_s: float = LONGEST_S
    deadline_s: float = DEADLINE_S
    tries: int = TRIES
    against: Broker | None = None
    #: whether to play each row until two plays agree, and so are worth keeping
    twice: bool = False


def catalogue() -> list[Row]:
    """Every row, sorted by id."""
    made = (committed, deletions, malformed, order, timing, transactions, versions)
    parts = (transcripts.rows(), matrix.rows(), *(each.rows() for each in made))
    return sorted((row for part in parts for row in part), key=lambda row: row.id)


def chosen(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """Those whose id is one of the patterns, `*` standing for anything; all without patterns."""
    if not patterns:
        return list(rows)
    return [row for row in rows if any(fnmatch.fnmatchcase(row.id, pattern) for pattern in patterns)]


Played = tuple[Evidence, tuple[Exchange, ...]]


def play(row: Row, broker: Broker, known: Evidence | None, others: Limits) -> Played:
    """One row, once. A fault is evidence. Raises UnfitError if it needs settings that the broker does not have.

    `others` are the settings of the broker that it is compared with.
    """
    visit = Visit(broker, row.wait_s + ROW_S + 6 * (broker.delay_s or 0.0), others)
    try:
        return row.perform(visit, known), tuple(visit.trail)
    except UnfitError:
        raise
    except Exception as error:  # a broker that is far from Kafka must not end the run
        return [visit.fault("at the beginning", error)], tuple(visit.trail)
    finally:
        visit.close()


class Run:
    """A run of rows at one broker."""

    def __init__(self, broker: Broker, options: Options) -> None:
        self.broker = broker
        self.options = options
        self.until = time.monotonic() + options.deadline_s
        self.hopeless = threading.Event()
        self.silences = 0

    def results(self, rows: Sequence[Row], progress: Callable[[Result], None] = lambda _: None) -> list[Result]:
        """All rows, sorted by id. KeyboardInterrupt stops what is on its way and is raised again."""
        found: list[Result] = []
        jobs = sorted(rows, key=lambda row: -row.wait_s)
        playing = completed(self.result, jobs, self.options.workers, STOPPED_WITHIN_S, self._stop)
        with contextlib.closing(playing):
            for result in playing:
                found.append(result)
                progress(result)
        return sorted(found, key=lambda result: result.row.id)

    def _stop(self) -> None:
        """End the rows that are being played."""
        for broker in filter(None, (self.broker, self.options.against)):
            broker.stopped.set()

    def result(self, row: Row) -> Result:
        """One row, again if it differs."""
        reason = row.unfit(self.broker, self.options.longest_s)
        if not reason and self.options.against is not None:
            reason = row.unfit(self.options.against, self.options.longest_s)
        if reason:
            return Result(row, Verdict.LEFT_OUT, reason)
        if time.monotonic() > self.until:
            why = f"the run took longer than {self.options.deadline_s:g} s"
            return Result(row, Verdict.LEFT_OUT, why, is_cut_short=True)
        if self.hopeless.is_set():
            why = f"the broker kept silent in {HOPELESS} rows before"
            return Result(row, Verdict.LEFT_OUT, why, is_cut_short=True)
        for _ in range(self.options.tries):
            try:
                result = self._once(row)
            except UnfitError as error:
                return Result(row, Verdict.LEFT_OUT, str(error))
            self._count(result)
            if result.verdict not in (Verdict.DIFFERS, Verdict.FAILED) or self.hopeless.is_set():
                break
            if self.broker.stopped.is_set():  # a row that was stopped has failed
                break
        return result

    def _once(self, row: Row) -> Result:
        theirs = known = recorded(REFERENCE).rows.get(row.id)
        if self.options.against is not None:
            theirs, _ = play(row, self.options.against, known, self.broker.refuses_by)
        if self.options.twice and row.wait_s <= TWICE_S:
            agreed = self._agreed(row, known)
            if agreed is None:
                return Result(row, Verdict.LEFT_OUT, f"not the same twice in a row in {AGREED_WITHIN} plays")
            ours, trail = agreed
        else:
            ours, trail = play(row, self.broker, known, self._others(row))
        verdict, difference = judge(row.id, theirs, ours)
        reasons = difference.reasons if difference else ()
        return Result(row, verdict, ", ".join(reasons), ours, difference, trail)

    def _others(self, row: Row) -> Limits:
        """The settings of the broker that it is compared with."""
        if self.options.against is not None:
            return self.options.against.refuses_by
        return {**DEFAULTS, **{name: int(value) for name, value in row.settings if name in DEFAULTS}}

    def _agreed(self, row: Row, known: Evidence | None) -> Played | None:
        """What was said twice in a row."""
        before: Evidence | None = None
        for _ in range(AGREED_WITHIN):
            now, trail = play(row, self.broker, known, self._others(row))
            if before is not None and is_same(before, now):
                return now, trail
            before = now
        return None

    def _count(self, result: Result) -> None:
        fault = next((each.fault for each in result.evidence if each.fault), "")
        is_silent = result.verdict in BAD and fault.startswith("silent")
        self.silences = self.silences + 1 if is_silent else 0
        if self.silences >= HOPELESS:
            self.hopeless.set()
