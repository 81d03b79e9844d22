"""Spark's way to what is new in `__consumer_offsets` of a broker: it is fetched where Spark plans a batch, and decoded
and folded by tasks, which need no way to the broker.

What a person has to hear goes to a file: what Spark's processes write to stderr is not shown.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from rota.audit.follow.tail import PARTITION_BYTES, LostError, Position, Tail
from rota.audit.live import exit_code_of
from rota.audit.logs import OFFSETS_TOPIC
from rota.exits import MISUSED
from rota.groups.errors import GroupsError, Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from rota.groups.fetching import Feed

AGAIN_S = 1.0
PATIENCE_S = 30.0
"""How long an audit that is to end waits for a broker."""
SERVERS, CONFIG, SAID = "bootstrapServers", "commandConfig", "said"

Result = TypeVar("Result")


class Broker(NamedTuple):
    """Where the topic is, and where to say what happens."""

    servers: str
    config: str
    """A properties file of Kafka clients, or ""."""
    said: str
    """A file of one JSON object a line: `says`, or `error` and `exit_code`; "": nothing is said."""

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Broker | None:
        """What the options of the data source name, if they name a broker."""
        if SERVERS not in options:
            return None
        return cls(options[SERVERS], options.get(CONFIG, ""), options.get(SAID, ""))

    def options(self) -> dict[str, str]:
        """The options of the data source that name this broker."""
        return {SERVERS: self.servers, CONFIG: self.config, SAID: self.said}

    def feed(self) -> Feed:
        """A connection. Raises GroupsError."""
        from rota.groups.fetching import ClusterFeed
        from rota.groups.options import TIMEOUT_MS, connected

        cluster = connected(self.servers, Path(self.config) if self.config else None, None, TIMEOUT_MS)
        return ClusterFeed(cluster, OFFSETS_TOPIC)

    def say(self, **said: Any) -> None:
        """Add a line to the file for the command that reads it."""
        if self.said:
            with Path(self.said).open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(said)}\n")


class EndedError(Exception):
    """Following ends; the file of what is said has the reason."""


class BrokerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new, up to so many bytes of each partition at once. A broker that goes away is waited for."""

    def __init__(self, broker: Broker, feed: Callable[[], Feed] | None = None) -> None:
        self.broker = broker
        self.feed = feed or broker.feed
        self.tail: Tail | None = None
        self.goal: dict[int, int] | None = None
        self.is_gone = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing has been read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """One answer of each broker."""
        return ReadMaxBytes(PARTITION_BYTES)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 - Spark's
        """How far the next batch reads: nowhere while there is no broker."""
        at = Position.of_plain(start)
        reached = self._asked(lambda tail: tail.reach(at, self.goal), is_needed=self.goal is not None)
        return start if reached is None or reached == at else reached.plain()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that is read."""
        # From now on patience has an end, too.
        self.goal = {}
        self.goal = self._asked(Tail.ends, is_needed=True)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What is between two positions."""
        first, last = Position.of_plain(start), Position.of_plain(end)
        chunks = self._asked(lambda tail: tail.chunks(first, last), is_needed=True)
        return [InputPartition(chunk) for chunk in chunks or ()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one chunk."""
        return iter(()) if partition.value is None else partition.value.rows()

    def stop(self) -> None:
        """End the connection."""
        self._drop()

    def _asked(self, ask: Callable[[Tail], Result], is_needed: bool) -> Result | None:
        """What the broker answers; None if it does not, and that is not needed. Raises EndedError."""
        since_s = time.monotonic()
        while True:
            try:
                if self.tail is None:
                    self.tail = Tail(self.broker.servers, self.feed(), lambda text: self.broker.say(says=text))
                answer = ask(self.tail)
            except LostError as error:
                raise self._ended(str(error), MISUSED) from error
            except GroupsError as error:
                if not _may_pass(error) or (self.goal is not None and time.monotonic() - since_s > PATIENCE_S):
                    raise self._ended(str(error), exit_code_of(error)) from error
                self._drop()
                if not self.is_gone:
                    self.is_gone = True
                    self.broker.say(says=f"{error}; waiting for {self.broker.servers}")
                if not is_needed:
                    return None
                threading.Event().wait(AGAIN_S)
            else:
                if self.is_gone:
                    self.is_gone = False
                    self.broker.say(says=f"{self.broker.servers} answers again")
                return answer

    def _drop(self) -> None:
        tail, self.tail = self.tail, None
        if tail is not None:
            tail.feed.close()

    def _ended(self, reason: str, exit_code: int) -> EndedError:
        self.broker.say(error=reason, exit_code=exit_code)
        return EndedError(reason)


def _may_pass(error: GroupsError) -> bool:
    """Whether it is worth while to ask again."""
    return error.kind in {Kind.UNREACHABLE, Kind.NOT_FOUND} or bool(getattr(error.__cause__, "retriable", False))
