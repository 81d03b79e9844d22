"""What rota does not have ends a client's attempt at once, by name, and for good; nothing spins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .client import Client
from .eventually import eventually
from .family import FAMILIES, Family
from .scene import Scene

WITHIN_MS = 20_000
QUIET_WINDOW_S = 2.0

WITH_CONSUMER_PROTOCOL = [family for family in FAMILIES if family.has_consumer_protocol]


def assert_at_rest(client: Client) -> None:
    """Fails if the client is busy or goes on reporting errors after it was refused."""
    before_s, told = client.cpu_s(), len(client.of_kind("error"))
    # A window to look at, not a wait for something.
    with pytest.raises(AssertionError):
        eventually(lambda: client.cpu_s() - before_s > QUIET_WINDOW_S / 2, QUIET_WINDOW_S, "the client spins")
    assert len(client.of_kind("error")) - told <= 2, client.story()


@pytest.mark.scenario("17 consumer protocol refused")
@pytest.mark.parametrize("family", WITH_CONSUMER_PROTOCOL, ids=lambda family: family.name)
def test_a_consumer_of_the_newer_protocol_is_refused_by_name_where_that_is_switched_off(
    scene_with: Callable[[dict[str, str]], Scene], family: Family
) -> None:
    scene = scene_with({"group.coordinator.rebalance.protocols": "classic"})
    topic = scene.topic(1)
    client = scene.client(family)
    scene.send_consume(client, [topic], group_protocol="consumer")
    assert client.reply()["ok"]
    error = eventually(
        lambda: [e for e in client.of_kind("error") if e["fatal"]], WITHIN_MS / 1000 / 2, "a fatal error", client.story
    )[0]
    print(f"{family.name}: {error}")
    # Kafka's words when its consumer protocol is switched off: UNSUPPORTED_VERSION.
    assert "support" in error["text"], error
    assert_at_rest(client)
