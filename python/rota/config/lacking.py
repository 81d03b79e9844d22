"""Kafka's settings that rota does not have, and what it has instead."""

from __future__ import annotations

from collections.abc import Iterable

from rota._rota import nearest

NO_REPLICATION = "rota does not replicate partitions"
NO_CONTROLLER = "rota has no controllers and no ZooKeeper; several servers share groups with --engine URL"
BY_NODES = "rota has one thread for each node; --nodes N sets their number"
UNENCRYPTED = "rota reads PEM files whose keys are not encrypted"
INSTEAD = {
    "advertised.host.name": "rota has --advertise HOST:PORT",
    "advertised.port": "rota has --advertise HOST:PORT",
    "broker.id": "rota numbers its nodes from 1; a server of a cluster has --node-id N",
    "cleanup.policy": "it is a setting of topics, and rota does not compact them",
    "compression.type": "rota stores batches as the producer compressed them",
    "controller.listener.names": NO_CONTROLLER,
    "controller.quorum.bootstrap.servers": NO_CONTROLLER,
    "controller.quorum.voters": NO_CONTROLLER,
    "default.replication.factor": NO_REPLICATION,
    "delete.topic.enable": "clients can always delete topics",
    "host.name": "rota has --listen HOST:PORT",
    "log.cleanup.policy": "rota does not compact topics",
    "log.dir": "rota has --data DIR",
    "log.dirs": "rota has --data DIR",
    "log.retention.hours": "rota has `log.retention.ms`",
    "log.retention.minutes": "rota has `log.retention.ms`",
    "metadata.log.dir": "rota has --data DIR",
    "min.insync.replicas": NO_REPLICATION,
    "node.id": "rota numbers its nodes from 1; a server of a cluster has --node-id N",
    "num.io.threads": BY_NODES,
    "num.network.threads": BY_NODES,
    "num.replica.fetchers": NO_REPLICATION,
    "offsets.topic.replication.factor": NO_REPLICATION,
    "port": "rota has --listen HOST:PORT",
    "process.roles": NO_CONTROLLER,
    "sasl.enabled.mechanisms": "rota has --sasl MECHANISM,...",
    "security.inter.broker.protocol": "rota has `inter.broker.listener.name`",
    "ssl.key.password": UNENCRYPTED,
    "ssl.keystore.password": UNENCRYPTED,
    "ssl.truststore.password": UNENCRYPTED,
    "transaction.state.log.min.isr": NO_REPLICATION,
    "transaction.state.log.replication.factor": NO_REPLICATION,
    "unclean.leader.election.enable": NO_REPLICATION,
    "zookeeper.connect": NO_CONTROLLER,
}
UNITS = {"ms", "bytes", "enable", "max", "min"}
"""Words that names have in common without being about the same thing."""
LISTED_MAX = 3


def hint(name: str, known: Iterable[str]) -> str:
    """What to do about a name that is not known, as the end of a sentence about it."""
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    names = list(known)
    found = nearest(name, names)
    if found is not None:
        return f"; the nearest one is `{found}`"
    words = set(name.split(".")) - UNITS
    # The sort keeps the order of equal ones.
    alike = sorted((each for each in names if words & set(each.split("."))), key=lambda each: -shared(words, each))
    if not alike:
        return "; `rota config show` and `rota settings` list them"
    return f"; the nearest are {', '.join(f'`{each}`' for each in alike[:LISTED_MAX])}"


def shared(words: set[str], name: str) -> int:
    """How many of the words a name has."""
    return len(words & set(name.split(".")))
