"""Spark's query over logs that grow: rows to their partitions, findings to files and to callers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from rota.audit.audit import Unreadable, verdict_of
from rota.audit.checks import CHECK_OF
from rota.audit.follow import keeping
from rota.audit.follow.finding import COLUMNS, Seen
from rota.audit.follow.partition import Group
from rota.audit.follow.passing import follow
from rota.audit.follow.replaying import Folding
from rota.audit.logs import JOURNAL, UNREADABLE
from rota.audit.verdict import Verdict

KEY = ("source", "log", "partition")
FOUND = (
    "source string, log string, partition int, name string, `group` string, generation int, first_offset bigint,"
    " last_offset bigint, at_ms bigint, members array<string>, witness string"
)
# Of each partition in one batch: a task keeps the rows of so much in memory.
BATCH_BYTES = 4 << 20
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

Told = Verdict | Unreadable


class Follower(StatefulProcessor):
    """Remembers a partition and its groups from one batch to the next."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Where it is kept: a partition in one value, its groups one by one."""
        kept = "remembered string, coordinator binary, behind array<binary>"
        self.partition = handle.getValueState("partition", kept)
        self.groups = handle.getMapState("groups", "name string", "remembered string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """New rows of a partition, in any order."""
        touched: dict[str, Group] = {}

        def group(name: str) -> Group:
            if name not in touched:
                kept = self.groups.getValue((name,)) if self.groups.containsKey((name,)) else None
                touched[name] = keeping.group_of(None if kept is None else kept[0])
            return touched[name]

        remembered, state, behind = self.partition.get() or (None, None, None)
        partition = keeping.partition_of(remembered, group)
        folding = Folding(None if state is None else bytes(state), [bytes(entry) for entry in behind or ()])
        seen = sorted((seen_of(row) for row in rows), key=lambda row: row[:2])
        for finding in follow(partition, folding, key[0] == JOURNAL, seen):
            yield Row(**dict(zip(KEY, key, strict=True)), **finding._asdict())
        self.partition.update((keeping.of_partition(partition), folding.state, folding.behind))
        for name, known in touched.items():
            self.groups.updateValue((name,), (keeping.of_group(known),))


def seen_of(row: Row) -> Seen:
    """A row behind the columns of `KEY`."""
    seen = Seen(*row[len(KEY) :])
    return seen if seen.payload is None else seen._replace(payload=bytes(seen.payload))


def told_of(row: Row) -> Told:
    """The text of a finding."""
    if row.name == UNREADABLE:
        return Unreadable(row.log, row.partition, row.last_offset, row.name, row.witness)
    return verdict_of(CHECK_OF[row.name], row)


def kept(checkpoint: Path) -> Iterator[Verdict]:
    """The verdicts that were found before a checkpoint."""
    for path in sorted((checkpoint / "verdicts").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            if found.keys() == set(Verdict._fields):
                yield Verdict(**found)


class Verdicts:
    """Files with a verdict a line, one for each batch that found something: each batch counts once."""

    def __init__(self, directory: Path, tell: Callable[[Told], None]) -> None:
        self.directory = directory
        self.tell = tell

    def add(self, found: DataFrame, batch: int) -> None:
        """A batch, which Spark gives again if it does not know that it was done."""
        target = self.directory / f"{batch:012}.jsonl"
        if target.exists():
            return
        rows = found.orderBy(*KEY, "last_offset", "name").collect()
        if not rows:
            return
        told = [told_of(row) for row in rows]
        self.directory.mkdir(parents=True, exist_ok=True)
        written = target.with_suffix(".part")
        written.write_text("".join(f"{json.dumps(one._asdict())}\n" for one in told), encoding="utf-8")
        written.rename(target)
        for one in told:
            self.tell(one)


def started(
    spark: SparkSession, paths: list[Path], checkpoint: Path, tell: Callable[[Told], None], once: bool = False
) -> StreamingQuery:
    """Begin to follow the logs at these paths, behind what the checkpoint says has been seen.

    With `once` the query ends where the logs end now. Verdicts are kept in `verdicts` of the checkpoint's directory.
    """
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    logs = spark.readStream.format("rota").option("entries", "true").option("partBytes", str(BATCH_BYTES))
    rows = logs.load("\n".join(map(str, paths))).select(*KEY, *COLUMNS)
    found = rows.groupBy(*KEY).transformWithState(
        statefulProcessor=Follower(), outputStructType=FOUND, outputMode="Append", timeMode="None"
    )
    verdicts = Verdicts(checkpoint / "verdicts", tell)
    writer = found.writeStream.outputMode("append").foreachBatch(verdicts.add)
    writer = writer.option("checkpointLocation", str(checkpoint / "spark"))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
