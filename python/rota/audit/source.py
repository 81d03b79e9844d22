"""Spark's way to the logs: `spark.read.format("rota").load("data")`.

Options: `path` (several: one a line), `partBytes` (how much one task reads, 16 MiB); of a stream `entries` (`true`:
each entry of a journal comes whole before its rows), and instead of `path` `bootstrapServers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from rota.audit.follow.broker import Broker, BrokerReader
from rota.audit.follow.growth import GrowthReader
from rota.audit.hadoop import is_url
from rota.audit.logs import JOURNAL, PART_BYTES, Part, parts_of
from rota.audit.rows import SPARK_SCHEMA, rows_of

if TYPE_CHECKING:
    import pyarrow as pa


class LogReader(DataSourceReader):
    """Reads the parts of logs, one task each."""

    def __init__(self, paths: list[Path], part_bytes: int) -> None:
        self.paths = paths
        self.part_bytes = part_bytes
        self.groups: list[str] | None = None
        self.since_ms: int | None = None
        self.until_ms: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Skip other groups and times while reading, where possible. Spark filters the rows again."""
        for pushed in filters:
            match pushed:
                case EqualTo(attribute=("group",), value=group):
                    self._only({group})
                case In(attribute=("group",), value=groups):
                    self._only(set(groups))
                case (
                    GreaterThan(attribute=("at_ms",), value=at_ms)
                    | GreaterThanOrEqual(attribute=("at_ms",), value=at_ms)
                ):
                    self.since_ms = max(at_ms, self.since_ms or at_ms)
                case LessThan(attribute=("at_ms",), value=at_ms) | LessThanOrEqual(attribute=("at_ms",), value=at_ms):
                    self.until_ms = min(at_ms, self.until_ms or at_ms)
                case _:
                    pass
            yield pushed

    def _only(self, groups: set[str]) -> None:
        known = groups if self.groups is None else groups & set(self.groups)
        self.groups = sorted(known)

    def partitions(self) -> Sequence[InputPartition]:
        """One for each part that has something of the time that is asked about."""
        return [InputPartition(part) for part in parts_of(self.paths, self.part_bytes) if self._may_have(part)]

    def _may_have(self, part: Part) -> bool:
        # A journal's rows have the coordinator's time, which may be later than that of their batch.
        if part.trouble is not None or part.source == JOURNAL or self.since_ms is None:
            return True
        return part.newest_ms >= self.since_ms

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part. Where there are no parts, Spark asks all the same, without one."""
        part: Part | None = partition.value
        return iter(()) if part is None else rows_of(part, self.groups, self.since_ms, self.until_ms)


class LogSource(DataSource):
    """Journals, and `__consumer_offsets` of rota and Apache Kafka, as rows."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = options.get("path", "")
        if is_url(given):
            raise ValueError(f"`{given}` is a URL: read it with rota.audit.read(spark, URL)")
        self.paths = [Path(line) for line in given.splitlines() if line]
        self.part_bytes = int(options.get("partbytes", options.get("partBytes", PART_BYTES)))
        self.has_entries = options.get("entries", "false") == "true"

    @classmethod
    def name(cls) -> str:
        """The name of Spark's data source format."""
        return "rota"

    def schema(self) -> str:
        """The columns of docs/audit.md."""
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> GrowthReader | BrokerReader:  # noqa: ARG002, N802 - Spark's signature
        """Raises ValueError without a path."""
        broker = Broker.of_options(self.options)
        if broker is not None:
            return BrokerReader(broker)
        if not self.paths:
            raise ValueError('no path: spark.readStream.format("rota").load(DIR)')
        return GrowthReader(self.paths, self.part_bytes, self.has_entries)

    def reader(self, schema: StructType) -> LogReader:  # noqa: ARG002 - Spark's signature
        """Raises ValueError without a path."""
        if not self.paths:
            raise ValueError('no path: spark.read.format("rota").load(DIR)')
        return LogReader(self.paths, self.part_bytes)
