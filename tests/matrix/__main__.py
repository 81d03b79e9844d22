"""`python -m tests.matrix`: compare all cells with the core. With --rewrite write what it does into the files.
With --broker HOST:PORT play them on that broker and on a rota server, and print where the two differ. The broker needs
`group.initial.rebalance.delay.ms=0`.
"""

from __future__ import annotations

import argparse
import sys

import rota
from rota.transcript.core_subject import CoreSubject
from tests.matrix import brokers
from tests.matrix.matrix import Cell, compute, count_by, rewrite, states


def main() -> int:
    """Exit code 0 if every cell is as written (or was rewritten)."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help="write what happens into tests/matrix/cells")
    parser.add_argument("--broker", metavar="HOST:PORT", help="compare with this broker over the wire")
    options = parser.parse_args()
    if options.broker:
        return compare_with(options.broker)
    differing = 0
    cells: dict[str, list[Cell]] = {}
    for state in states():
        if options.rewrite:
            print("rewritten" if rewrite(state, CoreSubject) else "unchanged", state.path)
            cells[state.name] = state.cells
            continue
        cells[state.name] = compute(state, CoreSubject)
        for written, actual in zip(state.cells, cells[state.name], strict=True):
            if written != actual:
                differing += 1
                print(f"{state.name}: {written.column}\n  - {written.effects}\n  + {actual.effects}")
    total = sum(map(len, cells.values()))
    print(f"{total} cells in {len(cells)} states, {differing} differ")
    print(", ".join(f"{api} {count}" for api, count in count_by(cells, lambda cell: cell.column.split()[0]).items()))
    return 1 if differing else 0


def compare_with(broker: str) -> int:
    """Exit code 0 if every difference is a departure of docs/departures.md."""
    host, _, port = broker.rpartition(":")
    played = unexplained = 0
    departures: dict[str, int] = {}
    with rota.Server(settings={"group.initial.rebalance.delay.ms": 0}) as server:
        for cell in brokers.compare((host, int(port)), (server.host, server.port)):
            played += 1
            if cell.departure:
                departures[cell.departure] = departures.get(cell.departure, 0) + 1
            if cell.differs:
                unexplained += 1
                print(f"{cell.state}: {cell.column}\n  broker {cell.theirs}\n  rota   {cell.ours}")
    known = ", ".join(f"{name} {count}" for name, count in sorted(departures.items()))
    print(f"{played} cells on both; departures: {known or 'none'}; {unexplained} others differ")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
