"""Transactions, and the start with transactional ids, beside Kafka: `make bench-transactions`.

`python -m benches.transactions [--json] [--rounds N] [--seconds S] [--ids N] [--without-kafka] [transactions] [start]`

transactions   16 producers, each with a connection and one transaction at a time by the second protocol: Produce 12 of
               one record, TxnOffsetCommit 5 of one offset of a group of its own, EndTxn 5, each until it is answered.
               rota with `--durability fsync` and in memory, Kafka with its defaults (it does not sync).
start          from the start of the process until an id of every partition of `__transaction_state` is answered, with
               200 and with 100,000 ids; and the memory then.

All ways take turns in one run; figures are medians with the least and the greatest. The load takes a part of the
processors, the same for all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benches.durable import Address, Kafka, Rota, Server
from harness.brokers import free_port
from rota import codec
from rota.conform.batches import batch

ROOT = Path(__file__).resolve().parents[1]
PRODUCERS, PROCESSES = 16, 2
TOPIC, PARTITIONS = "orders", 16
IDS, AT_ONCE, ASKED = 100_000, 64, 200
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS, and of topics that
#: are being created.
NOT_YET = {3, 5, 6, 14, 15, 16, 51}
RETRY_S, WITHIN_S = 0.005, 180
Fields = dict[str, Any]
Figures = dict[str, dict[str, list[float]]]


class Link:
    """A connection that asks one thing at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, address: Address) -> Link:
        """Connect, also to a server that is starting."""
        until = time.monotonic() + WITHIN_S
        while True:
            try:
                return cls(*await asyncio.open_connection(*address))
            except OSError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(RETRY_S)

    async def send(self, frame: bytes) -> bytes:
        """A frame without its length; the answer."""
        self.writer.write(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length)

    async def ask(self, name: str, version: int, values: Fields) -> Fields:
        """By the codec's table."""
        api = codec.apis()[name]
        return codec.read_answer(api, version, await self.send(codec.write_request(api, version, 1, "load", values)))[1]

    async def until_answered(self, name: str, version: int, values: Fields) -> Fields:
        """Until the error is none that passes."""
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            told = await self.ask(name, version, values)
            if not errors(told) & NOT_YET:
                assert errors(told) == {0}, told
                return told
            await asyncio.sleep(RETRY_S)
        raise AssertionError(f"{name} is not answered")


def errors(told: Any) -> set[int]:
    """Every error code of an answer."""
    if isinstance(told, dict):
        own = {code for key, code in told.items() if key == "error_code"}
        return own.union(*map(errors, told.values()))
    return set().union(*map(errors, told)) if isinstance(told, list) else set()


async def begin(link: Link, name: str) -> Fields:
    """The producer of a transactional id."""
    await link.until_answered("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [name]})
    asked = {"transactional_id": name, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    told = await link.until_answered("InitProducerId", 4, asked)
    return {"transactional_id": name, "producer_id": told["producer_id"], "producer_epoch": told["producer_epoch"]}


async def produce_forever(address: Address, at: int, seconds: float) -> list[float]:
    """Milliseconds of each transaction of a producer."""
    link, took = await Link.to(address), list[float]()
    producer, group = await begin(link, f"load-{at}"), f"load-{at}"
    await link.until_answered("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [group]})
    part = {"partition_index": at % PARTITIONS, "offset": 1, "leader_epoch": -1, "metadata": ""}
    offsets = {"group_id": group, "generation": -1, "member_id": "", "topics": [{"name": TOPIC, "partitions": [part]}]}
    began = time.monotonic()
    until = began + seconds
    while began < until:
        records = batch(producer["producer_id"], producer["producer_epoch"], 0)
        data = [{"name": TOPIC, "partition_data": [{"index": at % PARTITIONS, "records": records}]}]
        written = {"transactional_id": group, "acks": -1, "timeout_ms": 30_000, "topic_data": data}
        await link.until_answered("Produce", 12, written)
        await link.until_answered("TxnOffsetCommit", 5, producer | offsets)
        told = await link.until_answered("EndTxn", 5, producer | {"is_commit": True})
        producer |= {"producer_id": told["producer_id"], "producer_epoch": told["producer_epoch"]}
        now = time.monotonic()
        took.append(1_000 * (now - began))
        began = now
    return took


async def loaded(address: Address, first: int, count: int, seconds: float) -> list[float]:
    """Milliseconds of each transaction of these producers."""
    each = await asyncio.gather(*(produce_forever(address, at, seconds) for at in range(first, first + count)))
    return [took for found in each for took in found]


async def filled(address: Address, ids: int) -> None:
    """So many transactional ids."""

    async def fill(first: int) -> None:
        link = await Link.to(address)
        for at in range(first, ids, AT_ONCE):
            await begin(link, f"id-{at}")

    await asyncio.gather(*(fill(first) for first in range(AT_ONCE)))


async def answered(address: Address) -> None:
    """Until ids of every partition are answered."""
    link = await Link.to(address)
    for at in range(ASKED):
        await begin(link, f"id-{at}")


async def make_topic(address: Address) -> None:
    link = await Link.to(address)
    topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
    await link.ask("CreateTopics", 5, {"topics": [topic], "timeout_ms": 30_000})


class InMemory(Rota):
    """`rota serve` without a data directory."""

    name = "rota in memory"

    def __init__(self, place: Path) -> None:
        self.address = ("127.0.0.1", free_port())
        del place
        listen = f"{self.address[0]}:{self.address[1]}"
        command = [sys.executable, "-m", "rota", "serve", "--listen", listen, "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def running(kind: Callable[[Path], Server], place: Path) -> Iterator[Server]:
    server = kind(place)
    try:
        yield server
    finally:
        server.stop()


def once(server: Server, seconds: float) -> dict[str, float]:
    """Transactions a second of all producers, and their latency."""
    asyncio.run(make_topic(server.address))
    share = PRODUCERS // PROCESSES
    words = [sys.executable, "-m", "benches.transactions", "--load", f"{server.address[0]}:{server.address[1]}"]
    loads = [
        subprocess.Popen(
            [*words, str(at * share), str(share), str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for at in range(PROCESSES)
    ]
    took = sorted(each for load in loads for each in json.loads(load.communicate()[0]))
    quantile = statistics.quantiles(took, n=100)
    return {"per_s": len(took) / seconds, "p50_ms": quantile[49], "p99_ms": quantile[98]}


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1_024


def started(kind: Callable[[Path], Server], place: Path) -> dict[str, float]:
    """From the start of the process until ids are answered."""
    began = time.monotonic()
    with running(kind, place) as server:
        asyncio.run(answered(server.address))
        return {"start_ms": 1_000 * (time.monotonic() - began), "resident_mib": resident_mib(server.pid())}


def add(figures: Figures, name: str, found: dict[str, float]) -> None:
    for what, value in found.items():
        figures.setdefault(name, {}).setdefault(what, []).append(value)


def transactions(kinds: list[type[Server]], options: argparse.Namespace) -> Figures:
    figures: Figures = {}
    for _ in range(options.rounds):
        for kind in [*kinds, InMemory]:
            with tempfile.TemporaryDirectory(dir=options.dir) as place, running(kind, Path(place)) as server:
                add(figures, kind.name, once(server, options.seconds))
    return figures


def start(kinds: list[type[Server]], options: argparse.Namespace) -> Figures:
    figures: Figures = {}
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=options.dir) as place:
            for ids in (0, options.ids):
                with running(kind, Path(place)) as server:
                    asyncio.run(filled(server.address, max(ids, ASKED)))
                for _ in range(options.rounds):
                    add(figures, f"{kind.name}, {max(ids, ASKED)} ids", started(kind, Path(place)))
    return figures


def main() -> None:
    """Print the figures."""
    if sys.argv[1:2] == ["--load"]:
        host, port = sys.argv[2].rsplit(":", 1)
        print(
            json.dumps(asyncio.run(loaded((host, int(port)), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
        )
        return
    parser = argparse.ArgumentParser(prog="python -m benches.transactions", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="of transactions and start; both without one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--ids", type=int, default=IDS)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--dir", default=None, help="where the data directories are; as the system says by default")
    options = parser.parse_args()
    kinds: list[type[Server]] = [Rota] if options.without_kafka else [Rota, Kafka]
    parts = {"transactions": transactions, "start": start}
    done = {name: part(kinds, options) for name, part in parts.items() if not options.parts or name in options.parts}
    if options.json:
        print(json.dumps(done))
        return
    for name, figures in done.items():
        print(name)
        for way, found in figures.items():
            shown = (
                f"{what} {statistics.median(all_):.1f} ({min(all_):.1f}-{max(all_):.1f})"
                for what, all_ in found.items()
            )
            print(f"  {way:22} {', '.join(shown)}")


if __name__ == "__main__":
    main()
