"""Logs at URLs: the same verdicts as of directories, wherever Spark reads."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from rota.audit import read
from rota.audit.audit import Audit, Wanted, assembled, audit, of_copies
from rota.audit.command import as_json
from rota.audit.engines import MODEL, local, tasks_of
from rota.audit.follow.query import check_format, kept
from rota.audit.follow.query import started as follow
from rota.audit.hadoop import Entry, Hadoop, HadoopPath, Site, target_of, trimmed
from rota.audit.logs import OFFSETS_TOPIC, Part, partitions_in, parts_of
from rota.audit.on_spark import where
from rota.audit.opinion import PARTITIONS_ASKED
from rota.audit.remote import RemotePartition, fetched, in_order, partitions_at, renamed, results_of, rows_at
from rota.audit.rows import rows_of
from rota.audit.spark import Logs, SparkEngine, audit_with_tables
from rota.cli import app
from rota.journal import JOURNAL_TOPIC
from tests.audit.test_ahead import killed, running, segments, shortened

__all__ = ["killed", "running"]

pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

ROOT = "far://place"


class FakeHadoop:
    """A directory of this machine at `far://place`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.forbidden: set[str] = set()
        self.denied = 0
        self.gives_nothing = False

    def _at(self, url: str) -> Path:
        assert url.startswith(ROOT), url
        path = Path(f"{self.directory}{url.removeprefix(ROOT)}")
        if path.name in self.forbidden:
            self.denied += 1
            raise PermissionError(f"`{url}`: access denied (request {self.denied})")
        if not path.exists():
            raise FileNotFoundError(f"`{url}`: there is no such file or directory")
        return path

    def entries(self, url: str) -> list[Entry]:
        found = self._at(url).iterdir()
        return sorted(Entry(one.name, one.is_dir(), one.stat().st_size) for one in found)

    def is_directory(self, url: str) -> bool:
        return self._at(url).is_dir()

    def exists(self, url: str) -> bool:
        try:
            return self._at(url).exists()
        except FileNotFoundError:
            return False

    def fetch(self, url: str, target: Path) -> None:
        shutil.copyfile(os.devnull if self.gives_nothing else self._at(url), target)

    @contextmanager
    def opened(self) -> Iterator[FakeHadoop]:
        """Itself, where a `Site` has a JVM."""
        yield self


def audited(directory: Path, *urls: str, forbidden: frozenset[str] = frozenset()) -> Audit:
    """The audit of a directory that is far away."""
    fake = FakeHadoop(directory)
    partitions = listed(fake, *urls)
    fake.forbidden |= forbidden
    return audited_by(fake, partitions)


def audited_by(fake: FakeHadoop, partitions: list[RemotePartition]) -> Audit:
    found = [results_of(partition, cast(Site, fake)) for partition in reversed(partitions)]
    return assembled(Wanted([]), in_order(found))


def listed(fake: FakeHadoop, *urls: str) -> list[RemotePartition]:
    return partitions_at(cast(Hadoop, fake), list(urls or (ROOT,)))


def near(directory: Path, *below: str) -> Audit:
    """The audit of the directory itself, as if it were there."""
    paths = [directory / name for name in below] or [directory]
    found: Audit = audit(Wanted(paths), parts_of(paths), local)
    return found


def told(found: Audit, directory: Path) -> Any:
    return json.loads(as_json(found).replace(str(directory), ROOT))


@pytest.mark.parametrize("name", ["clean", "kafka", "planted", "planted_kafka", "worlds"])
def test_an_audit_of_a_url_says_the_same_as_one_of_the_directory(name: str, request: pytest.FixtureRequest) -> None:
    directory: Path = request.getfixturevalue(name)
    far = audited(directory)
    assert told(far, directory) == told(near(directory), directory)
    assert far.verdicts or name in {"clean", "kafka", "worlds"}


def test_a_url_may_be_a_journal_or_the_directory_of_a_partition(planted: Path) -> None:
    directory = next(planted.glob(f"{OFFSETS_TOPIC}-*")).name
    expected = told(near(planted, "journal", directory), planted)
    assert told(audited(planted, f"{ROOT}/journal/", f"{ROOT}/{directory}"), planted) == expected


def test_write_ahead_files_are_read_from_a_url_too(killed: Path) -> None:
    first, second = segments(killed)
    shutil.rmtree(first.parent)
    second.write_bytes(second.read_bytes()[: second.stat().st_size // 2])
    far = audited(killed)
    assert (far.rows > 30, told(far, killed)) == (True, told(near(killed), killed))
    (ahead,) = killed.glob("rota.wal.*")
    damaged = bytearray(ahead.read_bytes())
    damaged[60] ^= 0xFF
    ahead.write_bytes(damaged)
    far = audited(killed)
    assert [trouble.partition for trouble in far.unreadable] == [-1]
    assert told(far, killed) == told(near(killed), killed)
    shutil.rmtree(second.parent)
    with pytest.raises(OSError, match=f"`{ROOT}"):
        listed(FakeHadoop(killed))


class Checkpointing(FakeHadoop):
    """A server that makes a checkpoint before it gives a file: segments become whole, the write-ahead file goes."""

    def __init__(self, directory: Path, whole: Path, before: int) -> None:
        super().__init__(directory)
        self.whole, self.left = whole, before

    def fetch(self, url: str, target: Path) -> None:
        if self.left == 0:
            for segment in segments(self.whole):
                shutil.copyfile(segment, self.directory / segment.relative_to(self.whole))
            (ahead,) = self.directory.glob("rota.wal.*")
            ahead.unlink()
        self.left -= 1
        super().fetch(url, target)


@pytest.mark.parametrize("before", range(7))
def test_a_checkpoint_while_files_are_copied_changes_nothing(before: int, running: Path, killed: Path) -> None:
    shortened(killed, 5)
    fake = Checkpointing(killed, running, before)
    far = audited_by(fake, listed(fake))
    assert fake.left < 0
    assert told(far, killed) == told(near(running), running)
    assert far.unreadable == []


def test_a_frame_that_was_written_while_it_was_copied_is_no_damage(running: Path, killed: Path) -> None:
    class Writing(FakeHadoop):
        copies = 0

        def fetch(self, url: str, target: Path) -> None:
            super().fetch(url, target)
            self.copies += "rota.wal" in url
            if "rota.wal" in url and self.copies % 2:
                content = bytearray(target.read_bytes())
                content[60] ^= 0xFF
                target.write_bytes(content)

    shortened(killed, 5)
    fake = Writing(killed)
    assert told(audited_by(fake, listed(fake)), killed) == told(near(running), running)


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_write_ahead_file_that_must_not_be_read_is_told_once(killed: Path, is_listed: bool) -> None:
    (ahead,) = killed.glob("rota.wal.*")
    fake = FakeHadoop(killed)
    fake.forbidden = set() if is_listed else {ahead.name}
    partitions = listed(fake)
    fake.forbidden = {ahead.name}
    far = audited_by(fake, partitions)
    ((log, partition, reason),) = [(one.log, one.partition, one.reason) for one in far.unreadable]
    assert (log, partition, f"`{ROOT}/{ahead.name}`: access denied" in reason) == (ROOT, -1, True)
    assert (far.rows, far.exit_code) == (near(killed).rows + 1, 2)


def test_a_write_ahead_file_beside_a_journal_alone_is_told_too(clean: Path, killed: Path) -> None:
    shutil.copytree(clean / "journal", killed / "journal")
    for segment in segments(killed):
        shutil.rmtree(segment.parent)
    (ahead,) = killed.glob("rota.wal.*")
    fake = FakeHadoop(killed)
    fake.forbidden = {ahead.name}
    far = audited_by(fake, listed(fake))
    assert [one.partition for one in far.unreadable] == [-1]
    assert (far.folds != [], far.exit_code) == (True, 2)


def test_what_could_not_be_fetched_cannot_be_opened(killed: Path) -> None:
    fake = FakeHadoop(killed)
    partition, *_ = listed(fake)
    fake.forbidden = {path.name for path in (killed / partition.directory).iterdir()}
    with fetched(partition, cast(Site, fake)) as (scratch, parts):
        copies = list((Path(scratch) / partition.directory).iterdir())
        assert {part.path for part in parts if part.trouble} == set(map(str, copies)) != set()
        for copy in copies:
            # An empty directory can: on some filesystems it reads like an empty file.
            with pytest.raises(OSError, match=copy.name):
                os.open(copy, os.O_RDONLY)


@pytest.mark.parametrize("change", ["emptied", "gone", "denied"])
def test_a_partition_of_which_nothing_comes_is_unreadable(change: str, planted_kafka: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(planted_kafka, tmp_path / "data"))
    fake = FakeHadoop(directory)
    partition = max(listed(fake), key=lambda one: one.size_bytes)
    if change == "emptied":
        fake.gives_nothing = True
    elif change == "gone":
        shutil.rmtree(directory / partition.directory)
    else:
        fake.forbidden = {partition.directory}
    far = audited_by(fake, [partition])
    says = {"emptied": "nothing was read of", "gone": "there is no such file", "denied": "access denied"}[change]
    ((told_partition, reason),) = [(one.partition, one.reason) for one in far.unreadable]
    assert (f"{OFFSETS_TOPIC}-{told_partition}", far.exit_code) == (partition.directory, 2)
    assert f"`{ROOT}/{partition.directory}`: {says}" in reason


def test_a_file_that_must_not_be_read_is_told_and_the_rest_is_audited(planted: Path) -> None:
    files = {path.name for path in planted.glob(f"{OFFSETS_TOPIC}-*/*.log")}
    far = audited(planted, forbidden=frozenset(files))
    denied = [one for one in far.unreadable if "access denied" in one.reason]
    assert denied
    assert all(f"`{ROOT}/" in one.reason for one in denied)
    assert far.exit_code == 2
    assert any(verdict.source == "journal" for verdict in audited(planted, f"{ROOT}/journal").verdicts)


def test_the_rows_of_a_url_are_those_of_the_directory(planted_kafka: Path) -> None:
    fake = FakeHadoop(planted_kafka)
    far = [row for one in listed(fake) for batch in rows_at(one, cast(Site, fake)) for row in batch.to_pylist()]
    local_rows = [row for part in parts_of([planted_kafka]) for batch in rows_of(part) for row in batch.to_pylist()]
    assert far == [renamed(row, str(planted_kafka), ROOT) for row in local_rows]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"{ROOT}/missing", f"`{ROOT}/missing`: there is no such file or directory"),
        (f"{ROOT}/file", f"`{ROOT}/file` is a file: give a data directory, a journal or the directory of a partition"),
        (f"{ROOT}/empty", f"`{ROOT}/empty` has no __consumer_offsets and no journal in it: give a data directory"),
    ],
)
def test_a_url_without_a_log_is_refused_with_the_reason(url: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as refused:  # noqa: PT011 - its text is compared
        listed(FakeHadoop(tmp_path), url)
    assert str(refused.value) == says


def test_a_verdict_of_a_url_has_a_command_for_a_copy(planted_kafka: Path) -> None:
    verdict = of_copies(audited(planted_kafka)).verdicts[0]
    assert verdict.reproduce.startswith("rota log dump DIR --source offsets --partition ")
    assert verdict.reproduce.endswith(f"  # DIR: a copy of {ROOT}")


def test_names_are_replaced_in_all_of_a_result() -> None:
    part = Part("offsets", "/a/b", 0, "/a/b/c", 0, 1, 0, 1, 0, 1, True, True, "`/a/b/c`: wrong")
    found = renamed([part, {"x": ("/a/b", 1)}], "/a/b", "far://x")
    assert found == [
        part._replace(log="far://x", path="far://x/c", trouble="`far://x/c`: wrong"),
        {"x": ("far://x", 1)},
    ]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["s3a://b/data", "data"], "`s3a://b/data` is a URL, others are not: give only URLs"),
        (["s3a://b/data", "--follow"], "`s3a://b/data` is a URL: --follow reads local directories, or a broker"),
        (["s3a://b/data", "--engine", "local"], "--engine is `local`: `s3a://b/data` needs Spark"),
        (["s3a://b/data", "--report", "s3a://b/report.html"], "it is written by this machine, give a local file"),
        (["s3a://b/data", "--conf", "fs.s3a.endpoint"], "--conf is `fs.s3a.endpoint`: give KEY=VALUE"),
        (["s3a://b/data", "--conf", "fs.s3a.secret.key s3cr3t"], "--conf is `fs.s3a.secret.key`: give KEY=VALUE"),
        (["s3a://b/data", "--conf", "fs.s3a.secret.key=s3cr3t"], "--conf is `fs.s3a.secret.key=...`: others would see"),
        (["s3a://b/data", "--conf", "fs.azure.account.key.a.b.net=s3cr3t"], "set AWS_ACCESS_KEY_ID"),
        (["s3a://b/data", "--packages", "hadoop-aws"], "--packages is `hadoop-aws`: give GROUP:ARTIFACT:VERSION"),
        (["s3a://b/data", "--conf", "spark.master=here"], "--master is `here`: give local[N], spark://HOST:PORT"),
    ],
)
def test_a_wrong_call_is_refused_before_spark_starts(arguments: list[str], says: str) -> None:
    ended = run(*arguments)
    assert (ended.exit_code, says in ended.stderr, "s3cr3t" in ended.stderr) == (2, True, False), ended.stderr


@pytest.mark.parametrize(
    "key",
    [
        "fs.s3a.aws.credentials.provider",
        "spark.kubernetes.driver.secrets.name",
        "spark.kubernetes.driver.secretKeyRef.KEY",
        "spark.kubernetes.authenticate.submission.oauthTokenFile",
    ],
)
def test_a_setting_that_names_where_a_secret_is_may_be_given(key: str) -> None:
    assert where(None, [f"{key}=value"], None).settings[key if "spark." in key else f"spark.hadoop.{key}"] == "value"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("hdfs:///", "hdfs://"),
        ("hdfs://nn/", "hdfs://nn"),
        ("hdfs://nn/data//", "hdfs://nn/data"),
        ("s3a://bucket", "s3a://bucket"),
    ],
)
def test_slashes_at_the_end_of_a_url_are_left_out(url: str, expected: str) -> None:
    assert trimmed(url) == expected


def test_a_url_may_be_a_root(spark: SparkSession) -> None:
    names = {one.name for one in Hadoop.of(spark).entries(trimmed("file:///"))}
    assert names == set(os.listdir("/"))  # noqa: PTH208 - names
    assert str(target_of(spark, "file:///") / "a") == "file:///a"


def test_the_model_is_asked_of_the_same_journals_as_of_directories(tmp_path: Path) -> None:
    for number in range(PARTITIONS_ASKED * 2):
        directory = tmp_path / f"{JOURNAL_TOPIC}-{number}"
        directory.mkdir()
        (directory / f"{0:020}.log").write_bytes(b"x")
    there = partitions_in(parts_of([tmp_path]))
    assert len(there) == PARTITIONS_ASKED * 2
    expected = [there[task.partition][0].partition for task in tasks_of(there) if task.kind == MODEL]
    asked = [int(one.directory.rpartition("-")[2]) for one in listed(FakeHadoop(tmp_path)) if one.asks_model]
    assert sorted(asked) == expected


def test_java_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    site, java = Hadoop.of(spark).site(""), tmp_path / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OSError, match=r"Java does not start on this worker.*No such file"), site.opened():
        pass
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(OSError, match=r"Java does not start on this worker.*it ended at once"), site.opened():
        pass


def test_java_that_is_killed_makes_files_unreadable(spark: SparkSession, planted_kafka: Path) -> None:
    site = Hadoop.of(spark).site("")
    with site.opened() as hadoop:
        os.kill(hadoop._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        with pytest.raises(OSError, match="the Java of this worker has ended"):
            hadoop.entries(planted_kafka.as_uri())


def test_a_reason_of_java_is_told_for_a_file_that_is_there(spark: SparkSession) -> None:
    for text, says in {
        "/a (Permission denied)": "`file:///a`: Permission denied",
        "/a (No such file or directory)": "`file:///a`: there is no such file or directory",
        "File /a does not exist": "`file:///a`: there is no such file or directory",
    }.items():
        thrown = spark._jvm.java.io.FileNotFoundException(text)  # type: ignore[union-attr]
        told = Hadoop.of(spark)._error("file:///a", thrown)
        assert (str(told), isinstance(told, FileNotFoundError)) == (says, "no such" in says)


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """Paths without a scheme are of a filesystem that is not there."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.defaultFS", "hdfs://nowhere.invalid")
    yield
    settings.unset("fs.defaultFS")


@pytest.mark.usefixtures("elsewhere")
def test_local_paths_are_of_this_machine_whatever_the_default_is(
    spark: SparkSession, planted_kafka: Path, tmp_path: Path
) -> None:
    place, logs = tmp_path / "a b", Logs(parts_of([planted_kafka]), [])
    audit_with_tables(spark.newSession(), Wanted([planted_kafka], output=target_of(spark, str(place))), logs)
    assert {"events", "generations", "verdicts"} <= {path.name for path in place.iterdir()}
    query = follow(spark, [planted_kafka], place / "checkpoint", lambda _: None, once=True)
    query.awaitTermination()
    assert (place / "checkpoint" / "spark" / "metadata").exists()


def test_hadoops_file_system_reads_writes_and_lists(spark: SparkSession, tmp_path: Path) -> None:
    root = target_of(spark, f"{tmp_path.as_uri()}/new/")
    assert isinstance(root, HadoopPath)
    assert list(root.glob("*")) == []
    (root / "a").mkdir()
    written = root / "a" / "1.part"
    written.write_text("né")
    written.rename(written.with_suffix(".jsonl"))
    assert [str(path) for path in (root / "a").glob("*.jsonl")] == [f"{tmp_path.as_uri()}/new/a/1.jsonl"]
    assert (tmp_path / "new" / "a" / "1.jsonl").read_text() == (root / "a" / "1.jsonl").read_text() == "né"
    (root / "a").unlink()
    assert (root.exists(), (root / "a").exists()) == (True, False)
    # A checkpoint is one as well.
    check_format(root)
    (root / "spark").mkdir()
    check_format(root)
    assert list(kept(root)) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///missing-here", "`file:///missing-here`: there is no such file or directory"),
        ("s3a://bucket/data", "Spark has no filesystem for s3a://: give --packages org.apache.hadoop:hadoop-aws:3."),
        ("s3://bucket/data", "Spark has no filesystem for s3://: write s3a://"),
        ("nowhere://data", "Spark has no filesystem for nowhere://: give its package with --packages"),
    ],
)
def test_a_url_that_spark_cannot_read_says_what_to_do(spark: SparkSession, url: str, says: str) -> None:
    with pytest.raises(OSError, match="file") as refused:
        Hadoop.of(spark).entries(url)
    assert says in str(refused.value)


def test_names_of_directories_may_have_any_letters(
    spark: SparkSession, planted_kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(shutil.copytree(planted_kafka, tmp_path / "from a+b@é%20"))
    scratch = tmp_path / "to a=b@é%20"
    scratch.mkdir()
    monkeypatch.setenv("LOCAL_DIRS", str(scratch))
    hadoop, url = Hadoop.of(spark), f"file://{directory}"
    partition = max(partitions_at(hadoop, [url]), key=lambda one: one.size_bytes)
    far = assembled(Wanted([]), in_order([results_of(partition, hadoop.site(""))]))
    expected = json.loads(as_json(near(directory, partition.directory)))
    assert renamed(json.loads(as_json(far)), url, str(directory)) == expected
    assert (far.rows > 0, list(scratch.iterdir())) == (True, [])


def test_the_format_of_directories_names_what_reads_urls(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"`s3a://b/data` is a URL: read it with rota.audit.read"):
        spark.read.format("rota").load("s3a://b/data").collect()


@pytest.mark.long
def test_tasks_read_a_url_through_hadoop(spark: SparkSession, planted_kafka: Path, clean: Path, tmp_path: Path) -> None:
    spark = spark.newSession()  # whose views are its own
    hadoop, url = Hadoop.of(spark), planted_kafka.as_uri()
    logs = Logs([], partitions_at(hadoop, [url]), hadoop.site(""))
    wanted = Wanted([], output=target_of(spark, f"{tmp_path.as_uri()}/tables"))
    far = audit_with_tables(spark, wanted, logs)
    expected = of_copies(near(planted_kafka))
    assert as_json(far).replace(url, str(planted_kafka)) == as_json(expected)
    assert far.verdicts
    events = spark.read.parquet(str(tmp_path / "tables" / "events"))
    assert events.count() == far.rows
    assert read(spark, url).count() == far.rows
    assert {row.log for row in events.select("log").distinct().collect()} == {url}
    assert not (tmp_path / "tables" / "views").exists()
    # Of a journal, too, and without tables.
    logs = Logs([], partitions_at(hadoop, [f"{clean.as_uri()}/journal"]), hadoop.site(""))
    far = logs.audited(Wanted([]), SparkEngine(spark), lambda _: None)
    assert as_json(far).replace(clean.as_uri(), str(clean)) == as_json(near(clean, "journal"))
