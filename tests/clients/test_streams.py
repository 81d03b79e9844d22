"""Kafka Streams with `exactly_once_v2`, whose instances, and whose server, are killed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.brokers import free_port
from harness.process import ServerProcess, a_server_process

from .conftest import SETTINGS, existing_broker
from .scene import Scene
from .streams_application import running

pytestmark = [pytest.mark.slow, pytest.mark.java]

ROUNDS_MAX = 6
SERVERS_KILLED = 2


@pytest.mark.scenario("55 Kafka Streams, instances killed")
def test_counts_are_exact_though_instances_are_killed_in_transactions(scene: Scene, tmp_path: Path) -> None:
    with running(scene, tmp_path) as application:
        for killed in range(ROUNDS_MAX):
            application.give()
            application.is_at_work()
            application.kill(("ana", "ben")[killed % 2])
            application.is_done()
            print(f"{killed + 1} killed, {application.hidden()} copies not committed")
            if application.hidden():
                break
        else:
            pytest.fail(f"of {ROUNDS_MAX} kills none came in a transaction")


@pytest.mark.scenario("56 Kafka Streams, server killed")
def test_counts_are_exact_though_the_server_is_killed(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if existing_broker(request.config) is not None:
        pytest.skip("kills a server of its own")
    listen = f"127.0.0.1:{free_port()}"
    pairs = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with ExitStack() as ends:

        def serve() -> ServerProcess:
            return ends.enter_context(a_server_process("--data", str(tmp_path / "data"), *pairs, listen=listen))

        server = serve()
        scene = Scene(listen, tmp_path)
        ends.callback(scene.close)
        with running(scene, tmp_path) as application:
            for _ in range(SERVERS_KILLED):
                application.give()
                application.is_at_work()
                server.kill()
                server = serve()
                application.is_done()
