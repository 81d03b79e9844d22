"""The engine on Spark, for clusters; and the tables that only Spark writes."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rota.audit import folds, report, tables, views
from rota.audit.audit import Audit, Wanted, audit
from rota.audit.engines import Partitions, Result, Say, Task, run
from rota.audit.session import fit

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
FILES_PER_CORE = 4
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
        if not tasks:
            return []
        work = _work(tasks, partitions, self._keeps_causes)
        found = self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, RESULT_COLUMNS)
        self._results = found.persist() if self._keeps_causes else found
        with _watched(self._spark, say):
            rows = self._results.select("task", "result").collect()
        results: dict[int, Result] = {row.task: pickle.loads(row.result) for row in rows}
        return [results[number] for number in range(len(tasks))]

    def causes(self) -> DataFrame:
        """The causes of generations that the replay told."""
        if self._results is None:
            return self._spark.createDataFrame([], CAUSE_COLUMNS)
        return self._results.select("causes").mapInArrow(_causes, CAUSE_COLUMNS)


def _work(tasks: list[Task], partitions: Partitions, keeps_causes: bool) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = run(tasks[number], partitions)
                causes: list[folds.Cause] = []
                if isinstance(result, folds.Fold):
                    causes, result = result.causes, result._replace(causes=[])
                kept = pickle.dumps(causes if keeps_causes else [])
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number]), pa.array([pickle.dumps(result)]), pa.array([kept])], schema=RESULTS
                )

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
                if done != said:
                    say(said := done)

    thread = threading.Thread(target=watch, name="audit-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def read_rows(spark: SparkSession, wanted: Wanted, parts: list[Part]) -> DataFrame:
    """All rows of the logs, kept as Parquet in `events`, where queries read only the columns that they need."""
    target = str(wanted.output / "events")
    rows = spark.read.format("rota").load("\n".join(str(path) for path in wanted.paths))
    tasks = FILES_PER_CORE * spark.sparkContext.defaultParallelism
    files = views.numbered(rows).coalesce(max(1, min(len(parts), tasks)))
    files.write.mode("overwrite").parquet(target)
    return spark.read.schema(files.schema).parquet(target)


def audit_with_tables(
    spark: SparkSession,
    wanted: Wanted,
    parts: list[Part],
    progress: Callable[[str], None] = lambda _: None,
    page: Path | None = None,
) -> Audit:
    """Check the parts of the logs, write the tables to `wanted.output`, and a report to `page` if there is one."""
    engine = SparkEngine(spark, keeps_causes=True)
    found = audit(wanted, parts, engine, progress)
    progress("writing the tables")
    fit(spark, sum(part.records for part in parts))
    rows = read_rows(spark, wanted, parts)
    rows.createOrReplaceTempView("all_rows")
    if wanted.group is not None:
        names = spark.createDataFrame([(name,) for name in found.group_ids], "`group` string")
        rows = rows.join(names.hint("broadcast"), "group", "left_semi")
    rows.createOrReplaceTempView("rows")
    try:
        views.define(spark, wanted.output)
        tables.write(spark, wanted.output, found.verdicts, found.coverage, engine.causes())
    finally:
        views.forget(wanted.output)
    if page is not None:
        report.write(spark, found, page)
    return found
