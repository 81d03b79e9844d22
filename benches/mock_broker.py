"""librdkafka's mock broker for as long as standard input is open: prints where it listens."""

import sys

from confluent_kafka import Producer

if __name__ == "__main__":
    keeper = Producer({"test.mock.num.brokers": 1})
    (broker,) = keeper.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()
