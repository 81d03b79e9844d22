"""`rota demo`: real consumers, shown live."""

from __future__ import annotations

import importlib.util
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import rota
from rota import interrupts
from rota.addresses import address
from rota.exits import FAILED, INTERRUPTED, MISUSED, UNREACHABLE, fail, installs

DURATION_S = {False: 30.0, True: 60.0}
"""Without and with --cluster."""
CLEARED_WITHIN_S = 30.0
"""How long the demo may take to delete its topics and its group on a broker that was given."""


class Assignor(StrEnum):
    """The partition assignment strategies of the demo's consumers, by their names in librdkafka."""

    COOPERATIVE_STICKY = "cooperative-sticky"
    RANGE = "range"
    ROUNDROBIN = "roundrobin"


Duration = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=3600,
        metavar="SECONDS",
        help="Duration of the demo, unless the group is slower (default: 30, with --cluster 60).",
    ),
]
Cluster = Annotated[
    bool, typer.Option("--cluster", help="Run three servers and three members of etcd, and kill, pause and drain.")
]


ExactlyOnce = Annotated[
    bool, typer.Option("--exactly-once", help="Run transactional workers, and kill one in each phase of a transaction.")
]


def _security(file: Path | None) -> dict[str, Any]:
    """What a properties file says, as librdkafka has it."""
    if file is None:
        return {}
    from rota.client_properties import ClientSecurity, PropertyError

    try:
        return ClientSecurity.read(file).librdkafka()
    except PropertyError as error:
        fail(MISUSED, str(error))


def _checked(
    bootstrap_server: str | None, command_config: Path | None, cluster: bool, exactly_once: bool
) -> str | None:
    """Ends with MISUSED for options that do not fit. Returns the program of etcd, if it is needed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        fail(MISUSED, f"the demo needs the confluent-kafka client: {installs('demo')}")
    if bootstrap_server is not None:
        address("--bootstrap-server", bootstrap_server, 1)
        if cluster:
            fail(MISUSED, "--cluster starts servers of its own: leave out --bootstrap-server")
    elif command_config is not None:
        fail(MISUSED, "--command-config needs --bootstrap-server: the demo's own server is asked without TLS and SASL")
    if exactly_once and cluster:
        fail(MISUSED, "--exactly-once and --cluster are two demos: choose one")
    etcd = shutil.which("etcd") if cluster else None
    if cluster and etcd is None:
        fail(MISUSED, "--cluster needs etcd: install it (Debian: apt install etcd-server), or put it on the PATH")
    return etcd


def demo(
    duration: Duration = None,
    assignor: Annotated[Assignor, typer.Option(help="How the consumers share partitions.")] = (
        Assignor.COOPERATIVE_STICKY
    ),
    bootstrap_server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Use this broker instead of rota."),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --bootstrap-server: a properties file of Kafka clients: TLS, SASL."),
    ] = None,
    cluster: Cluster = False,
    exactly_once: ExactlyOnce = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines; the last one is the summary.")] = False,
) -> None:
    """Watch real consumers share 12 partitions while members join, leave, crash and resubscribe.

    Four confluent-kafka consumers, each in its own process, join a group one by one; one leaves, one is killed with
    SIGKILL, one switches its subscription; all commit offsets throughout.

    With --cluster eight consumers commit to three servers that share groups over etcd (docs/cluster.md), all on this
    machine. The group's coordinator is moved, killed, paused and drained, and the leader of etcd is killed.

    With --exactly-once three workers consume, produce and commit in transactions; one is killed before it produces, one
    between its records and its offsets, one between its offsets and the commit, and one in EndTxn. Exit code 0: a
    reader of committed records counts every input once. --duration and --assignor do not apply.

    Exit code 0: no generation had two owners of a partition, every stable group owned all partitions, and no
    acknowledged commit was lost, by the records of consumers and coordinator. 1: the last lines name the violation.
    2: usage error. 5: no broker answered.

    \b
    Examples:
      rota demo
      rota demo --json | tail -n 1
      rota demo --cluster
      rota demo --exactly-once
      rota demo --bootstrap-server 127.0.0.1:9092 --assignor range
    """
    etcd = _checked(bootstrap_server, command_config, cluster, exactly_once)
    if bootstrap_server is not None:
        interrupts.allow(CLEARED_WITHIN_S)
    from confluent_kafka import KafkaException

    from rota.demo import exactly_once_with, perform
    from rota.demo.stage import Settings
    from rota.demo.witness import UnreachableError

    duration_s = duration if duration is not None else DURATION_S[cluster]
    chosen_settings = Settings(duration_s, assignor.value, bootstrap_server, etcd, _security(command_config))
    try:
        result: Any = (exactly_once_with if exactly_once else perform)(chosen_settings, as_json=as_json)
    except KeyboardInterrupt:
        fail(INTERRUPTED, "interrupted; the consumers have ended")
    except KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        fail(FAILED, f"the broker at {bootstrap_server or 'rota itself'} did not do its part: {reason}")
    except TimeoutError:
        fail(FAILED, f"the broker at {bootstrap_server or 'rota itself'} did not answer: is it running?")
    except UnreachableError as error:
        fail(UNREACHABLE, str(error))
    except rota.RotaError as error:
        fail(FAILED, str(error))
    raise typer.Exit(0 if result.ok else FAILED)
