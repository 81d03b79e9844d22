"""`rota audit --format`: the tables as Parquet, of Delta Lake and of Apache Iceberg, read back by other libraries."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from typer.testing import CliRunner

from rota.audit.stores import (
    DATED,
    PACKAGE_OF,
    SETTINGS,
    Format,
    StoreError,
    check_follower,
    check_place,
    identity_of,
    settings_of,
)
from rota.cli import app
from tests.audit.test_follow import grown

pytestmark = [pytest.mark.xdist_group("lakes"), pytest.mark.timeout(2400)]
needs_java = pytest.mark.java

ROOT = Path(__file__).parents[2]
SPARK_OF_DELTA = "4.2.0"
"""The newest one that there is a Delta Lake for."""
THOROUGH = "LAKES_ALL" in os.environ
"""Whether tables of every format are replaced, too, and a process that appends to them is killed (`make long`)."""
PACKAGES = {kept_as: package.split()[0] for kept_as, package in PACKAGE_OF.items()}
PARTITIONS = ds.partitioning(pa.schema([("batch", pa.int64()), ("day", pa.date32())]), flavor="hive")
ALL = [*DATED, "lag", "coverage"]
COMMANDS = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from typer.testing import CliRunner
from rota.audit.stores import Store
from rota.cli import app

append, dies = Store.append, {}

def dying(*arguments):
    append(*arguments)
    dies["appends"] -= 1
    if not dies["appends"] and dies["kills"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if not dies["appends"]:
        raise RuntimeError("as was planted")

Store.append = dying
SparkSession.stop = lambda _: None  # the next command goes on with it
for line in sys.stdin:
    words, dies["appends"], dies["kills"] = json.loads(line)
    ended = CliRunner().invoke(app, ["audit", *words])
    print(json.dumps([ended.exit_code, ended.output]), flush=True)
"""
"""A program that runs `rota audit` for each line. A command can die after so many appends, or the process with it."""
Row = tuple[tuple[str, Any], ...]


@pytest.fixture(scope="session")
def older_spark() -> Path:
    """A directory with the version of Spark that Delta Lake is for. Skips the test where it is out of reach."""
    place = ROOT / "build" / f"spark-{SPARK_OF_DELTA}"
    if not place.exists():
        installed = place.with_suffix(f".{os.getpid()}")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed)]
        ended = subprocess.run([*install, f"pyspark=={SPARK_OF_DELTA}"], check=False, capture_output=True, text=True)
        if ended.returncode:
            pytest.skip(f"pyspark {SPARK_OF_DELTA} is out of reach: {ended.stderr}")
        installed.rename(place)
    return place


@pytest.fixture(scope="module")
def whole(planted_kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a log as Parquet."""
    output = tmp_path_factory.mktemp("whole") / "tables"
    command = [sys.executable, "-m", "rota.audit", str(planted_kafka), "--output", str(output)]
    ended = subprocess.run([*command, "--master", "local[1]"], check=False, capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    return output


class Lake(NamedTuple):
    """`rota audit` with a format, one command after the other, on a Spark that starts once."""

    kept_as: Format
    process: subprocess.Popen[str]
    log: IO[bytes]

    def run(self, *arguments: str | Path, appends: int = 0, kills: bool = False) -> tuple[int, str]:
        """Exit code and output of a command. Skips the test where Maven's packages are out of reach."""
        words = [*map(str, arguments), "--master", "local[1]", "--format", self.kept_as]
        words += ["--packages", PACKAGES[self.kept_as]] if self.kept_as in PACKAGES else []
        commands, answers = self.process.stdin, self.process.stdout
        assert commands is not None
        assert answers is not None
        commands.write(f"{json.dumps([words, appends, kills])}\n")
        commands.flush()
        said = next((line for line in answers if line.startswith("[")), None)
        self.log.seek(0)
        log = self.log.read().decode()
        if "unresolved dependenc" in log:
            pytest.skip(f"{PACKAGES[self.kept_as]} is out of reach")
        code, output = json.loads(said) if said is not None else (self.process.wait(), "")
        return code, output + log


@contextlib.contextmanager
def started(kept_as: Format, path: str) -> Iterator[Lake]:
    """`path`: where Python finds the Spark of the format."""
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [sys.executable, "-c", COMMANDS],
            env=os.environ | {"PYTHONPATH": path},
            stdin=pipe,
            stdout=pipe,
            stderr=log,
            text=True,
        ) as process,
    ):
        yield Lake(kept_as, process, log)


def path_of(kept_as: Format, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("older_spark")) if kept_as == Format.delta else ""


# Delta Lake needs a second version of Spark, which is a download of 450 MB.
DELTA = pytest.param(Format.delta, marks=pytest.mark.long)


# In the order in which the first test has them: pytest then uses one Spark for all tests of a format.
@pytest.fixture(scope="module", params=[DELTA, Format.iceberg, Format.parquet])
def lake(request: pytest.FixtureRequest) -> Iterator[Lake]:
    with started(Format(request.param), path_of(Format(request.param), request)) as lake:
        yield lake


def of_parquet(table: Path) -> pa.Table:
    return ds.dataset(table, format="parquet", partitioning=PARTITIONS).to_table()


def of_delta(table: Path) -> pa.Table:
    return DeltaTable(table).to_pyarrow_table()


def of_iceberg(table: Path) -> pa.Table:
    newest = (table / "metadata" / "version-hint.text").read_text().strip()
    return StaticTable.from_metadata(str(table / "metadata" / f"v{newest}.metadata.json")).scan().to_arrow()


READ: dict[Format, Callable[[Path], pa.Table]] = {
    Format.parquet: of_parquet,
    Format.delta: of_delta,
    Format.iceberg: of_iceberg,
}


def rows(kept_as: Format, table: Path) -> Counter[Row]:
    """The rows of a table with how often they are there. An empty list of a column is no None."""
    found = READ[kept_as](table)
    return Counter(
        tuple(
            (name, tuple(value) if isinstance(value, list) else value)
            for name, value in sorted(row.items())
            if name != "batch" and not (name == "day" and table.name not in DATED)
        )
        for row in found.to_pylist()
    )


@needs_java
@pytest.mark.parametrize("lake", [DELTA, Format.iceberg], indirect=True)
def test_tables_of_every_format_have_the_same_rows(
    lake: Lake, planted_kafka: Path, whole: Path, tmp_path: Path
) -> None:
    for _ in range(2 if THOROUGH else 1):  # the second one replaces all
        code, said = lake.run(planted_kafka, "--output", tmp_path / "tables")
        assert code == 1, said
    for name in ALL:
        expected = rows(Format.parquet, whole / name)
        assert expected or name == "lag"
        assert rows(lake.kept_as, tmp_path / "tables" / name) == expected, name
    other = next(other for other in Format if other != lake.kept_as)
    with pytest.raises(StoreError, match=f"give --format {lake.kept_as}, or another --output"):
        check_place(tmp_path / "tables", other, None)


# CI has one format.
@needs_java
@pytest.mark.parametrize(
    "lake", [DELTA, pytest.param(Format.iceberg, marks=pytest.mark.long), Format.parquet], indirect=True
)
def test_a_batch_that_fails_or_is_killed_and_runs_again_is_there_once(
    lake: Lake, planted_kafka: Path, whole: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data, output = tmp_path / "planted", tmp_path / "tables"
    grown(planted_kafka, data, 0.9)
    once: list[str | Path] = [data, "--follow", "--once", "--json", "--output", output]
    with started(lake.kept_as, path_of(lake.kept_as, request)) if THOROUGH else contextlib.nullcontext(lake) as first:
        code, said = first.run(*once, appends=1)  # events alone
        assert (code, "as was planted" in said) == (2, True), said
        if THOROUGH:
            code, said = first.run(*once, appends=2, kills=True)  # events and verdicts
            assert code == -signal.SIGKILL, said
    before = rows(lake.kept_as, output / "events")
    assert (before.total() > 0, (output / "checkpoint" / "verdicts").exists()) == (True, False)
    code, said = lake.run(*once)
    assert code == 1, said
    assert rows(lake.kept_as, output / "events") == before
    grown(planted_kafka, data, 1)
    code, said = lake.run(*once)
    assert code in {0, 1}, said
    for name, without in (("events", ()), ("verdicts", ("also", "reproduce"))):
        told = renamed(rows(lake.kept_as, output / name), str(data), str(planted_kafka), without)
        assert told == renamed(rows(Format.parquet, whole / name), "", "", without), name


def renamed(found: Counter[Row], old: str, new: str, without: tuple[str, ...]) -> Counter[Row]:
    """Rows as they are of a log at another place, without the keys, which are of the place, too."""
    without = (*without, "group_key", "partition_key")
    return Counter(
        tuple((name, new if value == old else value) for name, value in row if name not in without)
        for row in found.elements()
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--format", "delta"], "--format is `delta`: give --output, where the tables are written"),
        (["--format", "orc", "--output", "t"], "--format is `orc`: give one of parquet, delta, iceberg"),
        (
            ["--format", "delta", "--output", "t", "--packages", "io.delta:delta-spark_3.5_2.12:4.0.0"],
            "it is for Spark 3.5, this is Spark",
        ),
        (
            ["--format", "iceberg", "--output", "t", "--engine", "local"],
            "--engine is `local`: --output needs Spark, leave out --engine",
        ),
    ],
)
def test_a_format_that_cannot_be_written_is_refused_before_spark_starts(
    options: list[str], says: str, kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["audit", str(kafka), *options])
    assert (ended.exit_code, says in ended.output) == (2, True), ended.output


@needs_java
@pytest.mark.parametrize("lacking", [DELTA, Format.iceberg])
def test_a_format_without_its_package_is_refused_before_the_audit(lacking: Format, kafka: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rota", "audit", str(kafka), "--output", str(tmp_path), "--format", lacking]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    says = f"rota: --format is `{lacking}`: Spark lacks its package: give --packages {PACKAGES[lacking]}"
    assert (ended.returncode, ended.stdout, says in ended.stderr) == (2, "", True), ended.stderr


def test_tables_are_not_written_to_by_another_command(tmp_path: Path) -> None:
    one, other = identity_of(tmp_path / "one"), identity_of(tmp_path / "other")
    assert (one == other, identity_of(tmp_path / "one") == one) == (False, True)
    check_place(tmp_path / "tables", Format.parquet, one)
    (tmp_path / "tables" / "events").mkdir(parents=True)
    with pytest.raises(StoreError, match="its tables are of an audit of whole logs: give another --output"):
        check_place(tmp_path / "tables", Format.parquet, one)
    (tmp_path / "tables" / "followed").write_text(one)
    check_place(tmp_path / "tables", Format.parquet, one)
    with pytest.raises(StoreError, match="of another --checkpoint: give that one"):
        check_place(tmp_path / "tables", Format.parquet, other)
    with pytest.raises(StoreError, match="--follow appends to its tables: give another --output"):
        check_place(tmp_path / "tables", Format.parquet, None)


def test_a_checkpoint_goes_on_with_its_tables_only(tmp_path: Path) -> None:
    checkpoint, output = tmp_path / "seen", tmp_path / "tables"
    assert check_follower(None, Format.parquet, checkpoint) == identity_of(checkpoint)
    for _ in range(2):
        assert check_follower(output, Format.parquet, checkpoint) == identity_of(checkpoint)
    with pytest.raises(StoreError, match=f"`{checkpoint}` appends to the tables of `{output}`: give --output"):
        check_follower(None, Format.parquet, checkpoint)
    output.rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="are gone: follow from the beginning with another --checkpoint"):
        check_follower(output, Format.parquet, checkpoint)
    for place in ("moved", "new", "new"):
        assert check_follower(tmp_path / place, Format.parquet, checkpoint) == identity_of(checkpoint)


def test_settings_that_are_given_stay() -> None:
    given = {"spark.sql.extensions": "a.B", "spark.sql.catalog.spark_catalog": "c.D"}
    both = "a.B,io.delta.sql.DeltaSparkSessionExtension"
    assert settings_of(Format.delta, given) == {**SETTINGS[Format.delta], **given, "spark.sql.extensions": both}
    assert settings_of(Format.parquet, given) == {}
