"""Spark's query over logs that grow: rows to their partitions, findings to files and to callers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from rota.audit.audit import Unreadable, verdict_of
from rota.audit.follow.advancing import FORMAT, SKIPPED, CheckpointError, Remembered, advanced, new_rows
from rota.audit.follow.broker import Broker
from rota.audit.hadoop import Target, spark_path
from rota.audit.logs import UNREADABLE
from rota.audit.promises import Finding
from rota.audit.rows import ARROW_SCHEMA, PLACE, SPARK_SCHEMA, written
from rota.audit.stores import Store
from rota.audit.tables import verdict_rows
from rota.audit.verdict import Verdict
from rota.audit.views import keyed

KEY = ("source", "log", "partition")
ROWS = pa.schema(list(ARROW_SCHEMA)[len(PLACE) :])
FOUND = (
    "source string, log string, partition int, name string, `group` string, generation int, first_offset bigint,"
    " last_offset bigint, at_ms bigint, members array<string>, witness string, rows binary"
)
"""`rows`: no finding, but the new rows of a partition, as Arrow writes them."""
# Of each partition in one batch: a task keeps the rows of so much in memory.
BATCH_BYTES = 4 << 20
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


NO_FINDING = dict.fromkeys(Finding._fields)


class Tables(NamedTuple):
    """The tables that each batch is appended to."""

    store: Store
    follower: str
    """The id of the checkpoint."""

    def append(self, found: DataFrame, verdicts: list[Verdict], batch: int) -> None:
        """Add what a batch has, unless that was done before."""
        rows = found.where("rows IS NOT NULL").select("rows").mapInArrow(_rows, SPARK_SCHEMA)
        self.store.append("events", keyed(rows), self.follower, batch)
        if verdicts:
            self.store.append("verdicts", verdict_rows(found.sparkSession, verdicts), self.follower, batch)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for kept in batch.column(0):
            yield from pa.ipc.open_stream(kept.as_buffer())


class Skipped(NamedTuple):
    """Records that no promise is about."""

    about: str
    records: int


Told = Verdict | Unreadable | Skipped
Worded = Callable[[Verdict], Verdict]


class Follower(StatefulProcessor):
    """Remembers a partition and its groups from one batch to the next."""

    def __init__(self, gives_rows: bool) -> None:
        self.gives_rows = gives_rows

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Where it is kept: a partition in one value, its groups one by one."""
        self.partition = handle.getValueState("partition", "place binary, coordinator binary, behind array<binary>")
        self.groups = handle.getMapState("groups", "name string", "remembered binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """New rows of a partition, in any order."""

        def group(name: str) -> bytes | None:
            kept = self.groups.getValue((name,)) if self.groups.containsKey((name,)) else None
            return None if kept is None else bytes(kept[0])

        place, coordinator, behind = self.partition.get() or (None, None, None)
        known = Remembered(
            None if place is None else bytes(place),
            None if coordinator is None else bytes(coordinator),
            [bytes(entry) for entry in behind or ()],
        )
        of_partition, batch = dict(zip(KEY, key, strict=True)), batch_of(rows)
        found, known, groups, seen_offset = advanced(key[0], known, group, batch)
        if self.gives_rows and (new := new_rows(batch, seen_offset)).num_rows:
            yield Row(**of_partition, **NO_FINDING, rows=written(key, new))
        for finding in found:
            yield Row(**of_partition, **finding._asdict(), rows=None)
        self.partition.update((known.place, known.coordinator, known.behind))
        for name, remembered in groups:
            self.groups.updateValue((name,), (remembered,))


def batch_of(rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows in any order, which have the columns of `KEY` before the others, in their order in the log."""
    ordered = sorted((tuple(row[len(KEY) :]) for row in rows), key=lambda row: row[:2])
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(zip(*ordered, strict=True), ROWS, strict=True)],
        schema=ROWS,
    )


def told_of(row: Row, worded: Worded = lambda verdict: verdict) -> Told:
    """The text of a finding."""
    if row.name == UNREADABLE:
        return Unreadable(row.log, row.partition, row.last_offset, row.name, row.witness)
    values = [row[name] for name in Finding._fields]
    return worded(verdict_of(row.source, row.log, row.partition, Finding(*values)))


def kept(checkpoint: Target) -> Iterator[Verdict]:
    """The verdicts that were found before a checkpoint."""
    files: list[Any] = sorted((checkpoint / "verdicts").glob("*.jsonl"), key=str)
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            if found.keys() == set(Verdict._fields):
                yield Verdict(**found)


class Verdicts:
    """Files with a verdict a line, one for each batch that found something: each batch counts once."""

    def __init__(
        self,
        directory: Target,
        tell: Callable[[Told], None],
        worded: Worded = lambda verdict: verdict,
        tables: Tables | None = None,
    ) -> None:
        self.directory = directory
        self.tell = tell
        self.worded = worded
        self.tables = tables

    def add(self, found: DataFrame, batch: int) -> None:
        """A batch, which Spark gives again if it does not know that it was done."""
        target = self.directory / f"{batch:012}.jsonl"
        if target.exists():
            return
        if self.tables is not None:
            # The queries of the tables would fold the batch once more each.
            found.persist()
        try:
            self._add(found, batch, target)
        finally:
            found.unpersist()

    def _add(self, found: DataFrame, batch: int, target: Target) -> None:
        # To sort them in Spark would fold the batch once more, to find the ranges.
        order = attrgetter(*KEY, "last_offset", "name")
        rows = sorted(found.where("rows IS NULL").drop("rows").collect(), key=order)
        for row in rows:
            if row.name == SKIPPED:
                self.tell(Skipped(row.witness, row.generation))
        told = [told_of(row, self.worded) for row in rows if row.name != SKIPPED]
        if self.tables is not None:
            self.tables.append(found, [one for one in told if isinstance(one, Verdict)], batch)
        if not told:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        written = target.with_suffix(".part")
        written.write_text("".join(f"{json.dumps(one._asdict())}\n" for one in told), encoding="utf-8")
        # A batch whose file is there is passed over, so the file gets its name last.
        for one in told:
            self.tell(one)
        written.rename(target)  # type: ignore[arg-type]  # both are of one kind


def check_format(checkpoint: Target, is_of_broker: bool = False) -> None:
    """Let the checkpoint be one of this version of rota, of directories or of a broker.

    Raises CheckpointError if it is another one.
    """
    sort, mark = ("a broker" if is_of_broker else "directories"), checkpoint / "broker"
    if (checkpoint / "spark").exists() and mark.exists() != is_of_broker:
        was = "a broker" if mark.exists() else "directories"
        raise CheckpointError(f"the checkpoint `{checkpoint}` is of {was}, not of {sort}: give another --checkpoint")
    kept = checkpoint / "format"
    number = int(kept.read_text()) if kept.exists() else None
    if number != FORMAT and (number is not None or (checkpoint / "spark").exists()):
        was = "an older format" if number is None else f"format {number}"
        raise CheckpointError(
            f"the checkpoint has {was}, this version of rota reads {FORMAT}: follow from the beginning with another"
            " --checkpoint directory"
        )
    checkpoint.mkdir(parents=True, exist_ok=True)
    kept.write_text(f"{FORMAT}\n")
    if is_of_broker:
        mark.touch()
    else:
        # Of a run that ended before it began to read.
        mark.unlink(missing_ok=True)


def started(
    spark: SparkSession,
    logs: list[Path] | Broker,
    checkpoint: Target,
    tell: Callable[[Told], None],
    once: bool = False,
    worded: Worded = lambda verdict: verdict,
    tables: Tables | None = None,
) -> StreamingQuery:
    """Begin to follow logs, at paths or of a broker, behind what the checkpoint says has been seen.

    With `once` the query ends where the logs end now. Verdicts are kept in `verdicts` of the checkpoint's directory.
    Raises CheckpointError.
    """
    check_format(checkpoint, isinstance(logs, Broker))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    reading = spark.readStream.format("rota").option("entries", "true").option("partBytes", str(BATCH_BYTES))
    if isinstance(logs, Broker):
        loaded = reading.options(**logs.options()).load()
    else:
        loaded = reading.load("\n".join(map(str, logs)))
    rows = loaded.select(*KEY, *ROWS.names)
    found = rows.groupBy(*KEY).transformWithState(
        statefulProcessor=Follower(tables is not None), outputStructType=FOUND, outputMode="Append", timeMode="None"
    )
    verdicts = Verdicts(checkpoint / "verdicts", tell, worded, tables)
    writer = found.writeStream.outputMode("append").foreachBatch(verdicts.add)
    writer = writer.option("checkpointLocation", spark_path(checkpoint / "spark"))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
