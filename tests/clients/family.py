"""The client families: how each one's program is started, which assignors and codecs it has, where it differs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import rota
from harness import go, java

HERE = Path(__file__).resolve().parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# A member lives for seconds: the first compiler, one collector thread and a small heap start soonest.
JAVA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx96m")


@dataclass(frozen=True)
class Family:
    """One client library, as the tests see it."""

    name: str
    command: Callable[[], list[str]]
    """The program that speaks the requests of README.md on its standard input and output."""
    assignors: tuple[str, ...]
    tells_lost: bool = True
    """Whether it has a callback for partitions that were lost, not revoked."""
    tells_state_in_lists: bool = True
    """Whether its ListGroups is new enough (v4) to carry states."""
    has_instance_id_in_heartbeats: bool = True
    """Whether its heartbeats (v3+) say which static member sends them: without that it is never fenced."""
    tells_fencing_when_polled: bool = True
    """Whether a poll ends with the error of a fenced member; otherwise only a commit does."""
    knows_group_max_size: bool = True
    """Whether it has a name for GROUP_MAX_SIZE_REACHED."""
    has_consumer_protocol: bool = False
    """Whether it supports `group.protocol=consumer`."""
    poll_ms: int = 50
    """How long one poll may block; requests to a member wait as long."""
    poll_through_change_ms: int = 50
    """The same, where the topics change under a member that gets no more requests."""
    tools: tuple[str, ...] = ()
    """Programs without which this family cannot run."""
    codec_modules: tuple[tuple[str, str], ...] = ()
    """Codecs that need another module to be installed."""

    def missing(self) -> str | None:
        """Why this family cannot run here, or None."""
        absent = [tool for tool in self.tools if shutil.which(tool) is None]
        if absent:
            return f"the client {self.name} needs {' and '.join(absent)} on the path"
        try:
            self.command()
        except go.UnreachableError as unreachable:
            return str(unreachable)
        return None

    def missing_codec(self, codec: str) -> str | None:
        """Why this family cannot compress with `codec` here, or None."""
        module = dict(self.codec_modules).get(codec)
        if module is None or importlib.util.find_spec(module) is not None:
            return None
        return f"{self.name} needs the module {module} for {codec}"


def need(*families: Family) -> None:
    """Skip the test that runs if one of these cannot run here."""
    for family in families:
        missing = family.missing()
        if missing is not None:
            pytest.skip(missing)


def _python(program: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.clients.programs.{program}"]


def _java() -> list[str]:
    jars = java.built(HERE / "java", "clients-java", _run_java_once)
    return _java_in(jars, java.classes(jars))


def _run_java_once(jars: Path) -> None:
    """Lets the Java program write, read and commit, for the archive of its classes."""
    consumer: dict[str, object] = {
        "group": "g", "topics": ["t"], "pattern": None, "assignor": "cooperative-sticky", "group_protocol": "classic",
        "session_timeout_ms": 6_000, "heartbeat_interval_ms": 300, "metadata_max_age_ms": 500, "poll_ms": 50,
        "instance_id": None, "max_poll_interval_ms": None, "keeps_revoked": False,
    }  # fmt: skip
    message = {"topic": "t", "partition": 0, "values": ["v"], "timestamps_ms": None, "compression": "none"}
    with rota.Server() as server:
        server.create_topic("t", 1)
        asked: dict[str, object] = {"bootstrap": server.bootstrap_servers, "client_id": "c", "security": {}}
        asked |= {"id": 1, "properties": {"bootstrap.servers": server.bootstrap_servers}}
        command = _java_in(jars, java.archived(jars))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdin is not None
            assert program.stdout is not None

            def ask(**request: object) -> None:
                print(json.dumps(asked | request), file=program.stdin, flush=True)

            ask(do="produce", idempotent=True, **message)
            ask(do="fetch", topic="t", partition=0, count=1, within_ms=10_000)
            ask(do="consume", **consumer)
            assert any('"owned"' in line for line in program.stdout)
            ask(do="commit", offsets=[["t", 0, 1]])
            ask(do="describe", group="g")
            ask(do="close")


def _java_in(jars: Path, options: list[str]) -> list[str]:
    level = "debug" if os.environ.get("ROTA_TEST_DEBUG", "") not in ("", "0") else "warn"
    return [
        "java",
        *JAVA_FLAGS,
        *options,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        f"{jars}/clients.jar:{jars}/lib/*",
        "rota.clients.Main",
    ]


LIBRDKAFKA = Family(
    "librdkafka",
    _python("with_librdkafka"),
    ("range", "roundrobin", "cooperative-sticky"),
    has_consumer_protocol=True,
)
# kafka-python 3.0.12 forgets a rejoin if a poll times out in the midst of it and the reason for it is gone by the next
# poll (a change of metadata or of topics seen by a pattern): it then neither heartbeats nor joins, with any broker.
KAFKA_PYTHON = Family(
    "kafka-python",
    _python("with_kafka_python"),
    ("range", "roundrobin", "cooperative-sticky"),
    poll_ms=1_000,
    poll_through_change_ms=60_000,
    tells_fencing_when_polled=False,
    codec_modules=(("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstandard")),
)
AIOKAFKA = Family(
    "aiokafka",
    _python("with_aiokafka"),
    ("range", "roundrobin"),
    tells_lost=False,
    has_instance_id_in_heartbeats=False,
    knows_group_max_size=False,
    tells_state_in_lists=False,
    codec_modules=(("snappy", "cramjam"), ("lz4", "cramjam"), ("zstd", "cramjam")),
)
JAVA = Family(
    "java",
    _java,
    ("range", "roundrobin", "cooperative-sticky"),
    has_consumer_protocol=True,
    tools=("java", "mvn"),
)
# Only in the tests of the newer protocol: it is a third implementation of it.
FRANZ_GO = Family(
    "franz-go",
    lambda: [str(go.built(HERE / "go", "clients-go"))],
    ("range", "roundrobin", "cooperative-sticky"),
    has_consumer_protocol=True,
    tools=("go",),
)
# The member's side of rota itself: it joins groups, but is no consumer, and so is only in the tests that ask for it.
ROTA = Family("rota", _python("with_rota"), ("range", "roundrobin", "cooperative-sticky"), has_consumer_protocol=True)

FAMILIES = (LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, JAVA)
EVERY_ASSIGNOR = tuple((family, assignor) for family in FAMILIES for assignor in family.assignors)
EAGER = ("range", "roundrobin")
