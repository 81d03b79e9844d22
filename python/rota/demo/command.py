"""`rota demo`: real consumers, shown live."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from typing import Annotated

import typer

import rota
from rota.addresses import address
from rota.exits import FAILED, INTERRUPTED, MISUSED, fail


class Assignor(StrEnum):
    """The partition assignment strategies of the demo's consumers, by their names in librdkafka."""

    COOPERATIVE_STICKY = "cooperative-sticky"
    RANGE = "range"
    ROUNDROBIN = "roundrobin"


def demo(
    duration: Annotated[
        float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long to take, if the group is not slower.")
    ] = 30.0,
    assignor: Annotated[Assignor, typer.Option(help="How the consumers share partitions.")] = (
        Assignor.COOPERATIVE_STICKY
    ),
    bootstrap_server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Run it against this broker, Apache Kafka for one, instead of rota."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines; the last one is the summary.")] = False,
) -> None:
    """Watch real consumers share 12 partitions while members come, go, die and change their mind.

    Four confluent-kafka consumers, each in its own process, join a group one by one; one leaves, one is killed with
    SIGKILL, one switches its subscription; all commit offsets throughout.

    Exit code 0 means: no generation had two owners for a partition, every settled group owned all partitions,
    and no acknowledged commit was lost, by the consumers' own word and by the coordinator's. Otherwise it is 1,
    and the last lines say what went wrong.

    \b
    Examples:
      rota demo
      rota demo --json | tail -n 1
      rota demo --bootstrap-server 127.0.0.1:9092 --assignor range
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        fail(MISUSED, "the demo needs the confluent-kafka client: pip install 'rota[demo]'")
    if bootstrap_server is not None:
        address("--bootstrap-server", bootstrap_server, 1)
    from confluent_kafka import KafkaException

    from rota.demo import perform
    from rota.demo.stage import Settings

    chosen_settings = Settings(duration, assignor.value, bootstrap_server)
    try:
        result = perform(chosen_settings, as_json=as_json)
    except KeyboardInterrupt:
        fail(INTERRUPTED, "interrupted; the consumers have ended")
    except KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        fail(FAILED, f"the broker at {bootstrap_server or 'rota itself'} did not do its part: {reason}")
    except TimeoutError:
        fail(FAILED, f"the broker at {bootstrap_server or 'rota itself'} did not answer: is it running?")
    except rota.RotaError as error:
        fail(FAILED, str(error))
    raise typer.Exit(0 if result.ok else FAILED)
