"""The systems that are recorded, each started for as long as a run takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from harness.brokers import KAFKA, KAFKA_JVM, KFAKE, free_port
from rota.conform.matrix import states
from rota.conform.run import WORKERS
from tests.clients.eventually import eventually

ROOT = Path(__file__).parents[2]
DELAY = "group.initial.rebalance.delay.ms"
#: Such that those who join one after the other meet in one generation.
DELAY_MS_USUAL = "400"
STARTS_MAX = 3
STARTS_WITHIN_S = 30.0

#: What the installed confluent_kafka is made of.
LIBRDKAFKA = f"librdkafka {confluent_kafka.libversion()[0]}"

Settings = Mapping[str, str]
Start = Callable[[Settings], AbstractContextManager[str]]
USUAL: Settings = {DELAY: DELAY_MS_USUAL}


@dataclass(frozen=True)
class System:
    """`name` is that of its recording. `runs` are the settings of brokers that its rows need. Rows of `omitted`
    patterns end its process, or are of states that are out of its reach, or take too long there. `needs` are the
    programs that it takes. `at_most`: versions that it says it has, and does not read or answer."""

    name: str
    start: Start
    runs: tuple[Settings, ...] = (USUAL,)
    omitted: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    at_most: Mapping[str, int] = field(default_factory=dict)
    #: How many rows it is asked at a time, if it cannot take as many as others.
    workers: int = WORKERS

    def lacks(self) -> list[str]:
        """What it takes and is not here."""
        return [need for need in self.needs if need != LIBRDKAFKA and shutil.which(need) is None]


#: With these every row is played that an outsider can play and that is not too long.
EVERY_RUN: tuple[Settings, ...] = (
    USUAL,
    {DELAY: "3000"},
    {DELAY: "400", "group.max.size": "2"},
    {DELAY: "400", "group.min.session.timeout.ms": "1000"},
    {DELAY: "400", "offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": "60000"},
)


def kafka(profile: str) -> Start:
    """Apache Kafka, with the jars of a profile of benches/kafka/pom.xml."""

    @contextmanager
    def start(settings: Settings) -> Iterator[str]:
        with (
            tempfile.TemporaryDirectory(prefix="rota-kafka-", ignore_cleanup_errors=True) as folder,
            kafka_in(folder, settings, profile) as address,
        ):
            yield address

    return start


@contextmanager
def kafka_in(folder: str, settings: Settings, profile: str = "broker") -> Iterator[str]:
    """A broker of a profile of benches/kafka/pom.xml, with what an earlier one has left in the folder."""
    environment = KAFKA_JVM | os.environ | {"ROTA_KAFKA_PROFILE": profile}
    pairs = [f"{name}={value}" for name, value in settings.items()]
    for _ in range(STARTS_MAX):  # another process may take a port that was free
        port = free_port()
        command = [sys.executable, str(KAFKA), "start", str(port), folder, "num.partitions=8", *pairs]
        if subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL).returncode == 0:
            break
    else:
        raise RuntimeError(f"Apache Kafka did not start in {STARTS_MAX} tries")
    try:
        yield f"127.0.0.1:{port}"
    finally:
        subprocess.run([sys.executable, str(KAFKA), "stop", folder], check=True)


def until_closed(*command: str, folder: Path = ROOT) -> Start:
    """A program that prints where it listens, and ends with its standard input."""

    @contextmanager
    def start(_settings: Settings) -> Iterator[str]:
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            try:
                yield program.stdout.readline().strip()
            finally:
                program.stdin.close()

    return start


@contextmanager
def rota_server(settings: Settings) -> Iterator[str]:
    """rota, in a process of its own."""
    pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0", "--set", "num.partitions=8", *pairs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split(" ready on ")[1].split()[0]
        finally:
            server.terminate()


def librdkafka_mock(settings: Settings) -> AbstractContextManager[str]:
    """librdkafka's mock cluster."""
    return until_closed(sys.executable, "-m", "tests.conform.mock", settings[DELAY])(settings)


@contextmanager
def tansu(_settings: Settings) -> Iterator[str]:
    """`cargo install tansu --version 0.6.0 --locked --features dynostore`, in memory."""
    address = f"127.0.0.1:{free_port()}"
    urls = [f"--{word}-url=tcp://{address}" for word in ("listener", "advertised-listener")]
    command = ["tansu", "broker", *urls, "--storage-engine=memory://tansu/"]
    with tempfile.TemporaryFile("w+") as told, subprocess.Popen(command, stdout=told, stderr=told) as server:
        try:
            eventually(lambda: is_listening(address) or server.poll() is not None, STARTS_WITHIN_S, "tansu, or its end")
            yield address
        finally:
            server.terminate()


def is_listening(address: str) -> bool:
    """Whether a process accepts connections there."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


JAVA = ("java", "mvn")
#: Requests that it cannot parse, and members without a common protocol, end its process.
KFAKE_ENDS = ("malformed/*", "fields/*-next", "*no common protocol*", "*another protocol*", "*no protocols*")
#: A null group id, and members whose first protocols differ, end its process.
MOCK_ENDS = (
    "*no group id", "*JoinGroup newcomer, empty group id", "gate/J02-*", "*no protocols", "*no common protocol*",
    "malformed/join-no-protocols",
)  # fmt: skip
#: Cells of states with members, or that had members: the mock gives ids at once, where such a state begins with
#: MEMBER_ID_REQUIRED; and tansu, which is asked row by row, would take too long.
MEMBERLESS = ("none", "creating", "empty-new", "empty-offsets")
MEMBERS = tuple(f"matrix/{state.name}/*" for state in states() if state.name not in MEMBERLESS)

SYSTEMS = {
    system.name: system
    for system in (
        System("kafka-4.4.0", kafka("broker"), EVERY_RUN, needs=JAVA),
        System("kafka-3.9.1", kafka("broker-3.9"), EVERY_RUN, needs=JAVA),
        System("kfake-20260918", until_closed("go", "run", ".", folder=KFAKE), omitted=KFAKE_ENDS, needs=("go",)),
        System(
            "librdkafka-mock-2.16.0",
            librdkafka_mock,
            omitted=MOCK_ENDS + MEMBERS,
            needs=("librdkafka 2.16.0",),
            at_most={"JoinGroup": 5, "SyncGroup": 3, "LeaveGroup": 2},
        ),
        System("tansu-0.6.0", tansu, omitted=MEMBERS, needs=("tansu",), workers=1),
        System("rota", rota_server, EVERY_RUN),
    )
}
