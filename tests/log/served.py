"""A server process that hands partitions over all the time: `python -m tests.log.served DIR SEED [KEY=VALUE ...]`.

Prints one line of JSON with its addresses and what the start found, and then runs until it is killed. `DIR.moving` has
a 1 while a partition is handed over. Not settings: `move.every.ms`, how long it rests between two of those, `http`, the
port of groups and metrics (none without it), `journal`, where the coordinators' events are recorded, `tls`: clients
connect with TLS and trust the authority in the line, and `engine`: the groups are there, and nothing is handed over.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from functools import partial

import rota
from tests.clients.eventually import eventually

PARTITIONS = 6
PARTITIONS_OF_ORDERS = 16
JOINS_WITHIN_S = 30.0


def has(server: rota.Server, topic: str, partitions: int) -> bool:
    """Whether it has the topic now. One with an engine takes a while to join it, and creates none before."""
    try:
        server.create_topic(topic, partitions)
    except rota.RotaError as error:
        return "TOPIC_ALREADY_EXISTS" in str(error)
    return True


def main() -> None:
    directory, seed, *pairs = sys.argv[1:]
    chance = random.Random(int(seed))
    given = dict(pair.split("=", 1) for pair in pairs)
    rest_s = int(given.pop("move.every.ms", "0")) / 1_000
    http, journal = given.pop("http", None), given.pop("journal", None)
    tls = rota.Authority().tls() if given.pop("tls", "") else None
    engine = given.pop("engine", None)
    settings: dict[str, str | int | bool] = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": PARTITIONS,
        "offsets.topic.segment.bytes": 16_384,
        "log.retention.bytes": 32_768,
        **given,
    }
    with rota.Server(
        data=None if engine else directory,
        nodes=1 if engine else 2,
        engine=engine,
        node_id=1 if engine else None,
        settings=settings,
        http=http,
        journal=journal or False,
        tls=tls,
    ) as server:
        for topic, partitions in (("orders", PARTITIONS_OF_ORDERS), ("t", 1)):
            eventually(partial(has, server, topic, partitions), JOINS_WITHIN_S, f"the topic {topic}")
        report = server.start_report()
        assert (report is None) == (engine is not None)
        ready = {
            "nodes": list(server.nodes().values()),
            "lines": report.lines if report else [],
            "http": server.http_address,
            "ca": tls and tls.ca_text(),
        }
        print(json.dumps(ready), flush=True)
        moving = os.open(f"{directory}.moving", os.O_RDWR | os.O_CREAT, 0o600)
        rest = threading.Event()
        while not rest.wait(None if engine else rest_s):
            os.pwrite(moving, b"1", 0)
            server.move_partition(chance.randrange(PARTITIONS), chance.randint(1, 2))
            os.pwrite(moving, b"0", 0)


if __name__ == "__main__":
    main()
