"""`python -m tests.protocol.matrix`: compare all cells with the core. With --rewrite write what it does into the files.
`rota conform --only 'matrix/*'` asks a broker for them.
"""

from __future__ import annotations

import argparse
import sys

from rota.conform.matrix import CELLS, Cell, states
from rota.transcript.core_subject import CoreSubject
from tests.protocol.cells import compute, count_by, rewrite


def main() -> int:
    """Exit code 0 if every cell is as written (or was rewritten)."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.matrix", description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help=f"write what happens into {CELLS}")
    options = parser.parse_args()
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


if __name__ == "__main__":
    sys.exit(main())
