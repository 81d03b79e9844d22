"""Records the answers of a new Kafka with StandardAuthorizer: `python -m tests.acls.record HOST:PORT`.

`python -m tests.acls.record --classic HOST:PORT` records those of a broker with
`group.coordinator.rebalance.protocols=classic`.

The listener has SASL_PLAINTEXT with PLAIN, and the users admin (in super.users), ana and bob, whose passwords are their
names and `-secret`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.acls.asking import played
from tests.acls.steps import CLASSIC_STEPS
from tests.acls.user_steps import EVERY_STEP

RECORDED = Path(__file__).parent / "kafka-4.4.0.json"
RECORDED_CLASSIC = Path(__file__).parent / "kafka-4.4.0-classic.json"
PASSWORDS = {user: f"{user}-secret" for user in ("admin", "ana", "bob")}


def main() -> None:
    """Play the steps, and write the file."""
    host, port = sys.argv[-1].rsplit(":", 1)
    is_classic = "--classic" in sys.argv
    steps, recorded = (CLASSIC_STEPS, RECORDED_CLASSIC) if is_classic else (EVERY_STEP, RECORDED)
    answers = played((host, int(port)), PASSWORDS, steps)
    recorded.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
