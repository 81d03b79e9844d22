"""Where other brokers are, and ports for them."""

from __future__ import annotations

import random
import socket

from harness.builds import ROOT

KAFKA = ROOT / "benches" / "kafka" / "kafka"
# Brokers of tests end soon: to compile well would cost more than it gains.
KAFKA_JVM = {"ROTA_KAFKA_JVM": "-Xmx1g -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
KFAKE = ROOT / "tests" / "conform" / "kfake"


def free_port() -> int:
    """A free port whose successor is free, too.

    It is below the ports that the kernel gives to connections: one of these could be taken before the broker listens.
    """
    for port in random.sample(range(20_000, 32_000, 2), 100):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no free port between 20,000 and 32,000")
