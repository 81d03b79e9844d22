"""Members come, commit and go for a long time while partitions are handed over and compacted: memory and descriptors of
the server stay as they are. `make soak`, or `python -m tests.log.soak --seconds 60 --members 5000`.

Every member is alone in a group of its own. The first third of the time is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from harness import peer
from harness.raw import LEAVE_GROUP, NONE, Reader, frame, string
from tests.log.served import PARTITIONS
from tests.log.test_kill import Client, Process, worst

WORKERS = 4
SESSION_MS = 1_800_000
COMMIT_EVERY, LEAVE_EVERY = 3, 10
SAMPLE_S = 1.0
RSS_GROWTH_MAX = 1.10
# A segment is an open file: of each partition some more or fewer may wait for compaction.
DESCRIPTORS_MORE_MAX = 2 * PARTITIONS


def left(answer: Reader) -> int:
    return answer.i16()


class Crowd(Client):
    """A worker's share of the members, each of which beats, commits and leaves in its turn."""

    def __init__(self, name: str, members: int) -> None:
        super().__init__(name, 0)
        self.members: list[tuple[str, int]] = [("", -1)] * members
        self.turn = 0
        self.counts = {"joins": 0, "heartbeats": 0, "commits": 0, "leaves": 0}

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
            assert self.ask(commit, peer.committed, worst) == {NONE}
            self.count("commits")
        else:
            assert self.ask(peer.heartbeat(group, generation, member), peer.beaten, int) == NONE
            self.count("heartbeats")


def rss_bytes(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1_024


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def worked(crowd: Crowd, stop: threading.Event, failures: list[BaseException]) -> None:
    try:
        while not stop.is_set():
            crowd.step()
    except BaseException as failure:  # It is raised where the soak looks.
        failures.append(failure)


def soak(directory: Path, seconds: float, members: int) -> str:
    """Gives what was done and seen. Raises AssertionError when memory or descriptors grow."""
    pairs = ["offsets.topic.segment.bytes=262144", "move.every.ms=1000"]
    process = Process(directory, 1, *pairs)
    crowds = [Crowd(f"crowd-{at}", members // WORKERS) for at in range(WORKERS)]
    stop, failures = threading.Event(), list[BaseException]()
    samples: list[tuple[int, int]] = []
    threads = [threading.Thread(target=worked, args=(crowd, stop, failures)) for crowd in crowds]
    try:
        for crowd, thread in zip(crowds, threads, strict=True):
            crowd.connect(process.addresses)
            thread.start()
        while not all(crowd.turn >= len(crowd.members) for crowd in crowds) and not failures:
            stop.wait(SAMPLE_S)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not failures:
            stop.wait(SAMPLE_S)
            samples.append((rss_bytes(process.process.pid), descriptors(process.process.pid)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        said = process.kill()
    assert not failures, f"{failures[0]!r}; the server said: {said}"
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    rss = [statistics.median(rss for rss, _ in part) for part in (middle, last)]
    most = [max(count for _, count in part) for part in (middle, last)]
    done = {what: sum(crowd.counts[what] for crowd in crowds) for what in crowds[0].counts}
    report = (
        f"{members} members, {seconds:g} s: {done}; RSS {rss[0] / 2**20:.1f} MiB, then {rss[1] / 2**20:.1f} MiB; "
        f"descriptors at most {most[0]}, then {most[1]}"
    )
    assert min(done.values()) > 0, report
    assert rss[1] <= rss[0] * RSS_GROWTH_MAX, f"memory grows: {report}"
    assert most[1] <= most[0] + DESCRIPTORS_MORE_MAX, f"descriptors grow: {report}"
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1_200)
    parser.add_argument("--members", type=int, default=50_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-soak-") as folder:
        print(soak(Path(folder) / "data", chosen.seconds, chosen.members))


if __name__ == "__main__":
    main()
