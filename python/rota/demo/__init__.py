"""`rota demo`: real consumers form a group, and what they say about it is judged."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from rota.exits import complain

if TYPE_CHECKING:
    from rota.demo.exactly_once import Outcome
    from rota.demo.stage import Result, Settings


TERMINATED = 128 + signal.SIGTERM


def _terminate(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one would cut the tidying up short
    raise SystemExit(TERMINATED)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within, SIGTERM ends the main thread as SIGINT does: everything is tidied up, then the exit code is 143."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals, and only it may say what they do
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except SystemExit as ending:
        if ending.code == TERMINATED:
            complain("terminated; the consumers have ended")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def perform(settings: Settings, *, as_json: bool) -> Result:
    """Run the demo once, shown on stdout. Needs confluent-kafka (ImportError without it).

    Raises rota.RotaError if nothing answers at an address that was given, SystemExit(143) after a SIGTERM,
    KafkaException or TimeoutError if a broker refuses or fails to create the topics.
    """
    from rota.demo.stage import Stage
    from rota.demo.view import view

    with ended_by_sigterm(), view(as_json) as audience:
        if settings.etcd is not None:
            from rota.demo.cluster import play

            result = play(settings, settings.etcd, audience)
        elif settings.bootstrap_servers is not None:
            result = Stage(settings, None, audience).play()
        else:
            from rota.server import Server

            with Server() as server:
                result = Stage(settings, server, audience).play()
        audience.end(result)
    return result


def exactly_once_with(settings: Settings, *, as_json: bool) -> Outcome:
    """Run the demo of transactions once, shown on stdout. Raises as `perform` does."""
    from rota.demo.exactly_once import perform
    from rota.demo.witness import QUIET

    client = {**QUIET, **settings.security}
    if settings.bootstrap_servers is not None:
        client["bootstrap.servers"] = settings.bootstrap_servers
    with ended_by_sigterm():
        return perform(client, as_json)
