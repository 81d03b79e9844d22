"""One audit: rows into Parquet, both auditors over them, verdicts and what could be decided."""

from __future__ import annotations

import datetime
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from rota.audit import coverage, folds, opinion, tables, views
from rota.audit.checks import CHECK_OF, CHECKS, FOUND, MODEL, OBSERVATION, OF_PARTITIONS, REPLAY, VIOLATION, Check
from rota.audit.logs import JOURNAL, UNREADABLE, Part
from rota.audit.names import instead_of
from rota.audit.rows import ARROW_SCHEMA, SPARK_SCHEMA, rows_of
from rota.audit.session import fit, fits_driver
from rota.audit.verdict import Verdict
from rota.journal import JOURNAL_DIRECTORY

TORN = "torn"
UNREADABLE_SHOWN = 1_000
FILES_PER_CORE = 4


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
    output: Path = Path("audit")
    """Where the rows and tables are written, as Parquet."""
    keeps_tables: bool = False
    """Whether the tables are wanted, too, and not only the rows that the queries are about."""


@dataclass
class Audit:
    """What an audit found."""

    parts: int = 0
    rows: int = 0
    groups: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    folds: list[folds.Fold] = field(default_factory=list)
    opinions: list[opinion.Opinion] = field(default_factory=list)
    coverage: list[coverage.Line] = field(default_factory=list)

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
        """2: something could not be read; 1: violations; 0: clean."""
        if any(found.kind == UNREADABLE for found in self.unreadable):
            return 2
        return 1 if self.violations else 0


def nothing_of(parts: list[Part]) -> Audit:
    """The audit of parts that cannot be read."""
    told = [Unreadable(part.log, part.partition, part.first_offset, UNREADABLE, part.trouble or "") for part in parts]
    return Audit(parts=len(parts), unreadable=told)


def _reproduce(source: str, log: str, partition: int, group: str | None, name: str, offsets: tuple[int, int]) -> str:
    if name == REPLAY.name:
        return f"rota log replay {log}"
    chosen = "" if group is None else f" --group {json.dumps(group)}"
    where = f"--source {source} --partition {partition}{chosen} --from-offset {offsets[0]} --to-offset {offsets[1]}"
    return f"rota log dump {log} {where}"


def verdict_of(check: Check, row: Row) -> Verdict:
    """What a check says of a row of `NAMED`."""
    found = row.asDict()
    log, partition, group = found["log"], found["partition"], found["group"]
    last_offset = found["last_offset"]
    first_offset = last_offset if found["first_offset"] is None else found["first_offset"]
    return Verdict(
        id=check.id,
        name=check.name,
        severity=check.severity,
        source=found["source"],
        log=log,
        partition=partition,
        group=group,
        generation=found["generation"],
        first_offset=first_offset,
        last_offset=last_offset,
        at_ms=found["at_ms"],
        members=sorted(member for member in found["members"] if member),
        witness=found["witness"],
        reproduce=_reproduce(found["source"], log, partition, group, check.name, (first_offset, last_offset)),
    )


# A group that a journal and the log of groups beside it have is one.
GROUPS = f"""SELECT count(DISTINCT
      CASE WHEN source = '{JOURNAL}' THEN regexp_replace(log, '/{JOURNAL_DIRECTORY}$', '') ELSE log END, `group`)
    FROM rows WHERE `group` IS NOT NULL"""
FOUND_SCHEMA = (
    "name string, place bigint, gid bigint, generation int, first_offset bigint, last_offset bigint,"
    " members array<string>, witness string"
)
# What the numbers in what is found stand for, and the time of the last record of each.
NAMED = """SELECT f.*, p.source, p.log, p.partition, g.`group`, t.at_ms FROM found f
    LEFT JOIN (SELECT DISTINCT place, source, log, partition FROM all_rows) p ON f.place = p.place
    LEFT JOIN (SELECT /*+ BROADCAST(f) */ DISTINCT r.gid, r.`group` FROM all_rows r SEMI JOIN found f USING (gid)) g
      ON f.gid = g.gid
    LEFT JOIN (
      SELECT /*+ BROADCAST(f) */ r.place, r.offset, max(r.at_ms) AS at_ms
      FROM all_rows r SEMI JOIN found f ON r.place = f.place AND r.offset = f.last_offset GROUP BY r.place, r.offset) t
      ON f.place = t.place AND f.last_offset = t.offset"""


def declared(
    spark: SparkSession, checks: list[Check], progress: Callable[[str], None] = lambda _: None
) -> list[Verdict]:
    """What the queries find, with the time of the last record of each.

    There are as many at once as there are cores: of a small log planning takes longer than running.
    """

    def found_by(check: Check) -> list[tuple[Any, ...]]:
        progress(f"check: {check.name}")
        return [(check.name, *row) for row in spark.sql(check.sql).select(*FOUND).collect()]

    with ThreadPoolExecutor(spark.sparkContext.defaultParallelism) as pool:
        found = [row for rows in pool.map(found_by, checks) for row in rows]
    if not found:
        return []
    spark.createDataFrame(found, FOUND_SCHEMA).createOrReplaceTempView("found")
    return [verdict_of(CHECK_OF[row.name], row) for row in spark.sql(NAMED).collect()]


def replayed(found: list[folds.Fold]) -> list[Verdict]:
    """The differences that folding met."""
    return [_difference(fold, *difference) for fold in found for difference in fold.differences]


def _difference(fold: folds.Fold, offset: int, *difference: Any) -> Verdict:
    return Verdict(
        id=REPLAY.id,
        name=REPLAY.name,
        severity=VIOLATION,
        source=JOURNAL,
        log=fold.log,
        partition=fold.partition,
        group=None,
        generation=None,
        first_offset=offset,
        last_offset=offset,
        at_ms=None,
        members=[],
        witness=folds.said_of(*difference),
        reproduce=_reproduce(JOURNAL, fold.log, fold.partition, None, REPLAY.name, (offset, offset)),
    )


def disagreeing(found: list[opinion.Opinion]) -> list[Verdict]:
    """Where the model's answers differ from a journal."""
    return [_otherwise(each, *each.difference) for each in found if each.difference is not None]


def _otherwise(asked: opinion.Opinion, offset: int, group: str, at_ms: int, said: str) -> Verdict:
    reproduce = _reproduce(JOURNAL, asked.log, asked.partition, None, MODEL.name, (offset, offset))
    place = (MODEL.severity, JOURNAL, asked.log, asked.partition, group or None, None, offset, offset, at_ms)
    return Verdict(MODEL.id, MODEL.name, *place, [], said, reproduce)


def read_rows(spark: SparkSession, wanted: Wanted, parts: list[Part], in_driver: bool = False) -> DataFrame:
    """All rows of the logs, kept as Parquet in `events`, where queries read only the columns that they need.

    `in_driver`: they are few. They are read here, and kept in memory.
    """
    target = str(wanted.output / "events")
    if in_driver:
        files = views.numbered(_few_rows(spark, wanted, parts)).localCheckpoint()
        if wanted.keeps_tables:
            files.write.mode("overwrite").parquet(target)
        return views.with_members(files)
    paths = "\n".join(str(path) for path in wanted.paths)
    rows = spark.read.format("rota").load(paths)
    tasks = FILES_PER_CORE * spark.sparkContext.defaultParallelism
    files = views.numbered(rows).coalesce(max(1, min(len(parts), tasks)))
    files.write.mode("overwrite").parquet(target)
    return views.with_members(spark.read.schema(files.schema).parquet(target))


def _few_rows(spark: SparkSession, wanted: Wanted, parts: list[Part]) -> DataFrame:
    """The rows of these parts, read in this process and handed to Spark in a file."""
    wanted.output.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=wanted.output, prefix="rows-", suffix=".parquet") as file:
        batches = (batch for part in parts for batch in rows_of(part))
        with pq.ParquetWriter(file.name, ARROW_SCHEMA, compression="none") as writer:
            for batch in batches:
                writer.write_batch(batch)
        return spark.read.schema(SPARK_SCHEMA).parquet(file.name).localCheckpoint()


def is_wanted(wanted: Wanted, verdict: Verdict) -> bool:
    """Whether a verdict is of the groups and of the time that are asked about."""
    of_group = verdict.group is not None and verdict.name not in OF_PARTITIONS
    if wanted.group is not None and of_group and not re.fullmatch(wanted.group, verdict.group or ""):
        return False
    if verdict.at_ms is None:
        return True
    since_ms = verdict.at_ms if wanted.since_ms is None else wanted.since_ms
    until_ms = verdict.at_ms if wanted.until_ms is None else wanted.until_ms
    return since_ms <= verdict.at_ms <= until_ms


def audit(
    spark: SparkSession, wanted: Wanted, parts: list[Part], progress: Callable[[str], None] = lambda _: None
) -> Audit:
    """Read the parts of the logs, run both auditors, write the tables. Whole logs are read whatever is asked about:
    what a group did before is what tells whether it may do what it does."""
    began = datetime.datetime.now(datetime.UTC)
    found = Audit(parts=len(parts))
    records = sum(part.records for part in parts)
    fit(spark, records)
    progress(f"reading {records} records in {len(parts)} parts")
    in_driver = fits_driver(spark, records)
    all_rows = read_rows(spark, wanted, parts, in_driver)
    all_rows.createOrReplaceTempView("all_rows")
    rows = all_rows if wanted.group is None else all_rows.where(all_rows["group"].rlike(f"^(?:{wanted.group})$"))
    rows.createOrReplaceTempView("rows")
    try:
        views.define(spark, wanted.output, in_memory=in_driver)
        found.rows = all_rows.count()
        found.groups = spark.sql(GROUPS).first()[0]  # type: ignore[index]  # an aggregate has one row
        troubles = all_rows.where(f"kind IN ('{UNREADABLE}', '{TORN}')").limit(UNREADABLE_SHOWN).collect()
        found.unreadable = [Unreadable(row.log, row.partition, row.offset, row.kind, row.note) for row in troubles]
        # The group may be in what cannot be read.
        if wanted.group is not None and not found.groups and not found.unreadable:
            names = {row[0] for row in all_rows.select("group").where("`group` IS NOT NULL").distinct().collect()}
            raise NoGroupError(f"no group matches --group `{wanted.group}`; {instead_of(wanted.group, names)}")
        sources = {part.source for part in parts}
        checks = [check for check in CHECKS if sources & set(check.sources)]
        found.verdicts += declared(spark, checks, progress)
        progress("folding the journals")
        causes_to = wanted.output / tables.CAUSES if wanted.keeps_tables else None
        found.folds = folds.replay(spark, parts, causes_to, in_driver)
        found.verdicts += replayed(found.folds)
        progress("asking the model")
        found.opinions = opinion.opinions(spark, parts, in_driver)
        found.verdicts += disagreeing(found.opinions)
        chosen = (verdict for verdict in found.verdicts if is_wanted(wanted, verdict))
        found.verdicts = merged(sorted(chosen, key=_order))
        found.coverage = coverage.lines(spark, found.folds)
        if wanted.keeps_tables:
            progress("writing the tables")
            tables.write(spark, wanted.output, found.verdicts, found.coverage)
    finally:
        views.forget(wanted.output)
    progress(f"done in {(datetime.datetime.now(datetime.UTC) - began).total_seconds():.1f} s")
    return found


def _finding(verdict: Verdict) -> tuple[Any, ...]:
    """What a journal's verdict and one of the log of groups beside it have in common if they are one finding."""
    log = Path(verdict.log)
    data = log.parent if verdict.source == JOURNAL and log.name == JOURNAL_DIRECTORY else log
    return data, verdict.name, verdict.group, verdict.generation, *verdict.members


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
    where = (verdict.log, verdict.partition, verdict.last_offset, verdict.name)
    return (verdict.severity != VIOLATION, *where)
