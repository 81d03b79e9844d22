"""Tables that are kept: Parquet, or tables of Delta Lake or Apache Iceberg.

Delta's own data source writes its tables. Iceberg's needs the version of Spark that it was built for; its library in
the same package does not, so Spark writes the files of a table as Parquet and that library adds them to it.
"""

from __future__ import annotations

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from rota.audit.hadoop import Target, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DAY = "day"
DATED = {
    "events": "at_ms",
    "generations": "from_ms",
    "membership": "first_ms",
    "ownership": "from_ms",
    "commits": "at_ms",
    "verdicts": "at_ms",
}
"""The column of a table that its day is of."""
LAST_MS = 253_402_300_799_999  # of the year 9999; a damaged log may say any
FOLLOWED = "followed"
"""A file beside the tables that `--follow` appends to: the id of its checkpoint."""
BATCH = "rota.batch"
UNFIT = re.compile(r"(NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError|IncompatibleClassChangeError)")
FOR_SPARK = re.compile(r"io\.delta:delta-spark_(\d+\.\d+)_\S+")
ICEBERG_TYPES = {"integer": "int", "long": "long", "string": "string", "binary": "binary", "date": "date"}


class Format(StrEnum):
    """What tables are kept as."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"


NAMES = {Format.parquet: "Parquet", Format.delta: "a Delta table", Format.iceberg: "an Iceberg table"}
PACKAGE_OF = {
    Format.delta: "io.delta:delta-spark_4.2_2.13:4.4.0 (of your version of Spark)",
    Format.iceberg: "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
SETTINGS = {
    Format.delta: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Instead of 50 tasks whenever the list of a table's files is read: a batch adds a file for each day.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
}


class StoreError(Exception):
    """Tables that cannot be kept; the message says why and what to do."""


def settings_of(kept_as: Format, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for a format, beside those that are given."""
    found = dict(SETTINGS.get(kept_as, {}))
    for name in found.keys() & given.keys():
        is_list = name == "spark.sql.extensions" and found[name] not in given[name].split(",")
        found[name] = f"{given[name]},{found[name]}" if is_list else given[name]
    return found


def check_packages(packages: str) -> None:
    """Raises StoreError if a package of Delta Lake is for another version of Spark."""
    try:
        installed = ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return
    if (match := FOR_SPARK.search(packages)) is not None and match[1] != installed:
        raise StoreError(
            f"--packages is `{packages}`: it is for Spark {match[1]}, this is Spark {installed}: give the package of"
            f" Spark {installed}, or pip install 'pyspark=={match[1]}.*'"
        )


def format_at(place: Target) -> Format | None:
    """What a table is kept as; None: there is none."""
    if (place / "_delta_log").exists():
        return Format.delta
    if (place / "metadata").exists():
        return Format.iceberg
    return Format.parquet if place.exists() else None


def check_place(root: Target, kept_as: Format, follower: str | None) -> None:
    """Raises StoreError if tables at a place are not to be written to. `follower`: the id of the checkpoint of
    `--follow`, None: the tables are replaced."""
    found = {name: format_at(root / name) for name in DATED}
    for name, other in found.items():
        if other is not None and other != kept_as:
            raise StoreError(
                f"--output is `{root}`: its `{name}` is {NAMES[other]}: give --format {other}, or another --output"
            )
    mark = root / FOLLOWED
    of_follower = mark.read_text().strip() if mark.exists() else None
    if of_follower == follower:
        return
    if follower is None:
        raise StoreError(f"--output is `{root}`: --follow appends to its tables: give another --output")
    if of_follower is not None:
        raise StoreError(
            f"--output is `{root}`: its tables are of another --checkpoint: give that one, or another --output"
        )
    if any(found.values()):
        raise StoreError(f"--output is `{root}`: its tables are of an audit of whole logs: give another --output")


def identity_of(checkpoint: Target) -> str:
    """The id of a checkpoint, which it gets when it is first asked for."""
    kept = checkpoint / "id"
    found = kept.read_text().strip() if kept.exists() else ""
    if not found:
        found = uuid.uuid4().hex
        checkpoint.mkdir(parents=True, exist_ok=True)
        kept.write_text(f"{found}\n")
    return found


def check_follower(root: Target | None, kept_as: Format, checkpoint: Target) -> str:
    """The id of a checkpoint, which remembers where its tables are.

    Raises StoreError if it may not go on with these, or without any.
    """
    kept = checkpoint / "output"
    before = kept.read_text().strip() if kept.exists() else ""
    if before and root is None:
        raise StoreError(f"the checkpoint `{checkpoint}` appends to the tables of `{before}`: give --output")
    follower = identity_of(checkpoint)
    if root is None:
        return follower
    if before == str(root) and not (root / FOLLOWED).exists():
        raise StoreError(
            f"--output is `{root}`: the tables that the checkpoint appended to are gone: follow from the beginning with"
            " another --checkpoint"
        )
    check_place(root, kept_as, follower)
    if not (root / FOLLOWED).exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / FOLLOWED).write_text(f"{follower}\n")
    kept.write_text(f"{root}\n")
    return follower


def dated(name: str, frame: DataFrame) -> DataFrame:
    """The rows of a table with their day (UTC), if they have a time."""
    if name not in DATED:
        return frame
    at_ms = DATED[name]
    day = f"date_from_unix_date(CAST({at_ms} DIV 86400000 AS INT))"
    return frame.selectExpr("*", f"CASE WHEN {at_ms} BETWEEN 0 AND {LAST_MS} THEN {day} END AS {DAY}")


class Store(ABC):
    """The tables at a place. Every table with a time is partitioned by day."""

    kept_as: Format

    def __init__(self, spark: SparkSession, root: Target) -> None:
        self._spark = spark
        self._root = root

    def replace(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a table in place of what is there; gives it as it was written. Raises StoreError."""
        with self.fitting():
            return self._replace(name, dated(name, frame))

    def append(self, name: str, frame: DataFrame, follower: str, batch: int) -> None:
        """Add the rows of a batch, unless they were added before. Raises StoreError."""
        with self.fitting():
            self._append(name, dated(name, frame), follower, batch)

    def _url(self, name: str) -> str:
        return spark_path(self._root / name)

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Raises StoreError where tables are read or written and the format's package is for another Spark."""
        try:
            yield
        except Exception as error:
            if self.kept_as == Format.parquet or (unfit := UNFIT.search(str(error))) is None:
                raise
            here = self._spark.version
            told = f"its package does not fit Spark {here} ({unfit[1]}): give --packages one that does"
            raise StoreError(f"--format is `{self.kept_as}`: {told}") from error

    @abstractmethod
    def _replace(self, name: str, frame: DataFrame) -> DataFrame: ...

    @abstractmethod
    def _append(self, name: str, frame: DataFrame, follower: str, batch: int) -> None: ...


def _by_day(frame: DataFrame, url: str) -> None:
    """Write files, in place of others."""
    writer = frame.write.mode("overwrite")
    (writer.partitionBy(DAY) if DAY in frame.columns else writer).parquet(url)


class ParquetStore(Store):
    """Directories of files. Each batch has one of its own, which is written anew if the batch runs again."""

    kept_as = Format.parquet

    def _replace(self, name: str, frame: DataFrame) -> DataFrame:
        _by_day(frame, self._url(name))
        if DAY in frame.columns and not any((self._root / name).glob(f"{DAY}=*")):
            # Without rows there is no file, so no reader would know the columns.
            self._spark.createDataFrame([], frame.schema).coalesce(1).write.mode("overwrite").parquet(self._url(name))
        return self._spark.read.schema(frame.schema).parquet(self._url(name))

    def _append(self, name: str, frame: DataFrame, follower: str, batch: int) -> None:  # noqa: ARG002 - Store's signature
        _by_day(frame, f"{self._url(name)}/batch={batch}")


class DeltaStore(Store):
    """Tables of Delta Lake, which remember the last batch of each application."""

    kept_as = Format.delta

    def _replace(self, name: str, frame: DataFrame) -> DataFrame:
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        (writer.partitionBy(DAY) if DAY in frame.columns else writer).save(self._url(name))
        return self._spark.read.format("delta").load(self._url(name))

    def _append(self, name: str, frame: DataFrame, follower: str, batch: int) -> None:
        writer = frame.write.format("delta").mode("append").partitionBy(DAY)
        writer.option("txnAppId", follower).option("txnVersion", batch).save(self._url(name))


class IcebergStore(Store):
    """Tables of Iceberg without a catalog. A property of the table has the last batch of each checkpoint."""

    kept_as = Format.iceberg

    def _replace(self, name: str, frame: DataFrame) -> DataFrame:
        table = self._table(name, frame.schema)
        url = f"{table.location()}/data/{uuid.uuid4().hex}"
        _by_day(frame, url)
        whole = self._iceberg.expressions.Expressions.alwaysTrue()
        added = table.newOverwrite().overwriteByRowFilter(whole)
        for file in self._files(table, url):
            added.addFile(file)
        added.commit()
        return self._spark.read.schema(frame.schema).parquet(url)

    def _append(self, name: str, frame: DataFrame, follower: str, batch: int) -> None:
        table = self._table(name, frame.schema)
        key = f"{BATCH}.{follower}"
        done = table.properties().get(key)
        if done is not None and int(done) >= batch:
            return
        url = f"{table.location()}/data/{follower}-{batch}"
        _by_day(frame, url)
        both = table.newTransaction()
        added = both.newAppend()
        for file in self._files(table, url):
            added.appendFile(file)
        added.commit()
        both.updateProperties().set(key, str(batch)).commit()
        both.commitTransaction()

    @property
    def _iceberg(self) -> Any:
        return self._jvm.org.apache.iceberg

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    @property
    def _settings(self) -> Any:
        return self._spark.sparkContext._jsc.hadoopConfiguration()

    def _table(self, name: str, columns: StructType) -> Any:
        """The table, which is made, or gets columns that it does not have."""
        iceberg, url = self._iceberg, self._url(name)
        tables = iceberg.hadoop.HadoopTables(self._settings)
        schema = iceberg.SchemaParser.fromJson(iceberg_schema(columns))
        if tables.exists(url):
            table = tables.load(url)
            if not table.schema().sameSchema(schema):
                table.updateSchema().unionByNameWith(schema).commit()
            return table
        spec = iceberg.PartitionSpec.builderFor(schema)
        spec = spec.identity(DAY) if DAY in columns.names else spec
        # Spark's files have no ids of columns.
        mapping = iceberg.mapping.NameMappingParser.toJson(iceberg.mapping.MappingUtil.create(schema))
        properties = {"schema.name-mapping.default": mapping, "format-version": "2"}
        return tables.create(schema, spec.build(), self._java(properties), url)

    def _java(self, entries: dict[str, str]) -> Any:
        found = self._jvm.java.util.HashMap()
        for name, value in entries.items():
            found.put(name, value)
        return found

    def _files(self, table: Any, url: str) -> Iterator[Any]:
        """The files of a directory that Spark wrote, as a table knows them."""
        iceberg, settings = self._iceberg, self._settings
        directory = self._jvm.org.apache.hadoop.fs.Path(url)
        listed = directory.getFileSystem(settings).listFiles(directory, True)
        mapping = iceberg.mapping.MappingUtil.create(table.schema())
        counted = iceberg.MetricsConfig.forTable(table)
        while listed.hasNext():
            status = listed.next()
            path = status.getPath()
            if not path.getName().endswith(".parquet"):
                continue
            file = iceberg.hadoop.HadoopInputFile.fromStatus(status, settings)
            metrics = iceberg.parquet.ParquetUtil.fileMetrics(file, counted, mapping)
            built = iceberg.DataFiles.builder(table.spec()).withPath(path.toString()).withFormat("parquet")
            built = built.withFileSizeInBytes(status.getLen()).withMetrics(metrics)
            if table.spec().isPartitioned():
                built = built.withPartitionPath(path.getParent().getName())
            yield built.build()


def iceberg_schema(columns: StructType) -> str:
    """Columns as Iceberg has them, as JSON."""
    fields, last = [], len(columns.fields)
    for number, field in enumerate(columns.fields, 1):
        kind: Any = field.dataType.typeName()
        if kind == "array":
            last += 1
            element = ICEBERG_TYPES[field.dataType.elementType.typeName()]  # type: ignore[attr-defined]
            kind = {"type": "list", "element-id": last, "element": element, "element-required": False}
        else:
            kind = ICEBERG_TYPES[kind]
        fields.append({"id": number, "name": field.name, "required": False, "type": kind})
    return json.dumps({"type": "struct", "schema-id": 0, "fields": fields})


STORES: dict[Format, type[Store]] = {store.kept_as: store for store in (ParquetStore, DeltaStore, IcebergStore)}


def store_of(spark: SparkSession, root: Target, kept_as: Format) -> Store:
    """The tables at a place. Raises StoreError if Spark lacks the package."""
    from py4j.java_gateway import JavaClass

    jvm: Any = spark._jvm
    needed = {
        Format.delta: lambda: jvm.io.delta.sql.DeltaSparkSessionExtension,
        Format.iceberg: lambda: jvm.org.apache.iceberg.hadoop.HadoopTables,
    }
    if kept_as in needed and not isinstance(needed[kept_as](), JavaClass):
        raise StoreError(f"--format is `{kept_as}`: Spark lacks its package: give --packages {PACKAGE_OF[kept_as]}")
    return STORES[kept_as](spark, root)
