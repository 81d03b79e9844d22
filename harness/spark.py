"""Spark of the tests: an archive of the classes that the audit uses takes two fifths off the cost of its start."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from harness import java
from harness.builds import ROOT, built_once
from rota.audit.session import java_version

SAMPLE = ROOT / "tests" / "log" / "kafka-4.4.0.tar.xz"
PROGRAM = """
import sys, tarfile, tempfile
from pathlib import Path
from pyspark.sql import SparkSession
from typer.testing import CliRunner
from rota.cli import app

SparkSession.stop = lambda _: None  # the next command goes on with it
with tempfile.TemporaryDirectory() as place, tarfile.open(sys.argv[1]) as sample:
    sample.extractall(place, filter="data")
    words = ["audit", f"{place}/log", "--master", "local[1]"]
    for more in (["--engine", "spark", "--output", f"{place}/tables"], ["--follow", "--once"]):
        ended = CliRunner().invoke(app, [*words, *more])
        assert ended.exit_code in {0, 1}, ended.output
"""
"""An audit and a pass that follows, on the Spark that writes the archive when it ends."""


@functools.cache
def archive() -> Path | None:
    """The directory with the archive; written once for each version of Spark. None: there is no Java.

    Raises RuntimeError with what the program said if it fails.
    """
    if java_version() is None:
        return None

    def write(out: Path) -> None:
        out.mkdir(exist_ok=True)
        environment = os.environ | {"SPARK_SUBMIT_OPTS": " ".join(java.archived(out))}
        command = [sys.executable, "-c", PROGRAM, str(SAMPLE)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Spark's classes are not archived: {done.stdout}{done.stderr}")

    version = Path(pyspark.__file__).with_name("version.py")
    return built_once("spark-classes", [Path(__file__), version], write)


def options() -> list[str]:
    """Options of a Java with Spark's classes. Another version of Spark ignores the archive."""
    found = archive()
    return [] if found is None else [*java.classes(found), "-Xlog:cds*=off"]


def environment() -> Mapping[str, str]:
    """Variables of a process that starts Spark."""
    return {"SPARK_SUBMIT_OPTS": " ".join(options())}
