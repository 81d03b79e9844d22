"""`rota audit` on a standalone cluster of Spark: a lost executor, a worker without rota, other workers later."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from harness import spark
from harness.brokers import free_port
from rota.audit.audit import Wanted, audit, of_copies
from rota.audit.command import as_json
from rota.audit.engines import local
from rota.audit.logs import parts_of
from rota.audit.session import QUICK_TO_START
from rota.audit.verdict import Verdict
from tests.audit.test_follow import batch_verdicts, grown, identity
from tests.clients.eventually import eventually

pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400), pytest.mark.java]

HOME = Path(pyspark.__file__).parent
WITHIN_S = 300
BACKEND = "CoarseGrainedExecutorBackend"
# What Spark's scripts set.
ENVIRONMENT = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
JOB = "from rota.audit.__main__ import run\n\nrun()\n"
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
}


def settings(python: str = sys.executable) -> list[str]:
    java = " ".join([QUICK_TO_START, *spark.options()])
    chosen = CONF | {"spark.pyspark.python": python, "spark.executor.extraJavaOptions": java}
    return [word for name, value in chosen.items() for word in ("--conf", f"{name}={value}")]


class Daemon(NamedTuple):
    """A master or a worker."""

    process: subprocess.Popen[bytes]
    directory: Path

    def children(self, pid: int | None = None) -> list[int]:
        """The processes that a process started."""
        with contextlib.suppress(OSError):
            tasks = Path(f"/proc/{pid or self.process.pid}/task").glob("*/children")
            return [int(child) for task in tasks for child in task.read_text().split()]
        return []

    def executors(self) -> list[int]:
        """Those in which a Python worker runs a task."""
        return [pid for pid in self.children() if BACKEND in words(pid) and any(map(self.children, self.children(pid)))]

    def end(self) -> None:
        below = self.children()
        self.process.terminate()
        self.process.wait()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


class Cluster:
    """A master, and workers that come and go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"spark://127.0.0.1:{free_port()}"
        port = self.url.rpartition(":")[2]
        self.daemons = [self._started("Master", ["--host", "127.0.0.1", "--port", port, "--webui-port", "0"])]
        self._eventually_says(self.daemons[0], "I have been elected leader")

    def _started(self, name: str, options: list[str]) -> Daemon:
        directory = self.directory / f"{name}-{len(list(self.directory.iterdir()))}"
        directory.mkdir()
        command = ["java", "-Xmx256m", *QUICK_TO_START.split(), *spark.options(), "-cp", f"{HOME}/conf/:{HOME}/jars/*"]
        command += [f"org.apache.spark.deploy.{name.lower()}.{name}", *options]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=log, stderr=log, cwd=directory)
        return Daemon(process, directory)

    def _eventually_says(self, daemon: Daemon, what: str) -> None:
        log = daemon.directory / "log"
        eventually(lambda: what in log.read_text(errors="replace"), WITHIN_S, what, log.read_text)

    def worker(self) -> Daemon:
        """A new one, with one core."""
        options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", "jobs"]
        daemon = self._started("Worker", [*options, self.url])
        self.daemons.append(daemon)
        self._eventually_says(daemon, "Successfully registered with master")
        return daemon

    def executors_started(self) -> int:
        """How many the workers have started so far."""
        return len(list(self.directory.glob("Worker-*/jobs/app-*/[0-9]*")))

    def audit(self, *arguments: str | Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rota", "audit", *map(str, arguments), "--master", self.url]
        return subprocess.run(
            [*command, *settings(python)], env=os.environ | ENVIRONMENT, check=False, capture_output=True, text=True
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    found = Cluster(tmp_path / "cluster")
    try:
        yield found
    finally:
        for daemon in reversed(found.daemons):
            daemon.end()


def test_a_submitted_job_says_the_same_after_an_executor_was_killed(
    cluster: Cluster, planted: Path, tmp_path: Path
) -> None:
    expected = of_copies(audit(Wanted([planted]), parts_of([planted]), local))
    workers = [cluster.worker(), cluster.worker()]
    (tmp_path / "job.py").write_text(JOB)
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, *settings(), str(tmp_path / "job.py")]
    pipe = subprocess.PIPE
    command += [planted.as_uri(), "--json"]
    with subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=pipe, stderr=pipe, text=True) as running:
        # A list of one process, or none if the job has ended.
        at_work = eventually(
            lambda: running.poll() is not None or [pid for one in workers for pid in one.executors()],
            WITHIN_S,
            "a task runs",
        )
        assert isinstance(at_work, list), running.communicate()
        os.kill(at_work[0], signal.SIGSTOP)
        assert running.poll() is None
        os.kill(at_work[0], signal.SIGKILL)
        stdout, stderr = running.communicate()
    assert cluster.executors_started() > len(workers), stderr
    assert stdout.replace(planted.as_uri(), str(planted)) == f"{as_json(expected)}\n", stderr
    assert running.returncode == 1


@pytest.mark.long
def test_a_worker_whose_python_has_no_rota_is_named(cluster: Cluster, kafka: Path, tmp_path: Path) -> None:
    cluster.worker()
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    ended = cluster.audit(kafka, python=str(bare / "bin" / "python"))
    worker = r"the worker on 127\.0\.0\.1, executor \d+,"
    says = rf"rota: the Python of {worker} has no rota: install rota with `audit` there; .*"
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(says, ended.stderr.splitlines()[-1]), ended.stderr


@pytest.mark.long
def test_other_workers_follow_on_from_a_checkpoint(cluster: Cluster, planted: Path, tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    told: list[Verdict] = []
    for share in (0.6, 1.0):
        worker = cluster.worker()
        grown(planted, data, share)
        ended = cluster.audit(data, "--follow", "--once", "--json", "--checkpoint", checkpoint)
        assert ended.returncode in {0, 1}, ended.stderr
        told += [Verdict(**json.loads(line)) for line in ended.stdout.splitlines()]
        worker.end()
    names = Counter(identity(one.log.replace(str(data), str(planted)), one.partition, one) for one in told)
    assert names == batch_verdicts(audit(Wanted([planted]), parts_of([planted]), local), planted)


def test_masters_that_are_not_there_are_named(kafka: Path) -> None:
    first, second = (f"127.0.0.1:{free_port()}" for _ in range(2))
    url = f"spark://{first},{second}"
    command = [sys.executable, "-m", "rota", "audit", str(kafka), "--master", url, *settings()]
    ended = subprocess.run(command, env=os.environ | ENVIRONMENT, check=False, capture_output=True, text=True)
    causes = ", ".join(f"cannot connect to {address}: Connection refused" for address in (first, second))
    assert (ended.returncode, ended.stdout) == (5, ""), ended.stderr
    assert ended.stderr.splitlines()[-1] == f"rota: --master is `{url}`: {causes}"


@pytest.mark.long
def test_a_master_that_does_not_answer_is_named(kafka: Path) -> None:
    """Spark gives up after a minute."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "rota", "audit", str(kafka), "--master", url, *settings()]
        ended = subprocess.run(command, env=os.environ | ENVIRONMENT, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (5, ""), ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"rota: --master is `{url}`: Spark did not start there: ")
