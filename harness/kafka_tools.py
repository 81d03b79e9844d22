"""Kafka's command-line tools, one after the other in one JVM: most of what a tool costs is its start."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from harness.brokers import KAFKA

PROGRAM = Path(__file__).parent / "kafka/Tools.java"
LOCK = threading.Lock()


@cache
def _running() -> subprocess.Popen[str]:
    """The JVM. It ends with this process."""
    jars = subprocess.run([sys.executable, KAFKA, "resolve-tools"], check=True, capture_output=True, text=True).stdout
    quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = ["java", *quick, "-cp", jars.strip(), str(PROGRAM)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run(tool: str, *options: object, given: str = "", within_s: float = 100) -> subprocess.CompletedProcess[str]:
    """Runs the tool of that class, and waits for its end.

    For tools that end by themselves and keep nothing in static fields: those of the console are started as usual.
    """
    words = [tool, given, *map(str, options)]
    with LOCK:
        jvm = _running()
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        too_late = threading.Timer(within_s, jvm.kill)
        too_late.start()
        jvm.stdin.write(" ".join("=" + base64.b64encode(word.encode()).decode() for word in words) + "\n")
        jvm.stdin.flush()
        said = jvm.stdout.readline()
        too_late.cancel()
        if not said:
            _running.cache_clear()
            raise RuntimeError(f"{tool} ended Java, or did not end within {within_s:g} s: {options}")
    code, *written = said.split()
    out, err = (base64.b64decode(word[1:]).decode() for word in written)
    return subprocess.CompletedProcess(words, int(code), out, err)


def dumped(*options: str, files: Iterable[Path]) -> list[str]:
    """The lines of Kafka's dump tool about segments."""
    ended = run("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    ended.check_returncode()
    return ended.stdout.splitlines()
