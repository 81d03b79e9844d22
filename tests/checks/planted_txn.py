"""`python -m tests.checks.planted_txn`: what the lockstep finds in the planted coordinator of transactions, as JSON.

It is started with the planted module on its path and a bug in its environment. Without a bug it takes all of its runs,
and finds nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rota.check.differential import volume
from rota.check.differential.walks import TRANSACTIONS
from tests.checks.planted_found import Found
from tests.checks.planting import TXN, variable
from tests.checks.tidy import ROOT

RUNS_MAX = 400


def differential() -> Found | None:
    """The first difference from the model on seeded runs, shortened."""
    taken = 0
    for seed in range(RUNS_MAX):
        steps, failure = volume.run(seed, walk=TRANSACTIONS)
        taken += steps
        if failure:
            return Found(taken, len(volume.shorten(failure).steps))
    return None


def found_in(module: Path, bug: str = "") -> Found | None:
    """What a process with this bug finds."""
    environment = os.environ | {variable(TXN): bug, "PYTHONPATH": f"{module}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.checks.planted_txn"]
    told = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    return Found(*found) if found else None


if __name__ == "__main__":
    print(json.dumps(differential()))
