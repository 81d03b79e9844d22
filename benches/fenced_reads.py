"""What `--reads fenced` costs: fetches of offsets with and without asking the engine first: `make bench-reads`.

`python -m benches.fenced_reads [--rounds N] [--json FILE] [ENGINE ...]`

ENGINE is etcd or postgresql; both, if they are installed, unless some are named. Server 1 answers while its session
lasts, server 2 asks the engine first. In turns one of them owns all partitions, and `commit_load` fetches a committed
offset over 1 and over 256 connections, one request at a time on each. etcd has three members, PostgreSQL a primary with
a synchronous standby, and all share the cores of this machine with servers and load.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from benches import cluster
from benches.cluster import CONNECTIONS, LOAD
from benches.high_availability import ENGINES, Figures, add, fleet_of, load

TTL_MS = 5_000
SESSION, FENCED = "session", "fenced"
SERVERS = {1: SESSION, 2: FENCED}
OVER = ("etcd", "postgresql")


def measured(engine: str, rounds: int) -> Figures:
    """Fetches a second, and milliseconds of one (`p50`, `p99`), by kind of read and number of connections."""
    fleet = fleet_of(engine, TTL_MS)
    fleet.servers[2].command += ["--reads", FENCED]
    found: Figures = {}
    with cluster.scene_of(fleet) as scene:
        scene.client.close()
        for _ in range(rounds):
            for node_id, kind in SERVERS.items():
                scene.own_all(node_id)
                for connections in (min(CONNECTIONS), max(CONNECTIONS)):
                    figures = load(fleet.addresses[node_id - 1], connections, "fetches")
                    add(found, figures, f", {kind}, {connections}")
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", choices=[[], *OVER], metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if not LOAD.exists():
        sys.exit(f"rota: {LOAD} is not there: `make bench-reads` builds it")
    kept = {}
    for engine in chosen.engines or [name for name in OVER if ENGINES[name][1]()]:
        kept[engine] = found = measured(engine, chosen.rounds)
        print(f"{ENGINES[engine][0]}: least, median and greatest of {chosen.rounds}")
        for name, values in found.items():
            low, middle, high = min(values), statistics.median(values), max(values)
            print(f"  {name:<24}{low:12,.2f}{middle:12,.2f}{high:12,.2f}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
