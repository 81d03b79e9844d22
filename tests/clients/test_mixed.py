"""Members of different families in one group: they agree on a protocol and read each other's metadata."""

from __future__ import annotations

import pytest

from .family import AIOKAFKA, JAVA, KAFKA_PYTHON, LIBRDKAFKA, ROTA, Family, need
from .scene import Scene, partitions_of

# The first member leads: its assignor computes everybody's shares.
MIXES: dict[str, tuple[str, tuple[Family, ...]]] = {
    "range: java leads": ("range", (JAVA, LIBRDKAFKA, KAFKA_PYTHON)),
    "range: librdkafka leads": ("range", (LIBRDKAFKA, AIOKAFKA, JAVA)),
    "range: kafka-python leads": ("range", (KAFKA_PYTHON, AIOKAFKA, LIBRDKAFKA)),
    "roundrobin: aiokafka leads": ("roundrobin", (AIOKAFKA, LIBRDKAFKA, KAFKA_PYTHON)),
    "cooperative: java leads": ("cooperative-sticky", (JAVA, LIBRDKAFKA, KAFKA_PYTHON)),
    "cooperative: librdkafka leads": ("cooperative-sticky", (LIBRDKAFKA, KAFKA_PYTHON, JAVA)),
    "cooperative: kafka-python leads": ("cooperative-sticky", (KAFKA_PYTHON, JAVA, LIBRDKAFKA)),
    "range: rota leads": ("range", (ROTA, JAVA, LIBRDKAFKA)),
    "range: java leads rota": ("range", (JAVA, ROTA, LIBRDKAFKA)),
    "roundrobin: rota leads": ("roundrobin", (ROTA, KAFKA_PYTHON, AIOKAFKA)),
    "cooperative: rota leads": ("cooperative-sticky", (ROTA, JAVA, LIBRDKAFKA)),
    "cooperative: java leads rota": ("cooperative-sticky", (JAVA, ROTA, LIBRDKAFKA)),
}


@pytest.mark.scenario("09 mixed group")
@pytest.mark.parametrize(
    "mix", [pytest.param(mix, marks=[pytest.mark.java] if JAVA in mixed[1] else []) for mix, mixed in MIXES.items()]
)
def test_families_share_one_group(scene: Scene, mix: str) -> None:
    assignor, families = MIXES[mix]
    need(*families)
    topic = scene.topic(6)
    members = []
    for family in families:
        members.append(scene.member(family, [topic], assignor))
        scene.settles(members, partitions_of(topic, 6))
    # The leader leaves: a member of another family computes the shares.
    members.pop(0).leave()
    scene.settles(members, partitions_of(topic, 6))
