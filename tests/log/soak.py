"""Everything at once for an hour: memory, descriptors, threads and the slowest answers of the server stay as they are.

`make soak`, or `python -m tests.log.soak --seconds 60 --members 5000 --no-follow`. Members join, commit and leave, each
alone in a group of its own. Clients use TLS and connect again after every RECONNECT_EVERY requests. Partitions move and
are compacted, the journal is on, a scraper reads metrics and groups every second, and `rota audit --follow` checks
the log and the journal meanwhile (needs the extra `audit` and a JVM). The first third of the time is not counted; the
second and the last third are compared. The figures are printed ten times, and at the end even if something failed.

With `--engine etcd` or `--engine postgresql` the groups are in an engine on this machine instead of a data directory,
and `rota audit --follow` checks the journal.
"""

from __future__ import annotations

import argparse
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from harness import peer
from harness.etcd import Etcd
from harness.postgres import Postgres
from harness.raw import LEAVE_GROUP, NONE, Reader, frame, string
from tests.log.served import PARTITIONS
from tests.log.test_kill import Client, Process, worst

WORKERS = 4
SESSION_MS = 1_800_000
COMMIT_EVERY, LEAVE_EVERY = 3, 10
RECONNECT_EVERY = 500
SAMPLE_S = 1.0
RSS_GROWTH_MAX = 1.10
# Of the slowest answer in a thousand. A machine with other load has slow seconds, a server that grows has them always:
# the median of the samples counts, and a pause that doubles is one.
SLOWEST_SHARE = 0.999
SLOWER_MAX = 2.0
SLOWER_BY_MS = 5.0
SCRAPED = ("/metrics", "/healthz", "/groups?limit=100")
FOLLOW_ENDS_WITHIN_S = 60
REPORTS, MEASURED_MIN = 10, 3
# A segment is an open file: of each partition some more or fewer may wait for compaction.
DESCRIPTORS_MORE_MAX = 2 * PARTITIONS


def left(answer: Reader) -> int:
    return answer.i16()


class Crowd(Client):
    """A worker's share of the members; each sends heartbeats, commits and leaves in its turn."""

    def __init__(self, name: str, members: int, context: ssl.SSLContext | None) -> None:
        super().__init__(name, 0)
        self.context = context
        """How it connects: without TLS if there is none."""
        self.members: list[tuple[str, int]] = [("", -1)] * members
        self.turn = 0
        self.counts = {"joins": 0, "heartbeats": 0, "commits": 0, "leaves": 0, "connections": 0}
        self.took_ms: list[float] = []
        """Of the steps since the last sample."""

    def connect(self, addresses: list[tuple[str, int]]) -> None:
        super().connect(addresses)
        self.counts["connections"] += len(addresses)
        if self.context is not None:
            for connection, (host, _) in zip(self.connections, addresses, strict=True):
                connection.socket = self.context.wrap_socket(connection.socket, server_hostname=host)

    def count(self, what: str) -> None:
        self.counts[what] += 1
        self.acknowledged += 1

    def join(self, group: str) -> tuple[str, int]:
        request = peer.join(group, version=3, session_ms=SESSION_MS)
        answer = self.ask(request, peer.joined, lambda joined: joined.error)
        assert answer.error == NONE
        sync = peer.sync(group, answer.generation, answer.member, {answer.member: b"plan"})
        error, _ = self.ask(sync, peer.synced, lambda told: told[0])
        if error != NONE:  # The partition was handed over between the two.
            return "", -1
        self.count("joins")
        return answer.member, answer.generation

    def step(self) -> None:
        """One request of the next member, or what it takes to be one."""
        at = self.turn % len(self.members)
        round_number = self.turn // len(self.members) + at
        self.turn += 1
        group, (member, generation) = f"{self.group}-{at}", self.members[at]
        if not member:
            self.members[at] = self.join(group)
        elif round_number % LEAVE_EVERY == 0:
            self.ask(frame(LEAVE_GROUP, 0, string(group) + string(member)), left, int)
            self.members[at] = ("", -1)
            self.count("leaves")
        elif round_number % COMMIT_EVERY == 0:
            commit = peer.commit(group, {0: self.turn}, generation, member)
            answered = self.ask(commit, peer.committed, worst)
            assert answered == {NONE}, f"a commit got {answered}"
            self.count("commits")
        else:
            assert self.ask(peer.heartbeat(group, generation, member), peer.beaten, int) == NONE
            self.count("heartbeats")


class Sample(NamedTuple):
    """The server at a moment, and its slowest answer in a thousand since the sample before."""

    rss_bytes: int
    descriptors: int
    threads: int
    slowest_ms: float


def sample(pid: int, crowds: list[Crowd]) -> Sample:
    took_ms: list[float] = []
    for crowd in crowds:
        took, crowd.took_ms = crowd.took_ms, []
        took_ms += took
    took_ms.sort()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Sample(
        rss_bytes=int(status["VmRSS"].split()[0]) * 1_024,
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(status["Threads"]),
        slowest_ms=took_ms[int(SLOWEST_SHARE * len(took_ms))] if took_ms else 0.0,
    )


def worked(
    crowd: Crowd, addresses: list[tuple[str, int]], stop: threading.Event, failures: list[BaseException]
) -> None:
    try:
        while not stop.is_set():
            if crowd.turn % RECONNECT_EVERY == 0:
                crowd.close()
                crowd.connect(addresses)
            began_s = time.perf_counter()
            crowd.step()
            crowd.took_ms.append(1e3 * (time.perf_counter() - began_s))
    except BaseException as failure:  # It is raised where the soak looks.
        failures.append(failure)
    finally:
        crowd.close()


def scraped(http: str, stop: threading.Event, failures: list[BaseException], counts: dict[str, int]) -> None:
    try:
        while True:
            for target in SCRAPED:
                with urllib.request.urlopen(f"http://{http}{target}", timeout=30) as answer:
                    counts["scraped bytes"] += len(answer.read())
            if stop.wait(SAMPLE_S):
                break
    except BaseException as failure:
        failures.append(failure)


@contextmanager
def followed(directory: Path, is_wanted: bool, failed: list[str]) -> Iterator[None]:
    """`rota audit --follow` beside it. It has failed if it found a violation, or ended by itself."""
    if not is_wanted:
        yield
        return
    command = [sys.executable, "-m", "rota", "audit", str(directory), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as follow:
        try:
            yield
            if follow.poll() is None:
                follow.send_signal(signal.SIGINT)
                said, _ = follow.communicate(timeout=FOLLOW_ENDS_WITHIN_S)
                # The exit code of its verdicts: there is none.
                if follow.returncode != 0:
                    failed.append(f"--follow ended with {follow.returncode}: {said}")
            else:
                failed.append(f"--follow ended by itself with {follow.returncode}: {follow.communicate()[0]}")
        except subprocess.TimeoutExpired:
            failed.append(f"--follow did not end within {FOLLOW_ENDS_WITHIN_S} s of Ctrl-C")
        finally:
            follow.kill()


class Soaked(NamedTuple):
    """What clients did, by kind of request, the samples of the server meanwhile, and what failed."""

    done: dict[str, int]
    samples: list[Sample]
    failed: list[str]


class Kind(NamedTuple):
    """What is on beside the load."""

    follows: bool
    tls: bool
    engine: str | None = None
    """Where the groups are: etcd, postgresql, or None for a data directory."""


@contextmanager
def served(directory: Path, kind: Kind) -> Iterator[tuple[Process, Path]]:
    """The server, and the directory that `rota audit` reads."""
    journal = directory.with_name("journal")
    pairs = ["offsets.topic.segment.bytes=262144", "move.every.ms=1000", "http=127.0.0.1:0", f"journal={journal}"]
    with ExitStack() as stack:
        if kind.engine is not None:
            directory.parent.mkdir(parents=True, exist_ok=True)
            engine: Etcd | Postgres = Etcd(directory.parent) if kind.engine == "etcd" else Postgres()
            stack.enter_context(engine)
            subprocess.run([sys.executable, "-m", "rota", "cluster", "init", "--engine", engine.url()], check=True)
            pairs.append(f"engine={engine.url()}")
        process = Process(directory, 1, *pairs, *(["tls=1"] if kind.tls else []))
        try:
            yield process, directory if kind.engine is None else journal
        finally:
            if process.process.poll() is None:
                process.kill()


def soak(directory: Path, seconds: float, members: int, kind: Kind) -> Soaked:
    """Runs everything for some seconds after all members have joined, or until a client fails."""
    failures, failed = list[BaseException](), list[str]()
    samples: list[Sample] = []
    scrapes = {"scraped bytes": 0}
    stop = threading.Event()
    with served(directory, kind) as (process, audited):
        assert process.http is not None
        context = ssl.create_default_context(cadata=process.ca) if process.ca else None
        assert (context is not None) == kind.tls
        crowds = [Crowd(f"crowd-{at}", members // WORKERS, context) for at in range(WORKERS)]
        threads = [threading.Thread(target=worked, args=(crowd, process.addresses, stop, failures)) for crowd in crowds]
        scraper = threading.Thread(target=scraped, args=(process.http, stop, failures, scrapes))
        try:
            for thread in threads:
                thread.start()
            while not all(crowd.turn >= len(crowd.members) for crowd in crowds) and not failures:
                stop.wait(SAMPLE_S)
            scraper.start()
            with followed(audited, kind.follows, failed):
                began_s, told = time.monotonic(), 0
                while (now_s := time.monotonic() - began_s) < seconds and not failures:
                    stop.wait(SAMPLE_S)
                    samples.append(sample(process.process.pid, crowds))
                    if now_s >= seconds * (told + 1) / REPORTS:
                        print(f"{now_s:.0f} s: {summed_up(samples[-len(samples) // (told + 1) :])}", flush=True)
                        told += 1
        finally:
            stop.set()
            for thread in (*threads, scraper):
                if thread.ident is not None:
                    thread.join()
            said = process.kill()
    failed += ["".join(traceback.format_exception(failure)) for failure in failures]
    failed += [f"the server said: {said}"] if failures and said else []
    done = {what: sum(crowd.counts[what] for crowd in crowds) for what in crowds[0].counts}
    return Soaked(done | scrapes, samples, failed)


def summed_up(samples: list[Sample]) -> str:
    """Medians and maxima of a part of the time."""
    rss_bytes = statistics.median(one.rss_bytes for one in samples)
    slowest_ms = statistics.median(one.slowest_ms for one in samples)
    descriptors, threads = max(one.descriptors for one in samples), max(one.threads for one in samples)
    return f"RSS {rss_bytes / 2**20:.1f} MiB, {descriptors} descriptors, {threads} threads, p99.9 {slowest_ms:.1f} ms"


def compared_parts(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The second and the last third."""
    third = len(samples) // 3
    return samples[third : 2 * third], samples[2 * third :]


def grown(done: dict[str, int], samples: list[Sample]) -> Iterator[str]:
    """What was not asked, and what grew from the second third of the samples to the last one."""
    if idle := [what for what, count in done.items() if count == 0]:
        yield f"nothing was asked: {', '.join(idle)}"
    if len(samples) < MEASURED_MIN:
        yield f"{len(samples)} samples are too few to compare"
        return
    parts = compared_parts(samples)
    rss = [statistics.median(one.rss_bytes for one in part) for part in parts]
    slowest = [statistics.median(one.slowest_ms for one in part) for part in parts]
    descriptors = [max(one.descriptors for one in part) for part in parts]
    threads = [max(one.threads for one in part) for part in parts]
    if rss[1] > rss[0] * RSS_GROWTH_MAX:
        yield "memory grows"
    if descriptors[1] > descriptors[0] + DESCRIPTORS_MORE_MAX:
        yield "descriptors grow"
    if threads[1] > threads[0]:
        yield "threads grow"
    if slowest[1] > slowest[0] * SLOWER_MAX + SLOWER_BY_MS:
        yield "answers get slower"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3_600)
    parser.add_argument("--members", type=int, default=50_000)
    parser.add_argument("--no-follow", action="store_true", help="without `rota audit --follow` beside it")
    parser.add_argument("--no-tls", action="store_true", help="clients connect without TLS")
    parser.add_argument("--engine", choices=["etcd", "postgresql"], help="where the groups are (default: a directory)")
    chosen = parser.parse_args()
    kind = Kind(not chosen.no_follow, not chosen.no_tls, chosen.engine)
    with tempfile.TemporaryDirectory(prefix="rota-soak-") as folder:
        soaked = soak(Path(folder) / "data", chosen.seconds, chosen.members, kind)
    print(f"{chosen.members} members, {chosen.seconds:g} s, {kind}")
    print(", ".join(f"{count:,} {what}" for what, count in soaked.done.items()))
    if len(soaked.samples) >= MEASURED_MIN:
        for name, part in zip(("second third", "last third"), compared_parts(soaked.samples), strict=True):
            print(f"{name}: {summed_up(part)}")
    if failed := [*soaked.failed, *grown(soaked.done, soaked.samples)]:
        sys.exit("\n".join(f"soak: {one}" for one in failed))


if __name__ == "__main__":
    main()
