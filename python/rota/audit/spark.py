"""The engine on Spark, for clusters; and the tables that only Spark writes."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rota.audit import folds, report, tables, views
from rota.audit.audit import Audit, Timing, Wanted, assembled, audit, of_copies
from rota.audit.engines import Partitions, Result, Say, Task, run
from rota.audit.hadoop import Site
from rota.audit.remote import BYTES_A_RECORD, RemotePartition, in_order, results_of, rows_at
from rota.audit.rows import SPARK_SCHEMA, rows_of
from rota.audit.session import FILES_PER_CORE, files_of, fit
from rota.audit.stores import Format, Store, check_place, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from rota.audit.logs import Part

RESULTS = pa.schema([("task", pa.int64()), ("result", pa.binary()), ("causes", pa.binary())])
RESULT_COLUMNS = "task bigint, result binary, causes binary"
CAUSES = pa.schema(
    [
        *((name, pa.string()) for name in ("log", "group")),
        ("offset", pa.int64()),
        ("generation", pa.int32()),
        *((name, pa.string()) for name in ("cause", "member", "reason")),
        ("began_ms", pa.int64()),
    ]
)
CAUSE_COLUMNS = (
    "log string, `group` string, offset bigint, generation int, cause string, member string, reason string,"
    " began_ms bigint"
)
POLL_S = 1.0

Batches = Iterator[pa.RecordBatch]


class SparkEngine:
    """Runs tasks where Spark has room for them. The logs are read there; only results come back, nothing is shuffled.

    With `keeps_causes` the causes of generations stay with Spark, for `causes`.
    """

    def __init__(self, spark: SparkSession, keeps_causes: bool = False) -> None:
        self._spark = spark
        self._keeps_causes = keeps_causes
        self._results: DataFrame | None = None

    def __call__(self, tasks: list[Task], partitions: Partitions, say: Say) -> list[Result]:
        """The results in the order of the tasks."""
        return [one for (one,) in self.each(len(tasks), lambda number: [run(tasks[number], partitions)], say)]

    def each(self, count: int, do: Callable[[int], list[Result]], say: Say) -> list[list[Result]]:
        """What `do` gives for each number, each in a task."""
        if not count:
            return []
        work = _work(do, self._keeps_causes)
        found = self._spark.range(0, count, 1, count).mapInArrow(work, RESULT_COLUMNS)
        self._results = found.persist() if self._keeps_causes else found
        with _watched(self._spark, say):
            rows = self._results.select("task", "result").collect()
        results: dict[int, list[Result]] = {row.task: pickle.loads(row.result) for row in rows}
        return [results[number] for number in range(count)]

    def causes(self) -> DataFrame:
        """The causes of generations that the replay told."""
        if self._results is None:
            return self._spark.createDataFrame([], CAUSE_COLUMNS)
        return self._results.select("causes").mapInArrow(_causes, CAUSE_COLUMNS)


def _work(do: Callable[[int], list[Result]], keeps_causes: bool) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                results = do(number)
                causes = [cause for one in results if isinstance(one, folds.Fold) for cause in one.causes]
                told = [one._replace(causes=[]) if isinstance(one, folds.Fold) else one for one in results]
                columns = [[number], [pickle.dumps(told)], [pickle.dumps(causes if keeps_causes else [])]]
                yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=RESULTS)

    return work


def _causes(batches: Batches) -> Batches:
    for batch in batches:
        for kept in batch.column(0).to_pylist():
            causes = [cause._asdict() for cause in pickle.loads(kept)]
            yield pa.RecordBatch.from_pylist(causes, schema=CAUSES)


@contextlib.contextmanager
def _watched(spark: SparkSession, say: Say) -> Iterator[None]:
    """Say now and then how many tasks have ended."""
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        said = ""
        while not over.wait(POLL_S):
            for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                done = f"{stage.numCompletedTasks} of {stage.numTasks} tasks done" if stage else said
                if stage and not stage.numActiveTasks + stage.numCompletedTasks:
                    done = f"{stage.numTasks} tasks wait for an executor"
                if done != said:
                    say(said := done)

    thread = threading.Thread(target=watch, name="audit-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _rows(spark: SparkSession, count: int, read: Callable[[int], Batches]) -> DataFrame:
    """The rows that `read` gives for each number, each in a task."""

    def rows(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    return spark.range(0, count, 1, max(1, count)).mapInArrow(rows, SPARK_SCHEMA)


class NotWrittenError(Exception):
    """The logs were audited; then the tables or the report could not be written, for the reason that is the cause."""

    def __init__(self, found: Audit, option: str) -> None:
        super().__init__(option)
        self.found = found
        self.option = option
        """What asked for that: `--output` or `--report`."""


class Logs(NamedTuple):
    """Logs that Spark audits: the parts of those of this machine, and those at URLs."""

    parts: list[Part]
    remote: list[RemotePartition]
    site: Site | None = None

    @property
    def records(self) -> int:
        """How many there are, about."""
        read = sum(part.records for part in self.parts)
        return read + sum(each.size_bytes for each in self.remote) // BYTES_A_RECORD

    def audited(self, wanted: Wanted, engine: SparkEngine, progress: Say) -> Audit:
        """Check them. Raises NoGroupError."""
        remote, site = self.remote, self.site
        if site is None:
            return audit(wanted, self.parts, engine, progress)
        timing = Timing(progress)
        progress(f"reading {sum(each.size_bytes for each in remote) // 1_000_000} MB in {len(remote)} partitions")
        found = in_order(engine.each(len(remote), lambda number: results_of(remote[number], site), progress))
        return of_copies(timing.ended(assembled(wanted, found), len(remote)))

    def rows(self, spark: SparkSession) -> DataFrame:
        """All their rows."""
        parts, remote, site = self.parts, self.remote, self.site
        if site is None:
            return _rows(spark, len(parts), lambda number: rows_of(parts[number]))
        return _rows(spark, len(remote), lambda number: rows_at(remote[number], site))


def read_rows(spark: SparkSession, store: Store, logs: Logs) -> DataFrame:
    """All rows of the logs, kept in `events`, where queries read only the columns that they need."""
    tasks = FILES_PER_CORE * spark.sparkContext.defaultParallelism
    rows = views.keyed(logs.rows(spark)).coalesce(max(1, min(len(logs.parts) + len(logs.remote), tasks)))
    return views.numbered(store.replace("events", rows))


def audit_with_tables(
    spark: SparkSession,
    wanted: Wanted,
    logs: Logs,
    progress: Say = lambda _: None,
    page: Path | None = None,
    kept_as: Format = Format.parquet,
) -> Audit:
    """Check the logs, write the tables to `wanted.output`, and a report to `page` if there is one.

    Raises StoreError if the tables are not to be written there, and NotWrittenError if that fails later.
    """
    store = store_of(spark, wanted.output, kept_as)
    check_place(wanted.output, kept_as, None)
    engine = SparkEngine(spark, keeps_causes=True)
    found = logs.audited(wanted, engine, progress)
    progress("writing the tables")
    option = "--output"
    try:
        _write_tables(spark, wanted, logs, store, found, engine)
        option = "--report"
        if page is not None:
            with store.fitting():
                report.write(spark, found, page)
    except Exception as error:
        raise NotWrittenError(found, option) from error
    return found


def _write_tables(
    spark: SparkSession, wanted: Wanted, logs: Logs, store: Store, found: Audit, engine: SparkEngine
) -> None:
    fit(spark, logs.records)
    rows = read_rows(spark, store, logs)
    rows.createOrReplaceTempView("all_rows")
    if wanted.group is not None:
        names = spark.createDataFrame([(name,) for name in found.group_ids], "`group` string")
        rows = rows.join(names.hint("broadcast"), "group", "left_semi")
    rows.createOrReplaceTempView("rows")
    with store.fitting():
        try:
            views.define(spark, wanted.output)
            files = files_of(logs.records, spark.sparkContext.defaultParallelism)
            tables.write(spark, wanted.output, store, found.verdicts, found.coverage, engine.causes(), files)
        finally:
            views.forget(wanted.output)
