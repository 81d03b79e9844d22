"""`rota audit` as `python -m rota.audit`, and as the job of `spark-submit` (docs/audit-cluster.md)."""

from __future__ import annotations

import sys

from rota.__main__ import run as run_command


def run() -> None:
    """The arguments of the process are those of `rota audit`."""
    sys.argv.insert(1, "audit")
    run_command()


if __name__ == "__main__":
    run()
