"""A server process that hands partitions over all the time: `python -m tests.log.served DIR SEED [KEY=VALUE ...]`.

Prints one line of JSON with its addresses and what the start found, and then runs until it is killed.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys

import rota

PARTITIONS = 6
PARTITIONS_OF_ORDERS = 16


def main() -> None:
    directory, seed, *pairs = sys.argv[1:]
    chance = random.Random(int(seed))
    settings: dict[str, str | int | bool] = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": PARTITIONS,
        "offsets.topic.segment.bytes": 16_384,
        **dict(pair.split("=", 1) for pair in pairs),
    }
    with rota.Server(data=directory, nodes=2, settings=settings) as server:
        with contextlib.suppress(rota.RotaError):  # It is there since an earlier start.
            server.create_topic("orders", PARTITIONS_OF_ORDERS)
        report = server.start_report()
        assert report is not None
        print(json.dumps({"nodes": list(server.nodes().values()), "lines": report.lines}), flush=True)
        while True:
            server.move_partition(chance.randrange(PARTITIONS), chance.randint(1, 2))


if __name__ == "__main__":
    main()
