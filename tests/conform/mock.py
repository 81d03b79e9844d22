"""`python -m tests.conform.mock DELAY_MS`: librdkafka's mock cluster, in a process of its own.

confluent_kafka starts it with `test.mock.num.brokers`, but has no way to set its initial rebalance delay; so this asks
the library that comes with confluent_kafka. It prints where it listens, and ends with its standard input.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import confluent_kafka

PRODUCER, BROKERS = 0, 1
TEXT_BYTES = 512


def library() -> ctypes.CDLL:
    """The librdkafka of confluent_kafka's wheel."""
    beside = Path(confluent_kafka.__file__).parents[1]
    (found,) = beside.glob("confluent_kafka.libs/librdkafka*")
    loaded = ctypes.CDLL(str(found))
    for name in ("rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(loaded, name).restype = ctypes.c_void_p
    loaded.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return loaded


def main(delay_ms: int) -> None:
    """One broker, until standard input ends."""
    rdkafka = library()
    why = ctypes.create_string_buffer(TEXT_BYTES)
    client = rdkafka.rd_kafka_new(PRODUCER, None, why, TEXT_BYTES)
    if client is None:
        sys.exit(f"librdkafka did not start: {why.value.decode()}")
    cluster = ctypes.c_void_p(rdkafka.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), BROKERS))
    rdkafka.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, ctypes.c_int32(delay_ms))
    print(rdkafka.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
