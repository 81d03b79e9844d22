"""Topics are real: what was produced comes back, whatever the codec; offsets can be found by time."""

from __future__ import annotations

import pytest

from .family import CODECS, FAMILIES, Family
from .scene import Scene

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
FETCH_WITHIN_MS = 20_000


@pytest.mark.scenario("10 round trip, every codec")
@every_family
@pytest.mark.parametrize("codec", CODECS)
def test_what_was_produced_comes_back_in_order(scene: Scene, family: Family, codec: str) -> None:
    if (missing := family.missing_codec(codec)) is not None:
        pytest.skip(missing)
    topic = scene.topic(1)
    client = scene.client(family)
    values = [f"value {i} " + "compressible " * 20 for i in range(50)]
    offsets = client.ask("produce", topic=topic, partition=0, values=values, compression=codec)["result"]
    assert offsets == list(range(50))
    fetched = client.ask("fetch", topic=topic, partition=0, count=50, within_ms=FETCH_WITHIN_MS)["result"]
    assert [(message["offset"], message["value"]) for message in fetched] == list(enumerate(values))


@pytest.mark.scenario("11 idempotent producer")
@every_family
def test_an_idempotent_producer_appends_each_message_once(scene: Scene, family: Family) -> None:
    topic = scene.topic(1)
    client = scene.client(family)
    for start in (0, 30):  # a producer (and producer id) of its own each time
        values = [f"value {i}" for i in range(start, start + 30)]
        offsets = client.ask("produce", topic=topic, partition=0, values=values, idempotent=True)["result"]
        assert offsets == list(range(start, start + 30))
    fetched = client.ask("fetch", topic=topic, partition=0, count=60, within_ms=FETCH_WITHIN_MS)["result"]
    assert [message["value"] for message in fetched] == [f"value {i}" for i in range(60)]


@pytest.mark.scenario("12 offsets by time")
@every_family
def test_the_offset_for_a_time_is_the_first_message_not_older(scene: Scene, family: Family) -> None:
    topic = scene.topic(1)
    client = scene.client(family)
    start_ms = 1_700_000_000_000
    stamps = [start_ms, start_ms + 1_000, start_ms + 2_000, start_ms + 3_000]
    client.ask("produce", topic=topic, partition=0, values=["a", "b"], timestamps_ms=stamps[:2])
    client.ask("produce", topic=topic, partition=0, values=["c", "d"], timestamps_ms=stamps[2:])
    asked = [start_ms - 1, start_ms, start_ms + 1, start_ms + 2_000, start_ms + 2_999, start_ms + 3_001]
    found = client.ask("offsets_for_times", topic=topic, partition=0, timestamps_ms=asked)["result"]
    assert found[:5] == [0, 0, 1, 2, 3]
    # Later than everything: None, or (librdkafka) the end offset's marker, which its program tells as None too.
    assert found[5] is None
