"""`__consumer_offsets` of a broker, read as a client and folded here: `rota audit --bootstrap-server`."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rota import _rota
from rota.audit.audit import Audit, Timing, Wanted, assembled
from rota.audit.logs import OFFSETS, OFFSETS_TOPIC, UNREADABLE
from rota.audit.others import other_of
from rota.audit.promises import Finding, Promised
from rota.audit.verdict import Verdict
from rota.exits import MISUSED, fail
from rota.groups.errors import GroupsError, Kind
from rota.groups.reading import read_spans

if TYPE_CHECKING:
    from rota.groups.cluster import Cluster

FETCH_BYTES = 4 << 20
SAID_EVERY_S = 1.0
STILL_S = 30.0
"""How long a partition may bring nothing before the rest of it counts as unreadable."""

BYTES = "deserializer=org.apache.kafka.common.serialization.BytesDeserializer"
AS_BYTES = f"--property print.offset=true --property print.key=true --property key.{BYTES} --property value.{BYTES}"
"""Prints records of all types, with what is no ASCII as numbers."""

Say = Callable[[str], None]


def exit_code_of(error: GroupsError) -> int:
    """Of an audit that ends with the error: records that a broker refuses or does not have could not be read."""
    # In an audit, 1 says that there are violations, and 3 that no group matches.
    return MISUSED if error.kind in {Kind.REFUSED, Kind.NOT_FOUND} else error.kind.exit_code


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """An error of a broker is one line on stderr, and the exit code of an audit."""
    try:
        yield
    except GroupsError as error:
        fail(exit_code_of(error), str(error))


class Reading:
    """One partition: the fold of its promises, up to the offset where it ended when reading began."""

    def __init__(self, partition: int, first_offset: int, end_offset: int) -> None:
        self.partition = partition
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.next_offset = first_offset
        self.others: set[str] = set()
        """The ids of groups that are not checked."""
        self._fold = _rota.AuditFold(False, True)

    @property
    def is_over(self) -> bool:
        """Whether everything has been read."""
        return self.next_offset >= self.end_offset

    def read(self, records: list[Any], position: int) -> None:
        """Records before the end in their order, and the offset that is next."""
        told = [(record.offset, record.timestamp, record.key, record.value) for record in records]
        count, columns = _rota.audit_decode(told, self.next_offset)
        self.others |= {other[1] for record in records if record.key and (other := other_of(record.key))}
        self._fold.rows(count, [(*buffers, 0) for buffers in columns])
        self.next_offset = position

    def ended(self, log: str) -> Promised:
        """The result. What was before the first record has been removed by the broker."""
        self._fold.end()
        rows, compacted, troubles, skipped = self._fold.tally()
        if not self.is_over:
            why = f"the broker sent nothing for {STILL_S:.0f} s, and the partition ends at {self.end_offset}"
            troubles.append((self.next_offset, UNREADABLE, why))
        findings = [Finding(*found) for found in self._fold.take()]
        place = (OFFSETS, log, self.partition, rows, compacted + self.first_offset)
        return Promised(*place, sorted(self._fold.groups()), findings, troubles, skipped)


def audit_broker(
    cluster: Cluster, bootstrap_servers: str, wanted: Wanted, progress: Say, still_s: float = STILL_S
) -> Audit:
    """Audit the group records of a cluster, from the earliest to those that are there now; what is in a transaction
    counts once it is committed. Raises GroupsError and NoGroupError."""
    partitions = partitions_of(cluster, bootstrap_servers)
    timing = Timing(progress)
    readings = _read(cluster, partitions, progress, still_s)
    found = assembled(
        wanted,
        [reading.ended(bootstrap_servers) for reading in readings],
        lambda: {name for reading in readings for name in reading.others},
    )
    found.verdicts = [with_command(bootstrap_servers, verdict) for verdict in found.verdicts]
    return timing.ended(found, len(readings))


def partitions_of(cluster: Cluster, bootstrap_servers: str) -> list[int]:
    """The partitions of the group records. Raises GroupsError if there are none."""
    partitions = cluster.partitions([OFFSETS_TOPIC]).get(OFFSETS_TOPIC)
    if not partitions:
        reason = f"{bootstrap_servers} has no topic {OFFSETS_TOPIC} that this client may read"
        raise GroupsError(Kind.NOT_FOUND, f"{reason}: no group has committed yet, or an ACL forbids it")
    return partitions


def with_command(bootstrap_servers: str, verdict: Verdict) -> Verdict:
    """The verdict with a command of Kafka's that prints its records."""
    formatter = "OffsetsMessageFormatter" if verdict.name == "offset went back" else "GroupMetadataMessageFormatter"
    shown = f"--formatter org.apache.kafka.tools.consumer.{formatter}"
    if verdict.id.startswith("C"):
        # Kafka 4.4 has no formatter for the records of consumer groups, and the others leave them out.
        shown = AS_BYTES
    command = (
        f"kafka-console-consumer.sh --bootstrap-server {shlex.quote(bootstrap_servers)} --topic {OFFSETS_TOPIC}"
        f" --partition {verdict.partition} --offset {verdict.first_offset}"
        f" --max-messages {verdict.last_offset - verdict.first_offset + 1}"
        f" {shown}"
    )
    return verdict._replace(reproduce=command)


def _read(cluster: Cluster, partitions: list[int], progress: Say, still_s: float) -> list[Reading]:
    from kafka import TopicPartition

    with cluster.consumer(FETCH_BYTES, isolation_level="read_committed") as consumer:
        places = [TopicPartition(OFFSETS_TOPIC, partition) for partition in partitions]
        first, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
        readings = {at: Reading(at.partition, first[at], end[at]) for at in places}
        total = sum(reading.end_offset - reading.first_offset for reading in readings.values())
        began_s = said_s = time.monotonic()

        def tell(read: int) -> None:
            nonlocal said_s
            if (now_s := time.monotonic()) - said_s >= SAID_EVERY_S:
                said_s = now_s
                rate = read / (now_s - began_s)
                left_s = (total - read) / max(rate, 1.0)
                progress(f"{read} of {total} offsets read, {rate:,.0f} a second, {left_s:.0f} s left")

        spans = {at: range(first[at], end[at]) for at in places}
        read_spans(consumer, spans, lambda at, *told: readings[at].read(*told), still_s, tell)
    return list(readings.values())
