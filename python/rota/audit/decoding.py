"""Records of `__consumer_offsets` as rows, for one's own jobs: `rota.audit.decode`, and `rota_decode` in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rota import _rota

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NEEDED = ("partition", "offset", "timestamp", "key", "value")


def decode(records: DataFrame) -> DataFrame:
    """The rows (docs/audit.md) of records of `__consumer_offsets`, as Spark's source `kafka` has them.

    Needs the columns `partition`, `offset`, `timestamp`, `key` and `value`; of a record it gives one row or more, in
    the order of the record. Raises ValueError if a column is missing. The workers need rota.
    """
    from rota.audit.rows import SPARK_SCHEMA

    missing = [name for name in NEEDED if name not in records.columns]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}: give the records as Spark's source `kafka` has them")
    chosen = records.selectExpr(
        "partition", "offset", "CAST(unix_millis(timestamp) AS BIGINT) AS at_ms", "CAST(key AS BINARY) AS key",
        "CAST(value AS BINARY) AS value",
    )  # fmt: skip
    return chosen.where("key IS NOT NULL").mapInArrow(_decoded, SPARK_SCHEMA)


def read(spark: SparkSession, *urls: str) -> DataFrame:
    """The rows (docs/audit.md) of the logs at URLs, which Spark's workers read through Hadoop.

    Raises OSError with the reason if there is no log. The workers need rota, and room for a partition on their disks.
    """
    from rota.audit.hadoop import EXECUTOR_CLASSES, Hadoop
    from rota.audit.remote import partitions_at
    from rota.audit.spark import Logs

    hadoop = Hadoop.of(spark)
    site = hadoop.site(spark.conf.get(EXECUTOR_CLASSES, "") or "")
    return Logs([], partitions_at(hadoop, list(urls)), site).rows(spark)


def register(spark: SparkSession, name: str = "rota_decode") -> None:
    """Let SQL of a session decode records: `inline(rota_decode(key, value, offset, timestamp))` gives their rows.

    The columns are those of docs/audit.md behind `partition`. A record without a key has no rows. Workers need rota.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    from rota.audit.rows import SPARK_FIELDS

    def lists(key: Any, value: Any, offset: Any, timestamp: Any) -> Any:
        return _lists(key, value, offset, timestamp)

    # Spark looks at the annotations, which are no text then.
    lists.__annotations__ = dict.fromkeys(("key", "value", "offset", "timestamp", "return"), pa.Array)
    of_rows = f"array<struct<{SPARK_FIELDS}>>"
    spark.udf.register(name, arrow_udf(lists, of_rows))  # type: ignore[call-overload]  # the annotations say the type


def _lists(key: pa.Array, value: pa.Array, offset: pa.Array, timestamp: pa.Array) -> pa.Array:
    """For each record the list of its rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from rota.audit.rows import ARROW_SCHEMA, PLACE

    at_ms = pc.divide(timestamp.cast(pa.int64()), 1_000)
    columns = {"offset": offset, "at_ms": at_ms, "key": key, "value": value}
    records = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    rows = decoded(records.filter(key.is_valid()), 0).select(ARROW_SCHEMA.names[len(PLACE) :]).to_struct_array()
    # The rows of a record begin with part 0.
    begins = [at for at, part in enumerate(rows.field("part").to_pylist()) if part == 0]
    ends = iter([*begins[1:], len(rows)])
    offsets = [0]
    for is_keyed in key.is_valid().to_pylist():
        offsets.append(next(ends) if is_keyed else offsets[-1])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows)


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in batches:
        for partition in pc.unique(batch.column("partition")):
            yield decoded(batch.filter(pc.equal(batch.column("partition"), partition)), partition.as_py())


def decoded(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """The rows of records of one partition: `offset`, `at_ms`, `key` and `value`."""
    from rota.audit.logs import OFFSETS, OFFSETS_TOPIC

    records = [batch.column(name).to_pylist() for name in ("offset", "at_ms", "key", "value")]
    count, columns = _rota.audit_decode(list(zip(*records, strict=True)))
    return placed(OFFSETS, OFFSETS_TOPIC, partition, count, columns)


def placed(
    source: str, log: str, partition: int, count: int, columns: list[tuple[bytes, bytes, bytes]]
) -> pa.RecordBatch:
    """Rows that Rust made, of one partition of a log."""
    import pyarrow as pa

    from rota.audit.rows import ARROW_SCHEMA, PLACE, TYPES, array_of

    common = (source, log, partition)
    place = [pa.repeat(pa.scalar(value, TYPES[kind]), count) for value, (_, kind) in zip(common, PLACE, strict=True)]
    kinds = [kind for _, kind in _rota.audit_columns()]
    arrays = [array_of(kind, count, buffers) for kind, buffers in zip(kinds, columns, strict=True)]
    return pa.RecordBatch.from_arrays([*place, *arrays], schema=ARROW_SCHEMA)
