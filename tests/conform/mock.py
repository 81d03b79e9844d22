"""librdkafka's mock cluster of one broker for as long as standard input is open; it prints where it listens."""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Until the end of standard input."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 3})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
