"""A server process that hands partitions over all the time: `python -m tests.log.served DIR SEED [KEY=VALUE ...]`.

Prints one line of JSON with its addresses and what the start found, and then runs until it is killed. `DIR.moving` has
a 1 while a partition is handed over. Not settings: `move.every.ms`, how long it rests between two of those, `http`, the
port of groups and metrics (none without it), `journal`, where the coordinators' events are recorded, and `tls`: clients
connect with TLS and trust the authority in the line.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading

import rota

PARTITIONS = 6
PARTITIONS_OF_ORDERS = 16


def main() -> None:
    directory, seed, *pairs = sys.argv[1:]
    chance = random.Random(int(seed))
    given = dict(pair.split("=", 1) for pair in pairs)
    rest_s = int(given.pop("move.every.ms", "0")) / 1_000
    http, journal = given.pop("http", None), given.pop("journal", None)
    tls = rota.Authority().tls() if given.pop("tls", "") else None
    settings: dict[str, str | int | bool] = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": PARTITIONS,
        "offsets.topic.segment.bytes": 16_384,
        "log.retention.bytes": 32_768,
        **given,
    }
    with rota.Server(
        data=directory, nodes=2, settings=settings, http=http, journal=journal or False, tls=tls
    ) as server:
        for topic, partitions in (("orders", PARTITIONS_OF_ORDERS), ("t", 1)):
            with contextlib.suppress(rota.RotaError):  # It is there since an earlier start.
                server.create_topic(topic, partitions)
        report = server.start_report()
        assert report is not None
        ready = {
            "nodes": list(server.nodes().values()),
            "lines": report.lines,
            "http": server.http_address,
            "ca": tls and tls.ca_text(),
        }
        print(json.dumps(ready), flush=True)
        moving = os.open(f"{directory}.moving", os.O_RDWR | os.O_CREAT, 0o600)
        rest = threading.Event()
        while not rest.wait(rest_s):
            os.pwrite(moving, b"1", 0)
            server.move_partition(chance.randrange(PARTITIONS), chance.randint(1, 2))
            os.pwrite(moving, b"0", 0)


if __name__ == "__main__":
    main()
