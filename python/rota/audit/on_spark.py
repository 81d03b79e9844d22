"""What `rota audit` does on Spark: its options, the session, and what to do about what goes wrong there."""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.addresses import split
from rota.audit import session
from rota.audit.hadoop import is_url
from rota.audit.stores import Format, StoreError, check_packages, settings_of
from rota.exits import MISUSED, UNREACHABLE, fail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rota.audit.audit import Audit, Wanted
    from rota.audit.spark import Logs, NotWrittenError

LOCAL_MASTER = "local[*]"
MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
PACKAGE = re.compile(r"[^\s:,]+:[^\s:,]+:[^\s:,]+")
SECRET = re.compile(
    r"(secret|password|token|account\.key)(?!s\.|KeyRef|[.-]?(binding|file|path|provider|service))", re.IGNORECASE
)
SECRETS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, fs.s3a.aws.credentials.provider, or HADOOP_CONF_DIR"
TASKS_LOOKED_AT = 100
CONNECT_TIMEOUT_S = 10.0
MISSING = re.compile(r"No module named '([\w.]+)'")
VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\].*")
CAUSE = re.compile(r"^\s*(?:Caused by: |: )?([\w.]+(?:Error|Exception): .+)$", re.MULTILINE)
ARCHIVE = "docs/audit-cluster.md shows how its Python gets there"


class Where(NamedTuple):
    """Where Spark runs."""

    master: str | None
    """None: `spark-submit` says it."""
    settings: dict[str, str]
    asked_by: str
    """The options that say so; empty: none does."""

    @contextmanager
    def started(self, records: int, verbose: bool) -> Iterator[SparkSession]:
        """A session. Ends the command with what to do if Spark does not start or a task fails."""
        if (cause := _unreachable(self.master or "")) is not None:
            fail(UNREACHABLE, f"--master is `{self.master}`: {cause}")
        is_up, lost = False, ""
        try:
            with session.started(self.master, records, is_quiet=not verbose, settings=self.settings) as spark:
                is_up = True
                try:
                    yield spark
                except Exception:
                    lost = _lost(spark)
                    raise
        except Exception as error:
            found = self._problem(error, is_up, lost)
            if found is None:
                raise
            fail(*found)

    def not_written(self, error: NotWrittenError, option: str, given: str) -> str:
        """Why the tables or the report that an option asks for are not there. Raises the cause if it is a mistake."""
        cause = error.__cause__
        assert isinstance(cause, Exception), error
        if isinstance(cause, StoreError):
            return str(cause)
        if isinstance(cause, OSError):
            return f"{option} is `{given}`: {cause.strerror or cause}"
        if (problem := self._problem(cause, is_up=True, lost="")) is None:
            raise cause
        return f"{option} is `{given}`: {problem[1]}"

    def _problem(self, error: Exception, is_up: bool, lost: str) -> tuple[int, str] | None:
        """Exit code and reason of an error of Spark; None: it is another one. `lost`: where a task failed."""
        said = str(error)
        if "JAVA_GATEWAY_EXITED" in said:
            return MISUSED, f"Spark did not start, for the reason above: look at {self.asked_by or 'JAVA_HOME'}"
        is_of_spark = type(error).__module__.startswith(("pyspark.", "py4j."))
        causes = CAUSE.findall(said)
        cause = causes[-1] if causes else said.partition("\n")[0]
        if is_of_spark and not is_up:
            if self.master is None or self.master.startswith("local"):
                return MISUSED, f"Spark did not start: {cause}"
            return UNREACHABLE, f"--master is `{self.master}`: Spark did not start there: {cause}"
        where = lost or "a worker"
        if (missing := MISSING.search(said)) is not None:
            package = missing[1].partition(".")[0]
            return (
                MISUSED,
                f"the Python of {where} has no {package}: install rota with `audit` there; {ARCHIVE}",
            )
        if (versions := VERSIONS.search(said)) is not None:
            return MISUSED, f"the Python of {where} is another one than here: {versions[0][26:]}; {ARCHIVE}"
        return (MISUSED, f"Spark: {where}: {cause}; --verbose shows more") if is_of_spark else None


def _unreachable(master: str) -> str | None:
    """Why none of the masters in spark://HOST:PORT,HOST:PORT can be reached, which Spark says after a minute; None: one
    can be, or Spark has to say what is wrong.
    """
    scheme, _, hosts = master.partition("://")
    if scheme != "spark":
        return None
    causes = []
    for address in hosts.split(","):
        host, port = split(address)
        if not port.isdigit():
            return None
        try:
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            causes.append(f"cannot connect to {address}: {error.strerror or error}")
        except (OverflowError, UnicodeError):
            return None
        else:
            return None
    return ", ".join(causes)


def _lost(spark: SparkSession) -> str:
    """The host and executor of a task that failed, which no exception names; empty: Spark does not tell."""
    tracker = spark.sparkContext.statusTracker()
    with suppress(Exception):  # it is only for the message, and Spark may have stopped
        stages = spark.sparkContext._jsc.sc().statusStore()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup()))
        for number in [stage for job in jobs for stage in job.stageIds]:
            stage = stages.lastStageAttempt(number)
            tasks = stages.taskList(number, stage.attemptId(), TASKS_LOOKED_AT)
            for task in map(tasks.apply, range(tasks.size())):
                if task.errorMessage().isDefined():
                    return f"the worker on {task.host()}, executor {task.executorId()},"
    return ""


def where(master: str | None, conf: list[str], packages: str | None, kept_as: Format = Format.parquet) -> Where:
    """What the options say; ends the command if they make no sense."""
    settings: dict[str, str] = {}
    for text in conf:
        key, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.*-]+", key):
            name = re.match(r"[\w.*-]*", text)
            fail(MISUSED, f"--conf is `{name[0] if name else ''}`: give KEY=VALUE, such as spark.executor.memory=2g")
        if SECRET.search(key):
            fail(MISUSED, f"--conf is `{key}=...`: others would see it in the list of processes; {SECRETS}")
        settings[key if key.startswith("spark.") else f"spark.hadoop.{key}"] = value
    for package in packages.split(",") if packages is not None else ():
        if not PACKAGE.fullmatch(package):
            fail(MISUSED, f"--packages is `{packages}`: give GROUP:ARTIFACT:VERSION, with commas between")
    if packages is not None:
        settings["spark.jars.packages"] = packages
        with ending_with_reason():
            check_packages(packages)
    given = {"--master": master, "--conf": conf, "--packages": packages}
    asked_by = " and ".join(name for name, value in given.items() if value)
    chosen = settings.pop("spark.master", None) if master is None else master
    if chosen is not None and not MASTER.fullmatch(chosen):
        fail(MISUSED, f"--master is `{chosen}`: give local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT")
    is_submitted = session.is_submitted()
    if is_submitted and packages is not None:
        fail(MISUSED, f"--packages is `{packages}`: Java runs already, give it to spark-submit")
    settings |= settings_of(kept_as, settings)
    return Where(chosen if chosen or is_submitted else LOCAL_MASTER, settings, asked_by)


@contextmanager
def ending_with_reason() -> Iterator[None]:
    """End with exit code 2 if tables cannot be kept."""
    try:
        yield
    except StoreError as error:
        fail(MISUSED, str(error))


def combined(
    follow: bool,
    once: bool,
    checkpoint: str | None,
    report: Path | None,
    ends: Any,
    kept_as: Format | None,
    output: str | None,
) -> Format:
    """What tables are kept as. Ends with exit code 2 if the options do not go together."""
    if kept_as is not None and output is None:
        fail(MISUSED, f"--format is `{kept_as}`: give --output, where the tables are written")
    if not follow and (once or checkpoint is not None):
        fail(MISUSED, "--once and --checkpoint need --follow")
    if follow and report is not None:
        fail(MISUSED, "--report needs an end: leave out --follow")
    if follow and ends:
        fail(MISUSED, "--junit, --metrics and --github need an end: leave out --follow")
    return kept_as or Format.parquet


def needed(where: Where, engine: str, options: Mapping[str, object], paths: list[str]) -> str:
    """What needs Spark; "": nothing does. Ends with exit code 2 if it must not be used."""
    given = [name for name, value in options.items() if value] + ([where.asked_by] if where.asked_by else [])
    needs = " and ".join([*given, *(f"`{path}`" for path in paths if is_url(path))])
    if engine == "local" and needs:
        fail(MISUSED, f"--engine is `local`: {needs} needs Spark, leave out --engine")
    if engine != "local" and not needs and session.is_submitted():
        return "spark-submit"
    return needs or ("--engine spark" if engine == "spark" else "")


def check_usable(needs: str, follow: bool, bootstrap_server: str | None) -> None:
    """Ends with exit code 2 if something needs Spark and there is none, or it would not be used."""
    if not needs:
        return
    if bootstrap_server is not None and not follow:
        fail(MISUSED, f"--bootstrap-server does not go together with {needs}: copy the log")
    try:
        session.check_installed(follow)
    except session.MissingError as missing:
        fail(MISUSED, f"{needs}: {missing}")


def audited(
    wanted: Wanted,
    urls: list[str],
    where: Where,
    output: str | None,
    report: Path | None,
    shows_progress: bool,
    verbose: bool,
    kept_as: Format = Format.parquet,
) -> Audit:
    """Audit logs on Spark, write the tables and the report. Ends with exit code 3 if no group matches."""
    from rota.audit import spark
    from rota.audit.audit import nothing_of
    from rota.audit.command import ending, progress_on_stderr
    from rota.audit.hadoop import target_of
    from rota.audit.logs import parts_of

    parts = parts_of(wanted.paths)
    if parts and all(part.trouble for part in parts):
        return nothing_of(parts)  # Spark takes long to say the same
    records = session.LARGE_RECORDS if urls else sum(part.records for part in parts)
    with (
        tempfile.TemporaryDirectory(prefix="rota-audit-") as scratch,
        progress_on_stderr("starting Spark", shows_all=shows_progress) as progress,
        where.started(records, verbose) as started,
        ending(progress),
    ):
        logs = _listed(started, urls, progress) if urls else spark.Logs(parts, [])
        wanted = replace(wanted, output=target_of(started, output or scratch))
        if output is None and report is None:
            return logs.audited(wanted, spark.SparkEngine(started), progress)
        _make(wanted)
        try:
            return spark.audit_with_tables(started, wanted, logs, progress, report, kept_as)
        except spark.NotWrittenError as error:
            given = str(report) if output is None or error.option == "--report" else output
            error.found.not_written = where.not_written(error, "--report" if given != output else "--output", given)
            progress("")
            return error.found


def _listed(started: SparkSession, urls: list[str], progress: Callable[[str], None]) -> Logs:
    """The logs at URLs. Ends with exit code 2 and the reason if there are none."""
    from rota.audit import spark
    from rota.audit.hadoop import EXECUTOR_CLASSES, Hadoop
    from rota.audit.remote import partitions_at

    hadoop = Hadoop.of(started)
    progress(f"listing {urls[0]}")
    try:
        return spark.Logs([], partitions_at(hadoop, urls), hadoop.site(started.conf.get(EXECUTOR_CLASSES, "") or ""))
    except OSError as error:
        progress("")
        fail(MISUSED, str(error))


def _make(wanted: Wanted) -> None:
    """Make the directory of the tables. Ends with exit code 2 if that fails."""
    try:
        wanted.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(MISUSED, f"--output is {error}; give a directory that can be written")
