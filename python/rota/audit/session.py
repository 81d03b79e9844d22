"""Spark, started so that a laptop can do it; and what to install where it cannot."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.audit import quiet
from rota.exits import installs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION = 17
INSTALL_EXTRA = f"the audit needs pyspark and pyarrow, and pandas and protobuf to follow: {installs('audit')}"
INSTALL_JAVA = (
    f"the audit needs Java {JAVA_VERSION} or newer: apt-get install openjdk-17-jre-headless,"
    " brew install openjdk@17, or set JAVA_HOME"
)
SHUFFLE_PARTITIONS_PER_CORE = 2
FILES_PER_CORE = 4
# A task sorts what it has of them in memory.
SHUFFLE_PARTITION_RECORDS = 500_000
SMALL_RECORDS = 100_000
# What makes a query on many rows faster, and takes longer than a query on few.
PAY_FOR_LARGE = (
    "spark.sql.codegen.wholeStage",
    "spark.sql.adaptive.enabled",
    "spark.sql.constraintPropagation.enabled",
)
# From so many on it pays to compile well what runs long.
LARGE_RECORDS = 2_000_000
# With quick compilation alone Java has room for 48 MiB of code, which the queries fill; then it compiles no more.
QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
QUICK_TO_RUN = "-XX:+UseParallelGC"
SMALL_HEAP, LARGE_HEAP = "1g", "2g"
# Spark's own, which it does not look at beside a setting.
HEAP_VARIABLE = "SPARK_DRIVER_MEMORY"
SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # Instead of sorting both sides of a join although one is small.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
    "spark.sql.session.timeZone": "UTC",
    # Instead of sorting rows by day before they are written.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Else no filter is handed to the format `rota`.
    "spark.sql.python.filterPushdown.enabled": "true",
}
LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
PYTHON_SETTING, PYTHON_VARIABLE = "spark.pyspark.python", "PYSPARK_PYTHON"


class MissingError(Exception):
    """Something that has to be installed; the message says what and how."""


def java_version() -> int | None:
    """The major version of the Java that Spark would start; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return None
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "(?:1\.)?([0-9]+)', said.stderr + said.stdout)
    return int(match[1]) if match else None


def _is_missing(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True


def check_installed(follows: bool = False) -> None:
    """Raises MissingError if the audit cannot run here."""
    needed = ("pyarrow", "pyspark", *(("google.protobuf", "pandas") if follows else ()))
    if any(map(_is_missing, needed)):
        raise MissingError(INSTALL_EXTRA)
    version = java_version()
    if version is None or version < JAVA_VERSION:
        found = "there is none" if version is None else f"this is Java {version}"
        raise MissingError(f"{INSTALL_JAVA} ({found})")


def is_small(records: int) -> bool:
    """Whether logs have so few records that queries cost more to compile and to spread than to run."""
    return records < SMALL_RECORDS


def heap(records: int) -> str:
    """Of Java for logs of so many records, unless the environment says another."""
    return os.environ.get(HEAP_VARIABLE) or (SMALL_HEAP if records < LARGE_RECORDS else LARGE_HEAP)


def files_of(records: int, cores: int) -> int:
    """How many files a table of logs with so many records is written as: each is written by one task."""
    return max(1, min(FILES_PER_CORE * cores, records // SHUFFLE_PARTITION_RECORDS))


def fit(spark: SparkSession, records: int) -> None:
    """Settings for logs of so many records."""
    cores = int(spark.sparkContext.defaultParallelism)
    pays = str(not is_small(records)).lower()
    for setting in PAY_FOR_LARGE:
        spark.conf.set(setting, pays)
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if is_small(records) else "FALLBACK")
    partitions = max(cores * SHUFFLE_PARTITIONS_PER_CORE, records // SHUFFLE_PARTITION_RECORDS)
    spark.conf.set("spark.sql.shuffle.partitions", str(1 if is_small(records) else partitions))


@contextlib.contextmanager
def _shown_after_error(said: quiet.Said) -> Iterator[None]:
    """Show what Java said before an error."""
    try:
        yield
    except Exception:
        said.show()
        raise


def is_submitted() -> bool:
    """Whether `spark-submit` runs this process, which then knows the master and has started Java."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settings_of(master: str | None, records: int, given: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Of a session, those that the user gives last."""
    # What reads a log for a minute is better off with quick compilation and few threads.
    java = QUICK_TO_START if records < LARGE_RECORDS else QUICK_TO_RUN
    settings = dict(SETTINGS)
    if not is_submitted():
        settings["spark.driver.extraJavaOptions"] = f"{java} {quiet.log_option(scratch)}"
        # In local mode the driver is the executor.
        settings["spark.driver.memory"] = heap(records)
    if master is not None and master.startswith("local"):
        # Spark's own choice is the first `python3` of the PATH, which need not have rota.
        os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
        # Else Spark warns of a host name that is a loopback address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= LOCAL_SETTINGS
    if PYTHON_SETTING in given:
        # Only spark-submit looks at the setting.
        os.environ[PYTHON_VARIABLE] = given[PYTHON_SETTING]
    return settings | dict(given)


@contextlib.contextmanager
def started(
    master: str | None = "local[*]",
    records: int = 0,
    *,
    is_quiet: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """A session with the format `rota` for logs of so many records; one that is active already is used and left alone.

    Without a master the session has that of `spark-submit`. `is_quiet`: what Java writes to stderr is shown only after
    an error. Raises MissingError.
    """
    check_installed()
    from pyspark.sql import SparkSession

    from rota.audit.source import LogSource

    active = SparkSession.getActiveSession()
    if active is not None:
        active.dataSource.register(LogSource)
        yield active
        return
    builder = SparkSession.builder.appName("rota audit")
    with (
        tempfile.TemporaryDirectory(prefix="rota-java-") as scratch,
        quiet.without_chatter(is_quiet=is_quiet) as said,
        _shown_after_error(said),
    ):
        chosen = _settings_of(master, records, settings, Path(scratch))
        for name, value in (chosen if master is None else chosen | {"spark.master": master}).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    try:
        with _shown_after_error(said):
            spark.sparkContext.setLogLevel("OFF")
            spark.dataSource.register(LogSource)
            yield spark
    finally:
        spark.stop()
