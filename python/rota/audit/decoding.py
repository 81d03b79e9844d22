"""Records of `__consumer_offsets` as rows, for one's own jobs: `rota.audit.decode`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rota import _rota

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

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


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in batches:
        for partition in pc.unique(batch.column("partition")):
            yield decoded(batch.filter(pc.equal(batch.column("partition"), partition)), partition.as_py())


def decoded(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """The rows of records of one partition: `offset`, `at_ms`, `key` and `value`."""
    import pyarrow as pa

    from rota.audit.logs import OFFSETS, OFFSETS_TOPIC
    from rota.audit.rows import ARROW_SCHEMA, PLACE, TYPES, array_of

    records = [batch.column(name).to_pylist() for name in ("offset", "at_ms", "key", "value")]
    count, columns = _rota.audit_decode(list(zip(*records, strict=True)))
    common = (OFFSETS, OFFSETS_TOPIC, partition)
    placed = [pa.repeat(pa.scalar(value, TYPES[kind]), count) for value, (_, kind) in zip(common, PLACE, strict=True)]
    kinds = [kind for _, kind in _rota.audit_columns()]
    arrays = [array_of(kind, count, buffers) for kind, buffers in zip(kinds, columns, strict=True)]
    return pa.RecordBatch.from_arrays([*placed, *arrays], schema=ARROW_SCHEMA)
