"""One test's topics, group and clients, with unique names, on one broker."""

from __future__ import annotations

import itertools
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

import rota
from rota.security import client_config

from .client import Client, Owned
from .eventually import eventually
from .family import Family

SETTLE_WITHIN_S = 30
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 300
METADATA_MAX_AGE_MS = 500
ADMIN_TIMEOUT_S = 15


class Scene:
    """Starts clients and waits for what they should come to own."""

    def __init__(
        self, bootstrap: str, logs: Path, server: rota.Server | None = None, security: dict[str, Any] | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self._server = server
        self._security = security or {}
        self.name = f"t{uuid.uuid4().hex[:12]}"
        self.group = f"g-{self.name}"
        self.clients: list[Client] = []
        self._logs = logs
        self._names = (f"c{i}" for i in itertools.count(1))
        self._admin = AdminClient(client_config("librdkafka", bootstrap, **self._security))

    def close(self) -> None:
        for client in self.clients:
            client.stop()
        del self._admin  # it would look for a server that is gone

    def topic(self, partitions: int, suffix: str = "") -> str:
        """A new topic that the broker's metadata has; its name starts with the scene's."""
        name = f"{self.name}{suffix}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(ADMIN_TIMEOUT_S)

        def visible() -> bool:
            found = self._admin.list_topics(name, ADMIN_TIMEOUT_S).topics[name]
            return found.error is None and len(found.partitions) == partitions

        eventually(visible, ADMIN_TIMEOUT_S, f"topic {name} is in the metadata")
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """Raises the topic's number of partitions to `partitions`."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(ADMIN_TIMEOUT_S)

    def delete(self, topic: str) -> None:
        """Deletes the topic."""
        self._admin.delete_topics([topic])[topic].result(ADMIN_TIMEOUT_S)

    def configure(self, name: str, value: str) -> None:
        """Sets a setting of the scene's group; only the newer protocol has some."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, self.group, incremental_configs=[entry])
        (changed,) = self._admin.incremental_alter_configs([resource]).values()
        changed.result(ADMIN_TIMEOUT_S)

    def type(self) -> ConsumerGroupType:
        """The protocol of the scene's group."""
        listed = self._admin.list_consumer_groups(request_timeout=ADMIN_TIMEOUT_S).result().valid
        found: ConsumerGroupType = next(group.type for group in listed if group.group_id == self.group)
        return found

    def client(self, family: Family) -> Client:
        """A client process that has not been asked for anything yet."""
        name = f"{family.name}-{next(self._names)}"
        client = Client(family, name, self.bootstrap, self._logs / f"{name}.log", self._security)
        self.clients.append(client)
        return client

    def send_consume(
        self, client: Client, topics: list[str], assignor: str = "range", pattern: str | None = None, **settings: Any
    ) -> None:
        """Asks a client to join the scene's group, without waiting for its reply."""
        defaults = {
            "group": self.group,
            "topics": topics,
            "pattern": pattern,
            "assignor": assignor,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
            "poll_ms": client.family.poll_ms,
            "group_protocol": "classic",
            "instance_id": None,
            "max_poll_interval_ms": None,
            "keeps_revoked": False,
        }
        client.send("consume", **(defaults | settings))

    def member(
        self, family: Family, topics: list[str], assignor: str = "range", pattern: str | None = None, **settings: Any
    ) -> Client:
        """A client that joins the scene's group."""
        client = self.client(family)
        self.send_consume(client, topics, assignor, pattern, **settings)
        reply = client.reply()
        assert reply["ok"], f"{client!r} could not subscribe: {reply['error']}"
        return client

    def settles(self, members: list[Client], partitions: Owned, within_s: float = SETTLE_WITHIN_S) -> None:
        """Waits until the members own all the partitions, each partition once and each member some."""

        def shared() -> bool:
            shares = [member.owned for member in members]
            assert not any(member.ended for member in members), f"a client's program ended\n{self.story(members)}"
            whole = frozenset().union(*shares) == partitions and sum(map(len, shares)) == len(partitions)
            return whole and all(shares)

        eventually(
            shared,
            within_s,
            f"{members} own the {len(partitions)} partitions, each once",
            lambda: self.story(members),
        )

    def callback_after(self, member: Client, before: int, members: list[Client]) -> tuple[str, Owned]:
        """Waits for a callback of a member that had `before` of them, and returns it."""
        return eventually(
            lambda: member.callbacks()[before:],
            SETTLE_WITHIN_S,
            f"{member!r} has a callback",
            lambda: self.story(members),
        )[0]

    def generation(self) -> int | None:
        """The group's generation; None before the group exists, and on a broker that cannot be asked for it."""
        if self._server is None:
            return None
        try:
            return self._server.explain(self.group).generation
        except rota.NotFoundError:
            return None

    def story(self, members: list[Client]) -> str:
        owned = "\n".join(f"  {member!r} owns {sorted(member.owned)}" for member in members)
        return "\n".join([owned, *(member.story() for member in members)])


def partitions_of(topic: str, count: int) -> Owned:
    return frozenset((topic, partition) for partition in range(count))
