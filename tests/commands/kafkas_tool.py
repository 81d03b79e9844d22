"""kafka-consumer-groups, Kafka's own tool."""

from __future__ import annotations

from harness import kafka_tools

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def said(*options: object) -> list[str]:
    """The lines that it prints."""
    ended = kafka_tools.run(TOOL, *options)
    ended.check_returncode()
    return ended.stdout.splitlines()
