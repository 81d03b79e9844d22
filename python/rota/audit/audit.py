"""One audit: the results of all tasks put together, verdicts and what could be decided."""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.audit import coverage, folds, opinion
from rota.audit.checks import CHECK_OF, MODEL, OBSERVATION, OF_PARTITIONS, REPLAY, VIOLATION
from rota.audit.engines import Engine, Result, tasks_of
from rota.audit.logs import JOURNAL, UNREADABLE, Part, partitions_in
from rota.audit.names import instead_of
from rota.audit.others import others_in
from rota.audit.promises import Finding, Promised
from rota.audit.verdict import Verdict
from rota.journal import JOURNAL_DIRECTORY

if TYPE_CHECKING:
    from rota.audit.hadoop import Target

UNREADABLE_SHOWN = 1_000
NOTHING = "nothing"
FAILS_ON = {VIOLATION: {VIOLATION}, OBSERVATION: {VIOLATION, OBSERVATION}, NOTHING: set()}
"""What `--fail-on` may be: the severities that make the exit code 1."""


class NoGroupError(Exception):
    """No group in the logs has the name that is asked about."""


class Unreadable(NamedTuple):
    """Something that could not be read."""

    log: str
    partition: int
    offset: int
    kind: str
    """`unreadable`, or `torn`: what a crash leaves at the end of a log."""
    reason: str


@dataclass(frozen=True)
class Wanted:
    """What is asked about."""

    paths: list[Path]
    group: str | None = None
    """A regular expression that a group's whole name matches."""
    since_ms: int | None = None
    until_ms: int | None = None
    output: Target = Path("audit")
    """Where the tables are written, as Parquet."""


@dataclass
class Audit:
    """What an audit found."""

    parts: int = 0
    rows: int = 0
    groups: int = 0
    group_ids: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    folds: list[folds.Fold] = field(default_factory=list)
    opinions: list[opinion.Opinion] = field(default_factory=list)
    coverage: list[coverage.Line] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Records that nothing is checked of, by what they are about, such as `share group`."""
    fail_on: str = VIOLATION
    """From which severity on the exit code is 1."""
    not_written: str = ""
    """Why tables or a report are not there; empty: they are."""

    @property
    def violations(self) -> list[Verdict]:
        """The verdicts that say that something must not be."""
        return [verdict for verdict in self.verdicts if verdict.severity == VIOLATION]

    @property
    def observations(self) -> list[Verdict]:
        """The verdicts that are only worth knowing."""
        return [verdict for verdict in self.verdicts if verdict.severity == OBSERVATION]

    @property
    def exit_code(self) -> int:
        """2: something could not be read or written; 1: violations, or what `fail_on` says; 0: clean."""
        if self.not_written or any(found.kind == UNREADABLE for found in self.unreadable):
            return 2
        return 1 if self.failing else 0

    @property
    def failing(self) -> list[Verdict]:
        """The verdicts that make the exit code 1."""
        return [verdict for verdict in self.verdicts if verdict.severity in FAILS_ON[self.fail_on]]


def nothing_of(parts: list[Part]) -> Audit:
    """The audit of parts that cannot be read."""
    told = [Unreadable(part.log, part.partition, part.first_offset, UNREADABLE, part.trouble or "") for part in parts]
    return Audit(parts=len(parts), unreadable=told)


def _reproduce(source: str, log: str, partition: int, group: str | None, name: str, offsets: tuple[int, int]) -> str:
    """A command for a shell. Clients choose the ids of their groups."""
    if name == REPLAY.name:
        return f"rota log replay {shlex.quote(log)}"
    chosen = "" if group is None else f" --group {shlex.quote(group)}"
    where = f"--source {source} --partition {partition}{chosen} --from-offset {offsets[0]} --to-offset {offsets[1]}"
    return f"rota log dump {shlex.quote(log)} {where}"


def verdict_of(source: str, log: str, partition: int, found: Finding) -> Verdict:
    """What a finding in the partition of a log says."""
    check = CHECK_OF[found.name]
    offsets = (found.first_offset, found.last_offset)
    return Verdict(
        id=check.id,
        name=check.name,
        severity=check.severity,
        source=source,
        log=log,
        partition=partition,
        group=found.group,
        generation=found.generation,
        first_offset=found.first_offset,
        last_offset=found.last_offset,
        at_ms=found.at_ms,
        members=found.members,
        witness=found.witness,
        reproduce=_reproduce(source, log, partition, found.group, check.name, offsets),
    )


def replayed(found: list[folds.Fold]) -> list[Verdict]:
    """The differences that folding met."""
    return [
        verdict_of(JOURNAL, fold.log, fold.partition, difference_of(*difference))
        for fold in found
        for difference in fold.differences
    ]


def difference_of(offset: int, *difference: Any) -> Finding:
    """A difference that folding met."""
    return Finding(REPLAY.name, None, None, offset, offset, None, [], folds.said_of(*difference))


def disagreeing(found: list[opinion.Opinion]) -> list[Verdict]:
    """Where the model's answers differ from a journal."""
    return [_otherwise(each, *each.difference) for each in found if each.difference is not None]


def _otherwise(asked: opinion.Opinion, offset: int, group: str, at_ms: int, said: str) -> Verdict:
    found = Finding(MODEL.name, group or None, None, offset, offset, at_ms, [], said)
    verdict = verdict_of(JOURNAL, asked.log, asked.partition, found)
    return verdict._replace(reproduce=_reproduce(JOURNAL, asked.log, asked.partition, None, "", (offset, offset)))


def is_group(wanted: Wanted, name: str) -> bool:
    """Whether a group is asked about."""
    return wanted.group is None or re.fullmatch(wanted.group, name) is not None


def is_wanted(wanted: Wanted, verdict: Verdict) -> bool:
    """Whether a verdict is of the groups and of the time that are asked about."""
    if verdict.group is not None and verdict.name not in OF_PARTITIONS and not is_group(wanted, verdict.group):
        return False
    if verdict.at_ms is None:
        return True
    since_ms = verdict.at_ms if wanted.since_ms is None else wanted.since_ms
    until_ms = verdict.at_ms if wanted.until_ms is None else wanted.until_ms
    return since_ms <= verdict.at_ms <= until_ms


def audit(wanted: Wanted, parts: list[Part], engine: Engine, progress: Callable[[str], None] = lambda _: None) -> Audit:
    """Check the parts of the logs. Whole logs are read whatever is asked about: what a group did before is what tells
    whether it may do what it does. Raises NoGroupError."""
    timing = Timing(progress)
    partitions = partitions_in(parts)
    records = sum(part.records for part in parts)
    progress(f"reading {records} records in {len(parts)} parts")
    results = engine(tasks_of(partitions), partitions, progress)
    return timing.ended(assembled(wanted, results, lambda: others_in(parts)), len(parts))


class Timing:
    """How long an audit takes, from now on."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._began_s = time.monotonic()

    def ended(self, found: Audit, parts: int) -> Audit:
        """The audit of so many parts, after it was said how long it took."""
        found.parts = parts
        spent_s = time.monotonic() - self._began_s
        self._progress(f"done in {spent_s:.1f} s, {found.rows / max(spent_s, 1e-3):,.0f} rows a second")
        return found


def of_copies(found: Audit) -> Audit:
    """The audit of logs at URLs, which `rota log` reads from a copy."""
    found.verdicts = [verdict._replace(reproduce=_of_copy(verdict)) for verdict in found.verdicts]
    return found


def _of_copy(verdict: Verdict) -> str:
    log = shlex.quote(verdict.log)
    return f"{verdict.reproduce.replace(log, 'DIR', 1)}  # DIR: a copy of {log}"


def assembled(wanted: Wanted, results: list[Result], others: Callable[[], set[str]] = set) -> Audit:
    """The audit that these results of tasks are. `others`: the groups that are there and not checked. Raises
    NoGroupError."""
    promised = [result for result in results if isinstance(result, Promised)]
    found = Audit(rows=sum(each.rows for each in promised))
    # Causes are for the tables.
    found.folds = [result._replace(causes=[]) for result in results if isinstance(result, folds.Fold)]
    found.opinions = [result for result in results if isinstance(result, opinion.Opinion)]
    found.unreadable = [
        Unreadable(each.log, each.partition, *trouble) for each in promised for trouble in each.troubles
    ][:UNREADABLE_SHOWN]
    names = {(_data(each.source, each.log), name) for each in promised for name, _ in each.groups}
    found.group_ids = sorted({name for _, name in names if is_group(wanted, name)})
    found.groups = sum(is_group(wanted, name) for _, name in names)
    # The group may be in what cannot be read.
    if wanted.group is not None and not found.groups and not found.unreadable:
        unchecked = others() if any(each.skipped for each in promised) else set()
        if not any(is_group(wanted, name) for name in unchecked):
            known = unchecked.union(name for _, name in names)
            raise NoGroupError(f"no group matches --group `{wanted.group}`; {instead_of(wanted.group, known)}")
    verdicts = [verdict_of(*each[:3], finding) for each in promised for finding in each.findings]
    verdicts += replayed(found.folds) + disagreeing(found.opinions)
    found.verdicts = merged(sorted((verdict for verdict in verdicts if is_wanted(wanted, verdict)), key=_order))
    found.coverage = coverage.lines(promised, found.folds)
    for each in promised:
        found.skipped.update(each.skipped)
    return found


def _data(source: str, log: str) -> Path:
    """The directory of a log of groups; a journal in a directory of its name beside it is about the same groups."""
    path = Path(log)
    return path.parent if source == JOURNAL and path.name == JOURNAL_DIRECTORY else path


def _finding(verdict: Verdict) -> tuple[Any, ...]:
    """What a journal's verdict and one of the log of groups beside it have in common if they are one finding."""
    return _data(verdict.source, verdict.log), verdict.name, verdict.group, verdict.generation, *verdict.members


class Merging:
    """`merged` for verdicts that come one by one: of a journal's and the log's, the one that comes first counts."""

    def __init__(self) -> None:
        self._alone: Counter[tuple[Any, ...]] = Counter()

    def is_new(self, verdict: Verdict) -> bool:
        """Whether this is the first verdict about its finding."""
        if verdict.group is None:
            return True
        is_journal, finding = verdict.source == JOURNAL, _finding(verdict)
        if self._alone[not is_journal, finding] > 0:
            self._alone[not is_journal, finding] -= 1
            return False
        self._alone[is_journal, finding] += 1
        return True


def merged(verdicts: list[Verdict]) -> list[Verdict]:
    """Each finding once: what a journal and the log of groups beside it both show is reported for the journal."""

    recorded: dict[tuple[Any, ...], list[int]] = {}
    for at, verdict in enumerate(verdicts):
        if verdict.source != JOURNAL and verdict.group is not None:
            recorded.setdefault(_finding(verdict), []).append(at)
    found: dict[int, Verdict] = dict(enumerate(verdicts))
    for at, verdict in enumerate(verdicts):
        if verdict.source == JOURNAL and (same := recorded.get(_finding(verdict))):
            one = found.pop(same.pop(0))
            where = f"partition {one.partition}, offsets {one.first_offset} to {one.last_offset}"
            found[at] = verdict._replace(also=where)
    return list(found.values())


def _order(verdict: Verdict) -> tuple[Any, ...]:
    where = (verdict.log, verdict.partition, verdict.last_offset, verdict.name, verdict.first_offset)
    return (verdict.severity != VIOLATION, *where, verdict.group or "", verdict.members, verdict.witness)
