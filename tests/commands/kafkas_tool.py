"""kafka-consumer-groups, Kafka's own tool."""

from __future__ import annotations

import subprocess
import sys

from tests.checks.tidy import ROOT

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def said(*options: object) -> list[str]:
    """The lines that it prints."""
    command = [sys.executable, ROOT / "benches/kafka/kafka", "tool", TOOL, *options]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()
